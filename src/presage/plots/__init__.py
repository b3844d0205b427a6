"""Figures of studies, posteriors, chains and designs. Each function returns a matplotlib Figure, no more.

Example:
    >>> import presage
    >>> f = presage.functions.forrester
    >>> result = presage.minimize(f, f.space, trials=8, seed=0, progress=False)
    >>> presage.plots.history(result).axes[0].get_xlabel()
    'trial'
"""

from collections.abc import Callable

from matplotlib.figure import Figure

from presage.plots.arrays import architecture, curves, regret, reliability, traces
from presage.plots.model import animation, contour, effects, importance, posterior, slices, steps
from presage.plots.study import calibration, history, parallel, timeline

# The figures that need nothing but a study, by the names that `presage plot` knows.
OF_STUDY: dict[str, Callable[..., Figure]] = {
    "history": history, "slices": slices, "importance": importance, "effects": effects, "contour": contour,
    "parallel": parallel, "posterior": posterior, "steps": steps, "calibration": calibration, "timeline": timeline,
}  # fmt: skip

__all__ = [
    "OF_STUDY", "animation", "architecture", "calibration", "contour", "curves", "effects", "history", "importance",
    "parallel", "posterior", "regret", "reliability", "slices", "steps", "timeline", "traces",
]  # fmt: skip
