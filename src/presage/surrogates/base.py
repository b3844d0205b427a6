"""The two protocols of a surrogate: how it is configured and fitted, and what a fit can be asked."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from presage.observations import Observations

Diagnostics = dict[str, Any]
State = dict[str, np.ndarray]  # plain arrays by name; travels through storage


class Marginal(NamedTuple):
    """The law of f at single points: a mixture of Gaussians, or of Student-t where degrees of freedom are given.

    Attributes:
        mean: [component, n].
        variance: [component, n], noise apart; the squared scale of a Student-t.
        weight: [component], sums to 1.
        df: degrees of freedom, [component], or None.
    """

    mean: np.ndarray
    variance: np.ndarray
    weight: np.ndarray
    df: np.ndarray | None = None

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the mixture, [n] each."""
        mean = self.weight @ self.mean
        return mean, self.weight @ (self.variance + self.mean**2) - mean**2


class Posterior(ABC):
    """A fitted surrogate: immutable, on the unit cube.

    Values come in standardised units. A surrogate may transform them monotonically; marginal, sample, noise and
    incumbent then speak of the transformed ones, among which acquisitions compare, and predict undoes it.
    """

    @property
    @abstractmethod
    def differentiable(self) -> bool:
        """Whether `marginal_gradient` can be asked."""

    @abstractmethod
    def marginal(self, x: np.ndarray) -> Marginal:
        """The law of f at each of the points [n, d], noise apart."""

    @abstractmethod
    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        """The marginal, and the derivatives of its mean and its variance in x, [component, n, d] each."""

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at each point in standardised units, [n] each."""
        return self.marginal(x).moments()

    @abstractmethod
    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of f at the points, [num, n]."""

    @abstractmethod
    def noise(self, x: np.ndarray) -> np.ndarray:
        """Variance of an observation about f, [n]."""

    @abstractmethod
    def condition(self, x: np.ndarray, y: np.ndarray) -> "Posterior":
        """The posterior after further observations [m, d] and [m], hyperparameters kept."""

    @abstractmethod
    def leave_one_out(self) -> np.ndarray:
        """Log density of each observation, in standardised units, given all the others, [n]."""

    @abstractmethod
    def incumbent(self) -> float:
        """The least posterior mean among the observed points."""


class Fit(NamedTuple):
    """What a fit gives: the posterior, what a later fit starts from, and what there is to report."""

    posterior: Posterior
    state: State
    diagnostics: Diagnostics


class Surrogate(ABC):
    """A model's configuration; every field has a default."""

    @abstractmethod
    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Fit to the rows that have a value.

        Args:
            data: the observations; at least one row has a value.
            rng: for whatever is random in the fit.
            previous: the state of an earlier fit, from which to start.
            keep: take the hyperparameters of `previous` as they are and only the data anew.
        """
