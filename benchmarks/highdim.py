"""Many dimensions: Branin in 50 and 100, Ackley and Levy in 20 and 100, against random search and CMA-ES.

    python benchmarks/highdim.py --trials 200 --seeds 3      # writes benchmarks/results/highdim.json
    python benchmarks/highdim.py --problems levy20 --methods region --add

Branin in d dimensions depends on two of them, drawn anew for each seed; Ackley and Levy are shifted by the seed.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from record import RESULTS, spread, write

Objective = Callable[[dict[str, float]], float]


def problem(name: str, seed: int) -> tuple[Any, Objective, float]:
    """A space, an objective on it, and its minimum."""
    import presage
    from presage import Float, Space, functions

    if not name.startswith("branin"):
        kind, d = (functions.ackley, name[6:]) if name.startswith("ackley") else (functions.levy, name[4:])
        f = kind.dim(int(d)).shifted(seed)
        return f.space, f, f.minimum
    d = int(name[6:])
    one, two = np.random.default_rng([seed, d]).choice(d, 2, replace=False)
    branin = presage.functions.branin

    def lifted(params: dict[str, float]) -> float:
        return branin(branin.space.decode(np.array([params[f"x{one}"], params[f"x{two}"]])))

    return Space({f"x{i}": Float(0, 1) for i in range(d)}), lifted, branin.minimum


def study_trace(settings: Callable[[], dict[str, Any]]) -> Callable[..., list[float]]:
    """Values of a study with these settings."""

    def trace(space: Any, f: Objective, trials: int, seed: int) -> list[float]:
        import presage

        study = presage.Study(space, seed=seed, **settings())
        return [trial.value for trial in study.optimize(f, trials=trials).trials]

    return trace


def cma_trace(space: Any, f: Objective, trials: int, seed: int) -> list[float]:
    """Values of CMA-ES over the cube from its middle."""
    from cmaes import CMA

    search = CMA(mean=np.full(space.dim, 0.5), sigma=0.3, bounds=np.array([[0.0, 1.0]] * space.dim), seed=seed)
    values: list[float] = []
    while len(values) < trials:
        points = [search.ask() for _ in range(search.population_size)]
        found = [f(space.decode(point)) for point in points]
        search.tell(list(zip(points, found, strict=True)))
        values += found
    return values[:trials]


def random_trace(space: Any, f: Objective, trials: int, seed: int) -> list[float]:
    """Values at uniform points, from a stream of their own: that of a study's first trial, for the same seed, is also
    the one that shifts the function."""
    points = np.random.default_rng([seed, 0xFACE]).random((trials, space.dim))
    return [f(space.decode(point)) for point in points]


def region() -> dict[str, Any]:
    from presage.proposers import ModelBased, TrustRegion
    from presage.surrogates import GaussianProcess

    return {"acquisition": TrustRegion(ModelBased(GaussianProcess())), "initial": 20}


def embedding() -> dict[str, Any]:
    from presage.proposers import Embedding, ModelBased
    from presage.surrogates import GaussianProcess

    return {"acquisition": Embedding(base=ModelBased(GaussianProcess())), "initial": 1}


METHODS: dict[str, Callable[..., list[float]]] = {
    "random": random_trace,
    "cma-es": cma_trace,
    "default": study_trace(lambda: {"initial": 20}),
    "region": study_trace(region),
    "embedding": study_trace(embedding),
}
PROBLEMS = ("branin50", "branin100", "ackley20", "levy20", "ackley100", "levy100")


def run(name: str, method: str, trials: int, seed: int) -> tuple[list[float], float]:
    """The regret after 10, 20, ... evaluations, and seconds."""
    space, f, minimum = problem(name, seed)
    began = time.perf_counter()
    values = METHODS[method](space, f, trials, seed)
    seconds = round(time.perf_counter() - began, 1)
    return [float(f"{v - minimum:.5g}") for v in np.minimum.accumulate(values)[9::10]], seconds


def main() -> None:
    """Run, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--add", action="store_true", help="keep what was recorded before")
    arguments = parser.parse_args()
    path = RESULTS / "highdim.json"
    result = json.loads(path.read_text())["result"] if arguments.add and path.exists() else {}
    runs = [
        (name, method, arguments.trials, seed)
        for name in arguments.problems for method in arguments.methods for seed in range(arguments.seeds)
    ]  # fmt: skip
    found: dict[str, dict[int, tuple[list[float], float]]] = {}
    for (name, method, _, seed), one in spread(run, runs, arguments.jobs):
        cell = found.setdefault(f"{name} {method}", {})
        cell[seed] = one
        regrets, seconds = zip(*(cell[seed] for seed in sorted(cell)), strict=True)
        result[f"{name} {method}"] = {"trials": arguments.trials, "regret every 10": regrets, "seconds": seconds}
        if len(cell) == arguments.seeds:
            last = float(np.median([r[-1] for r in regrets]))
            print(
                f"{name:10s} {method:10s} median regret {last:9.4g} after {arguments.trials}   {seconds} s", flush=True
            )
            write("highdim", result)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
