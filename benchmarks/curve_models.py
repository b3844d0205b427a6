"""Curve models compared by the log density of held-out curve ends on the eight tables; S4's tables 5.1 to 5.4.

    PYTHONPATH=src python benchmarks/curve_models.py models      # which model foretells best where curves end
    PYTHONPATH=src python benchmarks/curve_models.py gpar        # GPAR's kernels and settings (tables 5.1 to 5.4)

models: a share of the networks has complete curves, the others are cut at random steps (some have not begun); the mean
log density of their final validation log-likelihood is told, for much (half complete) and little (a tenth) data.
gpar: networks are complete or not begun, half of them or ten for training, the steps are 1000, 4000 and the last, and
the mean log density of all three values of the others is told, as in the seed.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
import record
from architecture_search import COLUMNS, SETS, load, unit

from presage.design.curves import GPAR, CurveModel, Curves, FreezeThaw, LatentKronecker, PowerLawEnsemble
from presage.design.curves.kronecker import KroneckerModel, Nothing
from presage.experiments.s4 import DOCUMENT, FITTED, NO_YES

EARLIEST = 0.05  # of the training: what is before tells little
MODELS: dict[str, CurveModel] = {
    "latent Kronecker": LatentKronecker(), "without common curve": KroneckerModel(common=Nothing()),
    "freeze-thaw": FreezeThaw(), "GPAR, 3 steps": GPAR(stages=(0.1, 0.4)),
    "GPAR, 6 steps": GPAR(stages=(0.05, 0.1, 0.2, 0.4, 0.7)), "neural power laws": PowerLawEnsemble(),
}  # fmt: skip


def cut(name: str, seed: int, complete: float) -> tuple[Curves, np.ndarray]:
    """A table as a model sees it, and the true final values."""
    table = load(name)
    values = -table["validation_log_likelihood"].astype(float)
    rng = np.random.default_rng([seed, 5])
    n = len(values)
    mine = values[np.arange(n), rng.integers(values.shape[1], size=n)]
    late = table["steps"] >= EARLIEST * table["steps"][-1]
    mine, steps = mine[:, late], table["steps"][late]
    known = rng.integers(0, len(steps), n)
    known[rng.permutation(n)[: max(3, round(complete * n))]] = len(steps)
    seen = np.where(np.arange(len(steps)) < known[:, None], mine, np.nan)
    return Curves(unit(table), steps, seen, COLUMNS), mine[:, -1]


def models(args: argparse.Namespace) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for share in (0.5, 0.1):
        for name in args.sets:
            row: dict[str, Any] = {}
            for label in args.models:
                model = MODELS[label]
                began, found = time.process_time(), []
                for seed in range(args.seeds):
                    curves, ends = cut(name, seed, share)
                    posterior = model.fit(curves, rng=np.random.default_rng(seed)).posterior
                    found.append(float(np.nanmean(posterior.log_density(ends))))
                row[label] = {
                    "log_density": float(np.mean(found)), "error": float(np.std(found, ddof=1) / np.sqrt(len(found))),
                    "seconds": round((time.process_time() - began) / args.seeds, 3),
                }  # fmt: skip
            told[f"{name}, {share:g} complete"] = row
            print(name, share, {label: round(one["log_density"], 3) for label, one in row.items()}, flush=True)
    return told


def gpar(args: argparse.Namespace) -> dict[str, Any]:
    """Half of the networks, or ten of them, against the others, all three steps; by table and set, every choice."""
    told: dict[str, Any] = {}
    for number, (few, choices) in enumerate((few, made) for made in (KERNELS, SETTINGS) for few in (False, True)):
        for name in args.sets:
            table = load(name)
            values = -table["validation_log_likelihood"].astype(float)
            columns = [int(np.argmin(np.abs(table["steps"] - step))) for step in (1000, 4000, table["steps"][-1])]
            found: dict[str, list[float]] = {label: [] for label in choices}
            for seed in range(args.seeds):
                rng = np.random.default_rng([seed, 6])
                n = len(values)
                mine = values[np.arange(n), rng.integers(values.shape[1], size=n)][:, columns]
                train = rng.permutation(n)[: 10 if few else n // 2]
                seen = np.full_like(mine, np.nan)
                seen[train] = mine[train]
                curves = Curves.of(unit(table), table["steps"][columns], seen)
                for label, model in choices.items():
                    posterior = model.fit(curves, rng=np.random.default_rng(seed)).posterior
                    each = [np.nanmean(posterior.log_density(mine[:, j], j)) for j in range(3)]
                    found[label].append(float(np.mean(each)))
            row = {
                label: {"log_density": float(np.mean(each)), "spread": float(np.std(each, ddof=1))}
                for label, each in found.items()
            }
            told.setdefault(f"5.{number + 1}", {})[name] = row
            print(number + 1, name, {label: round(one["log_density"], 3) for label, one in row.items()}, flush=True)
    return told


def kernel(linear_in: bool, linear_out: bool, eq_out: bool) -> tuple[str, GPAR]:
    """A non-linear kernel on the network; linear there, linear and non-linear on earlier outputs, each or not."""
    outputs = ("linear",) * linear_out + ("eq",) * eq_out
    label = " + ".join(["eq(x)", *["linear(x)"] * linear_in, *(f"{kind}(y)" for kind in outputs)])
    return label, GPAR(inputs=("eq", "linear") if linear_in else ("eq",), outputs=outputs)


KERNELS = dict(kernel(a, b, c) for a in NO_YES for b in NO_YES for c in NO_YES)
SETTINGS = {
    f"{'markov 1' if markov else 'all before'}, {'tied' if tied else 'free'}, {'joint' if joint else 'sequential'}":
        GPAR(markov=markov, tied=tied, joint=joint)
    for markov in (None, 1) for tied in NO_YES for joint in NO_YES
}  # fmt: skip


def gpar_markdown(told: dict[str, Any], seeds: int) -> str:
    """The document's four tables: ours, the spread over seeds, and the document's mean in brackets where it has one."""
    lines = []
    for number, sets in told.items():
        half = "half of the networks" if number in ("5.1", "5.3") else "ten networks"
        lines += [f"#### Table {number}: learned from {half}, {seeds} seeds", ""]
        lines += [f"| | {' | '.join(sets)} |", "|---" * (1 + len(sets)) + "|"]
        best = {name: max(one["log_density"] for one in row.values()) for name, row in sets.items()}
        for i, label in enumerate(next(iter(sets.values()))):
            cells = []
            for name, row in sets.items():
                one = row[label]["log_density"]
                text = f"{one:.2f}" if one < best[name] else f"**{one:.2f}**"
                text += f" ± {row[label]['spread']:.2f}"
                if number in DOCUMENT and name in FITTED:
                    text += f" ({DOCUMENT[number][i][FITTED.index(name)]:g})"
                cells.append(text)
            lines.append(f"| {label} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def markdown(title: str, told: dict[str, Any]) -> str:
    """A table whose best column of each row is bold."""
    labels = list(next(iter(told.values())))
    lines = [f"## {title}", "", f"| set | {' | '.join(labels)} |", "|---" * (1 + len(labels)) + "|"]
    for name, row in told.items():
        best = max(one["log_density"] for one in row.values())
        cells = [
            f"**{one['log_density']:.2f}**" if one["log_density"] == best else f"{one['log_density']:.2f}"
            for one in row.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    means = [np.mean([row[label]["log_density"] for row in told.values()]) for label in labels]
    lines.append(f"| mean | {' | '.join(f'{mean:.2f}' for mean in means)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("models", "gpar"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--add", action="store_true", help="keep what is recorded of other sets and models")
    args = parser.parse_args()
    if args.what == "gpar":
        told = gpar(args)
        record.write("gpar", told)
        (record.RESULTS / "gpar.md").write_text(gpar_markdown(told, args.seeds))
        return
    told = models(args)
    path = record.RESULTS / "curve_models.json"
    if args.add and path.exists():
        known = json.loads(path.read_text())["result"]
        told = {name: known.get(name, {}) | told.get(name, {}) for name in {**known, **told}}
    record.write("curve_models", told)
    title = f"Mean log density of held-out values, `python benchmarks/curve_models.py models`, {args.seeds} seeds"
    (record.RESULTS / "curve_models.md").write_text(markdown(title, dict(sorted(told.items()))))


if __name__ == "__main__":
    main()
