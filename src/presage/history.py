"""A study's past: what its events add up to. Live studies and resumed ones are made by the same replay."""

import os
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from presage.errors import StorageError
from presage.observations import Observations, columns_of, observe
from presage.space import Constraint, Space, point_key
from presage.storage import Event
from presage.trial import Failure, Trial


class History:
    """Trials, space and settings of a study after some of its events.

    Attributes:
        seq: sequence number of the last event taken in.
        header: the payload of the first event.
        settings: surrogate and acquisition as they are now.
        space: the search space as it is now.
        stored_space: the same as plain data, in which constraints are counted.
        trials: by number.
        points: each trial's point on the unit cube.
        tried: how often each point was handed out or told.
        owners: which process runs a running trial.
        handed: how often each trial was handed out; a claim on it can be won by one process only.
        ran_by: which process ran each trial last, finished ones included.
        paused: whether runs are to start nothing new.
        stopped: sequence number of the last request to stop, 0 without one; runs that began before it end.
        notes: what people wrote: text, trial number or None, seconds since the epoch.
    """

    def __init__(self, constraints: Iterable[Constraint] = ()):
        self.seq = 0
        self.header: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.space: Space
        self.stored_space: dict[str, Any] = {}
        self.trials: list[Trial] = []
        self.points: list[np.ndarray] = []
        self.tried: Counter[str] = Counter()
        self.owners: dict[int, str] = {}
        self.handed: Counter[int] = Counter()
        self.ran_by: dict[int, str] = {}
        self.paused = False
        self.stopped = 0
        self.notes: list[dict[str, Any]] = []
        self.finished = 0
        self._constraints = tuple(constraints)

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        payload = event.payload
        if event.seq != self.seq + 1:
            raise StorageError(f"event {self.seq + 1} must come next, but got {event.seq}: {payload}")
        # What a later presage adds without a new format changes no trial and may be passed over.
        take = getattr(self, f"_on_{payload.get('type')}", None)
        if take is not None:
            take(payload)
        self.seq = event.seq

    def _on_created(self, payload: dict[str, Any]) -> None:
        self.header = payload
        self._on_settings(payload)
        self._take_space(payload["space"])

    def _take_space(self, stored: dict[str, Any]) -> None:
        self.stored_space = stored
        self.space = Space.from_json(stored, self._constraints)

    def _on_settings(self, payload: dict[str, Any]) -> None:
        self.settings = {what: payload[what] for what in ("surrogate", "acquisition")}

    def _on_space(self, payload: dict[str, Any]) -> None:
        self._take_space(payload["space"])
        self.points = [self.space.encode(trial.params) for trial in self.trials]
        self.tried = Counter(point_key(self.space.complete(trial.params)) for trial in self.trials)

    def _add(self, number: int, params: dict[str, Any], **fields: Any) -> None:
        if number != len(self.trials):
            raise StorageError(f"trial {len(self.trials)} must come next, but got {number}")
        params = self.space.complete(params)
        self.trials.append(Trial(number, params, **fields))
        self.points.append(self.space.encode(params))
        self.tried[point_key(params)] += 1

    def _change(self, number: int, **fields: Any) -> None:
        self.trials[number] = replace(self.trials[number], **fields)

    def _on_suggested(self, payload: dict[str, Any]) -> None:
        number = payload["number"]
        self._add(
            number,
            payload["params"],
            source=payload["source"],
            suggested=payload["at"],
            latency=payload.get("latency", 0.0),
        )
        self.owners[number] = self.ran_by[number] = payload["owner"]
        self.handed[number] += 1

    def _on_enqueued(self, payload: dict[str, Any]) -> None:
        self._add(payload["number"], payload["params"], state="waiting", source="enqueued")

    def _on_started(self, payload: dict[str, Any]) -> None:
        """A waiting trial, or one whose worker was lost, is handed out (again)."""
        number = payload["number"]
        trial = self.trials[number]
        self.handed[number] += 1
        if trial.finished is not None:  # told meanwhile by somebody who had only its number
            return
        self._change(number, state="running", attempt=payload["attempt"], suggested=trial.suggested or payload["at"])
        self.owners[number] = self.ran_by[number] = payload["owner"]

    def _on_interrupted(self, payload: dict[str, Any]) -> None:
        number = payload["number"]
        if self.trials[number].finished is not None:
            return
        self._change(number, state="waiting", attempt=self.trials[number].attempt + payload.get("lost", False))
        self.owners.pop(number, None)

    def _on_told(self, payload: dict[str, Any]) -> None:
        self._finish(
            payload, state="complete", values=tuple(payload["values"]), stddev=payload.get("stddev"),
            metrics=payload.get("metrics", {}),
        )  # fmt: skip

    def _on_failed(self, payload: dict[str, Any]) -> None:
        failure = Failure(payload["kind"], payload["message"], payload.get("traceback", ""))
        self._finish(payload, state="failed", failure=failure)

    def _finish(self, payload: dict[str, Any], **fields: Any) -> None:
        number = payload["number"]
        reports = [(step, value) for step, value in payload.get("reports", ())]
        self._change(number, reports=reports, finished=payload["at"], **fields)
        self.owners.pop(number, None)
        self.finished += 1

    def _on_added(self, payload: dict[str, Any]) -> None:
        """Trials told without having been asked."""
        for offset, row in enumerate(payload["trials"]):
            self._add(
                payload["number"] + offset, row["params"], state="complete", values=tuple(row["values"]),
                stddev=row.get("stddev"), source="told", finished=payload["at"],
            )  # fmt: skip
            self.finished += 1

    def _on_control(self, payload: dict[str, Any]) -> None:
        """Somebody pauses, resumes or stops all runs of the study."""
        self.paused = payload["action"] == "pause"
        if payload["action"] == "stop":
            self.stopped = self.seq + 1

    def _on_note(self, payload: dict[str, Any]) -> None:
        self.notes.append({what: payload.get(what) for what in ("text", "number", "at")})

    # What follows from it.
    def unfinished(self) -> Trial | None:
        """The first trial that nobody works on: waiting, or running in a process of this machine that is gone."""
        return next(
            (t for t in self.trials if t.state == "waiting" or (t.state == "running" and self.orphaned(t))), None
        )

    def orphaned(self, trial: Trial) -> bool:
        """Whether the process that ran it is known to be gone."""
        return _gone(self.owners.get(trial.number, ""))

    def running_elsewhere(self) -> int:
        """How many trials other processes work on."""
        others = (t for t in self.trials if t.state == "running" and self.owners.get(t.number) != myself())
        return sum(not self.orphaned(trial) for trial in others)

    @property
    def sign(self) -> float:
        """What values are multiplied by so that smaller is better."""
        return 1.0 if self.header["direction"] == "minimize" else -1.0

    def observations(self) -> Observations:
        """What surrogates see; lost trials and waiting ones say nothing. Rows are in the order of trial numbers."""
        rows = [
            t for t in self.trials
            if t.state in ("complete", "running") or (t.failure is not None and t.failure.kind != "lost")
        ]  # fmt: skip
        columns = columns_of(self.space)
        return observe(
            np.array([self.points[t.number] for t in rows]).reshape(len(rows), len(columns)),
            np.array([self.sign * t.values[0] if t.values else np.nan for t in rows], dtype=float), columns,
            stddev=np.array([np.nan if t.stddev is None else t.stddev for t in rows], dtype=float),
            failed=np.array([t.state == "failed" for t in rows], dtype=bool),
            pending=np.array([t.state == "running" for t in rows], dtype=bool),
        )  # fmt: skip


def myself() -> str:
    """This process, told apart from a later one with the same number."""
    return f"{_host()}:{os.getpid()}:{_birth(os.getpid())}"


@cache
def _host() -> str:
    return socket.gethostname()


def _birth(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty where it is gone or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # a zombie is as gone as it will ever be


def _gone(owner: str) -> bool:
    host, _, rest = owner.rpartition(":")[0].rpartition(":")[0], None, owner
    pid, birth = rest.split(":")[-2:] if rest.count(":") >= 2 else ("", "")
    if host != _host() or not pid.isdigit():
        return False  # another machine: only its heartbeat could tell
    if os.path.isdir("/proc/self"):
        return _birth(int(pid)) != birth
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
