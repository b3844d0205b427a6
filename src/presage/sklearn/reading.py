"""Search spaces as users of scikit-learn, SciPy and scikit-optimize write them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from presage.dimensions import Choice, Constant, Dimension, Float, Int, json_key, plain
from presage.errors import SpaceError
from presage.space import Space

__all__ = ["Reading", "read"]

WHICH = "(subspace)"  # no parameter of an estimator can have such a name
TAIL = 0.001  # of a law that is cut off on either side
Undo = Callable[[Any], Any]


@dataclass(frozen=True)
class Reading:
    """The space of a study, and the way back to an estimator's parameters.

    Attributes:
        space: of the study.
        names: the estimator's name of each dimension that is called otherwise.
        undo: what makes the estimator's value out of the study's, for dimensions that need it.
        trials: how many were asked for along with the spaces, None where they were not.
    """

    space: Space
    names: Mapping[str, str] = field(default_factory=dict)
    undo: Mapping[str, Undo] = field(default_factory=dict)
    trials: int | None = None

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the estimator that a trial's params stand for."""
        return {
            self.names.get(name, name): self.undo[name](value) if name in self.undo else value
            for name, value in params.items() if name != WHICH
        }  # fmt: skip


def read(spaces: Any) -> Reading:
    """One space out of a dictionary, a Space, or a list of dictionaries, whose union it then is.

    Args:
        spaces: name -> a presage dimension; (low, high) or (low, high, "log-uniform"), whole numbers where both bounds
            are; a list of choices; a frozen distribution of SciPy; a dimension of scikit-optimize. A list may also have
            (dictionary, trials) pairs; the trials are added up, and the search divides them.

    Example:
        >>> read({"C": (1e-3, 1e3, "log-uniform"), "kernel": ["linear", "rbf"], "degree": (2, 5)}).space
        Space({'C': Float(0.001, 1000.0, log=True), 'kernel': Choice(('linear', 'rbf')), 'degree': Int(2, 5)})
    """
    if isinstance(spaces, Space):
        return Reading(spaces)
    if isinstance(spaces, Mapping):
        axes, undo = _axes(spaces)
        return Reading(Space(axes), undo=undo)
    if isinstance(spaces, str) or not isinstance(spaces, Sequence) or not spaces:
        raise SpaceError(f"search_spaces must be a dictionary, a Space or a list of dictionaries, but got {spaces!r}")
    pairs = [one if isinstance(one, tuple) and len(one) == 2 else (one, None) for one in spaces]
    for one, trials in pairs:
        if not isinstance(one, Mapping):
            raise SpaceError(f"search_spaces must list dictionaries or (dictionary, trials) pairs, but got {one!r}")
        if trials is not None and (isinstance(trials, bool) or not isinstance(trials, Integral) or trials < 1):
            raise SpaceError(f"the trials of a space must be a whole number of 1 or more, but got {trials!r}")
    counted = [int(trials) for _, trials in pairs if trials is not None]
    if counted and len(counted) < len(pairs):
        raise SpaceError("either every space must have its trials or none of them")
    if len(pairs) == 1:
        return replace(read(pairs[0][0]), trials=sum(counted) or None)
    return replace(_union([one for one, _ in pairs]), trials=sum(counted) or None)


def _union(spaces: list[Mapping[str, Any]]) -> Reading:
    """The dimensions of all spaces, each there when its own space is chosen; equal ones of a name are one."""
    axes: dict[str, Dimension] = {WHICH: Choice(list(range(len(spaces))))}
    where: dict[str, list[int]] = {}
    names: dict[str, str] = {}
    undo: dict[str, Undo] = {}
    for number, one in enumerate(spaces):
        if isinstance(one, Space) and one.constraints:
            raise SpaceError("constraints are for a Space that is searched alone; leave them out of a list of spaces")
        found, ways = _axes(one)
        mine: dict[str, str] = {}
        for name, axis in found.items():
            shared = name in axes and axes[name] == axis and axis.when is None and name not in {*ways, *undo}
            mine[name] = own = name if shared or name not in axes else f"{name}@{number}"
            if axis.when is not None:
                axis = replace(axis, when={mine.get(parent, parent): values for parent, values in axis.when.items()})
            axes[own] = axis
            where.setdefault(own, []).append(number)
            if own != name:
                names[own] = name
            if name in ways:
                undo[own] = ways[name]
    made = {
        name: axis if name == WHICH or len(where[name]) == len(spaces)
        else replace(axis, when={WHICH: where[name], **(axis.when or {})})
        for name, axis in axes.items()
    }  # fmt: skip
    return Reading(Space(made), names, undo)


