"""Mean functions of Gaussian processes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from presage.observations import Column
from presage.priors import Block


class Level(NamedTuple):
    """A mean at some points: values [n], their derivatives in the parameters [n, p], and in x, [n, d]."""

    value: np.ndarray
    by_theta: np.ndarray
    slope: np.ndarray


class Units(NamedTuple):
    """What a mean may know of the values it is the mean of: all of them, [n], and the way to them from user's units."""

    seen: np.ndarray
    forward: Callable[[np.ndarray], np.ndarray]


class Mean(ABC):
    """What a process is expected to be before any value is known."""

    follows_units = False  # whether it depends on the units of the values, which a warp changes

    @abstractmethod
    def blocks(self, columns: tuple[Column, ...]) -> tuple[Block, ...]:
        """What theta holds."""

    @abstractmethod
    def evaluate(self, theta: np.ndarray, x: np.ndarray, units: Units) -> Level:
        """The mean at points [n, d]."""


@dataclass(frozen=True)
class ZeroMean(Mean):
    """The mean of the values, 0 after standardisation."""

    def blocks(self, columns: tuple[Column, ...]) -> tuple[Block, ...]:
        return ()

    def evaluate(self, theta: np.ndarray, x: np.ndarray, units: Units) -> Level:
        return Level(np.zeros(len(x)), np.zeros((len(x), 0)), np.zeros(x.shape))


@dataclass(frozen=True)
class ConstantMean(Mean):
    """A constant to be learned.

    Args:
        spread: standard deviation of its normal prior.
    """

    spread: float = 1.0

    def blocks(self, columns: tuple[Column, ...]) -> tuple[Block, ...]:
        return (Block.real("mean", 0.0, self.spread, lower=-5.0, upper=5.0),)

    def evaluate(self, theta: np.ndarray, x: np.ndarray, units: Units) -> Level:
        return Level(np.full(len(x), theta[0]), np.ones((len(x), 1)), np.zeros(x.shape))


@dataclass(frozen=True)
class LinearMean(Mean):
    """A plane over the cube; what is not a number, or absent, counts as the middle of its range.

    Args:
        spread: standard deviation of the normal prior of each coefficient.
    """

    spread: float = 1.0

    def blocks(self, columns: tuple[Column, ...]) -> tuple[Block, ...]:
        return (Block.real("mean", 0.0, self.spread, 1 + len(columns)),)

    def evaluate(self, theta: np.ndarray, x: np.ndarray, units: Units) -> Level:
        there = ~np.isnan(x)
        t = np.where(there, x - 0.5, 0.0)
        basis = np.concatenate([np.ones((len(x), 1)), t], axis=1)
        return Level(basis @ theta, basis, np.where(there, theta[1:], 0.0))


@dataclass(frozen=True)
class HalfwayMean(Mean):
    """min + (mean - min) / 2 of the values seen, which expects unseen points to be better than those seen (S2)."""

    follows_units = True

    def blocks(self, columns: tuple[Column, ...]) -> tuple[Block, ...]:
        return ()

    def evaluate(self, theta: np.ndarray, x: np.ndarray, units: Units) -> Level:
        low = units.seen.min()
        level = low + 0.5 * (units.seen.mean() - low)
        return Level(np.full(len(x), level), np.zeros((len(x), 0)), np.zeros(x.shape))


@dataclass(frozen=True)
class GivenMean(Mean):
    """A function that is known beforehand.

    Args:
        function: maps points [n, d] of the unit cube to values in the user's units, [n].
    """

    function: Callable[[np.ndarray], np.ndarray]
    follows_units = True

    def blocks(self, columns: tuple[Column, ...]) -> tuple[Block, ...]:
        return ()

    def evaluate(self, theta: np.ndarray, x: np.ndarray, units: Units) -> Level:
        h, slope = 1e-6, np.empty(x.shape)
        for j in range(x.shape[1]):
            step = h * np.eye(x.shape[1])[j]
            slope[:, j] = (self._at(x + step, units) - self._at(x - step, units)) / (2.0 * h)
        return Level(self._at(x, units), np.zeros((len(x), 0)), np.where(np.isnan(x), 0.0, slope))

    def _at(self, x: np.ndarray, units: Units) -> np.ndarray:
        return units.forward(np.asarray(self.function(x), dtype=float))
