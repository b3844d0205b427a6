"""One axis of a search space: its legal values, and where each lies on [0, 1].

A continuous axis maps its bounds to 0 and 1. A discrete axis cuts [0, 1] into one bin per level and puts a level at
the centre of its bin, so that a uniform draw on [0, 1] is a fair draw of levels.
"""

import copy
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from presage.errors import SpaceError

LARGEST_INT = 2**44  # up to it the logarithms of neighbouring integers differ enough for an exact way back from [0, 1]


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it holds; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether it is one real number: Python's, or a scalar of NumPy, JAX or PyTorch; not a truth value, not NaN.

    Example:
        >>> [is_number(value) for value in (3, np.float32(0.5), math.inf, math.nan, True, "3")]
        [True, True, True, False, False, False]
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, Real) and not isinstance(value, bool) and bool(value == value)


def _number(value: Any, what: str) -> float:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SpaceError(f"{what} must be a finite number, but got {value!r}")
    return float(value)


def _whole(value: Any, what: str) -> int:
    value = plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_INT:
        raise SpaceError(f"{what} must be a whole number of at most 2**44 in size, but got {value!r}")
    return value


def _flag(value: Any, what: str) -> bool:
    value = plain(value)
    if not isinstance(value, bool):
        raise SpaceError(f"{what} must be True or False, but got {value!r}")
    return value


def _check_bounds(low: float, high: float, log: bool, smallest: float) -> None:
    if not low < high:
        remedy = "one single value is a Constant" if low == high else "swap them"
        raise SpaceError(f"low < high must hold, but got low={low}, high={high}; {remedy}")
    if log and low < smallest:
        rule = "low > 0" if smallest < 1 else "low >= 1"
        raise SpaceError(f"{rule} must hold with log=True, but got low={low}; raise low or leave log out")
    rule, extent = ("high / low", high / low) if log else ("high - low", high - low)
    if not math.isfinite(extent):
        raise SpaceError(f"{rule} must be finite, but got low={low}, high={high}; bring the bounds closer")


