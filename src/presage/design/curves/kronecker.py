"""Gaussian processes over networks x steps whose covariance is made of products, one factor for each.

The value of network i at step t is, in squashed units,

    y(i, t) = m(x_i) + a + b p(t) + common(t) + shared(x_i, t) + own_i(t) + noise,      p(t) = (t / T)^-c - 1,

a mean that rises towards the ends of ranges, a power law whose level a and drop b are Gaussian and integrated out, and
what all curves do beside it. `shared` has covariance kernel(x, x') S(t, t'); `own` has covariance O(t, t') within one
network and 0 between two: what its seed makes of it. T is the last step.
Only the cells with values enter (a latent Kronecker structure, arXiv 2410.09239): few enough for one dense factor.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from presage import lbfgs
from presage.design.curves.base import CurveFit, CurveModel, CurvePosterior, Curves, Squash
from presage.kernels import Axes, Kernel, Matern
from presage.priors import Block, LogNormal, Priors
from presage.surrogates.base import Marginal, State
from presage.surrogates.gaussian import cholesky

LEVEL, DROP = 4.0, 4.0  # prior variances of the power law's coefficients, in squashed units
MOST = 500  # cells that hyperparameters are fitted to
JITTER = 1e-8
OCTAVES = 4
WIDE = 8  # levels from which on whole numbers are a range

Slopes = tuple[np.ndarray, list[np.ndarray]]


class Temporal(ABC):
    """A covariance between steps; `u` are steps as shares of the last one, [c]."""

    @abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """What its part of theta holds."""

    @abstractmethod
    def evaluate(self, theta: np.ndarray, u: np.ndarray) -> Slopes:
        """The covariance [c, c], and its derivatives in theta."""


def octaves(u: np.ndarray) -> np.ndarray:
    """How much of each of the last octaves lies between u and the end, and how many octaves before them, [c, OCTAVES].

    Example:
        >>> octaves(np.array([1.0, 0.5, 0.125]))
        array([[0., 0., 0., 0.],
               [1., 0., 0., 0.],
               [1., 1., 1., 0.]])
    """
    back = -np.log2(u)[:, None] - np.arange(OCTAVES)
    return np.clip(back, 0.0, np.append(np.ones(OCTAVES - 1), np.inf))


@dataclass(frozen=True)
class Smooth(Temporal):
    """g(u) g(u') Matern(|log u - log u'| / lengthscale): curves on a logarithmic clock.

    log g is piecewise linear in log2 u with a slope for each of the last octaves and one for all before: how far
    networks lie apart changes with the training, gradually or at once when their noise has been learned.

    Args:
        nu: smoothness, 1/2, 3/2 or 5/2.
        variance: of the last step, its median before the data.
        lengthscale: likewise, in units of log u.
        spread: of the logarithm of the lengthscale before the data.
    """

    nu: float = 2.5
    variance: float = 1.0
    lengthscale: float = 3.0
    spread: float = 0.7

    def blocks(self) -> tuple[Block, ...]:
        return (
            Block("variance", LogNormal(self.variance, 1.5), 1, math.log(1e-5), math.log(1e2)),
            Block("lengthscale", LogNormal(self.lengthscale, self.spread), 1, math.log(0.1), math.log(50.0)),
            Block.real("slope", 0.05, 0.3, OCTAVES, lower=-1.5, upper=1.5),
        )

    def evaluate(self, theta: np.ndarray, u: np.ndarray) -> Slopes:
        clock = np.log(u)
        r = math.sqrt(2.0 * self.nu) * np.abs(clock[:, None] - clock) * math.exp(-theta[1])
        fall = np.exp(-r)
        # The profile, and minus its derivative in r times r: what a longer lengthscale adds.
        profile, pull = {
            0.5: (fall, fall * r), 1.5: ((1.0 + r) * fall, r * r * fall),
            2.5: ((1.0 + r + r * r / 3.0) * fall, r * r * (1.0 + r) / 3.0 * fall),
        }[self.nu]  # fmt: skip
        basis = octaves(u)
        g = basis @ theta[2:]
        amplitude = np.exp(theta[0] + g[:, None] + g)
        value = amplitude * profile
        return value, [value, amplitude * pull, *((one[:, None] + one) * value for one in basis.T)]


@dataclass(frozen=True)
class Constant(Temporal):
    """The same variance at all steps: the asymptote of a curve."""

    variance: float = 1.0

    def blocks(self) -> tuple[Block, ...]:
        return (Block("variance", LogNormal(self.variance, 1.5), 1, math.log(1e-5), math.log(1e2)),)

    def evaluate(self, theta: np.ndarray, u: np.ndarray) -> Slopes:
        value = np.full((len(u), len(u)), math.exp(theta[0]))
        return value, [value]


@dataclass(frozen=True)
class Nothing(Temporal):
    """No covariance."""

    def blocks(self) -> tuple[Block, ...]:
        return ()

    def evaluate(self, theta: np.ndarray, u: np.ndarray) -> Slopes:
        return np.zeros((len(u), len(u))), []


@dataclass(frozen=True)
class Plus(Temporal):
    """The sum of two covariances."""

    first: Temporal = Constant()
    second: Temporal = Smooth()

    def blocks(self) -> tuple[Block, ...]:
        return (*self.first.blocks(), *self.second.blocks())

    def evaluate(self, theta: np.ndarray, u: np.ndarray) -> Slopes:
        cut = sum(block.size for block in self.first.blocks())
        one, one_slopes = self.first.evaluate(theta[:cut], u)
        two, two_slopes = self.second.evaluate(theta[cut:], u)
        return one + two, [*one_slopes, *two_slopes]


@dataclass(frozen=True)
class Decay(Temporal):
    """variance beta^alpha / (u + u' + beta)^alpha: a mixture of exponential decays (arXiv 1406.3896, eq. 6)."""

    variance: float = 1.0

    def blocks(self) -> tuple[Block, ...]:
        return (
            Block("variance", LogNormal(self.variance, 1.5), 1, math.log(1e-5), math.log(1e4)),
            Block("alpha", LogNormal(1.0, 1.0), 1, math.log(0.01), math.log(50.0)),
            Block("beta", LogNormal(0.5, 1.5), 1, math.log(1e-4), math.log(50.0)),
        )

    def evaluate(self, theta: np.ndarray, u: np.ndarray) -> Slopes:
        variance, alpha, beta = np.exp(theta)
        both = u[:, None] + u
        log_ratio = math.log(beta) - np.log(both + beta)
        value = variance * np.exp(alpha * log_ratio)
        return value, [value, alpha * log_ratio * value, alpha * (1.0 - beta / (both + beta)) * value]


@dataclass(frozen=True)
class KroneckerModel(CurveModel):
    """Networks x steps, as the module says; hyperparameters at their mode.

    Their prior medians are about the medians of fits to the eight curve tables with many complete curves.

    Args:
        kernel: between networks, of variance 1.
        shared: between steps, for what networks alike have in common.
        own: between steps, for what is a network's own.
        common: between steps, for what all networks have in common and is no power law.
        noise: prior median of the noise variance, in squashed units.
        ends: how much worse, in squashed units, a network at the end of a range is before the data than one in its
            middle.
    """

    kernel: Kernel = Matern(lengthscale=LogNormal(0.5, 1.0), variance=None)
    shared: Temporal = Smooth(2.5, 0.8, 1.8, 0.5)
    own: Temporal = Smooth(1.5, 0.07, 1.1, 0.4)
    common: Temporal = Smooth(2.5)
    noise: float = 1e-3
    ends: float = 0.0

    @property
    def temporal(self) -> tuple[Temporal, Temporal, Temporal]:
        return self.shared, self.own, self.common

    def fit(
        self, curves: Curves, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> CurveFit:
        if keep and previous is not None:
            squash, theta = Squash(*previous["squash"].tolist()), previous["theta"]
        else:
            squash = Squash.of(curves)
            theta = self._mode(
                Cells.of(self, _thinned(curves), squash), None if previous is None else previous["theta"]
            )
        cells = Cells.of(self, curves, squash)
        posterior = KroneckerPosterior(squash, cells, theta)
        return CurveFit(posterior, {"theta": theta, "squash": np.array([squash.center, squash.scale])})

    def _mode(self, cells: "Cells", known: np.ndarray | None) -> np.ndarray:
        priors = cells.priors
        starts = [priors.center]
        if known is not None:
            starts = [known]
        found = lbfgs.minimize(
            cells.energies, np.array(starts), priors.lower, priors.upper, evaluations=40, gradient_tol=1e-2,
            value_tol=1e-4,
        )  # fmt: skip
        best = int(np.argmin(found.value))
        return found.x[best] if np.isfinite(found.value[best]) else priors.center


def LatentKronecker() -> KroneckerModel:
    """Smooth curves on a logarithmic clock about a power law."""
    return KroneckerModel()


def FreezeThaw() -> KroneckerModel:
    """Freeze-thaw (arXiv 1406.3896): asymptotes that depend on the network, independent decays towards them."""
    return KroneckerModel(shared=Constant(), own=Decay(), common=Nothing())


@dataclass(frozen=True)
class Cells:
    """The cells with values, and the covariance between them.

    Attributes:
        model: what it is made of.
        axes: features of the networks.
        features: of all networks, [n, D].
        u: steps as shares of the last, [c].
        row, column: of each cell, [m].
        z: squashed values less the mean, [m].
        values: squashed table, [n, c].
        mean: of each network before the data, without the power law, [n].
    """

    model: KroneckerModel
    axes: Axes
    features: np.ndarray
    u: np.ndarray
    row: np.ndarray
    column: np.ndarray
    z: np.ndarray
    values: np.ndarray = field(repr=False)
    mean: np.ndarray = field(repr=False)

    @staticmethod
    def of(model: KroneckerModel, curves: Curves, squash: Squash) -> "Cells":
        axes = Axes(curves.columns)
        latent = squash.forward(curves.values)
        row, column = np.nonzero(np.isfinite(latent))
        u = curves.steps / curves.steps[-1]
        mean = model.ends * outwards(curves)
        z = latent[row, column] - mean[row]
        return Cells(model, axes, axes.features(curves.x), u, row, column, z, latent, mean)

    @cached_property
    def priors(self) -> Priors:
        return Priors((
            *self.model.kernel.blocks(self.axes), *self.model.shared.blocks(), *self.model.own.blocks(),
            *self.model.common.blocks(),
            Block("noise", LogNormal(self.model.noise, 1.5), 1, math.log(1e-6), math.log(1.0)),
            Block("power", LogNormal(0.5, 0.5), 1, math.log(0.05), math.log(2.0)),
        ))  # fmt: skip

    @cached_property
    def cuts(self) -> list[int]:
        """Where the parts of theta end: kernel, shared, own, common, noise."""
        sizes = [self.model.kernel.size(self.axes)]
        sizes += [sum(block.size for block in part.blocks()) for part in self.model.temporal]
        return np.cumsum([*sizes, 1]).tolist()

    def parts(self, theta: np.ndarray) -> list[np.ndarray]:
        return np.split(theta, self.cuts)

    def power(self, theta: np.ndarray) -> np.ndarray:
        """p of every step, [c]."""
        return self.u ** -math.exp(theta[-1]) - 1.0

    def energies(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-log p(z | theta) - log p(theta) up to a constant, [s], and derivatives, [s, p]."""
        value, gradient = self.priors.energy(thetas)
        for s, theta in enumerate(thetas):
            value[s] += self.negative_evidence(theta, gradient[s])
        return value, gradient

    def negative_evidence(self, theta: np.ndarray, gradient: np.ndarray) -> float:
        """-log p(z | theta) up to a constant; its derivative is added to `gradient`."""
        first, second, third, fourth, (log_noise,), (log_power,) = self.parts(theta)
        rows, here = np.unique(self.row, return_inverse=True)
        between = self.model.kernel.evaluate(first, self.features[rows], self.features[rows], self.axes)
        shared, shared_slopes = self.model.shared.evaluate(second, self.u)
        own, own_slopes = self.model.own.evaluate(third, self.u)
        common, common_slopes = self.model.common.evaluate(fourth, self.u)
        common = common + LEVEL + DROP * np.outer(self.power(theta), self.power(theta))
        at, to = np.ix_(here, here), np.ix_(self.column, self.column)
        kernel_cells, shared_cells = between.value[at], shared[to]
        same = self.row[:, None] == self.row
        p = self.power(theta)[self.column]
        noise = math.exp(log_noise)
        K = kernel_cells * shared_cells + np.where(same, own[to], 0.0) + common[to]
        K[np.diag_indices(len(K))] += noise + JITTER
        factor, failed = lapack.dpotrf(K, lower=1, overwrite_a=0)
        if failed:
            return math.inf
        alpha = lapack.dpotrs(factor, self.z, lower=1)[0]
        value = float(np.log(np.diag(factor)).sum()) + 0.5 * float(self.z @ alpha)
        inverse = lapack.dpotri(factor, lower=1)[0]
        cotangent = np.tril(inverse) + np.tril(inverse, -1).T
        cotangent = 0.5 * (cotangent - np.outer(alpha, alpha))
        steps = np.eye(len(self.u))[self.column]
        networks = np.eye(len(rows))[here]
        by_kernel = networks.T @ (cotangent * shared_cells) @ networks
        by_shared = steps.T @ (cotangent * kernel_cells) @ steps
        by_own = steps.T @ np.where(same, cotangent, 0.0) @ steps
        by_common = steps.T @ cotangent @ steps
        u = self.u[self.column]
        by_power = -math.exp(log_power) * np.log(u) * (p + 1.0)  # dp / d log c
        parts = [
            between.by_theta(by_kernel), np.array([(by_shared * slope).sum() for slope in shared_slopes]),
            np.array([(by_own * slope).sum() for slope in own_slopes]),
            np.array([(by_common * slope).sum() for slope in common_slopes]),
            np.array([noise * np.trace(cotangent), 2.0 * DROP * (p @ cotangent @ by_power)]),
        ]  # fmt: skip
        gradient += np.concatenate(parts)
        return value


@dataclass(frozen=True)
class KroneckerPosterior(CurvePosterior):
    """The process given the cells."""

    squash: Squash
    cells: Cells
    theta: np.ndarray

    @cached_property
    def _between(self) -> np.ndarray:
        """The kernel between all networks, [n, n]."""
        cells = self.cells
        return cells.model.kernel.evaluate(cells.parts(self.theta)[0], cells.features, cells.features, cells.axes).value

    @cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Covariances between steps, shared, own and common with the power law, [c, c] each; the noise."""
        cells = self.cells
        _, *three, (log_noise,), _ = cells.parts(self.theta)
        shared, own, common = (
            part.evaluate(theta, cells.u)[0] for part, theta in zip(cells.model.temporal, three, strict=True)
        )
        p = cells.power(self.theta)
        return shared, own, common + LEVEL + DROP * np.outer(p, p), math.exp(log_noise)

    @cached_property
    def _factor(self) -> tuple[np.ndarray, np.ndarray]:
        """The Cholesky factor of the covariance of the cells, and the covariance's inverse times their values."""
        cells = self.cells
        shared, own, common, noise = self._steps
        at, to = np.ix_(cells.row, cells.row), np.ix_(cells.column, cells.column)
        K = self._between[at] * shared[to] + np.where(cells.row[:, None] == cells.row, own[to], 0.0)
        K += common[to]
        K[np.diag_indices(len(K))] += noise + JITTER
        factor = cholesky(K, float(np.diag(K).mean()))
        return factor, lapack.dpotrs(factor, cells.z, lower=1)[0]

    @cached_property
    def _ahead(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the curves without noise: means, variances, covariances with the last step, [c, n] each."""
        cells = self.cells
        shared, own, common, _ = self._steps
        n, c, m = len(cells.features), len(cells.u), len(cells.row)
        k = shared[:, cells.column][:, None] * self._between[:, cells.row]
        k += common[:, cells.column][:, None]
        k[:, cells.row, np.arange(m)] += own[:, cells.column]
        factor, alpha = self._factor
        white = lapack.dtrtrs(factor, k.reshape(c * n, m).T, lower=1)[0].T.reshape(c, n, m)
        own_here = np.diag(self._between)
        variance = np.diag(shared)[:, None] * own_here + np.diag(own + common)[:, None] - np.vecdot(white, white)
        with_end = shared[:, -1, None] * own_here + (own + common)[:, -1, None] - np.vecdot(white, white[-1])
        return cells.mean + k @ alpha, np.maximum(variance, 1e-10), with_end

    def marginal(self, column: int = -1) -> Marginal:
        mean, variance, _ = self._ahead
        seen = self.cells.values[:, column]
        known = np.isfinite(seen)
        law = np.where(known, seen, mean[column]), np.where(known, 0.0, variance[column] + self._steps[3])
        return Marginal(law[0][None], law[1][None], np.ones(1))

    def informed(self) -> np.ndarray:
        """Standard deviation of every row's last value after a look at its value at each step, [c, n]."""
        _, variance, with_end = self._ahead
        noise = self._steps[3]
        left = variance[-1] + noise - with_end**2 / (variance + noise)
        left[-1] = 0.0
        return np.sqrt(np.maximum(left, 0.0))

    def sample(self, num: int, *, rng: np.random.Generator) -> np.ndarray:
        cells = self.cells
        shared, own, common, noise = self._steps
        k = self._between[:, cells.row] * shared[-1, cells.column] + common[-1, cells.column]
        k[cells.row, np.arange(len(cells.row))] += own[-1, cells.column]
        factor, alpha = self._factor
        white = lapack.dtrtrs(factor, k.T, lower=1)[0]
        cov = self._between * shared[-1, -1] + common[-1, -1] - white.T @ white
        cov[np.diag_indices(len(cov))] += own[-1, -1] + noise
        spread = cholesky(cov, float(np.diag(cov).mean()))
        seen = cells.values[:, -1]
        return np.where(
            np.isfinite(seen), seen, cells.mean + k @ alpha + rng.standard_normal((num, len(seen))) @ spread.T
        )


def outwards(curves: Curves) -> np.ndarray:
    """The sum over ranges of the fourth power of the distance from the middle, 1 at an end, [n].

    Categories have no ends, and whole numbers with few levels (depths) have nothing else.

    Example:
        >>> from presage.observations import Column
        >>> x = np.array([[0.0, 0.5], [1.0, 0.0], [0.5, 0.75]])
        >>> outwards(Curves(x, np.array([1]), x[:, :1], (Column("ordinal", 3), Column("continuous"))))
        array([0.    , 1.    , 0.0625])
    """
    wide = [j for j, c in enumerate(curves.columns) if c.kind != "categorical" and (c.levels or WIDE) >= WIDE]
    return np.nansum((2.0 * curves.x[:, wide] - 1.0) ** 4, axis=1)


def _thinned(curves: Curves) -> Curves:
    """Fewer cells, at most about MOST: ever fewer columns, the last value of each network always among them."""
    count = int(np.isfinite(curves.values).sum())
    if count <= MOST:
        return curves
    keep = np.zeros(curves.values.shape, bool)
    keep[:, -1 :: -math.ceil(count / MOST)] = True
    known = curves.known
    rows = np.flatnonzero(known)
    keep[rows, known[rows] - 1] = True
    return Curves(curves.x, curves.steps, np.where(keep, curves.values, np.nan), curves.columns)
