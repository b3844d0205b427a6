"""`BayesSearchCV`: scikit-learn's search over an estimator's parameters, with a study that chooses the candidates."""

import os
import time
from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from joblib import hash as joblib_hash
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _fit_and_score, _insert_error_scores, _warn_or_raise_about_fit_failures
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, indexable

from presage.errors import StudyError
from presage.sklearn.candidates import Run
from presage.sklearn.reading import WHICH, Reading, read
from presage.space import Space
from presage.storage import MemoryStorage, Storage
from presage.study import Study, load_study

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.proposers import Proposer
    from presage.surrogates import Surrogate

__all__ = ["BayesSearchCV"]

SCIKIT_OPTIMIZE = {
    "base_estimator": ("surrogate", {"GP": "gp", "RF": "rf", "ET": "et", "GBRT": "gbm", "DUMMY": "random"}),
    "acq_func": ("acquisition", {"EI": "ei", "LCB": "lcb", "PI": "pi", "GP_HEDGE": "auto"}),
    "n_initial_points": ("initial", {}),
}
TASK = "BayesSearchCV: data"  # begins the note that says what a stored study's scores are of

F = TypeVar("F")
_checked: Callable[[F], F] = _fit_context(prefer_skip_nested_validation=False)  # whose own type says nothing of fit's


