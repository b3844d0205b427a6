"""Models of the objective."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from presage.kernels import Matern, Trend
from presage.lazy import later
from presage.priors import LogNormal
from presage.surrogates.base import Diagnostics, Draws, Fit, Marginal, Posterior, Score, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.focused import Focused
from presage.surrogates.gaussian_process import GaussianProcess, StudentTProcess
from presage.surrogates.hyperparameters import HMC, NUTS, Mode, Slice

if TYPE_CHECKING:
    from presage.surrogates.additive import AdditiveProcess
    from presage.surrogates.background import InBackground
    from presage.surrogates.boosting import GradientBoosting
    from presage.surrogates.forests import ExtraTrees, RandomForest
    from presage.surrogates.hmc_network import HMCNetwork
    from presage.surrogates.linear_head import Bayes, LeastSquares, MeanField
    from presage.surrogates.network_ensemble import NetworkEnsemble
    from presage.surrogates.neural_basis import NeuralBasis
    from presage.surrogates.sparse import SparseGaussianProcess
    from presage.surrogates.staged import Staged
    from presage.surrogates.variational_network import VariationalNetwork

# Surrogates that a default study does not need, some of them on JAX or scikit-learn: imported when first used.
_HOME = {
    "AdditiveProcess": "additive", "Bayes": "linear_head", "ExtraTrees": "forests", "GradientBoosting": "boosting",
    "HMCNetwork": "hmc_network", "InBackground": "background", "LeastSquares": "linear_head", "MeanField":
    "linear_head", "NetworkEnsemble": "network_ensemble", "NeuralBasis": "neural_basis", "RandomForest": "forests",
    "SparseGaussianProcess": "sparse", "Staged": "staged", "VariationalNetwork": "variational_network",
}  # fmt: skip

__all__ = [
    "AdditiveProcess", "BY_NAME", "Bayes", "BestOf", "Diagnostics", "Draws", "ExtraTrees", "Fit", "Focused",
    "GaussianProcess", "GradientBoosting", "HMC", "HMCNetwork", "InBackground", "LeastSquares", "Marginal",
    "MeanField", "Mode", "NUTS", "NetworkEnsemble", "NeuralBasis", "Posterior", "RandomForest", "Score", "Slice",
    "SparseGaussianProcess", "Staged", "State", "StudentTProcess", "Surrogate", "VariationalNetwork", "automatic",
]  # fmt: skip


__getattr__ = later(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)


def automatic() -> Focused:
    """What "auto" stands for: a Gaussian process on top of a trend, a free one or a calm one, by leave-one-out density.

    The calm one has the values' own variance and expects noise. On functions that are smooth the free one predicts
    far better and wins decimals; on a funnel with ripples (Ackley) it explains the ripples by a spurious short
    lengthscale and loses sight of the funnel. The trend sees a bowl in ten dimensions from a few dozen points. Beyond
    1,000 values they look at 500 of them, and a suggestion does not get dearer.
    """
    calm = GaussianProcess(Matern(variance=None) + Trend(), noise=LogNormal(0.005, 2.0))
    return Focused(BestOf((GaussianProcess(Matern() + Trend()), calm)))


def sampled() -> Surrogate:
    """What "gp-mcmc" stands for: a Gaussian process with its hyperparameters integrated out."""
    return GaussianProcess(hyperparameters=Slice())


def _later(name: str) -> Callable[[], Surrogate]:
    """A surrogate at its defaults, imported when it is made."""
    return lambda: __getattr__(name)()


BY_NAME: dict[str, Callable[[], Surrogate]] = {
    "auto": automatic, "gp": GaussianProcess, "gp-mcmc": sampled, "sparse-gp": _later("SparseGaussianProcess"),
    "student-t": StudentTProcess, "additive": _later("AdditiveProcess"),
    "hmc": _later("HMCNetwork"), "neural": _later("Staged"), "variational": _later("VariationalNetwork"),
    "ensemble": _later("NetworkEnsemble"), "rf": _later("RandomForest"), "et": _later("ExtraTrees"), "gbm":
    _later("GradientBoosting"),
}  # fmt: skip
