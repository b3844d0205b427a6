"""How close the default search for the next point comes to the best expected improvement known.

    python benchmarks/maximiser.py                    # 200 cases; writes benchmarks/results/maximiser.json
    python benchmarks/maximiser.py --minutes 10       # the next ten minutes of them; cases on record are not run again

A case is a surrogate fitted to a random function at random points. The best known value is the largest of --points
random points, of climbs from 100 others (half from around the best observations), and of the default search itself.
Counted are cases in which the default reaches 0.99 of the best known expected improvement. A value costs 5 us over a
Gaussian process, 50 us over a forest and 300 us over a sampled network, so that fewer points are drawn for these
(--points-of); trees have no gradients, and fewer starts are improved, by CMA-ES (--starts-of). Each row says how many.
"""

import argparse
import json
import math
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
from record import RESULTS, write

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


def share(
    number: int, surrogates: list[str], points: int, points_of: dict[str, int], starts_of: dict[str, int]
) -> dict[str, Any]:
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
    points, starts = points_of.get(name, points), starts_of.get(name, 100)
    most, left = -np.inf, points
    while left > 0:
        most = max(most, float(values(domain.random(min(left, 5000), rng)).max()))
        left -= 5000
    thorough = replace(Maximiser(), spread=8192, local=4096, starts=starts, evaluations=200)
    polished = thorough(values, gradients, domain, anchors, rng=rng)[1][0]
    best = max(most, polished, default)
    return {
        "number": number, "surrogate": name, "space": kind, "d": d, "n": n, "points": points, "starts": starts,
        "share": round(math.exp(default - best), 5), "seconds": round(seconds, 4),
        "random": round(math.exp(min(most - best, 0.0)), 5), "polished": round(math.exp(polished - best), 5),
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The share of cases that reached 0.99, by surrogate and together, and all of them."""
    rows = sorted(rows, key=lambda row: row["number"])
    names = sorted({row["surrogate"] for row in rows})
    reached = {name: [row["share"] >= 0.99 for row in rows if row["surrogate"] == name] for name in names}
    return {
        "cases": len(rows), "reached": float(np.mean([row["share"] >= 0.99 for row in rows])),
        "by surrogate": {name: f"{sum(found)} of {len(found)}" for name, found in reached.items()}, "rows": rows,
    }  # fmt: skip


def main() -> None:
    """Run, print, write down."""
    from presage import surrogates as models

    usual = [name for name in models.BY_NAME if name in ("gp", "hmc", *TREES)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--points-of", nargs="*", default=["hmc=20000", "rf=20000", "et=20000", "gbm=20000"])
    parser.add_argument("--starts-of", nargs="*", default=["rf=32", "et=32", "gbm=32"])
    parser.add_argument("--surrogates", nargs="*", default=usual)
    parser.add_argument("--only", nargs="*", type=int, help="numbers of cases to run, recorded or not")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case after so long")
    parser.add_argument("--anew", action="store_true", help="forget the cases that were recorded before")
    arguments = parser.parse_args()
    points_of, starts_of = (
        {name: int(count) for name, count in (pair.split("=") for pair in pairs)}
        for pairs in (arguments.points_of, arguments.starts_of)
    )
    path = RESULTS / "maximiser.json"
    rows = [] if arguments.anew or not path.exists() else json.loads(path.read_text())["result"]["rows"]
    rows = [row for row in rows if row["number"] not in (arguments.only or [])]
    recorded, began = {row["number"] for row in rows}, time.perf_counter()
    for number in arguments.only or range(arguments.cases):
        if number in recorded:
            continue
        if time.perf_counter() - began > 60.0 * arguments.minutes:
            break
        rows.append(share(number, arguments.surrogates, arguments.points, points_of, starts_of))
        print(rows[-1], flush=True)
        write("maximiser", summary(rows))
    found = summary(rows)
    print(f"0.99 of the best known expected improvement in {100 * found['reached']:.1f} % of {len(rows)} cases")
    print(found["by surrogate"])


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
