"""What every storage must do, as tests to inherit: one test or more for each sentence of `presage.storage.Storage`."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from presage.errors import Conflict, StorageError
from presage.storage import Event, Snapshot, Storage

HOSTILE_NAMES = (
    "a'; drop table presage_events; --", "a'; drop table events; --", '"quoted"', "a", "A", " a ",
    "%s %(name)s :name ?", "back\\slash", "two\nlines", "../../etc/passwd", "größe", "grösse",
    "gro\u0308sse", "名前", "🎂", "x" * 10_000,
)  # fmt: skip

ROUND_TRIPS: tuple[tuple[dict[Any, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"text": "größe 名前 🎂 \0 \ud800 \" \\ \n"}, {"text": "größe 名前 🎂 \0 \ud800 \" \\ \n"}),
    ({"numbers": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 2**100, -1]},) * 2,
    ({"nothing": None, "yes": True, "nested": {"list": [[], {}]}},) * 2,
    ({"tuple": (1, 2), 3: "key"}, {"tuple": [1, 2], "3": "key"}),
    ({"big": "x" * 3_000_000},) * 2,
)  # fmt: skip


@contextmanager
def refused(error: type[Exception]) -> Iterator[None]:
    """The block must raise this very kind of error: a Conflict is a StorageError but asks for another answer."""
    caught = None
    try:
        yield
    except error as raised:
        caught = raised
    assert type(caught) is error, f"{error.__name__} was due, but got {caught!r}"
    assert str(caught), f"{error.__name__} has no message"


def payloads(storage: Storage, study: str) -> list[Any]:
    """All payloads of a study, after a look at their numbers."""
    events = storage.read(study)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.payload for event in events]


class StorageSuite:
    """Tests for a storage: inherit in a test module of pytest, and say how one is made.

    Example:
        >>> from presage.storage import MemoryStorage
        >>> class TestMemoryStorage(StorageSuite):
        ...     def make(self, folder):
        ...         return MemoryStorage()
    """

    def make(self, folder: Path) -> Storage:
        """A storage without studies, which may keep files in the folder."""
        raise NotImplementedError

    def test_a_study_begins_with_its_first_event(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"kind": "created"})
            events = storage.read("a")
            assert events == [(1, {"kind": "created"})]
            assert isinstance(events[0], Event)

    def test_a_name_can_be_taken_once(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"by": "first"})
            with refused(Conflict):
                storage.create("a", {"by": "second"})
            assert payloads(storage, "a") == [{"by": "first"}]

    def test_append_counts_and_keeps_order(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"n": 1})
            assert storage.append("a", [{"n": 2}]) == 2
            assert storage.append("a", ({"n": n} for n in (3, 4, 5))) == 5
            assert storage.append("a", []) == 5
            assert payloads(storage, "a") == [{"n": n} for n in (1, 2, 3, 4, 5)]

    def test_read_gives_what_is_newer(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"n": 1})
            storage.append("a", [{"n": n} for n in range(2, 12)])
            for after in (-1, 0, 1, 5, 10, 11, 12, 1000):
                newer = [(n, {"n": n}) for n in range(max(after, 0) + 1, 12)]
                assert storage.read("a", after) == newer
                for most in (1, 3, 11, 1000):
                    assert storage.read("a", after, most) == newer[:most]

    def test_payloads_come_back_as_json(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            for given, expected in ROUND_TRIPS:
                last = storage.append("a", [given])
                found = storage.read("a", last - 1)[0].payload
                assert repr(found) == repr(expected)  # == would take True for 1, and -0.0 for 0.0

    def test_payloads_are_copies(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            given = {"list": [1]}
            storage.create("a", given)
            given["list"].append(2)
            storage.read("a")[0].payload["list"].append(3)
            assert payloads(storage, "a") == [{"list": [1]}]

    def test_what_is_no_json_is_refused_whole(self, tmp_path: Path) -> None:
        loop: list[Any] = []
        loop.append(loop)
        wrong: tuple[Any, ...] = (float("nan"), [float("inf")], {1, 2}, b"bytes", object(), loop)
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            for value in wrong:
                with refused(StorageError):
                    storage.append("a", [{"fine": 1}, {"value": value}], claims=["key"], state=b"state")
                with refused(StorageError):
                    storage.create("b", {"value": value})
            with refused(StorageError):
                storage.append("a", [["no", "mapping"]])  # type: ignore[list-item]
            assert payloads(storage, "a") == [{}]
            assert storage.state("a") is None
            assert storage.studies() == ["a"]
            assert storage.append("a", [{}], claims=["key"]) == 2

    def test_events_that_cannot_be_made_leave_nothing(self, tmp_path: Path) -> None:
        def broken() -> Iterator[dict[str, int]]:
            yield {"n": 2}
            raise KeyError("on the way")

        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"n": 1})
            with refused(KeyError):
                storage.append("a", broken(), claims=["key"])
            assert payloads(storage, "a") == [{"n": 1}]
            assert storage.append("a", [], claims=["key"]) == 1

    def test_a_claim_can_be_made_once_per_study(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            storage.create("b", {})
            assert storage.append("a", [{"n": 2}], claims=["x", "größe", "'; --"], state=b"old") == 2
            for taken in ("x", "größe", "'; --"):
                with refused(Conflict):
                    storage.append("a", [{"n": 3}], claims=["free", taken, "also free"], state=b"new")
            with refused(Conflict):
                storage.append("a", [{"n": 3}], claims=["free", "free"])
            assert payloads(storage, "a") == [{}, {"n": 2}]
            assert storage.state("a") == (2, b"old")
            assert storage.append("a", [{"n": 3}], claims=["free", "also free", "X"]) == 3
            assert storage.append("b", [{"n": 2}], claims=["x"]) == 2

    def test_state_is_replaced_with_its_append(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            storage.create("b", {})
            assert storage.state("a") is None
            every_byte = bytes(range(256)) * 4000
            storage.append("a", [{}, {}], state=every_byte)
            assert storage.state("a") == (3, every_byte)
            storage.append("a", [{}])
            assert storage.state("a") == (3, every_byte)
            storage.append("a", [], state=b"")
            assert storage.state("a") == (4, b"")
            assert storage.state("a", after=3) == (4, b"")
            assert storage.state("a", after=4) is None
            assert storage.state("b") is None

    def test_workers_live_until_their_time_runs_out_or_they_leave(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            storage.create("b", {})
            assert storage.living("a") == set()
            assert storage.renew("a", "long", 1000.0) is False
            assert storage.renew("a", "größe; --'", 1000.0) is False
            assert storage.renew("a", "long", 1000.0) is True
            storage.renew("a", "short", 0.3)
            assert storage.living("a") == {"long", "größe; --'", "short"}
            assert storage.living("b") == set()
            storage.renew("a", "größe; --'", 0.0)
            time.sleep(0.4)
            assert storage.living("a") == {"long"}
            assert storage.renew("a", "short", 1000.0) is False, "it was too late"
            assert storage.living("a") == {"long", "short"}
            storage.renew("a", "nobody", 0.0)
            assert storage.living("a") == {"long", "short"}
            storage.delete("a")
            storage.create("a", {})
            assert storage.living("a") == set()

    def test_a_snapshot_makes_an_equal_study(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"n": 1})
            assert storage.snapshot("a") == ([(1, {"n": 1})], [], None)
            storage.append("a", [{"n": 2}, {"n": 3}], claims=["x", "y"], state=b"state")
            storage.append("a", [{"n": 4}])
            taken = storage.snapshot("a")
            assert taken == ([(n, {"n": n}) for n in (1, 2, 3, 4)], ["x", "y"], (3, b"state"))
            assert isinstance(taken, Snapshot)
            storage.restore("b", taken)
            assert storage.snapshot("b") == taken
            with refused(Conflict):
                storage.append("b", [], claims=["y"])
            assert storage.append("b", [{"n": 5}]) == 5
            assert storage.snapshot("a") == taken
            with refused(Conflict):
                storage.restore("a", taken)
            for gap in ([], taken.events[1:], taken.events[:1] + taken.events[2:]):
                with refused(StorageError):
                    storage.restore("c", taken._replace(events=gap))
            assert storage.studies() == ["a", "b"]

    def test_an_unknown_study_is_an_error(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            calls: tuple[Callable[[str], Any], ...] = (
                storage.read,
                storage.state,
                storage.living,
                storage.snapshot,
                storage.delete,
                lambda name: storage.renew(name, "worker", 1.0),
                lambda name: storage.read(name, after=7),
                lambda name: storage.append(name, [{}]),
                lambda name: storage.append(name, []),
                lambda name: storage.append(name, [], claims=["key"], state=b"state"),
            )
            for name in ("b", "A", "a ", "a%", "", "'"):
                for call in calls:
                    with refused(StorageError):
                        call(name)
            assert storage.studies() == ["a"]
            assert payloads(storage, "a") == [{}]

    def test_any_text_is_a_name(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            assert storage.studies() == []
            for name in HOSTILE_NAMES:
                storage.create(name, {"name": name})
            assert storage.studies() == sorted(HOSTILE_NAMES)
            for name in HOSTILE_NAMES:
                storage.append(name, [{}], claims=[name], state=name.encode())
                assert payloads(storage, name) == [{"name": name}, {}]
                assert storage.state(name) == (2, name.encode())

    def test_delete_removes_all_of_one_study(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            for name in ("a", "b"):
                storage.create(name, {"name": name})
                storage.append(name, [{"n": 2}], claims=["key"], state=b"state")
            storage.delete("a")
            assert storage.studies() == ["b"]
            with refused(StorageError):
                storage.read("a")
            storage.create("a", {"name": "again"})
            assert payloads(storage, "a") == [{"name": "again"}]
            assert storage.state("a") is None
            assert storage.append("a", [], claims=["key"]) == 1
            assert payloads(storage, "b") == [{"name": "b"}, {"n": 2}]
            assert storage.state("b") == (2, b"state")
            with refused(Conflict):
                storage.append("b", [], claims=["key"])

    def test_a_closed_storage_opens_anew(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {})
            storage.close()
            storage.close()
            assert storage.append("a", [{}]) == 2
            storage.close()
            assert storage.studies() == ["a"]

    def test_threads_append_at_once(self, tmp_path: Path) -> None:
        threads, rounds = 6, 12
        with closing(self.make(tmp_path)) as storage, ThreadPoolExecutor(threads) as pool:
            storage.create("a", {})
            together = threading.Barrier(threads)

            def write(worker: int) -> list[int]:
                together.wait()
                return write_rounds(storage, worker, rounds)

            writers = [pool.submit(write, worker) for worker in range(threads)]
            while not all(writer.done() for writer in writers):
                assert len(payloads(storage, "a")) % 2 == 1, "a reader saw half of an append"
            check_rounds(storage, [writer.result() for writer in writers], rounds)


class DurableStorageSuite(StorageSuite):
    """Tests for a storage that outlives its process: a second `make` in one folder opens what the first wrote.

    The class must be importable by name, since other processes make storages too.
    """

    def test_what_was_written_is_found_again(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as storage:
            storage.create("a", {"n": 1})
            storage.append("a", [{"n": 2}], claims=["key"], state=b"state")
        with closing(self.make(tmp_path)) as storage:
            assert storage.studies() == ["a"]
            assert payloads(storage, "a") == [{"n": 1}, {"n": 2}]
            assert storage.state("a") == (2, b"state")
            with refused(Conflict):
                storage.append("a", [{"n": 3}], claims=["key"])
            assert storage.append("a", [{"n": 3}]) == 3

    def test_two_storages_of_one_place_see_each_other(self, tmp_path: Path) -> None:
        with closing(self.make(tmp_path)) as one, closing(self.make(tmp_path)) as other:
            one.create("a", {"n": 1})
            assert other.append("a", [{"n": 2}], claims=["key"]) == 2
            assert one.read("a", 1) == [(2, {"n": 2})]
            with refused(Conflict):
                one.append("a", [{"n": 3}], claims=["key"])
            other.delete("a")
            with refused(StorageError):
                one.append("a", [{"n": 3}])

    def test_processes_append_at_once(self, tmp_path: Path) -> None:
        processes, rounds = 3, 15
        # Spawned, because a forked child of a process with threads may hang before it reaches the storage.
        context = multiprocessing.get_context("spawn")
        together, answers = context.Barrier(processes), context.SimpleQueue()
        workers = [
            context.Process(target=_work, args=(type(self), tmp_path, worker, rounds, together, answers), daemon=True)
            for worker in range(processes)
        ]
        for process in workers:
            process.start()
        for process in workers:
            process.join(120)
        assert [process.exitcode for process in workers] == [0] * processes
        with closing(self.make(tmp_path)) as storage:
            check_rounds(storage, [answers.get() for _ in workers], rounds)


def write_rounds(storage: Storage, worker: int, rounds: int) -> list[int]:
    """Append two events a round, and race the others to one claim per round; the claims that were won."""
    won = []
    seen = 0
    for n in range(rounds):
        last = storage.append("a", [{"worker": worker, "n": n, "half": half} for half in (0, 1)])
        assert last > seen + 1, "numbers must grow"
        halves = [event.payload for event in storage.read("a", last - 2)[:2]]
        assert halves == [{"worker": worker, "n": n, "half": half} for half in (0, 1)], "an append was split"
        seen = last
        try:
            storage.append("a", [], claims=[str(n)])
            won.append(n)
        except Conflict:
            pass
    return won


def check_rounds(storage: Storage, won: list[list[int]], rounds: int) -> None:
    """Nothing is lost, doubled or out of order, and each claim has one winner."""
    found = payloads(storage, "a")[1:]
    assert len(found) == 2 * rounds * len(won)
    for worker in range(len(won)):
        mine = [(payload["n"], payload["half"]) for payload in found if payload["worker"] == worker]
        assert mine == [(n, half) for n in range(rounds) for half in (0, 1)]
    assert sorted(n for claims in won for n in claims) == list(range(rounds))


def _work(suite: type[StorageSuite], folder: Path, worker: int, rounds: int, together: Any, answers: Any) -> None:
    together.wait(60)
    with closing(suite().make(folder)) as storage:
        with suppress(Conflict):
            storage.create("a", {})
        answers.put(write_rounds(storage, worker, rounds))
