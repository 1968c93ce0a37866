#!/usr/bin/env python3
"""Times a training epoch of the networks that mlp-bench times in PyTorch and JAX.

Same networks (784-300-100-10 and wide ones, ReLU, He's uniform start), same rows, same batches,
same optimiser (SGD, momentum 0.9, mean cross-entropy), a new permutation of the rows on the device
every epoch, every row used, a short last batch where it comes out so. The rows lie on the GPU as
float32 before the clock starts, and nothing but the parameters is computed: no sums of losses,
which mlp-train has. Times are wall clock from the drawing of the permutation until the GPU has finished.

Where there are two GPUs, the frameworks run at the same time, each on its own.

Prints one JSON object a line, with the keys of mlp-bench's, `peer` in place of `fusion`. A peer
that is not installed, fails or finds no time left is a line with its reason. Data:
data/mnist_train.csv and data/mnist_test.csv.
"""
import argparse
import collections
import concurrent.futures
import functools
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time

INPUTS, CLASSES = 784, 10
HIDDEN = (300, 100)
WIDE = ((1000, 500), (2500, 2000, 1500, 1000, 500))
WIDE_BATCHES = (128, 1024, 4096)
MOMENTUM = 0.9
PRECISIONS = ("fp32", "tf32")
EPOCHS, EAGER_EPOCHS, WIDE_EPOCHS = 9, 3, 5  # that are timed
GRACE = 45  # seconds that a framework may go on for when its time is up, to finish what it does

EAGER = "PyTorch eager"
GRAPH = "PyTorch, epoch in one CUDA graph"
COMPILED = "PyTorch, torch.compile, epoch in one graph"
SCAN = "JAX, epoch in one lax.scan"
VMAP = "JAX, networks by vmap"
NETWORKS = (1, 16, 64, 256)  # that train at once, each on rows in an order of its own


def learning_rate(batch):
    """The rule of src/bench/cuda/levels.c."""
    return min(0.1, 0.05 * math.sqrt(batch / 64))


# ---- rows -----------------------------------------------------------------------------------


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


# ---- lines ----------------------------------------------------------------------------------

COMMON = {"gpu": "", "sources": ""}  # what every line has, where it is known

Case = collections.namedtuple("Case", "peer batch precision hidden", defaults=(None, None, HIDDEN))


def write(line):
    print(json.dumps({**line, **{key: value for key, value in COMMON.items() if value}}), flush=True)


def write_case(case, **results):
    kind = {"case": "epoch"} if case.hidden == HIDDEN else {
        "case": "wide", "name": ",".join(map(str, case.hidden))}
    write({**kind, "peer": case.peer, "batch": case.batch, "precision": case.precision, **results})


def results_of(deadline, late, work, *arguments):
    """What work(*arguments) returns, or the reason why there is nothing. A failure loses no other case."""
    try:
        return work(*arguments) if time.monotonic() <= deadline else {"reason": late}
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
    """measure(case, epochs) -> (seconds of each epoch, test accuracy)"""
    print("compare_peers:", *case[:3], *case.hidden, file=sys.stderr, flush=True)
    epochs = WIDE_EPOCHS if case.hidden != HIDDEN else EAGER_EPOCHS if case.peer == EAGER else EPOCHS
    seconds, accuracy = measure(case, epochs)
    median = statistics.median(seconds)
    return {"epochs": epochs, "ms_per_epoch": 1e3 * median, "min_ms": 1e3 * min(seconds),
            "max_ms": 1e3 * max(seconds), "us_per_step": 1e6 * median / -(-rows // case.batch),
            "launches_per_step": None, "bytes_per_step": None, "test_accuracy": accuracy}


def run_cases(deadline, cases, rows, measure):
    for case in cases:
        write_case(case, **results_of(deadline, "no time was left for it (--seconds)", run_case, case,
                                      rows, measure))


def cases_of(peers, fastest, batches):
    """Batch by batch, so that a run that is short of time has the first batches whole; then wide
    networks, by the fastest of the peers alone."""
    return [Case(peer, batch, precision)
            for batch in batches for peer in peers for precision in PRECISIONS
            ] + [Case(fastest, batch, precision, hidden)
                 for hidden in WIDE for batch in WIDE_BATCHES for precision in PRECISIONS]


# ---- PyTorch --------------------------------------------------------------------------------


def run_torch(deadline, batches):
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch finds no GPU")
    x, y, test_x, test_y = (torch.from_numpy(array).to("cuda") for array in read_sets("train", "test"))
    y, test_y = y.long(), test_y.long()

    def measure(case, epochs):
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
        optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate(case.batch),
                                    momentum=MOMENTUM, fused=True)
        order = torch.randperm(len(x), device="cuda")

        def loss(pixels, labels):
            return torch.nn.functional.cross_entropy(model(pixels), labels)

        loss_of = torch.compile(loss, dynamic=False) if case.peer == COMPILED else loss

        def steps(firsts):
            for first in firsts:
                rows = order[first:first + case.batch]
                optimiser.zero_grad(set_to_none=True)
                loss_of(x[rows], y[rows]).backward()
                optimiser.step()

        all_steps = range(0, len(x), case.batch)
        train = functools.partial(steps, all_steps)
        if case.peer != EAGER:
            # The few steps before the capture compile what is to be compiled, for full and short
            # batches, and allocate the momentum.
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                steps((0, 0, 0, all_steps[-1], all_steps[-1]))
            torch.cuda.current_stream().wait_stream(side)
            optimiser.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                steps(all_steps)
            train = graph.replay

        def epoch():
            order.copy_(torch.randperm(len(x), device="cuda"))
            train()

        seconds = time_epochs(epoch, torch.cuda.synchronize, epochs)
        with torch.no_grad():
            return seconds, (model(test_x).argmax(dim=1) == test_y).float().mean().item()

    COMMON["gpu"] = torch.cuda.get_device_name()
    run_cases(deadline, cases_of((GRAPH, EAGER, COMPILED), COMPILED, batches), len(x), measure)


