"""A Gaussian process for many observations, seen through inducing points."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from presage import lbfgs
from presage.kernels import Kernel, Matern
from presage.means import ConstantMean, Mean
from presage.observations import Observations
from presage.priors import LogNormal, Prior
from presage.surrogates.base import Draws, Fit, Marginal, Posterior, State, Surrogate
from presage.surrogates.factor import cholesky
from presage.surrogates.gaussian import Component, GaussianPosterior, Model, Table
from presage.surrogates.gaussian_draws import GaussianDraws
from presage.surrogates.joint import Joint
from presage.surrogates.prior_draws import spread, through, waves
from presage.warping import Warp

CHUNK = 4096  # rows that are held at once


@dataclass(frozen=True)
class SparseGaussianProcess(Surrogate):
    """Titsias' variational approximation: what M inducing values can tell of n observations, in O(n M^2).

    Titsias, 2009. With as many inducing points as observations it is the exact process. Inducing points are chosen
    among the observations, each the one that the others explain least (Burt et al., 2020, arXiv 2008.00323).

    Args:
        kernel: see presage.kernels.
        mean: see presage.means.
        noise: prior of the noise variance; the values have variance 1.
        smallest_noise: lower bound of the noise variance.
        inducing: number of inducing points, at most.
        rows: hyperparameters and inducing points are found from so many rows, at most, drawn at random.
    """

    kernel: Kernel = Matern()
    mean: Mean = ConstantMean()
    noise: Prior = LogNormal(1e-2, 3.0)
    smallest_noise: float = 1e-6
    inducing: int = 256
    rows: int = 4096

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        model = Model(self.kernel, self.mean, data.columns, self.noise, self.smallest_noise, None)
        table = Table.of(data, model.axes)
        known = None if previous is None else previous.get("theta")
        if known is not None and known.shape != (1, model.priors.size):
            known = None  # the space has changed
        count = len(table.y)
        some = np.sort(rng.choice(count, self.rows, replace=False)) if count > self.rows else np.arange(count)
        part = Table(table.x[some], table.features[some], table.y[some], table.noise[some], table.center, table.scale)
        theta, report = (model.priors.center if known is None else known[0]), {"evaluations": 0.0}
        chosen = some[_pivots(model, part, theta, self.inducing)]
        if not (keep and known is not None):
            found = lbfgs.minimize(
                lambda several: _energies(model, part, table.features[chosen], several), theta[None],
                model.priors.lower, model.priors.upper, gradient_tol=1e-3, value_tol=1e-5, evaluations=40,
            )  # fmt: skip
            if np.isfinite(found.value[0]):
                theta = found.x[0]
            report = {"evaluations": found.evaluations, "energy": float(found.value[0])}
            chosen = some[_pivots(model, part, theta, self.inducing)]
        return Fit(_posterior(model, table, chosen, theta), {"theta": theta[None]}, {**report, "inducing": len(chosen)})


def _pivots(model: Model, table: Table, theta: np.ndarray, count: int) -> np.ndarray:
    """Rows, each the one with most variance left given those before it (a pivoted Cholesky factorisation)."""
    kernel, at, axes = theta[: model.noise_at], table.features, model.axes
    left = model.kernel.diagonal(kernel, at, axes).value.copy()
    smallest = 1e-8 * left.mean()
    factor, chosen = np.empty((min(count, len(at)), len(at))), []
    for m in range(len(factor)):
        best = int(np.argmax(left))
        if left[best] <= smallest:
            break
        row = model.kernel.evaluate(kernel, at[[best]], at, axes).value[0]
        factor[m] = (row - factor[:m, best] @ factor[:m]) / math.sqrt(left[best])
        left = np.maximum(left - factor[m] ** 2, 0.0)
        left[best] = 0.0
        chosen.append(best)
    return np.array(chosen or [0])


class Sums(NamedTuple):
    """What a pass over the rows gives.

    Attributes:
        factor: L, the Cholesky factor of k(z, z), [m, m].
        square: L^-1 k(z, x) W k(x, z) L^-T with W = 1 / noise variance on the diagonal, [m, m].
        target: L^-1 k(z, x) W r, [m].
        fit: r' W r.
        missing: sum of W times the variance of each row that z leaves unexplained.
        log_noise: sum of log noise variances.
    """

    factor: np.ndarray
    square: np.ndarray
    target: np.ndarray
    fit: float
    missing: float
    log_noise: float


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def _sums(model: Model, table: Table, at: np.ndarray, theta: np.ndarray) -> Sums:
    kernel, axes = theta[: model.noise_at], model.axes
    K = model.kernel.evaluate(kernel, at, at, axes).value.copy()
    factor = np.tril(cholesky(K, K.diagonal().mean()))
    noise = math.exp(theta[model.noise_at]) + table.noise
    r = table.y - model.mean.evaluate(theta[model.mean_at], table.x, table.units(table.y, Warp())).value
    square, target, missing = np.zeros_like(factor), np.zeros(len(at)), 0.0
    for rows in _chunks(len(r)):
        across = model.kernel.evaluate(kernel, at, table.features[rows], axes).value
        white = solve_triangular(factor, across, lower=True, check_finite=False) / np.sqrt(noise[rows])
        square += white @ white.T
        target += white @ (r[rows] / np.sqrt(noise[rows]))
        own = model.kernel.diagonal(kernel, table.features[rows], axes).value
        missing += float((own / noise[rows]).sum() - np.einsum("mn,mn->", white, white))
    return Sums(factor, square, target, float((r**2 / noise).sum()), max(missing, 0.0), float(np.log(noise).sum()))


def _energies(model: Model, table: Table, at: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The negative of Titsias' bound less the log prior, [s], and its derivatives, [s, p]."""
    value, gradient = model.priors.energy(theta)
    for s, one in enumerate(theta):
        more, slope = negative_bound(model, table, at, one)
        value[s] += more
        gradient[s] += slope
    return value, gradient


