"""NeuralBasis: what it costs as data grow, how it searches, and what its workers gain.

    python benchmarks/neural.py scaling     cost and memory at n = 1e2 to 1e6; BoTorch's Gaussian processes beside it
    python benchmarks/neural.py seed        Hartmann4 and the Gaussian mixture, 50 random points and 100 queries
    python benchmarks/neural.py tail        the share of runs whose average regret exceeds eps, against n
    python benchmarks/neural.py workers     four workers against one, and latency while a network is trained
    python benchmarks/neural.py regret      against our own Gaussian process, up to 200 trials
    python benchmarks/neural.py highdim     20 dimensions, 5,000 observations, against Gaussian processes

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
from presage.sobol import sobol  # noqa: E402
from presage.surrogates import GaussianProcess, SparseGaussianProcess, Staged, Surrogate  # noqa: E402
from presage.surrogates.neural_basis import NeuralBasis  # noqa: E402
from presage.threads import few_threads  # noqa: E402

HERE = Path(__file__).parent
SUBSET = 1600  # rows of the exact Gaussian process in highdim: about as many CPU seconds as NeuralBasis on all rows
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
    """CPU seconds of a full fit from nothing, of a suggestion with the representation kept, and of a new row."""
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
            point = rng.random((20, 1, 6))
            added, _ = timed(lambda point=point, fit=fit: [fit.posterior.condition(one, np.zeros(1)) for one in point])
        row = {"n": n, "fit": first, "suggestion": suggestion, "added": added / 20,
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


def seed(arguments: argparse.Namespace) -> None:
    """S3's two problems: 50 points that know nothing, then 100 queries with surrogate="neural"."""
    found: dict[str, Any] = {}
    for function in (functions.hartmann4, functions.gaussian_mixture):
        runs = []
        for number in range(arguments.seeds):
            values, seconds = search(function, "neural", number, 50, 150)
            regret = values - function.minimum
            average = np.cumsum(regret[50:]) / np.arange(1, 101)
            runs.append(
                {"least": float(regret.min()), "seconds": seconds, "average": average[[9, 24, 49, 99]].tolist()}
            )
            print(function.name, number, f"least {regret.min():.2e} in {seconds:.1f} s", flush=True)
            least, cost = (np.array([run[key] for run in runs]) for key in ("least", "seconds"))
            average = np.median([run["average"] for run in runs], axis=0)
            found[function.name] = {
                "seeds": len(runs), "median_least": float(np.median(least)), "median_seconds": float(np.median(cost)),
                "largest_seconds": float(cost.max()), "median_average_at_10_25_50_100": average.tolist(), "runs": runs,
            }  # fmt: skip
            record("seed", found)
        print({key: value for key, value in found[function.name].items() if key != "runs"})


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


def tail(arguments: argparse.Namespace) -> None:
    """P[R_n / n > eps] over repeats, queries in batches, on paths of a Gaussian process and on Hartmann4.

    Each query is the minimum, among candidates, of one function drawn from the posterior of the network alone, however
    few the values. So a batch costs one update of the heads; networks are trained when the values have tripled.
    """
    surrogate, eps = NeuralBasis(widths=(150,), members=3, evaluations=20, full=1024), 0.7
    curves: dict[str, list[np.ndarray]] = {"gp_path": [], "hartmann4": []}
    for number in range(arguments.repeats):
        for name, found in curves.items():
            function = functions.gp_path.with_seed(number) if name == "gp_path" else functions.hartmann4
            with few_threads():
                values = by_draws(function, surrogate, arguments.queries, arguments.batch, number)
            found.append(np.cumsum(values - function.minimum) / np.arange(1, len(values) + 1))
        if number % 10 == 9 or number == arguments.repeats - 1:
            told = {name: tail_of(np.array(found), eps) for name, found in curves.items()}
            shape = {"queries": arguments.queries, "batch": arguments.batch, "eps": eps, "surrogate": repr(surrogate)}
            record("tail", {**shape, "seconds": time.process_time(), **told})
            draw_tail(told, eps)
            print({name: (one["repeats"], one["rate"], one["from"]) for name, one in told.items()}, flush=True)


def tail_of(curves: np.ndarray, eps: float) -> dict[str, Any]:
    """What is recorded of average regrets [repeats, n]."""
    share = (curves > eps).mean(axis=0)
    median = np.median(curves, axis=0)
    return {
        "repeats": len(curves), **rate(share, len(curves)),
        "median_average": median[[19, *range(99, len(median), 100)]].tolist(),
        "falls": float((np.diff(curves[:, 99::100], axis=1) < 0).mean()), "share": share[19::10].tolist(),
    }  # fmt: skip


def by_draws(function: Any, surrogate: Surrogate, queries: int, batch: int, seed: int) -> np.ndarray:
    """Values of a search by functions drawn from the posterior, so many at a time, after 20 Sobol points."""
    rng, columns, d = np.random.default_rng(seed), columns_of(function.space), function.space.dim
    low, high = (np.array(side, dtype=float) for side in function.formula.box(d))
    x, state, trained = sobol(20, d, rng), None, 0
    y = function.on_array(low + (high - low) * x)
    while len(y) < queries:
        data, keep = observe(x, y, columns), len(y) < 3 * trained
        fit = surrogate.fit(data, rng=rng, previous=state, keep=keep)
        if not keep:
            state, trained = fit.state, len(y)
        best = x[np.argsort(y)[:5]][rng.integers(5, size=512)]
        near = np.clip(best + 10.0 ** rng.uniform(-3.0, -0.5, (512, 1)) * rng.standard_normal((512, d)), 0.0, 1.0)
        candidates = np.vstack([sobol(512, d, rng), near])
        drawn = fit.posterior.draw(min(batch, queries - len(y)), rng=rng).values(candidates)
        x = np.vstack([x, candidates[drawn.argmin(axis=1)]])
        y = np.append(y, function.on_array(low + (high - low) * x[len(y) :]))
    return y


