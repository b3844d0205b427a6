"""NeuralBasis: what it costs as data grow and how it searches; the experiments of S3 are `presage reproduce s3`.

    python benchmarks/neural.py scaling     cost and memory at n = 1e2 to 1e6; BoTorch's Gaussian processes beside it
    python benchmarks/neural.py latency     suggestions while a network is trained, and while none is
    python benchmarks/neural.py regret      against our own Gaussian process, up to 200 trials
    python benchmarks/neural.py highdim     20 dimensions, 5,000 observations, against Gaussian processes
    python benchmarks/neural.py takeover    30 suggestions after 2,000 values: what "auto" should be there

Each writes benchmarks/results/neural_<name>.json. Run with a Python that has BoTorch (and presage on its path), the
peers are measured in the same run; without it they are left out, and the record says so.
"""

import argparse
import json
import os
import platform
import resource
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from presage import Study, functions  # noqa: E402
from presage.observations import Observations, columns_of, observe  # noqa: E402
from presage.proposers import Domain, ModelBased  # noqa: E402
from presage.surrogates import GaussianProcess, SparseGaussianProcess, Staged, Surrogate, automatic  # noqa: E402
from presage.surrogates.neural_basis import NeuralBasis  # noqa: E402
from presage.threads import few_threads  # noqa: E402

HERE = Path(__file__).parent
SUBSET = 1600  # rows of the exact Gaussian process in highdim: about as many CPU seconds as NeuralBasis on all rows
SECONDS = 40.0  # of each search in highdim
RESULTS, FIGURES = HERE / "results", HERE.parent / "docs" / "figures"


