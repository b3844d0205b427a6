"""Gaussian-process regression with hyperparameters at their posterior mode."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from presage import lbfgs
from presage.kernels import KERNELS, feature_owners, features, squared_distance
from presage.observations import Column, Observations
from presage.sobol import sobol
from presage.surrogates.base import Draws, Fit, Marginal, Posterior, State, Surrogate
from presage.warping import Warp

JITTERS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)  # of the process variance; tried until the Cholesky factor exists
MANY = 200  # beyond so many rows a fit runs from one start only


class Prior(NamedTuple):
    """A normal law of a logarithm: the median of the parameter and the standard deviation of its logarithm."""

    median: float
    spread: float


LENGTHSCALE, VARIANCE, NOISE = Prior(0.205, math.sqrt(3.0)), Prior(1.0, 1.0), Prior(1e-4, 3.0)


@dataclass(frozen=True)
class GaussianProcess(Surrogate):
    """A process with an ARD kernel, constant mean and inferred noise; MAP hyperparameters (docs/notation.md).

    The median lengthscale grows with sqrt(d), as distances in the cube do (Hvarfner et al., 2024, arXiv 2402.02229).

    Args:
        kernel: matern52 or squared_exponential.
        lengthscale: prior in one dimension.
        variance: prior of the process variance; the values have variance 1.
        noise: prior of the noise variance.
        smallest_noise: lower bound of the noise variance.
        warp: mean and standard deviation of the exponent of the values' warp, or None to leave the values alone.
    """

    kernel: str = "matern52"
    lengthscale: Prior = LENGTHSCALE
    variance: Prior = VARIANCE
    noise: Prior = NOISE
    smallest_noise: float = 1e-8
    warp: tuple[float, float] | None = (1.0, 1.0)

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Maximise log p(y | theta) + log p(theta), then condition on the data."""
        table = Table.of(data, self.kernel)
        warped = self.warp is not None
        center, spread = self.prior(len(data.columns))
        known = None if previous is None else previous.get("theta")
        if known is not None and known.shape != (1, len(center)):
            known = None  # the space has changed
        if keep and known is not None:
            return Fit(condition(table, known, warped), {"theta": known}, {"evaluations": 0})
        short = center.copy()
        short[: len(data.columns)] -= 1.5
        count = len(table.y)
        if known is None:
            starts = np.array([center, short] if count <= MANY else [center])
        else:  # a look at the usual start now and then, lest a poor local optimum be handed on for ever
            starts = np.array([known[0], center] if count < 20 or (count <= MANY and count % 7 == 0) else known)
        lower, upper = self.bounds(len(data.columns))
        found = lbfgs.minimize(
            lambda theta: energy(theta, table, center, spread, warped), starts, lower, upper,
            gradient_tol=1e-3, value_tol=1e-5,
        )  # fmt: skip
        best = int(np.argmin(found.value))
        theta = found.x[best] if np.isfinite(found.value[best]) else center
        report = {"evaluations": found.evaluations, "energy": float(found.value[best])}
        return Fit(condition(table, theta[None], warped), {"theta": theta[None]}, report)

    def prior(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of theta, [d + 4] each."""
        laws = [Prior(self.lengthscale.median * math.sqrt(d), self.lengthscale.spread)] * d + [
            self.variance,
            self.noise,
        ]
        exponent, width = self.warp or (1.0, 1.0)
        return (
            np.array([math.log(law.median) for law in laws] + [0.0, exponent]),
            np.array([law.spread for law in laws] + [1.0, width]),
        )

    def bounds(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """The box that theta is sought in."""
        lower = [math.log(0.005)] * d + [
            math.log(0.01),
            math.log(self.smallest_noise),
            -5.0,
            -1.0 if self.warp else 1.0,
        ]
        upper = [math.log(1e3)] * d + [math.log(1e3), math.log(10.0), 5.0, 1.0]
        return np.array(lower), np.array(upper)


class Table(NamedTuple):
    """What a Gaussian process conditions on: features [n, D], values [n], known noise variances [n]."""

    features: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    columns: tuple[Column, ...]
    kernel: str = "matern52"

    @staticmethod
    def of(data: Observations, kernel: str = "matern52") -> "Table":
        return Table.at(data.x[data.mask], data.y[data.mask], data.noise[data.mask], data.columns, kernel)

    @staticmethod
    def at(
        x: np.ndarray, y: np.ndarray, noise: np.ndarray, columns: tuple[Column, ...], kernel: str = "matern52"
    ) -> "Table":
        return Table(features(x, columns), y, noise, columns, kernel)

    def correlation(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The kernel between scaled features [n, D] and [m, D], and its derivative in their squared distance."""
        return KERNELS[self.kernel](squared_distance(a, b))


class Theta(NamedTuple):
    """Hyperparameters in their own units: lengthscale per feature [D], variances, mean, exponent of the warp.

    As a vector theta [d + 4]: log lengthscales of the columns, log variance, log noise variance, mean, exponent.
    """

    lengthscale: np.ndarray
    variance: float
    noise: float
    mean: float
    exponent: float

    @staticmethod
    def of(theta: np.ndarray, columns: tuple[Column, ...]) -> "Theta":
        d = len(columns)
        variance, noise = np.exp(theta[d : d + 2]).tolist()
        return Theta(
            np.exp(theta[:d])[feature_owners(columns)], variance, noise, float(theta[d + 2]), float(theta[d + 3])
        )


def energy(
    theta: np.ndarray, table: Table, center: np.ndarray, spread: np.ndarray, warped: bool
) -> tuple[np.ndarray, np.ndarray]:
    """-log p(y | theta) - log p(theta) up to a constant, [s], and its derivatives, [s, p].

    The derivative is written out (Rasmussen & Williams, eq. 5.9); LAPACK's potrf and potri are most of its cost.
    """
    z = (theta - center) / spread
    value, gradient = 0.5 * np.einsum("sp,sp->s", z, z), z / spread
    for s, one in enumerate(theta):
        value[s] += _negative_evidence(one, table, warped, gradient[s])
    return value, gradient


def _negative_evidence(theta: np.ndarray, table: Table, warped: bool, gradient: np.ndarray) -> float:
    """-log p(y | theta) up to a constant; its derivative is added to `gradient`."""
    d = len(table.columns)
    scale, variance, noise, mean, exponent = Theta.of(theta, table.columns)
    latent, known, log_slope = table.y, table.noise, np.zeros(1)
    if warped:
        warp, latent, latent_slope, log_scale_slope = Warp.of(table.y, exponent)
        log_slope = warp.log_slope(table.y)
        known = known * np.exp(2.0 * log_slope)
    scaled = table.features / scale
    k, slope = table.correlation(scaled, scaled)
    k *= variance
    K = k.copy()
    diagonal = np.diag_indices(len(K))
    K[diagonal] += noise + known + JITTERS[0] * variance
    factor, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return math.inf
    r = latent - mean
    alpha = lapack.dpotrs(factor, r, lower=1)[0]
    value = 0.5 * float(r @ alpha) + float(np.log(factor[diagonal]).sum()) - float(np.sum(log_slope))
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
    if warped:
        stretch = np.log1p((table.y - warp.low) / warp.unit)
        gradient[d + 3] += alpha @ latent_slope - (stretch - log_scale_slope).sum()
        gradient[d + 3] += 2.0 * (cotangent[diagonal] * known) @ (stretch - log_scale_slope)
    return value


@dataclass(frozen=True)
class GaussianPosterior(Posterior):
    """A mixture of Gaussian-process posteriors, one component per hyperparameter vector.

    Attributes:
        theta: hyperparameters, [c, d + 4]; see Theta.
        table: the data.
        warps: from standardised values to latent ones, one per component.
        latent: the values that each component sees, [c, n].
        known: their known noise variances, [c, n].
        inverse: inverse Cholesky factor of the covariance, [c, n, n].
        alpha: covariance^-1 (y - mean), [c, n].
    """

    theta: np.ndarray
    table: Table
    warps: tuple[Warp, ...]
    latent: np.ndarray
    known: np.ndarray
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
            k, _ = self.table.correlation(at / p.lengthscale, self.table.features / p.lengthscale)
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
            k, slope = self.table.correlation(here, data)
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
        for out in (mean_slope, variance_slope):  # the cell of an absent dimension cannot move
            out[:, np.isnan(x)] = 0.0
        return Marginal(mean, variance, np.full(len(mean), 1.0 / len(mean))), mean_slope, variance_slope

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        at = features(x, self.table.columns)
        draws = []
        for c, count in enumerate(np.bincount(np.arange(num) % len(self.theta), minlength=len(self.theta))):
            p = Theta.of(self.theta[c], self.table.columns)
            here = at / p.lengthscale
            k = p.variance * self.table.correlation(here, self.table.features / p.lengthscale)[0]
            white = self.inverse[c] @ k.T
            cov = p.variance * self.table.correlation(here, here)[0] - white.T @ white
            factor = cholesky(cov, p.variance)
            draws.append(p.mean + k @ self.alpha[c] + rng.standard_normal((count, len(x))) @ factor.T)
        return np.concatenate(draws)

    def draw(self, num: int, *, rng: np.random.Generator) -> "GaussianDraws":
        columns = self.table.columns
        some = sobol(min(1024, 256 * len(columns)), len(columns), rng)
        absent = np.array([column.conditional for column in columns])
        some = np.where(absent & (rng.random(some.shape) < 0.5), np.nan, some)
        at = np.vstack([self.table.features, features(some, columns)])
        weights = np.empty((num, len(at)))
        for i in range(num):
            c = i % len(self.theta)
            p = Theta.of(self.theta[c], columns)
            # Matheron's rule: a draw from the prior, made of kernels at `at`, and what the data say of its errors.
            K = covariance(self.table._replace(features=at), p)
            factor = cholesky(K.copy(), p.variance)
            weights[i] = lapack.dtrtrs(factor, rng.standard_normal(len(at)), lower=1, trans=1)[0]
            n = len(self.table.y)
            noise = np.sqrt(p.noise + self.known[c]) * rng.standard_normal(n)
            error = K[:n] @ weights[i] + noise
            weights[i, :n] += self.alpha[c] - self.inverse[c].T @ (self.inverse[c] @ error)
        return GaussianDraws(self.table._replace(features=at), self.theta, weights)

    def transformed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.array([warp.forward(y) for warp in self.warps]), np.array([warp.log_slope(y) for warp in self.warps])
        )  # fmt: skip

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law = self.marginal(x)
        parts = [warp.moments(m, v) for warp, m, v in zip(self.warps, law.mean, law.variance, strict=True)]
        mean, variance = (np.array(part) for part in zip(*parts, strict=True))
        return Marginal(mean, variance, law.weight).moments()

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), np.exp(self.theta[:, -3]).mean())

    def condition(self, x: np.ndarray, y: np.ndarray) -> "GaussianPosterior":
        old = self.table
        at = np.vstack([old.features, features(x, old.columns)])
        more = Table(at, np.append(old.y, y), np.append(old.noise, np.zeros(len(y))), old.columns, old.kernel)
        new = np.array([warp.forward(y) for warp in self.warps])
        latent = np.concatenate([self.latent, new], axis=1)
        known = np.concatenate([self.known, np.zeros_like(new)], axis=1)
        return condition_latent(more, self.theta, latent, known, self.warps)

    def leave_one_out(self) -> np.ndarray:
        # Rasmussen & Williams, eq. 5.10 to 5.12: the diagonal of K^-1 is all that is needed.
        densities = []
        for inverse, alpha, warp in zip(self.inverse, self.alpha, self.warps, strict=True):
            precision = np.einsum("ij,ij->j", inverse, inverse)
            log_density = 0.5 * (np.log(precision / (2.0 * math.pi)) - alpha**2 / precision)
            densities.append(log_density + warp.log_slope(self.table.y))
        return np.logaddexp.reduce(densities, axis=0) - math.log(len(densities))

    def incumbent(self) -> float:
        # At a data point the posterior mean is y - (noise variance) alpha.
        noise = np.exp(self.theta[:, -3, None]) + self.known
        return float(np.mean(self.latent - noise * self.alpha, axis=0).min())


