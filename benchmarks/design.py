"""`presage.design.search` against a default variational network, a perceptron and a Gaussian process.

    PYTHONPATH=src python benchmarks/design.py --budget 300 --splits 10

Test log-likelihood on random 80/20 splits of scikit-learn's diabetes data and of generated data like California's
housing: 1,000 rows, eight inputs of which some are skewed, a smooth surface with a step in it, noise that grows with
the value.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import record
from scipy.stats import norm

from presage.design import search


def generated(rng: np.random.Generator, n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Income, age, rooms, ... and a price."""
    income, age = rng.lognormal(1.2, 0.5, n), rng.uniform(1, 52, n)
    rooms, people = rng.lognormal(1.6, 0.3, n), rng.lognormal(1.0, 0.3, n)
    north, east, coast, other = rng.uniform(-1, 1, (4, n))
    level = 0.4 * income + 0.3 * np.sin(3 * north) * np.cos(2 * east) + 0.5 * (coast > 0.3) - 0.02 * people * rooms
    level += 0.004 * age + 0.8
    x = np.stack([income, age, rooms, people, north, east, coast, other], axis=1)
    return x, level + (0.1 + 0.1 * income / income.mean()) * rng.standard_normal(n)


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "generated":
        return generated(np.random.default_rng(0))
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def perceptron(x: np.ndarray, y: np.ndarray, at: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's MLP; the noise is the mean squared error of a tenth kept back by its early stopping."""
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    center, scale = y.mean(), y.std()
    fit, back, fit_y, back_y = train_test_split(x, (y - center) / scale, test_size=0.1, random_state=seed)
    model = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(50,), max_iter=2000, early_stopping=True, random_state=seed)
    )
    model.fit(fit, fit_y)
    noise = np.sqrt(np.mean((model.predict(back) - back_y) ** 2))
    return center + scale * model.predict(at), np.full(len(at), scale * noise)


def process(x: np.ndarray, y: np.ndarray, at: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's Gaussian process, a lengthscale for each column, and noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    center, scale = x.mean(axis=0), x.std(axis=0)
    kernel = ConstantKernel(1.0) * RBF(np.full(x.shape[1], 3.0)) + WhiteKernel(0.5)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lengthscales at their bounds
        model.fit((x - center) / scale, y)
        return model.predict((at - center) / scale, return_std=True)


def one(name: str, split: int, budget: float) -> dict[str, Any]:
    """All methods on one split."""
    from presage.sklearn import VariationalRegressor

    x, y = data(name)
    order = np.random.default_rng([split, 9]).permutation(len(y))
    train, test = order[len(y) // 5 :], order[: len(y) // 5]
    told: dict[str, Any] = {"set": name, "split": split}
    began = time.perf_counter()
    found = search(x[train], y[train], budget=budget, seed=split)
    told["seconds"], told["best"] = round(time.perf_counter() - began, 1), found.best
    told["networks"] = len(found.history)
    told["design"] = float(found.model.log_density(x[test], y[test]).mean())
    default = VariationalRegressor(random_state=split).fit(x[train], y[train])
    told["default network"] = float(default.log_density(x[test], y[test]).mean())
    for label, method in (("perceptron", perceptron), ("Gaussian process", process)):
        mean, stddev = method(x[train], y[train], x[test], split)
        told[label] = float(norm(mean, stddev).logpdf(y[test]).mean())
    print(told, flush=True)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=300.0)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="splits at a time, each with the same budget")
    parser.add_argument("--sets", nargs="*", default=["diabetes", "generated"])
    args = parser.parse_args()
    runs = [(each, split, args.budget) for each in args.sets for split in range(args.splits)]
    name = "design" if len(args.sets) > 1 else f"design_{args.sets[0]}"
    told = []
    for _, found in record.spread(one, runs, args.jobs):
        told.append(found)
        record.write(name, {"budget": args.budget, "splits": told}, ("presage", "numpy", "jax", "scikit-learn"))
    for set_name in args.sets:
        mine = [row for row in told if row["set"] == set_name]
        for other in ("default network", "perceptron", "Gaussian process"):
            ahead = sum(row["design"] > row[other] for row in mine)
            means = [float(np.mean([row[label] for row in mine])) for label in ("design", other)]
            print(f"{set_name}: {means[0]:.3f}, {other} {means[1]:.3f}; ahead on {ahead} of {len(mine)} splits")


if __name__ == "__main__":
    main()
