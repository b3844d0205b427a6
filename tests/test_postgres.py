"""PostgreSQL keeps the contract of a storage, through restarts, cut connections and lost acknowledgements."""

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
import sqlalchemy as sa

import presage.storage.database as database
import presage.storage.postgres as backend
import presage.storage.sql as sql
from conftest import corner
from presage import leases
from presage.errors import StorageError
from presage.space import Float, Space
from presage.storage import Storage, open_storage
from presage.study import Study
from presage.testing.postgres import Server, wait_until
from presage.testing.proxy import Proxy
from presage.testing.storage import DurableStorageSuite

pytestmark = pytest.mark.needs("postgres")
SPACE = Space({"x": Float(0, 1)})


@pytest.mark.usefixtures("postgres")
class TestPostgreSQLStorage(DurableStorageSuite):
    def make(self, folder) -> Storage:
        return open_storage(corner(str(folder)))


def test_both_spellings_of_the_scheme(empty_postgres):
    for url in (empty_postgres, empty_postgres.replace("postgresql://", "postgres://")):
        with closing(open_storage(url)) as storage:
            storage.studies()


def test_many_processes_may_make_the_tables_at_once(empty_postgres):
    code = "import sys; from presage.storage import open_storage; open_storage(sys.argv[1]).studies()"
    children = [subprocess.Popen([sys.executable, "-c", code, empty_postgres]) for _ in range(4)]
    assert [child.wait(120) for child in children] == [0] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda url: url.set(port=1), "does not: .*refused"),
        (lambda url: url.set(database="nowhere"), 'database "nowhere" does not exist'),
        (lambda url: url.set(username="nobody"), 'role "nobody" does not exist'),
    ],
)
def test_a_wrong_address_is_explained_at_once_and_without_the_password(postgres, change, message):
    url = change(sa.make_url(postgres.url).set(password="s3cret"))
    began = time.monotonic()
    with pytest.raises(StorageError, match=message) as caught:
        open_storage(url.render_as_string(hide_password=False))
    assert time.monotonic() - began < 20
    error = caught.value
    while error is not None:
        assert "s3cret" not in f"{error!s}{error!r}"
        error = error.__cause__


def test_a_look_makes_no_tables(empty_postgres):
    with pytest.raises(StorageError, match="has no tables of presage; check the address"):
        open_storage(empty_postgres, create=False)
    open_storage(empty_postgres).close()
    with closing(open_storage(empty_postgres, create=False)) as storage:
        assert storage.studies() == []