def negative_bound(model: Model, table: Table, at: np.ndarray, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """-(log N(y | mean, Q + noise) - missing / 2) up to a constant, Q = k(x, z) k(z, z)^-1 k(z, x); and its slope.

    With B = I + square, P = L^-T B^-1 L^-1 and w = P k(z, x) W r the derivatives are, in k(z, z):
    (P + w w' - k^-1 + L^-T square L^-1) / 2, and in column i of k(z, x): ((P + w w' - k^-1) k_i - w r_i) / noise_i.
    """
    kernel, axes, gradient = theta[: model.noise_at], model.axes, np.zeros_like(theta)
    sums = _sums(model, table, at, theta)
    B = np.eye(len(at)) + sums.square
    root = np.tril(lapack.dpotrf(B.T, lower=1)[0])
    white = solve_triangular(root, sums.target, lower=True)
    value = float(np.log(root.diagonal()).sum()) + 0.5 * (sums.log_noise + sums.fit - white @ white + sums.missing)

    back = solve_triangular(sums.factor, np.eye(len(at)), lower=True)  # L^-1
    half = solve_triangular(root, back, lower=True)
    P, inverse = half.T @ half, back.T @ back
    w = half.T @ white
    shared = P + np.outer(w, w) - inverse
    own = model.kernel.evaluate(kernel, at, at, axes)
    gradient[: model.noise_at] += own.by_theta(0.5 * (shared + back.T @ sums.square @ back))
    level = model.mean.evaluate(theta[model.mean_at], table.x, table.units(table.y, Warp()))
    noise, r = math.exp(theta[model.noise_at]) + table.noise, table.y - level.value
    by_noise = 0.0
    for rows in _chunks(len(r)):
        found = model.kernel.evaluate(kernel, at, table.features[rows], axes)
        weight = 1.0 / noise[rows]
        pull = shared @ found.value - np.outer(w, r[rows])
        gradient[: model.noise_at] += found.by_theta(pull * weight)
        gradient[: model.noise_at] += _by_diagonal(model, kernel, table.features[rows], 0.5 * weight)
        left = r[rows] - w @ found.value
        gradient[model.mean_at] -= (left * weight) @ level.by_theta[rows]
        # d value / d noise_i: every term of row i is 1 / noise_i times something, and log noise_i.
        inner = np.einsum("mn,mn->n", found.value, shared @ found.value) - 2.0 * r[rows] * (w @ found.value)
        here = model.kernel.diagonal(kernel, table.features[rows], axes).value
        by_noise += float((0.5 * weight - 0.5 * weight**2 * (r[rows] ** 2 + here + inner)).sum())
    gradient[model.noise_at] += math.exp(theta[model.noise_at]) * by_noise
    return value, gradient


def _by_diagonal(model: Model, kernel: np.ndarray, at: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The derivative of sum_i weight_i k(x_i, x_i) in the kernel's parameters."""
    slope = np.zeros(len(kernel))
    for start in range(0, len(at), 64):  # a small block's diagonal costs as much as 64 inducing points do
        block = at[start : start + 64]
        slope += model.kernel.evaluate(kernel, block, block, model.axes).by_theta(np.diag(weight[start : start + 64]))
    return slope


def _posterior(model: Model, table: Table, chosen: np.ndarray, theta: np.ndarray) -> "SparsePosterior":
    at = table.features[chosen]
    sums = _sums(model, table, at, theta)
    values, vectors = np.linalg.eigh(sums.square)
    values = np.maximum(values, 0.0)
    back = solve_triangular(sums.factor, np.eye(len(at)), lower=True)
    # Of k(x, z) the data explain k^-1 - P = L^-T (I - B^-1) L^-1 = R'R.
    root = np.sqrt(values / (1.0 + values))[:, None] * (vectors.T @ back)
    half = np.sqrt(1.0 / (1.0 + values))[:, None] * (vectors.T @ back)  # half' half = P
    alpha = half.T @ (half @ (sums.factor @ sums.target))
    seen = table.y[chosen]
    one = Component(theta, Warp(), seen, table.noise[chosen], root, alpha, None, 1.0)
    part = Table(table.x[chosen], at, seen, table.noise[chosen], table.center, table.scale)
    inner = GaussianPosterior(model, part, (one,))
    noise = math.exp(theta[model.noise_at]) + table.noise
    best, left_out = math.inf, np.empty(len(table.y))
    for rows in _chunks(len(table.y)):
        law = inner.marginal(table.x[rows])
        best = min(best, float(law.mean.min()))
        across = model.kernel.evaluate(theta[: model.noise_at], at, table.features[rows], model.axes).value
        # Leaving a row out of a linear regression: its leverage is all that is needed.
        kept = np.einsum("mn,mn->n", half @ across, half @ across)
        share = np.maximum(1.0 - kept / noise[rows], 1e-6)
        miss = (table.y[rows] - law.mean[0]) / share
        spread = law.variance[0] - kept + kept / share + noise[rows]
        left_out[rows] = -0.5 * (np.log(2.0 * math.pi * spread) + miss**2 / spread)
    return SparsePosterior(inner, best, left_out)


@dataclass(frozen=True, repr=False)
class SparsePosterior(Posterior):
    """A process that knows its inducing values as well as the data tell them.

    Attributes:
        inner: the process, as if conditioned at the inducing points; R'R there is what the data explain.
        best: the least posterior mean among the observed points.
        left_out: log density of each observation given the others, [n].
    """

    inner: GaussianPosterior
    best: float
    left_out: np.ndarray

    def facts(self) -> dict[str, Any]:
        return {**self.inner.facts(), "values": len(self.left_out), "inducing points": len(self.inner.table.y)}

    @property
    def differentiable(self) -> bool:
        return True

    def marginal(self, x: np.ndarray) -> Marginal:
        return self.inner.marginal(x)

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        return self.inner.marginal_gradient(x)

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.inner.sample(x, num, rng=rng)

    def draw(self, num: int, *, rng: np.random.Generator) -> Draws:
        """Joint values at the inducing points and others, and between them what the prior knows."""
        model, table, one = self.inner.model, self.inner.table, self.inner.components[0]
        theta, axes = one.theta[: model.noise_at], model.axes
        x = np.vstack([table.x, spread(table.x, axes, rng)])
        at = axes.features(x)
        K = model.kernel.evaluate(theta, at, at, axes).value
        factor = cholesky(K.copy(), 1e3 * K.diagonal().mean())  # jitter 1e-7: the weights stay small
        level = model.mean.evaluate(one.theta[model.mean_at], x, table.units(one.latent, one.warp)).value
        values = self.inner.sample(x, num, rng=rng) - level
        wave = waves(model.kernel, theta, at, len(table.x), factor, num, axes, rng)
        weights = through(factor, values if wave is None else values - wave.values(at))
        return GaussianDraws(self.inner, at, weights, (wave,), np.zeros(num, dtype=int))

    def noise(self, x: np.ndarray) -> np.ndarray:
        return self.inner.noise(x)

    def condition(self, x: np.ndarray, y: np.ndarray) -> "SparsePosterior":
        return replace(self, inner=self.inner.condition(x, y))

    def imagine(self, x: np.ndarray, f: np.ndarray) -> "SparsePosterior":
        return replace(self, inner=self.inner.imagine(x, f))

    def believe(self, x: np.ndarray) -> "SparsePosterior":
        return replace(self, inner=self.inner.believe(x))

    def joint(self, z: np.ndarray) -> Joint:
        return self.inner.joint(z)

    def leave_one_out(self) -> np.ndarray:
        return self.left_out

    def incumbent(self) -> float:
        return self.best
