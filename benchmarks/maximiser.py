"""How close the default search for the next point comes to the best expected improvement known.

    python benchmarks/maximiser.py --keep FOLDER                # 200 cases; here, 20 minutes of one core
    python benchmarks/maximiser_points.py FOLDER points.json    # on an accelerator: a million points of each case
    python benchmarks/maximiser.py --points-from points.json    # writes benchmarks/results/maximiser.json

A case is a surrogate fitted to a random function at random points. The best known value is the largest of a million
random points, of climbs from 100 others (half from around the best observations), and of the default search itself.
Counted are cases in which the default reaches 0.99 of the best known expected improvement. A value costs 5 us over a
Gaussian process, 50 us over a forest and 300 us over a sampled network, so that the random points of these two are left
to an accelerator; trees have no gradients, and their starts are improved by CMA-ES. The search was tuned on cases 0 to
199; those reported are 200 to 399, unless --first says otherwise.
"""

import argparse
import io
import json
import lzma
import math
import os
import pickle
import time
from dataclasses import replace
from pathlib import Path
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


def domain_of(kind: str, d: int) -> Any:
    """What a maximiser may propose."""
    from presage.observations import columns_of
    from presage.proposers import Domain
    from presage.space import point_key

    space = space_of(kind, d)
    legal = lambda x: np.ones(len(x), dtype=bool)  # noqa: E731
    return Domain(columns_of(space), space.project, legal, lambda point: point_key(space.decode(point)))


def search(number: int, surrogates: list[str], points: int, folder: Path | None) -> dict[str, Any]:
    """One case: logs of the expected improvement that the default finds, that of 100 climbs, and of random points."""
    from presage import surrogates as models
    from presage.acquisitions import Context, LogExpectedImprovement
    from presage.observations import observe
    from presage.proposers import Maximiser

    name, kind, d, n = case(number, surrogates)
    rng, domain = np.random.default_rng([1, number]), domain_of(kind, d)
    x = domain.random(n, rng)
    pace, phase = rng.normal(0.0, 4.0, (6, d)), rng.uniform(0.0, 2 * math.pi, 6)
    y = np.cos(x @ pace.T / math.sqrt(d) * 2.0 + phase).sum(axis=1) + 0.5 * np.square(x - 0.4).sum(axis=1)
    posterior = models.BY_NAME[name]().fit(observe(x, y, domain.columns), rng=rng).posterior
    acquisition, context, anchors = LogExpectedImprovement(), Context(posterior.incumbent()), x[np.argsort(y)[:5]]
    values = lambda x: acquisition.values(posterior, x, context)  # noqa: E731
    slopes = lambda x: acquisition.values_and_gradients(posterior, x, context)  # noqa: E731
    gradients = slopes if posterior.differentiable else None
    began = time.perf_counter()
    default = Maximiser()(values, gradients, domain, anchors, rng=np.random.default_rng([2, number]))[1][0]
    seconds = time.perf_counter() - began
    thorough = replace(Maximiser(), spread=8192, local=4096, starts=100, evaluations=200)
    row = {
        "number": number, "surrogate": name, "space": kind, "d": d, "n": n, "default": float(default),
        "polished": float(thorough(values, gradients, domain, anchors, rng=rng)[1][0]), "seconds": round(seconds, 4),
    }  # fmt: skip
    if folder is not None and type(posterior).__name__ != "GaussianPosterior":
        if isinstance(posterior, models.hmc_network.NetworkPosterior):  # what predictions do not need stays here
            posterior = replace(posterior, regression=posterior.regression._replace(basis=np.empty((0, 0, 0))))
        (folder / f"{number}.pickle").write_bytes(kept((kind, d, posterior, context.best)))
        return row
    chunks = (domain.random(min(5000, points - done), rng) for done in range(0, points, 5000))
    return row | {"points": points, "random": float(max(values(x).max() for x in chunks))}


class Halved(pickle.Pickler):
    """Numbers in single precision: what is kept has to travel."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            return np.ndarray.astype, (value.astype(np.float32), np.float64)
        return NotImplemented


def kept(value: Any) -> bytes:
    """What is written down of a case."""
    file = io.BytesIO()
    Halved(file).dump(value)
    return lzma.compress(file.getvalue(), preset=1)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The share of cases that reached 0.99, by surrogate and together, and all of them."""
    rows = sorted(rows, key=lambda row: row["number"])
    for row in rows:
        row["share"] = round(math.exp(row["default"] - max(row["default"], row["polished"], row["random"])), 5)
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
    parser.add_argument("--first", type=int, default=200)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--surrogates", nargs="*", default=usual)
    parser.add_argument("--keep", type=Path, help="where posteriors wait for their random points; else they are here")
    parser.add_argument("--points-from", type=Path, help="what maximiser_points.py found: tell and record the results")
    arguments = parser.parse_args()
    path = RESULTS / "maximiser.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if arguments.keep is not None:
        arguments.keep.mkdir(exist_ok=True)
    known = {row["number"] for row in rows}
    for number in range(arguments.first, arguments.first + arguments.cases):
        if number in known:
            continue
        rows.append(search(number, arguments.surrogates, arguments.points, arguments.keep))
        print(rows[-1], flush=True)
        with path.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    if arguments.points_from is not None:
        found = json.loads(arguments.points_from.read_text())
        rows = [row | found.get(str(row["number"]), {}) for row in rows]
    if all("random" in row for row in rows):
        told = summary(rows)
        print(f"0.99 of the best known expected improvement in {100 * told['reached']:.1f} % of {len(rows)} cases")
        print(told["by surrogate"])
        write("maximiser", told)
        path.unlink()


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
