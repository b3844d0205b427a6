"""Damaged files and hostile payloads for whoever reads a storage: each must end in a clear error or in a study.

Nothing may be executed on the way. Fit states are seeded with pickles that would call the operating system, and an
audit hook of the interpreter looks for what a successful attack would need.
"""

import copy
import io
import json
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from presage.audit import audit
from presage.errors import PresageError
from presage.history import History
from presage.journal import pack, unpack
from presage.space import Choice, Float, Int, Space
from presage.storage import Event, MemoryStorage, Storage, open_storage
from presage.storage.memory import encode
from presage.storage.sql import decode_events
from presage.study import Study

LIMIT = 20  # seconds, after which a case counts as a hang
FORBIDDEN = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**63, -(2**200), 1e308, float("nan"), float("-inf"), 0.5, "", "x" * 5000, "\0", "\ud800",
    "../../etc/passwd", "'; DROP TABLE presage_events; --", "<script>alert(1)</script>", "__class__", "created", "told",
    [], {}, [[]], [None], [1, [2, [3]]], {"type": "told"}, {"object": "os.system('true')"}, [["x", {"type": "Float"}]],
    {"dimensions": [["x", {"type": "Float", "low": 0, "high": 1e400}]], "constraints": 0}, "cos\nsystem\n(S'true'\ntR.",
)  # fmt: skip


@dataclass
class Report:
    """What became of the cases.

    Attributes:
        cases: how many.
        refused: ended in an error of presage.
        read: were read all the same; damage may hit what nobody looks at, or make another legal study.
        slowest: seconds of the slowest.
        faults: what must not be: other errors, hangs, anything executed.
    """

    cases: int = 0
    refused: int = 0
    read: int = 0
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)

    def run(self, what: str, case: Callable[[], object]) -> None:
        """Try one case."""
        self.cases += 1
        began = time.perf_counter()
        before = len(_seen)
        signal.alarm(LIMIT)
        try:
            case()
            self.read += 1
        except PresageError as error:
            self.refused += 1
            if not str(error):
                self.faults.append(f"{what}: an error without a message")
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            self.faults.append(f"{what}: {type(error).__name__}: {error}"[:300])
        finally:
            signal.alarm(0)
        self.faults += [f"{what}: {event} happened" for event in _seen[before:]]
        self.slowest = max(self.slowest, time.perf_counter() - began)


_seen: list[str] = []
_watching = False


def _watch() -> None:
    global _watching
    signal.signal(signal.SIGALRM, _too_long)
    if not _watching:
        _watching = True
        sys.addaudithook(lambda event, _: _seen.append(event) if event.startswith(FORBIDDEN) else None)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it took longer than {LIMIT} s")


class _Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


def _study(storage: Storage) -> Study:
    """One with every kind of event."""
    space = Space({"x": Float(0, 1), "n": Int(1, 9), "c": Choice(["a", "b", (1, 2)])})
    study = Study(space, storage=storage, seed=0, surrogate="random", name="s")
    study.enqueue({"x": 0.5, "n": 3, "c": (1, 2)})
    trials = study.ask(5)
    study.tell(trials[0], 0.5, stddev=0.1, metrics={"m": 1.0})
    study.tell(trials[1], failed="no reason")
    study.interrupt(trials[2])
    study.ask()
    study.tell_many([{"x": 0.1, "n": 1, "c": "a"}], [3.0])
    study.update_space(Space({**space, "x": Float(0, 2)}))
    Study(study.space, storage=storage, seed=0, name="s", surrogate="random", acquisition="logei")
    late = {"type": "late", "number": 0, "late": 1, "values": [0.7], "at": time.time()}
    storage.append("s", [late], state=pack({"theta": np.arange(4.0), "rows": np.array(3)}))
    return study


def _use(history: History) -> None:
    """What those who open a study do with it."""
    history.observations()
    assert sum(history.tried.values()) == len(history.trials)
    json.dumps([trial.to_json() for trial in history.trials])
    Space.from_json(history.stored_space).to_json()


