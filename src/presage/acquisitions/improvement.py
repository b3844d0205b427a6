"""Acquisitions built on the improvement over the incumbent."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from presage.acquisitions.base import Context, OfMarginal, Scale
from presage.surrogates.base import Marginal

HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
# (1 + a^2) (1 - a R(a)) for a >= 0, R being the Mills ratio, as a polynomial in t = (a - 5) / (a + 5), highest power
# first: Chebyshev interpolation of degree 24 in 60-digit arithmetic, relative error 2e-16 everywhere.
_MILLS = (
    -1.4034428348104772e-08, -4.329984744135412e-09, 1.5669388189516878e-07, 5.994717193600906e-08,
    -1.0360731441010325e-06, -4.1682298042465923e-07, 5.931659627496075e-06, 1.3937027038914122e-06,
    -3.4207341373104744e-05, 9.570421898177627e-06, 0.00019748148809526432, -0.0002593656940891847,
    -0.0009206257988343888, 0.003291327942418436, -0.000674417974680936, -0.022049054743445956, 0.07951561566692279,
    -0.16268735793719447, 0.22239859277101326, -0.19057251230031547, 0.041239512463403794, 0.1591065930062705,
    -0.2766733765294343, 0.21315976680754728, 0.9349463870089506,
)  # fmt: skip


def log_improvement(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log(phi(z) + z Phi(z)), the logarithm of the expected improvement in standard units, and its derivative.

    With a = |z| and the Mills ratio R(a) = Phi(-a) / phi(a), the argument is phi(a) G(a), G(a) = 1 - a R(a), for
    z <= 0, and z more than that for z > 0. G falls like 1/a^2 and would lose its digits as a difference, so
    (1 + a^2) G is one polynomial and there is no branch far from the incumbent. The derivative is
    Phi(z) / (phi(z) + z Phi(z)): R / G on the left, (1 - phi R) / value on the right.
    (Why logarithms: Ament et al., 2023, arXiv 2310.20708.)
    """
    a = np.abs(z)
    G = np.polyval(_MILLS, (a - 5.0) / (a + 5.0)) / (1.0 + a * a)
    # R = (1 - G) / a has no digits left near 0; its Taylor series (R' = -G) has an error below 1e-14 there.
    series = math.sqrt(math.pi / 2) * (1.0 + 0.5 * a * a) - a * (1.0 + a * a / 3.0)
    R = np.where(a < 1e-3, series, (1.0 - G) / np.maximum(a, 1e-3))
    log_density = -0.5 * a * a - HALF_LOG_TAU
    return _either_side(z, log_density, G, R)


