"""Storages of every released version can be upgraded, checked, copied and read; damage is named, not mended."""

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from presage.audit import audit
from presage.cli._app import app
from presage.errors import StorageError
from presage.journal import pack, unpack
from presage.replay import replay
from presage.space import Float, Space
from presage.storage import MemoryStorage, open_storage
from presage.storage.schema import STEPS, VERSION
from presage.study import ROWS, Study, load_study
from presage.testing.fuzz import fuzz_files, fuzz_payloads

DATA = Path(__file__).parent / "data"
SPACE = Space({"x": Float(0, 1)})


def old(folder, version):
    """A storage as that version wrote it: a dump made by its own code."""
    path = folder / f"version{version}.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript((DATA / f"storage_v{version}.sql").read_text())
    return path


def presage(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_earlier_version_has_a_dump_and_a_step():
    assert list(STEPS) == list(range(1, VERSION))
    assert sorted(path.name for path in DATA.glob("storage_v*.sql")) == [f"storage_v{v}.sql" for v in STEPS]


@pytest.mark.parametrize("version", STEPS)
def test_an_earlier_version_is_upgraded_when_asked_and_nothing_is_lost(tmp_path, version):
    path = old(tmp_path, version)
    before = path.read_bytes()
    with pytest.raises(StorageError, match=f"has version {version}; .*presage storage upgrade"):
        open_storage(path)
    assert presage("list", "--storage", path).exit_code == 1
    with closing(sqlite3.connect(path)) as raw:
        events = [json.loads(text) for (text,) in raw.execute("SELECT payload FROM presage_events ORDER BY seq")]
        assert raw.execute("SELECT version FROM presage_schema").fetchall() == [(version,)]
    assert before, "it was only looked at"

    said = presage("storage", "upgrade", "--storage", path)
    assert (said.exit_code, f"was at version {version} and is now at {VERSION}" in said.output) == (0, True)
    assert f"is at version {VERSION} already" in presage("storage", "upgrade", "--storage", path).output
    assert presage("storage", "check", "--storage", path).output == "tuning: sound\n"
    with closing(open_storage(path)) as storage:
        assert [payload for _, payload in storage.read("tuning")] == events
        study = load_study(storage)
        states = [trial.state for trial in study.trials]
        assert states == ["complete"] * 7 + ["failed"] + ["running"] * 2
        assert study.trials[0].params == {"x": 0.25, "n": 3, "c": "b"}
        assert study.best.value < 1
        # Trials left running then are handed out again.
        assert [trial.number for trial in study.ask(3)] == [8, 9, 10]
        study.tell(8, 1.0)


def test_an_upgrade_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = old(tmp_path, 1)

    def broken(connection):
        STEPS_1(connection)
        raise StorageError("on the way")

    STEPS_1 = STEPS[1]
    monkeypatch.setitem(STEPS, 1, broken)
    with pytest.raises(StorageError, match="on the way"):
        open_storage(path, upgrade=True)
    monkeypatch.undo()
    with closing(open_storage(path, upgrade=True)) as storage:
        assert storage.studies() == ["tuning"]


def test_a_copy_equals_its_original(tmp_path):
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    for name in ("one", "two [red]"):
        Study(SPACE, storage=source, name=name, seed=1).optimize(lambda p: p["x"], 6)
    assert presage("storage", "copy", target, "--storage", source).exit_code == 0
    with closing(open_storage(source)) as a, closing(open_storage(target)) as b:
        for name in ("one", "two [red]"):
            assert a.snapshot(name) == b.snapshot(name)
            assert replay(b, name).exact
        load_study(b, "one").optimize(lambda p: p["x"], 8)
        assert len(a.read("one")) < len(b.read("one"))
    again = presage("storage", "copy", target, "one", "--storage", source)
    assert (again.exit_code, "there is a study 'one'" in again.output) == (1, True)
    assert "no study 'three'" in presage("storage", "copy", target, "three", "--storage", source).output


@pytest.mark.needs("postgres")
def test_a_study_moves_to_postgresql_and_back(empty_postgres, tmp_path):
    source, back = tmp_path / "a.db", tmp_path / "b.db"
    Study(SPACE, storage=source, name="größe 名前", seed=1).optimize(lambda p: p["x"], 6)
    assert presage("storage", "copy", empty_postgres, "--storage", source).exit_code == 0
    assert presage("storage", "check", "--storage", empty_postgres).exit_code == 0
    assert presage("storage", "copy", back, "--storage", empty_postgres).exit_code == 0
    with closing(open_storage(source)) as a, closing(open_storage(back)) as b:
        assert a.snapshot("größe 名前") == b.snapshot("größe 名前")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM presage_events WHERE seq = 3", "must have events 1 to"),
        ("UPDATE presage_events SET payload = '{' WHERE seq = 3", "event 3 of study 's'"),
        ("UPDATE presage_events SET payload = replace(payload, 'told', 'tolled')", "must come next and be known"),
        ("UPDATE presage_events SET payload = replace(payload, '\"number\":0', '\"number\":9')", "event 2|trial 0"),
        ("DELETE FROM presage_claims WHERE key = 'told:1'", "trial 1 has ended, but nobody claimed that"),
        ("INSERT INTO presage_claims VALUES (1, 'told:77')", "somebody claimed 'told:77', which did not happen"),
        ("INSERT INTO presage_claims VALUES (9, 'told:77')", "1 rows of presage_claims belong to no study"),
        ("UPDATE presage_states SET blob = x'00'", "a fit state must be plain arrays"),
        ("UPDATE presage_states SET seq = 99", "but is of event 99"),
    ],
)
def test_check_names_what_is_wrong_and_changes_nothing(tmp_path, damage, message):
    path = tmp_path / "study.db"
    Study(SPACE, storage=path, name="s", seed=1, initial=2).optimize(lambda p: p["x"], 4)
    assert presage("storage", "check", "--storage", path).output == "s: sound\n"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(damage)
        raw.commit()
        dump = list(raw.iterdump())
        said = presage("storage", "check", "--storage", path)
        assert said.exit_code == 1
        assert any(part in said.output for part in message.split("|")), said.output
        assert list(raw.iterdump()) == dump


