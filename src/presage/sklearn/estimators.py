"""Estimators in scikit-learn's conventions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from presage.networks.ensemble import Ensemble, EnsembleDesign
from presage.networks.functions import Functions
from presage.networks.regions import Regions
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational, posterior
from presage.observations import padded

__all__ = ["EnsembleClassifier", "EnsembleRegressor", "VariationalRegressor"]


class _Saved:
    """Writing and reading a fitted estimator without pickle."""

    def _arrays(self) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write parameters and everything fitted to a .npz file."""
        check_is_fitted(self)
        about = {"estimator": type(self).__name__, "params": self.get_params()}  # type: ignore[attr-defined]
        try:
            text = json.dumps(about)
        except TypeError as error:
            message = f"parameters must be numbers, texts or tuples to be saved, but got {about['params']}"
            raise TypeError(message) from error
        with open(path, "wb") as file:
            np.savez(file, allow_pickle=False, about=np.array(text), **self._arrays())

    @classmethod
    def load(cls, path: str | Path) -> Any:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        if about["estimator"] != cls.__name__:
            raise ValueError(f"{path} holds a {about['estimator']}, not a {cls.__name__}")
        params = {name: tuple(value) if isinstance(value, list) else value for name, value in about["params"].items()}
        estimator = cls(**params)
        estimator._restore(arrays)
        return estimator


