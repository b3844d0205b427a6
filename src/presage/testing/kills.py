"""What a storage must survive: processes that share a study and are killed (-9) at random moments, again and again.

Workers run one study; each keeps a log of its own, outside the storage: a value that the objective produced, before it
is told, and a value that was acknowledged, after telling returned. A supervisor kills workers, starts others in their
place, and holds what the storage says against what the logs say.
"""

import json
import multiprocessing
import os
import random
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from presage import leases
from presage.errors import PresageError
from presage.history import History
from presage.ledger import ATTEMPTS
from presage.space import Float, Int, Params, Space
from presage.storage import Event, open_storage
from presage.study import Study
from presage.trial import Trial

SPACE = Space({"x": Float(0, 1), "n": Int(1, 1_000_000)})
EVALUATION = 0.01  # seconds, on average; so that kills hit asking, evaluating and telling alike
LONGEST_WAIT = 0.05  # seconds between an acknowledgement and the kill that follows it: some commits of each worker
ALL_AT_ONCE = 0.1  # how often every worker is killed, so that nobody has the storage open any more
PER_STUDY = 25  # kills before a new study begins in the same storage; longer ones would only take longer to replay
PATIENCE = 60.0  # seconds without a sign of life after which a study counts as stuck

RULES = (
    "no told value is lost", "every stored value was produced", "no trial number is used twice",
    "no trial is told twice", "no trial is taken from a living worker", "a trial is lost only with three workers",
    "no event is missing from the sequence", "no event changes once it is stored", "the storage opens and replays",
    "the storage finds itself sound", "no worker fails by itself", "no worker gets stuck", "every trial ends",
)  # fmt: skip


@dataclass
class Report:
    """What was done to a storage and how it took it.

    Attributes:
        kills: blows dealt, each after at least one commit since the last.
        killed: processes they ended; at times one blow hits all workers.
        unproductive: further blows before which nothing had been committed.
        studies: how many studies were run.
        events, trials, told: what they hold at the end.
        acknowledged: values that a worker knew to be told; no more than `told`, since some died before they knew.
        rerun: how often a trial was handed out again.
        lost: trials that failed because their workers were killed three times.
        seconds: how long it took.
        checks: how often each rule was looked at.
        faults: what broke a rule, by rule; empty lists where all is well.
    """

    kills: int = 0
    killed: int = 0
    unproductive: int = 0
    studies: int = 0
    events: int = 0
    trials: int = 0
    told: int = 0
    acknowledged: int = 0
    rerun: int = 0
    lost: int = 0
    seconds: float = 0.0
    checks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    faults: dict[str, list[str]] = field(default_factory=lambda: {rule: [] for rule in RULES})

    def check(self, rule: str, holds: bool, what: str = "") -> None:
        """Note that a rule was looked at, and what broke it."""
        self.checks[rule] += 1
        if not holds and what not in self.faults[rule]:
            self.faults[rule].append(what)

    @property
    def broken(self) -> dict[str, list[str]]:
        """The rules that did not hold."""
        return {rule: faults for rule, faults in self.faults.items() if faults}


def kill_test(
    storage: str | os.PathLike[str], kills: int = 30, workers: int = 4, seed: int = 0, *,
    sound: Callable[[], object] = lambda: None,
) -> Report:  # fmt: skip
    """Kill workers that share studies in a storage, and report what became of the studies.

    Args:
        storage: a URL or path that every process can open; studies are added to it.
        kills: how many.
        workers: processes at once.
        seed: of the moments and the victims; what the workers are doing just then is up to the machine.
        sound: called after each kill; raises where the storage is damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/study.db"
        ...     report = kill_test(path, kills=1, workers=2, sound=lambda: integrity(path))
        >>> report.kills, report.broken
        (1, {})
    """
    began, report, chance = time.monotonic(), Report(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        while report.kills < kills:
            name = f"kills {seed}.{report.studies}"
            crew = _Crew(os.fspath(storage), name, Path(folder, str(report.studies)), workers, report, sound)
            with crew.at_work():
                goal = min(kills, report.kills + PER_STUDY)
                while report.kills < goal and not report.broken:
                    crew.strike(chance)
            if report.broken:  # what follows from a fault says nothing
                break
            crew.finish()
            report.studies += 1
    report.seconds = time.monotonic() - began
    return report


def integrity(path: str | os.PathLike[str]) -> None:
    """Raise where an SQLite file is damaged."""
    with closing(sqlite3.connect(path)) as connection:
        answer = connection.execute("PRAGMA integrity_check").fetchall()
    if answer != [("ok",)]:
        raise RuntimeError(f"PRAGMA integrity_check must answer ok, but answers {answer}")


# The workers.
def _work(storage: str, name: str, log: str, trials: int) -> None:
    # One write each and no buffer: what was written survives the process, which is all that dies here.
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*line: Any) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")

    def objective(params: Params, trial: Trial) -> float:
        time.sleep(random.expovariate(1.0 / EVALUATION))
        value = random.random()  # told apart from every other evaluation
        note("produced", trial.number, value)
        return value

    try:
        note("owner", leases.process())
        random.seed()
        study = Study(SPACE, surrogate="random", seed=0, storage=storage, name=name)  # whoever is first creates it
        study.optimize(objective, trials, callbacks=[lambda _, trial: note("told", trial.number, trial.value)])
    except BaseException:  # noqa: BLE001 - whatever it is, the supervisor wants to know
        note("error", traceback.format_exc())
        sys.exit(1)


