"""`presage design`: a network for a table."""

import json
import math
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import JsonOption
from presage.cli._studies import folder as make_folder
from presage.errors import PresageError

if TYPE_CHECKING:
    from presage.design import Runs

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
SHOWN = 12  # networks in the live table


def seconds(text: str) -> float:
    """A time such as 90, 90s, 10m or 1.5h in seconds.

    Example:
        >>> seconds("1.5h")
        5400.0
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh]?)\s*", text)
    if not found or float(found[1]) <= 0.0:
        raise typer.BadParameter(f"a budget is a positive number with s, m, h or steps, such as 10m, but got {text!r}")
    return float(found[1]) * UNITS[found[2]]


def budget_of(text: str) -> tuple[float, int | None]:
    """A budget in seconds and in steps: a time, or a number of steps of all networks together.

    Example:
        >>> budget_of("10m"), budget_of("20000 steps")
        ((600.0, None), (inf, 20000))
    """
    found = re.fullmatch(r"\s*([0-9]+)\s*steps\s*", text)
    if not found:
        return seconds(text), None
    if int(found[1]) < 1:
        raise typer.BadParameter(f"a number of steps must be at least 1, but got {text!r}")
    return math.inf, int(found[1])


def design(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file with a header.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to foretell.")],
    budget: Annotated[str, typer.Option("--budget", "-b", help="How long: 90s, 10m, 1.5h, or 20000steps.")] = "10m",
    family: Annotated[str, typer.Option("--family", help="variational or ensemble.")] = "variational",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where to; FILE.design if left out.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another search.")] = 0,
    steps: Annotated[
        int | None, typer.Option("--steps", min=50, help="Of a whole training; by budget if left out.")
    ] = None,
    penalty: Annotated[
        float, typer.Option("--penalty", min=0.0, help="Nats per factor e in the number of weights.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Find a network that foretells a column of a table, and how sure it is.

    Networks are trained a stretch at a time and given up when their curves promise nothing. Stopped at any time, the
    same command goes on where it was. The folder gets model.npz (presage.design.DesignedModel.load) and report.html.

    Examples:
      presage design houses.csv --target price --budget 10m
    """
    from presage.cli._output import err, out, pairs
    from presage.design import search
    from presage.design.report import html

    if family not in ("variational", "ensemble"):
        raise typer.BadParameter(f"the family must be variational or ensemble, but got {family!r}")
    columns = read(data)
    if target not in columns:
        raise PresageError(f"{data} has no column {target!r}; it has {', '.join(columns)}")
    limit, total = budget_of(budget)
    y = columns.pop(target)
    folder = make_folder(output or data.with_name(f"{data.name}.design"), "--output")
    view: Any = nullcontext(lambda runs: None)
    if sys.stderr.isatty():
        view = Live()
    try:
        with view as tell:
            found = search(
                columns, y, family=family, budget=limit, seed=seed, steps=steps, penalty=penalty,  # type: ignore[arg-type]
                folder=folder, tell=tell, total_steps=total,
            )  # fmt: skip
    except KeyboardInterrupt:
        err().print(f"Stopped. The same command goes on from {folder}.", style="yellow")
        raise typer.Exit(130) from None
    found.model.save(folder / "model.npz")
    (folder / "report.html").write_text(html(found, f"{data.name}: {target}"))
    if as_json:
        told = {
            "best": found.best, "log_density": found.score, "networks": len(found.history), "scale": found.model.scale,
            "notes": list(found.notes), "model": str(folder / "model.npz"), "report": str(folder / "report.html"),
        }  # fmt: skip
        typer.echo(json.dumps(told, indent=2))
        return
    console = out()
    for note in found.notes:
        console.print(f"note: {note}", style="dim")
    complete = sum(trial.state == "complete" for trial in found.history)
    console.print(f"{len(found.history)} networks begun, {complete} of them trained to the end.")
    console.print(f"best: {pairs(found.best)}", style="green")
    console.print(f"mean log density of rows kept back {found.score:.4f}; spreads stretched by {found.model.scale:.2f}")
    console.print(f"model {folder / 'model.npz'}, report {folder / 'report.html'}")


def read(path: Path) -> dict[str, list[str]]:
    """The columns of a CSV file."""
    import csv

    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PresageError(f"{path} cannot be read: {error}") from error
    if len(rows) < 2:
        raise PresageError(f"{path} must have a header and rows, but has {len(rows)} lines")
    header = rows[0]
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise PresageError(
            f"columns must have different names, but {path} has {', '.join(sorted(twice))} more than once"
        )
    for number, row in enumerate(rows[1:], 2):
        if row and len(row) != len(header):
            raise PresageError(f"line {number} of {path} has {len(row)} cells, but the header has {len(header)}")
    kept = [row for row in rows[1:] if row]
    return {name: [row[j] for row in kept] for j, name in enumerate(header)}


class Live:
    """The networks with their curves, while they are trained."""

    def __enter__(self) -> Any:
        from rich.console import Console
        from rich.live import Live as Screen
        from rich.spinner import Spinner

        self.last: Any = ""
        first = Spinner("dots", "compiling the first network, which takes a while")
        self.screen = Screen(first, console=Console(stderr=True), refresh_per_second=4)
        self.screen.__enter__()
        return self.tell

    def tell(self, runs: "Runs") -> None:
        from rich.console import Group
        from rich.spinner import Spinner

        self.last = networks(runs)
        self.screen.update(Group(self.last, Spinner("dots", "training")))

    def __exit__(self, *error: Any) -> None:
        self.screen.update(self.last)  # what stays on the screen is not under way any more
        self.screen.__exit__(*error)


def networks(runs: "Runs") -> Any:
    """The best networks so far, as a table."""
    from presage.cli._output import pairs, table
    from presage.progress import sparkline

    made = table("network", "state", "step", "score", "curve", "design", right=("network", "step", "score"))
    trials = sorted(runs.trials, key=lambda trial: trial.reports[-1][1])
    for trial in trials[:SHOWN]:
        step, value = trial.reports[-1]
        curve = sparkline([point for _, point in trial.reports])
        made.add_row(str(trial.number), trial.state, str(step), f"{value:.4f}", curve, pairs(trial.params))
    many = "network" if len(trials) == 1 else "networks"
    steps = sum(trial.reports[-1][0] for trial in trials)
    made.caption = f"{len(trials)} {many}, {steps:,} steps, {runs.seconds:.0f} s of training"
    return made
