"""BayesSearchCV: scikit-learn's rules, scikit-learn's table, and the suggestions of a plain study."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator

import presage
from presage import Choice, Constant, Float, Int, Space, Study
from presage.errors import SpaceError, StudyError
from presage.sklearn import BayesSearchCV, spaces
from presage.sklearn.reading import read

IRIS = load_iris(return_X_y=True)
SVM = {"C": (1e-3, 1e3, "log-uniform"), "gamma": (1e-3, 1e3, "log-uniform")}


# scikit-learn's rules. What RandomizedSearchCV itself is excused from (sklearn.utils._test_common) is not asked here.
SEARCHES = [
    BayesSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=2, error_score="raise", random_state=0),
    BayesSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, n_iter=2, cv=2, error_score="raise", random_state=0),
]  # fmt: skip
EXCUSED = {
    "check_supervised_y_2d": "DataConversionWarning not caught",
    "check_requires_y_none": "Doesn't fail gracefully",
}


def rules():
    for search in SEARCHES:
        for mine, check in estimator_checks_generator(search, legacy=True, expected_failed_checks=EXCUSED, mark="skip"):
            name = getattr(getattr(check, "func", check), "__name__", "excused")
            yield pytest.param(mine, check, id=f"{type(search.estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # of scikit-learn, given inf
@pytest.mark.parametrize(("search", "check"), list(rules()))
def test_a_search_keeps_scikit_learns_rules(search, check):
    check(search)


# Spaces.
@pytest.mark.parametrize(
    ("given", "axis"),
    [
        (Float(0, 1), Float(0, 1)),
        ((0.1, 1.0), Float(0.1, 1.0)),
        ((1, 2.5), Float(1, 2.5)),
        ((1, 9), Int(1, 9)),
        ((1e-3, 1e3, "log-uniform"), Float(1e-3, 1e3, log=True)),
        ((1, 1000, "log-uniform"), Int(1, 1000, log=True)),
        ((1e-3, 1e3, "log-uniform", 10), Float(1e-3, 1e3, log=True)),
        ((0.0, 1.0, "uniform"), Float(0, 1)),
        (("linear", "rbf"), Choice(["linear", "rbf"])),
        ((True, False), Choice([True, False])),
        ([0.1, 1.0], Choice([0.1, 1.0])),
        ([1, 1, 2], Choice([1, 2])),
        (range(2, 5), Choice([2, 3, 4])),
        (np.array([1.0, 2.0]), Choice([1.0, 2.0])),
        (["rbf"], Constant("rbf")),
        ([(5,), (5, 5)], Choice([(5,), (5, 5)])),
        (stats.uniform(2, 3), Float(2, 5)),
        (stats.loguniform(1e-2, 1e2), Float(1e-2, 1e2, log=True)),
        (stats.randint(3, 8), Int(3, 7)),
        (stats.randint(3, 8, loc=2), Int(5, 9)),
    ],
    ids=lambda value: value.dist.name if hasattr(value, "dist") else str(value),  # no addresses: workers must agree
)
def test_a_dimension_is_read_as_its_writer_meant_it(given, axis):
    assert read({"p": given, "q": (0, 1)}).space["p"] == axis


@pytest.mark.parametrize("law", [stats.norm(1.0, 2.0), stats.expon(3.0), stats.beta(2, 5), stats.loguniform(1, 9, 5)])
def test_any_law_of_scipy_is_searched_by_its_quantiles(law):
    reading = read({"p": law})
    for share in (0.0, 0.3, 1.0):
        (value,) = reading.params(reading.space.decode([share])).values()
        assert law.cdf(value) == pytest.approx(0.001 + share * 0.998, abs=1e-9)
        assert law.support()[0] < value < law.support()[1]  # as what is drawn; SVC refuses a C of 0


def test_a_discrete_law_is_searched_over_nearly_all_it_gives():
    axis = read({"p": stats.poisson(4.0)}).space["p"]
    assert isinstance(axis, Int)
    assert stats.poisson(4.0).cdf(axis.high) >= 0.999
    assert axis.low == 0


def test_a_dimension_of_scikit_optimize_is_read():
    """By what it has; scikit-optimize itself is not needed."""
    real = type("Real", (), {"__module__": "skopt.space.space"})()
    real.low, real.high, real.prior = 1e-6, 1e6, "log-uniform"
    categorical = type("Categorical", (), {"__module__": "skopt.space.space"})()
    categorical.categories = ("a", "b")
    assert read({"C": real, "k": categorical}).space == Space(
        {"C": Float(1e-6, 1e6, log=True), "k": Choice(["a", "b"])}
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"C": 1.0}, "'C'.*must be a presage dimension"), ({"C": (2.0, 1.0)}, "'C'.*low < high"),
        ({"C": (0.1, 1.0, "normal")}, "log-uniform, but got 'normal'"), ({"C": []}, "at least one choice"),
        ({}, "non-empty"), ([], "list of dictionaries"), ("C", "list of dictionaries"),
        ([{"C": [1, 2]}, 3], "but got 3"), ([({"C": [1, 2]}, 0)], "1 or more"),
        ([({"C": [1, 2]}, 1), {"C": [3, 4]}], "either"),
    ],
    ids=str,
)  # fmt: skip
def test_a_space_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(SpaceError, match=said):
        read(given)


def test_a_list_of_spaces_is_their_union():
    reading = read([
        {"kernel": ["linear"], "C": (0.1, 10.0)}, {"kernel": ["rbf"], "C": (0.1, 10.0), "gamma": (0.1, 1.0)},
        {"kernel": ["poly"], "C": (0.5, 5.0), "degree": (2, 4)},
    ])  # fmt: skip
    drawn = [reading.params(reading.space.decode(p)) for p in np.random.default_rng(0).random((200, reading.space.dim))]
    assert {params["kernel"] for params in drawn} == {"linear", "rbf", "poly"}
    for params in drawn:
        assert {"linear": {"kernel", "C"}, "rbf": {"kernel", "C", "gamma"}, "poly": {"kernel", "C", "degree"}}[
            params["kernel"]
        ] == set(params)
        assert params["kernel"] != "poly" or 0.5 <= params["C"] <= 5.0
    shared = {name for name in reading.space if reading.names.get(name, name) == "C"}
    assert len(shared) == 2, "equal dimensions of two spaces are one"
    assert read([({"C": (0.1, 1.0)}, 4), ({"C": (0.2, 2.0)}, 5)]).trials == 9


def test_choices_may_be_anything_that_an_estimator_takes():
    steps = Pipeline([("scale", "passthrough"), ("model", SVC())])
    search = BayesSearchCV(
        steps, {"model": [SVC(), LogisticRegression(max_iter=1000)], "scale": ["passthrough", PCA(2)]}, n_iter=4, cv=2,
        random_state=0,
    ).fit(*IRIS)  # fmt: skip
    assert {type(params["model"]) for params in search.cv_results_["params"]} == {SVC, LogisticRegression}
    assert {t.params["scale"] for t in search.study_.trials} == {"0: str", "1: PCA"}
    assert isinstance(search.best_estimator_.named_steps["model"], SVC | LogisticRegression)


# The table.
def compared(**options):
    """A search, and one of scikit-learn over the candidates that it chose."""
    ours = BayesSearchCV(SVC(), SVM, n_iter=6, cv=3, random_state=0, **options).fit(*IRIS)
    picked = [{name: [value] for name, value in params.items()} for params in ours.cv_results_["params"]]
    theirs = RandomizedSearchCV(SVC(), picked, n_iter=6, cv=3, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs.fit(*IRIS)
    return ours, theirs


def assert_same_table(ours, theirs):
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    place = [theirs.cv_results_["params"].index(params) for params in ours.cv_results_["params"]]
    for column, cells in theirs.cv_results_.items():
        if "time" not in column and column != "params":
            np.testing.assert_array_equal(np.ma.asarray(ours.cv_results_[column]), np.ma.asarray(cells)[place], column)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"scoring": "f1_macro", "error_score": "raise"}, {"return_train_score": True},
        {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"},
        {"scoring": ["accuracy", "f1_macro"], "refit": False},
        {"scoring": {"a": "accuracy", "b": make_scorer(accuracy_score)}, "refit": lambda results: 2},
        {"scoring": lambda model, X, y: {"right": model.score(X, y), "wrong": 1 - model.score(X, y)}, "refit": "right"},
    ],
    ids=lambda options: ",".join(options) or "plain",
)  # fmt: skip
def test_the_table_is_that_of_scikit_learn(options):
    ours, theirs = compared(**options)
    assert_same_table(ours, theirs)
    for name in ("multimetric_", "n_splits_", "best_score_", "n_features_in_"):
        assert getattr(ours, name, None) == getattr(theirs, name, None)
    assert hasattr(ours, "best_estimator_") == hasattr(theirs, "best_estimator_")
    if options.get("refit", True) is True:
        assert np.array_equal(ours.predict(IRIS[0]), ours.best_estimator_.predict(IRIS[0]))
        assert ours.score(*IRIS) == ours.scorer_(ours.best_estimator_, *IRIS)


def test_the_search_improves_the_metric_that_refit_names():
    scoring = {"up": make_scorer(accuracy_score), "down": make_scorer(accuracy_score, greater_is_better=False)}
    for refit in scoring:
        search = BayesSearchCV(SVC(), SVM, n_iter=6, cv=3, random_state=0, scoring=scoring, refit=refit).fit(*IRIS)
        np.testing.assert_allclose(
            [trial.value for trial in search.study_.trials], search.cv_results_[f"mean_test_{refit}"], rtol=1e-15
        )
        assert search.study_.best.value == search.best_score_


def test_folds_are_drawn_once():
    """As by scikit-learn: a splitter without a seed gives every candidate the same folds."""
    seen = []

    def score(model, X, y):
        seen.append(X.tobytes())
        return model.score(X, y)

    BayesSearchCV(SVC(), SVM, n_iter=5, cv=ShuffleSplit(2), scoring=score, refit=False, first_folds=1).fit(*IRIS)
    assert len(seen) > 5
    assert len(set(seen)) == 2


def test_a_space_that_is_used_up_ends_the_search():
    with pytest.warns(UserWarning, match="total space of parameters 3 is smaller than n_iter=5"):
        search = BayesSearchCV(SVC(), {"C": [1, 2, 3]}, n_iter=5, cv=2, random_state=0).fit(*IRIS)
    assert sorted(params["C"] for params in search.cv_results_["params"]) == [1, 2, 3]


@pytest.mark.parametrize("options", [{"n_jobs": 2}, {"n_jobs": 2, "first_folds": 1}])
def test_folds_run_in_parallel_with_the_same_result(options):
    few = {name: value for name, value in options.items() if name != "n_jobs"}
    one, two = (BayesSearchCV(SVC(), SVM, n_iter=6, cv=3, random_state=0, **more).fit(*IRIS) for more in (few, options))
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert one.best_score_ == two.best_score_


def test_candidates_are_asked_for_together():
    search = BayesSearchCV(SVC(), SVM, n_iter=10, n_points=4, cv=2, random_state=0).fit(*IRIS)
    events = [payload["type"] for _, payload in search.study_.storage.read(search.study_.name)]
    assert events.count("told") == 10
    asked = "".join({"suggested": "a", "told": "t"}.get(event, "") for event in events)
    assert asked == "aaaatttt" * 2 + "aatt"


def test_scikit_optimizes_settings_are_translated():
    search = BayesSearchCV(
        SVC(), SVM, n_iter=3, cv=2, random_state=0,
        optimizer_kwargs={"base_estimator": "RF", "acq_func": "LCB", "n_initial_points": 2},
    ).fit(*IRIS)  # fmt: skip
    header = search.study_._history.header
    assert (header["surrogate"], header["acquisition"], header["initial"]) == ("rf", "lcb", 2)
    for wrong in ({"n_jobs": 2}, {"acq_func": "EIps"}):
        with pytest.raises(StudyError, match="optimizer_kwargs may name"):
            BayesSearchCV(SVC(), SVM, optimizer_kwargs=wrong).fit(*IRIS)


def test_fit_params_reach_the_estimator():
    weights = np.where(IRIS[1] == 0, 1.0, 0.0) + 1e-9
    for search in (
        BayesSearchCV(SVC(), SVM, n_iter=2, cv=2, random_state=0, fit_params={"sample_weight": weights}).fit(*IRIS),
        BayesSearchCV(SVC(), SVM, n_iter=2, cv=2, random_state=0).fit(*IRIS, sample_weight=weights),
    ):
        assert set(search.predict(IRIS[0])) == {0}


def test_a_splitter_without_folds_is_refused():
    with pytest.raises(ValueError, match="CV iterator empty"):
        BayesSearchCV(SVC(), SVM, cv=iter([])).fit(*IRIS)


def test_it_says_what_it_does_when_asked(capsys):
    BayesSearchCV(SVC(), SVM, n_iter=2, cv=2, random_state=0, verbose=2).fit(*IRIS)
    said = capsys.readouterr().out
    assert said.startswith("Fitting 2 folds for each of 2 candidates")
    assert said.count("[CV] END") == 4


def test_groups_and_routed_metadata_arrive():
    groups = np.arange(150) % 3
    search = BayesSearchCV(SVC(), SVM, n_iter=2, cv=GroupKFold(3), random_state=0).fit(*IRIS, groups=groups)
    one = cross_val_score(SVC(**search.best_params_), *IRIS, cv=list(GroupKFold(3).split(*IRIS, groups)))
    assert search.best_score_ == one.mean()
    weights = np.where(IRIS[1] == 0, 1.0, 0.0) + 1e-9
    with config_context(enable_metadata_routing=True):
        model = SVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        routed = BayesSearchCV(model, SVM, n_iter=2, cv=2, random_state=0).fit(*IRIS, sample_weight=weights)
    assert set(routed.predict(IRIS[0])) == {0}
    assert routed.best_score_ > 0.99, "scored by the weights too"


def test_a_transformer_is_searched_without_values():
    search = BayesSearchCV(PCA(), {"n_components": (1, 3)}, n_iter=3, cv=3, random_state=0).fit(IRIS[0])
    inside = search.transform(IRIS[0])
    assert inside.shape == (150, search.best_params_["n_components"])
    np.testing.assert_allclose(search.inverse_transform(inside), IRIS[0], atol=2.0)


# Failures.
class Touchy(ClassifierMixin, BaseEstimator):
    """Fails for large C; where it is told so, only on folds without the first row."""

    def __init__(self, C=1.0, always=True):
        self.C, self.always = C, always

    def fit(self, X, y):
        if self.C > 3.0 and (self.always or not (IRIS[0][0] == X).all(axis=1).any()):
            raise RuntimeError("too large")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[min(2, int(self.C))])


TOUCHY = {"C": [0.5, 1.5, 2.5, 4.0, 5.0]}


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("first_folds", [None, 1])
@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_a_candidate_that_fails_is_a_failure_of_the_study(always, first_folds):
    search = BayesSearchCV(Touchy(always=always), TOUCHY, n_iter=5, cv=3, random_state=0, first_folds=first_folds)
    with pytest.warns(FitFailedWarning, match="too large"):
        search.fit(*IRIS)
    failed = {trial.params["C"] for trial in search.study_.trials if trial.state == "failed"}
    assert failed == {4.0, 5.0}
    for trial in search.study_.trials:
        assert trial.failure is None or "folds have no score" in trial.failure.message
        assert not always or trial.failure is None or "too large" in trial.failure.message
    mean = search.cv_results_["mean_test_score"]
    for params, score, rank in zip(
        search.cv_results_["params"], mean, search.cv_results_["rank_test_score"], strict=True
    ):
        assert np.isnan(score) == (params["C"] > 3.0)
        assert not np.isnan(score) or rank == search.cv_results_["rank_test_score"].max()
    assert search.best_params_["C"] < 3.0


def test_a_number_in_place_of_a_score_is_told_as_it_is():
    with pytest.warns(FitFailedWarning):
        search = BayesSearchCV(Touchy(), TOUCHY, n_iter=5, cv=3, random_state=0, error_score=-1.0).fit(*IRIS)
    values = {trial.params["C"]: trial.value for trial in search.study_.trials}
    assert values[4.0] == values[5.0] == -1.0
    assert list(search.cv_results_["mean_test_score"]) == [values[p["C"]] for p in search.cv_results_["params"]]


def test_an_error_is_raised_where_that_is_wanted_and_its_candidate_waits(tmp_path):
    search = BayesSearchCV(
        Touchy(), TOUCHY, n_iter=5, cv=3, random_state=0, error_score="raise", storage=tmp_path / "s.db"
    )
    with pytest.raises(RuntimeError, match="too large"):
        search.fit(*IRIS)
    (waiting,) = [trial for trial in search.study_.trials if trial.state != "complete"]
    assert waiting.state == "waiting"
    assert waiting.params["C"] > 3.0


@pytest.mark.parametrize("error_score", [np.nan, 0.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_search_all_of_whose_candidates_fail_raises(error_score):
    with pytest.raises(ValueError, match="fits failed"):
        BayesSearchCV(Touchy(), {"C": [4, 5]}, n_iter=2, cv=2, error_score=error_score).fit(*IRIS)


# Candidates that stop.
def test_hopeless_candidates_stop_after_their_first_folds():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    wide = {"C": (1e-5, 1e5, "log-uniform"), "gamma": (1e-5, 1e5, "log-uniform")}
    fits = []

    class Counted(SVC):
        def fit(self, X, y):
            fits.append((self.C, self.gamma))
            return super().fit(X, y)

    search = BayesSearchCV(
        Counted(), wide, n_iter=15, cv=cv, random_state=0, first_folds=2, refit=False, surrogate="random"
    ).fit(X, y)  # fmt: skip
    table, stopped = search.cv_results_, search.cv_results_["stopped"]
    assert 3 <= stopped.sum() < 15
    assert len(fits) == 5 * 15 - 3 * stopped.sum()
    splits = np.array([table[f"split{i}_test_score"] for i in range(5)])
    assert np.isnan(splits[2:, stopped]).all()
    assert np.isfinite(splits[:2]).all()
    assert np.isfinite(splits[:, ~stopped]).all()
    np.testing.assert_allclose(table["mean_test_score"], np.nanmean(splits, axis=0))
    np.testing.assert_allclose(table["std_test_score"], np.nanstd(splits, axis=0), atol=1e-12)
    assert (table["rank_test_score"][stopped] == (~stopped).sum() + 1).all()
    assert not stopped[search.best_index_]
    assert (table["mean_fit_time"] > 0).all()
    # Run to the end, none of them would have been the best.
    for i in np.flatnonzero(stopped):
        assert cross_val_score(SVC(**table["params"][i]), X, y, cv=cv).mean() <= search.best_score_
    values = np.array([trial.value for trial in search.study_.trials])
    assert (values[stopped] <= search.best_score_).all()
    assert search.study_.best.params == search.best_params_


def test_candidates_that_run_together_are_stopped_by_those_before_them():
    """One of a batch that is stopped is compared with the best of before, not with one that ran beside it."""
    wide = {"C": (1e-5, 1e5, "log-uniform"), "gamma": (1e-5, 1e5, "log-uniform")}
    settings = {"n_iter": 16, "n_points": 4, "cv": 5, "random_state": 0, "first_folds": 1, "surrogate": "random"}
    search = BayesSearchCV(SVC(), wide, **settings).fit(*IRIS)
    stopped = search.cv_results_["stopped"]
    assert stopped.sum() >= 3
    best = -np.inf
    for trial, ended in zip(search.study_.trials, stopped, strict=True):
        assert not ended or trial.value <= best
        best = max(best, trial.value)


def test_first_folds_must_leave_some():
    with pytest.raises(ValueError, match="first_folds < 3 folds"):
        BayesSearchCV(SVC(), SVM, cv=3, first_folds=3).fit(*IRIS)


# Going on.
def test_a_search_is_taken_up_again(tmp_path):
    def search(n_iter, where, **more):
        return BayesSearchCV(
            SVC(), SVM, n_iter=n_iter, cv=3, random_state=0, storage=tmp_path / where, name="svm", **more
        ).fit(*IRIS)  # fmt: skip

    whole = search(12, "whole.db")
    search(7, "parts.db")
    parts = search(12, "parts.db")
    assert parts.cv_results_["params"] == whole.cv_results_["params"]
    for column in ("mean_test_score", "split1_test_score", "rank_test_score"):
        np.testing.assert_array_equal(parts.cv_results_[column], whole.cv_results_[column])
    again = search(12, "parts.db")
    assert len(again.study_.trials) == 12
    assert again.best_params_ == whole.best_params_
    np.testing.assert_array_equal(again.cv_results_["mean_fit_time"], parts.cv_results_["mean_fit_time"])
    with pytest.raises(StudyError, match="3 folds, but cv gives 4"):
        BayesSearchCV(SVC(), SVM, cv=4, storage=tmp_path / "parts.db", name="svm").fit(*IRIS)
    with pytest.raises(StudyError, match="data and the scoring that it began with"):
        search(13, "parts.db", scoring="f1_macro")
    other = BayesSearchCV(SVC(), SVM, cv=3, storage=tmp_path / "parts.db", name="svm")
    with pytest.raises(StudyError, match="give another name="):
        other.fit(IRIS[0][::-1], IRIS[1])


def test_a_misspelt_name_leaves_no_study_behind(tmp_path):
    settings = {"n_iter": 2, "cv": 2, "random_state": 0, "storage": tmp_path / "s.db", "name": "svm"}
    pipe = Pipeline([("reduce", PCA()), ("svc", SVC())])
    for wrong, said in (("svc__c", "'c' for estimator SVC"), ("svm__C", "'svm' for estimator Pipeline")):
        with pytest.raises(ValueError, match=said):
            BayesSearchCV(pipe, {wrong: (1.0, 3.0)}, **settings).fit(*IRIS)
    mended = BayesSearchCV(pipe, {"svc__C": (1.0, 3.0)}, **settings).fit(*IRIS)
    assert len(mended.study_.trials) == 2
    # What only another step has is known when that step is there.
    steps = {"svc": [LogisticRegression(max_iter=1000)], "svc__l1_ratio": [0.0], "svc__C": (0.1, 1.0)}
    assert BayesSearchCV(pipe, steps, n_iter=2, cv=2, random_state=0).fit(*IRIS).best_params_["svc__l1_ratio"] == 0.0


def test_what_another_process_ran_meanwhile_is_in_the_table(tmp_path):
    """Played by one that runs while a candidate of the first is scored."""
    settings = {"cv": 3, "random_state": 0, "storage": tmp_path / "s.db", "surrogate": "random"}
    others = []

    def score(model, X, y):
        if not others:
            others.append(None)
            others.append(BayesSearchCV(SVC(), SVM, n_iter=3, scoring=score, **settings).fit(*IRIS))
        return model.score(X, y)

    mine = BayesSearchCV(SVC(), SVM, n_iter=6, scoring=score, **settings).fit(*IRIS)
    assert len(mine.study_.trials) == 6
    assert mine.cv_results_["params"] == [trial.params for trial in mine.study_.trials]
    assert len(others[1].cv_results_["params"]) == 3


@pytest.mark.filterwarnings(
    "ignore:One or more of the test scores:UserWarning", "ignore::sklearn.exceptions.FitFailedWarning"
)
def test_a_search_that_has_good_candidates_survives_if_only_bad_ones_are_left(tmp_path):
    good = BayesSearchCV(Touchy(), TOUCHY, n_iter=5, cv=2, random_state=0, storage=tmp_path / "s.db").fit(*IRIS)
    study = good.study_
    assert study.trials[-1].state == "failed", "the last of this seed's candidates is one that fails"
    first = Study(study.space, direction="maximize", seed=0, storage=tmp_path / "t.db")
    for trial in study.trials[:-1]:
        asked = first.ask()
        assert asked.params == trial.params
        if trial.failure:
            first.tell(asked, failed="too large")
        else:
            first.tell(asked, trial.value, metrics=trial.metrics)
    del first
    again = BayesSearchCV(Touchy(), TOUCHY, n_iter=5, cv=2, random_state=0, storage=tmp_path / "t.db").fit(*IRIS)
    assert again.best_params_ == good.best_params_
    assert np.isnan(again.cv_results_["mean_test_score"][-1])


def test_a_stopped_candidate_and_several_metrics_are_taken_up_too(tmp_path):
    settings = {"cv": 5, "random_state": 0, "scoring": ["accuracy", "f1_macro"], "refit": "f1_macro", "first_folds": 1}
    wide = {"C": (1e-5, 1e5, "log-uniform"), "gamma": (1e-5, 1e5, "log-uniform")}
    first, again = (
        BayesSearchCV(SVC(), wide, n_iter=8, storage=tmp_path / "s.db", return_train_score=True, **settings).fit(*IRIS)
        for _ in range(2)
    )
    assert first.cv_results_["stopped"].any()
    assert set(first.cv_results_) == set(again.cv_results_)
    for column, cells in first.cv_results_.items():
        if column != "params":
            np.testing.assert_array_equal(np.ma.asarray(again.cv_results_[column]), np.ma.asarray(cells), column)


def test_a_fitted_search_can_be_pickled_with_its_study():
    search = BayesSearchCV(SVC(), SVM, n_iter=8, cv=2, random_state=0).fit(*IRIS)
    twin = pickle.loads(pickle.dumps(search))  # noqa: S301 - our own
    assert np.array_equal(twin.predict(IRIS[0]), search.predict(IRIS[0]))
    assert [t.params for t in twin.study_.trials] == [t.params for t in search.study_.trials]
    assert twin.study_.ask().params == search.study_.ask().params


def test_a_state_of_numpy_is_a_seed_too():
    one, two, other = (
        BayesSearchCV(SVC(), SVM, n_iter=2, cv=2, random_state=state).fit(*IRIS).cv_results_["params"]
        for state in (np.random.RandomState(0), np.random.RandomState(0), np.random.RandomState(1))
    )
    assert one == two != other


# One problem, many ways in.
MODULE = """
import presage
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

