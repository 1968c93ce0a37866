#!/usr/bin/env python3
"""Times training epochs in PyTorch or JAX, as mlp-bench does for mlp-train.

Networks (ReLU, He's uniform initial weights), rows, batches, loss (mean cross-entropy) and optimiser (SGD with momentum)
are the same as in mlp-bench. The device makes a new permutation of the rows every epoch. The last batch is short if the
rows do not divide evenly. Several networks at once use JAX's vmap; each network has its own order of rows, and the time
printed is per network. The rows are on the GPU as float32 before the clock starts. Losses are not summed. Times are wall
clock times from making the permutation until the GPU has finished.

Prints JSON lines with the keys of mlp-bench, but `peer` in place of `fusion`. If a case fails, its line has the reason.
"""
import argparse
import collections
import concurrent.futures
import importlib.metadata
import itertools
import json
import math
import os
import statistics
import sys
import time

del sys.path[0]  # the profile.py beside this file would hide the module profile, which PyTorch imports

INPUTS, CLASSES = 784, 10
MOMENTUM = 0.9
EPOCHS = 9  # number of timed epochs
START = time.monotonic()

Case = collections.namedtuple("Case", "hidden batch networks precision")


def read_sets(*names):
    """Yields the pixels (rows, 784), from 0 to 1, and the labels (rows) of each set."""
    import numpy as np

    for name in names:
        table = np.loadtxt(f"data/mnist_{name}.csv", np.uint8, delimiter=",")
        yield from (table[:, 1:].astype(np.float32) / 255, table[:, 0].astype(np.int32))


def initial_parameters(hidden):
    """Returns [(W (out, in), b (out)), ...]. Weights are uniform in ±sqrt(6 / in), biases are 0."""
    import numpy as np

    random = np.random.default_rng(1)
    layers = []
    for inputs, outputs in zip((INPUTS, *hidden), (*hidden, CLASSES)):
        limit = math.sqrt(6 / inputs)
        weights = random.uniform(-limit, limit, (outputs, inputs)).astype(np.float32)
        layers.append((weights, np.zeros(outputs, np.float32)))
    return layers


def write(**line):
    """Prints a line like src/measure/record.c: numbers have seven digits, and keys without a value are left out."""
    short = {key: float(f"{value:.7g}") if isinstance(value, float) else value
             for key, value in line.items() if value is not None}
    print(json.dumps(short, separators=(",", ":")), flush=True)


def reason_of(failure):
    return " ".join(f"{type(failure).__name__}: {failure}".split())[:300]


def time_epochs(epoch):
    """Returns the seconds of each of EPOCHS calls, which wait for the GPU. One call before them is not timed."""
    seconds = []
    for _ in range(EPOCHS + 1):
        start = time.perf_counter()
        epoch()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def learning_rate(case):
    """The rule of src/bench/levels.c."""
    return 0.1 * min(1, 0.5 * math.sqrt(case.batch / 64))


def run_cases(cases, most_seconds, peer, rows, measure):
    """Calls measure(case), which returns (seconds of EPOCHS epochs, test accuracy). If a case fails, the others run."""
    for i, case in enumerate(cases):
        if time.monotonic() - START > most_seconds:
            write(case="epoch", peer=peer, reason=f"no time was left for {len(cases) - i} of {len(cases)} cases (--seconds)")
            return
        print("compare_peers:", peer, *case, file=sys.stderr, flush=True)
        line = {"case": "epoch", "peer": peer, **case._asdict(), "hidden": ",".join(map(str, case.hidden)) or "none"}
        try:
            seconds, accuracy = measure(case)
            ms = [1e3 * time / case.networks for time in seconds]
            write(**line, epochs=EPOCHS, ms_per_epoch=statistics.median(ms), min_ms=min(ms), max_ms=max(ms),
                  us_per_step=1e3 * statistics.median(ms) / -(-rows // case.batch), test_accuracy=accuracy)
        except Exception as failure:  # a failed case does not stop the other cases
            write(**line, reason=reason_of(failure))


def prepare_torch(_):
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch finds no GPU")
    x, y, test_x, test_y = (torch.from_numpy(array).to("cuda") for array in read_sets("train", "test"))
    y, test_y = y.long(), test_y.long()

    def measure(case):
        torch.compiler.reset()
        torch.set_float32_matmul_precision("high" if case.precision == "tf32" else "highest")
        layers = []
        for weights, biases in initial_parameters(case.hidden):
            linear = torch.nn.Linear(weights.shape[1], weights.shape[0], device="cuda")
            linear.load_state_dict({"weight": torch.from_numpy(weights), "bias": torch.from_numpy(biases)})
            layers += [linear, torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1])
        optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate(case), momentum=MOMENTUM, fused=True)
        order = torch.randperm(len(x), device="cuda")

        def loss(pixels, labels):
            return torch.nn.functional.cross_entropy(model(pixels), labels)

        loss_of = torch.compile(loss, dynamic=False)

        def steps(firsts):
            for first in firsts:
                rows = order[first:first + case.batch]
                optimiser.zero_grad(set_to_none=True)
                loss_of(x[rows], y[rows]).backward()
                optimiser.step()

        # Before the capture, a few steps make PyTorch compile for full and short batches, and allocate
        # the momenta.
        all_steps = range(0, len(x), case.batch)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            steps((0, 0, 0, all_steps[-1], all_steps[-1]))
        torch.cuda.current_stream().wait_stream(side)
        optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            steps(all_steps)

        def epoch():
            order.copy_(torch.randperm(len(x), device="cuda"))
            graph.replay()
            torch.cuda.synchronize()

        seconds = time_epochs(epoch)
        with torch.no_grad():
            return seconds, (model(test_x).argmax(dim=1) == test_y).float().mean().item()

    return len(x), measure


