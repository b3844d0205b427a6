"""The experiments of the first seed: optimisation with sampled networks, and the figures of its section 5.1.1.

    python benchmarks/s1.py run hmc --seeds 10        # also gp, cauchy and skopt (needs scikit-optimize)
    python benchmarks/s1.py table
    python benchmarks/s1.py figures                   # docs/figures/s1_*.png and benchmarks/results/s1_figures.json

Traces are kept in benchmarks/results/s1_<method>.json; what is there is not run again.
"""

import argparse
import json
import math
import os
import platform
import time
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RESULTS, FIGURES = HERE / "results", HERE.parent / "docs" / "figures"
BUDGETS = {
    "forrester": (2, 15),
    "rosenbrock": (5, 40),
    "mccormick": (5, 30),
    "six_hump_camel": (5, 40),
    "cliff": (5, 40),
}


def cliff(x: np.ndarray) -> np.ndarray:
    """On the unit square [n, 2]: down a slope with a crease to an edge, beyond which everything is bad."""
    along = x[:, 0] + 0.5 * x[:, 1]
    return np.where(along < 0.93, 1.0 - 0.8 * along, 1.2) + 0.3 * np.abs(x[:, 1] - 0.37)


def problem(name: str):  # type: ignore[no-untyped-def]
    """Space, function of params, and minimum."""
    import presage

    if name == "cliff":
        space = presage.Space({"a": presage.Float(0, 1), "b": presage.Float(0, 1)})
        return space, lambda p: float(cliff(np.array([[p["a"], p["b"]]]))[0]), 1.0 - 0.8 * 0.93
    f = getattr(presage.functions, name)
    return f.space, f, f.minimum


def start(name: str, seed: int) -> np.ndarray:
    """The given points, the same for every method."""
    space, _, _ = problem(name)
    return np.random.default_rng([seed, zlib.crc32(name.encode())]).random((BUDGETS[name][0], space.dim))


def surrogate(method: str):  # type: ignore[no-untyped-def]
    """What a method's study is given."""
    if method in ("gp", "auto"):
        return method
    from presage.inference.laws import CAUCHY, Gaussian, LogNormal
    from presage.surrogates import HMCNetwork

    if method == "hmc":
        return HMCNetwork()
    # With Cauchy weights chains agree seldom; the networks themselves answer here, never the process instead of them.
    # Their tails make functions rough enough: the first layer's scale is half of that of Gaussian weights.
    scales = (LogNormal(3.0, 1.0), LogNormal(1.5), LogNormal(1.0, 1.0))
    return HMCNetwork(laws=(CAUCHY, Gaussian(), CAUCHY), weight=scales, bias=(1.5, 1.0, 1.0),
                      noise=LogNormal(1e-4, 3.0), smallest_noise=1e-6, trust=math.inf)  # fmt: skip


def ours(method: str, name: str, seed: int) -> list[float]:
    """Values in the order of evaluation."""
    import presage

    space, f, _ = problem(name)
    given = start(name, seed)
    study = presage.Study(space, seed=seed, initial=len(given), surrogate=surrogate(method))
    for point in given:
        study.enqueue(space.decode(point))
    return [t.value for t in study.optimize(f, trials=BUDGETS[name][1]).trials]


def skopt(method: str, name: str, seed: int) -> list[float]:
    """The same by scikit-optimize at its defaults."""
    from skopt import gp_minimize

    space, f, _ = problem(name)
    given, trials = start(name, seed), BUDGETS[name][1]
    found = gp_minimize(
        lambda x: f(space.decode(np.array(x))), [(0.0, 1.0)] * space.dim, x0=given.tolist(), n_initial_points=0,
        n_calls=trials, random_state=seed,
    )  # fmt: skip
    return [float(v) for v in found.func_vals]


