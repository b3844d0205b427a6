"""Any table as numbers: missing values, categories, constants; and a note of everything that was done."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from presage.errors import PresageError

__all__ = ["DataError", "Encoding", "columns_of_table", "numbers"]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
LEVELS = 20  # of a category; rarer ones share none of them
LEAST = 8  # rows


class DataError(PresageError, ValueError):
    """A table that no network can be designed for."""


@dataclass(frozen=True)
class Feature:
    """What becomes of one column.

    Attributes:
        name: of the column.
        kind: number, category or dropped.
        fill: what stands for a missing number.
        flagged: whether a second feature says that the number was missing.
        levels: of a category, in order; each has a feature.
    """

    name: str
    kind: str
    fill: float = 0.0
    flagged: bool = False
    levels: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many features it gives."""
        return {"number": 1 + self.flagged, "category": len(self.levels), "dropped": 0}[self.kind]


def columns_of_table(table: Any) -> tuple[list[str], list[list[Any]]]:
    """Names and columns of a data frame, a mapping of columns, or rows.

    Example:
        >>> columns_of_table({"a": [1, 2], "b": ["x", "y"]})
        (['a', 'b'], [[1, 2], ['x', 'y']])
    """
    if isinstance(table, Mapping):
        names = [str(name) for name in table]
        columns = [list(column) for column in table.values()]
    elif hasattr(table, "columns") and hasattr(table, "to_numpy"):  # pandas and polars
        names = [str(name) for name in table.columns]
        columns = [list(table[name]) for name in table.columns]
    else:
        rows = np.asarray(table, dtype=object)
        if rows.ndim != 2:
            raise DataError(f"a table has rows and columns, but got an array of shape {rows.shape}")
        names = [f"x{j}" for j in range(rows.shape[1])]
        columns = [rows[:, j].tolist() for j in range(rows.shape[1])]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise DataError(f"all columns must be equally long, but their lengths are {sorted(lengths)}")
    return names, columns


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return True
    try:
        return bool(value != value)  # NaN, NaT and pandas' NA, whose truth is an error
    except TypeError:
        return True


def numbers(column: Sequence[Any]) -> np.ndarray | None:
    """A column as floats, NaN where missing or infinite; None if some cell is no number.

    Example:
        >>> numbers(["1", 2, None, "x"]) is None
        True
        >>> numbers(["1", 2, ""])
        array([ 1.,  2., nan])
    """
    found = np.full(len(column), np.nan)
    for i, value in enumerate(column):
        if is_missing(value):
            continue
        try:
            found[i] = float(value)
        except (TypeError, ValueError):
            return None
    return np.where(np.isfinite(found), found, np.nan)


@dataclass(frozen=True)
class Encoding:
    """How rows become numbers.

    Attributes:
        features: one for each column of the table.
        notes: what was done, in sentences.
    """

    features: tuple[Feature, ...]
    notes: tuple[str, ...]

    @staticmethod
    def learn(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> "Encoding":
        """Look at a table and decide."""
        features, notes = [], []
        for name, column in zip(names, columns, strict=True):
            feature, note = _decide(str(name), column)
            features.append(feature)
            notes += note
        encoding = Encoding(tuple(features), tuple(notes))
        if not encoding.width:
            raise DataError("no column is left to learn from: all are constant, empty or different in every row")
        return encoding

    @property
    def width(self) -> int:
        """How many features there are."""
        return sum(feature.width for feature in self.features)

    def apply(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> np.ndarray:
        """A table with the same columns as numbers, [n, features]."""
        at = dict(zip(map(str, names), columns, strict=True))
        lacking = [feature.name for feature in self.features if feature.kind != "dropped" and feature.name not in at]
        if lacking:
            raise DataError(f"the table lacks columns that the model was trained with: {', '.join(lacking)}")
        parts = []
        for feature in self.features:
            if feature.kind == "number":
                found = numbers(at[feature.name])
                if found is None:
                    raise DataError(f"column {feature.name!r} held numbers in training and holds something else now")
                parts.append(np.where(np.isnan(found), feature.fill, found)[:, None])
                if feature.flagged:
                    parts.append(np.isnan(found)[:, None].astype(float))
            elif feature.kind == "category":
                texts = np.array(["" if is_missing(value) else str(value) for value in at[feature.name]], dtype=object)
                parts.append((texts[:, None] == np.array(feature.levels, dtype=object)).astype(float))
        return np.concatenate(parts, axis=1)

    def to_json(self) -> dict[str, Any]:
        return {"features": [asdict(feature) for feature in self.features], "notes": list(self.notes)}

    @staticmethod
    def from_json(payload: Mapping[str, Any]) -> "Encoding":
        features = tuple(Feature(**{**one, "levels": tuple(one["levels"])}) for one in payload["features"])
        return Encoding(features, tuple(payload["notes"]))


def _decide(name: str, column: Sequence[Any]) -> tuple[Feature, list[str]]:
    """What becomes of a column, and what to say about it."""
    missing = sum(is_missing(value) for value in column)
    found = numbers(column)
    if missing == len(column):
        return Feature(name, "dropped"), [f"{name}: empty, left out"]
    if found is not None:
        there = found[np.isfinite(found)]
        lost = len(found) - len(there)
        if not len(there):
            return Feature(name, "dropped"), [f"{name}: nothing but infinite values, left out"]
        if there.min() == there.max() and not lost:
            return Feature(name, "dropped"), [f"{name}: constant, left out"]
        fill = float(np.median(there))
        if lost:
            what = f"filled with the median {fill:.6g} and flagged by a feature of their own"
            return Feature(name, "number", fill, True), [f"{name}: {lost} missing values, {what}"]
        return Feature(name, "number", fill), []
    counts = Counter("" if is_missing(value) else str(value) for value in column)
    if len(counts) == 1:
        return Feature(name, "dropped"), [f"{name}: constant, left out"]
    if len(counts) > LEVELS and len(counts) > 0.5 * len(column):
        return Feature(name, "dropped"), [f"{name}: text that differs in nearly every row, left out"]
    kept = tuple(sorted(level for level, _ in counts.most_common(LEVELS)))
    note = f"{name}: {len(counts)} categories, each a feature"
    if len(counts) > LEVELS:
        note = f"{name}: {len(counts)} categories, the {LEVELS} commonest of them features, the others none"
    return Feature(name, "category", levels=kept), [note + (f"; {missing} missing count as one" if missing else "")]


def target(column: Sequence[Any], name: str = "the target") -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Values to foretell, which rows have one, and what to say about it."""
    y = numbers(column)
    if y is None:
        raise DataError(f"{name} must hold numbers, but holds {next(v for v in column if numbers([v]) is None)!r}")
    rows = np.flatnonzero(np.isfinite(y))
    if len(rows) < LEAST:
        raise DataError(f"at least {LEAST} rows must have a value of {name}, but {len(rows)} have")
    if math.isclose(float(y[rows].min()), float(y[rows].max()), rel_tol=1e-12):
        raise DataError(f"{name} is constant: there is nothing to learn")
    lost = len(y) - len(rows)
    return y[rows], rows, [f"{lost} rows without a value of {name} left out"] if lost else []
