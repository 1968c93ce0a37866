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

SMALL = (784, 300, 100, 10)
WIDE = (784, 2500, 2000, 1500, 1000, 500, 10)
CASES = [(WIDE, 16384, "fp32"), (WIDE, 4096, "tf32"), (WIDE, 4096, "fp32"), (WIDE, 16384, "tf32"),
         (SMALL, 1024, "fp32"), (SMALL, 4096, "fp32"), (SMALL, 1024, "tf32"), (SMALL, 4096, "tf32")]
EPOCHS = 5
RATE = 0.01


def start(sizes):
    """(parameters, momenta) of the network, He's uniform weights."""
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(1)
    parameters = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        limit = (6 / inputs) ** 0.5
        weights = random.uniform(-limit, limit, (outputs, inputs)).astype(np.float32)
        parameters.append((jnp.asarray(weights), jnp.zeros(outputs, jnp.float32)))
    return parameters, [(jnp.zeros_like(w), jnp.zeros_like(b)) for w, b in parameters]


def make_epoch(mesh, count, rows, batch, classes):
    """epoch(state, key, x, y) -> state, compiled for the devices of the mesh."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    whole = rows // batch * batch

    def loss(parameters, x, y, all_rows):
        chances = jax.nn.log_softmax(peers.jax_logits(parameters, x))
        hot = y[:, None] == jnp.arange(classes)[None, :]
        return -jnp.where(hot, chances, 0).sum() / all_rows

    def epoch(state, key, x, y):
        mine = jax.lax.axis_index("gpu")

        def step(state, step_rows):
            parameters, momenta = state
            part = step_rows.reshape(count, -1)[mine]
            gradients = jax.grad(loss)(parameters, x[part], y[part], len(step_rows))
            gradients = jax.lax.psum(gradients, "gpu")
            momenta = jax.tree.map(lambda v, g: peers.MOMENTUM * v + g, momenta, gradients)
            parameters = jax.tree.map(lambda p, v: p - RATE * v, parameters, momenta)
            return (parameters, momenta), None

        order = jax.random.permutation(key, rows)
        state, _ = jax.lax.scan(step, state, order[:whole].reshape(-1, batch))
        return state if whole == rows else step(state, order[whole:])[0]

    nothing = PartitionSpec()
    shared = jax.shard_map(epoch, mesh=mesh, in_specs=(nothing,) * 4, out_specs=nothing,
                           check_vma=False)
    return jax.jit(shared, donate_argnums=0)


def measure(sizes, batch, precision, count, data):
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_default_matmul_precision",
                      "default" if precision == "tf32" else "highest")
    mesh = Mesh(np.array(jax.devices()[:count]), ("gpu",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    x, y = (jax.device_put(array, everywhere) for array in data)
    state = jax.device_put(start(sizes), everywhere)
    keys = iter(list(jax.random.split(jax.random.key(1), EPOCHS + 1)))
    run = make_epoch(mesh, count, len(x), batch, sizes[-1])

    def epoch():
        nonlocal state
        state = run(state, jax.device_put(next(keys), everywhere), x, y)

    return peers.time_epochs(epoch, lambda: jax.block_until_ready(state), EPOCHS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=40, help="start no case after this [40]")
    parser.add_argument("--ranks", default="1 2", help="numbers of GPUs [1 2]")
    arguments = parser.parse_args()
    began = time.monotonic()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    data = peers.read_rows()[:2]
    for sizes, batch, precision in CASES:
        for count in map(int, arguments.ranks.split()):
            line = {"who": "JAX", "network": "-".join(map(str, sizes)), "precision": precision,
                    "batch": batch, "ranks": count}
            try:
                if time.monotonic() - began > arguments.seconds:
                    raise TimeoutError("no time was left")
                if count > len(jax.devices()):
                    raise RuntimeError(f"JAX finds {len(jax.devices())} GPUs")
                seconds = sorted(measure(sizes, batch, precision, count, data))
                line.update(rows=len(data[0]), ms=1e3 * seconds[len(seconds) // 2],
                            ms_min=1e3 * seconds[0], ms_max=1e3 * seconds[-1], epochs=len(seconds))
            except Exception as failure:  # the other cases go on
                line["reason"] = f"{type(failure).__name__}: {failure}"[:200]
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
