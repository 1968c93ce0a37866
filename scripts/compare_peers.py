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
import concurrent.futures
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
import typing

INPUTS, CLASSES = 784, 10
HIDDEN = (300, 100)
WIDE = ((1000, 500), (2500, 2000, 1500, 1000, 500))
WIDE_BATCHES = (128, 1024, 4096)
MOMENTUM = 0.9
BATCHES = (64, 256, 1024, 4096)
PRECISIONS = ("fp32", "tf32")
EPOCHS = 9
EAGER_EPOCHS = 3
WIDE_EPOCHS = 5
GRACE = 45  # seconds that a framework may go on for when its time is up, to finish what it does

EAGER = "PyTorch eager"
GRAPH = "PyTorch, epoch in one CUDA graph"
COMPILED = "PyTorch, torch.compile, epoch in one graph"
SCAN = "JAX, epoch in one lax.scan"


def learning_rate(batch):
    """The rule of src/mlp_bench.c."""
    return min(0.1, 0.05 * math.sqrt(batch / 64))


# ---- rows -----------------------------------------------------------------------------------


def read_set(name):
    """Pixels (rows, 784) from 0 to 1, labels (rows)."""
    import numpy as np

    table = np.loadtxt(f"data/mnist_{name}.csv", np.uint8, delimiter=",")
    return table[:, 1:].astype(np.float32) / 255, table[:, 0].astype(np.int32)


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


class Case(typing.NamedTuple):
    peer: str
    batch: typing.Optional[int] = None
    precision: typing.Optional[str] = None
    hidden: tuple = HIDDEN

    def timed(self):
        """Epochs that are timed."""
        if self.hidden != HIDDEN:
            return WIDE_EPOCHS
        return EAGER_EPOCHS if self.peer == EAGER else EPOCHS


