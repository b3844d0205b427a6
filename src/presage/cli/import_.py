"""`presage import`: studies that were made elsewhere."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._studies import JsonOption, StorageOption, shown
from presage.errors import PresageError

if TYPE_CHECKING:
    from presage.study import Study

URL = re.compile(r"\w[\w+]*://.*")
PARAM_HELP = "A dimension of the search as in presage run, such as lr=log:1e-5:0.1; from the data where left out."


def import_study(
    source: Annotated[str, typer.Argument(metavar="FILE|URL", help="A CSV file, or an Optuna storage.")],
    storage: StorageOption = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the new study; that of the source if left out.")
    ] = None,
    param: Annotated[list[str], typer.Option("--param", "-p", metavar="NAME=KIND:...", help=PARAM_HELP)] = [],  # noqa: B006
    value: Annotated[
        str, typer.Option("--value", metavar="COLUMN", help="The column of a CSV file with the values.")
    ] = "value",
    maximize: Annotated[bool, typer.Option("--maximize", help="The largest value of a CSV file is the best.")] = False,
    study: Annotated[
        str | None, typer.Option("--study", metavar="NAME", help="Which study of an Optuna storage, if it has several.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Makes suggestions repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a study of trials that were made elsewhere: all of them or, where one does not fit, none.

    A CSV file has a header, a column of values, and a column for each parameter; what presage export wrote keeps states
    and times too. An Optuna storage is given by its URL, or as an SQLite file. Results of scikit-optimize are pickles,
    which could run anything, and come in from Python only: presage.integrations.skopt.from_skopt.

    Examples:
      presage import runs.csv --value loss -p lr=log:1e-5:0.1 -p layers=int:1:8 --storage study.db
      presage import sqlite:///optuna.db --study tuning --storage study.db
    """
    from presage.cli._output import line, out, several
    from presage.cli._params import parse_params
    from presage.table import summary

    if not storage:
        raise typer.BadParameter("it is needed here; give it, or set PRESAGE_STORAGE", param_hint="--storage")
    try:
        space = parse_params(param).space if param else None
    except PresageError as error:
        raise typer.BadParameter(str(error), param_hint="--param") from None
    more = {"storage": storage, "name": name, "space": space, "seed": seed}
    if _is_sqlite(source):
        source = f"sqlite:///{source}"
    if URL.fullmatch(source):
        from presage.integrations.optuna_studies import from_optuna, open_optuna

        if maximize or value != "value":
            raise typer.BadParameter("--maximize and --value are for CSV files; an Optuna study knows its own")
        made: Study = from_optuna(open_optuna(source, study), **more)  # type: ignore[arg-type]
    else:
        if study is not None:
            raise typer.BadParameter("it is for Optuna storages; a CSV file holds one study", param_hint="--study")
        if Path(source).suffix.lower() in (".pkl", ".pickle", ".gz"):
            raise typer.BadParameter(
                f"{source} looks like a pickle, which could run anything; load your own in Python with skopt.load and "
                "give it to presage.integrations.skopt.from_skopt",
                param_hint="FILE",
            )
        from presage.integrations.tables import from_csv

        try:
            made = from_csv(source, value=value, direction="maximize" if maximize else "minimize", **more)  # type: ignore[arg-type]
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise typer.BadParameter(f"cannot read {source}: {why}", param_hint="FILE") from None
    if as_json:
        typer.echo(json.dumps(summary(made.name, made._history, set()), indent=2))
        return
    done = sum(trial.state == "complete" for trial in made.trials)
    out().print(
        f"{line(made.name)!r} in {shown(storage)}: {several(len(made.trials), 'trial')}, {done} with a value.",
        soft_wrap=True,
    )


def _is_sqlite(source: str) -> bool:
    """Whether it is a file that SQLite made."""
    try:
        with open(source, "rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:  # said by whoever reads it
        return False
