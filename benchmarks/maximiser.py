"""How close the default search for the next point comes to the best expected improvement known.

    python benchmarks/maximiser.py            # 200 cases; writes benchmarks/results/maximiser.json

A case is a surrogate fitted to a random function at random points. The best known value is the largest of --points
random points, of climbs from 100 others (half from around the best observations), and of the default search itself.
Counted are cases in which the default reaches 0.99 of the best known expected improvement.
"""

import argparse
import json
import math
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
from record import RESULTS, spread, write

DIMENSIONS = (1, 2, 3, 5, 8, 12, 20)
TREES = ("rf", "et", "gbm")


def space_of(kind: str, d: int) -> Any:
    """A cube, or a space in which every third dimension is a whole number and every fourth a choice."""
    from presage import Choice, Float, Int, Space

    def axis(i: int) -> Any:
        if kind == "mixed" and i % 3 == 1:
            return Int(0, 9)
        if kind == "mixed" and i % 4 == 2:
            return Choice(list("abc"))
        return Float(0, 1)

    return Space({f"x{i}": axis(i) for i in range(d)})


def case(number: int, surrogates: list[str]) -> tuple[str, str, int, int]:
    """Surrogate, kind of space, dimensions and observations of a case."""
    rng = np.random.default_rng(number)
    d = int(rng.choice(DIMENSIONS))
    kind = "mixed" if d > 2 and rng.random() < 0.3 else "cube"
    return surrogates[number % len(surrogates)], kind, d, int(rng.integers(5, 20 + 5 * d))


def share(number: int, surrogates: list[str], points: int) -> dict[str, Any]:
    """One case: the default's expected improvement over the best known."""
    from presage import surrogates as models
    from presage.acquisitions import Context, LogExpectedImprovement
    from presage.observations import columns_of, observe
    from presage.proposers import Domain, Maximiser
    from presage.space import point_key

    name, kind, d, n = case(number, surrogates)
    space = space_of(kind, d)
    rng = np.random.default_rng([1, number])
    legal = lambda x: np.ones(len(x), dtype=bool)  # noqa: E731
    domain = Domain(columns_of(space), space.project, legal, lambda point: point_key(space.decode(point)))
    x = domain.random(n, rng)
    pace, phase = rng.normal(0.0, 4.0, (6, d)), rng.uniform(0.0, 2 * math.pi, 6)
    y = np.cos(x @ pace.T / math.sqrt(d) * 2.0 + phase).sum(axis=1) + 0.5 * np.square(x - 0.4).sum(axis=1)
    posterior = models.BY_NAME[name]().fit(observe(x, y, domain.columns), rng=rng).posterior
    acquisition, context = LogExpectedImprovement(), Context(posterior.incumbent())
    values = lambda x: acquisition.values(posterior, x, context)  # noqa: E731
    slopes = lambda x: acquisition.values_and_gradients(posterior, x, context)  # noqa: E731
    gradients = slopes if posterior.differentiable else None
    anchors = x[np.argsort(y)[:5]]
    began = time.perf_counter()
    default = Maximiser()(values, gradients, domain, anchors, rng=np.random.default_rng([2, number]))[1][0]
    seconds = time.perf_counter() - began
    most, left = -np.inf, points
    while left > 0:
        most = max(most, float(values(domain.random(min(left, 5000), rng)).max()))
        left -= 5000
    thorough = replace(Maximiser(), spread=8192, local=4096, starts=100, evaluations=200, generations=60)
    polished = thorough(values, gradients, domain, anchors, rng=rng)[1][0]
    best = max(most, polished, default)
    return {
        "surrogate": name, "space": kind, "d": d, "n": n, "share": round(math.exp(default - best), 5),
        "seconds": round(seconds, 4),
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The share of cases that reached 0.99, and all of them."""
    return {"reached": float(np.mean([row["share"] >= 0.99 for row in rows])), "rows": rows}


def main() -> None:
    """Run, print, write down."""
    from presage import surrogates as models

    usual = [name for name in models.BY_NAME if name in ("gp", "hmc", *TREES)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--surrogates", nargs="*", default=usual)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--add", action="store_true", help="go on after the cases that were recorded before")
    arguments = parser.parse_args()
    path = RESULTS / "maximiser.json"
    rows = json.loads(path.read_text())["result"]["rows"] if arguments.add and path.exists() else []
    cases = [(number, arguments.surrogates, arguments.points) for number in range(len(rows), arguments.cases)]
    for _, row in spread(share, cases, arguments.jobs):
        rows.append(row)
        if row["share"] < 0.99 or len(rows) % 20 == 0:
            print(row, flush=True)
            write("maximiser", summary(rows))
    write("maximiser", summary(rows))
    print(f"0.99 of the best known expected improvement in {100 * summary(rows)['reached']:.1f} % of {len(rows)} cases")


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
