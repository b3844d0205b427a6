"""Real losses, computed once on dense grids (benchmarks/tables.py) and interpolated linearly between the nodes.

Between nodes a multilinear function lies among its values at them, so the least node is the minimum.
"""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from presage.benchmarks.problem import Instance, Params
from presage.dimensions import Dimension
from presage.errors import PresageError
from presage.space import Choice, Float, Int, Space

TABLES = Path(__file__).parent / "tables"

# The axes as S5 gives them; whether a coordinate is interpolated by its logarithm.
AXES: dict[str, dict[str, Dimension]] = {
    "svm": {"C": Float(1e-5, 1e5, log=True), "gamma": Float(1e-5, 1e5, log=True)},
    "knn": {"k": Int(10, 50)},
    "gbm": {
        "learning_rate": Float(1e-5, 1e-2, log=True), "estimators": Int(10, 100), "depth": Int(2, 100, log=True),
        "min_split": Int(2, 100, log=True),
    },
    "mlp": {"hidden": Int(5, 50), "alpha": Float(0.0, 0.9)},
}  # fmt: skip


class Table(NamedTuple):
    """Losses over the product of some nodes, which increase along every axis."""

    nodes: dict[str, np.ndarray]
    losses: np.ndarray


@lru_cache(maxsize=64)
def load(name: str) -> Table:
    """A table by its name, such as svm_lsvt."""
    path = TABLES / f"{name}.npz"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in TABLES.glob("*.npz")))
        raise PresageError(f"there is no table {name!r}; there are {known}; benchmarks/tables.py makes them")
    with np.load(path) as data:
        nodes = {str(axis): data[f"axis_{axis}"] for axis in data["names"]}
        return Table(nodes, data["losses"].astype(float))


def interpolate(table: Table, axes: dict[str, Dimension], params: Params) -> float:
    """The loss at some params, linear between the nodes in each coordinate, or in its logarithm on a log axis."""
    found = table.losses
    for name, nodes in table.nodes.items():
        at, x = nodes, float(params[name])
        if getattr(axes[name], "log", False):
            at, x = np.log(nodes), float(np.log(x))
        i = int(np.clip(np.searchsorted(at, x, side="right") - 1, 0, len(at) - 2))
        share = min(max((x - at[i]) / (at[i + 1] - at[i]), 0.0), 1.0)
        # Weight 0 must not let a neighbour's NaN or rounding in.
        found = (
            found[i]
            if share == 0.0
            else found[i + 1]
            if share == 1.0
            else (1 - share) * found[i] + share * found[i + 1]
        )
    return float(found)


def tuning(name: str) -> Instance:
    """A learner on a data set, such as svm_lsvt."""
    axes = AXES[name.partition("_")[0]]
    table = load(name)
    return Instance(Space(axes), lambda params: interpolate(table, axes, params), float(table.losses.min()))


def selection(learners: tuple[str, ...], data: str) -> Instance:
    """Which learner, and which hyperparameters of it: a conditional space over several tables of a data set."""
    tables = {kind: load(f"{kind}_{data}") for kind in learners}
    axes: dict[str, Dimension] = {"learner": Choice(learners)}
    for kind in learners:
        for name, axis in AXES[kind].items():
            axes[f"{kind}_{name}"] = _when(axis, kind)

    def value(params: Params) -> float:
        kind = params["learner"]
        return interpolate(tables[kind], AXES[kind], {name: params[f"{kind}_{name}"] for name in AXES[kind]})

    return Instance(Space(axes), value, min(float(table.losses.min()) for table in tables.values()))


def _when(axis: Dimension, learner: str) -> Dimension:
    from dataclasses import replace

    return replace(axis, when={"learner": [learner]})


def curve(name: str) -> Instance:
    """Depth and width of a network (S4's grid): negative log-likelihood of validation rows when training ends."""
    table = load(f"curve_{name}")
    depths, widths = table.nodes["depth"].astype(int), table.nodes["width"].astype(int)
    space = Space({"depth": Int(int(depths[0]), int(depths[-1])), "size": Int(0, len(widths) - 1)})

    def value(params: Params) -> float:
        return float(table.losses[params["depth"] - depths[0], params["size"]])

    return Instance(space, value, float(table.losses.min()))
