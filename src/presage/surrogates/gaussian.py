"""Gaussian and Student-t processes given their hyperparameters: evidence, posterior, draws."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import gammaln, psi

from presage.kernels import Axes, Kernel
from presage.means import Level, Mean, Units
from presage.observations import Column, Observations
from presage.priors import Block, Prior, Priors
from presage.surrogates.base import Draws, Marginal, Posterior
from presage.surrogates.factor import JITTERS, append, cholesky, inverse_factor
from presage.surrogates.joint import Joint
from presage.warping import Warp


@dataclass(frozen=True)
class Model:
    """What is known of a process before its hyperparameters.

    As a vector theta [p]: the kernel's parameters; log noise variance; the mean's; the exponent of the warp, where
    values are warped; log(df - 2), where the process is a Student-t.

    Attributes:
        kernel: of the process.
        mean: of the process.
        columns: of the points.
        noise: prior of the noise variance.
        smallest_noise: its lower bound.
        warp: mean and standard deviation of the exponent of the values' warp; None leaves the values alone.
        tail: prior of df - 2; None for a Gaussian process.
    """

    kernel: Kernel
    mean: Mean
    columns: tuple[Column, ...]
    noise: Prior
    smallest_noise: float
    warp: tuple[float, float] | None
    tail: Prior | None = None

    @cached_property
    def axes(self) -> Axes:
        return Axes(self.columns)

    @cached_property
    def priors(self) -> Priors:
        blocks = [*self.kernel.blocks(self.axes)]
        blocks.append(Block("noise", self.noise, 1, math.log(self.smallest_noise), math.log(10.0)))
        blocks += self.mean.blocks(self.columns)
        if self.warp is not None:
            blocks.append(Block.real("exponent", *self.warp, lower=-1.0, upper=1.0))
        if self.tail is not None:
            blocks.append(Block("df - 2", self.tail, 1, math.log(0.1), math.log(1e4)))
        return Priors(tuple(blocks))

    @cached_property
    def noise_at(self) -> int:
        """Where theta holds log noise variance."""
        return self.kernel.size(self.axes)

    @cached_property
    def mean_at(self) -> slice:
        """Where theta holds the mean's parameters."""
        count = sum(block.size for block in self.mean.blocks(self.columns))
        return slice(self.noise_at + 1, self.noise_at + 1 + count)

    def exponent(self, theta: np.ndarray) -> float:
        """The exponent of the warp."""
        return 1.0 if self.warp is None else float(theta[self.mean_at.stop])

    def tail_of(self, theta: np.ndarray) -> float | None:
        """Degrees of freedom less two."""
        return None if self.tail is None else math.exp(theta[-1])


@dataclass(frozen=True)
class Table:
    """What a process conditions on.

    Attributes:
        x: points, [n, d].
        features: of the points, [n, D].
        y: standardised values, [n].
        noise: their known noise variances, [n].
        center, scale: from user's units to standardised ones.
    """

    x: np.ndarray
    features: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    center: float
    scale: float

    @staticmethod
    def of(data: Observations, axes: Axes) -> "Table":
        x = data.x[data.mask]
        return Table(x, axes.features(x), data.y[data.mask], data.noise[data.mask], data.center, data.scale)

    @cached_property
    def stretch(self) -> tuple[float, float, np.ndarray]:
        """What all warps of the values share."""
        return Warp.units(self.y)

    def units(self, latent: np.ndarray, warp: Warp) -> Units:
        """What the mean may know."""
        return Units(latent, lambda values: warp.forward((values - self.center) / self.scale))


