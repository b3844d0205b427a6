"""Finished runs as lines of JSON, one file per method, to which lines are only ever added."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from presage.errors import PresageError

Record = dict[str, Any]
NEEDED = ("problem", "method", "seed", "trials", "regret", "seconds")


def file_of(folder: Path, method: str) -> Path:
    """Where a method's runs are kept."""
    return folder / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', method)}.jsonl"


def append(folder: Path, record: Record) -> None:
    """Add a run; once this returns it is on disk."""
    add(file_of(folder, record["method"]), record)


def add(path: Path, record: Record) -> None:
    """Add a line of JSON; once this returns it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("ab") as file:
        # What a killed process left of a line is ended here, and skipped by readers.
        file.write((b"\n" if torn else b"") + json.dumps(record, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def lines(path: Path) -> Iterator[Record]:
    """The lines of a file, none where there is no file; what a killed process left of one is skipped."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def read(folder: Path) -> list[Record]:
    """Every finished run in a folder; of several with the same problem, method, seed and budget, the last."""
    if not folder.is_dir():
        raise PresageError(f"results are kept in a folder, but there is none at {folder}; presage bench run makes it")
    found: dict[tuple[str, str, int], Record] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for record in lines(path):
            if "truth" in record:  # as the first runs were written
                record["regret"] = [value - record["minimum"] for value in record["truth"]]
            missing = [name for name in NEEDED if name not in record]
            if missing:
                raise PresageError(f"a line of {path} must have {', '.join(NEEDED)}, but one has no {missing[0]!r}")
            found[record["problem"], record["method"], record["seed"]] = record
    return list(found.values())


def done(folder: Path, methods: Iterable[str], trials: dict[str, int]) -> set[tuple[str, str, int]]:
    """What of some methods need not be run again: problem, method, seed at the present budget."""
    wanted = set(methods)
    if not folder.is_dir():
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            raise PresageError(f"results are kept in a folder, but {there} is a file; name another place")
        return set()
    return {
        (r["problem"], r["method"], r["seed"])
        for r in read(folder)
        if r["method"] in wanted and r["trials"] == trials.get(r["problem"])
    }
