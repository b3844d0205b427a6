"""Bayesian linear regression on given features, kept as a triangular factor that takes in rows one by one or by chunks.

Notation: features Phi [n, M], values y [n]; y ~ N(Phi w, noise), w ~ N(0, variance I). The factor of some rows is the
upper triangle R of a QR decomposition of (Phi | y), [M + 1, M + 1]: all that the rows say. R'R is (Phi | y)'(Phi | y),
which is never formed, so nothing is lost by squaring. Adding m rows costs O(m M^2).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from presage import lbfgs

BLOCK = 32  # columns per step of LAPACK's blocked QR, measured
TINY = 1e-15  # of the noise: no variance is less, or rounding could make it 0
# Least noise variance of standardised values. A finite basis misses something; where a search has crowded its rows they
# alone can be met exactly, and with a smaller one they rule: the rest of the space is then foretold wrongly and surely.
SMALLEST_NOISE = 1e-5


def empty_factor(num_features: int) -> np.ndarray:
    """The factor of no rows."""
    return np.zeros((num_features + 1, num_features + 1), order="F")


def extend(factor: np.ndarray, features: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The factor with further rows: features [m, M] and values [m]."""
    if not len(y):
        return factor
    rows = np.asfortranarray(np.column_stack([features, y]), dtype=float)
    done, _, _, failed = lapack.dtpqrt(0, min(BLOCK, len(factor)), factor, rows)
    if failed or not np.isfinite(done[-1, -1]):
        raise FloatingPointError("features or values of the linear head are not finite")
    return done  # LAPACK does not look below the diagonal, where there are zeros


def factor_of(chunks: Iterable[tuple[np.ndarray, np.ndarray]], num_features: int) -> np.ndarray:
    """The factor of rows that come in chunks of features [m, M] and values [m]; one chunk is in memory at a time."""
    factor = empty_factor(num_features)
    for features, y in chunks:
        factor = extend(factor, features, y)
    return factor


class Scales(NamedTuple):
    """Prior variance of a weight, and noise variance."""

    variance: float
    noise: float


class Spectrum(NamedTuple):
    """What a factor says in the basis where Phi'Phi is diagonal, directions along which no row lies left out.

    Attributes:
        singular: singular values of Phi, [r].
        right: right singular vectors, [r, M].
        along: projections of y on the left singular vectors, [r].
        rest: squared length of what no feature explains.
        diagonal: the diagonal of Phi'Phi itself, [M].
    """

    singular: np.ndarray
    right: np.ndarray
    along: np.ndarray
    rest: float
    diagonal: np.ndarray

    @staticmethod
    def of(factor: np.ndarray, count: int) -> "Spectrum":
        """The spectrum of so many rows; the rows of a factor beyond their number hold nothing but rounding."""
        R = factor[: min(count, len(factor) - 1), :-1]
        left, singular, right = np.linalg.svd(R, full_matrices=False)
        along = left.T @ factor[: len(R), -1]
        return Spectrum(singular, right, along, float(factor[-1, -1] ** 2), np.einsum("ij,ij->j", R, R))


class ScalePrior(NamedTuple):
    """Normal laws of log variance and log noise: medians of the scales, standard deviations of the logarithms."""

    variance: tuple[float, float] = (1.0, 1.0)
    noise: tuple[float, float] = (1e-4, 3.0)


class Head(ABC):
    """How the scales of a linear model are chosen, and whether its weights count as independent."""

    @property
    def mean_field(self) -> bool:
        """The law of the weights is cut down to independent ones."""
        return False

    @abstractmethod
    def scales(self, spectrum: Spectrum, count: int, prior: ScalePrior, start: Scales) -> Scales:
        """Scales for some rows.

        Args:
            spectrum: of the rows.
            count: how many rows.
            prior: of the scales.
            start: where to begin.
        """


@dataclass(frozen=True)
class Bayes(Head):
    """Scales of largest evidence p(y | variance, noise) times their prior (Snoek et al., 2015, arXiv 1502.05700)."""

    def scales(self, spectrum: Spectrum, count: int, prior: ScalePrior, start: Scales) -> Scales:
        return _most_probable(spectrum, spectrum.singular**2, count, prior, start)


@dataclass(frozen=True)
class MeanField(Head):
    """A variational last layer: independent normal weights q, and scales of largest evidence bound.

    With a dense q the bound is the evidence, and this would be Bayes. With independent weights the best q has the
    exact mean and the variances 1 / (1 / variance + |Phi_j|^2 / noise); put in, the bound is the evidence with
    log |I + variance Phi'Phi / noise| replaced by that of the diagonal alone (Hadamard's inequality).
    Harrison et al. (2024), arXiv 2404.11599; Brunzema et al. (2024), arXiv 2412.09477.
    """

    @property
    def mean_field(self) -> bool:
        return True

    def scales(self, spectrum: Spectrum, count: int, prior: ScalePrior, start: Scales) -> Scales:
        return _most_probable(spectrum, spectrum.diagonal, count, prior, start)


@dataclass(frozen=True)
class LeastSquares(Head):
    """Ordinary least squares: noise s^2 = |y - Phi w|^2 / (n - M), and s^2 v'(Phi'Phi)^-1 v the variance of v'w.

    Seed S3. Where there are no more rows than features it is not defined, and the prior's median rules instead.

    Args:
        vague: prior variance of a weight, in units of the noise, that stands for an infinite one.
    """

    vague: float = 1e6

    def scales(self, spectrum: Spectrum, count: int, prior: ScalePrior, start: Scales) -> Scales:
        spare = count - len(spectrum.diagonal)
        if spare <= 0:
            return Scales(prior.variance[0], prior.noise[0])
        noise = max(spectrum.rest / spare, SMALLEST_NOISE)
        return Scales(self.vague * max(noise, 1.0), noise)


