"""What a study did, done at random: a replay of its events is its live state, and both are what a plain list says."""

import math
import tempfile
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from presage import Choice, Constant, Float, Int, Space, Study, load_study
from presage.errors import StorageError
from presage.history import History
from presage.storage import Event, MemoryStorage, open_storage

SPACE = {
    "x": Float(0, 1), "n": Int(1, 50, log=True), "c": Choice([1, True, (1, 2)]), "k": Constant("k"),
    "w": Float(0, 1, step=0.25, when={"c": [True, (1, 2)]}),
}  # fmt: skip
values = st.floats(-1e6, 1e6)
cells = st.lists(st.floats(0, 1), min_size=4, max_size=4)


def replayed(study):
    history = History(study.space.constraints)
    for event in study.storage.read(study.name):
        history.apply(event)
    return history


def facts(history):
    """Everything a history knows, with types showing: 1, True and 1.0 differ."""
    known = {name: value for name, value in vars(history).items() if not name.startswith("_")}
    known["points"] = [point.tolist() for point in history.points]
    known["space"] = history.space.to_json()
    return {name: repr(value) for name, value in known.items()}


class Life(RuleBasedStateMachine):
    """Random operations on a study; `known` is what its trials must be, in a plain list of (state, value, params)."""

    def __init__(self):
        super().__init__()
        self.study = Study(Space(SPACE), surrogate="random", seed=0, storage=self.place())
        self.known = []

    def place(self):
        return MemoryStorage()

    def numbers(self, *states):
        return [number for number, (state, *_) in enumerate(self.known) if state in states]

    def pick(self, data, *states):
        return data.draw(st.sampled_from(self.numbers(*states)))

    def set(self, number, state, value=None):
        self.known[number] = (state, value, self.known[number][2])

    def handed_out(self, trial):
        waiting = self.numbers("waiting")
        if waiting:
            assert trial.number == waiting[0]
            assert repr(trial.params) == self.known[trial.number][2]
            self.set(trial.number, "running")
        else:
            assert trial.number == len(self.known)
            self.known.append(("running", None, repr(trial.params)))

    @rule()
    def ask(self):
        self.handed_out(self.study.ask())

    @rule(count=st.integers(1, 4))
    def ask_many(self, count):
        trials = self.study.ask(count)
        assert len(trials) == count
        for trial in trials:
            self.handed_out(trial)

    @precondition(lambda self: self.numbers("running", "waiting"))
    @rule(data=st.data(), value=values, stddev=st.none() | st.floats(0, 1))
    def tell(self, data, value, stddev):
        number = self.pick(data, "running", "waiting")
        self.study.tell(number, value, stddev=stddev, metrics={"epochs": 3} if value > 0 else None)
        self.set(number, "complete", value)
        trial = self.study.trials[number]
        assert (trial.stddev, trial.metrics) == (stddev, {"epochs": 3.0} if value > 0 else {})

    @precondition(lambda self: self.numbers("running"))
    @rule(data=st.data(), value=st.sampled_from([math.nan, -math.inf, None]))
    def fail(self, data, value):
        number = self.pick(data, "running")
        self.study.tell(number, value, failed="out of memory" if value is None else None)
        self.set(number, "failed")
        failure = self.study.trials[number].failure
        assert failure.kind == ("error" if value is None else "invalid")

    @rule(rows=st.lists(st.tuples(cells, values), max_size=3))
    def tell_many(self, rows):
        points = [self.study.space.decode(self.widened(u)) for u, _ in rows]
        trials = self.study.tell_many(points, [value for _, value in rows])
        assert [trial.number for trial in trials] == list(range(len(self.known), len(self.known) + len(rows)))
        self.known += [("complete", value, repr(p)) for p, (_, value) in zip(points, rows, strict=True)]

    @rule(u=cells)
    def enqueue(self, u):
        params = self.study.space.decode(self.widened(u))
        assert self.study.enqueue(params).number == len(self.known)
        self.known.append(("waiting", None, repr(params)))

    @precondition(lambda self: self.numbers("running"))
    @rule(data=st.data())
    def interrupt(self, data):
        number = self.pick(data, "running")
        self.study.interrupt(self.study.trials[number])
        self.set(number, "waiting")

    def widened(self, u):
        return np.append(u, np.full(self.study.space.dim - len(u), 0.3))

    @rule()
    def widen(self):
        axis = self.study.space["x"]
        self.study.update_space(Space({**self.study.space, "x": Float(axis.low - 1, axis.high + 0.5)}))

    @rule()
    def add_a_choice(self):
        axis = self.study.space["c"]
        self.study.update_space(Space({**self.study.space, "c": Choice([*axis.options, f"new{len(axis.options)}"])}))

    @precondition(lambda self: len(self.study.space) < 8)
    @rule()
    def add_a_dimension(self):
        name = f"new{len(self.study.space)}"
        self.study.update_space(Space({**self.study.space, name: Int(0, 9, default=4)}))

    @invariant()
    def trials_are_what_they_must_be(self):
        trials = self.study.trials
        assert [trial.number for trial in trials] == list(range(len(self.known)))
        assert [(t.state, t.value, repr(t.params)) for t in trials] == self.known

    @invariant()
    def a_replay_is_the_live_state(self):
        live = self.study._history
        assert facts(replayed(self.study)) == facts(live)
        assert sum(live.tried.values()) == len(self.known)
        assert live.finished == len(self.numbers("complete", "failed"))
        assert sorted(live.owners) == self.numbers("running")
        for trial, point in zip(live.trials, live.points, strict=True):
            assert np.array_equal(live.space.encode(trial.params), point, equal_nan=True)


