"""What a point is worth."""

from presage.acquisitions.base import Acquisition, Context, OfMarginal
from presage.acquisitions.feasibility import Feasible
from presage.acquisitions.improvement import LogExpectedImprovement

__all__ = ["Acquisition", "BY_NAME", "Context", "Feasible", "LogExpectedImprovement", "OfMarginal"]

BY_NAME: dict[str, type[Acquisition]] = {"auto": LogExpectedImprovement, "logei": LogExpectedImprovement}
