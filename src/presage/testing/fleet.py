"""Many `presage worker` processes on one study, and whether everything they computed is accounted for.

Each evaluation draws a value of its own and writes it to a log outside the storage before it returns it. So a stored
value names the one evaluation that it came from, and an evaluation that is stored twice, or nowhere, is seen.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from presage.audit import audit
from presage.history import History
from presage.space import Float, Int, Params, Space
from presage.storage import open_storage
from presage.trial import Trial

SPACE = Space({"x": Float(0, 1), "n": Int(1, 1_000_000)})
LOG, SECONDS = "PRESAGE_FLEET_LOG", "PRESAGE_FLEET_SECONDS"
COMMAND = (sys.executable, "-c", "from presage.cli import main; main()", "worker", f"{__name__}:objective")


def objective(params: Params, trial: Trial) -> float:
    """Takes as long as the environment says, and gives a value that no other evaluation gives."""
    time.sleep(float(os.environ[SECONDS]))
    value = params["x"] + random.SystemRandom().random()
    entry = json.dumps([trial.number, trial.attempt, value, os.getpid()]) + "\n"
    handle = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, entry.encode())  # in one piece, so that lines of many processes do not mix
    finally:
        os.close(handle)
    return value


objective.space = SPACE  # type: ignore[attr-defined]


class Fleet:
    """Worker processes.

    Args:
        storage: a URL or path.
        folder: for the log and what workers print.
        name: of the study.
        trials: how many it is to have.
        seconds: how long an evaluation takes.
        lease: see `presage.loop.run`.
        more: further options of `presage worker`.
    """

    def __init__(
        self, storage: str, folder: Path, *, name: str = "fleet", trials: int, seconds: float = 0.001,
        lease: float = 60.0, more: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.storage, self.folder, self.name, self.trials = storage, folder, name, trials
        self.log = folder / f"{name}.log"
        self._options = ["--name", name, "--trials", str(trials), "--lease", str(lease), "--quiet", *more]
        self._environment = os.environ | {LOG: str(self.log), SECONDS: str(seconds)}
        self.living: list[subprocess.Popen[bytes]] = []
        self.ended: list[int] = []
        self.killed = 0

    def hire(self, count: int = 1, prefix: Sequence[str] = (), storage: str | None = None) -> None:
        """Start workers; the prefix is put before their command."""
        place = ["--storage", storage or self.storage, "--surrogate", "random"]
        for _ in range(count):
            with (self.folder / f"{self.name}.err").open("ab") as errors:
                worker = subprocess.Popen(
                    [*prefix, *COMMAND, *place, *self._options], env=self._environment, stdin=subprocess.DEVNULL,
                    stdout=errors, stderr=errors,
                )  # fmt: skip
            self.living.append(worker)

    def kill(self, worker: "subprocess.Popen[bytes]") -> bool:
        """Kill a worker (-9); False where it had ended by itself."""
        if worker.poll() is None:
            worker.kill()
        code = worker.wait()
        self.living.remove(worker)
        if code == -signal.SIGKILL:
            self.killed += 1
        else:
            self.ended.append(code)
        return code == -signal.SIGKILL

    def reap(self) -> None:
        """Note which workers have ended."""
        for worker in [worker for worker in self.living if worker.poll() is not None]:
            self.living.remove(worker)
            self.ended.append(worker.returncode)

    def wait(self, seconds: float) -> None:
        """Until all workers have ended."""
        deadline = time.monotonic() + seconds
        for worker in list(self.living):
            worker.wait(max(0.1, deadline - time.monotonic()))
        self.reap()

    @contextmanager
    def at_work(self) -> Iterator["Fleet"]:
        """No worker outlives the block."""
        try:
            yield self
        finally:
            for worker in list(self.living):
                self.kill(worker)

    def evaluations(self) -> list[tuple[int, int, float]]:
        """Number, attempt and value of each evaluation that was finished."""
        text = self.log.read_text() if self.log.exists() else ""
        return [(number, attempt, value) for number, attempt, value, _ in map(json.loads, text.splitlines())]

    def errors(self) -> str:
        """What workers printed."""
        return (self.folder / f"{self.name}.err").read_text()

    def account(self) -> dict[str, Any]:
        """What the study holds against what was computed; see `faults` for what must not be."""
        with closing(open_storage(self.storage)) as storage:
            events = storage.read(self.name)
            history = History()
            for event in events:
                history.apply(event)
            problems = audit(storage, self.name)
        done = self.evaluations()
        produced: Counter[float | None] = Counter(value for *_, value in done)
        stored: Counter[float | None] = Counter(trial.value for trial in history.trials if trial.values)
        kept = [late for trial in history.trials for late in trial.late]
        late: Counter[float | None] = Counter(one.value for one in kept if not one.counts)
        told = Counter(payload["number"] for _, payload in events if payload["type"] in ("told", "failed"))
        points = Counter(json.dumps(trial.params) for trial in history.trials)
        return {
            "trials": len(history.trials), "wanted": self.trials, "events": len(events), "evaluations": len(done),
            "states": dict(Counter(trial.state for trial in history.trials)),
            "attempts": dict(Counter(trial.attempt for trial in history.trials)),
            "late": len(kept), "late and counted": sum(one.counts for one in kept),
            "not stored": sum((produced - stored - late).values()),
            "workers killed": self.killed,
            "faults": {
                "stored but never computed": sum((stored - produced).values()),
                "stored twice": sum(count - 1 for count in (stored + late).values()),
                "told twice": sum(count > 1 for count in told.values()),
                "points given twice": sum(count > 1 for count in points.values()),
                "trials without a value": sum(not trial.values for trial in history.trials),
                "trials too many or too few": len(history.trials) - self.trials,
                "workers that failed": sum(code != 0 for code in self.ended),
                "problems of the storage": len(problems),
            },
        }  # fmt: skip


def broken(account: Mapping[str, Any]) -> dict[str, int]:
    """The faults that were found."""
    return {what: count for what, count in account["faults"].items() if count}