class LifeInSQLite(Life):
    """The same, and at the end the file is opened anew."""

    def place(self):
        self.folder = tempfile.TemporaryDirectory()
        return open_storage(Path(self.folder.name) / "study.db")

    def teardown(self):
        self.study.storage.close()
        with closing(open_storage(Path(self.folder.name) / "study.db")) as storage:
            assert facts(load_study(storage)._history) == facts(self.study._history)
        self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(stateful_step_count=30, max_examples=15)
TestLifeInSQLite = LifeInSQLite.TestCase
TestLifeInSQLite.settings = settings(stateful_step_count=15, max_examples=5)


def test_events_must_be_known_and_in_order():
    study = Study(Space(SPACE), surrogate="random", seed=0)
    study.ask()
    history = replayed(study)
    number = study.storage.read(study.name)[-1].payload
    for wrong in (Event(2, number), Event(4, number), Event(3, {"type": "unheard"}), Event(3, {**number, "number": 7})):
        with pytest.raises(StorageError, match="must come next"):
            history.apply(wrong)
        assert history.seq == 2
        assert len(history.trials) == 1


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "control", "action": "explode", "at": 0.0}, {"type": "control", "at": 0.0},
        {"type": "note", "text": 7, "number": None, "at": 0.0}, {"type": "note", "text": "a", "number": 1, "at": 0.0},
        {"type": "note", "text": "a", "number": True, "at": 0.0}, {"type": "note", "text": "a", "number": 0},
    ],
)  # fmt: skip
def test_what_people_say_must_make_sense(payload):
    study = Study(Space(SPACE), surrogate="random", seed=0)
    study.ask()
    history = replayed(study)
    before = facts(history)
    with pytest.raises(StorageError, match="must make sense"):
        history.apply(Event(3, payload))
    assert facts(history) == before


@pytest.mark.parametrize("page", [1, 2, 7, 1000])
def test_pages_add_up_to_the_same_and_nobody_sees_a_trial_change(monkeypatch, page):
    monkeypatch.setattr("presage.history.PAGE", page)
    study = Study(Space(SPACE), surrogate="random", seed=0)
    history = History()
    history.catch_up(study.storage, study.name)
    first = study.ask()
    history.catch_up(study.storage, study.name)
    seen = history.trials[0]
    study.tell(first, 1.0)
    study.tell(study.ask(), failed="no")
    study.interrupt(study.ask())
    study.ask()
    history.catch_up(study.storage, study.name)
    assert facts(history) == facts(replayed(study)) == facts(study._history)
    assert (seen.state, seen.value, history.trials[0].value) == ("running", None, 1.0)


def test_a_copy_stays_as_it_was():
    study = Study(Space(SPACE), surrogate="random", seed=0)
    study.tell(study.ask(), 1.0)
    history = replayed(study)
    assert len(history.points) == sum(history.tried.values()) == 1
    copy = history.copy()
    before = facts(copy)
    assert before == facts(history)
    study.tell(study.ask(), 0.5)
    study.note("good", 1)
    study.control("pause")
    for event in study.storage.read(study.name, history.seq):
        history.apply(event)
    assert sum(history.tried.values()) == 2
    assert facts(copy) == before
    assert sum(copy.tried.values()) == 1
    for event in study.storage.read(study.name, copy.seq):  # and it can go on by itself
        copy.apply(event)
    assert facts(copy) == facts(history) == facts(study._history)


def test_a_new_choice_or_dimension_leaves_the_meaning_of_old_trials():
    study = Study(Space({"x": Float(0, 1), "c": Choice(["a", "b"])}), surrogate="random", seed=0)
    study.tell_many([{"x": 0.5, "c": "b"}, {"x": 0.25, "c": "a"}], [1.0, 2.0])
    study.update_space(Space({"x": Float(0, 2), "c": Choice(["z", "a", "b"]), "n": Int(0, 4, default=1)}))
    assert [t.params for t in study.trials] == [{"x": 0.5, "c": "b"}, {"x": 0.25, "c": "a"}]
    data = study._history.observations()
    # Halves and quarters of [0, 2]; the centres of thirds; level 1 of five.
    assert np.allclose(data.x, [[0.25, 5 / 6, 0.3], [0.125, 1 / 2, 0.3]], rtol=1e-15)
    study.tell_many([{"x": 0.5, "c": "b", "n": 1}], [3.0])  # the same point as trial 0
    assert sorted(study._history.tried.values()) == [1, 2]


@pytest.mark.parametrize("wrong", [None, {"x": 2.0}, {"x": math.nan}, {"x": "0.5"}, {"y": 0.5}, [0.5]], ids=str)
def test_many_events_at_once_are_the_same_as_one_by_one(wrong):
    study = Study({"x": Float(0, 1)}, surrogate="random", seed=0)
    for _ in range(6):
        study.tell(study.ask(), 1.0)
    study.ask()
    events = study.storage.read(study.name)
    if wrong is not None:
        seq, payload = events[7]
        events[7] = Event(seq, {**payload, "params": wrong})
    at_once, by_one = History(), History()
    with pytest.raises(StorageError) if wrong is not None else nullcontext():
        for event in events:
            by_one.apply(event)
    with pytest.raises(StorageError) if wrong is not None else nullcontext():
        at_once.apply(events[0])
        at_once.apply(*events[1:])
    assert facts(at_once) == facts(by_one)
    assert len(by_one.trials) == (7 if wrong is None else 3)
