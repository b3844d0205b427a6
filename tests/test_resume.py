"""A study that is killed goes on exactly as it would have, and what a parallel run suggested can be computed again."""

import json
import math
import multiprocessing
import os
import random
import signal
import time
from contextlib import closing
from itertools import cycle

import numpy as np
import pytest

from presage import functions
from presage.journal import unpack
from presage.replay import replay
from presage.space import Choice, Float, Int, Space
from presage.storage import Event, MemoryStorage, open_storage
from presage.study import Study
from presage.testing.wrapped import Wrapped

MIXED = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True), "layers": Int(1, 6), "width": Int(8, 512, log=True),
        "act": Choice(["relu", "tanh", "gelu"]), "slope": Float(0.0, 0.5, when={"act": "relu"}),
    }
)  # fmt: skip
FINITE = Space({"a": Int(0, 8), "b": Choice(["p", "q", "r", "s", "t", "u"])})


def mixed(params):
    if params["width"] > 200:
        raise RuntimeError("out of memory")  # so that the model of failures is asked too
    act = {"relu": params.get("slope", 0.0), "tanh": 0.3, "gelu": 0.1}[params["act"]]
    width = math.log2(params["width"] / 64) ** 2 / 9
    return act + width + (params["layers"] - 3) ** 2 / 4 + (math.log10(params["lr"]) + 3) ** 2


def finite(params):
    return (params["a"] - 5) ** 2 / 8 + "qtprsu".index(params["b"])


PROBLEMS = {
    "branin": (functions.branin.space, functions.branin), "mixed": (MIXED, mixed), "finite": (FINITE, finite),
}  # fmt: skip
TRIALS = {"branin": 40, "mixed": 25, "finite": 25}


def run(problem, storage, objective=None, **options):
    space, f = PROBLEMS[problem]
    study = Study(space, seed=3, storage=storage)
    study.optimize(objective or f, TRIALS[problem], **options)
    return study


def suggestions(study):
    """What was suggested, to the last bit, and how."""
    events = [payload for _, payload in study.storage.read(study.name) if payload["type"] == "suggested"]
    return [(event["number"], event["params"], event["source"]) for event in events]


def outcomes(study):
    return [(trial.number, trial.state, trial.value) for trial in study.trials]


@pytest.fixture(scope="module")
def uninterrupted():
    """Each problem's study as it runs without a kill, by name."""
    return {problem: run(problem, None) for problem in PROBLEMS}


def test_the_reference_is_worth_comparing_with(uninterrupted):
    for problem, study in uninterrupted.items():
        assert len(study.trials) == TRIALS[problem]
        assert sum(source == "model" for _, _, source in suggestions(study)) >= TRIALS[problem] - 8
        state = unpack(study.storage.state(study.name)[1])  # from which the next fit starts
        assert any(name.endswith("theta") for name in state)
    failed = [trial.failure is not None for trial in uninterrupted["mixed"].trials]
    assert any(failed)
    assert not all(failed)


# Killing.
def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Wrapped):
    """A storage whose process dies just before or just after it commits a certain event."""

    def __init__(self, path, moment, kind, number):
        super().__init__(open_storage(path))
        self.moment, self.kind, self.number = moment, kind, number

    def append(self, study, payloads, *, claims=(), state=None):
        payloads = list(payloads)
        hit = any(payload["type"] in self.kind and payload["number"] == self.number for payload in payloads)
        if hit and self.moment == "before":
            die()
        last = self.storage.append(study, payloads, claims=claims, state=state)
        if hit and self.moment == "after":
            die()
        return last


MOMENTS = {
    "chosen, not stored": ("before", ("suggested",)), "stored, not begun": ("after", ("suggested",)),
    "being evaluated": None, "evaluated, not stored": ("before", ("told", "failed")),
    "told": ("after", ("told", "failed")),
}  # fmt: skip
RUN_AGAIN = ("stored, not begun", "being evaluated", "evaluated, not stored")


def live_until(problem, path, moment, number):
    """Run a study from where it is, and die at a moment of a trial."""
    _, f = PROBLEMS[problem]
    at = MOMENTS[moment]

    def objective(params, trial):
        if at is None and trial.number == number:
            die()
        return f(params)

    run(problem, path if at is None else Deadly(path, *at, number), objective)


def many_lives(problem, path, deaths):
    """Processes one after the other, each killed at its own trial; the last one lives. How each of them ended."""
    ends = []
    for number, moment in [*deaths.items(), (None, "told")]:
        child = os.fork()  # this process has no thread of Python and no storage open
        if child == 0:
            try:
                live_until(problem, path, moment, number)
            finally:
                os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return ends


def imported():
    """Have in memory what a study imports when it first needs it, so that the children of this process need not."""
    import presage.storage.sql  # noqa: F401

    Study(FINITE, initial=1).optimize(finite, 2)


def nursery(problem, jobs, answers):
    imported()
    for path, deaths in jobs:
        answers.put(many_lives(problem, path, deaths))