@dataclass(frozen=True)
class GaussianDraws(Draws):
    """Functions mean + k(x, z) w, one per row of w; draw i has the hyperparameters of row i (mod c) of theta.

    Attributes:
        table: whose features are z, [m, D].
        theta: [c, d + 4].
        weights: w, [num, m].
    """

    table: Table
    theta: np.ndarray
    weights: np.ndarray

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.values_and_gradients(x)[0]

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        columns = self.table.columns
        numeric = [j for j, c in enumerate(columns) if c.kind != "categorical"]
        near, at = len(numeric), features(x, columns)
        value, gradient = np.empty((len(self.weights), len(x))), np.zeros((len(self.weights), *x.shape))
        for c, theta in enumerate(self.theta[: len(self.weights)]):
            p = Theta.of(theta, columns)
            here, data = at / p.lengthscale, self.table.features / p.lengthscale
            k, slope = self.table.correlation(here, data)
            mine = self.weights[c :: len(self.theta)]
            value[c :: len(self.theta)] = p.mean + p.variance * (mine @ k.T)
            scale, here, data = p.lengthscale[:near], here[:, :near], data[:, :near]
            for i, w in enumerate(mine):
                weight = 2.0 * p.variance * slope * w
                pull = (here * weight.sum(axis=1)[:, None] - weight @ data) / scale
                gradient[c + i * len(self.theta)][:, numeric] = pull
        gradient[:, np.isnan(x)] = 0.0
        return value, gradient


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
        if not failed and np.isfinite(factor[-1, -1]):  # some LAPACKs report success on NaN
            return factor
    raise FloatingPointError(f"no Cholesky factor with jitter up to {JITTERS[-1]} of the variance {variance}")


