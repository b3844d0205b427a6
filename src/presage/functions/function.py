"""What a test function is: a formula with its known minimum, and the variations made of it."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from presage.dimensions import Float, plain
from presage.errors import SpaceError
from presage.space import Space

Point = tuple[float, ...]

LONGEST_SHIFT = 1 / 4  # of a side of the box; so near to it no formula here has further global minimisers
MARGIN = 1 / 20  # of a side of the box, kept between a shifted minimiser and the edge


@final
@dataclass(frozen=True)
class Formula:
    """A formula on arrays and what is known about it.

    In `low`, `high`, `reach` and the minimisers one single coordinate stands for all of them.

    Attributes:
        name: what the function is called.
        values: the formula, [n, d] -> [n], finite beyond the box too.
        low: lower corner of the box.
        high: upper corner of the box.
        minimizers: every global minimiser in the box, or a callable that gives them for a dimension.
        default_dim: number of coordinates unless another is asked for.
        least_dim: smallest dimension allowed; None where `default_dim` is the only one.
        reach: corners of a larger box on which the formula stays above its minimum; None: far enough for any shift.
        seed: of a random formula; None for all others.
        redraw: makes a random formula from a seed.
    """

    name: str
    values: Callable[[np.ndarray], np.ndarray]
    low: Point
    high: Point
    minimizers: tuple[Point, ...] | Callable[[int], tuple[Point, ...]]
    default_dim: int
    least_dim: int | None = None
    reach: tuple[Point, Point] | None = None
    seed: int | None = None
    redraw: "Callable[[int], Formula] | None" = None

    def box(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corner, [dim] each."""
        return _spread(self.low, dim), _spread(self.high, dim)

    def points(self, dim: int) -> np.ndarray:
        """The minimisers in the box, [m, dim]."""
        known = self.minimizers(dim) if callable(self.minimizers) else self.minimizers
        return np.stack([_spread(point, dim) for point in known])


