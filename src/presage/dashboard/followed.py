"""Studies of a storage kept up to date in memory, and what the dashboard wants to know of them as plain data."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from presage import advice, insight
from presage.dimensions import Choice, Dimension, Float, Int
from presage.errors import Conflict, StudyError
from presage.history import ACTIONS, History
from presage.insight import Record
from presage.storage import Storage
from presage.table import lost, summary
from presage.trial import Trial, usable

FRESH = 5.0  # seconds for which a fit to a running study is good enough to look at
NOTE_LENGTH = 4000


class Followed:
    """One study: its history, when each trial last changed, and a model of it."""

    def __init__(self, storage: Storage, name: str):
        self.storage, self.name = storage, name
        self.history = History()
        self.living: set[str] = set()  # workers that lately showed a sign of life
        self.changed: list[int] = []  # sequence number of the last event of each trial
        self.lock = threading.RLock()  # of the history
        self._fitting = threading.Lock()  # of the model, which takes long
        self._record: tuple[float, int, Record] | None = None
        self._known: dict[str, tuple[int, Any]] = {}
        self._ahead: tuple[float, int, dict[int, dict[str, list[float]]]] = (-math.inf, -1, {})

    def sync(self) -> int:
        """Take in new events, and who lives; the number of the last event."""
        with self.lock:
            self.living = self.storage.living(self.name)
            for event in self.storage.read(self.name, self.history.seq):
                before = len(self.history.trials)
                self.history.apply(event)
                new = len(self.history.trials) - before
                self.changed += [event.seq] * new
                number = event.payload.get("number")
                if not new and isinstance(number, int) and 0 <= number < len(self.changed):
                    self.changed[number] = event.seq
            return self.history.seq

    # Facts.
    def summary(self) -> dict[str, Any]:
        """What the list of studies shows."""
        with self.lock:
            return {
                **summary(self.name, self.history, self.living),
                "seq": self.history.seq,
                "paused": self.history.paused,
            }

    def facts(self) -> dict[str, Any]:
        """What does not change with every trial."""
        with self.lock:
            h = self.history
            header = {what: h.header.get(what) for what in ("initial", "seed", "replicates", "versions")}
            return {
                **self.summary(), **header, **h.settings, "notes": h.notes,
                "constraints": h.stored_space["constraints"],
                "space": [{"name": name, **describe(axis)} for name, axis in h.space.items()],
            }  # fmt: skip

    def trials(self, since: int = 0) -> dict[str, Any]:
        """Trials that changed after an event, as rows."""
        with self.lock:
            h = self.history
            names = list(h.space)
            without = lost(h, self.living)
            pairs = zip(h.trials, self.changed, strict=True)
            rows = [_row(t, names, t.number in without) for t, changed in pairs if changed > since]
            return {"seq": h.seq, "names": names, "total": len(h.trials), "rows": rows}

    def trial(self, number: int) -> dict[str, Any]:
        """All that is known of one trial."""
        with self.lock:
            if not 0 <= number < len(self.history.trials):
                raise StudyError(f"trial numbers go from 0 to {len(self.history.trials) - 1}, but got {number}")
            t = self.history.trials[number]
            notes = [note for note in self.history.notes if note["number"] == number]
            return {**t.to_json(), "params": finite(t.params), "notes": notes, "owner": self.history.ran_by.get(number)}

    def curves(self, most: int = 60) -> dict[str, Any]:
        """Learning curves of the trials that reported, the latest ones where there are many, and how they may go on."""
        with self.lock:
            h, seq = self.history, self.history.seq
            reported = [t for t in h.trials if t.reports]
            rows: list[dict[str, Any]] = [
                {"number": t.number, "state": t.state, "value": t.value, "reports": [list(r) for r in t.reports]}
                for t in reported[-most:]
            ]
        ahead = self._forecasts(reported[-most:], seq)
        for row in rows:
            row["ahead"] = ahead.get(row["number"])
        return {"total": len(reported), "curves": rows}

    def _forecasts(self, trials: list[Trial], seq: int) -> dict[int, dict[str, list[float]]]:
        """Forecasts of unfinished curves; at most a few seconds old while the study runs."""
        from presage.design.forecast import forecast

        with self._fitting:
            made, known, found = self._ahead
            if known != seq and time.monotonic() - made > FRESH:
                try:
                    laws = forecast(trials, self.history.space, self.history.sign)
                except (FloatingPointError, np.linalg.LinAlgError):
                    laws = {}  # curves are looked at all the same
                found = {
                    number: finite({name: part.tolist() for name, part in law._asdict().items()})
                    for number, law in laws.items()
                }
                self._ahead = (time.monotonic(), seq, found)
            return found

    def workers(self) -> dict[str, Any]:
        """Who runs or ran trials, and the last of what they did."""
        now = time.time()
        with self.lock:
            h = self.history
            without = lost(h, self.living)
            found: dict[str, dict[str, Any]] = {}
            for t in h.trials:
                owner = h.ran_by.get(t.number)
                if owner is None:
                    continue
                one = found.setdefault(owner, {"worker": owner, "running": [], "done": 0, "failed": 0, "last": 0.0})
                one["last"] = max(one["last"], t.suggested or 0.0, t.finished or 0.0)
                one["living"] = owner in self.living
                if t.state == "running":
                    one["running"].append(t.number)
                    one["gone"] = t.number in without
                elif t.finished is not None:
                    one["failed" if t.failure else "done"] += 1
            rows = insight.timeline(h, now)[-400:]
            return {"now": now, "workers": sorted(found.values(), key=lambda one: -one["last"]), "timeline": rows}

    # The model.
    def record(self) -> Record:
        """A record to look at; at most a few seconds old while the study runs. The caller holds `_fitting`."""
        with self.lock:
            now, seq = time.monotonic(), self.history.seq
            if self._record is None or (self._record[1] != seq and now - self._record[0] > FRESH):
                # The copy goes no further while a model is fitted to it.
                self._record = (now, seq, Record.after(self.history.copy(), self.storage, self.name))
            return self._record[2]

    def ask_model(self, key: str, question: Callable[[Record], Any]) -> Any:
        """The answer to a question about the model; the last answer while it is fresh enough."""
        with self._fitting:
            record = self.record()
            if len(record.complete) < 2:
                raise StudyError("the model needs at least two values; there are fewer so far")
            known = self._known.get(key)
            if known is None or known[0] != record.history.seq:
                known = self._known[key] = (record.history.seq, question(record))
                if len(self._known) > 200:
                    self._known = {key: known}
            return known[1]

    def slice(self, name: str, at: Mapping[str, Any] | None) -> dict[str, Any]:
        """The surrogate along one dimension through some params, or through the best trial."""

        def question(record: Record) -> dict[str, Any]:
            params = record.best.params if at is None else _completed(record, at)
            model = record.model()
            cut = insight.slice_1d(model, name, params, num=81)
            shown = [t for t in record.complete if name in t.params][-500:]
            return finite({
                "name": name, "values": cut.values, "mean": cut.mean.tolist(), "low": cut.low.tolist(),
                "high": cut.high.tolist(), "at": params,
                "data": [[t.params[name] for t in shown], [t.values[0] for t in shown], [t.number for t in shown]],
                "values_used": model.data.count,
            })  # fmt: skip

        return self.ask_model(f"slice {name!r} {sorted((at or {}).items())!r} {at is None}", question)

    def importance(self) -> list[dict[str, Any]]:
        """Sobol indices of each dimension, the most important first."""
        columns = ("name", "first", "total", "low", "high")
        return self.ask_model(
            "importance",
            lambda record: [
                dict(zip(columns, row, strict=True)) for row in insight.importance(record.model()).summary()
            ],
        )

    def advice(self) -> dict[str, Any]:
        """What remains to be gained, and what looks wrong."""

        def question(record: Record) -> dict[str, Any]:
            return finite({
                "remaining": advice.remaining(record)._asdict(),
                "advice": [found.to_json() for found in advice.advise(record)],
            })  # fmt: skip

        return self.ask_model("advice", question)

    # What people do.
    def control(self, action: str) -> None:
        """Pause, resume or stop all runs."""
        if action not in ACTIONS:
            raise StudyError(f"action must be pause, resume or stop, but got {action!r}")
        self._append({"type": "control", "action": action})

    def note(self, text: str, number: int | None) -> None:
        """Keep a remark."""
        if not isinstance(text, str) or not 0 < len(text.strip()) <= NOTE_LENGTH:
            raise StudyError(f"a note must be a text of 1 to {NOTE_LENGTH} characters")
        if number is not None:
            self.trial(number)
        self._append({"type": "note", "text": text.strip(), "number": number})

    def add(self, params: Mapping[str, Any], value: Any = None) -> int:
        """A trial by hand: tried next, or with its value told already; its number."""
        told = None if value is None else usable(value)
        while True:
            self.sync()
            with self.lock:
                full = self.history.space.check(params)
                number, claim = len(self.history.trials), self.history.claim
            payload: dict[str, Any] = {"type": "enqueued", "number": number, "params": full}
            if told is not None:
                payload = {"type": "added", "number": number, "trials": [{"params": full, "values": [told]}]}
            try:
                self._append(payload, [claim])
            except Conflict:
                continue  # a worker took the number; the next one, then
            return number

    def _append(self, payload: dict[str, Any], claims: list[str] | None = None) -> None:
        self.storage.append(self.name, [{**payload, "at": time.time()}], claims=claims or ())
        self.sync()


def _row(t: Trial, names: list[str], lost: bool) -> list[Any]:
    state = "waiting" if lost else t.state
    failure = None if t.failure is None else [t.failure.kind, t.failure.message[:200]]
    params = [finite(t.params.get(name)) for name in names]
    return [t.number, state, t.value, t.source, t.suggested, t.finished, failure, params, len(t.reports)]


def _completed(record: Record, at: Mapping[str, Any]) -> dict[str, Any]:
    """Params from sliders, of which conditional ones may be too many."""
    known = {name: value for name, value in at.items() if name in record.space}
    point = np.full(record.space.dim, 0.5)
    for column, name in enumerate(record.space.columns):
        if name in known:
            point[column] = record.space[name].encode(record.space[name].check(known[name]))
    return record.space.decode(record.space.project(point[None])[0])


def describe(axis: Dimension) -> dict[str, Any]:
    """A dimension as the page needs it."""
    out: dict[str, Any] = {"kind": axis.kind, "when": finite(axis.when)}
    if isinstance(axis, Float | Int):
        out |= {"low": axis.low, "high": axis.high, "log": axis.log, "integer": isinstance(axis, Int)}
        if axis.step not in (None, 1):
            out["step"] = axis.step
    elif isinstance(axis, Choice):
        out["options"] = finite(list(axis.options))
    else:
        out["value"] = finite(axis.decode(0.5))
    return out


def finite(value: Any) -> Any:
    """Plain data without what JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): finite(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inside) for inside in value]
    return value
