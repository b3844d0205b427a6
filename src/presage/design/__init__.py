"""Networks designed for a table of data by a search that watches their training curves."""

from typing import TYPE_CHECKING

from presage.lazy import later

if TYPE_CHECKING:
    from presage.design import curves
    from presage.design.baselines import FinalSearch, Hyperband, RandomSearch, SuccessiveHalving
    from presage.design.board import Board, Move, Search, play
    from presage.design.curve_search import CurveSearch
    from presage.design.gpar_search import GPARSearch
    from presage.design.model import DesignedModel
    from presage.design.resumable import Candidates, Job, Resumable, Runs
    from presage.design.run import Design, search
    from presage.design.tuning import TrainingLoop, Tuned, tune

# Imported when first used: searches need no JAX, networks do.
_HOME = {
    "Board": "board", "Move": "board", "Search": "board", "play": "board",
    "FinalSearch": "baselines", "Hyperband": "baselines", "RandomSearch": "baselines", "SuccessiveHalving": "baselines",
    "CurveSearch": "curve_search", "GPARSearch": "gpar_search", "DesignedModel": "model",
    "Candidates": "resumable", "Job": "resumable", "Resumable": "resumable", "Runs": "resumable",
    "Design": "run", "curves": "", "search": "run", "TrainingLoop": "tuning", "Tuned": "tuning", "tune": "tuning",
}  # fmt: skip

__all__ = [
    "Board", "Candidates", "CurveSearch", "Design", "DesignedModel", "FinalSearch", "GPARSearch", "Hyperband", "Job",
    "Move", "RandomSearch", "Resumable", "Runs", "Search", "SuccessiveHalving", "TrainingLoop", "Tuned",
    "curves", "play", "search", "tune",
]  # fmt: skip


__getattr__ = later(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
