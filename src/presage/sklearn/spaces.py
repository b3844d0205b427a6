"""Estimators with the spaces in which their parameters are searched: those of S5's experiments."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from presage.space import Float, Int, Space

__all__ = ["BY_NAME", "Task", "gbm", "knn", "mlp", "svm"]


class Task(NamedTuple):
    """What is searched and where; goes into BayesSearchCV as `BayesSearchCV(*svm())`.

    Attributes:
        estimator: a pipeline whose last step, `model`, sees standardised features.
        space: of its parameters.
    """

    estimator: Pipeline
    space: Space


def _task(model: Any, axes: dict[str, Any], inside: str = "") -> Task:
    steps = Pipeline([("scale", StandardScaler()), ("model", model)])
    return Task(steps, Space({f"model__{inside}{name}": axis for name, axis in axes.items()}))


def svm(regression: bool = False) -> Task:
    """A support vector machine; its classes have probabilities, by Platt's scaling on five folds.

    Example:
        >>> svm().space
        Space({'model__estimator__C': Float(1e-05, 100000.0, log=True), 'model__estimator__gamma': Float(1e-05, 100000.0, log=True)})
    """  # noqa: E501
    both = {"C": Float(1e-5, 1e5, log=True), "gamma": Float(1e-5, 1e5, log=True)}
    if regression:
        return _task(SVR(), both)
    return _task(CalibratedClassifierCV(SVC(), ensemble=False), both, "estimator__")


def knn(regression: bool = False) -> Task:
    """Nearest neighbours."""
    return _task(KNeighborsRegressor() if regression else KNeighborsClassifier(), {"n_neighbors": Int(10, 50)})


def gbm(regression: bool = False) -> Task:
    """Gradient boosting."""
    return _task(
        GradientBoostingRegressor(random_state=0) if regression else GradientBoostingClassifier(random_state=0),
        {
            "learning_rate": Float(1e-5, 1e-2), "n_estimators": Int(10, 100), "max_depth": Int(2, 100),
            "min_samples_split": Int(2, 100),
        },
    )  # fmt: skip


def mlp(regression: bool = False) -> Task:
    """A network with one hidden layer."""
    model = (MLPRegressor if regression else MLPClassifier)(max_iter=1000, random_state=0)
    return _task(model, {"hidden_layer_sizes": Int(5, 50), "alpha": Float(0.0, 0.9)})


BY_NAME: dict[str, Callable[[bool], Task]] = {"svm": svm, "knn": knn, "gbm": gbm, "mlp": mlp}
