"""Kernels of a distance."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from presage.kernels.axes import Axes
from presage.kernels.base import (
    VARIANCE,
    WAVES,
    Basis,
    Diagonal,
    Evaluated,
    Kernel,
    Spanned,
    chosen,
    lengthscale_block,
    spread_out,
    variance_block,
)
from presage.priors import Block, LogNormal, Prior
from presage.sobol import sobol

# In one dimension; the median grows with sqrt(d), as distances do (Hvarfner et al., 2024, arXiv 2402.02229).
LENGTHSCALE = LogNormal(0.205, math.sqrt(3.0))


FASTEST = math.log(1e6)  # faster waves are noise to whatever may be seen of them


class Profile(NamedTuple):
    """A correlation as a function of squared distance.

    Attributes:
        value: [n, m].
        slope: derivative in the squared distance, [n, m].
        by_shape: derivatives in the shape parameters, [n, m] each.
    """

    value: np.ndarray
    slope: np.ndarray
    by_shape: tuple[np.ndarray, ...] = ()


def squared_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a_i - b_j|^2 for features [n, D] and [m, D], by one matrix product.

    The rounding error is about 1e-16 |a|^2, and the kernels are smooth in the squared distance, so it stays there.
    """
    # [a, |a|^2, 1] . [-2 b, 1, |b|^2]: the sums are taken inside the product, in one pass
    left = np.concatenate([a, np.einsum("nk,nk->n", a, a)[:, None], np.ones((len(a), 1))], axis=1)
    right = np.concatenate([-2.0 * b, np.ones((len(b), 1)), np.einsum("mk,mk->m", b, b)[:, None]], axis=1)
    square = left @ right.T
    np.maximum(square, 0.0, out=square)
    if a is b:
        np.fill_diagonal(square, 0.0)
    return square


