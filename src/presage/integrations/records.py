"""Trials made elsewhere as a presage study, with their times, failures and curves."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from presage.errors import PresageError, StudyError
from presage.space import Space
from presage.storage import Event, Storage, open_storage
from presage.storage.base import Snapshot
from presage.study import Study, load_study
from presage.trial import Failure, usable

OWNER = "import"  # of trials that ended before presage saw them


@dataclass(frozen=True)
class Record:
    """One trial made elsewhere: with a value, with a failure, or with neither, to be run.

    Attributes:
        params: legal values by name.
        value: the objective's value.
        stddev: its standard error, where it is known.
        metrics: further numbers; with a value only.
        failure: why there is no value.
        reports: intermediate (step, value) pairs.
        started: in seconds since the epoch.
        finished: likewise.
        notes: remarks, and what has no place elsewhere.
    """

    params: Mapping[str, Any]
    value: float | None = None
    stddev: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    reports: Sequence[tuple[int, float]] = ()
    started: float | None = None
    finished: float | None = None
    notes: Sequence[str] = ()


def study_of(
    space: Space, records: Iterable[Record], *, storage: Storage | str | os.PathLike[str] | None = None,
    name: str | None = None, notes: Iterable[str] = (), **settings: Any,
) -> Study:  # fmt: skip
    """A new study that has these trials; all of them or, on an error, none.

    Args:
        space: in which every trial must be legal.
        records: the trials, in order.
        storage: where to; memory where left out.
        name: of the new study.
        notes: remarks to keep with the study.
        settings: direction, surrogate, acquisition, initial, seed as for `Study`.
    """
    name = "study" if name is None else name
    draft = Study(space, name=name, **settings)
    payloads = [draft.storage.read(name)[0].payload]
    claims: list[str] = []
    now = time.time()
    for number, record in enumerate(records):
        try:
            payloads += _events(number, record, draft.space, now)
        except PresageError as error:
            raise StudyError(f"trial {number} must be one of the new study's, but: {error}") from error
        ended = record.value is not None or record.failure is not None
        claims += [f"number:{number}", *([f"told:{number}"] if ended else [])]
    payloads += [{"type": "note", "text": text, "number": None, "at": now} for text in notes]
    place = open_storage(storage)
    place.restore(name, Snapshot([Event(seq, payload) for seq, payload in enumerate(payloads, 1)], claims, None))
    objects = {what: settings[what] for what in ("surrogate", "acquisition") if what in settings}
    return load_study(place, name, space=space, **objects)


def _events(number: int, record: Record, space: Space, now: float) -> list[dict[str, Any]]:
    finished = now if record.finished is None else record.finished
    started = finished if record.started is None else record.started
    events: list[dict[str, Any]] = [
        {"type": "enqueued", "number": number, "params": space.complete(record.params), "at": started}
    ]
    end: dict[str, Any] = {"number": number, "at": finished}
    if record.reports:
        end["reports"] = [[int(step), usable(value, "a reported value")] for step, value in record.reports]
    if record.value is not None:
        end |= {"type": "told", "values": [usable(record.value)]}
        if record.stddev is not None:
            end["stddev"] = usable(record.stddev, "stddev")
        if record.metrics:
            end["metrics"] = {key: usable(value, f"metric {key!r}") for key, value in record.metrics.items()}
    elif record.failure is not None:
        end |= {"type": "failed", **vars(record.failure)}
    if "type" in end:
        events.append({"type": "started", "number": number, "attempt": 1, "owner": OWNER, "at": started})
        events.append(end)
    events += [{"type": "note", "text": text, "number": number, "at": finished} for text in record.notes]
    return events