@dataclass
class _Logs:
    """What workers wrote, complete lines only: a kill may have cut the last one."""

    owners: set[str] = field(default_factory=set)
    produced: set[tuple[int, float]] = field(default_factory=set)
    told: set[tuple[int, float]] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    @staticmethod
    def read(paths: list[Path]) -> "_Logs":
        logs = _Logs()
        for path in paths:
            text = path.read_text() if path.exists() else ""
            for kind, *rest in map(json.loads, text.split("\n")[:-1]):
                match kind:
                    case "owner":
                        logs.owners.add(rest[0])
                    case "error":
                        logs.errors.append(rest[0])
                    case _ if rest[1] is not None:
                        getattr(logs, kind).add(tuple(rest))
        return logs


# The supervisor.
class _Crew:
    """The workers of one study."""

    def __init__(self, storage: str, name: str, folder: Path, size: int, report: Report, sound: Callable[[], object]):
        self.storage, self.name, self.folder, self.size = storage, name, folder, size
        self.report, self.sound = report, sound
        self.logs: list[Path] = []
        self.dead: list[Path] = []
        self.living: dict[Path, BaseProcess] = {}
        self.events: list[Event] = []
        folder.mkdir()
        # A server that has imported everything forks a worker in milliseconds; elsewhere each one imports for itself.
        self.context: Any = multiprocessing.get_context("forkserver" if sys.platform != "win32" else "spawn")
        if sys.platform != "win32":
            self.context.set_forkserver_preload([__name__, "presage.loop", "presage.proposers", "presage.storage.sql"])

    def hire(self, trials: int = sys.maxsize) -> None:
        """Fill the empty places."""
        while len(self.living) < self.size:
            log = self.folder / f"{len(self.logs)}.log"
            process = self.context.Process(target=_work, args=(self.storage, self.name, str(log), trials), daemon=True)
            process.start()
            self.logs.append(log)
            self.living[log] = process

    def kill(self, victims: list[Path]) -> None:
        for log in victims:
            self.living[log].kill()
        for log in victims:
            process = self.living.pop(log)
            process.join()
            self.dead.append(log)
            self.inspect(log, process.exitcode not in (0, 1))  # else it had ended before the blow

    def inspect(self, log: Path, well: bool) -> None:
        """Note how a worker ended."""
        errors = "\n".join(_Logs.read([log]).errors)
        self.report.check("no worker fails by itself", well, errors or "for no known reason")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Workers while the block runs, and none afterwards."""
        try:
            self.hire()
            yield
        finally:
            self.kill(list(self.living))

    def strike(self, chance: random.Random) -> None:
        """Kill one worker, or all of them, at a random moment, look at what is left, and replace them."""
        self.wait()
        time.sleep(chance.uniform(0.0, LONGEST_WAIT))
        everyone = list(self.living)
        victims = everyone if chance.random() < ALL_AT_ONCE else [chance.choice(everyone)]
        self.kill(victims)
        before = len(self.events)
        self.examine()
        if len(self.events) > before:
            self.report.kills += 1
            self.report.killed += len(victims)
        else:
            self.report.unproductive += 1
        self.hire()

    def wait(self) -> None:
        """Until a worker was told that its value is stored."""
        deadline, before = time.monotonic() + PATIENCE, self.acknowledged()
        while self.acknowledged() == before:
            stuck = time.monotonic() > deadline
            self.report.check("no worker gets stuck", not stuck, f"nothing happened for {PATIENCE:g} s")
            if stuck:
                break
            time.sleep(0.002)

    def acknowledged(self) -> int:
        return sum(log.read_bytes().count(b'"told"') for log in self.living if log.exists())

    def finish(self) -> None:
        """Let new workers run every trial that was left behind, and some more, to the end."""
        self.examine()
        trials = sum(event.payload["type"] == "suggested" for event in self.events) + self.size
        self.hire(trials)
        deadline = time.monotonic() + PATIENCE
        for log, process in self.living.items():
            process.join(max(0.0, deadline - time.monotonic()))
            self.report.check("no worker gets stuck", process.exitcode is not None, f"it ran for {PATIENCE:g} s")
            self.inspect(log, process.exitcode in (0, None))
        for process in self.living.values():
            process.kill()
            process.join()
        self.dead += self.living
        self.living.clear()
        self.examine()
        with closing(open_storage(self.storage)) as storage:
            ended = Study(SPACE, storage=storage, name=self.name).trials
        for trial in ended:
            what = f"trial {trial.number} is {trial.state}"
            self.report.check("every trial ends", trial.state in ("complete", "failed"), what)
        kinds = Counter(event.payload["type"] for event in self.events)
        self.report.events += len(self.events)
        self.report.trials += len(ended)
        self.report.told += kinds["told"]
        self.report.acknowledged += len(_Logs.read(self.logs).told)
        self.report.rerun += kinds["started"]
        self.report.lost += kinds["failed"]

    def examine(self) -> None:
        """Open the storage as a stranger would, and hold every event against the logs."""
        check = self.report.check
        told = _Logs.read(self.logs).told  # before the events: what was acknowledged by now must be among them
        try:
            with closing(open_storage(self.storage)) as storage:
                events = storage.read(self.name) if self.name in storage.studies() else []
            history = History()
            for event in events:
                history.apply(event)
            check("the storage opens and replays", True)
        except PresageError as error:
            check("the storage opens and replays", False, repr(error))
            return
        try:
            self.sound()
            check("the storage finds itself sound", True)
        except Exception as error:  # noqa: BLE001 - a caller's own
            check("the storage finds itself sound", False, repr(error))
        produced = _Logs.read(self.logs).produced  # after the events: what is among them was produced by now
        values = _Account(self.report, _Logs.read(self.dead).owners).take(events)
        for number, value in told:
            found = values.get(number)
            check("no told value is lost", found == value, f"trial {number}: {value}, but found {found}")
        for number, value in values.items():
            check("every stored value was produced", (number, value) in produced, f"trial {number}: {value}")
        sequence = [event.seq for event in events]
        check("no event is missing from the sequence", sequence == list(range(1, len(events) + 1)), str(sequence))
        before = len(self.events)
        check("no event changes once it is stored", events[:before] == self.events, f"among the first {before}")
        self.events = events


class _Account:
    """The rules of trials, written down a second time and apart from `presage.history`."""

    def __init__(self, report: Report, dead: set[str]):
        self.check, self.dead = report.check, dead
        self.holders: dict[int, list[str]] = {}
        self.values: dict[int, float] = {}
        self.failed: set[int] = set()

    def take(self, events: list[Event]) -> dict[int, float]:
        """Look at every event; the values told."""
        for seq, payload in events:
            kind, number = payload["type"], payload.get("number", -1)
            if kind == "suggested":
                fresh = number == len(self.holders)
                self.check("no trial number is used twice", fresh, f"event {seq}: {number}")
                self.holders[number] = [leases.process_of(payload["owner"])]
            elif kind == "started":
                holders = self.holders[number]
                orphan = holders[-1] in self.dead and not self.ended(number)
                self.check("no trial is taken from a living worker", orphan, f"event {seq}: {number}")
                holders.append(leases.process_of(payload["owner"]))
            elif kind in ("told", "failed"):
                self.check("no trial is told twice", not self.ended(number), f"event {seq}: {number}")
                if kind == "told":
                    self.values[number] = payload["values"][0]
                else:
                    self.failed.add(number)
                    deaths = len(self.dead.intersection(self.holders[number]))
                    lost = payload["kind"] == "lost" and deaths == len(self.holders[number]) == ATTEMPTS
                    self.check("a trial is lost only with three workers", lost, f"event {seq}: {payload}")
        return self.values

    def ended(self, number: int) -> bool:
        return number in self.values or number in self.failed
