"""`presage export`: all trials of a study, for other programs."""

import json
import sys
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._studies import NameArgument, StorageOption, open_existing, read, shown

if TYPE_CHECKING:
    from presage.history import History


class Format(StrEnum):
    csv = "csv"
    json = "json"
    optuna = "optuna"


def export(
    name: NameArgument = None,
    storage: StorageOption = None,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            show_default="json for a FILE.json, else csv",
            help="csv: a row per trial. json: everything. optuna: see --to.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; standard output if left out.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URL|FILE", help="The Optuna storage to write to, such as sqlite:///optuna.db."),
    ] = None,
) -> None:
    """Write all trials of a study as CSV or JSON, or into an Optuna storage.

    In CSV, times are UTC, a param that a trial does not have is empty, and booleans, None and lists are JSON. A param
    called like another column becomes params.NAME, a metric metrics.NAME. What goes to Optuna is a new study there,
    which optuna-dashboard shows.

    Examples:
      presage export tuning --storage study.db --format csv --output trials.csv
      presage export tuning --storage study.db --format optuna --to sqlite:///optuna.db
    """
    if to is None and format is Format.optuna:
        raise typer.BadParameter(
            "it is missing; --format optuna needs --to sqlite:///optuna.db or another Optuna storage", param_hint="--to"
        )
    if to is not None and format is not Format.optuna:
        raise typer.BadParameter("it goes with --format optuna only", param_hint="--to")
    if as_json or (format is None and output is not None and output.suffix.lower() == ".json"):
        format = Format.json
    name, history = read(open_existing(storage), storage, name)
    if to is not None:
        from presage.cli._output import several
        from presage.integrations.optuna_studies import write

        import_module("optuna").logging.set_verbosity(30)  # no line for each trial
        write(name, history, to)
        typer.echo(f"{several(len(history.trials), 'trial')} of {name!r} written to {shown(to)}.", err=True)
        return
    if format is Format.json:
        text = _as_json(name, history)
    else:
        from presage.table import as_csv

        text = as_csv(history)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {error.strerror}", param_hint="--output") from None


def _as_json(name: str, history: "History") -> str:
    header = {key: value for key, value in history.header.items() if key not in ("type", "space", "at")}
    now = {**history.settings, "created": history.header["at"], "space": history.space.to_json()}
    study = {"name": name, **header, **now}
    return json.dumps({**study, "trials": [trial.to_json() for trial in history.trials]}, indent=2) + "\n"
