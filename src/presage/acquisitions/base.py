"""The protocols of acquisitions: they see a posterior, never the model behind it. Larger is better."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from presage.observations import Observations
from presage.surrogates.base import Marginal, Posterior
from presage.surrogates.joint import Joint

# What the number is: anything, something that is never negative, or the logarithm of such a thing.
Scale = Literal["any", "positive", "logarithm"]
Scored = tuple[np.ndarray, np.ndarray]
TINY = 1e-300
AT_ONCE = 512  # points scored together by acquisitions that need megabytes for each hundred of them


@dataclass(frozen=True)
class Context:
    """What an acquisition knows besides the posterior.

    Attributes:
        best: the incumbent, the least posterior mean among observed points, standardised; where components of the
            posterior have units of their own one for each, [c, 1].
        count: how many values were observed, or are awaited and counted as such.
        observed: the points they were observed at, [n, d].
        candidates: gives legal points, from everywhere and from around the best ones, [m, d].
    """

    best: float | np.ndarray
    count: int = 0
    observed: np.ndarray | None = None
    candidates: Callable[[np.random.Generator], np.ndarray] | None = None

    @staticmethod
    def best_of(posterior: Posterior) -> float | np.ndarray:
        """The `best` of a posterior."""
        each = posterior.incumbents()
        return float(each[0]) if len(each) == 1 else each[:, None]

    def points(self, rng: np.random.Generator) -> np.ndarray:
        """Legal points to look at, among them those observed, [m, d]."""
        if self.candidates is None:
            raise ValueError("this acquisition looks at points of its own, so Context needs candidates=")
        some = self.candidates(rng)
        return some if self.observed is None else np.concatenate([self.observed, some])


class Acquisition(ABC):
    """How much points are worth."""

    scale: ClassVar[Scale] = "any"

    @property
    def costly(self) -> bool:
        """Whether a value takes many times as long as a marginal, so that fewer candidates should be looked at."""
        return False

    def informed(self, data: Observations) -> "Acquisition":
        """The acquisition with what it models of the table besides the values; one around another one passes it on."""
        return self

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> "Acquisition":
        """The acquisition with whatever it draws at random or computes once for a posterior; it is then a function."""
        return self

    def logarithm(self) -> "Acquisition":
        """The acquisition in logarithms, to which those of factors can be added; one of any sign is left as it is."""
        return Logarithm(self) if self.scale == "positive" else self

    @abstractmethod
    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        """The value of each of the points [n, d] alone, [n]; of the posterior and context that it was prepared for."""

    @abstractmethod
    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        """The same with derivatives in x, [n] and [n, d]."""


@dataclass(frozen=True)
class Logarithm(Acquisition):
    """The logarithm of an acquisition that is never negative."""

    scale: ClassVar[Scale] = "logarithm"
    base: Acquisition

    @property
    def costly(self) -> bool:
        return self.base.costly

    def informed(self, data: Observations) -> Acquisition:
        base = self.base.informed(data)
        return base if base.scale == "logarithm" else Logarithm(base)

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        return Logarithm(self.base.prepare(posterior, context, rng=rng))

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        return np.log(np.maximum(self.base.values(posterior, x, context), TINY))

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        value, gradient = self.base.values_and_gradients(posterior, x, context)
        slope = np.where(value > TINY, 1.0 / np.maximum(value, TINY), 0.0)
        return np.log(np.maximum(value, TINY)), slope[:, None] * gradient


class OfMarginal(Acquisition):
    """An acquisition that depends on the law of f at the point alone; most closed forms are."""

    @abstractmethod
    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values [n], and their derivatives in the components' means and variances, [c, n] each."""

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        return self.score(posterior.marginal(x), context)[0]

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        law, mean_slope, variance_slope = posterior.marginal_gradient(x)
        value, by_mean, by_variance = self.score(law, context)
        gradient = np.einsum("cn,cnd->nd", by_mean, mean_slope) + np.einsum("cn,cnd->nd", by_variance, variance_slope)
        return value, gradient


class OfJoint(Acquisition):
    """A prepared acquisition that depends on the law of f at the point and on its covariances with f at a few others.

    The derivative of the noise in x is left out: it is not part of what a posterior tells.
    """

    joint: Joint

    @property
    def costly(self) -> bool:
        return True

    @abstractmethod
    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Values [n], and their derivatives in means [c, n], variances [c, n] and covariances [c, n, m]."""

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        parts = [x[i : i + AT_ONCE] for i in range(0, max(len(x), 1), AT_ONCE)]
        return np.concatenate([
            self.score(self.joint.law(posterior.marginal(at)), self.joint.covariance(at), posterior.noise(at))[0]
            for at in parts
        ])  # fmt: skip

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        law, mean_slope, variance_slope = posterior.marginal_gradient(x)  # its components are those of the covariances
        covariance, slope = self.joint.covariance_gradient(x)
        value, by_mean, by_variance, by_covariance = self.score(law, covariance, posterior.noise(x))
        gradient = np.einsum("cn,cnd->nd", by_mean, mean_slope) + np.einsum("cn,cnd->nd", by_variance, variance_slope)
        return value, gradient + np.einsum("cnm,cnmd->nd", by_covariance, slope)


class Unprepared(Acquisition):
    """The configuration of an acquisition that has values only once it is prepared."""

    @abstractmethod
    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition: ...

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        raise RuntimeError(f"{type(self).__name__} must be prepared; call prepare(posterior, context, rng=rng) first")

    def values_and_gradients(self, posterior: Posterior, x: np.ndarray, context: Context) -> Scored:
        raise RuntimeError(f"{type(self).__name__} must be prepared; call prepare(posterior, context, rng=rng) first")


def must_be_whole(least: int, **given: object) -> None:
    """Raise ValueError unless each argument is a whole number of `least` or more."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be a whole number of {least} or more, but got {name}={value!r}")


def must_be_finite(**given: object) -> None:
    """Raise ValueError unless each argument is a finite number of at least 0."""
    for name, value in given.items():
        if not isinstance(value, int | float | np.integer | np.floating) or not 0.0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and at least 0, but got {name}={value!r}")
