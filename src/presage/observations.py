"""What surrogates see: points of the unit cube, standardised values, and which rows failed or are pending."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from presage.space import Space

# Sizes for compiled surrogates. Up to 64 rows the work costs less than the compilation of a smaller program would.
SIZES = (64, 128, 256, 512, 768, 1024)

LOUD = 1e6  # a value with a larger standard error, in units of the values' spread, says nothing either


class Column(NamedTuple):
    """One column of the unit cube: continuous, ordinal or categorical; how many levels; whether it may be absent."""

    kind: str
    levels: int | None = None
    conditional: bool = False


def columns_of(space: Space) -> tuple[Column, ...]:
    """The columns of a space."""
    return tuple(Column(space[name].kind, space[name].levels, space[name].when is not None) for name in space.columns)


@dataclass(frozen=True)
class Observations:
    """A table of points, one row each, smaller values being better.

    Attributes:
        x: points, [n, d]; NaN in cells whose dimension does not exist there.
        y: standardised values, [n]; 0 in rows without a value.
        noise: known variance of each y about f, in the units of y, [n]; 0 where it was not told.
        mask: rows with a value, [n].
        failed: rows whose evaluation failed because of the point, [n].
        pending: rows that are being evaluated, [n].
        seconds: what each evaluation took, [n]; NaN where that is not known.
        center: what was subtracted from the values.
        scale: what they were then divided by.
        columns: what each column is.
    """

    x: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    mask: np.ndarray
    failed: np.ndarray
    pending: np.ndarray
    seconds: np.ndarray
    center: float
    scale: float
    columns: tuple[Column, ...]

    @property
    def count(self) -> int:
        """Number of rows with a value."""
        return int(self.mask.sum())

    def with_pending(self, point: np.ndarray) -> "Observations":
        """The table with one more pending row."""
        return replace(
            self, x=np.vstack([self.x, point]), y=np.append(self.y, 0.0), noise=np.append(self.noise, 0.0),
            mask=np.append(self.mask, False), failed=np.append(self.failed, False),
            pending=np.append(self.pending, True), seconds=np.append(self.seconds, np.nan),
        )  # fmt: skip

    def rescaled(self, center: float, scale: float) -> "Observations":
        """The table in other units, those of the table that a surrogate was fitted to."""
        y = np.where(self.mask, (self.center + self.scale * self.y - center) / scale, 0.0)
        return replace(self, y=y, noise=self.noise * (self.scale / scale) ** 2, center=center, scale=scale)

    def padded(self) -> "Observations":
        """The table with empty rows up to one of a few sizes, so that a growing study compiles few programs."""
        extra = padded(len(self.y)) - len(self.y)

        def rows(a: np.ndarray, fill: float | bool) -> np.ndarray:
            return np.concatenate([a, np.full((extra, *a.shape[1:]), fill, dtype=a.dtype)])

        return replace(
            self, x=rows(self.x, 0.5), y=rows(self.y, 0.0), noise=rows(self.noise, 0.0), mask=rows(self.mask, False),
            failed=rows(self.failed, False), pending=rows(self.pending, False), seconds=rows(self.seconds, np.nan),
        )  # fmt: skip


def observe(
    x: np.ndarray, values: np.ndarray, columns: tuple[Column, ...], *,
    stddev: np.ndarray | None = None, failed: np.ndarray | None = None, pending: np.ndarray | None = None,
    seconds: np.ndarray | None = None,
) -> Observations:  # fmt: skip
    """Standardise values and gather what is known of each row.

    Args:
        x: points, [n, d].
        values: smaller is better, [n]; NaN in rows without a value.
        columns: what each column is.
        stddev: standard errors of the values, NaN where unknown, [n].
        failed: rows whose evaluation failed, [n].
        pending: rows being evaluated, [n].
        seconds: what each evaluation took, NaN where unknown, [n].
    """
    count = len(x)
    mask = np.isfinite(values)
    # In units of a power of two about as large as the largest value, in which nothing overflows and nothing vanishes.
    unit = math.frexp(float(np.abs(values[mask]).max(initial=0.0)))[1]
    values = np.ldexp(np.where(mask, values, 0.0), -unit)
    center = float(values[mask].mean()) if mask.any() else 0.0
    spread = float(values[mask].std()) if mask.any() else 0.0
    # A spread of a few roundings is none; the unit of a constant objective is its own size.
    scale = spread if spread > 1e-14 * abs(center) else abs(center) or 1.0
    with np.errstate(over="ignore"):
        errors = np.zeros(count) if stddev is None else np.nan_to_num(np.ldexp(stddev, -unit) / scale)
    nothing = np.zeros(count, dtype=bool)
    return Observations(
        np.asarray(x, dtype=float).reshape(count, len(columns)), np.where(mask, (values - center) / scale, 0.0),
        np.minimum(errors, LOUD) ** 2, mask,
        nothing if failed is None else failed, nothing if pending is None else pending,
        np.full(count, np.nan) if seconds is None else seconds,
        math.ldexp(center, unit), math.ldexp(scale, unit), columns,
    )  # fmt: skip


def padded(count: int) -> int:
    """The padded size for so many rows.

    Example:
        >>> [padded(n) for n in (1, 64, 65, 1025, 3000)]
        [64, 64, 128, 1536, 3072]
    """
    for size in SIZES:
        if count <= size:
            return size
    size = SIZES[-1]
    while size < count:  # 1536, 2048, 3072, 4096, ...
        size += size // 2 if size & (size - 1) == 0 else size // 3
    return size
