"""Regression data sets of the UCI repository with their standard splits, from a folder or from OpenML."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from presage.errors import PresageError


class DataSetNotFound(PresageError, FileNotFoundError):
    """Neither the folder nor OpenML has the data set."""


class Source(NamedTuple):
    """Rows and inputs of a data set, OpenML's number for it if one is known, and how many standard splits it has."""

    shape: tuple[int, int]
    openml: int | None
    splits: int = 20


# Names of the folders in which Hernandez-Lobato & Adams (2015) and their successors keep them.
SOURCES = {
    "boston_housing": Source((506, 13), 531), "concrete": Source((1030, 8), 44959), "energy": Source((768, 8), 44960),
    "kin8nm": Source((8192, 8), 189), "power_plant": Source((9568, 4), None), "protein": Source((45730, 9), 44963, 5),
    "wine_quality_red": Source((1599, 11), 40691), "yacht": Source((308, 6), 42370),
}  # fmt: skip


class DataSet(NamedTuple):
    """A table and its splits.

    Attributes:
        name: of the set.
        x: inputs, [n, d].
        y: values, [n].
        splits: rows to train on and rows to test on, for each split.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]


def load(name: str, folder: str | Path | None = None) -> DataSet:
    """A data set by name.

    Args:
        name: one of SOURCES.
        folder: where folder/name/data.txt and its index files lie; None to ask OpenML, through scikit-learn's cache.
    """
    if name not in SOURCES:
        raise DataSetNotFound(f"there is no data set {name!r}; there are {', '.join(SOURCES)}")
    return from_openml(name) if folder is None else from_folder(name, Path(folder))


def from_folder(name: str, folder: Path) -> DataSet:
    """Read data.txt, index_features.txt, index_target.txt, index_train_0.txt, index_test_0.txt and so on."""
    home = folder / name
    if not (home / "data.txt").is_file():
        raise DataSetNotFound(
            f"{home / 'data.txt'} does not exist; name a folder that holds {name}/data.txt and its index files, or "
            "no folder to fetch the set from OpenML"
        )
    data = np.loadtxt(home / "data.txt", ndmin=2)

    def index(file: str) -> np.ndarray:
        return np.loadtxt(home / file, ndmin=1).astype(np.int64)

    splits = [
        (index(f"index_train_{i}.txt"), index(f"index_test_{i}.txt"))
        for i in range(len(list(home.glob("index_train_*.txt"))))
    ]
    target = int(index("index_target.txt")[0])
    return DataSet(name, data[:, index("index_features.txt")], data[:, target], splits)


def from_openml(name: str) -> DataSet:
    """Fetch a set; its splits are drawn as the standard ones are, but of rows in OpenML's order."""
    from sklearn.datasets import fetch_openml

    source = SOURCES[name]
    remedy = f"name a folder that holds {name}/data.txt and its index files"
    if source.openml is None:
        raise DataSetNotFound(f"no number of {name} at OpenML is known; {remedy}")
    try:
        x, y = fetch_openml(data_id=source.openml, return_X_y=True, as_frame=False)
    except OSError as error:
        message = f"OpenML did not give data set {source.openml} ({name}): {error}; check the connection, or {remedy}"
        raise DataSetNotFound(message) from error
    if x.shape != source.shape:  # numbers may be given to other versions
        raise DataSetNotFound(f"OpenML's data set {source.openml} is {x.shape}, but {name} is {source.shape}; {remedy}")
    return DataSet(name, x.astype(float), y.astype(float), standard_splits(len(y), source.splits))


def standard_splits(count: int, splits: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random 90/10 splits drawn one after another from NumPy's first generator seeded by 1."""
    generator = np.random.RandomState(1)
    train = round(0.9 * count)
    permutations = [generator.choice(range(count), count, replace=False) for _ in range(splits)]
    return [(one[:train], one[train:]) for one in permutations]
