"""Symmetric laws of a weight, each as a Gaussian of random variance: w = sqrt(v) z, z standard normal.

The variance is a function of a few latent numbers u with a smooth density, so that Hamiltonian Monte Carlo can move
them, and given u the weight is Gaussian, so that an output layer can be integrated out whatever its law. Functions
that run inside jit as well as outside take the array module as `xp`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class LogNormal(NamedTuple):
    """A positive number: its median and the standard deviation of its logarithm; 0 means that it is fixed."""

    median: float
    spread: float = 0.0


class Law(ABC):
    """A symmetric law of unit scale.

    Attributes:
        latents: how many numbers u a weight has besides z.
        index: sums of k such weights grow like k^(1/index): 2, or less where the variance is infinite.
    """

    latents: int = 0
    index: float = 2.0

    @abstractmethod
    def variance(self, u: Any, xp: Any) -> Any:
        """v, given latent numbers [latents, ...]."""

    @abstractmethod
    def log_density(self, u: Any, xp: Any) -> Any:
        """Log density of latent numbers [latents, ...] up to a constant, [...]."""

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Latent numbers from the prior, [latents, *shape]."""


@dataclass(frozen=True)
class Gaussian(Law):
    """The standard normal law."""

    def variance(self, u: Any, xp: Any) -> Any:
        return xp.ones(u.shape[1:], u.dtype)

    def log_density(self, u: Any, xp: Any) -> Any:
        return xp.zeros(u.shape[1:], u.dtype)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.empty((0, *shape))


@dataclass(frozen=True)
class Laplace(Law):
    """The double exponential law of variance 1: v is exponential, u = log v."""

    latents = 1

    def variance(self, u: Any, xp: Any) -> Any:
        return xp.exp(u[0])

    def log_density(self, u: Any, xp: Any) -> Any:
        return u[0] - xp.exp(u[0])

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.log(rng.standard_exponential((1, *shape)))


@dataclass(frozen=True)
class StudentT(Law):
    """Student's t: 1/v is a chi-square over its degrees of freedom, u = -log v.

    Args:
        df: degrees of freedom; 1 is the Cauchy law.
    """

    df: float = 3.0
    latents = 1

    @property
    def index(self) -> float:  # type: ignore[override]
        return min(self.df, 2.0)

    def variance(self, u: Any, xp: Any) -> Any:
        return xp.exp(-u[0])

    def log_density(self, u: Any, xp: Any) -> Any:
        return 0.5 * self.df * (u[0] - xp.exp(u[0]))

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.log(rng.gamma(0.5 * self.df, 2.0 / self.df, (1, *shape)))


@dataclass(frozen=True)
class Stable(Law):
    """The symmetric stable law with characteristic function exp(-|t|^alpha), 0 < alpha < 2.

    v / 2 is a positive stable variable of index a = alpha / 2 in Kanter's form: with U uniform on (0, pi) and E
    exponential, sin(aU) / sin(U)^(1/a) * (sin((1 - a) U) / E)^((1 - a)/a). u = logit(U / pi), log E.

    Args:
        alpha: 1 is the Cauchy law.
    """

    alpha: float = 1.5
    latents = 2

    @property
    def index(self) -> float:  # type: ignore[override]
        return self.alpha

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 2.0:
            raise ValueError(f"0 < alpha < 2 must hold, but got alpha={self.alpha}; 2 is the Gaussian law")

    def variance(self, u: Any, xp: Any) -> Any:
        a = 0.5 * self.alpha
        # sin(U) = sin(pi - U): the smaller of the two angles keeps its digits at either end.
        part, rest = 1.0 / (1.0 + xp.exp(-u[0])), 1.0 / (1.0 + xp.exp(u[0]))
        small = math.pi * xp.minimum(part, rest)
        log_s = xp.log(xp.sin(math.pi * a * part)) - xp.log(xp.sin(small)) / a
        log_s += (1.0 - a) / a * (xp.log(xp.sin(math.pi * (1.0 - a) * part)) - u[1])
        return 2.0 * xp.exp(log_s)

    def log_density(self, u: Any, xp: Any) -> Any:
        bend = xp.abs(u[0])
        return -bend - 2.0 * xp.log1p(xp.exp(-bend)) + u[1] - xp.exp(u[1])

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.stack([rng.logistic(size=shape), np.log(rng.standard_exponential(shape))])


CAUCHY = StudentT(1.0)
