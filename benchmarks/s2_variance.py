"""Theorem 3.3.1 of S2: the variance of an ensemble's mean is rho s^2 + s^2 (1 - rho) / N. Measured and drawn.

    PYTHONPATH=src python benchmarks/s2_variance.py     # results/s2_variance.json, docs/figures/s2_variance.png

S2's second function with its noise; many data sets, and many sparse networks on each, all trained in one program.
Over data sets and networks a member's prediction has variance s^2, and two members of one data set have correlation
rho. Both are estimated on one half of the data sets, the variance of the mean of N members on the other.
"""

import argparse
import json
from pathlib import Path

import device  # before jax: it sets flags
import numpy as np

from presage.networks.ensemble import Sparse, member_functions
from presage.networks.training import Cohort, Table, Training, describe

HERE = Path(__file__).parent
ROWS, PROBES = 100, np.linspace(0.05, 0.95, 19)


def f(x: np.ndarray) -> np.ndarray:
    return 10.0 - 140.0 * x + 400.0 * x**2 - 250.0 * x**3


def predictions(sets: int, members: int, steps: int, keep: float) -> np.ndarray:
    """Of each member of each data set at the probes, [sets, members, probes]."""
    rng = np.random.default_rng(0)
    x = rng.random(sets * ROWS)
    y = f(x) + 5.0 * rng.standard_normal(len(x))
    rows = [np.arange(s * ROWS, (s + 1) * ROWS) for s in range(sets) for _ in range(members)]
    family, table = Sparse(), Table(x[:, None], y)
    networks = describe(family, [(7, 7)] * len(rows), table, rows, seeds=range(len(rows)), keep=[keep] * len(rows))
    cohort = Cohort.new(family, Training(rate=1e-2, tolerance=1e-4), networks, table).advance(steps)
    return member_functions(cohort).values(PROBES[:, None])[..., 0].reshape(sets, members, len(PROBES))


def law(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s^2 and rho s^2 at each probe from [sets, members, probes], by the moments of exchangeable variables."""
    centered = found - found.mean(axis=(0, 1))
    members = found.shape[1]
    variance = (centered**2).mean(axis=(0, 1))
    whole = (centered.mean(axis=1) ** 2).mean(axis=0)  # rho s^2 + (1 - rho) s^2 / members
    return variance, (members * whole - variance) / (members - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=80)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--keep", type=float, default=0.73)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    found = predictions(args.sets, args.members, args.steps, args.keep)
    half = args.sets // 2
    variance, shared = law(found[:half])
    sizes = [n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n <= args.members]
    # Means over probes; the standard error of the measured variance is over data sets.
    measured, error, expected = [], [], []
    for n in sizes:
        square = (found[half:, :n].mean(axis=1) - found[half:].mean(axis=(0, 1))) ** 2
        measured.append(float(square.mean()))
        error.append(float(square.mean(axis=1).std(ddof=1) / np.sqrt(len(square))))
        expected.append(float((shared + (variance - shared) / n).mean()))
    record = device.about("s2_variance") | {
        "sets": args.sets, "members": sizes, "measured": measured, "stderr": error, "law": expected,
        "variance": float(variance.mean()), "correlation": float((shared / variance).mean()),
    }  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "s2_variance.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({k: record[k] for k in ("members", "measured", "stderr", "law", "correlation")}))
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(4.5, 3.2))
    axis.errorbar(sizes, measured, error, fmt="o", label="measured on one half of the data sets")
    axis.plot(sizes, expected, label="law, from the other half")
    axis.axhline(float(shared.mean()), color="grey", linewidth=0.5, label="shared part, $\\rho s^2$")
    axis.set(xlabel="members N", ylabel="variance of the mean", ylim=(0, None))
    axis.legend(fontsize=7)
    figure.tight_layout()
    figures = HERE.parent / "docs" / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    figure.savefig(figures / "s2_variance.png", dpi=90)


if __name__ == "__main__":
    main()
