"""Training loops that pause and go on: under a search over curves, and under a study that was interrupted."""

import json

import numpy as np
import pytest

from presage import Float, Study
from presage.design import tune
from presage.errors import StudyError, TrialError

SPACE = {"rate": Float(1e-3, 0.4, log=True)}
STEPS = (1, 3, 10, 30)


class Descent:
    """Gradient descent on a parabola; keeps count of the steps it takes, and can be made to die before one of them."""

    def __init__(self, sign=1.0, dies=None):
        self.sign, self.dies, self.taken = sign, dies, []

    def __call__(self, params, trial):
        at, step = np.load(trial.checkpoint)["state"] if trial.checkpoint.exists() else (1.0, 0)
        while True:
            if len(self.taken) == self.dies:
                raise KeyboardInterrupt
            at, step = at - params["rate"] * 2 * at, int(step) + 1
            self.taken.append((trial.number, step))
            if trial.report(step, self.sign * np.log10(at**2 + 1e-9)) != "go":
                np.savez(trial.checkpoint, state=[at, step])
                return


def test_a_paused_training_goes_on_where_it_was():
    train = Descent()
    found = tune(train, SPACE, STEPS, trainings=6)
    assert len(set(train.taken)) == len(train.taken) == found.steps, "no step is taken twice"
    assert 6 * 30 <= found.steps < 7 * 30
    paused = [trial for trial in found.trials if trial.state == "paused"]
    taken_up = [trial for trial in found.trials if len(trial.reports) > 1]
    assert paused
    assert taken_up
    for trial in found.trials:
        (rate,) = trial.params.values()
        steps = np.array([step for step, _ in trial.reports])
        closed = np.log10((1 - 2 * rate) ** (2.0 * steps) + 1e-9)
        np.testing.assert_allclose([value for _, value in trial.reports], closed, rtol=1e-9, atol=1e-9)
        assert (trial.state == "complete") == (steps[-1] == 30) == bool(trial.values)
    assert found.best.state == "complete"
    assert found.best.value == min(trial.value for trial in found.trials if trial.values)
    with np.load(found.best.checkpoint) as file:
        assert file["state"][1] == 30
    assert "best" in repr(found)


def test_it_begins_with_what_one_knows():
    """The first of the params to begin with are trained to the end before others get farther than a first look."""
    train = Descent()
    found = tune(train, SPACE, STEPS, trainings=3, start=[{"rate": 0.25}, {"rate": 0.0625}])
    assert [found.trials[n].params["rate"] for n in (0, 1)] == [0.25, 0.0625]
    assert train.taken[:30] == [(0, step) for step in range(1, 31)]
    assert train.taken[30] == (1, 1)


def test_maximising_is_minimising_the_negative():
    least, most = Descent(), Descent(sign=-1.0)
    one = tune(least, SPACE, STEPS, trainings=3)
    two = tune(most, SPACE, STEPS, trainings=3, direction="maximize")
    assert least.taken == most.taken
    assert one.best.params == two.best.params
    assert one.best.value == -two.best.value
    assert one.best.reports == [(step, -value) for step, value in two.best.reports]


@pytest.mark.parametrize("dies", [None, 0, 17, 61])
def test_a_search_that_was_stopped_goes_on_as_if_it_was_not(dies, tmp_path):
    whole = Descent()
    wanted = tune(whole, SPACE, STEPS, trainings=4, folder=tmp_path / "whole")
    first = Descent(dies=dies)
    if dies is None:
        tune(first, SPACE, STEPS, trainings=2, folder=tmp_path / "parts")
    else:
        with pytest.raises(KeyboardInterrupt):
            tune(first, SPACE, STEPS, trainings=4, folder=tmp_path / "parts")
    found = tune(Descent(), SPACE, STEPS, trainings=4, folder=tmp_path / "parts")
    assert [t.reports for t in found.trials] == [t.reports for t in wanted.trials]
    assert found.best == wanted.best
    same = [
        [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in text.splitlines()]
        for text in ((tmp_path / part / "events.jsonl").read_text() for part in ("whole", "parts"))
    ]
    assert same[0] == same[1]
    assert np.load(found.best.checkpoint)["state"][1] == 30


def test_a_loop_that_does_not_keep_the_rules_is_told_so():
    def forgets(params, trial):
        trial.report(1, 0.5)

    def goes_on(params, trial):
        for step in range(1, 31):
            trial.report(step, 0.5)

    def gives_up(params, trial):
        trial.checkpoint.write_text("here")

    def diverges(params, trial):
        trial.report(1, float("nan"))

    for train, error, said in (
        (forgets, StudyError, "must write trial.checkpoint"), (goes_on, StudyError, "when the answer is not 'go'"),
        (gives_up, StudyError, "reported nothing"), (diverges, TrialError, "finite"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            tune(train, SPACE, (1, 30))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": (3, 1)}, "larger than the last"), ({"steps": ()}, "from 1 on"), ({"steps": (0, 2)}, "from 1 on"),
        ({"direction": "up"}, "direction"), ({"trainings": 0}, "trainings > 0"),
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(StudyError, match=said):
        tune(Descent(), SPACE, **{"steps": STEPS, **wrong})


class Training:
    """An objective that saves its state at every tenth step."""

    def __init__(self, dies=None):
        self.dies, self.taken = dies, []

    def __call__(self, params, trial):
        at, step = np.load(trial.checkpoint)["state"] if trial.checkpoint.exists() else (1.0, 0)
        while step < 30:
            if len(self.taken) == self.dies:
                raise KeyboardInterrupt
            at, step = at - params["rate"] * 2 * at, int(step) + 1
            self.taken.append((trial.number, step))
            trial.report(step, at**2)
            if step % 10 == 0:
                np.savez(trial.checkpoint, state=[at, step])
        return at**2


def test_an_interrupted_trial_of_a_study_goes_on_from_its_checkpoint(tmp_path, capsys):
    def study():
        return Study(SPACE, surrogate="random", seed=0, storage=tmp_path / "s.db")

    first, second, whole = Training(dies=45), Training(), Training()
    result = study().optimize(first, 3, checkpoints=tmp_path / "states")
    assert result.stopped == "interrupted"
    done = study().optimize(second, 3, checkpoints=tmp_path / "states")
    assert second.taken[0] == (1, 11), "the second trial was at step 15 and had saved step 10"
    assert second.taken[-1] == (2, 30)
    wanted = Study(SPACE, surrogate="random", seed=0).optimize(whole, 3, checkpoints=tmp_path / "others")
    assert [t.value for t in done.trials] == [t.value for t in wanted.trials]


def test_a_checkpoint_of_other_params_is_left_alone(tmp_path):
    for seed in (0, 1):
        train = Training()
        Study(SPACE, surrogate="random", seed=seed).optimize(train, 1, checkpoints=tmp_path)
        assert len(train.taken) == 30
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_folder_there_is_no_checkpoint():
    seen = []
    Study(SPACE, surrogate="random", seed=0).optimize(lambda params, trial: seen.append(trial.checkpoint) or 1.0, 1)
    assert seen == [None]
