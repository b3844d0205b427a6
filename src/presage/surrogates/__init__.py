"""Models of the objective."""

from presage.surrogates.base import Diagnostics, Fit, Marginal, Posterior, State, Surrogate
from presage.surrogates.best_of import BestOf
from presage.surrogates.gaussian_process import GaussianProcess

__all__ = ["BestOf", "Diagnostics", "Fit", "GaussianProcess", "Marginal", "Posterior", "State", "Surrogate", "BY_NAME"]

BY_NAME: dict[str, type[Surrogate]] = {"gp": GaussianProcess}
