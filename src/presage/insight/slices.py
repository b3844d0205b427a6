"""Cuts through the surrogate: along one dimension, over two, or averaged over all the others."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from presage.errors import StudyError
from presage.insight.model import Model
from presage.sobol import sobol

MOST_LEVELS = 101  # of a discrete dimension that are evaluated
LEVELS = np.array([0.025, 0.5, 0.975])


class Slice(NamedTuple):
    """The law of f along one dimension.

    Attributes:
        name: of the dimension.
        values: its values in the user's units, [n]; a list of options for a choice.
        x: the points, [n, d].
        mean: of f, [n].
        low, high: ends of the central 95 % interval, [n] each.
    """

    name: str
    values: list[Any]
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Grid(NamedTuple):
    """The law of f over two dimensions; arrays are [len(second), len(first)], NaN where a dimension does not exist."""

    names: tuple[str, str]
    values: tuple[list[Any], list[Any]]
    mean: np.ndarray
    stddev: np.ndarray


def axis_points(model: Model, name: str, num: int) -> np.ndarray:
    """Points of [0, 1] along a dimension: evenly spaced, or every level where there are few."""
    if name not in model.space.columns:
        raise StudyError(f"the dimension must be one of {list(model.space.columns)}, but got {name!r}")
    dimension = model.space[name]
    if dimension.levels is None:
        return np.linspace(0.0, 1.0, num)
    if dimension.levels <= MOST_LEVELS:
        return np.asarray(dimension.center(np.arange(dimension.levels)))
    return np.unique(dimension.snap(np.linspace(0.0, 1.0, num)))


def slice_1d(model: Model, name: str, at: Mapping[str, Any], num: int = 101) -> Slice:
    """f along one dimension, the others as in `at`; where those exclude it, they are moved to where it exists."""
    along = axis_points(model, name, num)
    x = np.tile(model.point(at), (len(along), 1))
    x[:, model.space.columns.index(name)] = along
    _bring_about(model, x, name)
    x = model.space.project(x)
    low, middle, high = model.quantiles(x, LEVELS)
    mean = model.predict(x)[0]
    mean = np.where(np.isfinite(mean), mean, middle)
    return Slice(name, [model.space[name].decode(u) for u in along], x, mean, low, high)


def grid_2d(model: Model, first: str, second: str, at: Mapping[str, Any], num: int = 31) -> Grid:
    """f over two dimensions, the others as in `at`."""
    a, b = axis_points(model, first, num), axis_points(model, second, num)
    x = np.tile(model.point(at), (len(a) * len(b), 1))
    columns = [model.space.columns.index(name) for name in (first, second)]
    x[:, columns[0]], x[:, columns[1]] = np.tile(a, len(b)), np.repeat(b, len(a))
    for name in (first, second):
        _bring_about(model, x, name, keep=(first, second))
    x = model.space.project(x)
    mean, stddev = model.predict(x)
    absent = np.isnan(x[:, columns]).any(axis=1)
    shape = len(b), len(a)
    return Grid(
        (first, second),
        ([model.space[first].decode(u) for u in a], [model.space[second].decode(u) for u in b]),
        np.where(absent, np.nan, mean).reshape(shape), np.where(absent, np.nan, stddev).reshape(shape),
    )  # fmt: skip


def marginal_effect(model: Model, name: str, num: int = 21, others: int = 64, seed: int = 0) -> Slice:
    """f along one dimension averaged over all the others, drawn evenly; the interval is over the posterior.

    Where the dimension is conditional, the average is over points at which it exists.
    """
    along = axis_points(model, name, num)
    column = model.space.columns.index(name)
    base = sobol(others, model.space.dim, np.random.default_rng(seed))
    x = np.repeat(base[None], len(along), axis=0)
    x[:, :, column] = along[:, None]
    x = x.reshape(-1, model.space.dim)
    _bring_about(model, x, name)
    x = model.space.project(x)
    values = model.draws()(x).reshape(-1, len(along), others).mean(axis=2)
    low, high = np.quantile(values, [LEVELS[0], LEVELS[-1]], axis=0)
    return Slice(name, [model.space[name].decode(u) for u in along], x, values.mean(axis=0), low, high)


def _bring_about(model: Model, x: np.ndarray, name: str, keep: tuple[str, ...] = ()) -> None:
    """Set the dimensions on which `name` depends to values under which it exists; in place."""
    for parent, values in (model.space[name].when or {}).items():
        if parent in keep or parent not in model.space.columns:
            continue
        column, axis = model.space.columns.index(parent), model.space[parent]
        fine = np.isin(
            axis.bins(np.nan_to_num(x[:, column], nan=-1.0)), axis.bins(np.array([axis.encode(v) for v in values]))
        )
        x[:, column] = np.where(fine & ~np.isnan(x[:, column]), x[:, column], axis.encode(values[0]))
        _bring_about(model, x, parent, keep)
