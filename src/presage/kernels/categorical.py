"""A kernel that learns which categories are alike."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from presage.kernels.axes import Axes
from presage.kernels.base import VARIANCE, Basis, Diagonal, Evaluated, Kernel, Spanned, variance_block
from presage.priors import Block, LogNormal, Prior


@dataclass(frozen=True)
class Categorical(Kernel):
    """variance * B[level of a, level of b], B = W W' / rank + diag(own): categories have places in a latent space.

    The other kernels hold all categories of a column equally far apart. Where the dimension is absent, the kernel is 0
    against every category; the absence is a category of its own with variance own = 1.

    Args:
        on: the column.
        rank: dimensions of the latent space.
        own: prior of the part of a category that it shares with no other.
        variance: prior of the variance, None for 1.
    """

    on: int
    rank: int = 2
    own: Prior = LogNormal(0.3, 1.0)
    variance: Prior | None = VARIANCE

    def blocks(self, axes: Axes) -> tuple[Block, ...]:
        levels = self._levels(axes)
        return (
            Block.real("place", 0.0, 1.0, levels * self.rank), *variance_block(self.variance),
            Block("own", self.own, levels, math.log(1e-3), math.log(1e2)),
        )  # fmt: skip

    def evaluate(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray, axes: Axes) -> Evaluated:
        places, variance, own = self._read(theta, axes)
        here, there = self._hot(a, axes), self._hot(b, axes)
        B = np.eye(len(own) + 1)  # the last row: absent
        B[:-1, :-1] = places @ places.T / self.rank + np.diag(own)
        value = variance * (here @ B @ there.T)

        def by_theta(cotangent: np.ndarray) -> np.ndarray:
            by_B = variance * (here.T @ cotangent @ there)[:-1, :-1]
            parts = [((by_B + by_B.T) @ places / self.rank).ravel()]
            if self.variance is not None:
                parts.append(np.einsum("ij,ij->", cotangent, value)[None])
            return np.concatenate([*parts, own * np.diag(by_B)])

        return Evaluated(value, by_theta, lambda cotangent: np.zeros_like(a), lambda cotangent: np.zeros_like(b))

    def diagonal(self, theta: np.ndarray, a: np.ndarray, axes: Axes) -> Diagonal:
        places, variance, own = self._read(theta, axes)
        each = np.append((places**2).sum(axis=1) / self.rank + own, 1.0)
        return Diagonal(variance * (self._hot(a, axes) @ each), np.zeros_like(a))

    def basis(self, theta: np.ndarray, axes: Axes, rng: np.random.Generator) -> Basis | None:
        places, variance, own = self._read(theta, axes)
        levels = len(own)
        root = np.zeros((levels + 1, self.rank + levels + 1))  # its square is B
        root[:-1, : self.rank] = places / math.sqrt(self.rank)
        root[:, self.rank :] = np.diag(np.sqrt(np.append(own, 1.0)))
        root *= math.sqrt(variance)
        return partial(self._places, root=root, axes=axes)

    def _places(self, a: np.ndarray, root: np.ndarray, axes: Axes) -> Spanned:
        return Spanned(self._hot(a, axes) @ root, lambda cotangent: np.zeros_like(a))

    def _levels(self, axes: Axes) -> int:
        column = axes.columns[self.on]
        if column.kind != "categorical":
            raise ValueError(f"Categorical needs a categorical column, but column {self.on} is {column.kind}")
        return column.levels or 0

    def _hot(self, a: np.ndarray, axes: Axes) -> np.ndarray:
        """One-hot levels with a last place for absence, [n, levels + 1]."""
        mine = np.flatnonzero(axes.owner == self.on)[: self._levels(axes)]
        hot = (a[:, mine] > 0.0).astype(float)
        return np.concatenate([hot, 1.0 - hot.sum(axis=1, keepdims=True)], axis=1)

    def _read(self, theta: np.ndarray, axes: Axes) -> tuple[np.ndarray, float, np.ndarray]:
        levels = self._levels(axes)
        places = theta[: levels * self.rank].reshape(levels, self.rank)
        variance = 1.0 if self.variance is None else math.exp(theta[levels * self.rank])
        return places, variance, np.exp(theta[-levels:])