class VariationalRegressor(_Saved, RegressorMixin, BaseEstimator):
    """A mean-field Gaussian network; inputs and values are standardised inside.

    Parameters:
        widths: of the hidden layers.
        activation: relu, tanh or silu.
        heteroskedastic: let the noise depend on the inputs; the head that says how joins after a fifth of the steps.
        tails: let the noise have a Student law, for values some of which are far off.
        steps: of training; with `validation_share` at most so many.
        rate: learning rate, which falls to 0 along a cosine.
        batch: rows of a minibatch, or None for all.
        samples: Monte Carlo samples in training.
        draws: functions drawn for prediction.
        prior_variance: of all weights, or None for a hyperprior and its best value in each layer.
        warmup: steps over which the weight of the KL rises to 1.
        validation_share: share of the rows to stop early by, 0 for none.
        patience: so many evaluations, a twentieth of `steps` apart, without a better one stop the training.
        random_state: seed, generator or None.

    Attributes:
        functions_: draws from the posterior.
        log_noise_: log variance of the noise, in units of the values.
        freedom_: degrees of freedom of the noise, infinite where it is normal.
        n_iter_: steps taken.
    """

    def __init__(
        self, widths: Any = (50,), *, activation: str = "relu", heteroskedastic: bool = False, tails: bool = False,
        steps: int = 4000, rate: float = 1e-2, batch: int | None = None, samples: int = 10, draws: int = 100,
        prior_variance: float | None = None, warmup: int = 0, validation_share: float = 0.0, patience: int = 4,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.widths = widths
        self.activation = activation
        self.heteroskedastic = heteroskedastic
        self.tails = tails
        self.steps = steps
        self.rate = rate
        self.batch = batch
        self.samples = samples
        self.draws = draws
        self.prior_variance = prior_variance
        self.warmup = warmup
        self.validation_share = validation_share
        self.patience = patience
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "VariationalRegressor":
        """Train on inputs [n, d] and values [n]."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        family = Variational(
            self.activation, self.heteroskedastic, samples=self.samples, warmup=self.warmup, initial_stddev=1e-3,
            head_delay=self.steps // 5, tails=self.tails,
            hyperprior=Variational.hyperprior if self.prior_variance is None else None,
        )  # fmt: skip
        order = np.random.default_rng(seed).permutation(len(y))
        kept_back = int(self.validation_share * len(y))
        most = padded(len(y))
        table = Table.padded(X, y, most)
        networks = describe(
            family, [tuple(self.widths)], table, [order[kept_back:]], seeds=[seed], most=most,
            prior_variance=[self.prior_variance or 1.0],
        )  # fmt: skip
        batch = None if self.batch is None or self.batch >= len(y) else self.batch
        training = Training(rate=self.rate, decay=self.steps, batch=batch)
        cohort = Cohort.new(family, training, networks, table)
        if kept_back:
            cohort.advance_while_better(
                self.steps, [order[:kept_back]], every=max(1, self.steps // 20), patience=self.patience
            )
        else:
            cohort.advance(self.steps)
        network = posterior(cohort)
        self.functions_ = network.draw(self.draws, np.random.default_rng(seed))
        self.log_noise_ = network.log_noise + 2.0 * float(np.log(network.y_scale))
        self.freedom_ = network.freedom
        self.n_iter_ = int(cohort.state.step[0])
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of a new value at each point, [n], and with `return_std` its standard deviation, noise included."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        out = self.functions_.values(X)
        mean = out[..., 0].mean(axis=0)
        if not return_std:
            return mean
        return mean, np.sqrt(out[..., 0].var(axis=0) + np.exp(self._log_noise(out)).mean(axis=0))

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive density of values [n] at points [n, d], [n]."""
        check_is_fitted(self)
        out = self.functions_.values(validate_data(self, X, reset=False, dtype=np.float64))
        log_noise = self._log_noise(out)
        error, stddev = np.asarray(y) - out[..., 0], np.exp(0.5 * log_noise)
        each = stats.t.logpdf(error, self.freedom_, scale=stddev * np.sqrt(1.0 - 2.0 / self.freedom_))
        return np.logaddexp.reduce(each, axis=0) - np.log(len(each))

    def _log_noise(self, out: np.ndarray) -> np.ndarray:
        """Log variance of the noise under each draw, [draws, n]."""
        if not self.heteroskedastic:
            return np.full(out.shape[:2], self.log_noise_)
        return self.log_noise_ + np.clip(out[..., 1], -20.0, 20.0)

    def _arrays(self) -> dict[str, np.ndarray]:
        numbers = {
            "log_noise": self.log_noise_, "freedom": self.freedom_, "n_iter": self.n_iter_,
            "n_features": self.n_features_in_,
        }  # fmt: skip
        return {name: np.array(number) for name, number in numbers.items()} | self.functions_.arrays()

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.log_noise_, self.freedom_ = float(arrays["log_noise"]), float(arrays["freedom"])
        self.n_iter_ = int(arrays["n_iter"])
        self.n_features_in_ = int(arrays["n_features"])
        self.functions_ = Functions.from_arrays(arrays, self.activation)


class _EnsembleEstimator(_Saved, BaseEstimator):
    """What the two estimators of ensembles share; see EnsembleRegressor."""

    def __init__(
        self, depth: int = 2, width: int = 50, members: int = 10, keep: float = 0.9, *, activation: str = "relu",
        optimiser: str = "adam", rate: float = 1e-2, tolerance: float | None = 1e-4, steps: int = 2000,
        bootstrap: bool = False, regions: int = 1, least_spread: float = 0.1, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.depth = depth
        self.width = width
        self.members = members
        self.keep = keep
        self.activation = activation
        self.optimiser = optimiser
        self.rate = rate
        self.tolerance = tolerance
        self.steps = steps
        self.bootstrap = bootstrap
        self.regions = regions
        self.least_spread = least_spread
        self.random_state = random_state

    def _fit(self, X: np.ndarray, y: np.ndarray, classes: int) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        training = Training(self.optimiser, self.rate, tolerance=self.tolerance)
        design = EnsembleDesign(
            self.depth, self.width, self.members, self.keep, self.activation, self.steps, training, self.bootstrap,
            self.regions, self.least_spread,
        )  # fmt: skip
        self.ensemble_ = design.fit(X, y, seed=seed, classes=classes, most=padded(len(y)))
        self.n_iter_ = int(self.ensemble_.steps.max())

    def _arrays(self) -> dict[str, np.ndarray]:
        fitted, regions = self.ensemble_, self.ensemble_.regions
        arrays = {
            "included": fitted.included, "noise": np.array(fitted.noise), "steps": fitted.steps,
            "class_count": np.array(fitted.classes), "n_features": np.array(self.n_features_in_),
        }  # fmt: skip
        if regions is not None:
            arrays |= {"parent": regions.parent, "column": regions.column, "threshold": regions.threshold}
        return arrays | fitted.functions.arrays()

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        cuts = Regions(arrays["parent"], arrays["column"], arrays["threshold"]) if "parent" in arrays else None
        self.ensemble_ = Ensemble(
            Functions.from_arrays(arrays, self.activation), cuts, arrays["included"], float(arrays["noise"]),
            int(arrays["class_count"]), arrays["steps"],
        )  # fmt: skip
        self.n_features_in_, self.n_iter_ = int(arrays["n_features"]), int(arrays["steps"].max())


class EnsembleRegressor(RegressorMixin, _EnsembleEstimator):
    """The mean of sparse networks; inputs and values are standardised inside.

    Parameters:
        depth: hidden layers.
        width: units of each.
        members: how many networks.
        keep: probability that a weight or bias exists.
        activation: relu, tanh or silu.
        optimiser: adam, or adadelta with rate 1.0 as in S2.
        rate: learning rate.
        tolerance: a member stops when two consecutive losses differ by less.
        steps: at most so many.
        bootstrap: train each member on rows drawn with replacement.
        regions: experts on so many regions of the inputs, combined piecewise.
        least_spread: members whose predictions vary less than this share of the values' spread are left out.
        random_state: seed, generator or None.

    Attributes:
        ensemble_: the fitted ensemble.
        n_iter_: steps of the member that took most.
    """

    def fit(self, X: Any, y: Any) -> "EnsembleRegressor":
        """Train on inputs [n, d] and values [n]."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        self._fit(X, y, 0)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean over members, [n], and with `return_std` the standard deviation of a new value: members and noise."""
        check_is_fitted(self)
        mean, variance = self.ensemble_.predict(validate_data(self, X, reset=False, dtype=np.float64))
        return (mean, np.sqrt(variance + self.ensemble_.noise)) if return_std else mean


class EnsembleClassifier(ClassifierMixin, _EnsembleEstimator):
    """The mean of the class probabilities of sparse networks trained on log-loss; parameters as in EnsembleRegressor.

    Attributes:
        classes_: the classes.
    """

    def fit(self, X: Any, y: Any) -> "EnsembleClassifier":
        """Train on inputs [n, d] and classes [n]."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, number = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"there must be two classes or more, but got one class: {self.classes_[0]!r}")
        self._fit(X, number.astype(np.float64), len(self.classes_))
        return self

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Class probabilities, [n, classes], and with `return_std` their standard deviations between members."""
        check_is_fitted(self)
        share, variance = self.ensemble_.predict(validate_data(self, X, reset=False, dtype=np.float64))
        return (share, np.sqrt(variance)) if return_std else share

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each point, [n]."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"classes": self.classes_}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore(arrays)
        self.classes_ = arrays["classes"]
