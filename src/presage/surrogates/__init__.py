"""Models of the objective."""

from collections.abc import Callable

from presage.surrogates.background import InBackground
from presage.surrogates.base import Diagnostics, Draws, Fit, Marginal, Posterior, Score, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.gaussian_process import GaussianProcess, Prior
from presage.surrogates.linear_head import Bayes, LeastSquares, MeanField
from presage.surrogates.neural_basis import NeuralBasis

__all__ = [
    "BY_NAME", "Bayes", "BestOf", "Diagnostics", "Draws", "Fit", "GaussianProcess", "InBackground", "LeastSquares",
    "Marginal", "MeanField", "NeuralBasis", "Posterior", "Prior", "Score", "State", "Surrogate", "automatic",
]  # fmt: skip


def automatic() -> Surrogate:
    """What "auto" stands for: a free Gaussian process, which interpolates, or a calm one, which sees through ripples.

    The calm one has the values' own variance and expects noise. On functions that are smooth the free one predicts
    far better and wins decimals; on a funnel with ripples (Ackley, Levy) it explains the ripples by a spurious short
    lengthscale and loses sight of the funnel.
    """
    return BestOf((GaussianProcess(), GaussianProcess(variance=Prior(1.0, 0.01), noise=Prior(0.005, 2.0))))


BY_NAME: dict[str, Callable[[], Surrogate]] = {"auto": automatic, "gp": GaussianProcess, "neural": NeuralBasis}
