"""Models of the objective."""

from collections.abc import Callable

from presage.kernels import Matern, Trend
from presage.priors import LogNormal
from presage.surrogates.background import InBackground
from presage.surrogates.base import Diagnostics, Draws, Fit, Marginal, Posterior, Score, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.gaussian_process import GaussianProcess, StudentTProcess
from presage.surrogates.hyperparameters import HMC, NUTS, Mode, Slice
from presage.surrogates.linear_head import Bayes, LeastSquares, MeanField
from presage.surrogates.neural_basis import NeuralBasis
from presage.surrogates.sparse import SparseGaussianProcess

__all__ = [
    "BY_NAME", "Bayes", "BestOf", "Diagnostics", "Draws", "Fit", "GaussianProcess", "HMC", "InBackground",
    "LeastSquares", "Marginal", "MeanField", "Mode", "NUTS", "NeuralBasis", "Posterior", "Score", "Slice",
    "SparseGaussianProcess", "State", "StudentTProcess", "Surrogate", "automatic",
]  # fmt: skip


def automatic() -> Surrogate:
    """What "auto" stands for: a Gaussian process on top of a trend, a free one or a calm one, by leave-one-out density.

    The calm one has the values' own variance and expects noise. On functions that are smooth the free one predicts
    far better and wins decimals; on a funnel with ripples (Ackley) it explains the ripples by a spurious short
    lengthscale and loses sight of the funnel. The trend sees a bowl in ten dimensions from a few dozen points.
    """
    calm = GaussianProcess(Matern(variance=None) + Trend(), noise=LogNormal(0.005, 2.0))
    return BestOf((GaussianProcess(Matern() + Trend()), calm))


def sampled() -> Surrogate:
    """What "gp-mcmc" stands for: a Gaussian process with its hyperparameters integrated out."""
    return GaussianProcess(hyperparameters=Slice())


BY_NAME: dict[str, Callable[[], Surrogate]] = {
    "auto": automatic, "gp": GaussianProcess, "gp-mcmc": sampled, "neural": NeuralBasis,
    "sparse-gp": SparseGaussianProcess, "student-t": StudentTProcess,
}  # fmt: skip
