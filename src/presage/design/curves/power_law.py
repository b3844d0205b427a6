"""Neural networks that foretell power laws from designs: an ensemble, each member about its own anchor.

A member k says of network i at step t, in squashed units,

    y(i, t) = a + b ((t / T)^-c - 1) + own_i(t) + noise,      (a, b, log c + 0.7) = member k at x_i,

`own` being an Ornstein-Uhlenbeck process of log t times a power of t, independent between networks. Weights are at the
mode of p(values | weights) N(weights | anchor, prior variance), the anchors being draws from the prior (arXiv
1810.05546), so that the members agree where there are values and differ elsewhere.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from presage.design.curves.base import CurveFit, CurveModel, CurvePosterior, Curves, Squash
from presage.kernels import Axes
from presage.surrogates.base import Marginal, State

__all__ = ["PowerLawEnsemble"]

RATE = 0.03
# Logarithms of own variance at the end, noise variance and own lengthscale in log t; the power by which own standard
# deviations fall with t. Mean and standard deviation before the data.
LAWS = (np.array([*np.log([0.1, 3e-3, 1.0]), 0.2]), np.array([1.0, 1.0, 0.5, 0.3]))


@dataclass(frozen=True)
class PowerLawEnsemble(CurveModel):
    """Networks with one hidden layer from designs to power laws.

    Args:
        members: networks of the ensemble.
        width: of their hidden layer.
        steps: of their training.
    """

    members: int = 8
    width: int = 32
    steps: int = 400

    def fit(
        self, curves: Curves, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> CurveFit:
        squash = Squash(*previous["squash"].tolist()) if keep and previous is not None else Squash.of(curves)
        features = Axes(curves.columns).features(curves.x)
        mean, stddev = prior(features.shape[1], self.width)
        if previous is None:
            anchor = mean + stddev * rng.standard_normal((self.members, len(mean)))
            anchor[:, -4:] = mean[-4:]  # what is no function of the design starts the same for all
            unit = np.zeros_like(anchor)
        else:
            anchor, unit = previous["anchor"], previous["unit"]
        laws = PowerLaws(features, curves.steps / curves.steps[-1], squash.forward(curves.values), anchor, stddev)
        if not (keep and previous is not None):
            unit = descend(laws, unit, self.steps)
        state = {"squash": np.array([squash.center, squash.scale]), "anchor": anchor, "unit": unit}
        return CurveFit(PowerLawPosterior(squash, laws, unit), state)


def prior(features: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the weights, for inputs about 0 that are at most 1 apart: inner weights and
    offsets, outer weights and levels of a, b and log c, laws of own part and noise."""
    parts = [
        (np.zeros(features * width), np.full(features * width, 3.0)), (np.zeros(width), np.full(width, 1.5)),
        (np.zeros(3 * width), np.tile(np.array([1.5, 0.5, 0.7]) / np.sqrt(width), width)),
        (np.array([0.0, 0.3, 0.0]), np.array([2.0, 0.5, 0.7])), LAWS,
    ]  # fmt: skip
    mean, stddev = (np.concatenate(each) for each in zip(*parts, strict=True))
    return mean, stddev


