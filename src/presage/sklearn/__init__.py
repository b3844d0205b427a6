"""What users of scikit-learn expect: a search over an estimator's parameters, and networks as estimators."""

from typing import TYPE_CHECKING

from presage.lazy import later

if TYPE_CHECKING:
    import presage.sklearn.spaces as spaces
    from presage.sklearn.estimators import EnsembleClassifier, EnsembleRegressor, VariationalRegressor
    from presage.sklearn.search import BayesSearchCV

# Imported when first used: the estimators need JAX, a search does not.
_HOME = {
    "BayesSearchCV": "search", "EnsembleClassifier": "estimators", "EnsembleRegressor": "estimators",
    "VariationalRegressor": "estimators", "spaces": "",
}  # fmt: skip

__all__ = ["BayesSearchCV", "EnsembleClassifier", "EnsembleRegressor", "VariationalRegressor", "spaces"]


__getattr__ = later(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