SPACE = presage.Space({"C": presage.Float(1e-3, 1e3, log=True), "gamma": presage.Float(1e-3, 1e3, log=True)})
X, y = load_iris(return_X_y=True)
CV = StratifiedKFold(3, shuffle=True, random_state=0)


def loss(params):
    return -cross_val_score(SVC(**params), X, y, cv=CV).mean()
"""


def test_every_way_in_gives_the_same_suggestions(tmp_path, monkeypatch):
    """minimize, ask and tell, BayesSearchCV and the command line, with the same seed; to the last bit."""
    from typer.testing import CliRunner

    from presage.cli._app import app

    (tmp_path / "iris_svm.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import iris_svm

    by_call = presage.minimize(iris_svm.loss, iris_svm.SPACE, 14, seed=7, progress=False).trials
    study = presage.Study(iris_svm.SPACE, seed=7)
    for _ in range(14):
        trial = study.ask()
        study.tell(trial, iris_svm.loss(trial.params))
    search = BayesSearchCV(SVC(), SVM, n_iter=14, cv=iris_svm.CV, random_state=7).fit(*IRIS)
    done = CliRunner().invoke(
        app, ["run", "iris_svm:loss", "--trials", "14", "--seed", "7", "--storage", "cli.db", "--quiet"]
    )
    assert done.exit_code == 0, done.output
    by_command = presage.load_study("cli.db").trials
    wanted = [trial.params for trial in by_call]
    assert sum(trial.source == "model" for trial in by_call) >= 8
    for trials in (study.trials, search.study_.trials, by_command):
        assert [trial.params for trial in trials] == wanted
    assert search.cv_results_["params"] == wanted
    assert search.best_score_ == -min(trial.value for trial in by_call)


# S5's spaces.
@pytest.mark.parametrize("name", spaces.BY_NAME)
@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_s5s_spaces_fit_their_estimators(name, regression):
    task = spaces.BY_NAME[name](regression)
    if name == "mlp":
        task.estimator.set_params(model__max_iter=20)
    X, y = make_blobs(110, centers=2, random_state=0)
    search = BayesSearchCV(
        *task, n_iter=2, cv=KFold(2, shuffle=True, random_state=0), random_state=0, error_score="raise",
        scoring="neg_mean_squared_error" if regression else "neg_log_loss",
    ).fit(X, y.astype(float) if regression else y)  # fmt: skip
    assert set(search.best_params_) == set(task.space)
    assert all(len(set(search.cv_results_[f"param_{name}"])) == 2 for name in task.space)
