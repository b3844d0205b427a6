"""A monotone transformation of values that spreads out the good ones and draws the bad ones together."""

import math
from typing import NamedTuple

import numpy as np

CROWD = 1e-5  # of the mean distance: values closer to the least one would set a unit that warps all others away


def power(u: np.ndarray, exponent: float) -> tuple[np.ndarray, np.ndarray]:
    """((1 + t)^exponent - 1) / exponent, u = log(1 + t) at exponent 0, for t >= 0; and its derivative in the exponent.

    Box & Cox (1964). Written as u expm1(w) / w with w = exponent u, it has no pole at 0.
    """
    w = exponent * u
    small = np.abs(w) < 1e-3
    safe = np.where(small, 1.0, w)
    ratio = np.where(small, 1.0 + w * (0.5 + w / 6.0), np.expm1(safe) / safe)
    slope = np.where(small, 0.5 + w * (1.0 / 3.0 + w / 8.0), (np.exp(safe) * (safe - 1.0) + 1.0) / safe**2)
    return u * ratio, u * u * slope


class Warp(NamedTuple):
    """From standardised values to latent ones: power((y - low) / unit) standardised anew; a straight line below low.

    Attributes:
        low: the least value.
        unit: the median distance from it of those that are not where a search has converged to, which count once.
        exponent: 1 changes nothing, 0 is a logarithm.
        center, scale: of the transformed values.
        most: distances beyond this many units are not believed when a latent value is undone: thrice the largest seen.
            A negative exponent sends latent values near their bound to infinity, and means of predictions with them.
    """

    low: float = 0.0
    unit: float = 1.0
    exponent: float = 1.0
    center: float = 0.0
    scale: float = 1.0
    most: float = 1e6

    @staticmethod
    def of(y: np.ndarray, exponent: float) -> tuple["Warp", np.ndarray, np.ndarray, float]:
        """The warp for some values; the latent values and their derivative in the exponent; that of log scale."""
        return Warp.at(*Warp.units(y), exponent)

    @staticmethod
    def units(y: np.ndarray) -> tuple[float, float, np.ndarray]:
        """What all warps of some values share: the least one, the unit, and log(1 + t), [n]."""
        low = float(y.min())
        distance = y - low
        mean = float(distance.mean())
        unit = float(np.median(np.append(distance[distance > CROWD * mean], 0.0))) or mean or 1.0
        return low, unit, np.log1p(distance / unit)

    @staticmethod
    def at(
        low: float, unit: float, stretch: np.ndarray, exponent: float
    ) -> tuple["Warp", np.ndarray, np.ndarray, float]:
        """See `of`."""
        latent, slope = power(stretch, exponent)
        most = 3.0 * math.expm1(float(stretch.max())) or 1e6
        center = float(latent.mean())
        scale = float(latent.std()) or 1.0
        latent = (latent - center) / scale
        log_scale_slope = float((latent * slope).mean()) / scale
        slope = (slope - slope.mean()) / scale - latent * log_scale_slope
        return Warp(low, unit, exponent, center, scale, most), latent, slope, log_scale_slope

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """log d latent / d y."""
        stretch = np.log1p(np.maximum(y - self.low, 0.0) / self.unit)
        return (self.exponent - 1.0) * stretch - math.log(self.unit * self.scale)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Latent values."""
        t = (y - self.low) / self.unit
        return (np.where(t > 0.0, power(np.log1p(np.maximum(t, 0.0)), self.exponent)[0], t) - self.center) / self.scale

    def inverse(self, latent: np.ndarray) -> np.ndarray:
        """Standardised values. A negative exponent bounds the latent values; what lies beyond is cut off."""
        b = latent * self.scale + self.center
        up = np.maximum(b, 0.0)
        if abs(self.exponent) < 1e-8:
            t = np.expm1(np.minimum(up, 50.0))
        else:
            base = np.maximum(1.0 + self.exponent * up, 1e-3)
            t = np.minimum(base ** (1.0 / self.exponent), 1e6) - 1.0
        return self.low + self.unit * np.where(b > 0.0, np.minimum(t, self.most), b)

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the standardised value whose latent one is Gaussian, by Gauss-Hermite quadrature."""
        if self.exponent == 1.0:
            factor = self.unit * self.scale
            return self.low + factor * (mean + self.center / self.scale), factor**2 * variance
        at, weight = np.polynomial.hermite_e.hermegauss(20)
        weight = weight / weight.sum()
        values = self.inverse(mean[..., None] + np.sqrt(variance)[..., None] * at)
        first = values @ weight
        return first, np.maximum((values - first[..., None]) ** 2 @ weight, 0.0)
