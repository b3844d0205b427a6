"""Storages keep their contract, and SQLite keeps it through kills, forks, damage and wrong addresses."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import presage.storage.sqlite as sqlite
from presage.errors import Conflict, StorageError
from presage.storage import MemoryStorage, Storage, open_storage
from presage.storage.sql import SQLStorage
from presage.testing.storage import DurableStorageSuite, StorageSuite


class TestMemoryStorage(StorageSuite):
    def make(self, folder: Path) -> Storage:
        return MemoryStorage()


class TestSQLiteStorage(DurableStorageSuite):
    def make(self, folder: Path) -> Storage:
        return open_storage(folder / "studies.db")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


def test_open_storage_knows_what_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = MemoryStorage()
    assert open_storage(storage) is storage
    assert isinstance(open_storage(None), MemoryStorage)
    for number, place in enumerate(
        ("one.db", Path("two 100% ?.db"), "sqlite:///three.db", f"sqlite:///{tmp_path}/four.db")
    ):
        with closing(open_storage(place)) as storage:
            storage.create(str(number), {})
    assert {file.name for file in tmp_path.iterdir()} == {"one.db", "two 100% ?.db", "three.db", "four.db"}
    with pytest.raises(StorageError, match="must be None, a Storage, a URL or a path, but got int 3"):
        open_storage(3)


def test_a_relative_path_is_meant_from_where_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(open_storage("sqlite:///study.db")) as storage:
        storage.create("a", {})
        storage.close()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert storage.studies() == ["a"]


def test_sqlalchemy_is_imported_when_it_is_needed():
    code = "import sys, presage.storage as s; s.open_storage(None); assert 'sqlalchemy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://me:secret@host/db", "begin with sqlite:/// or postgresql://, but got 'mysql'"),
        ("postgresql://me:p@secret@host:7x/db?password=secret", "malformed 'postgresql'"),
        ("sqlite://me:secret@host/study.db", "three slashes"),
        ("sqlite://study.db", "three slashes"),
        ("sqlite://", "in memory"),
        (":memory:", "in memory"),
        ("", "in memory"),
        ("no-such-folder/study.db", "folder of a storage must exist, but there is no .*no-such-folder; create it"),
        ("sqlite:////proc/study.db", "may read and write, but /proc/study.db is not|there is no /proc"),
        (".", "must be a file, but .* is a folder"),
    ],
)
def test_a_wrong_address_is_explained(url, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=message) as caught:
        open_storage(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or "secret" not in str(caught.value.__context__)


def test_a_file_of_another_kind_is_left_alone(path):
    path.write_text("lr,loss\n" * 1000)
    with pytest.raises(StorageError, match=r"must be an SQLite database, but .*study\.db is a file of another kind"):
        open_storage(path)
    assert path.read_text() == "lr,loss\n" * 1000


def test_a_read_only_file_can_be_read(path):
    with closing(open_storage(path)) as storage:
        storage.create("a", {})
    with closing(open_storage(f"sqlite:///file:{path}?mode=ro&uri=true")) as storage:
        assert storage.studies() == ["a"]
        with pytest.raises(StorageError, match=r"must be writable.*study\.db is read-only"):
            storage.append("a", [{}])


def test_a_locked_file_can_be_read_and_says_so_when_written(path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    with closing(open_storage(path)) as storage, closing(sqlite3.connect(path, isolation_level=None)) as other:
        storage.create("a", {})
        other.execute("BEGIN IMMEDIATE")
        assert storage.read("a") == [(1, {})]
        with pytest.raises(StorageError, match=r"free to write within 0\.1 s, but .* kept .* locked") as caught:
            storage.append("a", [{}])
        assert not isinstance(caught.value, Conflict)
        other.execute("COMMIT")
        assert storage.append("a", [{}]) == 2


def test_a_newer_schema_is_refused(path):
    open_storage(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE presage_schema SET version = 99")
        raw.commit()
    with pytest.raises(StorageError, match=r"up to version 3, but .*study\.db has version 99; upgrade presage"):
        open_storage(path)


@pytest.mark.parametrize(
    "damage", ["''", "'{'", "'[1]'", "'null'", """'{"a":1},{"b":2}'""", """'{"a":1'""", "'{}]'", "x'7b7d'", "7",
               "CAST(x'7b22ff223a317d' AS TEXT)"]
)  # fmt: skip
def test_a_damaged_event_is_named(path, damage):
    with closing(open_storage(path)) as storage:
        storage.create("cake", {})
        storage.append("cake", [{"n": n} for n in range(2, 6)])
        with closing(sqlite3.connect(path)) as raw:
            raw.execute(f"UPDATE presage_events SET payload = {damage} WHERE seq = 3")
            raw.commit()
        with pytest.raises(StorageError, match="event 3 of study 'cake'"):
            storage.read("cake")
        assert storage.read("cake", after=3) == [(4, {"n": 4}), (5, {"n": 5})]


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", 3, None])
def test_what_no_database_can_hold_is_refused_by_both(path, text):
    with closing(open_storage(path)) as durable:
        for storage in (MemoryStorage(), durable):
            storage.create("a", {})
            with pytest.raises(StorageError, match="the name of a study must be Unicode text"):
                storage.create(text, {})
            with pytest.raises(StorageError, match="a claim must be Unicode text"):
                storage.append("a", [{}], claims=[text])
            with pytest.raises(StorageError):
                storage.read(text)
            assert len(storage.read("a")) == 1


def test_an_append_is_one_immediate_transaction_of_few_statements(path):
    with closing(SQLStorage(f"sqlite:///{path}")) as storage:
        storage.create("a", {})
        statements = []
        connection = storage._database._engine.raw_connection()
        connection.driver_connection.set_trace_callback(statements.append)
        connection.close()
        storage.append("a", [{}])
        told = [statement.split()[0] for statement in statements if not statement.startswith("PRAGMA")]
        assert told == ["BEGIN", "SELECT", "INSERT", "UPDATE", "COMMIT"]
        assert "BEGIN IMMEDIATE" in statements
        statements.clear()
        storage.read("a", after=2)
        assert [statement.split()[0] for statement in statements] == ["SELECT"]
        for pragma, value in {"journal_mode": "wal", "synchronous": 2}.items():  # 2 is FULL
            assert storage._run(lambda c, pragma=pragma: c.exec_driver_sql(f"PRAGMA {pragma}").scalar()) == value


WRITER = """
import sys
from presage.errors import Conflict
from presage.storage import open_storage
storage = open_storage(sys.argv[1])
try:
    storage.create("a", {})