class Record:
    """Prints lines and knows what they all have."""

    def __init__(self, gpu, sources):
        self.common = {"gpu": gpu, "sources": sources}

    def write(self, line):
        print(json.dumps({**line, **{key: value for key, value in self.common.items() if value}}),
              flush=True)

    def begin(self, case):
        """What the lines of a case begin with; its kind is mlp-bench's."""
        kind = {"case": "epoch"} if case.hidden == HIDDEN else {
            "case": "wide", "name": ",".join(map(str, case.hidden))}
        return {**kind, "peer": case.peer, "batch": case.batch, "precision": case.precision}

    def epochs(self, case, rows, seconds, accuracy):
        steps = -(-rows // case.batch)
        median = statistics.median(seconds)
        self.write({**self.begin(case), "epochs": len(seconds), "ms_per_epoch": 1e3 * median,
                    "min_ms": 1e3 * min(seconds), "max_ms": 1e3 * max(seconds),
                    "us_per_step": 1e6 * median / steps, "launches_per_step": None,
                    "bytes_per_step": None, "test_accuracy": accuracy})

    def reason(self, case, reason):
        text = " ".join(str(reason).split())
        self.write({**self.begin(case), "reason": text[:300] or type(reason).__name__})


def time_epochs(epoch, wait, count):
    """The seconds of `count` epochs after one that does not count."""
    epoch()
    wait()
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        epoch()
        wait()
        seconds.append(time.perf_counter() - start)
    return seconds


def run_cases(record, deadline, cases, rows, measure):
    """measure(case) -> (seconds of each epoch, test accuracy). A failing case loses no other."""
    for case in cases:
        if time.monotonic() > deadline:
            record.reason(case, "no time was left for it (--seconds)")
            continue
        print("compare_peers:", *case[:3], *case.hidden, file=sys.stderr, flush=True)
        try:
            seconds, accuracy = measure(case)
        except Exception as failure:  # whatever it is, the other cases go on
            record.reason(case, f"{type(failure).__name__}: {failure}")
        else:
            record.epochs(case, rows, seconds, accuracy)


def cases_of(peers, fastest, batches):
    """Batch by batch, so that a run that is short of time has the first batches whole; then wide
    networks, by the fastest of the peers alone."""
    return [Case(peer, batch, precision)
            for batch in batches for peer in peers for precision in PRECISIONS
            ] + [Case(fastest, batch, precision, hidden)
                 for hidden in WIDE for batch in WIDE_BATCHES for precision in PRECISIONS]


# ---- PyTorch --------------------------------------------------------------------------------


class TorchTrainer:
    """A model, its optimiser and the steps of an epoch over rows on the device."""

    def __init__(self, data, case, device):
        import torch

        torch.set_float32_matmul_precision("high" if case.precision == "tf32" else "highest")
        self.torch = torch
        self.device = device
        self.x, self.y, self.test_x, self.test_y = data
        self.batch = case.batch
        layers = []
        for weights, biases in initial_parameters(case.hidden):
            linear = torch.nn.Linear(weights.shape[1], weights.shape[0], device=device)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(weights))
                linear.bias.copy_(torch.from_numpy(biases))
            layers += [linear, torch.nn.ReLU()]
        self.model = torch.nn.Sequential(*layers[:-1])
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=learning_rate(case.batch),
                                         momentum=MOMENTUM, fused=True)
        compiled = case.peer == COMPILED
        self.loss = torch.compile(self.loss_of, dynamic=False) if compiled else self.loss_of
        self.order = torch.randperm(len(self.x), device=device)

    def loss_of(self, x, y):
        return self.torch.nn.functional.cross_entropy(self.model(x), y)

    def shuffle(self):
        self.order.copy_(self.torch.randperm(len(self.x), device=self.device))

    def step(self, first):
        rows = self.order[first:first + self.batch]
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(self.x[rows], self.y[rows]).backward()
        self.optimiser.step()

    def steps(self):
        for first in range(0, len(self.x), self.batch):
            self.step(first)

    def eager_epoch(self):
        self.shuffle()
        self.steps()

    def captured_epoch(self):
        """An epoch that launches one graph. The few steps before the capture compile what is to be
        compiled, for full and short batches, and allocate the momentum."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            last = (len(self.x) - 1) // self.batch * self.batch
            for first in (0, 0, 0, last, last):
                self.step(first)
        torch.cuda.current_stream().wait_stream(side)
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            self.steps()

        def epoch():
            self.shuffle()
            graph.replay()

        return epoch

    def accuracy(self):
        with self.torch.no_grad():
            found = self.model(self.test_x).argmax(dim=1)
            return (found == self.test_y).float().mean().item()


def run_torch(deadline, batches, sources):
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch finds no GPU")
    device = torch.device("cuda")
    data = [torch.from_numpy(array).to(device) for array in (*read_set("train"), *read_set("test"))]
    data[1], data[3] = data[1].long(), data[3].long()

    def measure(case):
        torch.compiler.reset()
        trainer = TorchTrainer(data, case, device)
        epoch = trainer.eager_epoch if case.peer == EAGER else trainer.captured_epoch()
        seconds = time_epochs(epoch, torch.cuda.synchronize, case.timed())
        return seconds, trainer.accuracy()

    run_cases(Record(torch.cuda.get_device_name(), sources), deadline,
              cases_of((GRAPH, EAGER, COMPILED), COMPILED, batches), len(data[0]), measure)


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


def measure_jax(x, y, hidden, batch, precision, rate, count, mesh=None):
    """(seconds of each of `count` epochs, parameters). JAX's default on a GPU with tensor cores is tf32."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision",
                      "default" if precision == "tf32" else "highest")
    parameters = [tuple(map(jnp.asarray, layer)) for layer in initial_parameters(hidden)]
    state = parameters, jax.tree.map(jnp.zeros_like, parameters)
    keys = jax.random.split(jax.random.key(1), count + 1)
    if mesh:
        state, keys = jax.device_put((state, keys), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))
    keys = iter(list(keys))
    run = jax_epoch(len(x), batch, rate, mesh)

    def epoch():
        nonlocal state
        state = run(state, next(keys), x, y)

    return time_epochs(epoch, lambda: jax.block_until_ready(state), count), state[0]


def run_jax(deadline, batches, sources):
    import jax

    device = jax.devices()[0]
    if device.platform != "gpu":
        raise RuntimeError("JAX finds no GPU")
    x, y, test_x, test_y = (jax.device_put(array) for array in (*read_set("train"), *read_set("test")))

    def measure(case):
        seconds, parameters = measure_jax(x, y, case.hidden, case.batch, case.precision,
                                          learning_rate(case.batch), case.timed())
        right = jax_logits(parameters, test_x).argmax(axis=1) == test_y
        return seconds, float(right.mean())

    run_cases(Record(device.device_kind, sources), deadline, cases_of((SCAN,), SCAN, batches), len(x),
              measure)