def energy(model: Model, table: Table, theta: np.ndarray, prior: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """-log p(y | theta) - log p(theta) up to a constant, [s], and its derivatives, [s, p]."""
    value, gradient = model.priors.energy(theta) if prior else (np.zeros(len(theta)), np.zeros_like(theta))
    for s, one in enumerate(theta):
        value[s] += negative_evidence(model, table, one, gradient[s])
    return value, gradient


def negative_evidence(model: Model, table: Table, theta: np.ndarray, gradient: np.ndarray | None) -> float:
    """-log p(y | theta) up to a constant; its derivative is added to `gradient` where there is one.

    The derivative is written out (Rasmussen & Williams, eq. 5.9); LAPACK's potrf and potri are most of its cost.
    Of a Student-t process: Shah et al., 2014, arXiv 1402.4306, eq. 5.
    """
    n, k = len(table.y), model.noise_at
    latent, known, log_slope, warp = table.y, table.noise, np.zeros(1), Warp()
    if model.warp is not None:
        warp, latent, latent_slope, log_scale_slope = Warp.at(*table.stretch, model.exponent(theta))
        stretch = table.stretch[2]
        log_slope = (warp.exponent - 1.0) * stretch - math.log(warp.unit * warp.scale)
        known = known * np.exp(2.0 * log_slope)
    found = model.kernel.evaluate(theta[:k], table.features, table.features, model.axes)
    noise = math.exp(theta[k])
    K = found.value.copy()
    diagonal = np.diag_indices(n)
    level = K[diagonal].mean()
    K[diagonal] += noise + known + JITTERS[0] * level
    factor, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return math.inf
    mean = model.mean.evaluate(theta[model.mean_at], table.x, table.units(latent, warp))
    r = latent - mean.value
    alpha = lapack.dpotrs(factor, r, lower=1)[0]
    fit = float(r @ alpha)
    value = float(np.log(factor[diagonal]).sum()) - float(np.sum(log_slope))
    tail = model.tail_of(theta)
    pull = 1.0  # of the values on K, which a Student-t weakens where they are larger than expected
    if tail is None:
        value += 0.5 * fit
    else:
        half = 0.5 * (tail + 2.0 + n)
        pull = 2.0 * half / (tail + fit)
        value += half * math.log1p(fit / tail) + 0.5 * n * math.log(tail)
        value += float(gammaln(half - 0.5 * n) - gammaln(half))
    if gradient is None:
        return value
    # dE/dK = (K^-1 - pull alpha alpha') / 2 is symmetric: one strict triangle, doubled, stands for both.
    inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    cotangent = np.triu(blas.dsyr(-pull, alpha, lower=1, a=inverse, overwrite_a=1).T)
    cotangent[diagonal] *= 0.5
    own = cotangent[diagonal]
    cotangent[diagonal] += JITTERS[0] * own.sum() / n
    gradient[:k] += found.by_theta(cotangent)
    gradient[k] += own.sum() * noise
    gradient[model.mean_at] -= (pull * alpha) @ mean.by_theta
    if model.warp is not None:
        at = model.mean_at.stop
        gradient[at] += pull * (alpha @ latent_slope) - (stretch - log_scale_slope).sum()
        gradient[at] += 2.0 * (own * known) @ (stretch - log_scale_slope)
        if model.mean.follows_units:
            gradient[at] -= (pull * alpha) @ _mean_slope(model, table, theta)
    if tail is not None:
        by_tail = 0.5 * math.log1p(fit / tail) - half * fit / (tail * (tail + fit)) + 0.5 * n / tail
        by_tail += 0.5 * float(psi(half - 0.5 * n) - psi(half))
        gradient[-1] += tail * by_tail
    return value


def _mean_slope(model: Model, table: Table, theta: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The derivative of a mean that follows the units of the values in the exponent of their warp, [n]."""
    levels = []
    for exponent in (model.exponent(theta) - h, model.exponent(theta) + h):
        warp, latent, _, _ = Warp.at(*table.stretch, exponent)
        levels.append(model.mean.evaluate(theta[model.mean_at], table.x, table.units(latent, warp)).value)
    return (levels[1] - levels[0]) / (2.0 * h)


@dataclass(frozen=True)
class Component:
    """A posterior process for one vector of hyperparameters.

    Attributes:
        theta: [p].
        warp: from standardised values to latent ones.
        latent: the values it sees, [n].
        known: their known noise variances, [n].
        inverse: R with R'R = covariance^-1, the inverse Cholesky factor, [n, n].
        alpha: covariance^-1 (latent - mean), [n].
        df: degrees of freedom, None where it is Gaussian.
        stretch: what variances are multiplied by; 1 where it is Gaussian.
    """

    theta: np.ndarray
    warp: Warp
    latent: np.ndarray
    known: np.ndarray
    inverse: np.ndarray
    alpha: np.ndarray
    df: float | None
    stretch: float


@dataclass(frozen=True, repr=False)
class GaussianPosterior(Posterior):
    """A mixture of posterior processes, one component per vector of hyperparameters, equally weighted."""

    model: Model
    table: Table
    components: tuple[Component, ...]

    def facts(self) -> dict[str, Any]:
        kernel = self.model.kernel
        names = Counter(type(part).__name__ for part in getattr(kernel, "parts", (kernel,)))
        parts = " + ".join(name if times == 1 else f"{times} {name}" for name, times in names.items())
        return {
            "values": len(self.table.y), "dimensions": self.table.x.shape[1], "kernel": parts,
            "components": len(self.components),
        }  # fmt: skip

    @property
    def differentiable(self) -> bool:
        return True

    def marginal(self, x: np.ndarray) -> Marginal:
        at = self.model.axes.features(x)
        mean, variance = np.empty((2, len(self.components), len(x)))
        for c, one in enumerate(self.components):
            theta = one.theta[: self.model.noise_at]
            k = self.model.kernel.evaluate(theta, at, self.table.features, self.model.axes).value
            white = one.inverse @ k.T
            mean[c] = self._level(one, x).value + k @ one.alpha
            here = self.model.kernel.diagonal(theta, at, self.model.axes).value
            variance[c] = one.stretch * _left(here, np.einsum("nm,nm->m", white, white))
        return Marginal(mean, variance, self._weight(), self._df())

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        axes = self.model.axes
        at = axes.features(x)
        mean, variance = np.empty((2, len(self.components), len(x)))
        mean_slope, variance_slope = np.empty((2, len(self.components), *x.shape))
        for c, one in enumerate(self.components):
            theta = one.theta[: self.model.noise_at]
            k, _, by_at, _ = self.model.kernel.evaluate(theta, at, self.table.features, axes)
            white = one.inverse @ k.T
            level = self._level(one, x)
            mean[c] = level.value + k @ one.alpha
            here, here_slope = self.model.kernel.diagonal(theta, at, axes)
            variance[c] = one.stretch * _left(here, np.einsum("nm,nm->m", white, white))
            by_data = by_at(np.broadcast_to(one.alpha, k.shape))
            mean_slope[c] = level.slope + axes.gradient(by_data, x)
            by_data = here_slope + by_at(-2.0 * (white.T @ one.inverse))
            variance_slope[c] = one.stretch * axes.gradient(by_data, x)
        return Marginal(mean, variance, self._weight(), self._df()), mean_slope, variance_slope

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        if num < len(self.components):
            return self._some(num, rng)[0].sample(x, num, rng=rng)
        at = self.model.axes.features(x)
        draws = np.empty((num, len(x)))
        for c, one in enumerate(self.components):
            theta = one.theta[: self.model.noise_at]
            k = self.model.kernel.evaluate(theta, at, self.table.features, self.model.axes).value
            white = one.inverse @ k.T
            cov = self.model.kernel.evaluate(theta, at, at, self.model.axes).value
            factor = cholesky(cov - white.T @ white, cov.diagonal().mean() if len(cov) else 1.0)
            mine = draws[c :: len(self.components)]
            size = radius(one, len(mine), rng)
            level = self._level(one, x).value + k @ one.alpha
            mine[:] = level + size * (rng.standard_normal(mine.shape) @ factor.T)
        return draws

    def draw(self, num: int, *, rng: np.random.Generator) -> Draws:
        from presage.surrogates.gaussian_draws import GaussianDraws

        if num < len(self.components):
            some, chosen = self._some(num, rng)
            return replace(GaussianDraws.drawn(some, num, rng), owner=chosen)
        return GaussianDraws.drawn(self, num, rng)

    def _some(self, num: int, rng: np.random.Generator) -> tuple["GaussianPosterior", np.ndarray]:
        """With a few components at random, for draws that are too few for all of them, and which these are."""
        chosen = rng.permutation(len(self.components))[:num]
        return GaussianPosterior(self.model, self.table, tuple(self.components[i] for i in chosen)), chosen

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law = self.marginal(x)
        parts = [one.warp.moments(m, v) for one, m, v in zip(self.components, law.mean, law.spread(), strict=True)]
        mean, variance = (np.array(part) for part in zip(*parts, strict=True))
        return Marginal(mean, variance, law.weight).moments()

    def noise(self, x: np.ndarray) -> np.ndarray:
        levels = [one.stretch * math.exp(one.theta[self.model.noise_at]) for one in self.components]
        return np.full(len(x), np.mean(levels))

    def transformed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        warps = [one.warp for one in self.components]
        return np.array([warp.forward(y) for warp in warps]), np.array([warp.log_slope(y) for warp in warps])

    def condition(self, x: np.ndarray, y: np.ndarray) -> "GaussianPosterior":
        return self._extended(x, y, [one.warp.forward(y) for one in self.components])

    def imagine(self, x: np.ndarray, f: np.ndarray) -> "GaussianPosterior":
        return self._extended(x, self.restored(f), [f] * len(self.components))

    def believe(self, x: np.ndarray) -> "GaussianPosterior":
        mean = self.marginal(x).mean
        return self._extended(x, self.restored(mean.mean(axis=0)), list(mean))

    def restored(self, f: np.ndarray) -> np.ndarray:
        return np.mean([one.warp.inverse(f) for one in self.components], axis=0)

    def _extended(self, x: np.ndarray, y: np.ndarray, latent: list[np.ndarray]) -> "GaussianPosterior":
        """With more values [m], and what each component sees of them."""
        old = self.table
        at = self.model.axes.features(x)
        table = Table(
            np.vstack([old.x, x]), np.vstack([old.features, at]), np.append(old.y, y),
            np.append(old.noise, np.zeros(len(y))), old.center, old.scale,
        )  # fmt: skip
        means = self.marginal(x).mean
        components = tuple(
            _extended(self.model, old.features, at, one, seen, mean)
            for one, seen, mean in zip(self.components, latent, means, strict=True)
        )
        return GaussianPosterior(self.model, table, components)

    def joint(self, z: np.ndarray) -> Joint:
        from presage.surrogates.gaussian_joint import GaussianJoint

        return GaussianJoint.between(self, z)

    def leave_one_out(self) -> np.ndarray:
        # Rasmussen & Williams, eq. 5.10 to 5.12: the diagonal of K^-1 is all that is needed.
        densities = []
        for one in self.components:
            precision = np.einsum("ij,ij->j", one.inverse, one.inverse)
            z2 = one.alpha**2 / precision
            if one.df is None:
                log_density = 0.5 * (np.log(precision / (2.0 * math.pi)) - z2)
            else:
                # Without row i the others have fit - z_i^2; conditionals of a t are t (Shah et al., 2014, lemma 3).
                df = one.df - 1.0
                scale = (one.stretch * one.df - z2) / df
                log_density = (
                    gammaln(0.5 * df + 0.5) - gammaln(0.5 * df) + 0.5 * np.log(precision / (df * math.pi * scale))
                )
                log_density -= 0.5 * (df + 1.0) * np.log1p(z2 / (df * scale))
            densities.append(log_density + one.warp.log_slope(self.table.y))
        return np.logaddexp.reduce(densities, axis=0) - math.log(len(densities))

    def surprise(self, start: int) -> np.ndarray:
        """By how many standard deviations each row from `start` on missed what those before it foretold, [c, m]."""
        missed = [
            one.inverse[start:] @ (one.latent - self._level(one, self.table.x).value) / math.sqrt(one.stretch)
            for one in self.components
        ]
        return np.array(missed)

    def incumbent(self) -> float:
        return float(self._means().mean(axis=0).min())

    def incumbents(self) -> np.ndarray:
        return self._means().min(axis=1)

    def _means(self) -> np.ndarray:
        """Of each component at the data, [c, n]: there the posterior mean is y - (noise variance) alpha."""
        noise = [math.exp(one.theta[self.model.noise_at]) + one.known for one in self.components]
        return np.array([one.latent - level * one.alpha for one, level in zip(self.components, noise, strict=True)])

    def _level(self, one: Component, x: np.ndarray) -> Level:
        seen = one.latent[: len(self.table.y)]
        return self.model.mean.evaluate(one.theta[self.model.mean_at], x, self.table.units(seen, one.warp))

    def _weight(self) -> np.ndarray:
        return np.full(len(self.components), 1.0 / len(self.components))

    def _df(self) -> np.ndarray | None:
        return None if self.model.tail is None else np.array([one.df for one in self.components], dtype=float)


def _left(variance: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """What the data leave of the process variance; rounding must not make it negative."""
    return np.maximum(variance - explained, 1e-12 * variance)


def radius(one: Component, num: int, rng: np.random.Generator) -> np.ndarray:
    """What Gaussian deviations are multiplied by to be those of the component, [num, 1]."""
    if one.df is None:
        return np.ones((num, 1))
    return np.sqrt(one.stretch * one.df / rng.chisquare(one.df, (num, 1)))


def _extended(
    model: Model, features: np.ndarray, more: np.ndarray, one: Component, latent: np.ndarray, expected: np.ndarray
) -> Component:
    """The component after m more values, where others were expected, in O(n^2 m): the factor gets m more rows."""
    theta, m = one.theta[: model.noise_at], len(more)
    across = model.kernel.evaluate(theta, features, more, model.axes).value
    own = model.kernel.evaluate(theta, more, more, model.axes).value
    inverse = append(one.inverse, across, own, np.full(m, math.exp(one.theta[model.noise_at])))
    rows = inverse[len(one.inverse) :]
    white = rows[:, len(features) :] @ (latent - expected)
    alpha = np.append(one.alpha, np.zeros(m)) + white @ rows
    df, stretch = one.df, one.stretch
    if df is not None:
        df, stretch = df + m, (stretch * df + float(white @ white)) / (df + m)
    seen, known = np.append(one.latent, latent), np.append(one.known, np.zeros(m))
    return Component(one.theta, one.warp, seen, known, inverse, alpha, df, stretch)


def component(
    model: Model, table: Table, theta: np.ndarray, warp: Warp, latent: np.ndarray, known: np.ndarray, start: int
) -> Component:
    """A component given what it sees; the rows after the first `start` were added one by one."""
    kernel, noise = theta[: model.noise_at], math.exp(theta[model.noise_at]) + known
    inverse = inverse_factor(model.kernel, model.axes, kernel, table.features, noise, start)
    level = model.mean.evaluate(theta[model.mean_at], table.x, table.units(latent, warp)).value
    white = inverse @ (latent - level)
    tail, df, stretch = model.tail_of(theta), None, 1.0
    if tail is not None:
        df = tail + 2.0 + len(latent)
        stretch = (tail + float(white @ white)) / df
    return Component(theta, warp, latent, known, inverse, white @ inverse, df, stretch)


def condition(model: Model, table: Table, theta: np.ndarray, start: int | None = None) -> GaussianPosterior:
    """The posterior given hyperparameters, [c, p]; the rows after the first `start` were added one by one."""
    start = len(table.y) if start is None else min(start, len(table.y))
    components = []
    for one in theta:
        warp = Warp() if model.warp is None else Warp.of(table.y, model.exponent(one))[0]
        known = table.noise * np.exp(2.0 * warp.log_slope(table.y))
        components.append(component(model, table, one, warp, warp.forward(table.y), known, start))
    return GaussianPosterior(model, table, tuple(components))
