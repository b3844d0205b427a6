"""`presage storage`: look after the place where studies are kept."""

import json
from typing import Annotated

import typer

from presage.cli._studies import JsonOption, StorageOption, open_existing, shown

app = typer.Typer(no_args_is_help=True, help="Check, upgrade or copy a storage.", rich_markup_mode="rich")


@app.command()
def check(storage: StorageOption = None, as_json: JsonOption = False) -> None:
    """Read everything and say what is wrong; nothing is repaired.

    Example:
      presage storage check --storage study.db
    """
    from presage.audit import audit
    from presage.cli._output import err, line, out
    from presage.storage.sql import SQLStorage

    place = open_existing(storage)
    problems = place.problems() if isinstance(place, SQLStorage) else []
    found = {name: audit(place, name) for name in place.studies()}
    bad = len(problems) + sum(map(len, found.values()))
    if as_json:
        typer.echo(json.dumps({"problems": problems, "studies": found}, indent=2))
        raise typer.Exit(1 if bad else 0)
    for problem in problems:
        err().print(line(problem, 1000), style="red", soft_wrap=True)
    for name, wrong in found.items():
        for problem in wrong:
            err().print(f"{line(name)}: {line(problem, 1000)}", style="red", soft_wrap=True)
        if not wrong:
            out().print(f"{line(name)}: sound")
    if bad:
        text = "1 problem" if bad == 1 else f"{bad} problems"
        err().print(f"{text}. Nothing was changed; restore from a copy what was damaged.", style="red")
        raise typer.Exit(1)


@app.command()
def upgrade(storage: StorageOption = None, as_json: JsonOption = False) -> None:
    """Bring a storage made by an earlier presage up to date. End what works on it first, and keep a copy.

    Example:
      presage storage upgrade --storage study.db
    """
    from presage.cli._output import out
    from presage.storage import open_storage
    from presage.storage.schema import VERSION
    from presage.storage.sql import SQLStorage

    if not storage:
        raise typer.BadParameter("it is needed here; give it, or set PRESAGE_STORAGE", param_hint="--storage")
    place = open_storage(storage, create=False, upgrade=True)
    assert isinstance(place, SQLStorage)
    was = place.found
    if as_json:
        typer.echo(json.dumps({"was": was, "is": VERSION}))
        return
    said = f"is at version {VERSION} already" if was == VERSION else f"was at version {was} and is now at {VERSION}"
    out().print(f"{shown(storage)} {said}.", soft_wrap=True)


@app.command()
def copy(
    target: Annotated[str, typer.Argument(metavar="FILE|URL", help="Where to; made where it does not exist.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Which studies; all where left out.")
    ] = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy studies into another storage, each as it is at one moment.

    Example:
      presage storage copy postgresql://me@host/studies --storage study.db
    """
    from presage.cli._output import line, out
    from presage.errors import StorageError, StudyError
    from presage.storage import open_storage

    source = open_existing(storage)
    known = source.studies()
    for name in names or known:
        if name not in known:
            raise StudyError(f"there is no study {name!r} in {shown(storage)}; it has {', '.join(map(repr, known))}")
    to = open_storage(target)
    copied = {}
    for name in names or known:
        snapshot = source.snapshot(name)
        to.restore(name, snapshot)
        if to.snapshot(name) != snapshot:
            raise StorageError(f"a copy must equal the original, but study {name!r} does not in {shown(target)}")
        copied[name] = len(snapshot.events)
        if not as_json:
            out().print(f"{line(name)}: {copied[name]} events copied")
    if as_json:
        typer.echo(json.dumps(copied, indent=2))