def negative_evidence(
    theta: np.ndarray, spectrum: Spectrum, volume: np.ndarray, count: int, prior: ScalePrior
) -> tuple[np.ndarray, np.ndarray]:
    """-log p(y | scales) - log p(scales) up to a constant, and its derivative, at theta = log(variance, noise) [s, 2].

    -2 log p = sum_j log(noise + variance g_j) + (n - M) log noise + sum_j a_j^2 / (noise + variance s_j^2)
    + rest / noise with singular values s_j; volume holds g_j = s_j^2, or the diagonal of Phi'Phi for a mean field.
    """
    variance, noise = np.exp(theta[:, :1]), np.exp(theta[:, 1:])
    square = spectrum.singular**2
    total, solid = noise + variance * square, noise + variance * volume
    quadratic = spectrum.along**2 / total
    value = np.log(solid).sum(axis=1) + quadratic.sum(axis=1)
    value += ((count - len(volume)) * theta[:, 1:] + spectrum.rest / noise)[:, 0]
    by_variance = (variance * volume / solid).sum(axis=1) - (variance * square * quadratic / total).sum(axis=1)
    by_noise = (noise / solid).sum(axis=1) - (noise * quadratic / total).sum(axis=1)
    by_noise += (count - len(volume) - spectrum.rest / noise)[:, 0]
    center = np.log([prior.variance[0], prior.noise[0]])
    z = (theta - center) / [prior.variance[1], prior.noise[1]]
    gradient = 0.5 * np.column_stack([by_variance, by_noise]) + z / [prior.variance[1], prior.noise[1]]
    return 0.5 * (value + np.vecdot(z, z)), gradient


def _most_probable(spectrum: Spectrum, volume: np.ndarray, count: int, prior: ScalePrior, start: Scales) -> Scales:
    starts = np.log([start, (prior.variance[0], prior.noise[0])])
    found = lbfgs.minimize(
        lambda theta: negative_evidence(theta, spectrum, volume, count, prior), starts,
        np.log([1e-4, SMALLEST_NOISE]), np.log([1e6, 1e2]), evaluations=100,
    )  # fmt: skip
    return Scales(*np.exp(found.x[int(np.argmin(found.value))]).tolist())


def excess(square: np.ndarray, df: float = 5.0) -> float:
    """The factor by which variances were too small, given squared standardised errors [n] that they foretold.

    The scale of largest likelihood of a Student-t, which single errors do not sway; two more rows of 1 steady it. It is
    1 at least: where a search has crowded rows together, each foretells its neighbours, but not the rest of the space.

    Args:
        square: (y - mean)^2 / variance of values that the mean had not seen.
        df: degrees of freedom.
    """
    square = np.append(square, [1.0, 1.0])
    scale = float(square.mean())
    for _ in range(30):  # expectation-maximisation; each step brings it most of the way
        scale = float(np.mean((df + 1.0) / (df + square / scale) * square))
    return float(np.clip(scale, 1.0, 1e6))


@dataclass(frozen=True)
class Weights:
    """The law of the weights: N(mean, root root').

    Attributes:
        factor: of (I / sqrt(variance) | 0) above (Phi | y) / sqrt(noise), [M + 1, M + 1].
        noise: variance of an observation.
        mean_field: whether the weights count as independent.
    """

    factor: np.ndarray
    noise: float
    mean_field: bool = False

    @staticmethod
    def given(factor: np.ndarray, scales: Scales, mean_field: bool = False) -> "Weights":
        """The posterior given the rows of a factor."""
        size = len(factor) - 1
        prior = empty_factor(size)
        prior[range(size), range(size)] = 1.0 / math.sqrt(scales.variance)
        scaled = factor / math.sqrt(scales.noise)
        return Weights(extend(prior, scaled[:, :-1], scaled[:, -1]), scales.noise, mean_field)

    @cached_property
    def mean(self) -> np.ndarray:
        """[M]."""
        return lapack.dtrtrs(self.factor[:-1, :-1], self.factor[:-1, -1])[0]

    @cached_property
    def root(self) -> np.ndarray:
        """A square root of the covariance, [M, M]."""
        if self.mean_field:
            return np.diag(1.0 / np.sqrt(np.einsum("ij,ij->j", self.factor[:-1, :-1], self.factor[:-1, :-1])))
        return lapack.dtrtri(self.factor[:-1, :-1])[0]

    @cached_property
    def covariance(self) -> np.ndarray:
        """[M, M]."""
        return self.root @ self.root.T

    def moments(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of features [n, M] times weights, [n] each."""
        spread = features @ self.root
        return features @ self.mean, np.einsum("nm,nm->n", spread, spread) + TINY * self.noise

    def and_rows(self, features: np.ndarray, y: np.ndarray, known: np.ndarray | float = 0.0) -> "Weights":
        """The law after further observations: features [m, M], values [m] and their known noise variances."""
        weight = 1.0 / np.sqrt(self.noise + np.broadcast_to(known, y.shape))
        return Weights(extend(self.factor, features * weight[:, None], y * weight), self.noise, self.mean_field)

    def draw(self, num: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of the weights, [num, M]."""
        return self.mean + rng.standard_normal((num, len(self.mean))) @ self.root.T
