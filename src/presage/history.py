"""A study's past: what its events add up to. Live studies and resumed ones are made by the same replay."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from math import isfinite
from sys import intern
from typing import Any, get_args

import numpy as np

from presage.errors import SpaceError, StorageError
from presage.observations import Observations, columns_of, observe
from presage.space import Constraint, Space, point_key
from presage.storage import Event, Storage
from presage.trial import Effort, Failure, Late, Trial

FORMAT = 1  # of the events; a later presage reads every earlier one
PAGE = 2000  # events that are read at once, so that a long study does not lie in memory twice
SILENT = ("lost", "pruned")  # failures that do not say that the point cannot be evaluated
ACTIONS = ("pause", "resume", "stop")  # that people may ask of all runs of a study


class History:
    """Trials, space and settings of a study after some of its events.

    Attributes:
        seq: sequence number of the last event taken in.
        header: the payload of the first event.
        settings: surrogate and acquisition as they are now.
        space: the search space as it is now.
        constraints: of the space, which are callables and not stored; whoever opens a study gives them.
        stored_space: the same as plain data, in which constraints are counted.
        spaces: how often it was changed.
        trials: by number.
        waiting: numbers of the trials that wait to be handed out (again).
        owners: who has each running trial.
        handed: how often each trial was handed out; a claim on it can be won by one process only.
        ran_by: who had each trial last, finished ones included.
        paused: whether runs are to start nothing new.
        stopped: sequence number of the last request to stop, 0 without one; runs that began before it end.
        notes: what people wrote: text, trial number or None, seconds since the epoch.
        finished: how many trials are complete or failed.
        best: number of the complete trial with the best value.
        since_best: how many values were told after it.
    """

    def __init__(self, constraints: Iterable[Constraint] = ()):
        self.seq = 0
        self.header: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.space: Space
        self.stored_space: dict[str, Any] = {}
        self.spaces = 0
        self.trials: list[Trial] = []
        self.waiting: set[int] = set()
        self.owners: dict[int, str] = {}
        self.handed: Counter[int] = Counter()
        self.ran_by: dict[int, str] = {}
        self.paused = False
        self.stopped = 0
        self.notes: list[dict[str, Any]] = []
        self.finished = 0
        self.best: int | None = None
        self.since_best = 0
        self.constraints = tuple(constraints)
        self._unseen: int | None = None  # trials from this number on were made in the catching up that is under way
        self._sound = False  # the points of the events that are being taken in were looked at together
        self._early: set[int] = set()  # trials that failed before any had a value
        self._points: list[np.ndarray] = []
        self._tried: Counter[str] = Counter()
        self._tried_upto = 0
        self._take: dict[Any, Callable[[dict[str, Any]], None]] = {
            "created": self._on_created, "settings": self._on_settings, "space": self._on_space,
            "suggested": self._on_suggested, "enqueued": self._on_enqueued, "started": self._on_started,
            "interrupted": self._on_interrupted, "reported": self._on_reported, "told": self._on_told,
            "failed": self._on_failed, "late": self._on_late, "added": self._on_added, "control": self._on_control,
            "note": self._on_note,
        }  # fmt: skip

    def catch_up(self, storage: Storage, name: str) -> None:
        """Take in what a storage has of a study and this has not; StorageError for an event that cannot be."""
        with nullcontext() if self.seq else _many_objects():
            self._unseen = len(self.trials)
            try:
                while True:
                    events = storage.read(name, self.seq, PAGE)
                    self.apply(*events)
                    if len(events) < PAGE:
                        return
            finally:
                self._unseen = None

    def apply(self, *events: Event) -> None:
        """Take in the next events; StorageError for one that cannot be."""
        takes, last = self._take, self.seq
        self._sound = len(events) > 1 and self.seq > 0 and self._surely(events)
        for seq, payload in events:
            kind = payload.get("type")
            take = takes.get(kind) if type(kind) is str else None
            if seq != last + 1 or take is None or (kind == "created") != (seq == 1):
                raise StorageError(
                    f"event {last + 1} must come next and be known, but got {seq}: {_short(payload)}; upgrade presage?"
                )
            try:
                take(payload)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SpaceError) as error:
                raise StorageError(
                    f"event {seq} must make sense, but got {_short(payload)} ({type(error).__name__}: {error}); "
                    "the storage was damaged or edited: restore it from a copy"
                ) from error
            self.seq = last = seq

    def _surely(self, events: tuple[Event, ...]) -> bool:
        """Whether all suggested points are legal as they are, seen at one glance; False where that cannot be said."""
        points = []
        for _, payload in events:
            kind = payload.get("type")
            if kind == "suggested":
                points.append(payload.get("params"))
            elif kind == "space" or kind == "created":
                return False
        return bool(points) and self.space.surely(points)

    def _on_created(self, payload: dict[str, Any]) -> None:
        if payload.get("format", 1) > FORMAT:
            raise StorageError(
                f"this presage reads studies up to format {FORMAT}, but this one has {payload['format']}; upgrade it"
            )
        whole = all(type(payload[what]) is int for what in ("seed", "initial", "replicates"))
        if payload["direction"] not in ("minimize", "maximize") or not whole:
            raise ValueError("direction, seed, initial and replicates must be what Study takes")
        self.header = payload
        self._on_settings(payload)
        self._take_space(payload["space"])

    def _take_space(self, stored: dict[str, Any]) -> None:
        self.stored_space = stored
        self.space = Space.from_json(stored, self.constraints if stored["constraints"] else ())

    def _on_settings(self, payload: dict[str, Any]) -> None:
        for what in ("surrogate", "acquisition"):
            if not isinstance(payload[what], str) and not isinstance(payload[what]["object"], str):
                raise TypeError(f"{what} must be a name or describe an object")
        self.settings = {what: payload[what] for what in ("surrogate", "acquisition")}

    def _on_space(self, payload: dict[str, Any]) -> None:
        self._take_space(payload["space"])
        self.spaces += 1
        self._points, self._tried, self._tried_upto = [], Counter(), 0

    def _add(self, number: Any, params: dict[str, Any], fields: dict[str, Any]) -> None:
        if type(number) is not int or number != len(self.trials):
            raise StorageError(f"trial {len(self.trials)} must come next, but got {_short(number)}")
        fields["number"], fields["params"] = number, dict(params) if self._sound else self.space.complete(params)
        self.trials.append(Trial.quick(fields))

    def _number(self, payload: dict[str, Any]) -> int:
        number = payload["number"]
        if type(number) is not int or not 0 <= number < len(self.trials):
            raise IndexError(f"trials go from 0 to {len(self.trials) - 1}")
        return number

    def _change(self, number: int, fields: dict[str, Any]) -> None:
        if self._unseen is not None and number >= self._unseen:  # nobody has it yet, so none is needed that differs
            vars(self.trials[number]).update(fields)
        else:
            self.trials[number] = self.trials[number].but(fields)

    def _on_suggested(self, payload: dict[str, Any]) -> None:
        number, owner = payload["number"], intern(str(payload["owner"]))  # few owners, many trials
        at, latency = payload["at"], payload.get("latency", 0.0)
        if type(at) is not float or type(latency) is not float or not isfinite(at + latency):
            at, latency = _number(at), _number(latency)
        source = intern(str(payload["source"]))
        fields = {"source": source, "suggested": at, "latency": latency}
        if "effort" in payload:
            fields["effort"] = _effort(payload["effort"])
        self._add(number, payload["params"], fields)
        self.owners[number] = self.ran_by[number] = owner
        self.handed[number] = 1

    def _on_enqueued(self, payload: dict[str, Any]) -> None:
        self._add(payload["number"], payload["params"], {"state": "waiting", "source": "enqueued"})
        self.waiting.add(payload["number"])

    def _on_started(self, payload: dict[str, Any]) -> None:
        """A waiting trial, or one whose worker was lost, is handed out (again)."""
        number = self._number(payload)
        owner, at, attempt = str(payload["owner"]), _number(payload["at"]), int(payload["attempt"])
        self.handed[number] += 1
        if self.trials[number].finished is not None:  # told meanwhile by somebody who had only its number
            return
        self._change(number, {"state": "running", "attempt": attempt, "suggested": at, "reports": []})
        self.waiting.discard(number)
        self.owners[number] = self.ran_by[number] = owner

    def _on_interrupted(self, payload: dict[str, Any]) -> None:
        number = self._number(payload)
        mine = payload.get("owner", self.owners.get(number)) == self.owners.get(number)
        if self.trials[number].state != "running" or not mine:  # ended, or somebody else's by now
            return
        attempt = self.trials[number].attempt + bool(payload.get("lost"))
        self._change(number, {"state": "waiting", "attempt": attempt})
        self.owners.pop(number, None)
        self.waiting.add(number)

    def _on_reported(self, payload: dict[str, Any]) -> None:
        """What a running trial has reported since it last was heard of; its end brings all reports again."""
        number, first = self._number(payload), int(payload["first"])
        new = [(int(step), _number(value)) for step, value in payload["reports"]]
        if self.trials[number].state == "running":
            self._change(number, {"reports": [*self.trials[number].reports[:first], *new]})

    def _on_told(self, payload: dict[str, Any]) -> None:
        values = tuple(payload["values"])
        if len(values) != 1 or type(values[0]) is not float or not isfinite(values[0]):
            values = tuple(map(_number, values))
        fields: dict[str, Any] = {"state": "complete", "values": values}
        if payload.get("stddev") is not None:
            fields["stddev"] = _number(payload["stddev"])
        self._finish(payload, fields)
        self._value(payload["number"], values[0])

    def _on_failed(self, payload: dict[str, Any]) -> None:
        self._finish(payload, {"state": "failed", "failure": _failure(payload)})
        if self.best is None:
            self._early.add(payload["number"])

    def _finish(self, payload: dict[str, Any], fields: dict[str, Any]) -> None:
        number = self._number(payload)
        trial, at = self.trials[number], payload["at"]
        if trial.finished is not None:
            raise ValueError(f"trial {number} ended before")
        if payload.get("reports"):
            fields["reports"] = [(int(step), _number(value)) for step, value in payload["reports"]]
        if "metrics" in payload:
            fields["metrics"] = {str(name): _number(value) for name, value in payload["metrics"].items()}
        if "late" in payload:  # its worker had lost it, and was the first to tell all the same
            value = fields["values"][0] if "values" in fields else None
            fields["late"] = (*trial.late, Late(int(payload["late"]), value, True))
        fields["finished"] = at if type(at) is float and isfinite(at) else _number(at)
        self._change(number, fields)
        self.owners.pop(number, None)
        self.waiting.discard(number)
        self.finished += 1

    def _on_late(self, payload: dict[str, Any]) -> None:
        """What a worker came to that had lost the trial, and that nobody waits for any more."""
        number = self._number(payload)
        value = _number(payload["values"][0]) if "values" in payload else None
        failure = None if value is not None else _failure(payload)
        late = Late(int(payload["late"]), value, False, failure)
        self._change(number, {"late": (*self.trials[number].late, late)})

    def _on_added(self, payload: dict[str, Any]) -> None:
        """Trials told without having been asked."""
        at = _number(payload["at"])
        for number, row in enumerate(payload["trials"], payload["number"]):
            values, stddev = tuple(map(_number, row["values"])), row.get("stddev")
            fields = {"state": "complete", "values": values, "source": "told", "finished": at}
            if stddev is not None:
                fields["stddev"] = _number(stddev)
            self._add(number, row["params"], fields)
            self.finished += 1
            self._value(number, values[0])

    def _value(self, number: int, value: float) -> None:
        sign = self.sign
        if self.best is None or sign * value < sign * self.trials[self.best].values[0]:
            self.best, self.since_best = number, 0
        else:
            self.since_best += 1

    def _on_control(self, payload: dict[str, Any]) -> None:
        """Somebody pauses, resumes or stops all runs of the study."""
        action = payload["action"]
        if action not in ACTIONS:
            raise ValueError("an action must be pause, resume or stop")
        self.paused = action == "pause"
        if action == "stop":
            self.stopped = self.seq + 1

    def _on_note(self, payload: dict[str, Any]) -> None:
        text, at = payload["text"], _number(payload["at"])
        if not isinstance(text, str):
            raise TypeError("a note must be a text")
        number = None if payload.get("number") is None else self._number(payload)
        self.notes.append({"text": text, "number": number, "at": at})

    def copy(self) -> "History":
        """What is known now, whatever happens to the original."""
        twin = History(self.constraints)
        for name, value in vars(self).items():
            if name != "_take":
                setattr(twin, name, value.copy() if isinstance(value, list | set | dict) else value)
        return twin

    @property
    def claim(self) -> str:
        """What the next trial, or a change of the space before it, claims: of two that saw the same, one comes in."""
        number = len(self.trials)
        return f"number:{number}:{self.spaces}" if self.spaces else f"number:{number}"

    # What follows from it; computed when first asked for, since many who open a study never ask.
    @property
    def points(self) -> list[np.ndarray]:
        """Each trial's point on the unit cube."""
        while len(self._points) < len(self.trials):
            self._points.append(self.space.encode(self.trials[len(self._points)].params))
        return self._points

    @property
    def tried(self) -> Counter[str]:
        """How often each point was handed out or told, by its key."""
        for trial in self.trials[self._tried_upto :]:
            params = self.space.complete(trial.params) if self.spaces else trial.params
            self._tried[point_key(params)] += 1
        self._tried_upto = len(self.trials)
        return self._tried

    def _doubted(self) -> set[int]:
        """Failures before the first value, of runs that never came to one: a mistake in a script, not the point."""
        if not self._early:
            return set()
        fine = {self.ran_by.get(t.number) for t in self.trials if t.values} | {None}
        return {number for number in self._early if self.ran_by.get(number) not in fine}

    @property
    def sign(self) -> float:
        """What values are multiplied by so that smaller is better."""
        return 1.0 if self.header["direction"] == "minimize" else -1.0

    def observations(self) -> Observations:
        """What surrogates see; lost, pruned and waiting trials say nothing. Rows are in the order of trial numbers."""
        doubted = self._doubted()
        rows = [
            t for t in self.trials
            if t.state in ("complete", "running")
            or (t.failure is not None and t.failure.kind not in SILENT and t.number not in doubted)
        ]  # fmt: skip
        columns = columns_of(self.space)
        points = self.points
        return observe(
            np.array([points[t.number] for t in rows]).reshape(len(rows), len(columns)),
            np.array([self.sign * t.values[0] if t.values else np.nan for t in rows], dtype=float), columns,
            stddev=np.array([t.stddev for t in rows], dtype=float),  # None becomes NaN
            failed=np.array([t.state == "failed" for t in rows], dtype=bool),
            pending=np.array([t.state == "running" for t in rows], dtype=bool),
            seconds=np.array([t.seconds for t in rows], dtype=float),
        )  # fmt: skip


@contextmanager
def _many_objects() -> Iterator[None]:
    """No garbage collection: while a long study is read all objects are new, and looking through them again and again
    takes as long as making them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # there and back they count as old, and are not looked through at once
            gc.freeze()
            gc.unfreeze()
        if was:
            gc.enable()


def _number(value: Any) -> float:
    if (type(value) is not float and type(value) is not int) or not isfinite(value):
        raise TypeError(f"a number must be finite, but got {_short(value)}")
    return value


def _effort(value: Any) -> Effort:
    if value not in get_args(Effort):
        raise ValueError(f"effort must be one of {get_args(Effort)}, but got {_short(value)}")
    return value


def _failure(payload: dict[str, Any]) -> Failure:
    kind = payload["kind"]
    if kind not in ("error", "invalid", "timeout", *SILENT):
        raise ValueError(f"a failure has no kind {_short(kind)}")
    return Failure(kind, str(payload["message"]), str(payload.get("traceback", "")))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
