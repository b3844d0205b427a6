"""Models of the objective."""

from presage.surrogates.base import Diagnostics, Marginal, Posterior, State, Surrogate
from presage.surrogates.gaussian_process import GaussianProcess

__all__ = ["Diagnostics", "GaussianProcess", "Marginal", "Posterior", "State", "Surrogate", "BY_NAME"]

BY_NAME: dict[str, type[Surrogate]] = {"gp": GaussianProcess}
