"""Tables of real losses: cross-validated learners over dense grids of their hyperparameters, for `presage bench`.

    python benchmarks/tables.py --data FOLDER                       # all that is missing, about an hour on one core
    python benchmarks/tables.py --data FOLDER --only svm_lsvt
    python benchmarks/tables.py --curves                            # from the curves in results/curves: their ends,
                                                                    # and what `presage reproduce s4` plays on

S5's learners and ranges (support vectors, nearest neighbours, boosting, a network) on its five data sets, and on two of
scikit-learn's bundled ones for development. Five shuffled folds, features scaled within each; mean log loss, or mean
squared error for binding affinity and diabetes. Sets of more than 300 rows are cut to a random 300, so that a grid is
affordable; with all rows the same surfaces are a little lower. FOLDER holds the thesis's files aff.csv, pinter.csv,
lsvt.csv and parkinsons.csv, without headers.

Each table is NAME.npz with the nodes of every axis (axis_NAME, in the order of `names`), losses over their product, and
about, a JSON text.
"""

import argparse
import itertools
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

TABLES = Path(__file__).parent.parent / "src" / "presage" / "benchmarks" / "tables"
PLAYED = TABLES.parents[1] / "experiments" / "curves"
CURVES = Path(__file__).parent / "results" / "curves"
ROWS = 300
FILES = {
    "affinity": ("aff.csv", 0), "interface": ("pinter.csv", 0), "lsvt": ("lsvt.csv", 0),
    "parkinsons": ("parkinsons.csv", 16),
}  # fmt: skip
BUNDLED = {"breast": datasets.load_breast_cancer, "wine": datasets.load_wine, "diabetes": datasets.load_diabetes}
REGRESSION = {"affinity", "diabetes"}

# Nodes of each axis. Large depths are few, since a tree on 240 rows is grown out long before.
GRIDS: dict[str, dict[str, list[float]]] = {
    "svm": {"C": np.logspace(-5, 5, 25).tolist(), "gamma": np.logspace(-5, 5, 25).tolist()},
    "knn": {"k": list(range(10, 51))},
    "gbm": {
        "learning_rate": [1e-5, 1e-4, 1e-3, 1e-2], "estimators": list(range(10, 101, 5)), "depth": [2, 4, 100],
        "min_split": [2, 15, 100],
    },
    "mlp": {"hidden": list(range(5, 51, 5)), "alpha": [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]},
}  # fmt: skip

Rows = tuple[np.ndarray, np.ndarray]
Fold = tuple[Rows, Rows]


def load(name: str, folder: Path | None) -> Rows:
    """Features and target, at most ROWS rows."""
    if name in BUNDLED:
        x, y = BUNDLED[name](return_X_y=True)
    else:
        if folder is None:
            raise SystemExit(f"{name} needs --data FOLDER")
        file, column = FILES[name]
        table = np.loadtxt(folder / file, delimiter=",")
        x, y = np.delete(table, column, axis=1), table[:, column]
    keep = np.random.default_rng(0).permutation(len(y))[:ROWS]
    return x[keep], y[keep] if name in REGRESSION else y[keep].astype(int)


def folds(x: np.ndarray, y: np.ndarray) -> Iterator[Fold]:
    """Five folds, features scaled by the training part."""
    for train, test in KFold(5, shuffle=True, random_state=0).split(x):
        scale = StandardScaler().fit(x[train])
        yield (scale.transform(x[train]), y[train]), (scale.transform(x[test]), y[test])


def learner(kind: str, regression: bool, nodes: dict[str, float]) -> object:
    """The learner at a node; of boosting, at its largest number of trees."""
    if kind == "svm":
        made = {"C": nodes["C"], "gamma": nodes["gamma"], "max_iter": 200_000}
        return SVR(**made) if regression else SVC(**made, probability=True, random_state=0)
    if kind == "knn":
        return (KNeighborsRegressor if regression else KNeighborsClassifier)(int(nodes["k"]))
    if kind == "gbm":
        make = GradientBoostingRegressor if regression else GradientBoostingClassifier
        return make(
            learning_rate=nodes["learning_rate"], n_estimators=100, max_depth=int(nodes["depth"]),
            min_samples_split=int(nodes["min_split"]), random_state=0,
        )  # fmt: skip
    make = MLPRegressor if regression else MLPClassifier
    return make(hidden_layer_sizes=(int(nodes["hidden"]),), alpha=nodes["alpha"], random_state=0)


def loss(regression: bool, classes: np.ndarray) -> Callable[[np.ndarray, np.ndarray], float]:
    if regression:
        return lambda y, predicted: float(mean_squared_error(y, predicted))
    return lambda y, predicted: float(log_loss(y, predicted, labels=classes))


