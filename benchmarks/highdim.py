"""Many dimensions: Branin in 50 and 100, Ackley and Levy in 20 and 100, against random search, CMA-ES and peers.

    python benchmarks/highdim.py --seeds 0 1 2      # writes benchmarks/results/highdim.json
    python benchmarks/highdim.py --minutes 10       # the next ten minutes; runs on record are not made again
    PEERS="botorch=python1 hebo=python2" python benchmarks/highdim.py --methods botorch hebo --trials 50

Branin in d dimensions depends on two of them, drawn anew for each seed; Ackley and Levy are shifted by the seed. A last
problem, "surface", lies 30-dimensional about a curved surface of two dimensions, of which 150 points are known to the
method "code"; elsewhere that method learns from the points it has tried. PEERS names the interpreters of peers.
"""

import argparse
import itertools
import json
import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from record import RESULTS, write

Objective = Callable[[dict[str, float]], float]


def surface(places: np.ndarray) -> np.ndarray:
    """Points of a curved surface in 30 dimensions, [n, 30], for places [n, 2]."""
    rng = np.random.default_rng(5)
    return 0.5 + 0.35 * np.sin(2.0 * places @ rng.normal(0.0, 1.5, (2, 30)) + rng.uniform(0.0, 2 * np.pi, 30))


def problem(name: str, seed: int) -> tuple[Any, Objective, float]:
    """A space, an objective on it, and its minimum."""
    import presage
    from presage import Float, Space, functions

    if name == "surface":
        target = surface(np.random.default_rng([seed, 1]).random((1, 2)))[0]

        def away(params: dict[str, float]) -> float:
            return float(np.square(np.array([params[f"x{i}"] for i in range(30)]) - target).sum())

        return Space({f"x{i}": Float(0, 1) for i in range(30)}), away, 0.0
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


def study_trace(settings: Callable[[Any], dict[str, Any]]) -> Callable[..., list[float]]:
    """Values of a study with these settings."""

    def trace(space: Any, f: Objective, trials: int, seed: int) -> list[float]:
        import presage

        study = presage.Study(space, seed=seed, **settings(space))
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


def peer_trace(method: str) -> Callable[..., list[float]]:
    """Values of another library in an interpreter of its own."""

    def trace(space: Any, f: Objective, trials: int, seed: int) -> list[float]:
        from presage.benchmarks import methods

        pythons = dict(pair.split("=") for pair in os.environ.get("PEERS", "").split())
        session, values = methods.start(method, space, trials, seed, pythons.get(method)), []
        for _ in range(trials):
            values.append(f(session.ask()))
            session.tell(values[-1])
        return values

    return trace


def region(space: Any) -> dict[str, Any]:
    from presage.proposers import ModelBased, TrustRegion
    from presage.surrogates import GaussianProcess

    return {"acquisition": TrustRegion(ModelBased(GaussianProcess())), "initial": 20}


def embedding(space: Any) -> dict[str, Any]:
    from presage.proposers import Embedding, ModelBased
    from presage.surrogates import GaussianProcess

    return {"acquisition": Embedding(base=ModelBased(GaussianProcess())), "initial": 1}


def code(space: Any) -> dict[str, Any]:
    from presage.proposers import LearnedCode, ModelBased
    from presage.surrogates import GaussianProcess

    base = ModelBased(GaussianProcess())
    if space.dim == 30:
        examples = surface(np.random.default_rng(1).random((150, 2)))
        return {"acquisition": LearnedCode(3, examples, base=base), "initial": 1}
    return {"acquisition": LearnedCode(base=base), "initial": 20}


METHODS: dict[str, Callable[..., list[float]]] = {
    "random": random_trace,
    "cma-es": cma_trace,
    "default": study_trace(lambda space: {"initial": 20}),
    "additive": study_trace(lambda space: {"surrogate": "additive", "initial": 20}),
    "region": study_trace(region),
    "embedding": study_trace(embedding),
    "code": study_trace(code),
    "botorch": peer_trace("botorch"),
    "hebo": peer_trace("hebo"),
}
PROBLEMS = ("branin50", "branin100", "ackley20", "levy20", "ackley100", "levy100", "surface")


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
    parser.add_argument("--methods", nargs="*", default=[name for name in METHODS if name not in ("botorch", "hebo")])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run after so long")
    parser.add_argument("--anew", action="store_true", help="forget what was recorded before")
    arguments = parser.parse_args()
    path, began = RESULTS / "highdim.json", time.perf_counter()
    result = json.loads(path.read_text())["result"] if path.exists() and not arguments.anew else {}
    for seed in arguments.seeds:
        for name, method in itertools.product(arguments.problems, arguments.methods):
            cell = result.setdefault(f"{name} {method}", {"seeds": [], "regret every 10": [], "seconds": []})
            if seed in cell["seeds"]:
                continue
            if time.perf_counter() - began > 60.0 * arguments.minutes:
                return
            regret, seconds = run(name, method, arguments.trials, seed)
            for part, value in (("seeds", seed), ("regret every 10", regret), ("seconds", seconds)):
                cell[part].append(value)
            print(
                f"{name:10s} {method:10s} seed {seed} regret {regret[-1]:9.4g} after {arguments.trials}   {seconds} s"
            )
            write("highdim", {key: cell for key, cell in sorted(result.items()) if cell["seeds"]})


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
