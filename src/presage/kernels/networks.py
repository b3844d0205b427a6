"""Kernels of infinitely wide networks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from presage.kernels.axes import Axes
from presage.kernels.base import (
    VARIANCE,
    Diagonal,
    Evaluated,
    Kernel,
    chosen,
    lengthscale_block,
    spread_out,
    variance_block,
)
from presage.priors import Block, LogNormal, Prior


class Layer(NamedTuple):
    """E[phi(u) phi(v)] for Gaussian u, v with covariance c and variances p and q, and its derivatives."""

    value: np.ndarray
    by_c: np.ndarray
    by_p: np.ndarray
    by_q: np.ndarray


def relu(c: np.ndarray, p: np.ndarray, q: np.ndarray) -> Layer:
    """2 E[relu(u) relu(v)], so that the variance is kept (Cho & Saul, 2009, the arc-cosine kernel of order 1)."""
    norm = np.sqrt(p * q)
    rho = np.clip(c / norm, -1.0, 1.0)
    by_c = 1.0 - np.arccos(rho) / math.pi
    sine = np.sqrt((1.0 - rho) * (1.0 + rho)) / math.pi
    # value = norm j(rho) with j = sine + rho by_c and j' = by_c; then d value / dp = norm (j - rho j') / (2 p)
    return Layer(norm * (sine + rho * by_c), by_c, 0.5 * norm * sine / p, 0.5 * norm * sine / q)


def erf(c: np.ndarray, p: np.ndarray, q: np.ndarray) -> Layer:
    """E[erf(u) erf(v)] = 2/pi arcsin(2 c / sqrt((1 + 2 p)(1 + 2 q))) (Williams, 1997)."""
    left, right = 1.0 + 2.0 * p, 1.0 + 2.0 * q
    norm = np.sqrt(left * right)
    ratio = 2.0 * c / norm
    slope = (2.0 / math.pi) / np.sqrt((1.0 - ratio) * (1.0 + ratio))
    return Layer((2.0 / math.pi) * np.arcsin(ratio), slope * 2.0 / norm, -slope * ratio / left, -slope * ratio / right)


ACTIVATIONS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Layer]] = {"relu": relu, "erf": erf}


@dataclass(frozen=True)
class InfiniteNetwork(Kernel):
    """A network with infinitely wide hidden layers: a Gaussian process (Neal, 1996; Lee et al., 2018).

    The first layer sees bias + weight * (a . b); each hidden layer maps covariances to bias + weight * E[phi phi].

    Args:
        depth: hidden layers.
        activation: relu or erf.
        lengthscale: prior of how far a column must go to count as 1.
        weight: prior of the weights' variance, the same in all layers; relu is scaled to keep variances at 1.
        bias: prior of the biases' variance.
        variance: prior of the output's variance, None for 1.
        on: the columns that matter, None for all.
    """

    depth: int = 1
    activation: str = "relu"
    lengthscale: Prior = LogNormal(0.3, 1.0)
    weight: Prior = LogNormal(1.0, 1.0)
    bias: Prior = LogNormal(0.3, 1.0)
    variance: Prior | None = VARIANCE
    on: tuple[int, ...] | None = None

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        return (
            lengthscale_block(self.lengthscale, self.on, axes),
            *variance_block(self.variance), Block("weight", self.weight, 1, math.log(1e-2), math.log(1e2)),
            Block("bias", self.bias, 1, math.log(1e-4), math.log(1e2)),
        )  # fmt: skip

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        used, place, _ = chosen(self.on, axes)
        lengths, variance, weight, bias = self._read(theta)
        scale = np.exp(lengths)[place]
        here, there, width = a[:, used] / scale, b[:, used] / scale, a.shape[1]
        c = bias + weight * (here @ there.T)
        p = (bias + weight * np.einsum("nk,nk->n", here, here))[:, None]
        q = (bias + weight * np.einsum("mk,mk->m", there, there))[None, :]
        stages = []
        for _ in range(self.depth):
            across, own_a, own_b = (ACTIVATIONS[self.activation](*args) for args in ((c, p, q), (p, p, p), (q, q, q)))
            stages.append((across, own_a, own_b))
            c, p, q = (bias + weight * layer.value for layer in (across, own_a, own_b))
        value = variance * c

        def back(cotangent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
            """dE/d(c, p, q) of the first layer, and what weight and bias got on the way."""
            by_c, by_p, by_q = variance * cotangent, np.zeros((len(a), 1)), np.zeros((1, len(b)))
            by_weight = by_bias = 0.0
            for across, own_a, own_b in reversed(stages):
                by_bias += float(by_c.sum() + by_p.sum() + by_q.sum())
                for by, layer in ((by_c, across), (by_p, own_a), (by_q, own_b)):
                    by_weight += float(np.einsum("ij,ij->", by, layer.value))
                along_a = own_a.by_c + own_a.by_p + own_a.by_q
                along_b = own_b.by_c + own_b.by_p + own_b.by_q
                by_p = weight * (by_p * along_a + (by_c * across.by_p).sum(axis=1, keepdims=True))
                by_q = weight * (by_q * along_b + (by_c * across.by_q).sum(axis=0, keepdims=True))
                by_c = weight * by_c * across.by_c
            return by_c, by_p, by_q, by_weight, by_bias

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            by_c, by_p, by_q, by_weight, by_bias = back(cotangent)
            by_bias += float(by_c.sum() + by_p.sum() + by_q.sum())
            inner = np.einsum("nk,nk->k", here, by_c @ there)
            inner += by_p[:, 0] @ here**2 + by_q[0] @ there**2
            by_weight += float(inner.sum())
            parts = [np.bincount(place, weights=-2.0 * weight * inner, minlength=len(lengths))]
            if self.variance is not None:
                parts.append(np.einsum("ij,ij->", cotangent, value)[None])
            return np.concatenate([*parts, [weight * by_weight, bias * by_bias]])

        def by_a(cotangent: np.ndarray) -> np.ndarray:
            by_c, by_p, _, _, _ = back(cotangent)
            return spread_out(weight * (by_c @ there + 2.0 * by_p * here) / scale, used, width)

        def by_b(cotangent: np.ndarray) -> np.ndarray:
            by_c, _, by_q, _, _ = back(cotangent)
            return spread_out(weight * (by_c.T @ here + 2.0 * by_q.T * there) / scale, used, width)

        return Evaluated(value, by_theta, by_a, by_b)

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        used, place, _ = chosen(self.on, axes)
        lengths, variance, weight, bias = self._read(theta)
        scale = np.exp(lengths)[place]
        here = a[:, used] / scale
        p = bias + weight * np.einsum("nk,nk->n", here, here)
        slope = (2.0 * weight * here / scale).T
        for _ in range(self.depth):
            layer = ACTIVATIONS[self.activation](p, p, p)
            slope = slope * weight * (layer.by_c + layer.by_p + layer.by_q)
            p = bias + weight * layer.value
        return Diagonal(variance * p, spread_out(variance * slope.T, used, a.shape[1]))

    def _read(self, theta: np.ndarray) -> tuple[np.ndarray, float, float, float]:
        """Log lengthscales, output variance, weight and bias variances."""
        weight, bias = math.exp(theta[-2]), math.exp(theta[-1])
        if self.variance is None:
            return theta[:-2], 1.0, weight, bias
        return theta[:-3], math.exp(theta[-3]), weight, bias