def rate(share: np.ndarray, repeats: int) -> dict[str, Any]:
    """Slope of log share per query where the share lies strictly between 0.9 and 1 run."""
    inside = np.flatnonzero((share < 0.9) & (share > 1.0 / repeats))
    if len(inside) < 5:
        return {"rate": None, "from": None}
    return {"rate": float(np.polyfit(inside, np.log(share[inside]), 1)[0]), "from": int(inside[0])}


def draw_tail(found: dict[str, Any], eps: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5))
    for name, one in found.items():
        label = f"{name}, {1000 * one['rate']:.0f}/1000 per query" if one["rate"] else name
        share = np.array(one["share"])
        axes.semilogy(20 + 10 * np.arange(len(share)), np.where(share > 0, share, np.nan), label=label)
    axes.set(xlabel="queries n", ylabel=f"P[R_n / n > {eps}]")
    axes.legend()
    figure.tight_layout()
    figure.savefig(FIGURES / "s3_tail.png", dpi=80)
    plt.close(figure)


def workers(arguments: argparse.Namespace) -> None:
    """Wall-clock seconds of the same trials with one worker and with four, fits in the background."""
    from presage.surrogates.background import InBackground

    function, found = functions.hartmann4, {}

    def slow(params: dict) -> float:
        time.sleep(arguments.objective)
        return function(params)

    for count in (1, 4):
        model = InBackground(Staged())
        study = Study(function.space, surrogate=model, seed=0, initial=8)
        began = time.perf_counter()
        study.optimize(slow, trials=arguments.trials, workers=count, executor="threads")
        wall = time.perf_counter() - began
        found[str(count)] = {"wall": wall, "trainings": model.trained, "training_seconds": model.seconds}
        print(count, found[str(count)], flush=True)
    found["speedup"] = found["1"]["wall"] / found["4"]["wall"]
    print({"speedup": found["speedup"]}, flush=True)
    whole = {"trials": arguments.trials, "objective_seconds": arguments.objective, **found}
    record("workers", whole)
    whole["latency"] = latency()
    print({name: float(np.median(seconds)) for name, seconds in whole["latency"].items()})
    record("workers", whole)


def latency() -> dict[str, Any]:
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
    return {"while_training": busy, "idle": idle, "training_took": [model.seconds]}


def highdim(arguments: argparse.Namespace) -> None:
    """Points found on a 20-dimensional function from 5,000 observations, each method given the same seconds."""
    found: dict[str, Any] = {}
    for number in range(arguments.seeds):
        function = functions.styblinski_tang.dim(20).shifted(number)
        rng = np.random.default_rng(number)
        data = table(function, rng.random((5000, 20)), 0.0, rng)
        fresh = table(function, rng.random((2000, 20)), 0.0, rng).rescaled(data.center, data.scale)
        subset = np.random.default_rng(1).choice(5000, SUBSET, replace=False)
        few = observe(data.x[subset], data.center + data.scale * data.y[subset], data.columns)
        for name, surrogate, given in (
            ("neural", NeuralBasis(), data), (f"gp on {SUBSET}", GaussianProcess(), few),
            ("our sparse gp", SparseGaussianProcess(), data),
        ):  # fmt: skip
            with few_threads():
                seconds, fit = timed(lambda s=surrogate, g=given: s.fit(g, rng=np.random.default_rng(0)))
                score = fit.posterior.score(fresh.rescaled(given.center, given.scale))
                least = propose_and_look(surrogate, given, function)
            found.setdefault(name, []).append(
                {"seconds": seconds, "rmse": score.rmse * given.scale / data.scale, "log_density": score.log_density,
                 "coverage90": score.coverage90, "found": least}
            )  # fmt: skip
            print(number, name, found[name][-1], flush=True)
            record("highdim", found)
        try:
            from peer_botorch import sparse_prediction
        except ImportError:
            continue
        seconds, (mean, variance) = timed(lambda d=data, f=fresh: sparse_prediction(d.x, d.y, f.x))
        density = -0.5 * np.mean((fresh.y - mean) ** 2 / variance + np.log(2.0 * np.pi * variance))
        found.setdefault("sparse gp", []).append(
            {"seconds": seconds, "rmse": float(np.sqrt(np.mean((mean - fresh.y) ** 2))), "log_density": float(density)}
        )
        print(number, "sparse gp", found["sparse gp"][-1], flush=True)
        record("highdim", found)
    record("highdim", found)


def propose_and_look(surrogate: Surrogate, data: Observations, function: Any) -> float:
    """How much lower than the best observation the function is at a suggestion, in standardised units."""
    proposal = ModelBased(surrogate).propose({}, data, cube(data.columns), 1, rng=np.random.default_rng(3))
    value = table(function, proposal.points, 0.0, np.random.default_rng(0))
    return float((value.center - data.center) / data.scale - data.y.min())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scaling", "seed", "tail", "workers", "regret", "highdim"])
    parser.add_argument("--largest", type=int, default=6, help="scaling: up to 10 to this power")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=100, help="tail")
    parser.add_argument("--queries", type=int, default=800, help="tail")
    parser.add_argument("--batch", type=int, default=40, help="tail")
    parser.add_argument("--trials", type=int, default=40, help="workers")
    parser.add_argument("--objective", type=float, default=2.0, help="workers: seconds of an evaluation")
    arguments = parser.parse_args()
    globals()[arguments.what](arguments)


if __name__ == "__main__":
    main()