# ---- JAX ------------------------------------------------------------------------------------


def jax_logits(parameters, x):
    import jax

    for weights, biases in parameters[:-1]:
        x = jax.nn.relu(x @ weights.T + biases)
    weights, biases = parameters[-1]
    return x @ weights.T + biases


def jax_epoch(rows, batch, rate, mesh=None):
    """epoch(state, key, x, y) -> state, compiled; state: (parameters, momenta). With a mesh every GPU
    of it has all rows, takes its part of each step's, and the gradients are summed."""
    import jax
    import jax.numpy as jnp

    whole = rows // batch * batch

    def loss(parameters, x, y, all_rows):
        chances = jax.nn.log_softmax(jax_logits(parameters, x))
        hot = y[:, None] == jnp.arange(CLASSES)[None, :]
        return -jnp.where(hot, chances, 0).sum() / all_rows

    def epoch(state, key, x, y):
        def step(state, batch_rows):
            parameters, momenta = state
            part = batch_rows.reshape(mesh.size, -1)[jax.lax.axis_index("gpu")] if mesh else batch_rows
            gradients = jax.grad(loss)(parameters, x[part], y[part], len(batch_rows))
            gradients = jax.lax.psum(gradients, "gpu") if mesh else gradients
            momenta = jax.tree.map(lambda v, g: MOMENTUM * v + g, momenta, gradients)
            parameters = jax.tree.map(lambda p, v: p - rate * v, parameters, momenta)
            return (parameters, momenta), None

        order = jax.random.permutation(key, rows)
        state, _ = jax.lax.scan(step, state, order[:whole].reshape(-1, batch))
        return state if whole == rows else step(state, order[whole:])[0]

    if mesh:
        nothing = jax.sharding.PartitionSpec()
        epoch = jax.shard_map(epoch, mesh=mesh, in_specs=(nothing,) * 4, out_specs=nothing,
                              check_vma=False)
    return jax.jit(epoch, donate_argnums=0)


def measure_jax(x, y, case, rate, count, mesh=None, networks=0):
    """(seconds of each of `count` epochs, parameters). JAX's default on a GPU with tensor cores is tf32.
    networks: so many at once; 0: one, without vmap."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision",
                      "default" if case.precision == "tf32" else "highest")
    parameters = [tuple(map(jnp.asarray, layer)) for layer in initial_parameters(case.hidden)]
    if networks:
        parameters = jax.tree.map(lambda a: jnp.broadcast_to(a, (networks, *a.shape)), parameters)
    state = parameters, jax.tree.map(jnp.zeros_like, parameters)
    keys = jax.random.split(jax.random.key(1), (count + 1, networks) if networks else count + 1)
    if mesh:
        everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        x, y, state, keys = jax.device_put((x, y, state, keys), everywhere)
    keys = iter(list(keys))
    run = jax_epoch(len(x), case.batch, rate, mesh)
    if networks:
        run = jax.jit(jax.vmap(run, in_axes=(0, 0, None, None)), donate_argnums=0)

    def epoch():
        nonlocal state
        state = run(state, next(keys), x, y)

    return time_epochs(epoch, lambda: jax.block_until_ready(state), count), state[0]


def run_jax(deadline, batches):
    import jax

    device = jax.devices()[0]
    if device.platform != "gpu":
        raise RuntimeError("JAX finds no GPU")
    x, y, test_x, test_y = map(jax.device_put, read_sets("train", "test"))

    def measure(case, epochs):
        seconds, parameters = measure_jax(x, y, case, learning_rate(case.batch), epochs)
        return seconds, float((jax_logits(parameters, test_x).argmax(axis=1) == test_y).mean())

    def measure_many(precision, networks):
        seconds = measure_jax(x, y, Case(VMAP, 64, precision), learning_rate(64), WIDE_EPOCHS,
                              networks=networks)[0]
        per_network = [1e3 * time / networks for time in seconds]
        return {"ms_per_epoch": statistics.median(per_network), "min_ms": min(per_network),
                "max_ms": max(per_network)}

    COMMON["gpu"] = device.device_kind
    for precision, networks in itertools.product(PRECISIONS, NETWORKS):
        write({"case": "many", "peer": VMAP, "networks": networks, "batch": 64, "precision": precision,
               **results_of(deadline, "no time was left for it (--seconds)", measure_many, precision,
                            networks)})
    run_cases(deadline, cases_of((SCAN,), SCAN, batches), len(x), measure)


# ---- JAX on several GPUs, for scripts/scaling.sh --------------------------------------------

SCALING = [Case("JAX", batch, precision, hidden) for hidden, batch, precision in (
    (WIDE[-1], 16384, "fp32"), (WIDE[-1], 4096, "tf32"), (WIDE[-1], 4096, "fp32"),
    (WIDE[-1], 16384, "tf32"), (HIDDEN, 1024, "fp32"), (HIDDEN, 4096, "fp32"),
    (HIDDEN, 1024, "tf32"), (HIDDEN, 4096, "tf32"))]


def run_scaling(deadline, counts):
    """Data parallel epochs (jax.shard_map) of that script's networks on so many GPUs; a line each."""
    import jax

    x, y = read_sets("train")

    def measure(case, count):
        if count > len(jax.devices()):
            raise RuntimeError(f"JAX finds {len(jax.devices())} GPUs")
        mesh = jax.make_mesh((count,), ("gpu",), devices=jax.devices()[:count])
        seconds = measure_jax(x, y, case, 0.01, WIDE_EPOCHS, mesh)[0]
        return {"rows": len(x), "ms": 1e3 * statistics.median(seconds), "ms_min": 1e3 * min(seconds),
                "ms_max": 1e3 * max(seconds), "epochs": len(seconds)}

    for case, count in itertools.product(SCALING, counts):
        write({"who": case.peer, "network": "-".join(map(str, (INPUTS, *case.hidden, CLASSES))),
               "precision": case.precision, "batch": case.batch, "ranks": count,
               **results_of(deadline, "TimeoutError: no time was left", measure, case, count)})


