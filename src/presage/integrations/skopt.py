"""Results of scikit-optimize as presage studies; scikit-optimize itself need not be installed."""

import math
import os
from typing import Any

from presage.dimensions import Choice, Constant, Dimension, Float, Int
from presage.errors import SpaceError, StudyError
from presage.integrations.records import Record, study_of
from presage.space import Space
from presage.storage import Storage
from presage.study import Study
from presage.trial import Failure


def from_skopt(
    result: Any, *, storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None, **settings: Any
) -> Study:
    """A study with the evaluations of a scikit-optimize result, which are always minimised.

    A result file is a pickle, which runs whatever whoever wrote it wants: load one of your own with `skopt.load`, and
    give what it returns.

    Args:
        result: what `gp_minimize` and its siblings return, or an `Optimizer.get_result()`.
        storage: where to; memory where left out.
        name: of the new study.
        settings: surrogate, acquisition, initial, seed as for `Study`.
    """
    try:
        dimensions, points, values = result.space.dimensions, result.x_iters, result.func_vals
    except AttributeError as error:
        raise StudyError(f"a scikit-optimize result must have space, x_iters and func_vals, but: {error}") from None
    space = Space({axis.name or f"x{i}": _dimension(axis) for i, axis in enumerate(dimensions)})
    if len(space) != len(dimensions):
        raise SpaceError(f"dimensions must have different names, but got {[axis.name for axis in dimensions]}")
    records = []
    for point, value in zip(points, values, strict=True):
        params = {key: _inside(axis, item) for (key, axis), item in zip(space.items(), point, strict=True)}
        number = float(value)
        bad = None if math.isfinite(number) else Failure("invalid", f"a value must be finite, but got {number}")
        records.append(Record(params, None if bad else number, failure=bad))
    return study_of(space, records, storage=storage, name=name, **settings)


def _dimension(axis: Any) -> Dimension:
    """The dimension with the same values on the same scale, by the attributes that each kind of skopt's has."""
    if hasattr(axis, "categories"):
        options = list(axis.categories)
        return Choice(options) if len(options) > 1 else Constant(options[0])
    kind, log = type(axis).__name__, getattr(axis, "prior", "uniform") == "log-uniform"
    if kind not in ("Real", "Integer"):
        raise SpaceError(f"a dimension must be skopt's Real, Integer or Categorical, but got {axis!r}")
    low, high = axis.low, axis.high
    if low == high:
        return Constant(low)
    return Float(low, high, log=log) if kind == "Real" else Int(int(low), int(high), log=log)


def _inside(axis: Dimension, value: Any) -> Any:
    """The value; skopt's way back from logarithms leaves the bounds by a rounding."""
    if isinstance(axis, Float):
        slack = 1e-9 * max(abs(axis.low), abs(axis.high))
        if axis.low - slack <= value <= axis.high + slack:
            return min(max(float(value), axis.low), axis.high)
    return value
