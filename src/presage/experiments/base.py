"""What an experiment of a seed is, and how it is run: cell by cell, each of them kept once it is measured."""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.benchmarks import records
from presage.benchmarks.runner import processes
from presage.threads import few_threads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = tuple[str | int | float, ...]
Found = dict[Cell, Any]
PACKAGES = ("presage", "numpy", "scipy", "jax")


@dataclass(frozen=True)
class Told:
    """What came out, for a reader.

    Attributes:
        rows: what was measured, what the document says, what was found here.
        differs: one sentence on where and why they differ.
        more: further Markdown.
    """

    rows: tuple[tuple[str, str, str], ...]
    differs: str
    more: str = ""

    def markdown(self) -> str:
        """A table, the sentence, and what is more."""
        parts = [table(("what", "the document", "here"), self.rows), self.differs, self.more]
        return "\n\n".join(part for part in parts if part) + "\n"


def nothing(summary: Any) -> "dict[str, Figure]":
    """No figures."""
    return {}


@dataclass(frozen=True)
class Experiment:
    """One experiment of a seed.

    Attributes:
        name: of its files.
        title: what the document calls it.
        cells: the arguments of every measurement; what is on record for the same arguments is not measured again.
        measure: a cell's arguments to something that JSON can hold; a function that another process can import.
        summarise: everything measured to what is recorded.
        tell: what is recorded to rows beside the document's.
        draw: what is recorded to figures by file name.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    measure: Callable[..., Any]
    summarise: Callable[[Found], Any]
    tell: Callable[[Any], Told]
    draw: "Callable[[Any], dict[str, Figure]]" = field(default=nothing)


def run(
    experiment: Experiment, folder: Path, *, jobs: int = 1, tell: Callable[[Cell], None] = lambda cell: None
) -> Found:
    """Measure the cells that are missing in a folder, `jobs` at a time, and give all of them.

    Args:
        experiment: what to measure.
        folder: where cells are kept, a line of JSON each.
        jobs: processes; with one, cells are measured in this process.
        tell: called after every cell, those on record included.
    """
    path = folder / f"{experiment.name}.jsonl"
    kept: Found = {tuple(line["cell"]): line["found"] for line in records.lines(path)}
    missing = [cell for cell in experiment.cells if cell not in kept]
    for cell in experiment.cells:
        if cell in kept:
            tell(cell)
    for cell, found in _measured(experiment.measure, missing, jobs):
        line = json.loads(json.dumps({"cell": cell, "found": found}))  # as it will be read again
        records.add(path, line)
        kept[cell] = line["found"]
        tell(cell)
    return {cell: kept[cell] for cell in experiment.cells}


def _measured(measure: Callable[..., Any], cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Any]]:
    if jobs == 1:
        with few_threads():
            yield from ((cell, measure(*cell)) for cell in cells)
        return
    with processes(jobs) as pool:
        under_way = {pool.submit(measure, *cell): cell for cell in cells}
        for done in as_completed(under_way):
            yield under_way[done], done.result()


def write(experiment: Experiment, found: Found, folder: Path, command: str) -> Told:
    """Write what is recorded and the figures into a folder, and give what is to be told."""
    summary = experiment.summarise(found)
    record = {"command": command, "versions": versions(), "machine": machine(), "result": summary}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{experiment.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    for name, figure in experiment.draw(summary).items():
        figure.savefig(folder / f"{name}.png", dpi=80)
    return experiment.tell(summary)


def versions() -> dict[str, str]:
    """Of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from its source
            continue
    return found


def machine() -> dict[str, Any]:
    """What an experiment ran on."""
    return {"processor": platform.machine(), "cores": os.cpu_count(), "system": platform.system()}


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table.

    Example:
        >>> print(table(("a", "b"), [(1, 2)]))
        | a | b |
        | --- | --- |
        | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def quartiles(values: Sequence[float]) -> str:
    """Median, and quartiles in brackets.

    Example:
        >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0])
        '3 (2 to 4)'
    """
    import numpy as np

    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.2g} ({low:.2g} to {high:.2g})"
