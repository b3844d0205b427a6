"""Gaussian-process regression with hyperparameters at their posterior mode."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from presage import lbfgs
from presage.kernels import feature_owners, features, matern52, squared_distance
from presage.observations import Column, Observations
from presage.surrogates.base import Diagnostics, Marginal, Posterior, State, Surrogate

JITTERS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)  # of the process variance; tried until the Cholesky factor exists
MANY = 200  # beyond so many rows a fit runs from one start only


class Prior(NamedTuple):
    """A normal law of a logarithm: the median of the parameter and the standard deviation of its logarithm."""

    median: float
    spread: float


@dataclass(frozen=True)
class GaussianProcess(Surrogate):
    """ARD Matern-5/2 process with constant mean and inferred noise; MAP hyperparameters (docs/notation.md).

    The median lengthscale grows with sqrt(d), as distances in the cube do (Hvarfner et al., 2024, arXiv 2402.02229).

    Args:
        lengthscale: prior in one dimension.
        variance: prior of the process variance; the values have variance 1.
        noise: prior of the noise variance.
        smallest_noise: lower bound of the noise variance.
    """

    lengthscale: Prior = Prior(0.205, math.sqrt(3.0))
    variance: Prior = Prior(1.0, 1.0)
    noise: Prior = Prior(1e-4, 3.0)
    smallest_noise: float = 1e-8

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> tuple["GaussianPosterior", Diagnostics]:
        """Maximise log p(y | theta) + log p(theta), then condition on the data."""
        table = Table.of(data)
        center, spread = self.prior(len(data.columns))
        known = None if previous is None else previous.get("theta")
        if known is not None and known.shape != (1, len(center)):
            known = None  # the space has changed
        if keep and known is not None:
            return condition(table, known), {"evaluations": 0}
        short = center.copy()
        short[: len(data.columns)] -= 1.5
        starts = np.array([center, short] if known is None else [center, known[0]])
        if len(table.y) > MANY:
            starts = starts[:1] if known is None else starts[1:]
        lower, upper = self.bounds(len(data.columns))
        found = lbfgs.minimize(
            lambda theta: energy(theta, table, center, spread), starts, lower, upper,
            gradient_tol=1e-3, value_tol=1e-5,
        )  # fmt: skip
        best = int(np.argmin(found.value))
        theta = found.x[best] if np.isfinite(found.value[best]) else center
        return condition(table, theta[None]), {"evaluations": found.evaluations, "energy": float(found.value[best])}

    def prior(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of theta: log lengthscales, log variance, log noise, mean; [d + 3] each."""
        laws = [Prior(self.lengthscale.median * math.sqrt(d), self.lengthscale.spread)] * d + [self.variance, self.noise]
        return np.array([math.log(law.median) for law in laws] + [0.0]), np.array([law.spread for law in laws] + [1.0])

    def bounds(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """The box that theta is sought in."""
        lower = [math.log(0.005)] * d + [math.log(0.01), math.log(self.smallest_noise), -5.0]
        upper = [math.log(1e3)] * d + [math.log(1e3), math.log(10.0), 5.0]
        return np.array(lower), np.array(upper)


class Table(NamedTuple):
    """What a Gaussian process conditions on: features [n, D], values [n], known noise variances [n]."""

    features: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    columns: tuple[Column, ...]

    @staticmethod
    def of(data: Observations) -> "Table":
        return Table.at(data.x[data.mask], data.y[data.mask], data.noise[data.mask], data.columns)

    @staticmethod
    def at(x: np.ndarray, y: np.ndarray, noise: np.ndarray, columns: tuple[Column, ...]) -> "Table":
        return Table(features(x, columns), y, noise, columns)


class Theta(NamedTuple):
    """Hyperparameters in their own units: lengthscale per feature [D], variances, mean."""

    lengthscale: np.ndarray
    variance: float
    noise: float
    mean: float

    @staticmethod
    def of(theta: np.ndarray, columns: tuple[Column, ...]) -> "Theta":
        d = len(columns)
        return Theta(np.exp(theta[:d])[feature_owners(columns)], math.exp(theta[d]), math.exp(theta[d + 1]), float(theta[d + 2]))


def energy(theta: np.ndarray, table: Table, center: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-log p(y | theta) - log p(theta) up to a constant, [s], and its derivatives, [s, p].

    The derivative is written out (Rasmussen & Williams, eq. 5.9); LAPACK's potrf and potri are most of its cost.
    """
    z = (theta - center) / spread
    value, gradient = 0.5 * np.einsum("sp,sp->s", z, z), z / spread
    for s, one in enumerate(theta):
        value[s] += _negative_evidence(one, table, gradient[s])
    return value, gradient


def _negative_evidence(theta: np.ndarray, table: Table, gradient: np.ndarray) -> float:
    """-log p(y | theta) up to a constant; its derivative is added to `gradient`."""
    d = len(table.columns)
    scale, variance, noise, mean = Theta.of(theta, table.columns)
    scaled = table.features / scale
    k, slope = matern52(squared_distance(scaled, scaled))
    k *= variance
    K = k.copy()
    diagonal = np.diag_indices(len(K))
    K[diagonal] += noise + table.noise + JITTERS[0] * variance
    factor, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return math.inf
    r = table.y - mean
    alpha = lapack.dpotrs(factor, r, lower=1)[0]
    value = 0.5 * float(r @ alpha) + float(np.log(factor[diagonal]).sum())
    inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]  # its lower triangle
    # dE/dK = (K^-1 - alpha alpha') / 2 is symmetric: the strict lower triangle, doubled, stands for both.
    cotangent = np.tril(inverse - np.outer(alpha, alpha))
    cotangent[diagonal] *= 0.5
    on_diagonal = cotangent[diagonal].sum()
    weight = cotangent * slope
    weight *= variance
    # sum_ij w_ij (a_i - a_j)^2 per feature, by matrix products instead of an [n, n, D] array
    rows = weight.sum(axis=1) + weight.sum(axis=0)
    spread = rows @ scaled**2 - 2.0 * np.einsum("nk,nk->k", scaled, weight @ scaled)
    gradient[:d] += np.bincount(feature_owners(table.columns), weights=-2.0 * spread, minlength=d)
    gradient[d] += float(np.einsum("ij,ij->", cotangent, k)) + on_diagonal * JITTERS[0] * variance
    gradient[d + 1] += on_diagonal * noise
    gradient[d + 2] -= alpha.sum()
    return value


@dataclass(frozen=True)
class GaussianPosterior(Posterior):
    """A mixture of Gaussian-process posteriors, one component per hyperparameter vector.

    Attributes:
        theta: log lengthscales, log variance, log noise, mean, [c, d + 3].
        table: the data.
        inverse: inverse Cholesky factor of the covariance, [c, n, n].
        alpha: covariance^-1 (y - mean), [c, n].
    """

    theta: np.ndarray
    table: Table
    inverse: np.ndarray
    alpha: np.ndarray

    @property
    def differentiable(self) -> bool:
        return True

    def marginal(self, x: np.ndarray) -> Marginal:
        at = features(x, self.table.columns)
        mean, variance = np.empty((2, len(self.theta), len(x)))
        for c, theta in enumerate(self.theta):
            p = Theta.of(theta, self.table.columns)
            k, _ = matern52(squared_distance(at / p.lengthscale, self.table.features / p.lengthscale))
            k *= p.variance
            white = self.inverse[c] @ k.T
            mean[c] = p.mean + k @ self.alpha[c]
            variance[c] = _left(p.variance, np.einsum("nm,nm->m", white, white))
        return Marginal(mean, variance, np.full(len(mean), 1.0 / len(mean)))

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        columns = self.table.columns
        numeric = [j for j, c in enumerate(columns) if c.kind != "categorical"]
        near = len(numeric)  # features of numeric columns come first and move with them at unit speed
        at = features(x, columns)
        mean, variance = np.empty((2, len(self.theta), len(x)))
        mean_slope, variance_slope = np.zeros((2, len(self.theta), *x.shape))
        for c, theta in enumerate(self.theta):
            p = Theta.of(theta, columns)
            here, data = at / p.lengthscale, self.table.features / p.lengthscale
            k, slope = matern52(squared_distance(here, data))
            k *= p.variance
            slope *= 2.0 * p.variance
            white = self.inverse[c] @ k.T
            mean[c] = p.mean + k @ self.alpha[c]
            variance[c] = _left(p.variance, np.einsum("nm,nm->m", white, white))
            scale, here, data = p.lengthscale[:near], here[:, :near], data[:, :near]
            for out, weight in (
                (mean_slope, slope * self.alpha[c]), (variance_slope, slope * (-2.0 * (white.T @ self.inverse[c])))
            ):  # fmt: skip
                out[c][:, numeric] = (here * weight.sum(axis=1)[:, None] - weight @ data) / scale
        return Marginal(mean, variance, np.full(len(mean), 1.0 / len(mean))), mean_slope, variance_slope

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        at = features(x, self.table.columns)
        draws = []
        for c, count in enumerate(np.bincount(np.arange(num) % len(self.theta), minlength=len(self.theta))):
            p = Theta.of(self.theta[c], self.table.columns)
            here = at / p.lengthscale
            k = p.variance * matern52(squared_distance(here, self.table.features / p.lengthscale))[0]
            white = self.inverse[c] @ k.T
            cov = p.variance * matern52(squared_distance(here, here))[0] - white.T @ white
            factor = cholesky(cov, p.variance)
            draws.append(p.mean + k @ self.alpha[c] + rng.standard_normal((count, len(x))) @ factor.T)
        return np.concatenate(draws)

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), np.exp(self.theta[:, -2]).mean())

    def condition(self, x: np.ndarray, y: np.ndarray) -> "GaussianPosterior":
        old = self.table
        at = np.vstack([old.features, features(x, old.columns)])
        more = Table(at, np.append(old.y, y), np.append(old.noise, np.zeros(len(y))), old.columns)
        return condition(more, self.theta)

    def incumbent(self) -> float:
        # At a data point the posterior mean is y - (noise variance) alpha.
        noise = np.exp(self.theta[:, -2, None]) + self.table.noise
        return float(np.mean(self.table.y - noise * self.alpha, axis=0).min())

    def state(self) -> State:
        return {"theta": self.theta}


def _left(variance: float, explained: np.ndarray) -> np.ndarray:
    """What the data leave of the process variance; rounding must not make it negative."""
    return np.maximum(variance - explained, 1e-12 * variance)


def cholesky(K: np.ndarray, variance: float) -> np.ndarray:
    """The lower Cholesky factor, with as little jitter as makes it exist; overwrites K."""
    diagonal, added = np.diag_indices(len(K)), 0.0
    for jitter in JITTERS:
        K[diagonal] += (jitter - added) * variance
        added = jitter
        factor, failed = lapack.dpotrf(K.T, lower=1)
        if not failed:
            return factor
    raise FloatingPointError(f"no Cholesky factor with jitter up to {JITTERS[-1]} of the variance {variance}")


def condition(table: Table, theta: np.ndarray) -> GaussianPosterior:
    """The posterior given hyperparameters, [c, p]."""
    inverse, alpha = [], []
    for one in theta:
        p = Theta.of(one, table.columns)
        scaled = table.features / p.lengthscale
        K = p.variance * matern52(squared_distance(scaled, scaled))[0]
        K[np.diag_indices(len(K))] += p.noise + table.noise
        factor = cholesky(K, p.variance)
        inverse.append(lapack.dtrtri(factor, lower=1)[0])
        alpha.append(lapack.dpotrs(factor, table.y - p.mean, lower=1)[0])
    return GaussianPosterior(theta, table, np.array(inverse), np.array(alpha))