class BayesSearchCV(BaseSearchCV):
    """Search an estimator's parameters by cross-validation; the candidates are the suggestions of a presage study.

    A drop-in for scikit-learn's RandomizedSearchCV and scikit-optimize's BayesSearchCV: what is not explained here is
    as there. After `fit` it is the best estimator, and `study_` the study. A candidate all of whose folds cannot be
    scored (`error_score` NaN) is told to the study as a failure.

    Args:
        estimator: with scikit-learn's interface.
        search_spaces: parameter -> a presage dimension, (low, high), (low, high, "log-uniform"), a list of choices, or
            a frozen distribution of SciPy; or a presage Space; or a list of dictionaries, whose union is searched.
        n_iter: candidates in all, those of a search that is taken up again included.
        n_points: candidates chosen and run together; the folds of each run in parallel anyhow.
        scoring: of several metrics the search improves the one that `refit` names, else the first.
        n_jobs: folds at once, as joblib counts.
        refit: whether to fit the best candidate to all rows; the name of a metric, or a callable that picks one.
        cv: the same folds for all candidates, drawn once.
        verbose: as in scikit-learn.
        pre_dispatch: as in scikit-learn.
        random_state: a whole number is the seed of the study.
        error_score: of a fold that raises: NaN, a number, or "raise".
        return_train_score: whether `cv_results_` has training scores.
        fit_params: for the estimator's fit, as scikit-optimize takes them; those given to `fit` come first.
        optimizer_kwargs: of scikit-optimize: base_estimator, acq_func and n_initial_points, by name.
        surrogate: see Study.
        acquisition: see Study.
        initial: candidates before the surrogate is asked.
        first_folds: run so many folds first, and the others only where the candidate could still become the best, were
            each of them scored as high as any fold of any candidate so far. The folds that a stopped candidate lacks
            are NaN in `cv_results_`, its means are over those it has, `stopped` says so, and its rank is the last.
        storage: a file name or URL keeps the study; the same call goes on with it, and several processes may at once.
            (A Storage is taken too, but scikit-learn cannot clone one.)
        name: of the study in the storage.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import SVC
        >>> spaces = {"C": (1e-3, 1e3, "log-uniform"), "gamma": (1e-3, 1e3, "log-uniform")}
        >>> search = BayesSearchCV(SVC(), spaces, n_iter=12, cv=3, random_state=0).fit(*load_iris(return_X_y=True))
        >>> bool(search.best_score_ > 0.95)
        True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSearchCV._parameter_constraints,
        "search_spaces": [dict, list, tuple, Space],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "n_points": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "fit_params": [dict, None],
        "optimizer_kwargs": [dict, None],
        "initial": [Interval(Integral, 1, None, closed="left"), None],
        "first_folds": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self, estimator: Any, search_spaces: Any, *, n_iter: int = 50, n_points: int = 1, scoring: Any = None,
        n_jobs: int | None = None, refit: bool | str | Callable[..., int] = True, cv: Any = None, verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs", random_state: Any = None, error_score: float | str = np.nan,
        return_train_score: bool = False, fit_params: dict[str, Any] | None = None,
        optimizer_kwargs: dict[str, Any] | None = None, surrogate: "str | Surrogate" = "auto",
        acquisition: "str | Acquisition | Proposer" = "auto", initial: int | None = None,
        first_folds: int | None = None, storage: Storage | str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            estimator=estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv, verbose=verbose,
            pre_dispatch=pre_dispatch, error_score=error_score, return_train_score=return_train_score,
        )  # fmt: skip
        self.search_spaces = search_spaces
        self.n_iter = n_iter
        self.n_points = n_points
        self.random_state = random_state
        self.fit_params = fit_params
        self.optimizer_kwargs = optimizer_kwargs
        self.surrogate = surrogate
        self.acquisition = acquisition
        self.initial = initial
        self.first_folds = first_folds
        self.storage = storage
        self.name = name

    @_checked
    def fit(self, X: Any, y: Any = None, **params: Any) -> "BayesSearchCV":
        """Search, and fit the best candidate to all rows.

        Args:
            X: rows.
            y: their classes or values.
            **params: for the estimator's fit, the scorers and the splitter.
        """
        self.__dict__.pop("study_", None)
        scorers, metric = self._get_scorers()
        X, y = indexable(X, y)
        routed = self._get_routed_params_for_fit(_check_method_params(X, {**(self.fit_params or {}), **params}))
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = list(cv.split(X, y, **routed.splitter.split))
        self.n_splits_ = len(splits)
        if not splits:
            raise ValueError("No fits were performed. Was the CV iterator empty?")
        settings = {
            "scorer": scorers, "fit_params": routed.estimator.fit, "score_params": routed.scorer.score,
            "return_times": True, "return_train_score": self.return_train_score, "error_score": self.error_score,
            "verbose": self.verbose,
        }  # fmt: skip

        with Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch) as parallel:

            def evaluate(jobs: list[tuple[dict[str, Any], int]]) -> list[dict[str, Any]]:
                """Candidates on folds, all of them in parallel."""
                out = parallel(
                    delayed(_fit_and_score)(
                        clone(self.estimator), X, y, train=splits[fold][0], test=splits[fold][1], parameters=candidate,
                        split_progress=(fold, len(splits)), **settings,
                    )
                    for candidate, fold in jobs
                )  # fmt: skip
                if callable(self.scoring):  # only now is it known whether it gives several scores
                    _insert_error_scores(out, self.error_score)
                return out

            reading = read(self.search_spaces)
            self._check_names(reading)
            study = self._study(reading)
            if self.storage is not None:
                self._check_task(study, X, y)
            run = Run(self, evaluate, reading, study)
            wanted = self.n_iter if reading.trials is None else reading.trials
            if self.verbose > 0:
                print(f"Fitting {len(splits)} folds for each of {wanted} candidates")
            try:
                run.go(wanted)
            finally:
                self.study_ = run.study
        _warn_or_raise_about_fit_failures([*run.out, *run.taken_up], self.error_score)
        self.multimetric_ = run.multimetric
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(run.names)
            metric = self.refit
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        self.cv_results_ = run.results()
        self._choose(metric, X, y, routed.estimator.fit)
        return self

    def _choose(self, metric: Any, X: Any, y: Any, fit_params: dict[str, Any]) -> None:
        """Set the attributes that speak of the best candidate, and fit it to all rows."""
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
            self.best_params_ = self.cv_results_["params"][self.best_index_]
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
        if not self.refit:
            return
        self.best_estimator_ = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        began = time.perf_counter()
        self.best_estimator_.fit(*((X,) if y is None else (X, y)), **fit_params)
        self.refit_time_ = time.perf_counter() - began
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_

    def _check_names(self, reading: Reading) -> None:
        """Refuse what the estimator lacks, as it would itself, before a storage has a study with such a space."""
        names = {reading.names.get(name, name) for name in reading.space} - {WHICH}
        for name in sorted(names - set(self.estimator.get_params())):
            if not any(name.startswith(f"{other}__") for other in names):  # or a candidate may have it
                clone(self.estimator).set_params(**{name: None})

    def _check_task(self, study: Study, X: Any, y: Any) -> None:
        """Refuse to go on with scores of other data or another scoring; a study's note says what they are of."""
        scoring = getattr(self.scoring, "__name__", None) or (
            self.scoring if isinstance(self.scoring, str | None) else sorted(map(str, self.scoring))
        )
        mark = f"{TASK} {joblib_hash((X, y))}, scoring {scoring}"
        known = [note["text"] for note in study.notes if note["text"].startswith(TASK)]
        if known and mark not in known:
            raise StudyError(
                "a stored search must go on with the data and the scoring that it began with, but study "
                f"{study.name!r} has scores of others; give another name="
            )
        if not known:
            study.note(mark)

    def _study(self, reading: Reading) -> Study:
        state = self.random_state
        if state is None or isinstance(state, Integral):
            seed = None if state is None else int(state)
        else:
            seed = int(check_random_state(state).randint(2**31 - 1))
        settings = {"surrogate": self.surrogate, "acquisition": self.acquisition, "initial": self.initial}
        for key, value in (self.optimizer_kwargs or {}).items():
            mine, known = SCIKIT_OPTIMIZE.get(key, ("", {}))
            if not mine or (known and str(value).upper() not in known):
                raise StudyError(
                    f"optimizer_kwargs may name {list(SCIKIT_OPTIMIZE)}, as texts that scikit-optimize knows, but got "
                    f"{key}={value!r}; use surrogate=, acquisition= and initial="
                )
            settings[mine] = known[str(value).upper()] if known else value
        return Study(reading.space, direction="maximize", seed=seed, storage=self.storage, name=self.name, **settings)  # type: ignore[arg-type]

    def _metric(self, names: list[str]) -> str:
        """The metric that the search improves."""
        return self.refit if isinstance(self.refit, str) and self.refit in names else names[0]

    # A study has threads and connections; what travels is what it was told.
    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "study_" in state:
            study: Study = state["study_"]
            state["study_"] = (study.name, study.storage.snapshot(study.name))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "study_" in state:
            name, snapshot = state["study_"]
            storage = MemoryStorage()
            storage.restore(name, snapshot)
            self.study_ = load_study(
                storage, name, space=read(self.search_spaces).space, surrogate=self._given("surrogate"),
                acquisition=self._given("acquisition"),
            )  # fmt: skip

    def _given(self, what: str) -> Any:
        """A surrogate or an acquisition that is an object; a name is in the study."""
        setting = getattr(self, what)
        return None if isinstance(setting, str) else setting