# ---- JAX on several GPUs, for scripts/scaling.sh --------------------------------------------

SCALING = [(WIDE[-1], 16384, "fp32"), (WIDE[-1], 4096, "tf32"), (WIDE[-1], 4096, "fp32"),
           (WIDE[-1], 16384, "tf32"), (HIDDEN, 1024, "fp32"), (HIDDEN, 4096, "fp32"),
           (HIDDEN, 1024, "tf32"), (HIDDEN, 4096, "tf32")]


def run_scaling(deadline, counts):
    """Data parallel epochs (jax.shard_map) of that script's networks on so many GPUs; a line each."""
    import jax

    data = read_set("train")
    for (hidden, batch, precision), count in itertools.product(SCALING, counts):
        line = {"who": "JAX", "network": "-".join(map(str, (INPUTS, *hidden, CLASSES))),
                "precision": precision, "batch": batch, "ranks": count}
        try:
            if time.monotonic() > deadline:
                raise TimeoutError("no time was left")
            if count > len(jax.devices()):
                raise RuntimeError(f"JAX finds {len(jax.devices())} GPUs")
            mesh = jax.make_mesh((count,), ("gpu",), devices=jax.devices()[:count])
            everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            x, y = (jax.device_put(array, everywhere) for array in data)
            seconds = measure_jax(x, y, hidden, batch, precision, 0.01, WIDE_EPOCHS, mesh)[0]
            line.update(rows=len(x), ms=1e3 * statistics.median(seconds), ms_min=1e3 * min(seconds),
                        ms_max=1e3 * max(seconds), epochs=len(seconds))
        except Exception as failure:  # the other cases go on
            line["reason"] = f"{type(failure).__name__}: {failure}"[:200]
        print(json.dumps(line), flush=True)


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


def run_framework(arguments):
    title, run = FRAMEWORKS[arguments.framework]
    try:
        run(time.monotonic() + arguments.seconds, arguments.batches, arguments.sources)
    except Exception as failure:
        Record("", arguments.sources).reason(Case(title),
                                             f"{type(failure).__name__}: {failure}")


def visible_gpus():
    """The names by which CUDA_VISIBLE_DEVICES tells GPUs apart."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names:
        return names.split(",")
    try:
        lines = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [str(number) for number in range(lines.count("UUID: GPU"))]


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
        Record("", arguments.sources).reason(Case(FRAMEWORKS[framework][0]), reason)


def run_all(arguments):
    deadline = time.monotonic() + arguments.seconds
    record = Record("", arguments.sources)
    installed = {name: version_of(name) for name in FRAMEWORKS}
    present = [name for name, version in installed.items() if version]
    record.write({"case": "peers",
                  "name": ", ".join(f"{FRAMEWORKS[name][0]} {installed[name]}" for name in present) or "none",
                  "command": f"scripts/compare_peers.py --seconds {arguments.seconds:g}"})
    for name in (name for name in FRAMEWORKS if name not in present):
        record.reason(Case(FRAMEWORKS[name][0]), "not installed")
    gpus = visible_gpus()
    apart = len(gpus) >= len(present) > 1
    with concurrent.futures.ThreadPoolExecutor(len(present) if apart else 1) as pool:
        for child in [pool.submit(run_child, name, deadline, arguments, gpus[i] if apart else None)
                      for i, name in enumerate(present)]:
            child.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=200, help="start no case after this [200]")
    parser.add_argument("--batches", default=BATCHES, help="rows of a step [64,256,1024,4096]",
                        type=lambda text: tuple(int(word) for word in text.split(",")))
    parser.add_argument("--sources", default="", help="the digest of the sources, for the record")
    parser.add_argument("--scaling", metavar="GPUS", type=lambda text: [int(word) for word in text.split()],
                        help="JAX alone, on so many GPUs: \"1 2 4\"")
    parser.add_argument("--framework", choices=FRAMEWORKS, help="this one alone, in this process")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if arguments.scaling:
        run_scaling(time.monotonic() + arguments.seconds, arguments.scaling)
    elif arguments.framework:
        run_framework(arguments)
    else:
        run_all(arguments)


if __name__ == "__main__":
    main()
