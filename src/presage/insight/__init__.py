"""What can be learnt from a study, as plain arrays: figures, reports, advice and the dashboard all draw on this."""

from presage.insight.calibration import foretell, reliability
from presage.insight.chains import rhat
from presage.insight.importance import Importance, importance, sobol_indices
from presage.insight.model import Model
from presage.insight.progress import best_so_far, regret_band, running_best, timeline
from presage.insight.record import Record, record_of
from presage.insight.slices import Grid, Slice, grid_2d, marginal_effect, slice_1d

__all__ = [
    "Grid", "Importance", "Model", "Record", "Slice", "best_so_far", "foretell", "grid_2d", "importance",
    "marginal_effect", "record_of", "regret_band", "reliability", "rhat", "running_best", "slice_1d", "sobol_indices",
    "timeline",
]  # fmt: skip
