"""What network features with a linear head can be asked: a mixture, one Gaussian component per network."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from presage.kernels import Axes, features
from presage.observations import Column, Observations
from presage.surrogates.base import Draws, Marginal, Posterior, State
from presage.surrogates.joint import Joint
from presage.surrogates.linear_head import TINY, Weights, empty_factor, extend
from presage.surrogates.network import Bases, Basis
from presage.surrogates.representation import Rows
from presage.warping import Warp

BLOCK = 128  # points asked about at once
CHUNK = 8192  # rows whose features are in memory at once
WATCHED = 2048  # rows of least mean at the last fit, among which the incumbent is sought where there are many


class Seen(NamedTuple):
    """The rows as the heads see them: inputs [n, D], standardised values, latent values, known noise of these, [n]."""

    inputs: np.ndarray
    y: np.ndarray
    latent: np.ndarray
    known: np.ndarray

    @staticmethod
    def of(rows: Rows, warp: Warp) -> "Seen":
        return Seen(rows.inputs, rows.y, warp.forward(rows.y), rows.known * np.exp(2.0 * warp.log_slope(rows.y)))

    def chunks(self, basis: Basis, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices [m] of the rows chosen by a mask, and their features [m, M], some at a time."""
        chosen = np.flatnonzero(rows)
        for at in np.split(chosen, range(CHUNK, len(chosen), CHUNK)):
            yield at, basis(self.inputs[at])

    def factor(self, basis: Basis, rows: np.ndarray, noise: float, start: np.ndarray | None = None) -> np.ndarray:
        """The factor of some rows, each weighted by noise / (noise + its known noise)."""
        factor = empty_factor(basis.layout.num_features) if start is None else start
        for at, phi in self.chunks(basis, rows):
            weight = np.sqrt(noise / (noise + self.known[at]))
            factor = extend(factor, phi * weight[:, None], self.latent[at] * weight)
        return factor


class Member(NamedTuple):
    """A network, the law of its head, and the factor of the rows behind it."""

    basis: Basis
    weights: Weights
    factor: np.ndarray


@dataclass(frozen=True, repr=False)
class NeuralPosterior(Posterior):
    """A mixture, one component per network, of Gaussian laws that are linear in the network's features.

    Attributes:
        columns: of the points.
        members: the components.
        warp: from standardised values to latent ones.
        seen: the rows.
        fold: for each row the network that was trained without it, or -1.
        watch: the rows among which the incumbent is sought; all where None.
        more: inputs of points conditioned on later, [m, D].
    """

    columns: tuple[Column, ...]
    members: tuple[Member, ...]
    warp: Warp
    seen: Seen
    fold: np.ndarray
    watch: np.ndarray | None = None
    more: np.ndarray | None = None

    def facts(self) -> dict[str, Any]:
        return {"values": len(self.seen.y), "dimensions": len(self.columns), "networks": len(self.members)}

    @property
    def differentiable(self) -> bool:
        return True

    @cached_property
    def _weight(self) -> np.ndarray:
        return np.full(len(self.members), 1.0 / len(self.members))

    @cached_property
    def _bases(self) -> Bases:
        return Bases.of([member.basis for member in self.members])

    @cached_property
    def _mean(self) -> np.ndarray:
        """Of the heads' weights, [c, M]."""
        return np.array([member.weights.mean for member in self.members])

    @cached_property
    def _root(self) -> np.ndarray:
        """Of their covariances, [c, M, M]."""
        return np.array([member.weights.root for member in self.members])

    @cached_property
    def _covariance(self) -> np.ndarray:
        return np.array([member.weights.covariance for member in self.members])

    def marginal(self, x: np.ndarray) -> Marginal:
        at = features(x, self.columns)
        # In blocks that stay in the processor's cache.
        parts = [self._law(self._bases(block)) for block in np.split(at, range(BLOCK, len(at), BLOCK))]
        mean, variance = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        return Marginal(mean, variance, self._weight)

    def _law(self, phi: np.ndarray) -> Marginal:
        """The marginal at features [c, n, M]."""
        spread, floor = phi @ self._root, TINY * np.array([member.weights.noise for member in self.members])
        variance = np.einsum("cnm,cnm->cn", spread, spread) + floor[:, None]
        return Marginal((phi @ self._mean[..., None])[..., 0], variance, self._weight)

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        phi, pull = self._bases.with_slopes(features(x, self.columns))
        mean = np.broadcast_to(self._mean[:, None], phi.shape)
        slopes = Axes(self.columns).gradient(pull(np.stack([mean, 2.0 * phi @ self._covariance], axis=1)), x)
        return self._law(phi), slopes[:, 0], slopes[:, 1]

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        law = self.marginal(x)
        mean, variance = self.warp.moments(law.mean, law.variance)
        return Marginal(mean, variance, law.weight).moments()

    def transformed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.warp.forward(y)[None], self.warp.log_slope(y)[None]

    def restored(self, f: np.ndarray) -> np.ndarray:
        return self.warp.inverse(f)

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.draw(num, rng=rng).values(x)

    def draw(self, num: int, *, rng: np.random.Generator) -> "NeuralDraws":
        shares = np.bincount(np.arange(num) % len(self.members), minlength=len(self.members))
        drawn = tuple(member.weights.draw(share, rng) for member, share in zip(self.members, shares, strict=True))
        return NeuralDraws(self, drawn)

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), np.mean([member.weights.noise for member in self.members]))

    def condition(self, x: np.ndarray, y: np.ndarray) -> "NeuralPosterior":
        at, latent = features(x, self.columns), self.warp.forward(y)
        members = tuple(m._replace(weights=m.weights.and_rows(m.basis(at), latent)) for m in self.members)
        more = at if self.more is None else np.vstack([self.more, at])
        return replace(self, members=members, more=more)

    def joint(self, z: np.ndarray) -> "NeuralJoint":
        at = features(z, self.columns)
        return NeuralJoint(self, tuple(one.weights.covariance @ one.basis(at).T for one in self.members))

    def leave_one_out(self) -> np.ndarray:
        """By the network that was trained without the row, where there is one; its head without the row.

        With h = v' Cov(w) v / noise, the row's own leverage, leaving it out divides residual and noise by 1 - h.
        """
        density = np.empty((len(self.members), len(self.seen.y)))
        for c, (basis, weights, _) in enumerate(self.members):
            for at, phi in self.seen.chunks(basis, np.ones(len(self.seen.y), dtype=bool)):
                mean, variance = weights.moments(phi)
                noise = weights.noise + self.seen.known[at]
                left = np.maximum(1.0 - variance / noise, 1e-12)
                z = (self.seen.latent[at] - mean) ** 2 / (noise * left)
                density[c, at] = -0.5 * (z + np.log(2.0 * math.pi * noise / left))
        chosen = (self.fold == np.arange(len(self.members))[:, None]) | (self.fold < 0)
        density = np.where(chosen, density, -np.inf)
        mixed = np.logaddexp.reduce(density, axis=0) - np.log(chosen.sum(axis=0))
        return mixed + self.warp.log_slope(self.seen.y)

    def incumbent(self) -> float:
        rows = np.zeros(len(self.seen.y), dtype=bool)
        rows[slice(None) if self.watch is None else self.watch] = True
        least = self._means(rows)[rows].min()
        if self.more is not None:
            least = min(least, np.mean([m.basis(self.more) @ m.weights.mean for m in self.members], axis=0).min())
        return float(least)

    def _means(self, rows: np.ndarray) -> np.ndarray:
        """Posterior means at some rows, [n]; infinite at the others."""
        mean = np.where(rows, 0.0, np.inf)
        for basis, weights, _ in self.members:
            for at, phi in self.seen.chunks(basis, rows):
                mean[at] += phi @ weights.mean / len(self.members)
        return mean

    def remembered(self, data: Observations) -> State:
        """What a later fit need not compute again: the factors, the rows they hold, and the rows of least mean."""
        mean = self._means(np.ones(len(self.seen.y), dtype=bool))
        return {
            "factors": np.array([member.factor for member in self.members]),
            "sums": self.seen.inputs.sum(axis=0),
            "watch": np.flatnonzero(data.mask)[np.sort(np.argpartition(mean, WATCHED)[:WATCHED])],
        }  # fmt: skip