def log_improvement_t(z: np.ndarray, df: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for a Student-t law: log of (df + z^2) / (df - 1) t(z) + z T(z), and its derivative T / (that).

    Written with a = |z| and the ratio R = T(-a) / t(a), as for the normal law, it never underflows.

    Args:
        z: standard scores, [...].
        df: degrees of freedom, larger than 1, broadcast to z.
    """
    if (df <= 1.0).any():
        raise ValueError(f"a Student-t law has a mean where df > 1 only, but got df={df.min()}")
    a = np.abs(z)
    log_density, R = student_tail(a, df)
    G = (df + a * a) / (df - 1.0) - a * R
    return _either_side(z, log_density, G, R)


def _either_side(z: np.ndarray, log_density: np.ndarray, G: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of the expected improvement and its derivative, from those at -|z|, which are density times G and times R."""
    log_tail = np.log(G) + log_density
    above = np.maximum(z, 0.0) + np.exp(log_tail)
    value = np.where(z > 0.0, np.log(np.maximum(above, 1e-300)), log_tail)
    slope = np.where(z > 0.0, (1.0 - np.exp(log_density) * R) / np.where(z > 0.0, above, 1.0), R / G)
    return value, slope


def student_tail(a: np.ndarray, df: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density of Student's t at a >= 0, and the ratio T(-a) / t(a)."""
    from scipy.special import gammaln, stdtr  # costs 0.2 s to import

    constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * math.pi)
    log_density = constant - 0.5 * (df + 1.0) * np.log1p(a * a / df)
    # Beyond 2 by the continued fraction of the incomplete beta function, I_x(df/2, 1/2) with x = df / (df + a^2): the
    # power of x in front of it is that of the density, so that only the fraction is left. It converges at once for
    # large a; nearer to the middle the distribution function has all its digits.
    far = np.maximum(a, 2.0)
    tail = far / df * _beta_fraction(0.5 * df, 0.5, df / (df + far * far))
    return log_density, np.where(a > 2.0, tail, stdtr(df, -np.minimum(a, 2.0)) / np.exp(_near(a, df, constant)))


def _near(a: np.ndarray, df: np.ndarray, constant: np.ndarray) -> np.ndarray:
    near = np.minimum(a, 2.0)
    return constant - 0.5 * (df + 1.0) * np.log1p(near * near / df)


def _beta_fraction(p: np.ndarray, q: float, x: np.ndarray, most: int = 400) -> np.ndarray:
    """I_x(p, q) p B(p, q) / (x^p (1 - x)^q) by its continued fraction (DLMF 8.17.22), Lentz's algorithm."""
    tiny = 1e-300
    numerator, denominator = np.ones_like(x), 1.0 / (1.0 - (p + q) * x / (p + 1.0))
    value, moving = denominator.copy(), np.ones(np.shape(x), dtype=bool)
    for k in range(1, most):
        for step in (
            k * (q - k) * x / ((p + 2 * k - 1) * (p + 2 * k)),
            -(p + k) * (p + q + k) * x / ((p + 2 * k) * (p + 2 * k + 1)),
        ):
            denominator = 1.0 / np.where(np.abs(1.0 + step * denominator) < tiny, tiny, 1.0 + step * denominator)
            numerator = np.where(np.abs(1.0 + step / numerator) < tiny, tiny, 1.0 + step / numerator)
            factor = numerator * denominator
            value = np.where(moving, value * factor, value)
        # What has settled is left alone: further factors are 1 up to rounding, and their roundings would add up.
        moving &= np.abs(factor - 1.0) > 4e-16
        if not moving.any():
            break
    return value


@dataclass(frozen=True)
class LogExpectedImprovement(OfMarginal):
    """log E[max(best - margin - f(x), 0)], averaged over the posterior's components.

    Args:
        margin: how much better than the incumbent counts, in standardised units.
    """

    scale: ClassVar[Scale] = "logarithm"
    margin: float = 0.0

    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sigma = np.sqrt(law.variance)
        z = (context.best - self.margin - law.mean) / sigma
        log_h, slope = log_improvement(z) if law.df is None else log_improvement_t(z, law.df[:, None])
        value, share = averaged(log_h + np.log(sigma), law.weight)
        return value, -share * slope / sigma, share * (1.0 - z * slope) / (2.0 * law.variance)


@dataclass(frozen=True)
class CappedImprovement(OfMarginal):
    """Log expected improvement that gives at most kappa of mean for a unit of spread: it finishes the basin it is in.

    E[max(best - f, 0)] = sigma h(z), z = (best - mean) / sigma, gives up h(z) / h'(z) - z of mean for a unit of sigma.
    That grows like -z: the less is left to gain, the further away expected improvement looks. So h is followed down to
    z0, where kappa is given, and its tangent there below,

        sigma h(z0) (z + kappa) / (z0 + kappa) for z < z0,

    which is a confidence bound kappa wide. Near -kappa, where a tangent ends, its logarithm goes on in a straight
    line, so that slopes still say where to go. Functions of one basin are found to more decimals; a search that is
    in the wrong basin stays there, which is why it is not the default (docs/benchmarks.md).

    Args:
        kappa: what is given at most.
        margin: how much better than the incumbent counts, in standardised units.
    """

    scale: ClassVar[Scale] = "logarithm"
    kappa: float = 1.5
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not LEAST_KAPPA <= self.kappa < math.inf:
            raise ValueError(f"kappa must be finite and at least {LEAST_KAPPA}, but got kappa={self.kappa}")

    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sigma = np.sqrt(law.variance)
        z = (context.best - self.margin - law.mean) / sigma
        log_h, slope = log_improvement(z) if law.df is None else log_improvement_t(z, law.df[:, None])
        degrees = [None] * len(law.mean) if law.df is None else law.df.tolist()
        at, log_at, slope_at = np.array([tangent(self.kappa, df) for df in degrees]).T[:, :, None]
        left = 1.0 + slope_at * (z - at)  # of h(z0), along the tangent
        end = np.maximum(left, NEARLY)
        below = log_at + np.log(end) + np.minimum(left - NEARLY, 0.0) / NEARLY
        log_h, slope = np.where(z < at, below, log_h), np.where(z < at, slope_at / end, slope)
        value, share = averaged(log_h + np.log(sigma), law.weight)
        return value, -share * slope / sigma, share * (1.0 - z * slope) / (2.0 * law.variance)


LEAST_KAPPA = 1e-3
NEARLY = 0.05  # of h(z0): where a tangent counts as ended; what is worth trying lies far above


class Tangent(NamedTuple):
    """Where h gives kappa of mean for a unit of spread: z0, log h and h'/h there."""

    at: float
    log_h: float
    slope: float


@lru_cache(maxsize=1024)
def tangent(kappa: float, df: float | None = None) -> Tangent:
    """The tangent to h that is a confidence bound kappa wide; of a Student-t law where df is given.

    h / h' - z falls as z grows, since h is convex, to 0, and is never less than -z: the root lies above -kappa.
    """

    def log_h(z: float) -> tuple[float, float]:
        one = np.array([z])
        value, slope = log_improvement(one) if df is None else log_improvement_t(one, np.array([df]))
        return float(value[0]), float(slope[0])

    def more(z: float) -> bool:
        return 1.0 / log_h(z)[1] - z > kappa

    low, high = -kappa, 1.0
    while more(high):
        high *= 2.0
    while low < (middle := 0.5 * (low + high)) < high and high - low > 1e-13 * max(1.0, abs(low)):
        low, high = (middle, high) if more(middle) else (low, middle)
    return Tangent(low, *log_h(low))


@dataclass(frozen=True)
class ExpectedImprovement(OfMarginal):
    """E[max(best - margin - f(x), 0)], averaged over components.

    Its maximum is where that of its logarithm is, but far from the incumbent it is flat to machine precision:
    LogExpectedImprovement is the one to search with.

    Args:
        margin: how much better than the incumbent counts, in standardised units.
    """

    scale: ClassVar[Scale] = "positive"
    margin: float = 0.0

    def logarithm(self) -> LogExpectedImprovement:
        return LogExpectedImprovement(self.margin)

    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        log_value, by_mean, by_variance = LogExpectedImprovement(self.margin).score(law, context)
        value = np.exp(log_value)
        return value, value * by_mean, value * by_variance


@dataclass(frozen=True)
class ProbabilityOfImprovement(OfMarginal):
    """log P[f(x) < best - margin], averaged over components before the logarithm is taken.

    Args:
        margin: how much better than the incumbent counts, in standardised units; without one, points next to the
            incumbent are preferred to all others.
    """

    scale: ClassVar[Scale] = "logarithm"
    margin: float = 0.01

    def score(self, law: Marginal, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sigma = np.sqrt(law.variance)
        z = (context.best - self.margin - law.mean) / sigma
        log_p, slope = log_normal(z) if law.df is None else log_student(z, law.df[:, None])
        value, share = averaged(log_p, law.weight)
        return value, -share * slope / sigma, -share * slope * z / (2.0 * law.variance)


def log_normal(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log Phi(z) and its derivative phi / Phi, however far out."""
    from scipy.special import erfcx, log_ndtr  # costs 0.2 s to import

    # phi / Phi = 1 / R(-z), and R(a) = sqrt(pi / 2) erfcx(a / sqrt(2)); for z > 0 both parts are of ordinary size.
    left = math.sqrt(2.0 / math.pi) / erfcx(np.maximum(-z, 0.0) / math.sqrt(2.0))
    right = np.maximum(z, 0.0)
    return log_ndtr(z), np.where(z < 0.0, left, np.exp(-0.5 * right * right - HALF_LOG_TAU - log_ndtr(right)))


def log_student(z: np.ndarray, df: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log T(z) and its derivative t / T."""
    log_density, R = student_tail(np.abs(z), df)
    left = log_density + np.log(R)
    right = np.log1p(-np.exp(np.where(z > 0.0, left, -np.inf)))
    return np.where(z > 0.0, right, left), np.where(z > 0.0, np.exp(log_density - right), 1.0 / R)


def averaged(parts: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log sum_c weight_c exp(parts_c), [n], and each component's share in it, [c, n]."""
    parts = parts + np.log(weight[:, None])
    highest = parts.max(axis=0)
    share = np.exp(parts - highest)
    total = share.sum(axis=0)
    return highest + np.log(total), share / total