# ---- both -----------------------------------------------------------------------------------

FRAMEWORKS = {"jax": ("JAX", run_jax), "torch": ("PyTorch", run_torch)}


def version_of(module):
    """The installed version, or None; the module is not loaded."""
    if not importlib.util.find_spec(module):
        return None
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


def run_child(framework, deadline, arguments, gpu):
    """A framework in a process of its own: they share no memory pool, no library, no crash. It sees
    this GPU, or with None all of them."""
    seconds = max(deadline - time.monotonic(), 1)
    command = [sys.executable, os.path.abspath(__file__), "--framework", framework,
               "--seconds", str(seconds), "--sources", arguments.sources,
               "--batches", ",".join(map(str, arguments.batches))]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu} if gpu else None
    try:
        code = subprocess.run(command, timeout=seconds + GRACE, env=environment).returncode
        reason = f"its process ended with {code}" if code else None
    except subprocess.TimeoutExpired:
        reason = "stopped: it went on long after its time was up"
    if reason:
        write_case(Case(FRAMEWORKS[framework][0]), reason=reason)


def run_all(deadline, arguments):
    installed = {name: version_of(name) for name in FRAMEWORKS}
    present = [name for name, version in installed.items() if version]
    write({"case": "peers",
           "name": ", ".join(f"{FRAMEWORKS[name][0]} {installed[name]}" for name in present) or "none",
           "command": f"scripts/compare_peers.py --seconds {arguments.seconds:g}"})
    for name in (name for name in FRAMEWORKS if name not in present):
        write_case(Case(FRAMEWORKS[name][0]), reason="not installed")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # names, or all that there are, by their numbers
    count = subprocess.getoutput("nvidia-smi -L").count("UUID: GPU")
    gpus = visible.split(",") if visible else list(map(str, range(count)))
    apart = len(gpus) >= len(present) > 1
    with concurrent.futures.ThreadPoolExecutor(len(present) if apart else 1) as pool:
        list(pool.map(lambda name, gpu: run_child(name, deadline, arguments, gpu), present,
                      gpus if apart else itertools.repeat(None)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=200, help="start no case after this [200]")
    parser.add_argument("--batches", default="64,256,1024,4096", help="rows of a step [64,256,1024,4096]",
                        type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--sources", default="", help="the digest of the sources, for the record")
    parser.add_argument("--scaling", metavar="GPUS", type=lambda text: [int(word) for word in text.split()],
                        help="JAX alone, on so many GPUs: \"1 2 4\"")
    parser.add_argument("--framework", choices=FRAMEWORKS, help="this one alone, in this process")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if arguments.scaling:
        run_scaling(deadline, arguments.scaling)
        return
    COMMON["sources"] = arguments.sources
    if not arguments.framework:
        run_all(deadline, arguments)
        return
    title, run = FRAMEWORKS[arguments.framework]
    failed = results_of(math.inf, None, run, deadline, arguments.batches)
    if failed:
        write_case(Case(title), **failed)


if __name__ == "__main__":
    main()
