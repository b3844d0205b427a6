"""`presage plot`: figures of a study."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._studies import JsonOption, NameArgument, StorageOption, file_name, open_existing, read_record, write

if TYPE_CHECKING:
    from presage.insight import Record


class Figure(StrEnum):
    history = "history"
    slices = "slices"
    importance = "importance"
    effects = "effects"
    contour = "contour"
    parallel = "parallel"
    posterior = "posterior"
    steps = "steps"
    animation = "animation"
    calibration = "calibration"
    timeline = "timeline"
    all = "all"


WITH_DIMENSIONS = {"posterior": 1, "steps": 1, "animation": 1, "contour": 2}


def plot(
    name: NameArgument = None,
    storage: StorageOption = None,
    figure: Annotated[
        list[Figure], typer.Option("--figure", "-f", help="Which one; may be repeated.", show_default="history")
    ] = [Figure.history],  # noqa: B006
    param: Annotated[
        list[str],
        typer.Option("--param", "-p", metavar="NAME", help="The parameter along which (two for contour)."),
    ] = [],  # noqa: B006
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE|FOLDER", help="png, svg or pdf; NAME-FIGURE.png if left out."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw figures of a study into files.

    Examples:
      presage plot tuning --storage study.db
      presage plot --storage study.db --figure importance --figure slices --output figures/
      presage plot --storage study.db --figure contour --param lr --param layers -o map.svg
    """
    import io

    from presage import plots
    from presage.errors import StudyError

    record = read_record(open_existing(storage), storage, name)
    everything = Figure.all in figure
    wanted = [kind.value for kind in Figure if kind not in (Figure.all, Figure.animation)] if everything else figure
    if output is not None and output.suffix and len(wanted) > 1:
        raise typer.BadParameter("several figures need a folder, but got a file", param_hint="--output")
    kind = output.suffix[1:].lower() if output is not None and output.suffix else "png"
    if kind not in ("png", "svg", "pdf", "gif"):
        raise typer.BadParameter(
            f"a figure's file must end in png, svg or pdf, but got {kind!r}", param_hint="--output"
        )
    _check_names(param, record, max(WITH_DIMENSIONS.get(str(each), 0) for each in wanted))
    written = []
    for each in map(str, wanted):
        ending = "gif" if each == "animation" else kind
        path = (
            output
            if output is not None and output.suffix
            else (output or Path()) / f"{file_name(record.name)}-{each}.{ending}"
        )
        picture = io.BytesIO()
        given = param[: WITH_DIMENSIONS.get(each, 0)]
        try:
            if each == "animation":
                plots.animation(record, picture, *given)  # type: ignore[arg-type]
            else:
                plots.OF_STUDY[each](record, *given).savefig(picture, format=ending)
        except StudyError as error:
            if not everything:
                raise
            typer.echo(f"{each}: left out, {error}", err=True)
            continue
        write(path, picture.getvalue(), "--output")
        written.append(str(path))
    typer.echo(json.dumps({"study": record.name, "files": written}) if as_json else "\n".join(written))


def _check_names(names: list[str], record: "Record", most: int) -> None:
    """What no figure would use is a mistake, and not to be passed over."""
    from presage.errors import StudyError

    for name in names:
        if name not in record.space:
            raise StudyError(f"--param must be one of {', '.join(record.space)}, but got {name!r}")
    if len(names) > most:
        takes = ", ".join(f"{figure} takes {count}" for figure, count in WITH_DIMENSIONS.items())
        raise typer.BadParameter(
            f"{takes}, other figures none, but got {', '.join(names)}; leave out what is too many", param_hint="--param"
        )