@dataclass(frozen=True)
class NeuralDraws(Draws):
    """Functions features(x)'w; draw i is of member i (mod members).

    Attributes:
        posterior: whose networks they share.
        weights: draws of each member's head, [share, M] each.
    """

    posterior: NeuralPosterior
    weights: tuple[np.ndarray, ...]

    def values(self, x: np.ndarray) -> np.ndarray:
        at, count = features(x, self.posterior.columns), len(self.weights)
        value = np.empty((sum(map(len, self.weights)), len(x)))
        for c, member in enumerate(self.posterior.members):
            value[c::count] = self.weights[c] @ member.basis(at).T
        return value

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at, count = features(x, self.posterior.columns), len(self.weights)
        axes, value = Axes(self.posterior.columns), self.values(x)
        gradient = np.empty((*value.shape, x.shape[1]))
        for c, (basis, _, _) in enumerate(self.posterior.members):
            pull = basis.with_slopes(at)[1]
            for i, w in enumerate(self.weights[c]):
                gradient[c + i * count] = axes.gradient(pull(np.broadcast_to(w, (len(x), len(w)))), x)
        return value, gradient


@dataclass(frozen=True)
class NeuralJoint(Joint):
    """cov(f(x), f(z)) = phi(x)' Cov(w) phi(z).

    Attributes:
        posterior: whose covariances these are.
        behind: Cov(w) phi(z) of each member, [M, m] each.
    """

    posterior: NeuralPosterior
    behind: tuple[np.ndarray, ...]

    def covariance(self, x: np.ndarray) -> np.ndarray:
        at = features(x, self.posterior.columns)
        pairs = zip(self.posterior.members, self.behind, strict=True)
        return np.array([member.basis(at) @ behind for member, behind in pairs])

    def covariance_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        axes, value = Axes(self.posterior.columns), self.covariance(x)
        at, slope = axes.features(x), np.empty((*value.shape, x.shape[1]))
        for c, (member, behind) in enumerate(zip(self.posterior.members, self.behind, strict=True)):
            pull = member.basis.with_slopes(at)[1]
            for j, one in enumerate(behind.T):
                slope[c, :, j] = axes.gradient(pull(np.broadcast_to(one, (len(x), len(one)))), x)
        return value, slope