def in_another_process(target, *args):
    """Spawned: the test process may have threads, and what is forked there could hang."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=target, args=(*args, answers), daemon=True)
    process.start()
    process.join(600)
    assert process.exitcode == 0
    found = []
    while not answers.empty():
        found.append(answers.get())
    return found


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def always(problem, moment):
    """Killed at each trial, always at the same moment of it."""
    return dict.fromkeys(range(TRIALS[problem]), moment)


def in_turn(problem):
    """Killed at each trial, at one moment after the other."""
    return dict(zip(range(TRIALS[problem]), cycle(MOMENTS), strict=False))


def once(problem):
    """Killed at one trial only, so that what follows is suggested with what a process has in memory; all such plans."""
    return [{number: moment} for number, moment in in_turn(problem).items()]


@needs_fork
@pytest.mark.parametrize(
    ("problem", "plans"),
    [
        ("branin", [in_turn("branin")]),
        pytest.param("branin", [always("branin", "being evaluated")], marks=pytest.mark.slow),
        ("mixed", [in_turn("mixed")]),
        pytest.param("mixed", [once("mixed")[11]], marks=pytest.mark.slow),
        pytest.param("finite", [in_turn("finite")], marks=pytest.mark.slow),
        *[pytest.param(p, [always(p, moment) for moment in MOMENTS], marks=pytest.mark.slow) for p in PROBLEMS],
        pytest.param("branin", once("branin"), marks=pytest.mark.slow),
    ],
)
def test_killed_at_each_trial_a_study_goes_on_as_it_would_have(uninterrupted, tmp_path, problem, plans):
    jobs = [(tmp_path / f"{i}.db", deaths) for i, deaths in enumerate(plans)]
    ends = in_another_process(nursery, problem, jobs)
    reference = uninterrupted[problem]
    for (path, deaths), each in zip(jobs, ends, strict=True):
        assert each == [-signal.SIGKILL] * len(deaths) + [0], deaths
        with closing(open_storage(path)) as storage:
            study = Study(PROBLEMS[problem][0], storage=storage)
            assert suggestions(study) == suggestions(reference), deaths
            assert outcomes(study) == outcomes(reference), deaths
            assert storage.state(study.name)[1] == reference.storage.state(reference.name)[1], deaths
            attempts = [1 + (deaths.get(number) in RUN_AGAIN) for number in range(TRIALS[problem])]
            assert [trial.attempt for trial in study.trials] == attempts, deaths


# Replaying.
def check_replay(study):
    found = replay(study.storage, study.name)
    assert found.differences == ()
    assert found.exact
    assert found.suggestions == len(suggestions(study))


def test_a_replay_notices_what_was_changed(uninterrupted):
    snapshot = uninterrupted["branin"].storage.snapshot("study")
    events = json.loads(json.dumps(snapshot.events))
    third = [payload for _, payload in events if payload["type"] == "suggested"][20]
    third["params"]["x1"] += 1e-12
    tampered = MemoryStorage()
    tampered.restore("study", snapshot._replace(events=[Event(*event) for event in events]))
    found = replay(tampered, "study")
    # The fit hardly notices, but this very suggestion is another one.
    assert third["number"] in [difference.number for difference in found.differences]
    assert not found.exact


def overlap(study):
    """Suggestions made while other trials were running."""
    running, count = set(), 0
    for _, payload in study.storage.read(study.name):
        if payload["type"] in ("suggested", "started"):
            count += bool(running) and payload["type"] == "suggested"
            running.add(payload["number"])
        elif payload["type"] in ("told", "failed"):
            running.discard(payload["number"])
    return count


def slow(f):
    """Sleeps for a time that differs from run to run, so that trials end out of order."""

    def objective(params):
        time.sleep(random.SystemRandom().uniform(0.0, 0.1))
        return f(params)

    return objective


@pytest.mark.parametrize("problem", ["branin", "finite"])
def test_a_run_with_threads_can_be_replayed(problem):
    study = run(problem, None, slow(PROBLEMS[problem][1]), workers=3)
    assert overlap(study) > TRIALS[problem] / 2
    check_replay(study)


def work(problem, path, size, answers):
    """Several processes on one study; one of them is killed on the way."""
    imported()
    children = []
    for worker in range(size):
        child = os.fork()
        if child == 0:
            try:
                run(problem, path, slow(PROBLEMS[problem][1]))
            finally:
                os._exit(0)
        children.append(child)
        if worker == 0:
            time.sleep(0.5)
    os.kill(children[0], signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    answers.put(None)


@needs_fork
@pytest.mark.slow  # threads make the same order of events; this adds a kill
def test_a_run_with_processes_can_be_replayed(tmp_path):
    path = tmp_path / "study.db"
    in_another_process(work, "mixed", path, 4)
    with closing(open_storage(path)) as storage:
        study = Study(MIXED, storage=storage)
        assert len({payload.get("owner") for _, payload in storage.read(study.name)}) >= 4
        assert all(trial.state in ("complete", "failed") for trial in study.trials)
        check_replay(study)


def test_a_study_used_in_every_way_can_be_replayed():
    space, f = PROBLEMS["mixed"]
    study = Study(space, seed=5)
    study.enqueue(space.decode(np.full(space.dim, 0.5)))
    study.tell_many([space.decode(np.array([0.1, 0.2, 0.3, 0.9, 0.5]))], [4.0])
    first = study.ask(4)
    for trial in reversed(first):
        study.tell(trial, 1.0 + trial.number)
    rest = study.ask(9)
    study.tell(rest[3], 3.0)
    study.interrupt(rest[2])
    study.tell(rest[5], failed="no reason")
    more = study.ask(3)
    study.predict(more[0].params)
    study.tell(rest[0], 2.5, stddev=0.1)
    study.optimize(f, trials=20, max_failures=100)
    assert len(suggestions(study)) > 15
    check_replay(study)