def exact_squared_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same from differences: slower, and without the rounding error."""
    from scipy.spatial.distance import cdist

    return cdist(a, b, "sqeuclidean")


@dataclass(frozen=True)
class Stationary(Kernel):
    """variance * profile(|a - b|^2), distances being measured in lengthscales.

    Args:
        lengthscale: prior in one dimension; the median is multiplied by the square root of the number of columns.
        variance: prior of the variance, None for 1.
        shared: one lengthscale for all columns instead of one for each.
        on: the columns that matter, None for all.
    """

    lengthscale: Prior = LENGTHSCALE
    variance: Prior | None = VARIANCE
    shared: bool = False
    on: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lengthscale, Prior):  # Matern(1.5) is a natural mistake
            name = type(self).__name__
            raise TypeError(
                f"the lengthscale of {name} must be a prior such as presage.priors.LogNormal(0.5), but got "
                f"{self.lengthscale!r}; give other settings by name, as in Matern(nu=1.5)"
            )

    @property
    def rough(self) -> bool:
        """Whether the correlation falls from 1 like a distance, so that 1e-16 in its square would be 1e-8."""
        return False

    @abstractmethod
    def profile(self, square: np.ndarray, shape: np.ndarray) -> Profile:
        """The correlation at squared distances, whose array may be overwritten."""

    def shape(self) -> tuple[Block, ...]:
        """Parameters of the profile."""
        return ()

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        lengths = lengthscale_block(self.lengthscale, self.on, axes, 0.005, self.shared)
        return (lengths, *variance_block(self.variance), *self.shape())

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        lengths, variance, shape = self._read(theta, axes)
        width = a.shape[1]
        used, place, _ = chosen(self.on, axes)
        if self.shared:
            place = np.zeros_like(place)
        scale = np.exp(lengths)[place]
        here = a[:, used] / scale
        there = here if a is b else b[:, used] / scale
        square = exact_squared_distance(here, there) if self.rough else squared_distance(here, there)
        value, slope, by_shape = self.profile(square, shape)
        value *= variance

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            weight = cotangent * slope
            weight *= variance
            # sum_ij w_ij (a_i - b_j)^2 per feature, by matrix products instead of an [n, m, D] array
            spread = weight.sum(axis=1) @ here**2 + weight.sum(axis=0) @ there**2
            spread -= 2.0 * np.einsum("nk,nk->k", here, weight @ there)
            parts = [np.bincount(place, weights=-2.0 * spread, minlength=len(lengths))]
            if self.variance is not None:
                parts.append(np.einsum("ij,ij->", cotangent, value)[None])
            parts += [variance * np.einsum("ij,ij->", cotangent, one)[None] for one in by_shape]
            return np.concatenate(parts)

        def by_a(cotangent: np.ndarray) -> np.ndarray:
            weight = (2.0 * variance) * cotangent * slope
            return spread_out((here * weight.sum(axis=1)[:, None] - weight @ there) / scale, used, width)

        def by_b(cotangent: np.ndarray) -> np.ndarray:
            weight = (2.0 * variance) * cotangent * slope
            return spread_out((there * weight.sum(axis=0)[:, None] - weight.T @ here) / scale, used, width)

        return Evaluated(value, by_theta, by_a, by_b)

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        return Diagonal(np.full(len(a), self._read(theta, axes)[1]), np.zeros_like(a))

    def tempo(self, u: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
        """Factors t [m], of uniform numbers u [m, 2], with E exp(-t^2 s / 2) the correlation at squared distance s.

        Every correlation of a distance that holds in all dimensions is such a mean (Schoenberg, 1938). None where it
        is not known. It goes with `profile`: of a class that has another profile than the one it comes from and no
        tempo of its own it is not asked.
        """
        return None

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        lengths, variance, shape = self._read(theta, axes)
        used, place, _ = chosen(self.on, axes)
        from scipy.special import ndtri

        u = sobol(WAVES, len(used) + 2, rng)
        tempo = self.tempo(u[:, :2], shape)
        if tempo is None or _home(self, "tempo") is not _home(self, "profile"):
            return None
        scale = np.exp(lengths)[np.zeros_like(place) if self.shared else place]
        frequency = tempo[:, None] * ndtri(u[:, 2:]) / scale  # [m, features]
        return partial(_waves, used=used, frequency=frequency, size=math.sqrt(variance / WAVES))

    def _read(self, theta: np.ndarray, axes: Axes) -> tuple[np.ndarray, float, np.ndarray]:
        """Log lengthscales, variance and shape."""
        count = 1 if self.shared else max(1, len(axes) if self.on is None else len(self.on))
        if self.variance is None:
            return theta[:count], 1.0, theta[count:]
        return theta[:count], math.exp(theta[count]), theta[count + 1 :]


def _home(kernel: Stationary, name: str) -> type:
    """The class that says how this is computed."""
    return next(kind for kind in type(kernel).__mro__ if name in vars(kind))


def _waves(a: np.ndarray, used: np.ndarray, frequency: np.ndarray, size: float) -> Spanned:
    """Cosines, then sines."""
    angle = a[:, used] @ frequency.T
    cos, sin = size * np.cos(angle), size * np.sin(angle)

    def by_a(cotangent: np.ndarray) -> np.ndarray:
        by_angle = cotangent[:, len(frequency) :] * cos - cotangent[:, : len(frequency)] * sin
        return spread_out(by_angle @ frequency, used, a.shape[1])

    return Spanned(np.concatenate([cos, sin], axis=1), by_a)


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """exp(-s / 2), s the squared distance (Rasmussen & Williams, eq. 4.9)."""

    def profile(self, square: np.ndarray, shape: np.ndarray) -> Profile:
        value = np.exp(-0.5 * square)
        return Profile(value, -0.5 * value)

    def tempo(self, u: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
        return np.ones(len(u))


@dataclass(frozen=True)
class Matern(Stationary):
    """2^(1 - nu) / Gamma(nu) r^nu K_nu(r) with r = sqrt(2 nu s) (Rasmussen & Williams, eq. 4.14).

    Args:
        nu: smoothness; for 1/2, 3/2 and 5/2 the closed forms are taken.
    """

    nu: float = 2.5

    @property
    def rough(self) -> bool:
        return self.nu < 1.0

    def profile(self, square: np.ndarray, shape: np.ndarray) -> Profile:
        r = np.multiply(square, 2.0 * self.nu)
        np.sqrt(r, out=r)
        if self.nu == 2.5:  # (1 + r + r^2/3) exp(-r); the usual kernel, so in place: fresh memory costs more than sums
            decay = np.negative(r)
            np.exp(decay, out=decay)
            r += 1.0
            r *= decay
            square *= 5.0 / 3.0
            square *= decay
            square += r
            r *= -5.0 / 6.0
            return Profile(square, r)
        if self.nu == 1.5:  # (1 + r) exp(-r)
            decay = np.exp(-r)
            return Profile((1.0 + r) * decay, -1.5 * decay)
        if self.nu == 0.5:
            decay = np.exp(-r)
            return Profile(decay, _away_from_zero(-0.5 * decay, r))
        return self._bessel(r)

    def _bessel(self, r: np.ndarray) -> Profile:
        """Any nu: d/dr (r^nu K_nu) = -r^nu K_(nu - 1), and K_(-nu) = K_nu."""
        from scipy.special import gammaln, kve

        nu, near = self.nu, 1e-8
        at = np.maximum(r, near)
        factor = np.exp((1.0 - nu) * math.log(2.0) - gammaln(nu) - at)
        value = np.where(r > near, factor * at**nu * kve(nu, at), 1.0)
        slope = -nu * factor * at ** (nu - 1.0) * kve(abs(nu - 1.0), at)
        if nu > 1.0:
            return Profile(value, np.where(r > near, slope, -0.5 * nu / (nu - 1.0)))
        return Profile(value, np.where(r > near, slope, 0.0))

    def tempo(self, u: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
        from scipy.special import gammaincinv

        return np.sqrt(self.nu / gammaincinv(self.nu, u[:, 0]))  # the spectral density is a t with 2 nu degrees


@dataclass(frozen=True)
class GammaExponential(Stationary):
    """exp(-s^(gamma / 2)) with gamma in (0, 2) learned (Rasmussen & Williams, eq. 4.18)."""

    @property
    def rough(self) -> bool:
        return True

    def shape(self) -> tuple[Block, ...]:
        return (Block.real("logit of gamma / 2", 1.0, 1.5, lower=-4.0, upper=8.0),)

    def profile(self, square: np.ndarray, shape: np.ndarray) -> Profile:
        share = 1.0 / (1.0 + math.exp(-shape[0]))  # gamma / 2
        positive = square > 1e-300
        log_square = np.log(np.where(positive, square, 1.0))
        power = np.where(positive, np.exp(share * log_square), 0.0)
        value = np.exp(-power)
        by_share = -value * power * log_square
        slope = _away_from_zero(-share * value * power, square)
        return Profile(value, slope, (by_share * share * (1.0 - share),))

    def tempo(self, u: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
        # exp(-s^share) = E exp(-s T), T positive and stable with index `share` (Kanter, 1975).
        share = 1.0 / (1.0 + math.exp(-shape[0]))
        turn, rest = math.pi * u[:, 0], -np.log(u[:, 1])
        log_stable = np.log(np.sin(share * turn)) - np.log(np.sin(turn)) / share
        log_stable += (1.0 - share) / share * np.log(np.sin((1.0 - share) * turn) / rest)
        return np.sqrt(2.0) * np.exp(np.clip(0.5 * log_stable, -FASTEST, FASTEST))


@dataclass(frozen=True)
class RationalQuadratic(Stationary):
    """(1 + s / (2 alpha))^(-alpha) with alpha learned (Rasmussen & Williams, eq. 4.19)."""

    def shape(self) -> tuple[Block, ...]:
        return (Block("alpha", LogNormal(1.0, 1.0), 1, math.log(1e-2), math.log(1e3)),)

    def profile(self, square: np.ndarray, shape: np.ndarray) -> Profile:
        alpha = math.exp(shape[0])
        excess = square / (2.0 * alpha)
        log_base = np.log1p(excess)
        value = np.exp(-alpha * log_base)
        lower = value / (1.0 + excess)
        return Profile(value, -0.5 * lower, (alpha * (lower * excess - value * log_base),))

    def tempo(self, u: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
        from scipy.special import gammaincinv

        alpha = math.exp(shape[0])
        return np.sqrt(gammaincinv(alpha, u[:, 0]) / alpha)


def _away_from_zero(numerator: np.ndarray, r: np.ndarray) -> np.ndarray:
    """numerator / r, and 0 at r = 0, where a kernel with a kink has no slope and the distance cannot change it."""
    return np.where(r > 1e-12, numerator / np.where(r > 1e-12, r, 1.0), 0.0)


@dataclass(frozen=True)
class Periodic(Kernel):
    """exp(-2 sum_j sin^2(pi (a_j - b_j) / period) / lengthscale_j^2) (Rasmussen & Williams, eq. 4.31).

    It is the squared exponential of points on circles. What is not a number keeps its plain distance.

    Args:
        period: prior of the period, in units of the cube; one for all columns.
        lengthscale: prior in one dimension.
        variance: prior of the variance, None for 1.
        on: the columns that matter, None for all.
    """

    period: Prior = LogNormal(0.5, 1.0)
    lengthscale: Prior = LogNormal(0.5, 1.0)
    variance: Prior | None = VARIANCE
    on: tuple[int, ...] | None = None

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        inner, _, _, circles = self._inner(axes)
        return (Block("period", self.period, 1, math.log(0.02), math.log(100.0)), *inner.blocks(circles))

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        inner, used, numeric, circles = self._inner(axes)
        frequency = 2.0 * math.pi * math.exp(-theta[0])
        (at, at_pull), (bt, bt_pull) = (_circles(side[:, used], numeric, frequency) for side in (a, b))
        found = inner.evaluate(theta[1:], at, at if a is b else bt, circles)

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            turn = at_pull(found.by_a(cotangent))[1] + bt_pull(found.by_b(cotangent))[1]
            return np.concatenate([[-turn], found.by_theta(cotangent)])

        def by_a(cotangent: np.ndarray) -> np.ndarray:
            return spread_out(at_pull(found.by_a(cotangent))[0], used, a.shape[1])

        def by_b(cotangent: np.ndarray) -> np.ndarray:
            return spread_out(bt_pull(found.by_b(cotangent))[0], used, b.shape[1])

        return Evaluated(found.value, by_theta, by_a, by_b)

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        variance = 1.0 if self.variance is None else math.exp(theta[-1])
        return Diagonal(np.full(len(a), variance), np.zeros_like(a))

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        inner, used, numeric, circles = self._inner(axes)
        frequency = 2.0 * math.pi * math.exp(-theta[0])
        waves = inner.basis(theta[1:], circles, rng)
        assert waves is not None  # squared exponentials have one

        return partial(_turned, waves=waves, used=used, numeric=numeric, frequency=frequency)

    def _inner(self, axes: Axes) -> tuple[SquaredExponential, np.ndarray, np.ndarray, Axes]:
        """The kernel on the circles, the features used, which of these turn, and the axes of the circles."""
        used, place, columns = chosen(self.on, axes)
        numeric = used < len(axes.numeric)
        circles = Axes(tuple(axes.columns[j]._replace(conditional=False) for j in columns))
        circles.owner = np.concatenate([place[numeric], place[numeric], place[~numeric]])
        inner = SquaredExponential(self.lengthscale, self.variance)
        return inner, used, numeric, circles


def _turned(a: np.ndarray, waves: Basis, used: np.ndarray, numeric: np.ndarray, frequency: float) -> Spanned:
    at, back = _circles(a[:, used], numeric, frequency)
    found = waves(at)
    return Spanned(found.value, lambda cotangent: spread_out(back(found.by_a(cotangent))[0], used, a.shape[1]))


def _circles(part: np.ndarray, numeric: np.ndarray, frequency: float):  # type: ignore[no-untyped-def]
    """Cosines, sines and the rest of some features; and the way back, with the derivative in log frequency."""
    angle = frequency * part[:, numeric]
    cos, sin = np.cos(angle), np.sin(angle)
    k = angle.shape[1]

    def back(cotangent: np.ndarray) -> tuple[np.ndarray, float]:
        by_angle = cotangent[:, k : 2 * k] * cos - cotangent[:, :k] * sin
        whole = np.zeros_like(part)
        whole[:, numeric] = frequency * by_angle
        whole[:, ~numeric] = cotangent[:, 2 * k :]
        return whole, float(np.einsum("nk,nk->", by_angle, angle))

    return (np.concatenate([cos, sin, part[:, ~numeric]], axis=1), back)