def losses(kind: str, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mean loss over folds at every node."""
    axes = {axis: nodes for axis, nodes in GRIDS[kind].items() if axis != "estimators"}
    regression = name in REGRESSION
    measure = loss(regression, np.unique(y))
    parts = list(folds(x, y))
    rows = []
    for node in itertools.product(*axes.values()):
        total: np.ndarray | float = 0.0
        for (x_train, y_train), (x_test, y_test) in parts:
            model = learner(kind, regression, dict(zip(axes, node, strict=True)))
            model.fit(x_train, y_train)
            if kind == "gbm":  # a boosted model holds all smaller ones
                stages = list(model.staged_predict(x_test) if regression else model.staged_predict_proba(x_test))
                total = total + np.array([measure(y_test, stages[int(n) - 1]) for n in GRIDS[kind]["estimators"]]) / 5
            else:
                told = model.predict(x_test) if regression else model.predict_proba(x_test)
                total = total + measure(y_test, told) / 5
        rows.append(total)
    found = np.array(rows).reshape(*map(len, axes.values()), *((-1,) if kind == "gbm" else ()))
    return np.moveaxis(found, -1, 1) if kind == "gbm" else found


def save(name: str, axes: dict[str, list[float]], values: np.ndarray, about: dict[str, object]) -> None:
    text = json.dumps({"command": " ".join(["python", "benchmarks/tables.py", *_shown(sys.argv[1:])]), **about})
    TABLES.mkdir(exist_ok=True)
    np.savez_compressed(
        TABLES / f"{name}.npz", allow_pickle=False, names=np.array(list(axes)), losses=values.astype(np.float32),
        about=np.array(text), **{f"axis_{axis}": np.array(nodes, dtype=float) for axis, nodes in axes.items()},
    )  # fmt: skip


def _shown(arguments: list[str]) -> list[str]:
    """The command without the place of the data on this machine."""
    return ["FOLDER" if before == "--data" else this for before, this in zip(["", *arguments], arguments, strict=False)]


def curves() -> None:
    """Final validation losses of the curve tables, as functions of depth and width, averaged over training seeds.

    And the validation curves themselves in a small form: without errors, active units, and all but the last test value.
    """
    for path in sorted(CURVES.glob("*.npz")):
        with np.load(path) as data:
            depths, widths = np.unique(data["depth"]), np.unique(data["width"])
            final = -data["validation_log_likelihood"][:, :, -1].mean(axis=1)
            values = np.full((len(depths), len(widths)), np.nan)
            values[np.searchsorted(depths, data["depth"]), np.searchsorted(widths, data["width"])] = final
            small = {
                "depth": data["depth"].astype(np.int8), "width": data["width"].astype(np.int16),
                "steps": data["steps"].astype(np.int32), "seconds_per_step": data["seconds_per_step"],
                "validation_log_likelihood": data["validation_log_likelihood"],
                "test_log_likelihood": data["test_log_likelihood"][..., -1:],
            }  # fmt: skip
        PLAYED.mkdir(exist_ok=True)
        np.savez_compressed(PLAYED / path.name, allow_pickle=False, **small)
        axes = {"depth": depths.tolist(), "width": widths.tolist()}
        save(f"curve_{path.stem}", axes, values, {"from": f"benchmarks/results/curves/{path.name}"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no table after so long")
    parser.add_argument("--curves", action="store_true")
    arguments = parser.parse_args()
    if arguments.curves:
        return curves()
    names = arguments.only or [f"{kind}_{name}" for kind in GRIDS for name in (*FILES, *BUNDLED)]
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    for full in names:
        if time.perf_counter() - start > arguments.seconds:
            break
        if (TABLES / f"{full}.npz").exists():
            continue
        kind, _, name = full.partition("_")
        began = time.perf_counter()
        x, y = load(name, arguments.data)
        values = losses(kind, name, x, y)
        took = time.perf_counter() - began
        about = {
            "data": name, "rows": len(y), "features": x.shape[1], "seconds": round(took, 1), "cores": os.cpu_count(),
            "versions": {"python": platform.python_version(), "scikit-learn": version("scikit-learn")},
            "loss": "mean squared error" if name in REGRESSION else "log loss",
        }  # fmt: skip
        save(full, GRIDS[kind], values, about)
        print(f"{full}: {values.shape}, {values.min():.4g} to {values.max():.4g}, {took:.0f} s", flush=True)
    return None


if __name__ == "__main__":
    main()
