"""`presage list`: the studies of a storage."""

import json
import time

import typer

from presage.cli._studies import JsonOption, StorageOption, open_existing, replay, shown


def list_studies(storage: StorageOption = None, as_json: JsonOption = False) -> None:
    """List the studies of a storage.

    Example:
      presage list --storage study.db
    """
    from presage.table import summary

    place = open_existing(storage)
    studies = [summary(name, replay(place, name), place.living(name)) for name in place.studies()]
    if as_json:
        typer.echo(json.dumps(studies, indent=2))
        return
    from presage.cli._output import brief, err, line, out, table

    if not studies:
        err().print(f"No studies in {shown(storage)} yet.")
        return
    rows = table("name", "direction", "trials", "failed", "best", "last change", right=("trials", "failed", "best"))
    for study in studies:
        best = "" if study["best"] is None else brief(study["best"])
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(study["changed"]))
        counts = str(study["trials"]), str(study["failed"] or "")
        rows.add_row(line(study["name"]), study["direction"], *counts, best, changed)
    out().print(rows)
