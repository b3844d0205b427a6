"""Tables of any kind, and searches over resumable objectives that are killed and go on."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from presage import Float, Int, Space
from presage.design import Candidates, Job, Resumable, Runs, SuccessiveHalving
from presage.design.rows import DataError, Encoding, columns_of_table, target
from presage.errors import StudyError


class Frame:
    """As much of a data frame as is asked for."""

    def __init__(self, columns):
        self._columns = columns

    @property
    def columns(self):
        return list(self._columns)

    def __getitem__(self, name):
        return self._columns[name]

    def to_numpy(self):
        return np.array(list(self._columns.values())).T


TABLE = {
    "size": ["1.5", 2, None, 4.0],
    "town": ["a", "b", "a", ""],
    "same": [7, 7, 7, 7],
    "empty": [None, "", "NA", float("nan")],
    "flag": [True, False, True, True],
}


def test_every_kind_of_column_becomes_numbers_and_is_spoken_of():
    encoding = Encoding.learn(*columns_of_table(TABLE))
    x = encoding.apply(*columns_of_table(TABLE))
    np.testing.assert_array_equal(
        x,
        [[1.5, 0, 0, 1, 0, 1], [2, 0, 0, 0, 1, 0], [2, 1, 0, 1, 0, 1], [4, 0, 1, 0, 0, 1]],
    )  # size, size missing; town "", a, b; flag
    assert [note.split(":")[0] for note in encoding.notes] == ["size", "town", "same", "empty"]
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding


def test_what_was_never_seen_does_no_harm():
    encoding = Encoding.learn(*columns_of_table(TABLE))
    x = encoding.apply(["town", "flag", "size"], [["z"], [None], ["inf"]])
    np.testing.assert_array_equal(x, [[2.0, 1.0, 0.0, 0.0, 0.0, 1.0]])
    with pytest.raises(DataError, match=r"lacks columns.*town"):
        encoding.apply(["size", "flag"], [[1], [1]])
    with pytest.raises(DataError, match="'size' held numbers"):
        encoding.apply(["size", "flag", "town"], [["big"], [1], ["a"]])


def test_a_table_comes_in_many_forms():
    rows = [[1.0, "x"], [2.0, "y"]]
    for table in (Frame({"x0": [1.0, 2.0], "x1": ["x", "y"]}), {"x0": [1.0, 2.0], "x1": ["x", "y"]}, rows):
        assert columns_of_table(table) == (["x0", "x1"], [[1.0, 2.0], ["x", "y"]])
    with pytest.raises(DataError, match="rows and columns"):
        columns_of_table([1.0, 2.0])
    with pytest.raises(DataError, match="equally long"):
        columns_of_table({"a": [1], "b": [1, 2]})


def test_many_categories_and_texts():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    column = [*words[:25], *rng.choice(words[:5], 75).tolist()]
    encoding = Encoding.learn(["word", "name"], [column, [f"n{i}" for i in range(100)]])
    assert encoding.width == 20
    assert "name: text that differs" in encoding.notes[1]
    with pytest.raises(DataError, match="no column is left"):
        Encoding.learn(["name"], [[f"n{i}" for i in range(100)]])


def test_targets_that_cannot_be_learned():
    y, rows, notes = target([1, None, 2, 3, 4, 5, 6, 7, "8"])
    assert len(y) == 8
    assert 1 not in rows
    assert "1 rows without a value" in notes[0]
    for column, match in (
        (["a"] * 9, "must hold numbers, but holds 'a'"),
        ([1.0] * 9, "constant"),
        ([1.0, 2.0], "at least 8 rows"),
    ):
        with pytest.raises(DataError, match=match):
            target(column)


class Walk(Resumable):
    """Halves its distance from the goal at every step; what it has done is all in its state."""

    def advance(self, jobs, until):
        for job, step in zip(jobs, until, strict=True):
            at = np.array([8.0]) if job.state is None else job.state
            for s in range(job.step, step):
                at = at * 0.9 + 0.01 * np.random.default_rng([job.seed, s]).standard_normal()
            job.state = at
        return [float(job.state[0]) + job.params["x"] ** 2 for job in jobs]

    def write(self, job, path):
        np.savez(path, at=job.state)

    def read(self, job, path):
        with np.load(path) as file:
            job.state = file["at"]


SPACE = Space({"x": Float(-1, 1), "n": Int(1, 3)})
STEPS = (1, 3, 9, 27)


def runs(folder=None, seed=0):
    return Runs(Walk(), Candidates.of(SPACE, 16, 0), STEPS, SuccessiveHalving(), seed, folder)


def drive(one, count):
    while len(one.events) < count:
        moves = one.decide()
        if not moves:
            break
        one.advance(moves)
    return one


def test_every_checkpoint_is_stored_and_trials_show_their_curves():
    one = drive(runs(), 25)
    for trial in one.trials:
        assert [step for step, _ in trial.reports] == list(STEPS[: len(trial.reports)])
        assert (trial.state == "complete") == (len(trial.reports) == len(STEPS))
        assert (trial.value is None) == (trial.state == "paused")
    assert {trial.state for trial in one.trials} == {"paused", "complete"}
    assert one.seconds > 0.0


def test_resumed_it_goes_on_as_if_it_had_not_stopped(tmp_path):
    whole = drive(runs(), 30)
    one = None
    for count in (1, 2, 5, 11, 12, 30):
        one = drive(runs(tmp_path), count)
    strip = [{key: event[key] for key in ("network", "step", "value")} for event in whole.events]
    assert [{key: event[key] for key in ("network", "step", "value")} for event in one.events] == strip


def test_another_search_in_the_same_folder_is_refused(tmp_path):
    drive(runs(tmp_path), 3)
    with pytest.raises(StudyError, match="another search: seed was 0, is 1"):
        runs(tmp_path, seed=1)


def test_a_torn_line_and_states_without_an_event_are_forgotten(tmp_path):
    drive(runs(tmp_path), 4)
    events = tmp_path / "events.jsonl"
    kept = events.read_text()
    events.write_text(kept + '{"network": 3, "st')
    (tmp_path / "states" / "3-27.npz").write_bytes(b"half")
    again = runs(tmp_path)
    assert len(again.events) == 4
    assert events.read_text() == kept
    assert not list((tmp_path / "states").glob("*-*.npz"))


def test_a_state_whose_event_was_written_takes_its_place(tmp_path):
    """Killed between the event and the last rename."""
    one = drive(runs(tmp_path), 6)
    last = one.events[-1]
    states = tmp_path / "states"
    os.replace(states / f"{last['network']}.npz", states / f"{last['network']}-{last['step']}.npz")
    whole, again = drive(runs(), 12), drive(runs(tmp_path), 12)
    assert [e["value"] for e in again.events] == [e["value"] for e in whole.events]


@pytest.mark.slow
def test_killed_at_any_moment_it_loses_at_most_the_step_in_progress(tmp_path):
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from pathlib import Path
        from test_design import drive, runs
        print("ready", flush=True)
        drive(runs(Path({str(tmp_path)!r})), 40)
    """)
    rng, before = np.random.default_rng(0), 0
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
            child.stdout.readline()
            time.sleep(float(rng.uniform(0.0, 0.05)))
            child.send_signal(signal.SIGKILL)
        events = (tmp_path / "events.jsonl").read_text() if (tmp_path / "events.jsonl").exists() else ""
        assert events.count("\n") >= before
        before = events.count("\n")
    again, whole = drive(runs(tmp_path), 40), drive(runs(), 40)
    assert [e["value"] for e in again.events] == [e["value"] for e in whole.events]


def test_candidates_are_all_points_of_a_small_space_and_never_twice_the_same():
    small = Candidates.of(Space({"n": Int(1, 5), "m": Int(0, 1)}), 64, 0)
    assert len(small.params) == 10
    large = Candidates.of(SPACE, 64, 0)
    assert len(large.params) == 64
    assert all(params == SPACE.decode(point) for params, point in zip(large.params, large.x, strict=True))


def test_jobs_begin_with_nothing():
    job = Job(1, {"x": 0.0}, 5)
    assert (job.step, job.state) == (0, None)
