"""`presage replay`: compute a study's suggestions again."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from presage.cli._studies import JsonOption, NameArgument, StorageOption, open_existing, read


def replay_study(
    name: NameArgument = None,
    storage: StorageOption = None,
    objective: Annotated[
        str | None,
        typer.Option("--objective", metavar="MODULE:FUNCTION", help="Whose space has the constraints of the study."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute every suggestion again, each from what was known when it was made, and compare.

    A run of many workers is replayed in the order in which their results arrived. Exact for the same versions only.

    Example:
      presage replay tuning --storage study.db
    """
    from presage.cli._objective import find_space, load_objective
    from presage.cli._output import err, out, pairs
    from presage.replay import replay
    from presage.study import _versions

    place = open_existing(storage)
    name, _ = read(place, storage, name)
    space = None if objective is None else find_space(*load_objective(objective), objective)
    found = replay(place, name, space=space)
    if as_json:
        typer.echo(json.dumps({"exact": found.exact, **asdict(found)}, indent=2))
        raise typer.Exit(0 if found.exact else 1)
    for difference in found.differences[:5]:
        mine = "nothing" if difference.computed is None else pairs(difference.computed)
        err().print(
            f"trial {difference.number}: stored {pairs(difference.stored)}, computed {mine}",
            style="red",
            soft_wrap=True,
        )
    if found.exact:
        out().print(f"All {found.suggestions} suggestions came out the same.", style="green")
        return
    said = f"{len(found.differences)} of {found.suggestions} suggestions came out otherwise"
    if not found.differences:
        said = "the fit state came out otherwise"
    made, here = found.versions, _versions()
    why = f" It was made with {pairs(made)}; here is {pairs(here)}." if made != here else ""
    err().print(f"Error: {said}.{why}", style="red", soft_wrap=True)
    raise typer.Exit(1)
