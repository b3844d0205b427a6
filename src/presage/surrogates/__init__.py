"""Models of the objective."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from presage.surrogates.base import Diagnostics, Draws, Fit, Marginal, Posterior, Score, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.gaussian_process import GaussianProcess, Prior

if TYPE_CHECKING:
    from presage.surrogates.boosting import GradientBoosting
    from presage.surrogates.forests import ExtraTrees, RandomForest

# Surrogates that need scikit-learn or JAX, and where they live: imported when first used.
_HOME = {"ExtraTrees": "forests", "GradientBoosting": "boosting", "RandomForest": "forests"}

__all__ = [
    "BY_NAME", "BestOf", "Diagnostics", "Draws", "ExtraTrees", "Fit", "GaussianProcess", "GradientBoosting", "Marginal",
    "Posterior", "Prior", "RandomForest", "Score", "State", "Surrogate", "automatic",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'presage.surrogates' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"presage.surrogates.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def automatic() -> Surrogate:
    """What "auto" stands for: a free Gaussian process, which interpolates, or a calm one, which sees through ripples.

    The calm one has the values' own variance and expects noise. On functions that are smooth the free one predicts
    far better and wins decimals; on a funnel with ripples (Ackley, Levy) it explains the ripples by a spurious short
    lengthscale and loses sight of the funnel.
    """
    return BestOf((GaussianProcess(), GaussianProcess(variance=Prior(1.0, 0.01), noise=Prior(0.005, 2.0))))


def _later(name: str) -> Callable[[], Surrogate]:
    """A surrogate at its defaults, imported when it is made."""
    return lambda: __getattr__(name)()


BY_NAME: dict[str, Callable[[], Surrogate]] = {
    "auto": automatic, "gp": GaussianProcess, "rf": _later("RandomForest"), "et": _later("ExtraTrees"),
    "gbm": _later("GradientBoosting"),
}  # fmt: skip
