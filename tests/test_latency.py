"""Seconds per suggestion against n: cells of their own, ended in time, measured once."""

import sys

import pytest
from typer.testing import CliRunner

from presage.benchmarks import latency, peers, records
from presage.cli._app import app
from presage.functions import hartmann6

SLEEPY = """
import sys, time
for number, line in enumerate(sys.stdin):
    if "ask" in line:
        time.sleep(600)
    print('{"seconds": 0.25, "versions": {}}', flush=True)
"""
GREEDY = """
import sys
for line in sys.stdin:
    print('{"error": "MemoryError: 80 GB"}' if "ask" in line else '{"seconds": 0.25, "versions": {}}', flush=True)
"""


@pytest.mark.parametrize(("script", "why"), [(SLEEPY, "time"), (GREEDY, "memory: MemoryError: 80 GB")])
def test_a_cell_is_ended(monkeypatch, script, why):
    monkeypatch.setattr(latency, "command_of", lambda method, pythons: [sys.executable, "-c", script])
    found = latency.measure("presage:gp", 5, 1.0, {})
    assert found["ended"] == why
    assert "first" not in found


def test_a_surrogate_is_measured_from_the_start_of_its_process():
    found = latency.measure("presage:gp", 12, 120.0, {})
    assert "ended" not in found
    assert min(found["first"], found["next"]) > 0.0
    assert {"python", "numpy", "scipy"} <= set(found["versions"])


def test_peers_take_values_that_were_not_asked_for():
    points = [hartmann6.space.decode([0.1 * i] * 6) for i in range(8)]
    peer = peers.cold("cmaes", hartmann6.space.to_json(), 20, 0)
    peer.give(points, [hartmann6(point) for point in points])
    hartmann6.space.check(peer.ask())
    pytest.importorskip("optuna")
    tpe = peers.cold("optuna-tpe", hartmann6.space.to_json(), 20, 0)
    tpe.give(points, [hartmann6(point) for point in points])
    assert [trial.params for trial in tpe.study.trials] == points
    hartmann6.space.check(tpe.ask())


def made(method, n, limit, pythons):
    cell = {"method": method, "n": n, "limit": limit, "first": 1.0 + n, "next": 0.5}
    return cell if n * (method == "slow") < 100 else {"method": method, "n": n, "limit": limit, "ended": "time"}


def test_what_was_slow_is_not_tried_with_more_values_unless_it_may_take_longer(tmp_path, monkeypatch):
    asked = []

    def measure(method, n, limit, pythons):
        asked.append((method, n, limit))
        return made(method, n, limit, pythons)

    monkeypatch.setattr(latency, "measure", measure)
    path = tmp_path / "cells.jsonl"

    def run(limit):
        return latency.run(["fast", "slow"], path, sizes=(10, 100, 1000), limit=limit, pythons={})

    found = run(5.0)
    assert [cell[:2] for cell in asked] == [("fast", 10), ("slow", 10), ("fast", 100), ("slow", 100), ("fast", 1000)]
    asked.clear()
    assert run(5.0) == found
    assert asked == []
    run(9.0)
    assert asked == [("slow", 100, 9.0)]  # and since that failed again, not 1000
    assert len(list(records.lines(path))) == 6
    text = latency.markdown(found)
    assert "| slow | 11 | time | - |" in text
    assert "| fast | 0.5 | 0.5 | 0.5 |" in text
    assert len(latency.figure(found).axes[0].lines) == 2


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(latency, "measure", made)
    arguments = ["bench", "latency", "-m", "presage:gp,optuna-tpe", "--sizes", "10,100", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "4/4 optuna-tpe at n = 100: 101 s, then 0.5 s" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"cells.jsonl", "latency.md", "latency.png"}
    wrong = CliRunner().invoke(app, ["bench", "latency", "-m", "gp"])
    assert "one of presage:auto" in wrong.stderr
    assert CliRunner().invoke(app, ["bench", "latency", "--sizes", "10,x"]).exit_code == 2
