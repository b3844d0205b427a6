"""The protocols of acquisitions: they see a posterior, never the model behind it. Larger is better."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from presage.surrogates.base import Marginal, Posterior


@dataclass(frozen=True)
class Context:
    """What an acquisition knows besides the posterior.

    Attributes:
        best: the incumbent, the least posterior mean among observed points, standardised.
    """

    best: float


class Acquisition(ABC):
    """How much points are worth."""

    @abstractmethod
    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        """The value of each of the points [n, d] alone, [n]."""

    @abstractmethod
    def values_and_gradients(
        self, posterior: Posterior, x: np.ndarray, context: Context
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same with derivatives in x, [n] and [n, d]."""


class OfMarginal(Acquisition):
    """An acquisition that depends on the law of f at the point alone; most closed forms are."""

    @abstractmethod
    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values [n], and their derivatives in the components' means and variances, [c, n] each."""

    def values(self, posterior: Posterior, x: np.ndarray, context: Context) -> np.ndarray:
        return self.score(posterior.marginal(x), context)[0]

    def values_and_gradients(
        self, posterior: Posterior, x: np.ndarray, context: Context
    ) -> tuple[np.ndarray, np.ndarray]:
        law, mean_slope, variance_slope = posterior.marginal_gradient(x)
        value, by_mean, by_variance = self.score(law, context)
        gradient = np.einsum("cn,cnd->nd", by_mean, mean_slope) + np.einsum("cn,cnd->nd", by_variance, variance_slope)
        return value, gradient
