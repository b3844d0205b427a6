"""The protocol of a kernel: a value, and what a derivative in the value means for parameters and points.

Plain NumPy with derivatives written out. The default surrogate answers in milliseconds; compiled code would make a
user wait seconds for its compilation to save milliseconds. (The names `by_...` are pullbacks, reverse mode by hand:
they map dE/dK, [n, m], to dE/d theta or to dE/d features.)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from presage.kernels.axes import Axes
from presage.priors import Block, LogNormal, Prior

VARIANCE = LogNormal(1.0, 1.0)  # the values have variance 1
Pull = Callable[[np.ndarray], np.ndarray]
WAVES = 512  # frequencies in a function drawn from a kernel of distances


class Evaluated(NamedTuple):
    """A kernel between features a [n, D] and b [m, D].

    Attributes:
        value: [n, m].
        by_theta: dE/dK [n, m] to dE/d theta, [p].
        by_a: dE/dK to dE/da, [n, D].
        by_b: dE/dK to dE/db, [m, D].
    """

    value: np.ndarray
    by_theta: Pull
    by_a: Pull
    by_b: Pull


class Diagonal(NamedTuple):
    """A kernel of each point with itself: values [n], and their derivatives in the features, [n, D]."""

    value: np.ndarray
    slope: np.ndarray


class Spanned(NamedTuple):
    """Finitely many functions b_i at features a [n, D].

    Attributes:
        value: [n, m].
        by_a: dE/db [n, m] to dE/da, [n, D].
    """

    value: np.ndarray
    by_a: Pull


Basis = Callable[[np.ndarray], Spanned]  # with independent standard normal weights it makes draws of a process


class Kernel(ABC):
    """A covariance function; configuration only, its parameters are given as a vector theta."""

    @abstractmethod
    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        """What theta holds."""

    @abstractmethod
    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        """The kernel between two sets of features; the same array twice means the same points."""

    @abstractmethod
    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        """The kernel of each point with itself."""

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        """Functions with E sum_i b_i(a) b_i(c) = k(a, c), which may be drawn at random; None where none are known."""
        return None

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum((*_parts(self, Sum), *_parts(other, Sum)))

    def __mul__(self, other: "Kernel") -> "Product":
        return Product((*_parts(self, Product), *(_unit(part) for part in _parts(other, Product))))

    def size(self, axes: Axes) -> int:
        """The length of theta."""
        return sum(block.size for block in self.blocks(axes))

    def _split(self, theta: np.ndarray, axes: Axes) -> list[np.ndarray]:
        """Theta block by block."""
        return np.split(theta, np.cumsum([block.size for block in self.blocks(axes)])[:-1])


def _parts(kernel: Kernel, kind: type) -> tuple[Kernel, ...]:
    return kernel.parts if isinstance(kernel, kind) else (kernel,)  # type: ignore[attr-defined]


def _unit(kernel: Kernel) -> Kernel:
    """The kernel with variance 1 where it has one of its own: a product needs one variance only."""
    if any(field.name == "variance" for field in fields(kernel)):  # type: ignore[arg-type]
        return replace(kernel, variance=None)  # type: ignore[type-var]
    return kernel


@dataclass(frozen=True)
class Sum(Kernel):
    """The sum of some kernels."""

    parts: tuple[Kernel, ...]

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        return _numbered(self.parts, axes)

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        found = [part.evaluate(own, a, b, axes) for part, own in _shared(self.parts, theta, axes)]
        value = found[0].value + found[1].value if len(found) > 1 else found[0].value
        for one in found[2:]:
            value += one.value
        return Evaluated(
            value,
            lambda cotangent: np.concatenate([one.by_theta(cotangent) for one in found]),
            lambda cotangent: np.add.reduce([one.by_a(cotangent) for one in found]),
            lambda cotangent: np.add.reduce([one.by_b(cotangent) for one in found]),
        )

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        found = [part.diagonal(own, a, axes) for part, own in _shared(self.parts, theta, axes)]
        return Diagonal(*(np.add.reduce(side) for side in zip(*found, strict=True)))

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        found = [part.basis(own, axes, rng) for part, own in _shared(self.parts, theta, axes)]
        bases = [basis for basis in found if basis is not None]
        return partial(_together, bases=bases) if len(bases) == len(found) else None


def _together(a: np.ndarray, bases: list[Basis]) -> Spanned:
    """The functions of several bases."""
    found = [basis(a) for basis in bases]
    ends = np.cumsum([one.value.shape[1] for one in found])[:-1]

    def by_a(cotangent: np.ndarray) -> np.ndarray:
        own = np.split(cotangent, ends, axis=1)
        return np.add.reduce([one.by_a(part) for one, part in zip(found, own, strict=True)])

    return Spanned(np.concatenate([one.value for one in found], axis=1), by_a)


@dataclass(frozen=True)
class Product(Kernel):
    """The product of some kernels."""

    parts: tuple[Kernel, ...]

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        return _numbered(self.parts, axes)

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        found = [part.evaluate(own, a, b, axes) for part, own in _shared(self.parts, theta, axes)]
        others = _others([one.value for one in found])
        return Evaluated(
            others[0] * found[0].value,
            lambda cotangent: np.concatenate(
                [one.by_theta(cotangent * o) for one, o in zip(found, others, strict=True)]
            ),
            lambda cotangent: np.add.reduce([one.by_a(cotangent * o) for one, o in zip(found, others, strict=True)]),
            lambda cotangent: np.add.reduce([one.by_b(cotangent * o) for one, o in zip(found, others, strict=True)]),
        )

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        found = [part.diagonal(own, a, axes) for part, own in _shared(self.parts, theta, axes)]
        others = _others([one.value for one in found])
        slope = np.add.reduce([o[:, None] * one.slope for one, o in zip(found, others, strict=True)])
        return Diagonal(others[0] * found[0].value, slope)


def _numbered(parts: Sequence[Kernel], axes: Axes) -> tuple[Block, ...]:
    return tuple(
        block._replace(name=f"{i}.{block.name}") for i, part in enumerate(parts) for block in part.blocks(axes)
    )


def _shared(parts: Sequence[Kernel], theta: np.ndarray, axes: Axes) -> list[tuple[Kernel, np.ndarray]]:
    """Each kernel with its part of theta."""
    pairs, start = [], 0
    for part in parts:
        end = start + part.size(axes)
        pairs.append((part, theta[start:end]))
        start = end
    return pairs


def _others(values: list[np.ndarray]) -> list[np.ndarray]:
    """For each array the product of the others; no division, some may be 0."""
    return [math.prod([*values[:i], *values[i + 1 :]], start=np.ones(())) for i in range(len(values))]


def lengthscale_block(
    prior: Prior, on: tuple[int, ...] | None, axes: Axes, least: float = 1e-2, shared: bool = False
) -> Block:
    """The block of lengthscales, one per column or one for all; the more columns, the longer they are expected."""
    d = max(1, len(axes) if on is None else len(on))
    return Block("lengthscale", prior.scaled(math.sqrt(d)), 1 if shared else d, math.log(least), math.log(1e3))


def variance_block(prior: Prior | None) -> tuple[Block, ...]:
    """The block of a kernel's variance; none where it is 1."""
    return () if prior is None else (Block("variance", prior, 1, np.log(1e-6), np.log(1e3)),)


@lru_cache(maxsize=64)  # every evaluation asks, and the answer does not change
def chosen(on: tuple[int, ...] | None, axes: Axes) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The features that a kernel acts on, for each the place of its column among those columns, and these columns."""
    columns = list(range(len(axes))) if on is None else list(on)
    place = {column: i for i, column in enumerate(columns)}
    used = np.flatnonzero(np.isin(axes.owner, columns))
    return used, np.array([place[owner] for owner in axes.owner[used]], dtype=int), columns


def spread_out(part: np.ndarray, used: np.ndarray, width: int) -> np.ndarray:
    """Derivatives in some features, [n, k], among all of them, [n, D]."""
    if part.shape[1] == width:
        return part
    whole = np.zeros((len(part), width))
    whole[:, used] = part
    return whole
