"""Kernels of an inner product, and white noise."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from presage.kernels.axes import Axes
from presage.kernels.base import (
    VARIANCE,
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


@dataclass(frozen=True)
class Polynomial(Kernel):
    """variance * (a . b + offset)^degree, features being measured from the middle of the cube in lengthscales.

    Args:
        degree: 1 for straight lines.
        lengthscale: prior of how far a column must go to count as 1.
        offset: prior of the constant.
        variance: prior of the variance, None for 1.
        on: the columns that matter, None for all.
    """

    degree: int = 2
    lengthscale: Prior = LogNormal(1.0, 1.0)
    offset: Prior = LogNormal(1.0, 1.0)
    variance: Prior | None = VARIANCE
    on: tuple[int, ...] | None = None

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        return (
            lengthscale_block(self.lengthscale, self.on, axes),
            *variance_block(self.variance), Block("offset", self.offset, 1, math.log(1e-4), math.log(1e2)),
        )  # fmt: skip

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        lengths, variance, offset = self._read(theta)
        used, place, _ = chosen(self.on, axes)
        scale = np.exp(lengths)[place]
        here, there, width = a[:, used] / scale, b[:, used] / scale, a.shape[1]
        inner = here @ there.T + offset
        value = variance * inner**self.degree
        slope = variance * self.degree * inner ** (self.degree - 1)

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            weight = cotangent * slope
            pull = -2.0 * np.einsum("nk,nk->k", here, weight @ there)
            parts = [np.bincount(place, weights=pull, minlength=len(lengths))]
            if self.variance is not None:
                parts.append(np.einsum("ij,ij->", cotangent, value)[None])
            return np.concatenate([*parts, [offset * weight.sum()]])

        return Evaluated(
            value, by_theta,
            lambda cotangent: spread_out((cotangent * slope) @ there / scale, used, width),
            lambda cotangent: spread_out((cotangent * slope).T @ here / scale, used, width),
        )  # fmt: skip

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        lengths, variance, offset = self._read(theta)
        used, place, _ = chosen(self.on, axes)
        scale = np.exp(lengths)[place]
        here = a[:, used] / scale
        inner = np.einsum("nk,nk->n", here, here) + offset
        slope = variance * self.degree * inner ** (self.degree - 1)
        return Diagonal(
            variance * inner**self.degree, spread_out(2.0 * slope[:, None] * here / scale, used, a.shape[1])
        )

    def _read(self, theta: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Log lengthscales, variance, offset."""
        if self.variance is None:
            return theta[:-1], 1.0, math.exp(theta[-1])
        return theta[:-2], math.exp(theta[-2]), math.exp(theta[-1])


@dataclass(frozen=True)
class Linear(Polynomial):
    """variance * (a . b + offset): straight lines."""

    degree: int = 1

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        if self.degree != 1:
            return None
        lengths, variance, offset = self._read(theta)
        used, place, _ = chosen(self.on, axes)
        scale = np.exp(lengths)[place] / math.sqrt(variance)
        level = math.sqrt(variance * offset)

        return partial(_lines, used=used, scale=scale, level=level)


def _lines(a: np.ndarray, used: np.ndarray, scale: np.ndarray, level: float) -> Spanned:
    value = np.concatenate([a[:, used] / scale, np.full((len(a), 1), level)], axis=1)
    return Spanned(value, lambda cotangent: spread_out(cotangent[:, :-1] / scale, used, a.shape[1]))


@dataclass(frozen=True)
class Trend(Kernel):
    """variance / 2 d * sum over columns of p1(a) p1(b) + p2(a) p2(b): a sum of parabolas, one for each column.

    p1 and p2 are the Legendre polynomials with variance 1 over the cube, so the variance is that of the whole trend.
    What is not a number has a linear part only. Most objectives fall towards some region; a kernel of distances alone
    needs many points to see that from afar in many dimensions, a trend needs two per column.

    Args:
        variance: prior of the variance, None for 1.
    """

    variance: Prior | None = LogNormal(1.0, 2.0)

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        return variance_block(self.variance)

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        here, here_slope = self._basis(theta, a, axes)
        there, there_slope = (here, here_slope) if a is b else self._basis(theta, b, axes)
        value = here @ there.T

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            return np.zeros(0) if self.variance is None else np.einsum("ij,ij->", cotangent, value)[None]

        return Evaluated(
            value, by_theta, lambda cotangent: _folded(cotangent @ there * here_slope, a),
            lambda cotangent: _folded(cotangent.T @ here * there_slope, b),
        )  # fmt: skip

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        here, slope = self._basis(theta, a, axes)
        return Diagonal(np.einsum("nk,nk->n", here, here), _folded(2.0 * here * slope, a))

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        return partial(self._parabolas, theta=theta, axes=axes)

    def _parabolas(self, a: np.ndarray, theta: np.ndarray, axes: Axes) -> Spanned:
        value, slope = self._basis(theta, a, axes)
        return Spanned(value, lambda cotangent: _folded(cotangent * slope, a))

    def _basis(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> tuple[np.ndarray, np.ndarray]:
        """Linear parts, then square ones, and their derivatives, [n, D + numbers] each."""
        size = math.sqrt((1.0 if self.variance is None else math.exp(theta[0])) / max(1, 2 * len(axes)))
        t = math.sqrt(12.0) * a
        square = t[:, : len(axes.numeric)]
        basis = np.concatenate([t, 0.5 * math.sqrt(5.0) * (square**2 - 1.0)], axis=1)
        slope = np.concatenate([np.ones_like(t), math.sqrt(5.0) * square], axis=1)
        return size * basis, size * math.sqrt(12.0) * slope


def _nothing(a: np.ndarray) -> Spanned:
    return Spanned(np.zeros((len(a), 0)), lambda cotangent: np.zeros_like(a))


def _folded(by_basis: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Derivatives in the features from those in linear and square parts."""
    found = by_basis[:, : a.shape[1]].copy()
    found[:, : by_basis.shape[1] - a.shape[1]] += by_basis[:, a.shape[1] :]
    return found


@dataclass(frozen=True)
class White(Kernel):
    """variance where a point meets itself (the same row of the same array), 0 elsewhere: noise that belongs to f.

    Functions drawn from it are 0, as they have no place of their own to be noisy at.
    """

    variance: Prior | None = LogNormal(0.01, 2.0)

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        return _nothing

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        return variance_block(self.variance)

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        variance = 1.0 if self.variance is None else math.exp(theta[0])
        value = variance * np.eye(len(a)) if a is b else np.zeros((len(a), len(b)))

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            return np.zeros(0) if self.variance is None else np.einsum("ij,ij->", cotangent, value)[None]

        return Evaluated(value, by_theta, lambda cotangent: np.zeros_like(a), lambda cotangent: np.zeros_like(b))

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        return Diagonal(np.full(len(a), 1.0 if self.variance is None else math.exp(theta[0])), np.zeros_like(a))
