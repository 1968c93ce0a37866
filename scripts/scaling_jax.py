#!/usr/bin/env python3
"""Times data parallel training epochs in JAX, for scripts/scaling.sh.

The networks, batches and optimiser of that script, rows and clock of compare_peers.py: every GPU
has all rows, takes its part of each step's (jax.shard_map), and the gradients are summed (psum). An
epoch is one lax.scan and its short last step. Prints one JSON object a line; a case that fails is a
line with its reason, and none is started when the time is up.
"""
import argparse
import json
import os
import sys
import time

import compare_peers as peers

SMALL, WIDE = peers.HIDDEN, peers.WIDE[-1]
CASES = [(WIDE, 16384, "fp32"), (WIDE, 4096, "tf32"), (WIDE, 4096, "fp32"), (WIDE, 16384, "tf32"),
         (SMALL, 1024, "fp32"), (SMALL, 4096, "fp32"), (SMALL, 1024, "tf32"), (SMALL, 4096, "tf32")]
EPOCHS = 5
RATE = 0.01


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=40, help="start no case after this [40]")
    parser.add_argument("--ranks", default="1 2", help="numbers of GPUs [1 2]")
    arguments = parser.parse_args()
    began = time.monotonic()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    data = peers.read_rows()[:2]
    for hidden, batch, precision in CASES:
        for count in map(int, arguments.ranks.split()):
            line = {"who": "JAX", "network": "-".join(map(str, (peers.INPUTS, *hidden, peers.CLASSES))),
                    "precision": precision, "batch": batch, "ranks": count}
            try:
                if time.monotonic() - began > arguments.seconds:
                    raise TimeoutError("no time was left")
                if count > len(jax.devices()):
                    raise RuntimeError(f"JAX finds {len(jax.devices())} GPUs")
                mesh = jax.make_mesh((count,), ("gpu",), devices=jax.devices()[:count])
                everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
                x, y = (jax.device_put(array, everywhere) for array in data)
                seconds = sorted(peers.measure_jax(x, y, hidden, batch, precision, RATE, EPOCHS, mesh)[0])
                line.update(rows=len(x), ms=1e3 * seconds[len(seconds) // 2],
                            ms_min=1e3 * seconds[0], ms_max=1e3 * seconds[-1], epochs=len(seconds))
            except Exception as failure:  # the other cases go on
                line["reason"] = f"{type(failure).__name__}: {failure}"[:200]
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
