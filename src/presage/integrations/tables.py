"""Trials from CSV: those of `presage export`, and those of anybody's table with a header."""

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, get_args

from presage.dimensions import Choice, Constant, Dimension, Float, Int, json_key
from presage.errors import PresageError, SpaceError, StudyError
from presage.integrations.records import Record, study_of
from presage.space import Space
from presage.storage import Storage
from presage.study import Study
from presage.table import AFTER, BEFORE
from presage.trial import Failure, FailureKind

Row = Mapping[str, str]
EXPORTED = {*BEFORE, *AFTER}  # columns that presage's own tables have beside params and metrics


def from_csv(
    path: str | os.PathLike[str], *, space: Space | None = None, value: str = "value",
    storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None, **settings: Any,
) -> Study:  # fmt: skip
    """A study with a trial for each row of a CSV file with a header.

    The columns of `presage export` keep their meaning (state, stddev, started, finished, failure, message, and
    metrics.NAME); all others are params. A row without a value is a failure if it says so, and a point to try if not.

    Args:
        path: the file.
        space: the search space; where left out, as wide as the rows: whole numbers are an Int, others a Float, texts
            a Choice, and a column with one value a Constant.
        value: the column with the objective's values.
        storage: where to; memory where left out.
        name: of the new study; the file's where left out.
        settings: direction, surrogate, acquisition, initial, seed as for `Study`.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(_rows(csv.reader(file), str(path)))
    if not rows:
        raise StudyError(f"a table must have a header and rows, but {path} has no rows")
    header = list(rows[0])
    if value not in header:
        raise StudyError(f"the values must be in a column {value!r}, but {path} has {header}; say which it is")
    own = "number" in header and "state" in header  # a table of presage's own
    others = EXPORTED if own else set()
    titles = {title: title.removeprefix("params.") if own else title for title in header
              if title != value and title not in others and not (own and title.startswith("metrics."))}  # fmt: skip
    found = _space(rows, titles) if space is None else space
    missing = [key for key, axis in found.items()
               if key not in titles.values() and axis.when is None and axis.default is None
               and not isinstance(axis, Constant)]  # fmt: skip
    extra = [title for title, key in titles.items() if key not in found]
    if missing or extra:
        what = f"no column for {missing}" if missing else f"columns {extra}, which are no params"
        raise SpaceError(f"the columns must be the space's {list(found)}, but {path} has {what}")
    records = []
    for line, row in enumerate(rows, 2):
        try:
            records.append(_record(row, found, titles, value, own))
        except (PresageError, ValueError) as error:
            raise StudyError(f"{path}, row {line}: {error}") from None
    title = os.path.splitext(os.path.basename(path))[0] if name is None else name
    return study_of(found, records, storage=storage, name=title, **settings)


def _rows(lines: Iterator[list[str]], path: str) -> Iterator[dict[str, str]]:
    header = [title.strip() for title in next(lines, [])]
    twice = [title for title in header if header.count(title) > 1]
    if twice or "" in header:
        raise StudyError(
            f"columns must have names that differ, but {path} has {twice[0] if twice else ''!r} twice or none"
        )
    for number, cells in enumerate(lines, 2):
        if not cells:
            continue  # an empty line
        if len(cells) != len(header):
            raise StudyError(f"every row must have {len(header)} cells, but row {number} of {path} has {len(cells)}")
        yield dict(zip(header, (cell.strip() for cell in cells), strict=True))


def _record(row: Row, space: Space, titles: Mapping[str, str], value: str, own: bool) -> Record:
    params = {key: _legal(key, space[key], row[title]) for title, key in titles.items() if row[title] != ""}
    number = float(row[value]) if row[value] else None
    if number is not None and not math.isfinite(number):
        return Record(params, failure=Failure("invalid", f"a value must be one finite number, but got {number}"))
    if not own:
        return Record(params, number)
    metrics = {title.removeprefix("metrics."): float(cell) for title, cell in row.items()
               if title.startswith("metrics.") and cell}  # fmt: skip
    kind, failure = row.get("failure", ""), None
    if row["state"] == "failed" or kind:
        if kind and kind not in get_args(FailureKind):
            raise StudyError(f"failure must be one of {get_args(FailureKind)}, but got {kind!r}")
        failure = Failure(kind or "error", row.get("message", ""))  # type: ignore[arg-type]
        number = None
    stddev = float(row["stddev"]) if row.get("stddev") else None
    started, finished = (_moment(row.get(what, "")) for what in ("started", "finished"))
    return Record(params, number, stddev, metrics, failure, started=started, finished=finished)


def _moment(text: str) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


def _legal(name: str, axis: Dimension, text: str) -> Any:
    """What a cell means to its dimension: JSON, or else the text itself; the error is that of the first."""
    first: SpaceError | None = None
    for value in (_plain(text), text):
        try:
            return axis.check(value)
        except SpaceError as error:
            first = first or error
    raise SpaceError(f"{name!r}: {first}")


def _plain(text: str) -> Any:
    """The JSON value that a cell is written like, else its text.

    Example:
        >>> [_plain(text) for text in ("3", "3.5", "True", "null", "relu", "nan")]
        [3, 3.5, True, None, 'relu', 'nan']
    """
    words = {"True": True, "False": False, "None": None, "TRUE": True, "FALSE": False}
    if text in words:
        return words[text]
    with suppress(ValueError):
        value = json.loads(text)
        return value if not isinstance(value, float) or math.isfinite(value) else text
    with suppress(ValueError):
        number = float(text)  # .5 and 1., which JSON does not know
        return number if math.isfinite(number) else text
    return text


def _space(rows: Sequence[Row], titles: Mapping[str, str]) -> Space:
    """As wide as what was tried."""
    axes: dict[str, Dimension] = {}
    for title, key in titles.items():
        cells = [row[title] for row in rows]
        if "" in cells:
            raise SpaceError(
                f"{title!r} is empty in row {cells.index('') + 2}, so it is conditional, and a space must say on what"
            )
        values = list({json_key(value, title): value for value in map(_plain, cells)}.values())
        if len(values) == 1:
            axes[key] = Constant(values[0])
        elif all(type(value) is int for value in values):
            axes[key] = Int(min(values), max(values))
        elif all(type(value) in (int, float) for value in values):
            axes[key] = Float(min(values), max(values))
        else:
            axes[key] = Choice(values)
    return Space(axes)
