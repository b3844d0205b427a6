"""`presage report`: one study as one HTML file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from presage.cli._studies import JsonOption, NameArgument, StorageOption, file_name, open_existing, read_record, write


def report(
    name: NameArgument = None,
    storage: StorageOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to; NAME.html if left out, - for stdout."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a study as one self-contained HTML file: figures, tables, settings, diagnostics.

    Examples:
      presage report tuning --storage study.db
      presage report --storage study.db --output report.html
    """
    from presage.report import html

    record = read_record(open_existing(storage), storage, name)
    if output == Path("-"):
        typer.echo(html(record), nl=False)
        return
    path = output or Path(f"{file_name(record.name)}.html")
    text = html(record)
    write(path, text.encode(), "--output")
    if as_json:
        typer.echo(json.dumps({"study": record.name, "file": str(path), "bytes": len(text.encode())}))
    else:
        typer.echo(f"{path} ({len(text) // 1024} kB)")