def run(method: str, names: list[str], seeds: int, limit: float) -> None:
    """Run what is missing, as far as time allows, and write it down after every trace."""
    import warnings

    warnings.simplefilter("ignore")
    output = RESULTS / f"s1_{method}.json"
    done = json.loads(output.read_text()) if output.exists() else {"traces": {}}
    packages = ["scikit-optimize"] if method == "skopt" else ["presage", "numpy", "jax"]
    done |= {
        "command": f"python benchmarks/s1.py run {method}", "cores": os.cpu_count(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }  # fmt: skip
    began = time.perf_counter()
    for seed in range(seeds):
        for name in names:
            if str(seed) in done["traces"].get(name, {}) or time.perf_counter() - began > limit:
                continue
            wall, processor = time.perf_counter(), time.process_time()
            values = (skopt if method == "skopt" else ours)(method, name, seed)
            row = {"values": [float(f"{v:.10g}") for v in values], "seconds": round(time.perf_counter() - wall, 2),
                   "processor": round(time.process_time() - processor, 2)}  # fmt: skip
            done["traces"].setdefault(name, {})[str(seed)] = row
            output.write_text(json.dumps(done) + "\n")
            print(method, name, seed, f"regret {min(values) - problem(name)[2]:.3g}", row["processor"], flush=True)


def table() -> None:
    """Medians and quartiles of the regret."""
    for name in BUDGETS:
        for path in sorted(RESULTS.glob("s1_*.json")):
            traces = json.loads(path.read_text()).get("traces", {}).get(name, {})
            if traces:
                regret = [min(row["values"]) - problem(name)[2] for row in traces.values()]
                low, middle, high = np.quantile(regret, [0.25, 0.5, 0.75])
                good = sum(r < 0.01 for r in regret)
                spread = f"median {middle:.3g} ({low:.2g} to {high:.2g}), {good} within 0.01"
                print(f"{name:15s} {path.stem[3:]:7s} {len(regret):3d} repeats: {spread}")


def figures() -> None:
    """Draws from priors of step units; the posterior on 20 values of sin(7x) + cos(17x)."""
    import matplotlib

    matplotlib.use("Agg")
    import jax
    import jax.numpy as jnp
    import matplotlib.pyplot as plt

    from presage.inference.chains import run as sample
    from presage.inference.diagnostics import ess, r_hat
    from presage.inference.laws import CAUCHY, Gaussian, LogNormal
    from presage.inference.network import Data, Network
    from presage.inference.regression import Regression
    from presage.inference.samplers import HMC

    FIGURES.mkdir(parents=True, exist_ok=True)
    grid, rng = np.linspace(-1.0, 1.0, 400)[:, None], np.random.default_rng(3)
    drawing, axes = plt.subplots(2, 2, figsize=(8, 5), sharex=True)
    for row, (law, label) in zip(axes, ((Gaussian(), "Gaussian"), (CAUCHY, "Cauchy")), strict=True):
        for axis, width in zip(row, (150, 10_000), strict=True):
            network = Network(1, (width,), "step", laws=(Gaussian(), law), weight=(LogNormal(5.0), LogNormal(1.0)),
                              bias=(5.0, 1.0), collapsed=False)  # fmt: skip
            weights = network.weights(network.draw(3, rng))
            for basis, output in zip(network.basis(weights, grid), weights.output, strict=True):
                axis.plot(grid, basis @ output, lw=0.8)
            axis.set_title(f"{label} output weights, {width} step units", fontsize=9)
    drawing.tight_layout()
    drawing.savefig(FIGURES / "s1_prior.png", dpi=80)

    x = rng.uniform(-1.0, 1.0, (20, 1))
    truth = [np.sin(7 * a[:, 0]) + np.cos(17 * a[:, 0]) for a in (x, grid)]
    y = truth[0] + 0.1 * rng.standard_normal(20)
    # Scales are inferred: with 4 / sqrt(fan-in) fixed in the first layer the networks are too smooth for cos(17x), and
    # the band covered 30 per cent of the curve.
    scales = (LogNormal(4.0, 1.0), LogNormal(1.0, 0.5), LogNormal(1.0, 0.5), LogNormal(1.0, 1.0))
    network = Network(1, weight=scales, bias=(4.0, 1.0, 1.0, 1.0))
    data = Data(*(jnp.asarray(a, jnp.float32) for a in (x, y, np.zeros(20))), jnp.ones(20, bool))
    begin = jnp.asarray(network.draw(4, rng), jnp.float32)
    draws = 500
    chains = sample(
        HMC(most=64), network, data, begin, 0.02, jnp.ones(network.size), jax.random.key(0), 300, 1, draws=draws
    )
    weights = network.weights(np.asarray(chains.positions, float).reshape(-1, network.size))
    layer = Regression.of(network.basis(weights, x), y, np.full((4 * draws, 20), network.noise.median))
    output = layer.weights(np.arange(4 * draws), rng)
    values = np.einsum("snp,sp->sn", network.basis(weights, grid[::4]), output)
    mean, stddev = values.mean(axis=0), values.std(axis=0)
    inside = grid[::4, 0][(grid[::4, 0] >= x.min()) & (grid[::4, 0] <= x.max())]
    covered = np.abs(truth[1][::4] - mean) < 2 * stddev
    by_chain = values.reshape(draws, 4, -1)
    found = {
        "coverage_two_sigma": float(covered.mean()),
        "coverage_between_the_data": float(covered[np.isin(grid[::4, 0], inside)].mean()),
        "r_hat_max": float(r_hat(by_chain).max()), "ess_min": float(ess(by_chain).min()), "draws": draws, "chains": 4,
        "acceptance": float(chains.acceptance), "step": float(chains.step), "divergent": int(chains.divergent),
    }  # fmt: skip
    drawing, axes = plt.subplots(2, 2, figsize=(9, 6))
    at = grid[::4, 0]
    axes[0, 0].fill_between(at, mean - 2 * stddev, mean + 2 * stddev, alpha=0.3)
    axes[0, 0].plot(at, mean, at, truth[1][::4], "k--", lw=0.8)
    axes[0, 0].plot(x[:, 0], y, "k.")
    axes[0, 0].set_title("mean and two standard deviations", fontsize=9)
    axes[0, 1].plot(at, values[:: 4 * draws // 5].T, lw=0.6)
    axes[0, 1].plot(x[:, 0], y, "k.")
    axes[0, 1].set_title("single networks", fontsize=9)
    one = np.asarray(network.piece(np.asarray(chains.positions), "weight1"))[:, :, 0, 0]
    axes[1, 0].plot(one, lw=0.6)
    axes[1, 0].set_title("traces of one weight, four chains", fontsize=9)
    axes[1, 1].hist(one.ravel(), 30, density=True)
    z = np.linspace(-3.5, 3.5, 100)
    axes[1, 1].plot(z, np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
    axes[1, 1].set_title("its histogram and prior", fontsize=9)
    drawing.tight_layout()
    drawing.savefig(FIGURES / "s1_posterior.png", dpi=62)
    print(found)
    (RESULTS / "s1_figures.json").write_text(json.dumps({"command": "python benchmarks/s1.py figures", **found}) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table", "figures"])
    parser.add_argument("method", nargs="?", choices=["hmc", "gp", "auto", "cauchy", "skopt"], default="hmc")
    parser.add_argument("--problems", nargs="*", default=list(BUDGETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no trace is begun")
    arguments = parser.parse_args()
    if arguments.action == "run":
        run(arguments.method, arguments.problems, arguments.seeds, arguments.limit)
    elif arguments.action == "table":
        table()
    else:
        figures()


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