def fuzz_payloads(cases: int, seed: int = 0) -> Report:
    """Events and fit states of a study, changed at random, and read.

    Example:
        >>> fuzz_payloads(50).faults
        []
    """
    _watch()
    report, chance = Report(), random.Random(seed)
    storage = MemoryStorage()
    _study(storage)
    snapshot = storage.snapshot("s")
    assert snapshot.state is not None
    sound = [encode(payload) for _, payload in snapshot.events]
    for case in range(cases):
        if case % 5 == 0:
            blob = _changed_blob(snapshot.state[1], chance)
            report.run(f"blob {case}", lambda blob=blob: unpack(blob))  # type: ignore[misc]
        elif case % 5 == 1:
            texts, place = sound.copy(), chance.randrange(len(sound))
            texts[place] = _changed_text(texts[place], chance)
            report.run(f"text {case}", lambda texts=texts: _replay(texts))  # type: ignore[misc]
        else:
            payloads = [json.loads(text) for text in sound]
            for _ in range(chance.choice((1, 1, 1, 2, 4))):
                _change(payloads, chance)
            events = [Event(seq, payload) for seq, payload in enumerate(payloads, 1)]
            report.run(f"events {case}", lambda events=events: _apply(events))  # type: ignore[misc]
    return report


def _apply(events: list[Event]) -> None:
    history = History()
    history.apply(*events)
    _use(history)


def _replay(texts: list[str]) -> None:
    _apply(decode_events("s", "memory", list(range(1, len(texts) + 1)), texts))


def _change(payloads: list[dict[str, Any]], chance: random.Random) -> None:
    """One change somewhere in one of the payloads, or in their order."""
    match chance.randrange(8):
        case 0:
            payloads.insert(chance.randrange(len(payloads) + 1), copy.deepcopy(chance.choice(payloads)))
        case 1:
            payloads.pop(chance.randrange(len(payloads)))
        case 2:
            i, j = chance.randrange(len(payloads)), chance.randrange(len(payloads))
            payloads[i], payloads[j] = payloads[j], payloads[i]
        case _:
            if not payloads:
                return
            here: Any = chance.choice(payloads)
            while True:
                keys = list(here) if isinstance(here, dict) else list(range(len(here)))
                if not keys:
                    return
                key = chance.choice(keys)
                if isinstance(here[key], dict | list) and here[key] and chance.random() < 0.6:
                    here = here[key]
                    continue
                if chance.random() < 0.2:
                    del here[key]
                else:
                    here[key] = copy.deepcopy(chance.choice(HOSTILE))
                return


def _changed_text(text: str, chance: random.Random) -> str:
    match chance.randrange(6):
        case 0:
            return text[: chance.randrange(len(text))]
        case 1:
            return text * 2
        case 2:
            return "[" * chance.choice((10, 100_000)) + text
        case 3:
            return chance.choice(("null", "[]", "1", '"x"', "{}", "NaN", '{"type":NaN}', "9" * 5000, '{"a":' * 50_000))
        case _:
            where = chance.randrange(len(text))
            return text[:where] + chance.choice('{}[]",:0-e\0\ud800Z') + text[where + chance.randrange(3) :]


def _changed_blob(blob: bytes, chance: random.Random) -> bytes:
    out = io.BytesIO()
    match chance.randrange(6):
        case 0:
            return pickle.dumps(_Attack())
        case 1:
            np.savez(out, theta=np.array([_Attack()], dtype=object), allow_pickle=True)
        case 2:
            np.save(out, np.array([_Attack()], dtype=object), allow_pickle=True)
        case 3:
            return chance.randbytes(chance.randrange(200))
        case _:
            out.write(damaged(blob, chance))
    return out.getvalue()


def damaged(data: bytes, chance: random.Random, page: int = 512) -> bytes:
    """Bytes with one or a few things wrong with them."""
    new = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        where = chance.randrange(max(len(new), 1))
        match chance.randrange(6):
            case 0:
                del new[where:]
            case 1:
                new[where : where + page] = bytes(len(new[where : where + page]))
            case 2:
                new[where : where + page] = chance.randbytes(len(new[where : where + page]))
            case 3:
                new += chance.randbytes(chance.randrange(page))
            case _:
                if new:
                    new[where % len(new)] = chance.randrange(256)
    return bytes(new)


def fuzz_files(folder: Path, cases: int, seed: int = 0) -> Report:
    """SQLite files of a study, damaged at random, and everything read that is in them."""
    _watch()
    report, chance = Report(), random.Random(seed)
    path = folder / "sound.db"
    with closing(open_storage(path)) as storage:
        _study(storage)
    sound, victim = path.read_bytes(), folder / "damaged.db"
    for case in range(cases):
        victim.write_bytes(damaged(sound, chance, chance.choice((16, 512, 4096))))
        report.run(f"file {case}", lambda: _read_file(victim))
        for left in folder.glob("damaged.db*"):
            left.unlink()
    return report


def _read_file(path: Path) -> None:
    with closing(open_storage(path, create=False)) as storage:
        storage.problems()  # type: ignore[attr-defined]
        for name in storage.studies():
            audit(storage, name)
            storage.living(name)
            _apply(storage.read(name))
            state = storage.state(name)
            if state is not None:
                unpack(state[1])