@dataclass(frozen=True)
class Dimension:
    """What every axis has: the condition under which it exists, and the value of trials that predate it.

    Attributes:
        when: the axis exists only where each named (earlier, discrete) axis has one of the given values.
        default: what trials meant that were made before this axis was added to a running study.
    """

    _: KW_ONLY
    when: Mapping[str, Any] | None = None
    default: Any = None

    @property
    def kind(self) -> str:
        """continuous, ordinal, categorical or constant."""
        raise NotImplementedError

    @property
    def levels(self) -> int | None:
        """Number of values, None where there is a continuum."""
        raise NotImplementedError

    def check(self, value: Any) -> Any:
        """The legal value of the right Python type that `value` stands for, or a SpaceError."""
        raise NotImplementedError

    def encode(self, value: Any) -> float:
        raise NotImplementedError

    def decode(self, u: float) -> Any:
        raise NotImplementedError

    def snap(self, u: np.ndarray) -> np.ndarray:
        """The nearest points of [0, 1] that stand for legal values (vectorised)."""
        raise NotImplementedError

    def bins(self, u: np.ndarray) -> np.ndarray:
        """Level numbers of points of [0, 1]; discrete axes only (vectorised)."""
        raise NotImplementedError

    def center(self, level: np.ndarray | int) -> Any:
        """The point of [0, 1] that stands for a level; discrete axes only (vectorised)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """As one would write it: defaults left out."""
        given = [(f, getattr(self, f.name)) for f in sorted(fields(self), key=lambda f: bool(f.kw_only)) if f.init]
        shown = [f"{f.name}={value!r}" if f.kw_only else repr(value) for f, value in given if value is not f.default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary from which `from_json` makes an equal axis."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.init and value is not item.default:
                out[item.name] = marked(value) if item.name in ("options", "value") else value
        return json.loads(json.dumps(out))  # as it will come back from a storage


class _Graded(Dimension):
    """A discrete axis: levels 0, 1, ..., each in the centre of its bin."""

    def bins(self, u: np.ndarray) -> np.ndarray:
        count = self.levels
        assert count is not None
        return np.clip(np.floor(np.asarray(u) * count), 0, count - 1).astype(np.int64)

    def center(self, level: np.ndarray | int) -> Any:
        count = self.levels
        assert count is not None
        return (level + 0.5) / count

    def snap(self, u: np.ndarray) -> np.ndarray:
        return self.center(self.bins(u))


@dataclass(frozen=True, repr=False)
class Float(_Graded):
    """A real number in [low, high].

    Args:
        low: smallest legal value.
        high: largest legal value; with a step, the largest that can be reached.
        log: spread evenly over magnitudes; needs low > 0.
        step: only low, low + step, low + 2 step, ... are legal.

    Example:
        >>> Float(1e-4, 1.0, log=True).decode(0.5)
        0.01
    """

    low: float
    high: float
    _: KW_ONLY
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _number(self.low, "low"))
        object.__setattr__(self, "high", _number(self.high, "high"))
        object.__setattr__(self, "log", _flag(self.log, "log"))
        _check_bounds(self.low, self.high, self.log, smallest=5e-324)
        if self.step is not None:
            step = _number(self.step, "step")
            object.__setattr__(self, "step", step)
            if not (step > 0 and (self.levels or 0) > 1):
                raise SpaceError(
                    f"0 < step <= high - low must hold, but got step={step}, high - low={self.high - self.low}"
                )
            if step * LARGEST_INT < (largest := max(abs(self.low), abs(self.high))):
                raise SpaceError(
                    f"step >= {largest / LARGEST_INT} must hold for such bounds, but got step={step}; leave it out"
                )
            if self.log:
                raise SpaceError("step and log=True do not go together; use a Choice of the values, or leave one out")

    @property
    def kind(self) -> str:
        return "continuous" if self.step is None else "ordinal"

    # Decimal arithmetic, so that Float(0, 1, step=0.1) offers 0.3 and not 0.30000000000000004.
    @property
    def levels(self) -> int | None:
        if self.step is None:
            return None
        low, high, step = (Decimal(repr(v)) for v in (self.low, self.high, self.step))
        return int((high - low) / step) + 1

    def _on_grid(self, level: int) -> float:
        return float(Decimal(repr(self.low)) + level * Decimal(repr(self.step)))

    def check(self, value: Any) -> float:
        number = _number(value, "a Float")
        if not self.low <= number <= self.high:
            raise SpaceError(
                f"{self.low} <= value <= {self.high} must hold, but got {number}; widen the bounds to use it"
            )
        if self.step is None:
            return number
        nearest = self._on_grid(round((number - self.low) / self.step))
        rounding = 4 * math.ulp(max(abs(self.low), abs(self.high)))  # of whoever computed low + k step
        if abs(number - nearest) > 1e-9 * self.step + rounding:
            raise SpaceError(
                f"value must be low + a multiple of step={self.step}, but got {number}; nearest is {nearest}"
            )
        return nearest

    def encode(self, value: float) -> float:
        if self.step is not None:
            return float(self.center(round((value - self.low) / self.step)))
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def decode(self, u: float) -> float:
        if self.step is not None:
            return self._on_grid(int(self.bins(np.asarray(u))))
        u = min(max(float(u), 0.0), 1.0)
        if u == 1.0:  # rounding must not keep the upper bound out of reach
            return self.high
        value = self.low * (self.high / self.low) ** u if self.log else self.low + u * (self.high - self.low)
        return min(max(value, self.low), self.high)

    def snap(self, u: np.ndarray) -> np.ndarray:
        return np.clip(u, 0.0, 1.0) if self.step is None else super().snap(u)


@dataclass(frozen=True, repr=False)
class Int(_Graded):
    """A whole number in [low, high], both included.

    Args:
        low: smallest legal value.
        high: largest legal value; with a step, the largest that can be reached.
        log: spread evenly over magnitudes; needs low >= 1.
        step: only low, low + step, low + 2 step, ... are legal.

    Example:
        >>> Int(1, 6).decode(0.99)
        6
        >>> Int(16, 64, step=16).decode(0.3)
        32
    """

    low: int
    high: int
    _: KW_ONLY
    log: bool = False
    step: int = 1

    @property
    def kind(self) -> str:
        return "ordinal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _whole(self.low, "low"))
        object.__setattr__(self, "high", _whole(self.high, "high"))
        object.__setattr__(self, "log", _flag(self.log, "log"))
        _check_bounds(self.low, self.high, self.log, smallest=1)
        object.__setattr__(self, "step", _whole(self.step, "step"))
        if not 1 <= self.step <= self.high - self.low:
            raise SpaceError(
                f"1 <= step <= high - low must hold, but got step={self.step}, high - low={self.high - self.low}"
            )
        if self.log and self.step > 1:
            raise SpaceError("step and log=True do not go together; use a Choice of the values, or leave one out")

    @property
    def levels(self) -> int:
        return (self.high - self.low) // self.step + 1

    def check(self, value: Any) -> int:
        number = _whole(value, "an Int")
        if not self.low <= number <= self.high:
            raise SpaceError(
                f"{self.low} <= value <= {self.high} must hold, but got {number}; widen the bounds to use it"
            )
        if (number - self.low) % self.step:
            raise SpaceError(f"value must be {self.low} + a multiple of step={self.step}, but got {number}")
        return number

    def encode(self, value: int) -> float:
        return float(self.center((value - self.low) // self.step))

    def decode(self, u: float) -> int:
        return self.low + self.step * int(self.bins(np.asarray(u)))

    # On a log axis level v owns the magnitudes from v - 1/2 to v + 1/2 and sits at log v.
    def bins(self, u: np.ndarray) -> np.ndarray:
        if not self.log:
            return super().bins(u)
        edge, span = self._log_range()
        value = np.rint(np.exp(edge + np.clip(u, 0.0, 1.0) * span))
        return np.clip(value - self.low, 0, self.high - self.low).astype(np.int64)

    def center(self, level: np.ndarray | int) -> Any:
        if not self.log:
            return super().center(level)
        edge, span = self._log_range()
        return (np.log(self.low + np.asarray(level, dtype=float)) - edge) / span

    def _log_range(self) -> tuple[float, float]:
        return math.log(self.low - 0.5), math.log((self.high + 0.5) / (self.low - 0.5))


@dataclass(frozen=True, repr=False)
class Choice(_Graded):
    """One of several unordered options: strings, numbers, booleans, None, or lists of them.

    Args:
        options: the values, at least two, all different.

    Example:
        >>> Choice(["relu", "tanh"]).decode(0.7)
        'tanh'
    """

    options: Sequence[Any]
    _keys: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def kind(self) -> str:
        return "categorical"

    def __post_init__(self) -> None:
        if isinstance(self.options, str) or not isinstance(self.options, Iterable):
            raise SpaceError(f"a Choice takes a list of options, but got {self.options!r}")
        if isinstance(self.options, set | frozenset):  # of texts it has another order in every process
            raise SpaceError(
                f"a Choice takes options in an order that stays, but got the set {self.options!r}; write a list"
            )
        options = tuple(plain(option) for option in self.options)
        if len(options) < 2:
            raise SpaceError(
                f"a Choice needs at least two options, but got {list(options)}; one single value is a Constant"
            )
        keys: dict[str, int] = {}
        for level, option in enumerate(options):
            key = json_key(option, "an option")
            if key in keys:
                raise SpaceError(f"options must differ, but got {option!r} twice")
            keys[key] = level
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "_keys", keys)

    @property
    def levels(self) -> int:
        return len(self.options)

    def _level(self, value: Any) -> int:
        value = plain(value)
        level = self._keys.get(json_key(value, "a choice"))
        if level is None and isinstance(value, int | float) and not isinstance(value, bool):
            equal = (i for i, option in enumerate(self.options) if not isinstance(option, bool) and option == value)
            level = next(equal, None)
        if level is None:
            raise SpaceError(
                f"value must be one of {list(self.options)}, but got {value!r}; add it to the options to use it"
            )
        return level

    def check(self, value: Any) -> Any:
        return _own(self.options[self._level(value)])

    def encode(self, value: Any) -> float:
        return float(self.center(self._level(value)))

    def decode(self, u: float) -> Any:
        return _own(self.options[int(self.bins(np.asarray(u)))])


@dataclass(frozen=True, repr=False)
class Constant(_Graded):
    """A value that is handed to the objective and never varied."""

    value: Any

    @property
    def kind(self) -> str:
        return "constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", plain(self.value))
        json_key(self.value, "a Constant")

    @property
    def levels(self) -> int:
        return 1

    def check(self, value: Any) -> Any:
        if json_key(plain(value), "a Constant") != json_key(self.value, "a Constant"):
            raise SpaceError(f"value must be the constant {self.value!r}, but got {value!r}")
        return _own(self.value)

    def encode(self, value: Any) -> float:
        return 0.5

    def decode(self, u: float) -> Any:
        return _own(self.value)


def _own(value: Any) -> Any:
    """The value, copied where whoever gets it could change it."""
    return copy.deepcopy(value) if isinstance(value, list | dict) else value


_text = json.JSONEncoder(sort_keys=True, allow_nan=False).encode  # json.dumps would make one for every call


def json_key(value: Any, what: str) -> str:
    """The value's JSON text, by which options and points are told apart."""
    try:
        return _text(value)
    except (TypeError, ValueError):
        remedy = "use a name for it and look the object up inside the objective"
        raise SpaceError(f"{what} must be something JSON can hold, but got {value!r}; {remedy}") from None