def test_a_missing_driver_says_what_to_install():
    code = (
        "import sys; sys.modules['psycopg'] = None\nfrom presage.storage import open_storage\n"
        "try: open_storage('postgresql://me:s3cret@host/db')\nexcept Exception as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "presage[postgres]"' in said
    assert "s3cret" not in said


def test_a_server_that_is_gone_is_waited_for(caplog):
    with Server() as server, closing(open_storage(server.url)) as storage:
        storage.create("a", {"n": 1})
        server.stop("immediate")
        back = threading.Timer(3.0, server.start)
        back.start()
        with caplog.at_level(logging.WARNING, logger="presage"):
            assert storage.append("a", [{"n": 2}], claims=["key"]) == 2
        back.join()
        assert [record.getMessage().split(", ")[0].split(" after")[0] for record in caplog.records] == [
            f"postgres on 127.0.0.1:{server.port} does not answer", f"postgres on 127.0.0.1:{server.port} is back",
        ]  # fmt: skip
        assert len(storage.read("a")) == 2


def test_patience_ends(empty_postgres, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.5)
    url = sa.make_url(empty_postgres)
    proxy = Proxy(("127.0.0.1", url.port))
    with proxy, closing(open_storage(url.set(port=proxy.port).render_as_string())) as storage:
        proxy.close()
        with pytest.raises(StorageError, match=r"must answer, but .* does not"):
            storage.studies()


class LosesAcknowledgements:
    """Cuts the connection just before or just after the server commits, the first time."""

    def __init__(self, storage, monkeypatch, after):
        self.cuts = 0
        commit = sa.engine.default.DefaultDialect.do_commit

        def do_commit(dialect, connection):
            pid = connection.dbapi_connection.info.backend_pid
            if self.cuts or not storage.armed:
                return commit(dialect, connection)
            self.cuts += 1
            if after:
                commit(dialect, connection)
            storage.end(pid)
            time.sleep(0.3)
            return commit(dialect, connection) if not after else connection.execute("SELECT 1")

        monkeypatch.setattr(type(storage._database._engine.dialect), "do_commit", do_commit)


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_whose_answer_is_lost_is_made_once(empty_postgres, monkeypatch, after):
    with closing(open_storage(empty_postgres)) as storage, closing(open_storage(empty_postgres)) as other:
        storage.create("a", {})
        storage.armed = True
        storage.end = lambda pid: other._run(lambda c: c.exec_driver_sql(f"SELECT pg_terminate_backend({pid})").all())
        loses = LosesAcknowledgements(storage, monkeypatch, after)
        assert storage.append("a", [{"n": 2}], claims=["key"], state=b"state") == 2
        assert loses.cuts == 1
        assert storage.read("a") == [(1, {}), (2, {"n": 2})]


def test_an_append_lost_in_a_crash_is_made_though_its_number_is_used_again(monkeypatch):
    """PostgreSQL numbers transactions; what a crash takes with it leaves its number to somebody else, who commits."""
    number = "SELECT pg_current_xact_id()::text"
    with (
        Server(settings={"wal_writer_delay": "10s"}) as server,  # so that the log has nothing of it yet
        closing(open_storage(server.url)) as storage,
        closing(open_storage(server.url)) as other,
    ):
        storage.create("a", {})
        dialect, numbers = type(storage._database._engine.dialect), []
        commit = dialect.do_commit

        def crash(_, connection):
            monkeypatch.setattr(dialect, "do_commit", commit)
            numbers.append(connection.dbapi_connection.execute(number).fetchone()[0])
            server.stop("immediate")
            server.start()
            while numbers[0] not in numbers[1:]:
                assert len(numbers) < 100, "the number was due to be used again"
                numbers.append(other._run(lambda c: c.exec_driver_sql(number).scalar(), write=True))
            connection.dbapi_connection.commit()

        monkeypatch.setattr(dialect, "do_commit", crash)
        assert storage.append("a", [{"n": 2}], claims=["key"]) == 2
        assert storage.read("a") == [(1, {}), (2, {"n": 2})]


@pytest.mark.parametrize("what", ["create", "delete", "restore", "append_after"])
def test_whatever_is_written_is_written_once(empty_postgres, monkeypatch, what):
    with closing(open_storage(empty_postgres)) as storage, closing(open_storage(empty_postgres)) as other:
        storage.create("a", {"n": 1})
        snapshot = storage.snapshot("a")
        storage.armed = True
        storage.end = lambda pid: other._run(lambda c: c.exec_driver_sql(f"SELECT pg_terminate_backend({pid})").all())
        loses = LosesAcknowledgements(storage, monkeypatch, after=True)
        match what:
            case "create":
                storage.create("b", {"n": 1})
            case "delete":
                storage.delete("a")
            case "restore":
                storage.restore("b", snapshot)
            case "append_after":
                assert storage.append_after("a", lambda: ([{"n": 2}], ["key"])) == 2
        assert loses.cuts == 1
        assert storage.studies() == {"delete": [], "append_after": ["a"]}.get(what, ["a", "b"])


def test_receipts_are_few_and_old_ones_are_forgotten(empty_postgres):
    count = "SELECT count(*) FROM presage_receipts"
    with closing(open_storage(empty_postgres)) as storage:
        storage.create("a", {})
        for _ in range(5):
            storage.append("a", [{}])
        assert storage._run(lambda c: c.exec_driver_sql(count).scalar()) == 1
        storage._run(lambda c: c.exec_driver_sql("UPDATE presage_receipts SET at = at - 90000"), write=True)
    with closing(open_storage(empty_postgres)) as storage:
        storage.append("a", [{}])
        assert storage._run(lambda c: c.exec_driver_sql(count).scalar()) == 1


def test_a_worker_frozen_in_a_transaction_does_not_hold_up_the_others(empty_postgres, monkeypatch):
    monkeypatch.setattr(backend, "IDLE_SECONDS", 1)
    with closing(open_storage(empty_postgres)) as frozen, closing(open_storage(empty_postgres)) as other:
        frozen.create("a", {})
        entered, thaw = threading.Event(), threading.Event()

        def work(connection):
            sql._locked(connection, "a")
            if not entered.is_set():
                entered.set()
                thaw.wait(30)
            return connection.exec_driver_sql("SELECT 7").scalar()

        answer = []
        thread = threading.Thread(target=lambda: answer.append(frozen._run(work, write=True)))
        thread.start()
        entered.wait(30)
        assert other.append("a", [{}]) == 2
        thaw.set()
        thread.join(30)
        assert answer == [7]


def test_a_worker_cut_off_loses_its_trial_and_its_late_value_is_kept(empty_postgres, monkeypatch):
    monkeypatch.setattr(backend, "SILENCE_SECONDS", 1)
    monkeypatch.setattr(backend, "CONNECT_SECONDS", 1)
    url = sa.make_url(empty_postgres)
    values = {}
    with Proxy(("127.0.0.1", url.port)) as proxy:
        began, over = threading.Event(), threading.Event()

        def far_away():
            with closing(open_storage(url.set(port=proxy.port).render_as_string())) as storage:
                study = Study(SPACE, surrogate="random", seed=0, storage=storage)
                study.optimize(objective, 3, lease=1.0)

        def objective(params, trial):
            if trial.number == 0 and trial.attempt == 1:
                began.set()
                over.wait(60)
            values.setdefault(trial.number, []).append(params["x"] + trial.attempt)
            return values[trial.number][-1]

        thread = threading.Thread(target=far_away)
        thread.start()
        assert began.wait(60)
        proxy.cut()
        with closing(open_storage(empty_postgres)) as storage:
            study = Study(SPACE, surrogate="random", storage=storage)
            study.optimize(objective, 3, lease=1.0)
            assert [trial.state for trial in study.trials] == ["complete"] * 3
            assert study.trials[0].attempt == 2
            over.set()
            time.sleep(0.5)
            proxy.restore()
            thread.join(60)
            trial = study.trials[0]
            assert [(late.attempt, late.value, late.counts) for late in trial.late] == [(1, values[0][1], False)]
            assert trial.value == values[0][0]
            assert len(study.trials) == 3


def test_leases_go_by_the_clock_of_the_server(empty_postgres, monkeypatch):
    with closing(open_storage(empty_postgres)) as storage:
        study = Study(SPACE, surrogate="random", seed=0, storage=storage)
        lease = leases.Lease(storage, study.name, "loop", 60.0)
        monkeypatch.setattr(time, "time", lambda: 0.0)  # a machine whose clock is wrong by fifty years
        other = leases.Lease(storage, study.name, "loop", 60.0)
        assert not other.lost(lease.owner)
        assert storage.living(study.name) == {lease.owner, other.owner}
        lease.end()
        wait_until(lambda: other.lost(lease.owner), 10, "the end of a lease")
        other.end()


def test_a_url_with_a_password_is_not_printed(postgres):
    url = sa.make_url(postgres.url).set(password="s3cret", database="nowhere").render_as_string(hide_password=False)
    command = [sys.executable, "-c", "from presage.cli import main; main()", "list", "--storage", url]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=60)
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
