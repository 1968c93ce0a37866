#!/usr/bin/env python3
"""Times training epochs in PyTorch or JAX, as mlp-bench does of mlp-train.

Same networks (ReLU, He's uniform start), rows, batches and optimiser (SGD with momentum, mean cross-entropy), a new
permutation of the rows on the device every epoch, a short last batch where it comes out so. Several networks at once are
JAX's vmap, each in an order of its own; their time is that of one. The rows lie on the GPU as float32 before the clock
starts, and no losses are summed. Times are wall clock from the drawing of the permutation until the GPU has finished.

Prints JSON lines with the keys of mlp-bench's, `peer` in place of `fusion`, or with the reason why a case failed.
"""
import argparse
import collections
import importlib.metadata
import json
import math
import os
import statistics
import sys
import time

INPUTS, CLASSES = 784, 10
MOMENTUM = 0.9
PRECISIONS = ("fp32", "tf32")
EPOCHS = 9  # that are timed

COMPILED = "PyTorch, torch.compile, epoch in one graph"
SCAN = "JAX, epoch in one lax.scan"


def learning_rate(case):
    """The rule of src/bench/levels.c."""
    return 0.1 * min(1, 0.5 * math.sqrt(case.batch / 64))


def read_sets(*names):
    """Of each: pixels (rows, 784) from 0 to 1, labels (rows)."""
    import numpy as np

    for name in names:
        table = np.loadtxt(f"data/mnist_{name}.csv", np.uint8, delimiter=",")
        yield from (table[:, 1:].astype(np.float32) / 255, table[:, 0].astype(np.int32))


def initial_parameters(hidden):
    """[(W (out, in), b (out)), ...]: weights uniform in ±sqrt(6 / in), biases 0."""
    import numpy as np

    random = np.random.default_rng(1)
    layers = []
    for inputs, outputs in zip((INPUTS, *hidden), (*hidden, CLASSES)):
        limit = math.sqrt(6 / inputs)
        weights = random.uniform(-limit, limit, (outputs, inputs)).astype(np.float32)
        layers.append((weights, np.zeros(outputs, np.float32)))
    return layers


Case = collections.namedtuple("Case", "peer batch precision hidden networks", defaults=(None, None, None, None))


def write(line):
    """As src/measure/record.c does: seven digits, and no key without a value."""
    short = {key: float(f"{value:.7g}") if isinstance(value, float) else value
             for key, value in line.items() if value is not None}
    print(json.dumps(short, separators=(",", ":")), flush=True)


def write_case(case, **results):
    hidden = ",".join(map(str, case.hidden)) if case.hidden is not None else None
    write({"case": "epoch", "peer": case.peer, "hidden": hidden, "batch": case.batch,
           "networks": case.networks, "precision": case.precision, **results})


def results_of(work, *arguments):
    """What work(*arguments) returns, or the reason why there is nothing. A failure loses no other case."""
    try:
        return work(*arguments)
    except Exception as failure:  # whatever it is, the other cases go on
        return {"reason": " ".join(f"{type(failure).__name__}: {failure}".split())[:300]}


