"""Sampling a 3x50 tanh network: presage against NumPyro's NUTS, and leapfrogs against eager PyTorch.

    python benchmarks/hmc.py time --sizes 20 200     # each sampler in new processes; needs numpyro
    python benchmarks/hmc.py leapfrogs --sizes 20 200   # needs torch
    python benchmarks/hmc.py suggestion              # a warm suggestion at n = 50, d = 2

`time` is the seconds from the start of a new process, imports, compilation and warm-up counted, until the smallest
function-space ESS over a grid of 50 points is 400 and R-hat is at most 1.01, four chains, the same posterior:
sin(7x) + cos(17x) with noise 0.1, weights N(0, 16 / fan-in) in the first layer and N(0, 1 / fan-in) in the others.
Beside wall-clock seconds the processor seconds are recorded, which a busy machine disturbs less. Results go to
benchmarks/results/hmc_<what>.json.
"""

import argparse
import itertools
import json
import math
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
WIDTH, NOISE, CHAINS = 50, 0.01, 4
GRID = np.linspace(-1.0, 1.0, 50)[:, None]


def problem(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and noisy values of S1's function."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (count, 1))
    return x, np.sin(7 * x[:, 0]) + np.cos(17 * x[:, 0]) + 0.1 * rng.standard_normal(count)


def judged(values: np.ndarray) -> tuple[float, float]:
    """Smallest ESS and largest R-hat of function values [t, c, g]."""
    from presage.inference.diagnostics import ess, r_hat

    return float(ess(values).min()), float(r_hat(values).max())


def ours(count: int, began: float, limit: float) -> dict:
    """Run chains in stretches until they are good enough."""
    import jax
    import jax.numpy as jnp

    from presage.inference.chains import run_apart
    from presage.inference.laws import LogNormal
    from presage.inference.network import Data, Network
    from presage.inference.regression import Regression
    from presage.inference.samplers import HMC

    x, y = problem(count)
    rng = np.random.default_rng(1)
    network = Network(
        1, (WIDTH,) * 3, weight=(LogNormal(4.0), *(LogNormal(1.0),) * 3), bias=(4.0, 1.0, 1.0, 1.0),
        noise=LogNormal(NOISE),
    )  # fmt: skip
    data = Data(*(jnp.asarray(a, jnp.float32) for a in (x, y, np.zeros(count))), jnp.ones(count, bool))
    position = jnp.asarray(network.draw(CHAINS, rng), jnp.float32)
    step, mass, warmup, values, gradients = 0.02, jnp.ones(network.size), 100, [], 0
    while True:
        key = jax.random.key(len(values))
        chains = run_apart(HMC(aim=0.65), network, data, position, step, mass, key, warmup, 1, draws=60)
        position, step, mass, warmup = chains.positions[-1], chains.step, chains.mass, 0
        gradients += int(chains.gradients)
        weights = network.weights(np.asarray(chains.positions, float).reshape(-1, network.size))
        layer = Regression.of(network.basis(weights, x), y, np.full((60 * CHAINS, count), NOISE))
        output = layer.weights(np.arange(60 * CHAINS), rng)
        values.append(np.einsum("snp,sp->sn", network.basis(weights, GRID), output).reshape(60, CHAINS, -1))
        row = progress(np.concatenate(values), began, gradients)
        if row["reached"] or row["processor_seconds"] > limit:
            return row


def numpyro(count: int, began: float, limit: float) -> dict:
    """NUTS at its defaults with vectorised chains, 300 transitions of warm-up, in stretches of 100."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    x, y = problem(count)

    def network(x: jax.Array) -> jax.Array:
        h, sizes = x, (1, WIDTH, WIDTH, WIDTH, 1)
        for i, (a, b) in enumerate(itertools.pairwise(sizes)):
            scale = 4.0 if i == 0 else 1.0
            w = numpyro.sample(f"w{i}", dist.Normal(0.0, scale / math.sqrt(a)).expand([a, b]).to_event(2))
            bias = numpyro.sample(f"b{i}", dist.Normal(0.0, scale).expand([b]).to_event(1))
            h = h @ w + bias
            h = jnp.tanh(h) if i < 3 else h
        return h[:, 0]

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        numpyro.sample("y", dist.Normal(network(x), math.sqrt(NOISE)), obs=y)

    def function(sample: dict) -> np.ndarray:
        h = GRID
        for i in range(4):
            h = h @ sample[f"w{i}"] + sample[f"b{i}"][..., None, :]
            h = np.tanh(h) if i < 3 else h
        return h[..., 0]

    sampler = MCMC(NUTS(model), num_warmup=300, num_samples=100, num_chains=CHAINS, chain_method="vectorized",
                   progress_bar=False)  # fmt: skip
    values, steps = [], 0
    sampler.warmup(jax.random.key(0), x, y)
    print("warm-up done", time.time() - began, flush=True)
    while True:
        sampler.run(sampler.post_warmup_state.rng_key, x, y, extra_fields=("num_steps",))
        sampler.post_warmup_state = sampler.last_state
        steps += int(np.asarray(sampler.get_extra_fields(True)["num_steps"]).max(axis=0).sum())
        sample = {name: np.asarray(a, float) for name, a in sampler.get_samples(group_by_chain=True).items()}
        values.append(np.swapaxes(function(sample), 0, 1))
        row = progress(np.concatenate(values), began, steps)
        if row["reached"] or row["processor_seconds"] > limit:
            return row


def progress(values: np.ndarray, began: float, gradients: int) -> dict:
    """How far a sampler is."""
    effective, r = judged(values)
    row = {
        "seconds": time.time() - began, "processor_seconds": time.process_time(), "draws": len(values),
        "ess": effective, "r_hat": r, "gradients": gradients, "reached": effective >= 400 and r <= 1.01,
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def torch_leapfrogs(count: int, steps: int) -> dict[str, float]:
    """Leapfrogs per second of one chain, eager PyTorch on one thread and on as many as it takes by default."""
    import torch

    rates = {}
    for threads in (1, os.cpu_count() or 1):
        torch.set_num_threads(threads)
        rates[f"torch, threads: {threads}"] = eager_leapfrogs(count, steps)
    return rates


def eager_leapfrogs(count: int, steps: int) -> float:
    """Leapfrogs per second of one chain in PyTorch."""
    import torch

    x, y = (torch.as_tensor(a, dtype=torch.float32) for a in problem(count))
    sizes = (1, WIDTH, WIDTH, WIDTH, 1)
    q = [torch.randn(s, requires_grad=True) for a, b in itertools.pairwise(sizes) for s in ((a, b), (b,))]
    p = [torch.randn_like(w) for w in q]

    def gradient() -> list:
        h = x
        for i in range(4):
            scale = 4.0 if i == 0 else 1.0
            h = h @ (q[2 * i] * (scale / math.sqrt(sizes[i]))) + scale * q[2 * i + 1]
            h = torch.tanh(h) if i < 3 else h
        energy = 0.5 * sum((w * w).sum() for w in q) + 0.5 / NOISE * ((y - h[:, 0]) ** 2).sum()
        return torch.autograd.grad(energy, q)

    g = gradient()
    for n in range(steps + 20):
        if n == 20:
            began = time.perf_counter()
        with torch.no_grad():
            for w, v, slope in zip(q, p, g, strict=True):
                v -= 0.5e-3 * slope
                w += 1e-3 * v
        g = gradient()
        with torch.no_grad():
            for v, slope in zip(p, g, strict=True):
                v -= 0.5e-3 * slope
    return steps / (time.perf_counter() - began)


def leapfrogs(count: int, steps: int, repeats: int = 7) -> dict[str, float]:
    """Medians of several rates, ours and PyTorch's taken in turn."""
    found = [our_leapfrogs(count, steps) | torch_leapfrogs(count, steps) for _ in range(repeats)]
    return {name: float(np.median([row[name] for row in found])) for name in found[0]}


def our_leapfrogs(count: int, steps: int) -> dict[str, float]:
    """Leapfrogs per second of four chains, on one core and on all; all weights sampled, and collapsed."""
    import jax
    import jax.numpy as jnp

    from presage.inference.chains import on_cores
    from presage.inference.laws import LogNormal
    from presage.inference.network import Data, Network
    from presage.inference.samplers import leapfrog

    x, y = problem(count)
    data = Data(*(jnp.asarray(a, jnp.float32) for a in (x, y, np.zeros(count))), jnp.ones(count, bool))
    rates = {}
    for collapsed in (False, True):
        network = Network(
            1, (WIDTH,) * 3, weight=(LogNormal(4.0), *(LogNormal(1.0),) * 3), bias=(4.0, 1.0, 1.0, 1.0),
            noise=LogNormal(NOISE), collapsed=collapsed,
        )  # fmt: skip
        rng = np.random.default_rng(0)
        q = jnp.asarray(network.draw(CHAINS, rng), jnp.float32)
        p, mass = jnp.asarray(rng.standard_normal(q.shape), jnp.float32), jnp.ones(network.size)
        program = jax.jit(lambda q, p, network=network, mass=mass: leapfrog(
            lambda at: network(at, data), q, p, 1e-3, steps, mass).position)  # fmt: skip
        name = "collapsed" if collapsed else "all weights"
        program(q, p).block_until_ready()
        began = time.perf_counter()
        program(q, p).block_until_ready()
        rates[f"{name}, one core"] = CHAINS * steps / (time.perf_counter() - began)
        singles = q[:, None], p[:, None]
        program(q[:1], p[:1]).block_until_ready()
        began = time.perf_counter()
        on_cores(program, *singles)
        rates[f"{name}, all cores"] = CHAINS * steps / (time.perf_counter() - began)
    return rates


def suggestion(repeats: int) -> dict:
    """Seconds of warm suggestions at n = 50, d = 2."""
    import presage

    f = presage.functions.branin
    study = presage.Study(f.space, seed=0, surrogate="hmc")
    points = [f.space.decode(x) for x in np.random.default_rng(0).random((50, 2))]
    study.tell_many(points, [f(p) for p in points])
    rows = []
    for _ in range(repeats + 1):
        wall, processor = time.perf_counter(), time.process_time()
        trial = study.ask()
        rows.append((time.perf_counter() - wall, time.process_time() - processor))
        study.tell(trial, f(trial.params))
        print(rows[-1], flush=True)
    return {"first": rows[0], "warm_seconds": [a for a, _ in rows[1:]], "warm_processor": [b for _, b in rows[1:]]}


def note(what: str, found: dict) -> None:
    """Write a result down with what it was made by."""
    versions = {"python": platform.python_version()}
    for name in ("presage", "jax", "numpy", "numpyro", "torch"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    record = {
        "command": f"python benchmarks/hmc.py {what}", "versions": versions,
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "processor": platform.machine()}, "found": found,
    }  # fmt: skip
    (RESULTS / f"hmc_{what}.json").write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "one", "leapfrogs", "suggestion"])
    parser.add_argument("--sizes", type=int, nargs="*", default=[20, 200])
    parser.add_argument("--sampler", choices=["presage", "numpyro"], default="presage")
    parser.add_argument(
        "--limit", type=float, default=1200.0, help="processor seconds after which a sampler is given up"
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.what == "one":
        began = float(os.environ.get("BEGAN", time.time()))
        found = (ours if arguments.sampler == "presage" else numpyro)(arguments.sizes[0], began, arguments.limit)
        print("RESULT " + json.dumps(found))
        return
    if arguments.what == "suggestion":
        return note("suggestion", suggestion(arguments.repeats))
    rows: dict = {}
    for size in arguments.sizes:
        if arguments.what == "leapfrogs":
            rows[f"n = {size}"] = leapfrogs(size, arguments.steps)
            print(size, rows[f"n = {size}"], flush=True)
            continue
        for sampler in ("presage", "numpyro"):
            command = [sys.executable, __file__, "one", "--sizes", str(size), "--sampler", sampler,
                       "--limit", str(arguments.limit)]  # fmt: skip
            out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "BEGAN": str(time.time())})
            last = [line for line in out.stdout.splitlines() if line.startswith("RESULT ")]
            rows[f"n = {size}, {sampler}"] = json.loads(last[0][7:]) if last else {"failed": out.stderr[-500:]}
            print(size, sampler, rows[f"n = {size}, {sampler}"], flush=True)
            note(arguments.what, rows)
    if arguments.what == "leapfrogs":
        note(arguments.what, rows)
    return None


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
