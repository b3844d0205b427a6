"""`presage export`: all trials of a study, for other programs."""

import csv
import io
import json
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import NameArgument, StorageOption, open_existing, read

if TYPE_CHECKING:
    from presage.history import History
    from presage.trial import Trial

BEFORE = ("number", "state", "value")
AFTER = ("stddev", "source", "attempt", "started", "finished", "latency", "failure", "message")


class Format(StrEnum):
    csv = "csv"
    json = "json"


def export(
    name: NameArgument = None,
    storage: StorageOption = None,
    format: Annotated[
        Format, typer.Option("--format", "-f", help="csv: a row per trial. json: everything.")
    ] = Format.csv,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; standard output if left out.")
    ] = None,
) -> None:
    """Write all trials of a study as CSV or JSON.

    In CSV, times are UTC, a param that a trial does not have is empty, and booleans, None and lists are JSON. A param
    called like another column becomes params.NAME, a metric metrics.NAME.

    Example:
      presage export tuning --storage study.db --format csv --output trials.csv
    """
    name, history = read(open_existing(storage), storage, name)
    text = _as_csv(history) if format is Format.csv else _as_json(name, history)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {error.strerror}", param_hint="--output") from None


def _as_json(name: str, history: "History") -> str:
    header = {key: value for key, value in history.header.items() if key not in ("type", "space", "at")}
    study = {"name": name, **header, "created": history.header["at"], "space": history.space.to_json()}
    return json.dumps({**study, "trials": [trial.to_json() for trial in history.trials]}, indent=2) + "\n"


def _as_csv(history: "History") -> str:
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


def _row(trial: "Trial") -> dict[str, Any]:
    failure = trial.failure
    return {
        **trial.to_json(), "started": _moment(trial.suggested), "finished": _moment(trial.finished),
        "failure": failure and failure.kind, "message": failure and failure.message,
    }  # fmt: skip


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | float) or type(value) is int else json.dumps(value)
