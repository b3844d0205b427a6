"""One look for all figures: colours that the colour-blind can tell apart, and shapes that say the same."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from presage.dimensions import Choice, Dimension, Float, Int

# Okabe & Ito (2008): distinct for every common kind of colour blindness, and in grey by their order.
BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000",
)  # fmt: skip
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = {"initial": "o", "model": "^", "random": "s", "enqueued": "D", "told": "P"}
RC = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.5, "legend.frameon": False,
    "lines.linewidth": 1.5, "savefig.dpi": 120, "figure.dpi": 120, "text.parse_math": False,
}  # fmt: skip
SEVERAL_DECADES = 300.0  # ratio of largest to smallest distance from the best above which an axis is logarithmic


@contextmanager
def figure(rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.0, 3.6), **more: Any) -> Iterator[tuple]:
    """A figure and its axes [rows, columns]; settings hold inside the block only."""
    with rc_context(cast(Any, RC)):
        made = Figure(figsize=size, layout="constrained")
        yield made, made.subplots(rows, columns, squeeze=False, **more)


def label(text: Any, most: int = 40) -> str:
    """A user's text as it is, not as mathematics, not too long, and without what no font has."""
    shown = "".join(c if c.isprintable() else "?" for c in str(text))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def positions(dimension: Dimension, values: Sequence[Any]) -> np.ndarray:
    """Where values lie on an axis of the user's units: numbers as they are, options at 0, 1, 2, ..."""
    if isinstance(dimension, Choice):
        return np.array([dimension.bins(np.array(dimension.encode(value))) for value in values], dtype=float)
    return np.asarray(values, dtype=float)


def set_axis(ax: Axes, which: str, name: str, dimension: Dimension) -> None:
    """Label an axis by a dimension: its name, its scale, its options."""
    axis = getattr(ax, f"{which}axis")
    getattr(ax, f"set_{which}label")(label(name))
    if isinstance(dimension, Choice):
        count = len(dimension.options)
        axis.set_ticks(range(count), [label(option, 14) for option in dimension.options])
        getattr(ax, f"set_{which}lim")(-0.5, count - 0.5)
    elif isinstance(dimension, Float | Int):
        if dimension.log:
            getattr(ax, f"set_{which}scale")("log")
        elif isinstance(dimension, Int):
            from matplotlib.ticker import MaxNLocator

            axis.set_major_locator(MaxNLocator(integer=True))


def band(ax: Axes, dimension: Dimension, x: np.ndarray, mean: Any, low: Any, high: Any, color: str = BLUE) -> None:
    """A mean with its interval: a line and a band, or points with bars where the axis has options."""
    if isinstance(dimension, Choice):
        ax.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=color, capsize=3, label="mean, 95 %")
    else:
        ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0, label="95 %")
        ax.plot(x, mean, color=color, label="mean")


def wrapped(count: int, most: int = 3) -> tuple[int, int]:
    """Rows and columns for some panels."""
    columns = min(count, most)
    return -(-count // columns), columns
