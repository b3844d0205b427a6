"""Studies and trials as plain facts: summaries, and a table for other programs."""

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

from presage.history import History
from presage.leases import gone
from presage.trial import Trial

BEFORE = ("number", "state", "value")
AFTER = ("stddev", "source", "attempt", "started", "finished", "latency", "failure", "message")


def as_csv(history: History) -> str:
    """All trials as CSV, a row each; times in UTC, absent params empty, booleans, None and lists as JSON."""
    params = list(dict.fromkeys([*history.space, *(name for trial in history.trials for name in trial.params)]))
    metrics = list(dict.fromkeys(name for trial in history.trials for name in trial.metrics))
    fixed = {*BEFORE, *AFTER}
    text = io.StringIO()
    rows = csv.writer(text)
    titles = [f"params.{name}" if name in fixed else name for name in params]
    rows.writerow([*BEFORE, *titles, *(f"metrics.{name}" for name in metrics), *AFTER])
    for trial in history.trials:
        facts = _row(trial)
        rows.writerow([
            *(facts[column] for column in BEFORE),
            *(_cell(trial.params[name]) if name in trial.params else "" for name in params),
            *(trial.metrics.get(name, "") for name in metrics), *(facts[column] for column in AFTER),
        ])  # fmt: skip
    return text.getvalue()


def _row(trial: Trial) -> dict[str, Any]:
    failure = trial.failure
    return {
        **trial.to_json(), "started": _moment(trial.suggested), "finished": _moment(trial.finished),
        "failure": failure and failure.kind, "message": failure and failure.message,
    }  # fmt: skip


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | float) or type(value) is int else json.dumps(value)


def best_of(history: History) -> Trial | None:
    """The complete trial with the best value, if there is one."""
    return None if history.best is None else history.trials[history.best]


def lost(history: History, living: set[str]) -> set[int]:
    """Numbers of the trials whose worker is lost: it showed no sign of life, or its process is known to have ended."""
    return {number for number, owner in history.owners.items() if owner not in living or gone(owner)}


def summary(name: str, history: History, living: set[str]) -> dict[str, Any]:
    """A study in a few plain facts; trials whose worker is lost count as waiting, since they will be run again."""
    waiting = lost(history, living)
    states = ["waiting" if trial.number in waiting else trial.state for trial in history.trials]
    best = best_of(history)
    moments = [m for t in history.trials for m in (t.suggested, t.finished) if m is not None]
    return {
        "name": name, "direction": history.header["direction"], "trials": len(states),
        **{state: states.count(state) for state in ("complete", "failed", "running", "waiting")},
        "best": None if best is None else best.value, "created": history.header["at"],
        "changed": max([history.header["at"], *moments]),
    }  # fmt: skip
