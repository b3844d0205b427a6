"""What an observation says about how low f gets: entropy of the minimum, and of the minimum with its place."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from presage.acquisitions.base import Acquisition, Context, OfJoint, Scale, Unprepared, must_be_finite, must_be_whole
from presage.acquisitions.improvement import HALF_LOG_TAU, log_normal
from presage.acquisitions.representers import promising
from presage.surrogates.base import Marginal, Posterior
from presage.surrogates.joint import Joint

LEGENDRE = np.polynomial.legendre.leggauss(32)
HERMITE = np.polynomial.hermite_e.hermegauss(24)
HERMITE_WEIGHT = HERMITE[1] / math.sqrt(2.0 * math.pi)
FARTHEST = 12.0  # standard deviations that the mean may lie below a drawn minimum; farther, digits would be lost


def truncation_gain(
    gamma: np.ndarray, variance: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entropy that y = f + noise loses when f is known to be above a bound gamma standard deviations below its mean.

    With u the standard score of y, rho^2 = variance / (variance + noise), s^2 = 1 - rho^2 and psi = phi / Phi at gamma,
    p(u | above) = phi(u) Phi(t) / Phi(gamma), t = (gamma + rho u) / s, so the loss is

        rho^2 gamma psi / 2 - log Phi(gamma) + E[log Phi(t) | above],

    the last term by quadrature; without noise it vanishes, and what is left is equation 6 of Wang & Jegelka, 2017,
    arXiv 1703.01968. Its derivatives are expectations of log Phi and psi at gamma s + rho e, e standard normal.

    Args:
        gamma: (mean - bound) / standard deviation, any shape.
        variance: of f.
        noise: variance of y about f.

    Returns:
        The gain, and its derivatives in gamma and, gamma fixed, in the variance.
    """
    inside = gamma > -FARTHEST
    gamma = np.maximum(gamma, -FARTHEST)
    total = variance + noise
    rho, s = np.sqrt(variance / total), np.sqrt(noise / total)
    log_p, psi = log_normal(gamma)
    mean_log, by_gamma, by_total = _noise_term(gamma, rho, s, log_p, psi)
    value = 0.5 * rho**2 * gamma * psi - log_p + mean_log
    by_gamma = 0.5 * rho**2 * psi * (1.0 - gamma * (gamma + psi)) - psi + by_gamma
    by_variance = (0.5 * gamma * psi * s**2 + 0.5 * by_total * s) / total
    return value, np.where(inside, by_gamma, 0.0), by_variance