def time_epochs(epoch, wait, count):
    """The seconds of `count` epochs after one that does not count."""
    seconds = []
    for _ in range(count + 1):
        start = time.perf_counter()
        epoch()
        wait()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def run_case(case, rows, measure):
    """measure(case) -> (seconds of EPOCHS epochs, test accuracy)"""
    print("compare_peers:", *case, file=sys.stderr, flush=True)
    seconds, accuracy = measure(case)
    ms = [1e3 * time / case.networks for time in seconds]
    return {"epochs": EPOCHS, "ms_per_epoch": statistics.median(ms), "min_ms": min(ms), "max_ms": max(ms),
            "us_per_step": 1e3 * statistics.median(ms) / -(-rows // case.batch), "test_accuracy": accuracy}


def run_cases(deadline, peer, arguments, networks, rows, measure):
    cases = [Case(peer, batch, precision, hidden, count)
             for hidden in arguments.hidden for batch in arguments.batches for count in networks
             for precision in PRECISIONS]
    for i, case in enumerate(cases):
        if time.monotonic() > deadline:
            write_case(Case(peer), reason=f"no time was left for {len(cases) - i} of {len(cases)} cases (--seconds)")
            return
        write_case(case, **results_of(run_case, case, rows, measure))


def run_torch(deadline, arguments):
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
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(weights))
                linear.bias.copy_(torch.from_numpy(biases))
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

        # The few steps before the capture compile what is to be compiled, for full and short batches,
        # and allocate the momenta.
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

        seconds = time_epochs(epoch, torch.cuda.synchronize, EPOCHS)
        with torch.no_grad():
            return seconds, (model(test_x).argmax(dim=1) == test_y).float().mean().item()

    run_cases(deadline, COMPILED, arguments, (1,), len(x), measure)


def jax_logits(parameters, x):
    import jax

    for weights, biases in parameters[:-1]:
        x = jax.nn.relu(x @ weights.T + biases)
    weights, biases = parameters[-1]
    return x @ weights.T + biases


def jax_epoch(rows, case, rate):
    """epoch((parameters, momenta), key, x, y) -> the same, compiled."""
    import jax
    import jax.numpy as jnp

    whole = rows // case.batch * case.batch

    def loss(parameters, x, y, all_rows):
        chances = jax.nn.log_softmax(jax_logits(parameters, x))
        hot = y[:, None] == jnp.arange(CLASSES)[None, :]
        return -jnp.where(hot, chances, 0).sum() / all_rows

    def epoch(state, key, x, y):
        def step(state, batch_rows):
            parameters, momenta = state
            gradients = jax.grad(loss)(parameters, x[batch_rows], y[batch_rows], len(batch_rows))
            momenta = jax.tree.map(lambda m, g: MOMENTUM * m + g, momenta, gradients)
            return (jax.tree.map(lambda p, m: p - rate * m, parameters, momenta), momenta), None

        order = jax.random.permutation(key, rows)
        state, _ = jax.lax.scan(step, state, order[:whole].reshape(-1, case.batch))
        return state if whole == rows else step(state, order[whole:])[0]

    return jax.jit(epoch, donate_argnums=0)


def measure_jax(x, y, case, rate, count):
    """(seconds of each of `count` epochs, parameters). JAX's default on a GPU with tensor cores is tf32."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision",
                      "default" if case.precision == "tf32" else "highest")
    parameters = [tuple(map(jnp.asarray, layer)) for layer in initial_parameters(case.hidden)]
    networks = case.networks if (case.networks or 1) > 1 else 0
    if networks:
        parameters = jax.tree.map(lambda a: jnp.broadcast_to(a, (networks, *a.shape)), parameters)
    state = parameters, jax.tree.map(jnp.zeros_like, parameters)
    keys = jax.random.split(jax.random.key(1), (count + 1, networks) if networks else count + 1)
    keys = iter(list(keys))
    run = jax_epoch(len(x), case, rate)
    if networks:
        run = jax.jit(jax.vmap(run, in_axes=(0, 0, None, None)), donate_argnums=0)

    def epoch():
        nonlocal state
        state = run(state, next(keys), x, y)

    return time_epochs(epoch, lambda: jax.block_until_ready(state), count), state[0]


def run_jax(deadline, arguments):
    import jax

    device = jax.devices()[0]
    if device.platform != "gpu":
        raise RuntimeError("JAX finds no GPU")
    x, y, test_x, test_y = map(jax.device_put, read_sets("train", "test"))

    def measure(case):
        seconds, parameters = measure_jax(x, y, case, learning_rate(case), EPOCHS)
        if case.networks > 1:
            return seconds, None
        return seconds, float((jax_logits(parameters, test_x).argmax(axis=1) == test_y).mean())

    run_cases(deadline, SCAN, arguments, arguments.networks, len(x), measure)


FRAMEWORKS = {"jax": ("JAX", run_jax), "torch": ("PyTorch", run_torch)}


def numbers(text):
    return tuple(map(int, text.split(",")))


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
    deadline = time.monotonic() + arguments.seconds
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    title, run = FRAMEWORKS[arguments.framework]
    try:
        version = importlib.metadata.version(arguments.framework)
    except importlib.metadata.PackageNotFoundError:
        write_case(Case(title), reason="not installed")
        return
    write({"case": "peers", "name": f"{title} {version}", "command": " ".join(["scripts/compare_peers.py", *sys.argv[1:]])})
    failed = results_of(run, deadline, arguments)
    if failed:
        write_case(Case(title), **failed)


if __name__ == "__main__":
    main()
