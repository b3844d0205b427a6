"""What an observation says about where f is lowest: entropy search and predictive entropy search."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from presage.acquisitions.base import Acquisition, Context, OfJoint, Scale, Unprepared, must_be_whole
from presage.acquisitions.improvement import HALF_LOG_TAU, log_normal
from presage.acquisitions.representers import representers
from presage.surrogates.base import Marginal, Posterior
from presage.surrogates.joint import Joint

SWEEPS = 12  # of expectation propagation at most; it settles in five to eight
SCORES = np.linspace(-5.5, 5.5, 45)  # standard scores of the observation over which entropies are integrated
LEAST = 1e-4  # smallest variance of a standard score given the place of the minimum


class Minimum(NamedTuple):
    """The law of where f is lowest among m points, and of f given that place, as Gaussians.

    An observation whose standard score has the covariances a [m] with f at the points has, given that point i is the
    lowest, mean a'q_i and variance 1 - a'B_i a.

    Attributes:
        log_p: log probability that each point is the lowest, [m].
        q: [m, m], row i for point i.
        B: [m, m, m].
    """

    log_p: np.ndarray
    q: np.ndarray
    B: np.ndarray


def minimum_law(mean: np.ndarray, covariance: np.ndarray, sweeps: int = SWEEPS) -> Minimum:
    """Expectation propagation for f_j >= f_i, all j, for every i at once (Hennig & Schuler, 2012, arXiv 1112.1217).

    For each i the differences g_j = f_j - f_i have mean G and covariance K; row j = i is 0 and stays idle. Factor j is
    approximated by exp(nu_j g_j - tau_j g_j^2 / 2). With W = (K + 1/tau)^-1, the law of anything Gaussian that has
    covariances a_g with g changes by means a_g'((I - W K) nu - W G) and variances -a_g'W a_g.

    Args:
        mean: of f at the points, [m].
        covariance: [m, m].
        sweeps: over all factors, at most.
    """
    m = len(mean)
    G = mean - mean[:, None]
    own = np.diag(covariance)
    K = covariance + own[:, None, None] - covariance[:, :, None] - covariance[:, None, :]
    idle = np.arange(m)
    least = 1e-12 * own.max(initial=1e-300)
    # Differences that are 40 standard deviations on the wrong side make a place impossible, more would only overflow.
    K[:, idle, idle] = np.maximum(K[:, idle, idle], np.maximum(least, (np.minimum(G, 0.0) / 40.0) ** 2))
    K[idle, idle, :] = K[idle, :, idle] = 0.0
    tau, nu = np.zeros((2, m, m))
    g, P = G.copy(), K.copy()
    log_scale = np.zeros((m, m))
    for _ in range(sweeps):
        before = log_scale.copy()
        for j in range(m):
            busy = idle != j
            variance = np.maximum(P[busy, j, j], least)
            center = g[busy, j]
            remain = np.maximum(1.0 - tau[busy, j] * variance, 1e-6)
            v = variance / remain  # the cavity
            c = (center - nu[busy, j] * variance) / remain
            z = np.maximum(c / np.sqrt(v), -1e3)
            log_z, psi = log_normal(z)
            delta = np.maximum(psi * (z + psi), 0.0)
            new_tau = delta / ((1.0 - delta) * v)
            new_nu = (c + np.sqrt(v) * psi) / (v * (1.0 - delta)) - c / v
            # int N(g; c, v) exp(nu g - tau g^2 / 2) dg is what the factor's approximation is scaled by.
            grown = 1.0 + new_tau * v
            log_scale[busy, j] = log_z + 0.5 * np.log(grown) - 0.5 * (
                (2.0 * c * new_nu + new_nu**2 * v - c**2 * new_tau) / grown
            )  # fmt: skip
            more = new_tau - tau[busy, j]
            push = (new_nu - nu[busy, j] - more * center) / (1.0 + more * variance)
            shrink = more / (1.0 + more * variance)
            row = P[busy, :, j]
            g[busy] += push[:, None] * row
            P[busy] -= shrink[:, None, None] * row[:, :, None] * row[:, None, :]
            tau[busy, j], nu[busy, j] = new_tau, new_nu
        if np.abs(log_scale - before).max(initial=0.0) < 1e-6:
            break
    root = np.sqrt(np.maximum(tau, 0.0))
    inner = np.eye(m) + root[:, :, None] * K * root[:, None, :]
    W = root[:, :, None] * np.linalg.solve(inner, np.eye(m) * root[:, None, :])
    Kn, WG = np.einsum("ijk,ik->ij", K, nu), np.einsum("ijk,ik->ij", W, G)
    WKn = np.einsum("ijk,ik->ij", W, Kn)
    log_z = log_scale.sum(axis=1) - 0.5 * np.linalg.slogdet(inner)[1] + np.sum(
        nu * G + 0.5 * nu * Kn - 0.5 * Kn * WKn - Kn * WG - 0.5 * G * WG, axis=1
    )  # fmt: skip
    from_g = np.eye(m) - np.eye(m)[:, None, :]  # [i, j, k]: how f_k enters f_j - f_i
    q = np.einsum("ij,ijk->ik", nu - WKn - WG, from_g)
    B = np.einsum("ijk,ijl,ilm->ikm", from_g, W, from_g, optimize=True)
    return Minimum(log_z - np.logaddexp.reduce(log_z), q, B)


@dataclass(frozen=True)
class EntropySearch(Unprepared):
    """How much an observation at x is expected to lower the entropy of where f is lowest (Hennig & Schuler, 2012).

    Among representer points, drawn from that very law; its probabilities and how they would change come from
    expectation propagation. Where Hennig & Schuler expand the change to second order, the probabilities are multiplied
    by the Gaussian likelihood of the observation given the place, of which theirs is the expansion.

    Args:
        points: representers.
    """

    scale: ClassVar[Scale] = "positive"
    points: int = 32

    def __post_init__(self) -> None:
        must_be_whole(2, points=self.points)  # where one place is known to be the lowest there is nothing to learn

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        return PreparedEntropy(*_tables(posterior, representers(posterior, context, rng, self.points))[:2])


@dataclass(frozen=True)
class PredictiveEntropySearch(Unprepared):
    """How much the entropy of an observation at x falls when the place of the minimum is told.

    The same information as in entropy search, taken from the other side (Hernandez-Lobato et al., 2014, arXiv
    1406.2541): for each place the law of f(x) is Gaussian after expectation propagation over the representers and one
    more factor, f(x) >= f(place).

    Args:
        points: representers.
    """

    scale: ClassVar[Scale] = "positive"
    points: int = 32

    def __post_init__(self) -> None:
        must_be_whole(2, points=self.points)

    def prepare(self, posterior: Posterior, context: Context, *, rng: np.random.Generator) -> Acquisition:
        joint, laws, means, covariances = _tables(posterior, representers(posterior, context, rng, self.points))
        return PreparedPredictive(joint, laws, tuple(map(_Told.of, laws, means, covariances)))


def _tables(posterior: Posterior, points: np.ndarray) -> tuple[Joint, tuple[Minimum, ...], np.ndarray, np.ndarray]:
    """Of the law at the points: covariances with elsewhere, where the minimum is, means, covariances."""
    joint = posterior.joint(points)
    law, covariance = joint.law(posterior.marginal(points)), joint.covariance(points)
    # Neighbours have nearly the same values. Expectation propagation needs digits in their differences: with 1e-9 it
    # overflowed in one of thirty tables of a random forest, all of whose points in a leaf go together.
    eigenvalues, vectors = np.linalg.eigh(0.5 * (covariance + covariance.transpose(0, 2, 1)))
    eigenvalues = np.maximum(eigenvalues, 1e-7 * eigenvalues[:, -1:])
    covariance = (vectors * eigenvalues[:, None]) @ vectors.transpose(0, 2, 1)
    return joint, tuple(map(minimum_law, law.mean, covariance)), law.mean, covariance


@dataclass(frozen=True)
class PreparedEntropy(OfJoint):
    """Mutual information of the observation's standard score and the place of the minimum, one table per component."""

    scale: ClassVar[Scale] = "positive"
    joint: Joint
    laws: tuple[Minimum, ...]

    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        value, by_variance, by_covariance = np.zeros(law.mean.shape[1]), *map(np.zeros_like, (law.mean, covariance))
        for c, weight in enumerate(law.weight):
            total = law.variance[c] + noise
            a = covariance[c] / np.sqrt(total)[:, None]
            gain, by_a = _information(a, self.laws[c])
            value += weight * gain
            by_covariance[c] = weight * by_a / np.sqrt(total)[:, None]
            by_variance[c] = -0.5 * weight * np.vecdot(by_a, a) / total
        return value, np.zeros_like(law.mean), by_variance, by_covariance