def test_damage_that_is_met_on_the_way_is_explained(tmp_path):
    path = tmp_path / "study.db"
    with closing(open_storage(path)) as storage:
        storage.create("s", {})
        storage.append("s", [{"text": "x" * 1000}] * 500)
    data = bytearray(path.read_bytes())
    size = 4096
    for page in range(len(data) // size // 2, len(data) // size):  # the first half is read before
        data[page * size : (page + 1) * size] = bytes(size)
    path.write_bytes(data)
    with closing(open_storage(path)) as storage:
        for read in (storage.read, storage.snapshot):
            with pytest.raises(StorageError, match="malformed; look at it with presage storage check"):
                read("s")


def test_an_audit_of_a_study_used_in_every_way_finds_nothing():
    storage = MemoryStorage()
    study = Study(SPACE, storage=storage, surrogate="random", seed=0)
    study.enqueue({"x": 0.5})
    trials = study.ask(4)
    study.tell_many([{"x": n / 3000} for n in range(2500)], [1.0] * 2500)
    for trial in trials[1:]:
        study.tell(trial, 1.0)
    study.interrupt(trials[0])
    study.optimize(lambda p: p["x"], 2508)
    assert audit(storage, "study") == []
    assert [len(p["trials"]) for _, p in storage.read("study") if p["type"] == "added"] == [ROWS] * (2500 // ROWS)


def test_a_full_disk_is_said_and_the_study_is_whole(tmp_path):
    path = tmp_path / "study.db"
    with closing(open_storage(path)) as storage:
        study = Study(SPACE, storage=storage, surrogate="random", seed=0)
        study.optimize(lambda p: p["x"], 5)
        pages = storage._run(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar())
        storage._run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}").scalar())
        with pytest.raises(StorageError, match=r"needs room to grow, but the disk of .*study\.db is full; make room"):
            study.tell_many([{"x": n / 3000} for n in range(3000)], [1.0] * 3000)
        storage._run(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 100000").scalar())
        assert audit(storage, "study") == []
        study.optimize(lambda p: p["x"], 7)
        assert len(study.trials) == 7


def test_a_file_that_is_gone_is_not_made_anew(tmp_path):
    path = tmp_path / "study.db"
    with closing(open_storage(path)) as storage:
        storage.create("a", {})
        storage.close()
        path.unlink()
        with pytest.raises(StorageError, match="there is no file"):
            storage.studies()
        assert not path.exists()


# Reading what somebody else wrote.
def test_damaged_files_end_in_an_error_or_in_a_study(tmp_path):
    report = fuzz_files(tmp_path, 150, seed=1)
    assert report.faults == []
    assert report.refused > 20
    assert report.read > 5


def test_hostile_payloads_end_in_an_error_or_in_a_study():
    report = fuzz_payloads(1500, seed=1)
    assert report.faults == []
    assert report.refused > 500
    assert report.read > 20


def test_the_fuzzer_notices_what_it_is_there_to_notice(monkeypatch):
    def careless(data):
        return np.load(io.BytesIO(data), allow_pickle=True)["theta"]

    monkeypatch.setattr("presage.testing.fuzz.unpack", careless)
    report = fuzz_payloads(60, seed=1)
    assert any("pickle.find_class happened" in fault for fault in report.faults)


def test_fit_states_are_plain_arrays_only():
    state = {"a": np.arange(3.0), "b": np.array(True), "c": np.array(["x"])}
    back = unpack(pack(state))
    assert {name: array.tolist() for name, array in back.items()} == {"a": [0.0, 1.0, 2.0], "b": True, "c": ["x"]}
