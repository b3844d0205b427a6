"""What users of scikit-learn expect: a search over an estimator's parameters, and networks as estimators."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import presage.sklearn.spaces as spaces
    from presage.sklearn.estimators import EnsembleClassifier, EnsembleRegressor, VariationalRegressor
    from presage.sklearn.search import BayesSearchCV

# Imported when first used: the estimators need JAX, a search does not.
_HOME = {
    "BayesSearchCV": "search", "EnsembleClassifier": "estimators", "EnsembleRegressor": "estimators",
    "VariationalRegressor": "estimators",
}  # fmt: skip

__all__ = ["BayesSearchCV", "EnsembleClassifier", "EnsembleRegressor", "VariationalRegressor", "spaces"]


def __getattr__(name: str) -> Any:
    if name == "spaces":
        value: Any = importlib.import_module("presage.sklearn.spaces")
    elif name in _HOME:
        value = getattr(importlib.import_module(f"presage.sklearn.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'presage.sklearn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