def _information(a: np.ndarray, law: Minimum) -> tuple[np.ndarray, np.ndarray]:
    """I(score; place) for covariances a [n, m], and its derivatives in a."""
    Ba = np.einsum("ikm,nm->nik", law.B, a, optimize=True)
    mean, spread = a @ law.q.T, 1.0 - np.einsum("nik,nk->ni", Ba, a)
    kept = spread > LEAST
    spread = np.where(kept, spread, LEAST)
    away = SCORES - mean[..., None]  # [n, i, w]
    log_density = -0.5 * away**2 / spread[..., None] - 0.5 * np.log(spread)[..., None] - HALF_LOG_TAU
    weighted = log_density + law.log_p[:, None]
    highest = weighted.max(axis=1, keepdims=True)
    p = np.exp(law.log_p)[:, None]
    log_mix = highest + np.log(np.sum(np.exp(weighted - highest), axis=1, keepdims=True))
    step = SCORES[1] - SCORES[0]
    part = step * p * np.exp(log_density) * (log_density - log_mix)  # its sum is the information
    by_mean = np.sum(part * away, axis=2) / spread
    by_spread = 0.5 * np.sum(part * (away**2 / spread[..., None] - 1.0), axis=2) / spread
    by_a = by_mean @ law.q - 2.0 * np.einsum("ni,nik->nk", np.where(kept, by_spread, 0.0), Ba)
    return part.sum(axis=(1, 2)), by_a