@dataclass(frozen=True)
class PowerLaws:
    """The members' laws of some curves; weights come as distances from the anchors in standard deviations.

    Attributes:
        features: of the networks, [n, D].
        u: steps as shares of the last, [c].
        z: squashed values, NaN where not known, [n, c].
        anchor: [members, p].
        stddev: of the weights before the data, [p].
    """

    features: np.ndarray
    u: np.ndarray
    z: np.ndarray = field(repr=False)
    anchor: np.ndarray = field(repr=False)
    stddev: np.ndarray = field(repr=False)

    @cached_property
    def patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """Which steps can be known together, [patterns, c], and which of these each network has, [n]."""
        some, which = np.unique(np.isfinite(self.z), axis=0, return_inverse=True)
        return some, which.reshape(-1)

    def parts(self, unit: np.ndarray) -> tuple[np.ndarray, ...]:
        """Inner weights [s, D, h], offsets [s, h], outer weights [s, h, 3], levels [s, 3], laws [s, 4]."""
        weights = self.anchor[: len(unit)] + self.stddev * unit
        d = self.features.shape[1]
        h = (weights.shape[1] - 7) // (d + 4)
        inner, offset, outer, level, laws = np.split(weights, np.cumsum([d * h, h, 3 * h, 3]), axis=1)
        return inner.reshape(-1, d, h), offset, outer.reshape(-1, h, 3), level, laws

    def means(self, unit: np.ndarray) -> tuple[np.ndarray, ...]:
        """What each member says without own parts, [s, n, c]; its power law; its outputs; its hidden layer."""
        inner, offset, outer, level, _ = self.parts(unit)
        hidden = np.tanh(self.features @ inner + offset[:, None])
        out = hidden @ outer + level[:, None]
        rate = np.exp(np.clip(out[..., 2], -2.0, 1.0) - 0.7)  # 0.5 in the middle, from 0.07 to 1.35
        power = self.u ** -rate[..., None] - 1.0
        return out[..., 0, None] + out[..., 1, None] * power, power, out, hidden

    def own(self, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The covariance of an own part [s, c, c], and the variance of the noise [s]."""
        variance, noise, length, fall = self.parts(unit)[4].T[..., None, None]
        clock = np.log(self.u)
        apart = np.abs(clock[:, None] - clock)
        own = np.exp(variance - fall * (clock[:, None] + clock) - apart / np.exp(length))
        return own, np.exp(noise[:, 0, 0])

    def inverses(self, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse covariance of what is known under each pattern, 0 elsewhere, and its log determinant."""
        own, noise = self.own(unit)
        some, _ = self.patterns
        eye = np.eye(len(self.u))
        # Steps that are not known are as if independent of all others with variance 1.
        both = some[:, :, None] & some[:, None]
        cov = np.where(both, (own + noise[:, None, None] * eye)[:, None], eye)
        return np.where(both, np.linalg.inv(cov), 0.0), np.linalg.slogdet(cov)[1]

    def energies(self, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-log p(values, weights) of each member up to a constant, [s], and derivatives, [s, p]."""
        _, _, outer, _, laws = self.parts(unit)
        mean, power, out, hidden = self.means(unit)
        own, noise = self.own(unit)
        inverse, log_det = self.inverses(unit)
        some, which = self.patterns
        count = np.bincount(which, minlength=len(some))
        apart = np.where(np.isfinite(self.z), self.z - mean, 0.0)
        alpha = np.matvec(inverse[:, which], apart)
        value = 0.5 * ((unit**2).sum(axis=1) + (apart * alpha).sum(axis=(1, 2)) + log_det @ count)
        inside = np.abs(out[..., 2] + 0.5) < 1.5
        rate = np.exp(np.clip(out[..., 2], -2.0, 1.0) - 0.7)
        by_c = out[..., 1] * rate * inside * np.vecdot(alpha, (power + 1.0) * np.log(self.u))
        by_out = np.stack([-alpha.sum(axis=-1), -np.vecdot(alpha, power), by_c], axis=-1)
        by_hidden = by_out @ outer.mT * (1.0 - hidden**2)
        cotangent = 0.5 * (np.einsum("spij,p->sij", inverse, count) - alpha.mT @ alpha)
        clock = np.log(self.u)
        lag = np.abs(clock[:, None] - clock)
        by_laws = [
            (cotangent * own).sum(axis=(1, 2)), noise * np.einsum("sii->s", cotangent),
            (cotangent * own * lag).sum(axis=(1, 2)) / np.exp(laws[:, 2]),
            -(cotangent * own * (clock[:, None] + clock)).sum(axis=(1, 2)),
        ]  # fmt: skip
        parts = [
            self.features.T @ by_hidden, by_hidden.sum(axis=1), hidden.mT @ by_out, by_out.sum(axis=1),
            np.stack(by_laws, axis=1),
        ]  # fmt: skip
        gradient = np.concatenate([part.reshape(len(unit), -1) for part in parts], axis=1)
        return value, unit + self.stddev * gradient


def descend(laws: PowerLaws, unit: np.ndarray, steps: int) -> np.ndarray:
    """Adam with a cosine decay. (Quasi-Newton descent ends at modes that foretell worse.)"""
    first, second = np.zeros_like(unit), np.zeros_like(unit)
    for step in range(1, steps + 1):
        slope = laws.energies(unit)[1]
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        rate = RATE * 0.5 * (1.0 + np.cos(np.pi * (step - 1) / steps))
        unit = unit - rate * (first / (1.0 - 0.9**step)) / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-8)
    return unit


@dataclass(frozen=True)
class PowerLawPosterior(CurvePosterior):
    """An equal mixture of the members, each given a network's own values so far."""

    squash: Squash
    laws: PowerLaws
    unit: np.ndarray

    @cached_property
    def _given(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances, noise included, under each member, [members, n, c]."""
        laws, known = self.laws, np.isfinite(self.laws.z)
        mean, *_ = laws.means(self.unit)
        own, noise = laws.own(self.unit)
        gain = own[:, None] @ laws.inverses(self.unit)[0]  # [members, patterns, c, c]
        left = np.einsum("kcc->kc", own)[:, None] - np.vecdot(gain, own[:, None])
        which = laws.patterns[1]
        after = mean + np.matvec(gain[:, which], np.where(known, laws.z - mean, 0.0))
        variance = np.maximum(left, 0.0)[:, which] + noise[:, None, None]
        return np.where(known, laws.z, after), np.where(known, 0.0, variance)

    def marginal(self, column: int = -1) -> Marginal:
        mean, variance = self._given
        return Marginal(mean[..., column], variance[..., column], np.full(len(mean), 1.0 / len(mean)))

    def sample(self, num: int, *, rng: np.random.Generator) -> np.ndarray:
        law = self.marginal()
        member = rng.integers(len(law.mean), size=num)  # the same for all networks of a draw
        return law.mean[member] + np.sqrt(law.variance[member]) * rng.standard_normal((num, law.mean.shape[1]))