def condition(table: Table, theta: np.ndarray, warped: bool) -> GaussianPosterior:
    """The posterior given hyperparameters, [c, d + 4]."""
    warps = tuple(Warp.of(table.y, float(one[-1]))[0] if warped else Warp() for one in theta)
    latent = np.array([warp.forward(table.y) for warp in warps])
    known = np.array([table.noise * np.exp(2.0 * warp.log_slope(table.y)) for warp in warps])
    return condition_latent(table, theta, latent, known, warps)


def covariance(table: Table, theta: Theta) -> np.ndarray:
    """k(x, x) of the observations, noise apart, [n, n]."""
    scaled = table.features / theta.lengthscale
    return theta.variance * table.correlation(scaled, scaled)[0]


def condition_latent(
    table: Table, theta: np.ndarray, latent: np.ndarray, known: np.ndarray, warps: tuple[Warp, ...] = (Warp(),)
) -> GaussianPosterior:
    """The posterior given what each component sees: latent values [c, n] and their known noise variances [c, n]."""
    inverse, alpha = [], []
    for c, one in enumerate(theta):
        p = Theta.of(one, table.columns)
        K = covariance(table, p)
        K[np.diag_indices(len(K))] += p.noise + known[c]
        factor = cholesky(K, p.variance)
        inverse.append(lapack.dtrtri(factor, lower=1)[0])
        alpha.append(lapack.dpotrs(factor, latent[c] - p.mean, lower=1)[0])
    return GaussianPosterior(theta, table, warps, latent, known, np.array(inverse), np.array(alpha))