# JSON would make lists of tuples, and the objective is to get back what the user wrote.
def marked(value: Any) -> Any:
    """The value with its tuples marked for JSON."""
    if isinstance(value, tuple):
        return {"tuple": [marked(item) for item in value]}
    return [marked(item) for item in value] if isinstance(value, list) else value


def unmarked(value: Any) -> Any:
    """The value that `marked` was given."""
    if isinstance(value, dict) and list(value) == ["tuple"]:
        return tuple(unmarked(item) for item in value["tuple"])
    return [unmarked(item) for item in value] if isinstance(value, list) else value


KINDS: dict[str, type[Dimension]] = {kind.__name__: kind for kind in (Float, Int, Choice, Constant)}


def from_json(payload: Mapping[str, Any]) -> Dimension:
    """The axis that `Dimension.to_json` wrote."""
    arguments = dict(payload)
    kind = arguments.pop("type", None)
    if kind not in KINDS:
        raise SpaceError(f"a dimension's type must be one of {sorted(KINDS)}, but got {kind!r}")
    for name in arguments.keys() & {"options", "value"}:
        arguments[name] = unmarked(arguments[name])
    if "log" in arguments:  # once anything was taken for it
        arguments["log"] = bool(arguments["log"])
    return KINDS[kind](**arguments)
