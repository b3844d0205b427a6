"""How the values of f at a few fixed points go together with its values elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.surrogates.base import Marginal, Posterior


class Joint(ABC):
    """Covariances, component by component, between f at some points [m, d] and f anywhere."""

    def law(self, law: "Marginal") -> "Marginal":
        """The components that these covariances are of, given those of a posterior: the same ones, as a rule."""
        return law

    @abstractmethod
    def covariance(self, x: np.ndarray) -> np.ndarray:
        """With f at points [n, d], [c, n, m]."""

    @abstractmethod
    def covariance_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with derivatives in x, [c, n, m] and [c, n, m, d]; where the posterior is differentiable."""


@dataclass(frozen=True)
class ByConditioning(Joint):
    """Learned by asking a posterior what it would believe after one more observation.

    Told y at the point z, a Gaussian posterior moves its mean everywhere by cov(f(x), f(z)) times one number, which
    the known variance at z gives away. So nothing but `condition` is needed, and for laws that are not Gaussian the
    answer is what a regression on f(z) would say.

    Attributes:
        posterior: whose covariances these are.
        told: the posterior after an observation at each of the points.
        scale: variance at each point over the move of the mean there, [c, m].
    """

    posterior: "Posterior"
    told: "tuple[Posterior, ...]"
    scale: np.ndarray

    @staticmethod
    def of(posterior: "Posterior", z: np.ndarray) -> "ByConditioning":
        """Condition on a value one standard deviation above the mean at each of the points [m, d] in turn."""
        mean, variance = posterior.predict(z)
        law = posterior.marginal(z)
        told = tuple(posterior.condition(z[j : j + 1], (mean + np.sqrt(variance))[j : j + 1]) for j in range(len(z)))
        moves = [one.marginal(z[j : j + 1]).mean[:, 0] - law.mean[:, j] for j, one in enumerate(told)]
        move = np.array(moves).reshape(len(z), len(law.weight)).T
        # An observation that moves nothing where it was made says nothing about elsewhere either.
        still = np.abs(move) < 1e-9 * np.sqrt(law.variance)
        return ByConditioning(posterior, told, np.where(still, 0.0, law.variance / np.where(still, 1.0, move)))

    def covariance(self, x: np.ndarray) -> np.ndarray:
        here = self.posterior.marginal(x).mean
        moves = np.empty((*here.shape, len(self.told)))
        for j, one in enumerate(self.told):
            moves[:, :, j] = one.marginal(x).mean - here
        return moves * self.scale[:, None]

    def covariance_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law, slope, _ = self.posterior.marginal_gradient(x)
        moves, slopes = (
            np.empty((*law.mean.shape, len(self.told))),
            np.empty((*law.mean.shape, len(self.told), x.shape[1])),
        )
        for j, one in enumerate(self.told):
            answer, its_slope, _ = one.marginal_gradient(x)
            moves[:, :, j], slopes[:, :, j] = answer.mean - law.mean, its_slope - slope
        return moves * self.scale[:, None], slopes * self.scale[:, None, :, None]


@dataclass(frozen=True)
class AsOne(Joint):
    """Of a mixture whose components are guesses at f rather than settings of a model, as one Gaussian of its moments.

    An observation says which trees were right, so f at two points goes together because trees differ and because each
    of them is unsure. Component by component only the second would count, at many times the cost.

    Attributes:
        mixture: the law of f at points [n, d], component by component.
        mean: of its components at the points, [c, m].
        within: covariances in each component between f at points [n, d] and f at the points, [c, n, m].
    """

    mixture: "Callable[[np.ndarray], Marginal]"
    mean: np.ndarray
    within: Callable[[np.ndarray], np.ndarray]

    def law(self, law: "Marginal") -> "Marginal":
        mean = law.weight @ law.mean
        variance = law.weight @ (law.spread() + (law.mean - mean) ** 2)
        return type(law)(mean[None], variance[None], np.ones(1))

    def covariance(self, x: np.ndarray) -> np.ndarray:
        if not self.mean.shape[1]:  # with nothing, as max-value entropy search asks
            return np.zeros((1, len(x), 0))
        law = self.mixture(x)
        here, there = (mean - law.weight @ mean for mean in (law.mean, self.mean))
        return (np.einsum("c,cnm->nm", law.weight, self.within(x)) + (law.weight[:, None] * here).T @ there)[None]

    def covariance_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("this posterior has no gradients; ask `differentiable` first")
