"""Models of the objective."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from presage.surrogates.base import Diagnostics, Draws, Fit, Marginal, Posterior, Score, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.gaussian_process import GaussianProcess, Prior

if TYPE_CHECKING:
    from presage.surrogates.hmc_network import HMCNetwork

# On JAX, which takes a second to import: imported when first used.
_HOME = {"HMCNetwork": "hmc_network"}

__all__ = [
    "BY_NAME", "BestOf", "Diagnostics", "Draws", "Fit", "GaussianProcess", "HMCNetwork", "Marginal", "Posterior",
    "Prior", "Score", "State", "Surrogate", "automatic",
]  # fmt: skip


def automatic() -> Surrogate:
    """What "auto" stands for: a free Gaussian process, which interpolates, or a calm one, which sees through ripples.

    The calm one has the values' own variance and expects noise. On functions that are smooth the free one predicts
    far better and wins decimals; on a funnel with ripples (Ackley, Levy) it explains the ripples by a spurious short
    lengthscale and loses sight of the funnel.
    """
    return BestOf((GaussianProcess(), GaussianProcess(variance=Prior(1.0, 0.01), noise=Prior(0.005, 2.0))))


def _later(name: str) -> Callable[[], Surrogate]:
    return lambda: getattr(importlib.import_module("presage.surrogates"), name)()


BY_NAME: dict[str, Callable[[], Surrogate]] = {"auto": automatic, "gp": GaussianProcess, "hmc": _later("HMCNetwork")}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'presage.surrogates' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"presage.surrogates.{_HOME[name]}"), name)
    globals()[name] = value
    return value