class _Told(NamedTuple):
    """f at each place given that it is the lowest: mean [m], variance [m], and what covariances with f(x) become."""

    mean: np.ndarray
    variance: np.ndarray
    carry: np.ndarray  # [m, m]: cov(f(x), f_i | i is lowest) = k . carry_i

    @staticmethod
    def of(law: Minimum, mean: np.ndarray, covariance: np.ndarray) -> "_Told":
        carry = np.eye(len(mean)) - np.einsum("ikm,mi->ik", law.B, covariance)
        return _Told(
            mean + np.vecdot(law.q, covariance), np.maximum(np.einsum("ik,ki->i", carry, covariance), 0.0), carry
        )


@dataclass(frozen=True)
class PreparedPredictive(OfJoint):
    """Entropy of the observation less its mean entropy given the place, one table per component."""

    scale: ClassVar[Scale] = "positive"
    joint: Joint
    laws: tuple[Minimum, ...]
    told: tuple[_Told, ...]

    def score(
        self, law: Marginal, covariance: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        value, by_mean, by_variance = np.zeros(law.mean.shape[1]), *map(np.zeros_like, (law.mean, law.mean))
        by_covariance = np.zeros_like(covariance)
        for c, weight in enumerate(law.weight):
            parts = _entropy_lost(law.mean[c], law.variance[c], covariance[c], noise, self.laws[c], self.told[c])
            value += weight * parts[0]
            by_mean[c], by_variance[c], by_covariance[c] = (weight * part for part in parts[1:])
        return value, by_mean, by_variance, by_covariance


def _entropy_lost(
    mean: np.ndarray, variance: np.ndarray, k: np.ndarray, noise: np.ndarray, law: Minimum, told: _Told
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """H(y) - sum_i p_i H(y | i lowest), and its derivatives in mean, variance [n] and covariances k [n, m]."""
    p, v = np.exp(law.log_p), variance[:, None]
    Bk = np.einsum("ikm,nm->nik", law.B, k, optimize=True)
    left = v - np.einsum("nik,nk->ni", Bk, k)  # variance of f(x) given i
    inside = left > LEAST * v
    left = np.where(inside, left, LEAST * v)
    with_place = k @ told.carry.T
    # The difference f(x) - f_i given i: mean d, variance w, covariance r with f(x); its truncation to d >= 0.
    d = mean[:, None] + k @ law.q.T - told.mean
    w = left + told.variance - 2.0 * with_place
    apart = w > 1e-6 * v
    w = np.where(apart, w, 1e-6 * v)
    r = np.where(apart, left - with_place, 0.0)
    gamma = d / np.sqrt(w)
    psi = log_normal(gamma)[1]
    delta = psi * (gamma + psi)
    cut = r * r * delta / w
    total = np.maximum(left - cut, LEAST * left) + noise[:, None]
    value = 0.5 * np.log(variance + noise) - 0.5 * np.log(total) @ p
    # Backwards through the lines above.
    to = -0.5 * p / total
    bent = left - cut > LEAST * left
    by_cut = np.where(bent, -to, 0.0)
    by_left = np.where(bent, to, LEAST * to)
    by_gamma = by_cut * r * r / w * (psi * (1.0 - delta) - delta * (gamma + psi))
    by_d = by_gamma / np.sqrt(w)
    by_r = np.where(apart, by_cut * 2.0 * r * delta / w, 0.0)
    by_w = -by_cut * cut / w - 0.5 * by_gamma * gamma / w
    by_v = np.where(apart, 0.0, 1e-6 * by_w)
    by_w = np.where(apart, by_w, 0.0)
    by_left = by_left + by_w + by_r
    by_place = -2.0 * by_w - by_r
    by_v = by_v + np.where(inside, by_left, LEAST * by_left)
    by_left = np.where(inside, by_left, 0.0)
    by_k = by_d @ law.q + by_place @ told.carry - 2.0 * np.einsum("ni,nik->nk", by_left, Bk)
    return value, by_d.sum(axis=1), by_v.sum(axis=1) + 0.5 / (variance + noise), by_k