def record(name: str, found: dict[str, Any]) -> None:
    """Write a result down with the command and the versions that made it."""
    versions = {}
    for package in ("presage", "numpy", "scipy", "torch", "botorch", "gpytorch"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    command = "python benchmarks/neural.py " + " ".join(sys.argv[1:])
    whole = {"command": command, "versions": versions, "machine": machine, **found}
    (RESULTS / f"neural_{name}.json").write_text(json.dumps(whole, indent=1) + "\n")


def table(function: Any, x: np.ndarray, noise: float, rng: np.random.Generator) -> Observations:
    """Noisy values at points of the unit cube, standardised."""
    space = function.space
    low, high = np.array([[space[name].low, space[name].high] for name in space.columns], dtype=float).T
    y = function.formula.values(low + (high - low) * x - function._shift) + noise * rng.standard_normal(len(x))
    return observe(x, y, columns_of(space))


def cube(dim_columns: tuple) -> Domain:
    """The plain unit cube as a domain."""
    return Domain(dim_columns, lambda x: x, lambda x: np.ones(len(x), dtype=bool), lambda x: x.tobytes().hex())


def memory() -> float:
    """The most memory this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(run: Any) -> tuple[float, Any]:
    began = time.process_time()
    result = run()
    return time.process_time() - began, result


def scaling(arguments: argparse.Namespace) -> None:
    """CPU seconds of a full fit from nothing, of a suggestion with the representation kept, of a new row (median)."""
    rng, surrogate, rows = np.random.default_rng(0), NeuralBasis(), []
    for n in [10**k for k in range(2, arguments.largest + 1)]:
        data = table(functions.hartmann6, rng.random((n, 6)), 0.1, rng)
        with few_threads():
            first, fit = timed(lambda data=data: surrogate.fit(data, rng=np.random.default_rng(1)))
            state = {**fit.state, "rows": np.array(n)}
            more = table(functions.hartmann6, np.vstack([data.x, rng.random((3, 6))]), 0.1, rng)
            proposer, domain = ModelBased(surrogate), cube(data.columns)
            began = time.process_time()
            proposal = proposer.propose(state, more, domain, 1, rng=np.random.default_rng(2))
            suggestion = time.process_time() - began
            assert proposal.state is state, "the representation was to be kept"
            points = rng.random((40, 1, 6))
            added = [timed(lambda one=one, fit=fit: fit.posterior.condition(one, np.zeros(1)))[0] for one in points]
        row = {"n": n, "fit": first, "suggestion": suggestion, "added": float(np.median(added)),
               "memory_gb": memory()}  # fmt: skip
        rows.append(row)
        print({key: round(value, 4) for key, value in row.items()}, flush=True)
        record("scaling", {"unit": "CPU seconds", "neural": rows, "slope": slopes(rows)})
    print("slopes:", slopes(rows))
    peers = []
    try:
        from peer_botorch import suggest, suggest_sparse
    except ImportError:
        print("BoTorch is not here; run with a Python that has it")
    else:
        for name, function, sizes in (("exact", suggest, (100, 1000)), ("sparse", suggest_sparse, (100, 1000, 10000))):
            for n in sizes:
                data = table(functions.hartmann6, rng.random((n, 6)), 0.1, rng)
                seconds, _ = timed(lambda data=data, function=function: function(data.x, data.y))
                peers.append({"peer": name, "n": n, "suggestion": seconds})
                print(peers[-1], flush=True)
    record("scaling", {"unit": "CPU seconds", "neural": rows, "slope": slopes(rows), "botorch": peers})


def slopes(rows: list[dict]) -> dict[str, float]:
    """Least-squares slopes on log axes from n = 1,000 on, where minibatches take over."""
    late = [row for row in rows if row["n"] >= 1000]
    if len(late) < 2:
        return {}
    n = np.log([row["n"] for row in late])
    return {what: float(np.polyfit(n, np.log([row[what] for row in late]), 1)[0]) for what in ("fit", "suggestion")}


def search(function: Any, make: Surrogate | str, seed: int, initial: int, trials: int) -> tuple[np.ndarray, float]:
    """Values in order of evaluation, and CPU seconds of everything but the objective, which costs nothing here."""
    study = Study(function.space, surrogate=make, seed=seed, initial=initial)
    seconds, result = timed(lambda: study.optimize(function, trials=trials))
    return np.array([trial.value for trial in result.trials]), seconds


def regret(arguments: argparse.Namespace) -> None:
    """Median regret after few trials from the same starts; up to 300 values "neural" is the Gaussian process."""
    found: dict[str, Any] = {}
    makers = {"neural": Staged, "gp": GaussianProcess, "network alone": NeuralBasis}
    for name, trials in (
        ("branin", 40), ("six_hump_camel", 40), ("rosenbrock", 40), ("gaussian_mixture", 100), ("hartmann4", 100),
        ("hartmann6", 150),
    ):  # fmt: skip
        function = getattr(functions, name)
        found[name] = {"trials": trials}
        for method, make in makers.items():
            initial = 50 if name == "gaussian_mixture" else function.space.dim + 3
            out = [search(function, make(), number, initial, trials) for number in range(arguments.seeds)]
            least = [float(values.min() - function.minimum) for values, _ in out]
            spread = float(np.median([values[:initial].std() for values, _ in out]))
            found[name][method] = {"median": float(np.median(least)), "least": least,
                                   "in_spreads": float(np.median(least) / spread),
                                   "seconds": float(np.median([s for _, s in out]))}  # fmt: skip
            print(
                name, trials, method, f"{np.median(least):.2e}", f"{found[name][method]['seconds']:.1f} s", flush=True
            )
        record("regret", {"seeds": arguments.seeds, "functions": found})


def latency(arguments: argparse.Namespace) -> None:
    """Wall-clock seconds of suggestions at n = 1,000 while a network is trained, and while none is."""
    from presage.surrogates.background import InBackground

    rng = np.random.default_rng(0)
    points = rng.random((1000, 6))
    few, data = (table(functions.hartmann6, points[:n], 0.0, rng) for n in (900, 1000))
    model = InBackground(NeuralBasis())
    proposer, domain = ModelBased(model), cube(data.columns)
    state = proposer.propose({}, few, domain, 1, rng=rng).state  # a first fit has to be waited for
    busy, idle = [], []

    def suggest(seconds: list[float], state: dict) -> dict:
        began = time.perf_counter()
        new = proposer.propose(state, data, domain, 1, rng=rng).state
        seconds.append(time.perf_counter() - began)
        return new

    state = suggest([], state)  # a tenth is new: a training starts
    while model.training:
        state = suggest(busy, state)
    state = suggest([], state)
    for _ in range(10):
        state = suggest(idle, state)
    assert model.trained == 1
    print(f"while training {np.median(busy):.3f} s, idle {np.median(idle):.3f} s")
    record("latency", {"while_training": busy, "idle": idle, "training_took": [model.seconds]})


def highdim(arguments: argparse.Namespace) -> None:
    """20 dimensions, 5,000 random points: as a model of fresh points, and searches of the same processor seconds."""
    found: dict[str, Any] = {"search seconds": SECONDS, "functions": {}}
    makers = {"neural": NeuralBasis, f"gp on {SUBSET}": GaussianProcess, "our sparse gp": SparseGaussianProcess,
              "auto": automatic}  # fmt: skip
    for number, name in ((n, f) for n in range(arguments.seeds) for f in arguments.functions):
        function, rng = getattr(functions, name).dim(20).shifted(number), np.random.default_rng(number)
        data = table(function, rng.random((5000, 20)), 0.0, rng)
        fresh = table(function, rng.random((2000, 20)), 0.0, rng).rescaled(data.center, data.scale)
        subset = np.random.default_rng(1).choice(5000, SUBSET, replace=False)
        subset = np.union1d(subset, data.y.argmin())
        for method, make in makers.items():
            rows = subset if method.startswith("gp") else np.arange(5000)
            given = observe(data.x[rows], data.center + data.scale * data.y[rows], data.columns)
            with few_threads():
                seconds, fit = timed(lambda m=make, g=given: m().fit(g, rng=np.random.default_rng(0)))
                score = fit.posterior.score(fresh.rescaled(given.center, given.scale))
                regrets = search_on(make(), given, function, number, seconds=SECONDS)
            row = {"seed": number, "fit seconds": seconds, "rmse": score.rmse * given.scale / data.scale,
                   "log_density": score.log_density, "coverage90": score.coverage90, "suggestions": len(regrets) - 1,
                   "regret at first": regrets[0], "regret": min(regrets)}  # fmt: skip
            found["functions"].setdefault(name, {}).setdefault(method, []).append(row)
            print(name, method, {key: round(value, 3) for key, value in row.items()}, flush=True)
            record("highdim", found)
        try:
            from peer_botorch import sparse_prediction
        except ImportError:
            continue
        seconds, (mean, variance) = timed(lambda d=data, f=fresh: sparse_prediction(d.x, d.y, f.x))
        density = float(-0.5 * np.mean((fresh.y - mean) ** 2 / variance + np.log(2.0 * np.pi * variance)))
        row = {"seed": number, "fit seconds": seconds, "rmse": float(np.sqrt(np.mean((mean - fresh.y) ** 2))),
               "log_density": density}  # fmt: skip
        found["functions"][name].setdefault("BoTorch's sparse gp", []).append(row)
        print(name, "BoTorch's sparse gp", row, flush=True)
        record("highdim", found)


def takeover(arguments: argparse.Namespace) -> None:
    """Searches that go on after 2,000 random points: the processes of "auto" on all rows and on 500, and others."""
    makers = {"auto": automatic, "its processes on all rows": lambda: automatic().surrogate, "network": NeuralBasis,
              "sparse": SparseGaussianProcess}  # fmt: skip
    found: dict[str, Any] = {"values": 2000, "suggestions": 30, "functions": {}}
    problems = {"hartmann6": functions.hartmann6, "ackley10": functions.ackley.dim(10),
                "levy10": functions.levy.dim(10), "rosenbrock8": functions.rosenbrock.dim(8)}  # fmt: skip
    for number, name in ((n, f) for n in range(arguments.seeds) for f in problems):
        function, rng = problems[name].shifted(number), np.random.default_rng(number)
        data = table(function, rng.random((2000, function.space.dim)), 0.0, rng)
        for method, make in makers.items():
            seconds, regrets = timed(lambda f=function, d=data, m=make, n=number: search_on(m(), d, f, n, trials=30))
            row = {"seed": number, "seconds": seconds, "regret at first": regrets[0], "regret": min(regrets)}
            found["functions"].setdefault(name, {}).setdefault(method, []).append(row)
            print(name, method, {key: round(value, 4) for key, value in row.items()}, flush=True)
            record("takeover", found)


def search_on(
    surrogate: Surrogate, data: Observations, function: Any, seed: int, *, seconds: float = np.inf,
    trials: float = np.inf,
) -> list[float]:  # fmt: skip
    """Regrets of the best point given and of those suggested one after the other, so many or in so long."""
    study = Study(function.space, surrogate=surrogate, seed=seed)
    values = (data.center + data.scale * data.y).tolist()
    study.tell_many([function.space.decode(x) for x in data.x], values)
    regrets, began = [min(values) - function.minimum], time.process_time()
    while time.process_time() - began < seconds and len(regrets) <= trials:
        trial = study.ask()
        value = function(trial.params)
        study.tell(trial, value)
        regrets.append(value - function.minimum)
    return regrets


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scaling", "latency", "regret", "highdim", "takeover"])
    parser.add_argument("--largest", type=int, default=6, help="scaling: up to 10 to this power")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--functions", nargs="*", default=["griewank", "ackley", "levy"], help="highdim: on these")
    arguments = parser.parse_args()
    globals()[arguments.what](arguments)


if __name__ == "__main__":
    main()
