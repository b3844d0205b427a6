"""A trial: one point handed out, and what became of it."""

import math
import traceback as _traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from presage.dimensions import plain
from presage.errors import TrialError

State = Literal["waiting", "running", "paused", "complete", "failed"]
Answer = Literal["go", "pause", "stop"]
Effort = Literal["usual", "quick"]
FailureKind = Literal["error", "invalid", "timeout", "lost", "pruned"]


@dataclass(frozen=True)
class Failure:
    """Why a trial has no value.

    Attributes:
        kind: error (it raised), invalid (what it returned is no number), timeout, lost (its worker died, which
            says nothing about the point), or pruned (another library gave it up before its end; see its reports).
        message: one line.
        traceback: as Python would print it, empty where there is none.
    """

    kind: FailureKind
    message: str
    traceback: str = ""

    @staticmethod
    def of(error: BaseException) -> "Failure":
        """What an exception says."""
        text = "".join(_traceback.format_exception(error))
        return Failure("error", f"{type(error).__name__}: {error}", text)


@dataclass(frozen=True)
class Outcome:
    """What an evaluation came to: a value or a failure, and the intermediate values it reported."""

    value: float | None = None
    failure: Failure | None = None
    reports: tuple[tuple[int, float], ...] = ()


class Late(NamedTuple):
    """A result of a worker that had lost its trial: frozen or cut off for too long, so that others were given it.

    Attributes:
        attempt: which of the trial's attempts it was.
        value: what it came to, None for a failure.
        counts: whether it came first all the same, and is the trial's value.
        failure: why there is no value.
    """

    attempt: int
    value: float | None
    counts: bool
    failure: Failure | None = None


@dataclass(frozen=True)
class Trial:
    """A point handed out by a study. Fields are facts; a later look at the study gives a new Trial.

    Attributes:
        number: 0, 1, 2, ... in the order in which the study made them.
        params: legal values by name, of the right Python types.
        state: waiting (enqueued or interrupted), running, paused (a training that can go on), complete or failed.
        values: the objective's value, in the user's units; empty unless complete.
        stddev: the value's standard error, where it was told.
        metrics: further numbers told with the value.
        failure: why there is no value, where the trial failed.
        source: initial, model, random, enqueued or told.
        attempt: 1, and more where a worker was lost.
        reports: intermediate (step, value) pairs.
        suggested: when it was last handed out, in seconds since the epoch; None where it never was.
        finished: when it ended, likewise.
        latency: seconds it took to suggest.
        effort: usual, or quick where many trials had taken next to no time (`presage.effort`).
        late: results of workers that had lost it.
        live: takes what was reported so far, may send it on, and may answer; not part of the record.
        checkpoint: the file in which a training keeps its own state, to begin from where there is one; None where it
            was given no place for it. Not part of the record.
    """

    number: int
    params: dict[str, Any]
    state: State = "running"
    values: tuple[float, ...] = ()
    stddev: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    source: str = "model"
    attempt: int = 1
    reports: list[tuple[int, float]] = field(default_factory=list)
    suggested: float | None = None
    finished: float | None = None
    latency: float = 0.0
    effort: Effort = "usual"
    late: tuple[Late, ...] = ()
    live: Callable[[list[tuple[int, float]]], Answer | None] | None = field(default=None, repr=False, compare=False)
    checkpoint: Path | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "live"}  # it belongs to this process

    @staticmethod
    def quick(fields: dict[str, Any]) -> "Trial":
        """Trial(**fields) for those who make a hundred thousand; takes the dictionary as its own.

        A frozen dataclass sets its fields one by one, and also those that are as in the class.
        """
        new = object.__new__(Trial)
        fields["metrics"], fields["reports"] = {}, []
        object.__setattr__(new, "__dict__", fields)
        return new

    def but(self, fields: dict[str, Any]) -> "Trial":
        """The trial with some fields changed; `dataclasses.replace`, which checks no more, is slow."""
        new = object.__new__(Trial)
        new.__dict__.update(self.__dict__)
        new.__dict__.update(fields)
        return new

    @property
    def value(self) -> float | None:
        """The objective's value, None unless complete."""
        return self.values[0] if self.values else None

    @property
    def seconds(self) -> float | None:
        """What it took from being handed out to its end; None where that is not known."""
        if self.suggested is None or self.finished is None:
            return None
        return max(self.finished - self.suggested, 0.0)  # clocks of two machines may differ

    def report(self, step: int, value: float) -> Answer:
        """Record an intermediate value; the answer says whether to go on."""
        self.reports.append((int(step), usable(value, "a reported value")))
        return (self.live(self.reports) if self.live is not None else None) or "go"

    def to_json(self) -> dict[str, Any]:
        """The trial as plain data, for export."""
        failure = None if self.failure is None else vars(self.failure)
        return {
            "number": self.number, "state": self.state, "value": self.value, "params": self.params,
            "stddev": self.stddev, "metrics": dict(self.metrics), "failure": failure, "source": self.source,
            "attempt": self.attempt, "reports": [list(pair) for pair in self.reports], "suggested": self.suggested,
            "finished": self.finished, "latency": self.latency, "effort": self.effort,
            "late": [{"attempt": late.attempt, "value": late.value, "counts": late.counts} for late in self.late],
        }  # fmt: skip


def usable(value: Any, what: str = "a value") -> float:
    """The finite float that `value` is, or a TrialError that says what it is instead.

    Example:
        >>> usable(3)
        3.0
    """
    shape = getattr(value, "shape", None)
    if shape == () and hasattr(value, "item"):  # a scalar of NumPy, JAX or PyTorch
        value = value.item()
    value = plain(value)
    if shape not in (None, ()) or isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise TrialError(f"{what} must be one finite number, but got {type(value).__name__} {_short(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TrialError(
            f"{what} must be one finite number, but got {type(value).__name__} {_short(value)} ({error})"
        ) from None
    if not math.isfinite(number):
        raise TrialError(f"{what} must be one finite number, but got {number}")
    return number


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
