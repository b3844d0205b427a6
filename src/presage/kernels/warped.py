"""A kernel on inputs that are stretched, and sums of kernels over groups of columns."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from presage.kernels.axes import Axes
from presage.kernels.base import Basis, Diagonal, Evaluated, Kernel, Spanned, Sum
from presage.kernels.stationary import Stationary
from presage.priors import Block, LogNormal, Prior

EDGE = 1e-6  # numbers are kept so far from 0 and 1, where a stretch may be infinite


@dataclass(frozen=True)
class Warped(Kernel):
    """A kernel of 1 - (1 - x^a)^b, the Kumaraswamy distribution function, with a and b learned for each number.

    It makes functions stationary that change faster at one end of a range (Snoek et al., 2014, arXiv 1402.0929).

    Args:
        of: the kernel of the stretched points.
        bend: prior of a and b; 1 changes nothing.
    """

    of: Kernel
    bend: Prior = LogNormal(1.0, 0.5)

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        k = len(axes.numeric)
        return (Block("bend", self.bend, 2 * k, math.log(0.1), math.log(10.0)), *self.of.blocks(axes))

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        k = len(axes.numeric)
        here = _stretch(a, theta[: 2 * k], k)
        there = here if a is b else _stretch(b, theta[: 2 * k], k)
        found = self.of.evaluate(theta[2 * k :], here[0], there[0], axes)

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            left, right = found.by_a(cotangent)[:, :k], found.by_b(cotangent)[:, :k]
            bend = [
                np.einsum("nk,nk->k", left, here[i]) + np.einsum("nk,nk->k", right, there[i]) for i in (2, 3)
            ]  # fmt: skip
            return np.concatenate([*bend, found.by_theta(cotangent)])

        return Evaluated(
            found.value, by_theta, lambda cotangent: _chained(found.by_a(cotangent), here[1]),
            lambda cotangent: _chained(found.by_b(cotangent), there[1]),
        )  # fmt: skip

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        k = len(axes.numeric)
        whole, slope, _, _ = _stretch(a, theta[: 2 * k], k)
        value, inner = self.of.diagonal(theta[2 * k :], whole, axes)
        return Diagonal(value, _chained(inner, slope))

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        k = len(axes.numeric)
        inner = self.of.basis(theta[2 * k :], axes, rng)
        if inner is None:
            return None

        return partial(_stretched, inner=inner, bend=theta[: 2 * k])


def _stretch(a: np.ndarray, theta: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features with numbers stretched, [n, D], and the derivatives of these in x, log a and log b, [n, k] each."""
    first, second = np.exp(theta[:k]), np.exp(theta[k:])
    x = np.clip(a[:, :k] + 0.5, EDGE, 1.0 - EDGE)
    log_x = np.log(x)
    power = np.exp(first * log_x)
    rest = -np.expm1(first * log_x)  # 1 - x^a
    log_rest = np.log(rest)
    tail = np.exp(second * log_rest)
    by_power = second * tail / rest
    by_first = by_power * power * log_x * first
    by_second = -tail * log_rest * second
    whole = np.concatenate([0.5 - tail, a[:, k:]], axis=1)
    return whole, by_power * first * power / x, by_first, by_second


def _stretched(a: np.ndarray, inner: Basis, bend: np.ndarray) -> Spanned:
    whole, slope, _, _ = _stretch(a, bend, len(bend) // 2)
    found = inner(whole)
    return Spanned(found.value, lambda cotangent: _chained(found.by_a(cotangent), slope))


def _chained(by_features: np.ndarray, slope: np.ndarray) -> np.ndarray:
    k = slope.shape[1]
    return np.concatenate([by_features[:, :k] * slope, by_features[:, k:]], axis=1)


def additive(kernel: Stationary, groups: Iterable[Iterable[int]]) -> Sum:
    """A function that is a sum of functions of groups of columns.

    Example:
        >>> from presage.kernels import Matern
        >>> [part.on for part in additive(Matern(), [(0, 1), (2,)]).parts]
        [(0, 1), (2,)]
    """
    return Sum(tuple(replace(kernel, on=tuple(group)) for group in groups))