@final
@dataclass(frozen=True, repr=False)
class Function:
    """A function to minimise whose minimum is known; called with params, it gives a float.

    The variations can be chained in any order, and asking for one again replaces it.

    Example:
        >>> from presage.functions import ackley
        >>> f = ackley.dim(3).shifted(seed=1)
        >>> list(f.space), f.minimum
        (['x1', 'x2', 'x3'], 0.0)
        >>> f(f.minimizers[0])
        0.0
        >>> f.noisy(0.1)
        ackley.dim(3).shifted(1).noisy(0.1)
        >>> f.noisy(0.1).noiseless == f
        True
    """

    formula: Formula
    num_dims: int
    shift_seed: int | None = None
    stddev: float = 0.0
    noise_seed: int = 0

    @staticmethod
    def of(formula: Formula) -> "Function":
        """The function of a formula in its default dimension."""
        return Function(formula, formula.default_dim)

    @property
    def name(self) -> str:
        """The formula's name; `repr` tells the variations too."""
        return self.formula.name

    @cached_property
    def space(self) -> Space:
        """The box: coordinate "x", or "x1", "x2", ... where there are several."""
        names = ["x"] if self.num_dims == 1 else [f"x{i}" for i in range(1, self.num_dims + 1)]
        low, high = self.formula.box(self.num_dims)
        return Space({name: Float(a, b) for name, a, b in zip(names, low, high, strict=True)})

    @cached_property
    def minimum(self) -> float:
        """The smallest value in the box, noise apart."""
        return float(self.formula.values(self.formula.points(self.num_dims)).min())

    @property
    def minimizers(self) -> list[dict[str, float]]:
        """Where the minimum is attained: every such point in the box."""
        low, high = self.formula.box(self.num_dims)
        points = self.formula.points(self.num_dims) + self._shift
        inside = points[np.all((points >= low) & (points <= high), axis=1)]
        return [dict(zip(self.space, point, strict=True)) for point in inside.tolist()]

    def __call__(self, params: Mapping[str, Any], *, repetition: int = 0) -> float:
        """The value at legal params; with noise, another `repetition` is another draw at the same point."""
        point = list(self.space.check(params).values())
        return float(self.on_array(np.array([point]), repetition=repetition)[0])

    def on_array(self, x: np.ndarray, *, repetition: int = 0) -> np.ndarray:
        """The values [n] at points [n, d] in the user's units; bounds are not checked."""
        points = np.asarray(x, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.num_dims:
            raise SpaceError(f"points of {self!r} must have shape [n, {self.num_dims}], but got {list(points.shape)}")
        values = self.formula.values(points - self._shift)
        if self.stddev > 0:
            values = values + self.stddev * _standard_normal(points, self.noise_seed, repetition)
        return values

    # The variations.
    def dim(self, num_dims: int) -> "Function":
        """The same function in another number of dimensions."""
        wanted, formula = _whole(num_dims, "a number of dimensions"), self.formula
        if formula.least_dim is None and wanted != formula.default_dim:
            remedy = "ackley, levy, griewank, rosenbrock, styblinski_tang and michalewicz come in any"
            raise SpaceError(f"{self.name} has dimension {formula.default_dim} only, but got {num_dims}; {remedy}")
        if formula.least_dim is not None and wanted < formula.least_dim:
            raise SpaceError(f"{self.name} needs a dimension of at least {formula.least_dim}, but got {num_dims}")
        return replace(self, num_dims=wanted)

    def shifted(self, seed: int) -> "Function":
        """The same function on the same box with its minimum elsewhere, f(x - shift).

        The shift is uniform, in each coordinate at most a quarter of the box's side, with two bounds: the first
        minimiser stays a twentieth of the side away from the edges, and no point of the box is sent to where the
        formula falls below its minimum. A coordinate that these bounds leave no room for, such as that of a `gp_path`
        lowest at an end of its interval, stays as it is. Other minimisers may leave the box.
        """
        return replace(self, shift_seed=_whole(seed, "a seed"))

    def noisy(self, stddev: float, seed: int = 0) -> "Function":
        """The same function observed with Gaussian noise, which is itself a function of seed, point and repetition."""
        stddev = plain(stddev)
        if isinstance(stddev, bool) or not isinstance(stddev, int | float) or not 0 <= stddev < np.inf:
            raise SpaceError(f"0 <= stddev < inf must hold, but got stddev={stddev!r}")
        return replace(self, stddev=float(stddev), noise_seed=_whole(seed, "a seed"))

    def with_seed(self, seed: int) -> "Function":
        """Another draw of a random function."""
        if self.formula.redraw is None:
            raise SpaceError(f"only a random function such as gp_path has a seed, but {self.name} was asked for {seed}")
        return replace(self, formula=self.formula.redraw(_whole(seed, "a seed")))

    @property
    def noiseless(self) -> "Function":
        """The function without its noise."""
        return replace(self, stddev=0.0, noise_seed=0)

    @cached_property
    def _shift(self) -> np.ndarray:
        if self.shift_seed is None:
            return np.zeros(self.num_dims)
        low, high = self.formula.box(self.num_dims)
        reach_low, reach_high = self.formula.reach or ((-np.inf,), (np.inf,))
        side, point = high - low, self.formula.points(self.num_dims)[0]
        least = np.maximum(-LONGEST_SHIFT * side, low + MARGIN * side - point)
        least = np.maximum(least, high - _spread(reach_high, self.num_dims))
        most = np.minimum(LONGEST_SHIFT * side, high - MARGIN * side - point)
        most = np.minimum(most, low - _spread(reach_low, self.num_dims))
        drawn = least + (most - least) * np.random.default_rng(self.shift_seed).uniform(size=self.num_dims)
        return np.where(least < most, drawn, 0.0)

    def __repr__(self) -> str:
        text = self.name
        if self.formula.seed is not None:
            text += f".with_seed({self.formula.seed})"
        if self.num_dims != self.formula.default_dim:
            text += f".dim({self.num_dims})"
        if self.shift_seed is not None:
            text += f".shifted({self.shift_seed})"
        if self.stddev > 0:
            text += f".noisy({self.stddev}{f', seed={self.noise_seed}' if self.noise_seed else ''})"
        return text


def _spread(point: Point, dim: int) -> np.ndarray:
    return np.array(np.broadcast_to(np.array(point, dtype=float), (dim,)))


def _whole(value: Any, what: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise SpaceError(f"{what} must be a whole number of at least 0, but got {value!r}")
    return number


def _standard_normal(points: np.ndarray, seed: int, repetition: int) -> np.ndarray:
    """One draw per row that depends on nothing but the row's bits, the seed and the repetition, [n]."""
    rows = np.ascontiguousarray(points + 0.0).view(np.uint64)  # + 0.0: -0.0 and 0.0 are one point
    streams = [np.random.default_rng([seed, _whole(repetition, "a repetition"), *row]) for row in rows.tolist()]
    return np.array([stream.standard_normal() for stream in streams])
