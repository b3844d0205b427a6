"""Models of the objective."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from presage.surrogates.base import Diagnostics, Draws, Fit, Marginal, Posterior, Score, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.gaussian_process import GaussianProcess, Prior

if TYPE_CHECKING:
    from presage.surrogates.network_ensemble import NetworkEnsemble
    from presage.surrogates.variational_network import VariationalNetwork

__all__ = [
    "BY_NAME", "BestOf", "Diagnostics", "Draws", "Fit", "GaussianProcess", "Marginal", "NetworkEnsemble", "Posterior",
    "Prior", "Score", "State", "Surrogate", "VariationalNetwork", "automatic",
]  # fmt: skip


def automatic() -> Surrogate:
    """What "auto" stands for: a free Gaussian process, which interpolates, or a calm one, which sees through ripples.

    The calm one has the values' own variance and expects noise. On functions that are smooth the free one predicts
    far better and wins decimals; on a funnel with ripples (Ackley, Levy) it explains the ripples by a spurious short
    lengthscale and loses sight of the funnel.
    """
    return BestOf((GaussianProcess(), GaussianProcess(variance=Prior(1.0, 0.01), noise=Prior(0.005, 2.0))))


# Surrogates on JAX are imported when first used.
_HOME = {"NetworkEnsemble": "network_ensemble", "VariationalNetwork": "variational_network"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'presage.surrogates' has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"presage.surrogates.{_HOME[name]}"), name)
    return value


def _lazy(name: str) -> Callable[[], Surrogate]:
    return lambda: __getattr__(name)()


BY_NAME: dict[str, Callable[[], Surrogate]] = {
    "auto": automatic, "gp": GaussianProcess, "variational": _lazy("VariationalNetwork"),
    "ensemble": _lazy("NetworkEnsemble"),
}  # fmt: skip