def prepare_jax(cases):
    import jax
    import jax.numpy as jnp

    if jax.devices()[0].platform != "gpu":
        raise RuntimeError("JAX finds no GPU")
    x, y, test_x, test_y = map(jax.device_put, read_sets("train", "test"))

    def logits_of(parameters, x):
        for weights, biases in parameters[:-1]:
            x = jax.nn.relu(x @ weights.T + biases)
        weights, biases = parameters[-1]
        return x @ weights.T + biases

    def loss(parameters, x, y):
        chances = jax.nn.log_softmax(logits_of(parameters, x))
        hot = y[:, None] == jnp.arange(CLASSES)[None, :]
        return -jnp.where(hot, chances, 0).sum() / len(x)

    def initial_state(case):
        parameters = [tuple(map(jnp.asarray, layer)) for layer in initial_parameters(case.hidden)]
        if case.networks > 1:
            parameters = jax.tree.map(lambda a: jnp.broadcast_to(a, (case.networks, *a.shape)), parameters)
        return parameters, jax.tree.map(jnp.zeros_like, parameters)

    def keys_of(case):
        """A key per epoch and network."""
        shape = (EPOCHS + 1, case.networks) if case.networks > 1 else (EPOCHS + 1,)
        return list(jax.random.split(jax.random.key(1), shape))

    def compile_epoch(case):
        whole = len(x) // case.batch * case.batch
        rate = learning_rate(case)

        def run(state, key, x, y):
            def step(state, batch_rows):
                parameters, momenta = state
                gradients = jax.grad(loss)(parameters, x[batch_rows], y[batch_rows])
                momenta = jax.tree.map(lambda m, g: MOMENTUM * m + g, momenta, gradients)
                return (jax.tree.map(lambda p, m: p - rate * m, parameters, momenta), momenta), None

            order = jax.random.permutation(key, len(x))
            state, _ = jax.lax.scan(step, state, order[:whole].reshape(-1, case.batch))
            return state if whole == len(x) else step(state, order[whole:])[0]

        if case.networks > 1:
            run = jax.vmap(run, in_axes=(0, 0, None, None))
        # JAX's default precision on a GPU with tensor cores is tf32.
        with jax.default_matmul_precision("default" if case.precision == "tf32" else "highest"):
            return jax.jit(run, donate_argnums=0).lower(initial_state(case), keys_of(case)[0], x, y).compile()

    # XLA compiles for some ten seconds per case, mostly on one core. So all cases compile at once, before the first is
    # timed. XLA times its candidates for a product one after the other, whoever asks for them.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        epochs = {case: pool.submit(compile_epoch, case) for case in cases}

    def measure(case):
        run = epochs[case].result()
        state, keys = initial_state(case), iter(keys_of(case))

        def epoch():
            nonlocal state
            state = jax.block_until_ready(run(state, next(keys), x, y))

        seconds = time_epochs(epoch)
        if case.networks > 1:
            return seconds, None
        return seconds, float((logits_of(state[0], test_x).argmax(axis=1) == test_y).mean())

    return len(x), measure


# Per framework: its name, what is measured, and a function of the cases that returns (rows, measure) for run_cases.
FRAMEWORKS = {"jax": ("JAX", "epoch in one lax.scan", prepare_jax),
              "torch": ("PyTorch", "torch.compile, epoch in one graph", prepare_torch)}


def numbers(text):
    return () if text == "none" else tuple(map(int, text.split(",")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("--seconds", type=float, default=200, help="start no case after this [200]")
    parser.add_argument("--hidden", default="300,100", type=lambda text: list(map(numbers, text.split(":"))),
                        help="hidden layers of each network, as 300,100:128:512,512 [300,100]")
    parser.add_argument("--batches", default="64,256,1024,4096", type=numbers,
                        help="rows of a step [64,256,1024,4096]")
    parser.add_argument("--networks", default="1", type=numbers, help="networks at once [1]")
    arguments = parser.parse_args()
    if arguments.framework == "torch":
        arguments.networks = (1,)
    cases = [Case(*case) for case in itertools.product(arguments.hidden, arguments.batches, arguments.networks,
                                                       ("fp32", "tf32"))]
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    name, what, prepare = FRAMEWORKS[arguments.framework]
    try:
        write(case="peers", name=f"{name} {importlib.metadata.version(arguments.framework)}",
              command=" ".join(["scripts/compare_peers.py", *sys.argv[1:]]))
        run_cases(cases, arguments.seconds, f"{name}, {what}", *prepare(cases))
    except importlib.metadata.PackageNotFoundError:
        write(case="epoch", peer=name, reason="not installed")
    except Exception as failure:  # such as a missing GPU
        write(case="epoch", peer=name, reason=reason_of(failure))


if __name__ == "__main__":
    main()