def _noise_term(
    gamma: np.ndarray, rho: np.ndarray, s: np.ndarray, log_p: np.ndarray, psi: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[log Phi(t) | above], its derivative in gamma, and psi E[psi(gamma s + rho e)]."""
    # The integrand lives where both phi(u) and Phi(t) |log Phi(t)| do. Where gamma is negative, f above its bound falls
    # off like an exponential with rate -gamma.
    outward = np.maximum(-gamma, 0.0)
    low = np.maximum(
        rho * outward - 8.0 * np.maximum(s, 1.0 / (1.0 + outward)), (-9.0 * s - outward * s**2 - gamma) / rho
    )
    high = np.maximum(np.minimum(rho * (outward + 36.0 / (4.5 + outward)) + 8.0 * s, (7.0 * s - gamma) / rho), low)
    half = 0.5 * (high - low)
    u = low[..., None] + half[..., None] * (LEGENDRE[0] + 1.0)
    tiny = np.maximum(s, 1e-12)[..., None]
    log_cdf = log_ndtr((gamma[..., None] + rho[..., None] * u) / tiny)
    weight = np.exp(log_cdf - 0.5 * u * u - HALF_LOG_TAU - log_p[..., None])
    value = half * ((weight * log_cdf) @ LEGENDRE[1])
    mean_log, mean_psi = (
        part @ HERMITE_WEIGHT for part in log_normal((gamma * s)[..., None] + rho[..., None] * HERMITE[0])
    )
    return value, psi * (1.0 + mean_log - value), psi * mean_psi


def own_minima(
    posterior: Posterior, context: Context, rng: np.random.Generator, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where functions drawn from the posterior are least among promising points, [s c, d], and how low, [c, s].

    Components may differ in all they believe, even in the units of values, so the minima of one say nothing about
    another. Draw i is of component i modulo their number; a mixture that counts as one Gaussian has one component.
    """
    points = promising(posterior, context, rng)
    components = len(posterior.joint(points[:0]).law(posterior.marginal(points[:1])).weight)
    each = -(-samples // components)
    drawn = posterior.sample(points, each * components, rng=rng)
    lowest = drawn.argmin(axis=1)
    return points[lowest], np.ascontiguousarray(drawn.min(axis=1).reshape(each, components).T)


@dataclass(frozen=True)
class MaxValueEntropySearch(Unprepared):
    """Information of an observation at x about how low f gets (Wang & Jegelka, 2017; with noise, see truncation_gain).

    Over a mixture it is the mean of what each component expects.

    Args:
        samples: minima drawn; of a mixture at least so many, equally many of each component.
    """

    scale: ClassVar[Scale] = "positive"
    samples: int = 16

    def __post_init__(self) -> None:
        must_be_whole(1, samples=self.samples)

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        _, lowest = own_minima(posterior, context, rng, self.samples)
        return PreparedMaxValue(posterior.joint(context.points(rng)[:0]), lowest)


@dataclass(frozen=True)
class PreparedMaxValue(OfJoint):
    """The mean of the gain over each component's own minima, [c, s]; no covariances are needed."""

    scale: ClassVar[Scale] = "positive"
    joint: Joint
    lowest: np.ndarray

    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        sigma = np.sqrt(law.variance)[..., None]
        gamma = (law.mean[..., None] - self.lowest[:, None]) / sigma
        noise = np.broadcast_to(noise[:, None], gamma.shape)
        gain, by_gamma, by_variance = truncation_gain(gamma, np.broadcast_to(sigma**2, gamma.shape), noise)
        share = law.weight[:, None] / self.lowest.shape[1]
        return (
            (share * gain.sum(axis=2)).sum(axis=0), share * (by_gamma / sigma).sum(axis=2),
            share * (by_variance - 0.5 * gamma * by_gamma / sigma**2).sum(axis=2), covariance,
        )  # fmt: skip


@dataclass(frozen=True)
class JointEntropySearch(Unprepared):
    """Information of an observation at x about where f is lowest and how low (Hvarfner et al., 2022, arXiv 2206.04771).

    Each drawn minimum is taken as seen where it was drawn, and f to be above it everywhere else. Over a mixture it is
    the mean of what each component expects.

    Args:
        samples: minima drawn; of a mixture at least so many, equally many of each component.
        least_noise: smallest variance of an observation about f, in standardised units; without noise the information
            is infinite at each drawn place.
    """

    scale: ClassVar[Scale] = "positive"
    samples: int = 16
    least_noise: float = 1e-4

    def __post_init__(self) -> None:
        must_be_whole(1, samples=self.samples)
        must_be_finite(least_noise=self.least_noise)

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        at, lowest = own_minima(posterior, context, rng, self.samples)
        joint = posterior.joint(at)
        law = joint.law(posterior.marginal(at))
        own = _own(lowest)
        mean, variance = np.take_along_axis(law.mean, own, 1), np.take_along_axis(law.variance, own, 1)
        return PreparedJointEntropy(joint, lowest - mean, variance, lowest, self.least_noise)


def _own(lowest: np.ndarray) -> np.ndarray:
    """Which of all the draws are those of each component, [c, s]."""
    return np.arange(lowest.size).reshape(lowest.T.shape).T


@dataclass(frozen=True)
class PreparedJointEntropy(OfJoint):
    """Of each component's own minima: how far below the mean at their places, the variances there, and the minima.

    All three are [c, s]; the covariances are with all places, [c, n, s c].
    """

    scale: ClassVar[Scale] = "positive"
    joint: Joint
    below: np.ndarray
    variance: np.ndarray
    lowest: np.ndarray
    least_noise: float

    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        noise = np.maximum(noise, self.least_noise)
        by_all, own = np.zeros(covariance.shape), _own(self.lowest)[:, None]
        covariance = np.take_along_axis(covariance, own, 2)
        slope = covariance / self.variance[:, None]  # regression of f(x) on f where the minimum was drawn, [c, n, s]
        shift = self.below[:, None]
        mean = law.mean[..., None] + slope * shift
        floor = 1e-6 * law.variance[..., None]
        left = law.variance[..., None] - slope * covariance
        kept = left > floor
        left = np.where(kept, left, floor)
        wide = np.broadcast_to(noise[:, None], left.shape)
        sigma = np.sqrt(left)
        gamma = (mean - self.lowest[:, None]) / sigma
        gain, by_gamma, by_left = truncation_gain(gamma, left, wide)
        by_left = by_left - 0.5 * gamma * by_gamma / left - 0.5 / (left + wide)
        by_mean = by_gamma / sigma
        share = law.weight[:, None] / self.lowest.shape[1]
        total = law.variance + noise
        value = 0.5 * np.log(total) + (gain - 0.5 * np.log(left + wide)).mean(axis=2)
        by_variance = 0.5 * law.weight[:, None] / total + share * np.where(kept, by_left, 1e-6 * by_left).sum(axis=2)
        by_covariance = by_mean * shift / self.variance[:, None] - np.where(kept, 2.0 * slope * by_left, 0.0)
        np.put_along_axis(by_all, own, share[..., None] * by_covariance, 2)
        return law.weight @ value, share * by_mean.sum(axis=2), by_variance, by_all
