"""One problem, one seed, many ways in: the suggestions are the same to the bit."""

import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import presage
from presage import Float, Space

SPACE = Space({"C": Float(1e-2, 1e3, log=True), "gamma": Float(1e-4, 1e1, log=True)})
SEED, TRIALS = 11, 10


def loss(params):
    """The error of a support vector machine, in three folds."""
    x, y = load_iris(return_X_y=True)
    return 1.0 - cross_val_score(SVC(**params), x, y, cv=3).mean()


@pytest.fixture(scope="module")
def expected():
    trials = presage.minimize(loss, SPACE, TRIALS, seed=SEED, progress=False).trials
    assert [t.source for t in trials] == ["initial"] * 5 + ["model"] * 5
    return [(t.params, t.value) for t in trials]


@pytest.mark.needs("optuna")
def test_optuna(expected):
    """The space is not told beforehand; it is that of the first trial, in the order of its suggestions."""
    import optuna

    from presage.integrations.optuna import PresageSampler

    def objective(trial):
        return loss({
            "C": trial.suggest_float("C", 1e-2, 1e3, log=True),
            "gamma": trial.suggest_float("gamma", 1e-4, 1e1, log=True),
        })  # fmt: skip

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=PresageSampler(SEED))
    study.optimize(objective, n_trials=TRIALS)
    assert [(t.params, t.value) for t in study.trials] == expected


@pytest.mark.needs("tune")
@pytest.mark.filterwarnings("ignore")
def test_ray_tune(expected):
    """The searcher asked as Tune asks it, one trial at a time; with several at once others are pending."""
    from ray import tune

    from presage.integrations.ray_tune import PresageSearch

    search = PresageSearch(seed=SEED)
    search.set_search_properties("loss", "min", {"C": tune.loguniform(1e-2, 1e3), "gamma": tune.loguniform(1e-4, 1e1)})
    seen = []
    for i in range(TRIALS):
        params = search.suggest(str(i))
        value = loss(params)
        search.on_trial_complete(str(i), {"loss": value})
        seen.append((params, value))
    assert seen == expected


@pytest.mark.needs("optuna")
def test_a_study_that_optuna_began_goes_on_in_presage(expected):
    """Its trials are imported after the initial design; then the model says the same."""
    import optuna

    from presage.integrations.optuna import PresageSampler, from_optuna

    study = optuna.create_study(sampler=PresageSampler(SEED, space=SPACE))
    study.optimize(lambda t: loss(dict(zip(SPACE, [t.suggest_float("C", 1e-2, 1e3, log=True), t.suggest_float(
        "gamma", 1e-4, 1e1, log=True)], strict=True))), n_trials=5)  # fmt: skip
    ours = from_optuna(study, seed=SEED)
    for params, value in expected[5:]:
        trial = ours.ask()
        assert trial.params == params
        ours.tell(trial, value)