except Conflict:
    pass
last = 0
while True:
    last = storage.append("a", [{"half": half} for half in (0, 1)], claims=[sys.argv[2] + str(last)])
    print(last, flush=True)
"""


def test_a_kill_loses_nothing_that_was_acknowledged(path):
    acknowledged = 0
    for kill, acknowledgements in enumerate((0, 1, 7, 40, 100)):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), f"{kill}:"], stdout=subprocess.PIPE, text=True
        ) as writer:
            for _ in range(acknowledgements):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
            assert writer.wait() == -signal.SIGKILL
        with closing(open_storage(path)) as storage:
            seqs = [event.seq for event in storage.read("a")] if storage.studies() else []
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) % 2 == 1 or not seqs, "half of an append"
        assert acknowledged <= len(seqs) <= acknowledged + 3  # it may die between the commit and the acknowledgement
        acknowledged = len(seqs)
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


FORK = """
import os, subprocess, sys, threading
from presage.storage import open_storage
path = sys.argv[1]
storage = open_storage(path)
storage.create("a", {})
stop = threading.Event()
def write():  # a call is under way in another thread while the process forks
    while not stop.is_set():
        storage.append("a", [{"by": "thread"}])
thread = threading.Thread(target=write)
thread.start()
to_child, parent_left = os.pipe()
if os.fork() == 0:
    os.close(parent_left)
    assert storage._database._engine is None
    storage.append("a", [{"by": "child"}])
    os.read(to_child, 1)  # returns when the parent is gone
    stranger = "import sys; from presage.storage import open_storage; s = open_storage(sys.argv[1]);"
    subprocess.run([sys.executable, "-c", stranger + "s.append('a', [{}]); s.close()", path], check=True)
    storage.append("a", [{"by": "orphan"}])
    print("orphan done", flush=True)
    os._exit(0)
storage.append("a", [{"by": "parent"}])
stop.set()
thread.join()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_locks_of_its_own(path):
    # In another process, since this one may have threads of JAX.
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout == "orphan done\n"
    with closing(open_storage(path)) as storage:
        by = [event.payload.get("by") for event in storage.read("a")]
    assert by[-1] == "orphan"
    assert {"thread", "parent", "child"} <= set(by)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=3)
names = st.sampled_from(["a", "A", "a'"])
claims = st.lists(st.sampled_from("xyz") | st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=2)
steps = st.one_of(
    st.tuples(st.just("create"), names, json_objects),
    st.tuples(st.just("append"), names, st.lists(json_objects, max_size=3), claims, st.none() | st.binary(max_size=20)),
    st.tuples(st.just("read"), names, st.integers(-1, 10)),
    st.tuples(st.just("delete"), names),
)


def outcome(storage, step):
    kind, name, *rest = step
    try:
        match kind, rest:
            case "append", [payloads, keys, state]:
                return storage.append(name, payloads, claims=keys, state=state)
            case _:
                return getattr(storage, kind)(name, *rest)
    except StorageError as error:
        return type(error), str(error)


def test_both_storages_answer_alike(path):
    with closing(open_storage(path)) as durable:

        @settings(max_examples=60, deadline=None)
        @given(st.lists(steps, max_size=12))
        def check(steps):
            for name in durable.studies():
                durable.delete(name)
            memory = MemoryStorage()
            for step in [("create", "a", {}), *steps]:
                assert repr(outcome(durable, step)) == repr(outcome(memory, step))
            assert durable.studies() == memory.studies()
            for name in memory.studies():
                assert repr(durable.read(name)) == repr(memory.read(name))
                assert durable.state(name) == memory.state(name)

        check()
