"""Prior laws of hyperparameters, as laws of the unbounded coordinates in which these are sought and sampled."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Prior(ABC):
    """The law of a positive parameter exp(u), given as the law of u."""

    @property
    @abstractmethod
    def median(self) -> float:
        """The median of the parameter."""

    @abstractmethod
    def energy(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-log density of u up to a constant, and its derivative."""

    @abstractmethod
    def draw(self, size: int, *, rng: np.random.Generator) -> np.ndarray:
        """Draws of u, [size]."""

    def scaled(self, factor: float) -> "Prior":
        """The law of the parameter times a factor."""
        return Scaled(self, factor)


@dataclass(frozen=True)
class LogNormal(Prior):
    """u is normal.

    Args:
        median: of the parameter.
        spread: standard deviation of u.
    """

    median: float = 1.0
    spread: float = 1.0

    def energy(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = (u - math.log(self.median)) / self.spread
        return 0.5 * z * z, z / self.spread

    def draw(self, size: int, *, rng: np.random.Generator) -> np.ndarray:
        return math.log(self.median) + self.spread * rng.standard_normal(size)

    def scaled(self, factor: float) -> "LogNormal":
        return LogNormal(self.median * factor, self.spread)


@dataclass(frozen=True)
class HalfCauchy(Prior):
    """The positive half of a Cauchy law."""

    scale: float = 1.0

    @property
    def median(self) -> float:
        return self.scale

    def energy(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # p(v) ~ 1 / (1 + v^2) and v = scale exp(w): the density of w is that of v times v.
        w = u - math.log(self.scale)
        return np.logaddexp(w, -w), np.tanh(w)

    def draw(self, size: int, *, rng: np.random.Generator) -> np.ndarray:
        return math.log(self.scale) + np.log(np.abs(rng.standard_cauchy(size)))


@dataclass(frozen=True)
class Gamma(Prior):
    """The law with density ~ v^(shape - 1) exp(-rate v)."""

    shape: float = 2.0
    rate: float = 2.0

    @property
    def median(self) -> float:
        from scipy.special import gammaincinv

        return float(gammaincinv(self.shape, 0.5)) / self.rate

    def energy(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        v = self.rate * np.exp(u)
        return v - self.shape * u, v - self.shape

    def draw(self, size: int, *, rng: np.random.Generator) -> np.ndarray:
        return np.log(rng.gamma(self.shape, 1.0 / self.rate, size))


@dataclass(frozen=True)
class Scaled(Prior):
    """The law of a parameter times a factor."""

    of: Prior
    factor: float

    @property
    def median(self) -> float:
        return self.of.median * self.factor

    def energy(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.of.energy(u - math.log(self.factor))

    def draw(self, size: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.of.draw(size, rng=rng) + math.log(self.factor)


class Block(NamedTuple):
    """Some coordinates of theta with the same prior.

    Attributes:
        name: what they are, for reports.
        prior: their law; LogNormal(1, s) is a normal law with mean 0 where the coordinate itself is the parameter.
        size: how many.
        lower, upper: the box in which they are sought.
    """

    name: str
    prior: Prior
    size: int = 1
    lower: float = math.log(1e-3)
    upper: float = math.log(1e3)

    @staticmethod
    def real(
        name: str, mean: float, spread: float, size: int = 1, lower: float = -10.0, upper: float = 10.0
    ) -> "Block":
        """Coordinates that are the parameters themselves, with a normal law."""
        return Block(name, LogNormal(math.exp(mean), spread), size, lower, upper)


class Priors:
    """The joint prior of theta: independent blocks, one after another."""

    def __init__(self, blocks: tuple[Block, ...]):
        self.blocks = blocks
        sizes = [block.size for block in blocks]
        self.size = sum(sizes)
        self.center = np.repeat([math.log(block.prior.median) for block in blocks], sizes)
        self.lower = np.repeat([block.lower for block in blocks], sizes)
        self.upper = np.repeat([block.upper for block in blocks], sizes)
        # Normal laws, the usual ones, are evaluated together; the others one block at a time.
        normal = [block.prior.spread if isinstance(block.prior, LogNormal) else math.inf for block in blocks]
        self._spread = np.repeat(normal, sizes)
        ends = np.cumsum(sizes)
        self._others = [
            (slice(end - block.size, end), block.prior)
            for block, end in zip(blocks, ends, strict=True)
            if not isinstance(block.prior, LogNormal)
        ]

    def energy(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-log p(theta) up to a constant, [s], and its derivatives, [s, p]."""
        z = (theta - self.center) / self._spread
        value, gradient = 0.5 * np.einsum("sp,sp->s", z, z), z / self._spread
        for part, prior in self._others:
            more, slope = prior.energy(theta[:, part])
            value += more.sum(axis=1)
            gradient[:, part] = slope
        return value, gradient

    def draw(self, num: int, *, rng: np.random.Generator) -> np.ndarray:
        """Draws of theta, [num, p]."""
        parts = [block.prior.draw(num * block.size, rng=rng).reshape(num, block.size) for block in self.blocks]
        return np.concatenate(parts, axis=1)
