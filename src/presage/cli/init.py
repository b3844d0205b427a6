"""`presage init`: a configuration file to begin with."""

import json
from pathlib import Path
from typing import Annotated

import typer

from presage.cli._config import FILE
from presage.cli._studies import JsonOption, write

TEMPLATE = """\
# Settings of presage for this folder. Flags on the command line and environment variables (PRESAGE_STORAGE,
# PRESAGE_RUN_TRIALS, ...) win over what is written here.

# Where studies are kept, for all commands: a file, or a URL.
storage = {storage}

[run]  # any option of `presage run`, by its long name
trials = {trials}
# jobs = 4
# timeout = 600
# param = ["lr=log:1e-5:1e-1", "layers=int:1:6", "act=choice:relu,tanh"]

[dashboard]
# port = 8321
# browser = false
"""


def init(
    storage: Annotated[
        str, typer.Option("--storage", "-s", metavar="FILE|URL", help="Where studies are to be kept.")
    ] = "presage.db",
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="Trials of a run, in all.")] = 50,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write presage.toml, the settings of this folder.

    Examples:
      presage init
      presage init --storage tuning.db --trials 200
    """
    path = Path(FILE)
    if path.exists() and not force:
        from presage.errors import StudyError

        raise StudyError(f"{FILE} must not be there yet, but it is; edit it, or give --force to replace it")
    write(path, TEMPLATE.format(storage=json.dumps(storage), trials=trials).encode(), FILE)
    typer.echo(json.dumps({"file": FILE}) if as_json else f"{FILE} is written. Next: presage run --help")