def _axes(spaces: Mapping[str, Any]) -> tuple[dict[str, Dimension], dict[str, Undo]]:
    axes: dict[str, Dimension] = {}
    undo: dict[str, Undo] = {}
    for name, given in spaces.items():
        try:
            axes[name], way = dimension(given)
        except SpaceError as error:
            raise SpaceError(f"the values of {name!r}: {error}") from None
        if way is not None:
            undo[name] = way
    return axes, undo


def dimension(given: Any) -> tuple[Dimension, Undo | None]:
    """One dimension as a user wrote it, and what makes the estimator's value where that is another."""
    if isinstance(given, Dimension):
        return given, None
    if hasattr(given, "rvs") and hasattr(given, "dist"):
        return _distribution(given)
    if type(given).__module__.startswith("skopt."):
        if hasattr(given, "categories"):
            return _choice(list(given.categories))
        return _range(given.low, given.high, given.prior == "log-uniform"), None
    if isinstance(given, tuple) and 2 <= len(given) <= 4:
        low, high, *prior = given
        if _number(low) and _number(high) and (not prior or isinstance(prior[0], str)):
            if prior and prior[0] not in ("uniform", "log-uniform"):
                raise SpaceError(
                    f"the third of (low, high, prior) must be uniform or log-uniform, but got {prior[0]!r}"
                )
            return _range(low, high, bool(prior) and prior[0] == "log-uniform"), None
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return _choice(list(given))
    raise SpaceError(
        "they must be a presage dimension, a list of choices, (low, high), (low, high, 'log-uniform') or a frozen "
        f"distribution of scipy.stats, but got {given!r}"
    )


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _range(low: Any, high: Any, log: bool) -> Dimension:
    if isinstance(low, Integral) and isinstance(high, Integral):
        return Int(int(low), int(high), log=log)
    return Float(float(low), float(high), log=log)


def _choice(options: list[Any]) -> tuple[Dimension, Undo | None]:
    """Choices; what JSON cannot hold, such as an estimator, goes by a label in the study."""
    options = [plain(option) for option in options]
    try:
        distinct = {json_key(option, "an option"): option for option in options}
        labels, way = list(distinct.values()), None
    except SpaceError:
        shown = [getattr(option, "__name__", None) or type(option).__name__ for option in options]
        table = {f"{number}: {name}": option for number, (name, option) in enumerate(zip(shown, options, strict=True))}
        labels, way = list(table), table.__getitem__
    if not labels:
        raise SpaceError("there must be at least one choice, but got none")
    return Constant(labels[0]) if len(labels) == 1 else Choice(labels), way


def _distribution(law: Any) -> tuple[Dimension, Undo | None]:
    """The dimension on which a frozen distribution is uniform: its own scale where there is one, else its quantiles."""
    name, (low, high) = law.dist.name, law.support()
    if name == "uniform":
        return Float(float(low), float(high)), None
    if name in ("loguniform", "reciprocal") and np.isclose(law.median() ** 2, low * high, rtol=1e-9):
        return Float(float(low), float(high), log=True), None
    if hasattr(law.dist, "pmf"):
        ends = [law.ppf(TAIL) if np.isinf(low) else low, law.ppf(1.0 - TAIL) if np.isinf(high) else high]
        return Int(int(ends[0]), int(ends[1])), None
    # Without the ends: a draw never is one, and an estimator may refuse it, such as the C of 0 of an exponential law.
    return Float(TAIL, 1.0 - TAIL), lambda share: float(law.ppf(share))
