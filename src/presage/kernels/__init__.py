"""Covariance functions, composable by + and *."""

from presage.kernels.axes import ABSENT, Axes, feature_owners, features
from presage.kernels.base import Basis, Diagonal, Evaluated, Kernel, Product, Spanned, Sum
from presage.kernels.categorical import Categorical
from presage.kernels.networks import InfiniteNetwork
from presage.kernels.products import Linear, Polynomial, Trend, White
from presage.kernels.stationary import (
    GammaExponential,
    Matern,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
    squared_distance,
)  # fmt: skip
from presage.kernels.warped import Warped, additive

__all__ = [
    "ABSENT", "Axes", "Basis", "Categorical", "Diagonal", "Evaluated", "GammaExponential", "InfiniteNetwork", "Kernel",
    "Linear", "Matern", "Periodic", "Polynomial", "Product", "RationalQuadratic", "Spanned", "SquaredExponential",
    "Stationary", "Sum", "Trend", "Warped", "White", "additive", "feature_owners", "features", "squared_distance",
]  # fmt: skip
