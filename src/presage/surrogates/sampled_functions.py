"""A posterior that is finitely many functions: drawn from a network's posterior, or the members of an ensemble."""

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from presage.kernels import features
from presage.observations import Column
from presage.surrogates.base import Draws, Marginal, Posterior

SMALLEST = 1e-10  # least variance; functions may agree to the last digit at a point


class Functions(Protocol):
    """Functions of features, smooth ones for gradients."""

    @property
    def count(self) -> int: ...

    def values(self, x: np.ndarray) -> np.ndarray:
        """[functions, n, outputs]"""

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[functions, n] and [functions, n, D]"""


@dataclass(frozen=True, repr=False)
class SampledFunctions(Draws, Posterior):
    """Equally likely functions, seen through their mean and variance at each point.

    Attributes:
        functions: of the features of points.
        columns: what each column of a point is.
        x: the observed points, [m, d].
        y: their values, [m].
        known: their known noise variances, [m].
        noise_variance: of an observation about f.
        mix: row i holds the weights of function i among the given ones, [functions, functions]; the identity until
            further observations come.
        smooth: whether the functions have derivatives.
    """

    functions: Functions
    columns: tuple[Column, ...]
    x: np.ndarray
    y: np.ndarray
    known: np.ndarray
    noise_variance: float
    mix: np.ndarray
    smooth: bool = True

    def facts(self) -> dict[str, Any]:
        return {"values": len(self.y), "dimensions": len(self.columns), "functions": len(self.mix)}

    @property
    def differentiable(self) -> bool:
        return self.smooth

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.mix @ self.functions.values(features(x, self.columns))[..., 0]

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, by_feature = self.functions.values_and_gradients(features(x, self.columns))
        numeric = [j for j, c in enumerate(self.columns) if c.kind != "categorical"]
        gradient = np.zeros((self.functions.count, *x.shape))
        # The features of numeric columns come first and move with them at unit speed.
        gradient[..., numeric] = by_feature[..., : len(numeric)]
        gradient[:, np.isnan(x)] = 0.0
        return self.mix @ value, np.tensordot(self.mix, gradient, 1)

    def marginal(self, x: np.ndarray) -> Marginal:
        return _moments(self.values(x))

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        value, gradient = self.values_and_gradients(x)
        law = _moments(value)
        centered = value - law.mean
        by_variance = 2.0 * np.einsum("sn,snd->nd", centered, gradient) / len(value)
        return law, gradient.mean(axis=0)[None], by_variance[None]

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.values(x)[rng.integers(len(self.mix), size=num)]

    def draw(self, num: int, *, rng: np.random.Generator) -> "SampledFunctions":
        count = len(self.mix)
        which = np.concatenate([rng.permutation(count) for _ in range(-(-num // count))])[:num]
        return replace(self, mix=self.mix[which])

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.noise_variance)

    def condition(self, x: np.ndarray, y: np.ndarray) -> "SampledFunctions":
        """Move every function by what it errs at the new points, as a Gaussian with the functions' covariance would.

        f_i(x) + C(x, X) (C(X, X) + noise)^-1 (y + e_i - f_i(X)): a linear map of the functions, kept as `mix`. The
        e_i, draws of the noise, come from a fixed generator, so that the answer is a function of the data.
        """
        value = self.values(x)
        count = len(value)
        centered = value - value.mean(axis=0)
        noise = max(self.noise_variance, 1e-6)
        covariance = centered.T @ centered / count + noise * np.eye(len(x))
        told = y + math.sqrt(noise) * np.random.default_rng(0).standard_normal(value.shape)
        told -= (told - y).mean(axis=0)  # the mean moves as if there were no e
        weight = np.linalg.solve(covariance, (told - value).T).T @ centered.T / count
        weight -= weight.mean(axis=1, keepdims=True)  # on deviations from the mean function
        return replace(
            self, mix=self.mix + weight @ self.mix, x=np.vstack([self.x, x]), y=np.append(self.y, y),
            known=np.append(self.known, np.zeros(len(y))),
        )  # fmt: skip

    def leave_one_out(self) -> np.ndarray:
        """By importance: 1 / mean of 1 / p(y | f), each weight at most sqrt(count) times the mean one."""
        variance = self.noise_variance + self.known + SMALLEST
        log_density = -0.5 * (np.log(2.0 * math.pi * variance) + (self.y - self.values(self.x)) ** 2 / variance)
        count = len(log_density)
        log_weight = -log_density
        log_mean = np.logaddexp.reduce(log_weight, axis=0) - math.log(count)
        log_weight = np.minimum(log_weight, log_mean + 0.5 * math.log(count))
        return np.logaddexp.reduce(log_weight + log_density, axis=0) - np.logaddexp.reduce(log_weight, axis=0)

    def incumbent(self) -> float:
        return float(self.values(self.x).mean(axis=0).min())


def _moments(value: np.ndarray) -> Marginal:
    """One Gaussian with the moments of the functions' values, [functions, n]."""
    return Marginal(value.mean(axis=0)[None], value.var(axis=0)[None] + SMALLEST, np.ones(1))
