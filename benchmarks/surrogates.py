"""Every surrogate by name: how well it foretells values, and the regret of studies that use it.

    python benchmarks/surrogates.py table      # writes benchmarks/results/surrogates.json and surrogates.md
    python benchmarks/surrogates.py regret     # writes benchmarks/results/surrogates_regret.json

`table` gives log predictive density, coverage of 50 and 90 % intervals and RMSE, in units of the training values'
standard deviation, on six functions and on scikit-learn's diabetes data, next to scikit-learn's own Gaussian process
and random forest. `regret` gives the regret after some trials from the same starting points.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
DIABETES = "diabetes"
PEERS = ("sklearn GaussianProcessRegressor", "sklearn RandomForestRegressor")


def problems() -> dict[str, Any]:
    """The functions to be foretold."""
    from presage import functions as f

    some = (f.branin, f.six_hump_camel, f.hartmann4, f.rosenbrock.dim(4), f.ackley.dim(5), f.hartmann6)
    return {repr(function): function for function in some}


def split(name: str, seed: int, train: int, test: int) -> tuple[Any, Any]:
    """Observations to fit to and to be foretold, in the same units."""
    from presage.observations import Column, observe

    rng = np.random.default_rng([seed, 2])
    if name == DIABETES:
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True)
        order = rng.permutation(len(y))
        x, y, train = ((x - x.min(axis=0)) / np.ptp(x, axis=0))[order], y[order], len(y) // 2
    else:
        f = problems()[name]
        low, high = f.formula.box(f.num_dims)
        x = rng.random((train + test, f.num_dims))
        y = f.on_array(low + (high - low) * x)
    columns = (Column("continuous"),) * x.shape[1]
    fitted, fresh = (observe(x[part], y[part], columns) for part in (slice(None, train), slice(train, None)))
    return fitted, fresh.rescaled(fitted.center, fitted.scale)


def ours(name: str) -> Callable[[Any, Any, int], tuple[float, ...]]:
    """The scores of a surrogate of presage."""
    return lambda data, fresh, seed: made(name).fit(data, rng=np.random.default_rng(seed)).posterior.score(fresh)


def made(name: str) -> Any:
    """A surrogate by its name; "neural" is the network itself, not the process before it."""
    from presage.surrogates import BY_NAME, NeuralBasis

    return NeuralBasis() if name == "neural" else BY_NAME[name]()


def theirs(name: str) -> Callable[[Any, Any, int], tuple[float, ...]]:
    """The scores of scikit-learn, with the standard deviation of its process, or that over its trees."""
    from scipy.special import ndtr
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    def score(data: Any, fresh: Any, seed: int) -> tuple[float, ...]:
        if name == PEERS[0]:
            kernel = ConstantKernel() * Matern([0.5] * data.x.shape[1], (1e-2, 1e3), nu=2.5) + WhiteKernel(
                1e-3, (1e-8, 10.0)
            )
            model = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=seed).fit(data.x, data.y)
            mean, stddev = model.predict(fresh.x, return_std=True)
        else:
            model = RandomForestRegressor(100, random_state=seed).fit(data.x, data.y)
            each = np.array([tree.predict(fresh.x) for tree in model.estimators_])
            mean, stddev = each.mean(axis=0), np.maximum(each.std(axis=0), 1e-6)
        z = (fresh.y - mean) / stddev
        off = np.abs(ndtr(z) - 0.5)
        density = -0.5 * (z**2 + np.log(2 * np.pi)) - np.log(stddev)
        return (
            float(density.mean()),
            (off <= 0.25).mean(),
            (off <= 0.45).mean(),
            float(np.sqrt(np.mean((z * stddev) ** 2))),
        )

    return score


def table(options: argparse.Namespace) -> None:
    """Score everything, print and write down."""
    methods = {name: ours(name) for name in options.surrogates} | {name: theirs(name) for name in PEERS}
    names = [*problems(), DIABETES]
    scores: dict[str, dict[str, list[list[float]]]] = {}
    seconds: dict[str, list[float]] = {}
    for method, score in methods.items():
        for problem in names:
            for seed in range(options.first, options.first + options.seeds):
                data, fresh = split(problem, seed, options.train, options.test)
                began = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # scikit-learn tells of lengthscales at their bounds
                    row = [round(float(value), 4) for value in score(data, fresh, seed)]
                seconds.setdefault(method, []).append(time.perf_counter() - began)
                scores.setdefault(method, {}).setdefault(problem, []).append(row)
        print(f"{method}: {np.mean(seconds[method]):.2f} s each", flush=True)
    lines = [
        f"Means over {options.seeds} seeds; {options.train} values to fit to, {options.test} to foretell (diabetes: 221"
        " each). In a cell: log predictive density (larger is better), coverage of 50 and 90 % intervals, RMSE.",
        "", "| surrogate | " + " | ".join(names) + " | mean density |", "|---" * (len(names) + 2) + "|",
    ]  # fmt: skip
    for method, by_problem in scores.items():
        cells = [np.mean(rows, axis=0) for rows in by_problem.values()]
        texts = [f"**{a:.2f}** {100 * b:.0f} {100 * c:.0f} {d:.2f}" for a, b, c, d in cells]
        lines.append(f"| {method} | {' | '.join(texts)} | {np.mean(cells, axis=0)[0]:.2f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    options.output.with_suffix(".md").write_text(f"`{command(options)}`\n\n{text}")
    record(options, {"columns": ["log_density", "coverage50", "coverage90", "rmse"], "scores": scores,
                     "seconds": {name: round(float(np.mean(each)), 3) for name, each in seconds.items()}})  # fmt: skip


def regret(options: argparse.Namespace) -> None:
    """Run studies, print medians and quartiles, write down the regrets."""
    import presage

    functions = {"branin": (presage.functions.branin, 5, 30), "hartmann6": (presage.functions.hartmann6, 10, 60)}
    regrets: dict[str, dict[str, list[float]]] = {}
    for problem, (f, initial, usual) in functions.items():
        trials = options.trials or usual
        for method in [*options.surrogates, "random"]:
            began, found = time.perf_counter(), []
            for seed in range(options.first, options.first + options.seeds):
                surrogate = method if method == "random" else made(method)
                study = presage.Study(f.space, surrogate=surrogate, seed=seed, initial=initial)
                found.append(study.optimize(f, trials).best.value - f.minimum)
            regrets.setdefault(problem, {})[method] = [float(f"{value:.4g}") for value in found]
            low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
            each = (time.perf_counter() - began) / options.seeds
            print(f"{problem:10s} {trials:3d} trials  {method:10s} median regret {middle:.4g} ({low:.2g} to {high:.2g})"
                  f"  {each:.1f} s a study", flush=True)  # fmt: skip
            record(options, {"regret": regrets})


def command(options: argparse.Namespace) -> str:
    """What was run."""
    given = {k: v for k, v in vars(options).items() if k in ("seeds", "train", "test", "trials") and v is not None}
    chosen = " ".join(["", "--surrogates", *options.surrogates])
    return (
        f"python benchmarks/surrogates.py {options.action} " + " ".join(f"--{k} {v}" for k, v in given.items()) + chosen
    )


def record(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Keep a result with what made it."""
    about = {
        "command": command(options),
        "versions": {name: version(name) for name in ("presage", "numpy", "scipy", "scikit-learn")},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "processor": platform.machine()},
    }
    options.output.write_text(json.dumps(about | result, indent=1) + "\n")


def main() -> None:
    """The command line."""
    from presage.surrogates import BY_NAME

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    for name, file, run in (("table", "surrogates.json", table), ("regret", "surrogates_regret.json", regret)):
        one = actions.add_parser(name)
        one.set_defaults(run=run)
        one.add_argument("--surrogates", nargs="*", default=list(BY_NAME))
        one.add_argument("--seeds", type=int, default=5)
        one.add_argument("--first", type=int, default=2, help="the first seed; forests were chosen with 0 and 1")
        one.add_argument("--output", type=Path, default=RESULTS / file)
        if name == "table":
            one.add_argument("--train", type=int, default=50)
            one.add_argument("--test", type=int, default=500)
        else:
            one.add_argument("--trials", type=int, help="instead of 30 on branin and 60 on hartmann6")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
