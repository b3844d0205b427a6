"""S4's studies of variational networks with several seeds: width, prior, first noise, amount of data, pruning.

    PYTHONPATH=src python benchmarks/s4_studies.py run --data FOLDER         # s4_studies.json; one GPU, 3 minutes
    PYTHONPATH=src python benchmarks/s4_studies.py run --data FOLDER --out OTHER --quick
    PYTHONPATH=src python benchmarks/s4_studies.py plot                      # docs/figures/s4_*.png, and the trends

5.1 two hidden layers, fixed prior: hidden width, prior width (a standard deviation), initial noise variance. 5.2 a
network of two layers of 20 on 0.1 to 10 times the rows, drawn without replacement or repeated. 5.3 two layers,
hyperprior: units that stay active, and the loss of accuracy when the others are cut off. All networks of 5.1 and 5.2
are one program.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import device  # before jax: it sets flags
import jax
import numpy as np
from curves import split

from presage.networks.datasets import load
from presage.networks.pruning import active_units, pruned, unit_activity
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational

HERE = Path(__file__).parent
SETS = ("boston_housing", "concrete", "energy", "wine_quality_red")
SEEDS, BATCH = 5, 256
CHECKPOINTS = (250, 500, 1000, 2000, 4000, 8000, 12_000)
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
PRIORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
NOISES = (0.001, 0.01, 0.1, 1.0)
FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def designs() -> list[dict[str, Any]]:
    """What is trained for 5.1 and 5.2."""
    usual = {"width": 20, "prior": 1.0, "noise": 0.1, "factor": 1.0}
    found = [{**usual, "study": "width", "width": w, "prior": p} for p in (0.3, 1.0, 3.0) for w in WIDTHS]
    found += [{**usual, "study": "prior", "width": w, "prior": p} for w in (8, 32) for p in PRIORS]
    found += [{**usual, "study": "noise", "noise": n} for n in NOISES]
    return found + [{**usual, "study": "data", "factor": f} for f in FACTORS]


def amount(rows: np.ndarray, factor: float, rng: np.random.Generator) -> np.ndarray:
    """Fewer rows, or rows repeated."""
    if factor < 1.0:
        return rng.choice(rows, max(2, round(factor * len(rows))), replace=False)
    return np.tile(rows, round(factor))


def fixed_prior(name: str, folder: str, quick: bool) -> list[dict[str, Any]]:
    """Curves of all designs of 5.1 and 5.2 on one set."""
    data = load(name, folder)
    train, validation, _ = split(data)
    each = [{**design, "seed": seed} for design in designs() for seed in range(SEEDS)]
    checkpoints = CHECKPOINTS
    if quick:
        each, checkpoints = each[:: 8 * SEEDS], (10, 20)
    family = Variational(hyperprior=None, samples=2 if quick else 10)
    training = Training(batch=16 if quick else BATCH, chunk=checkpoints[0])
    rows = [amount(train, one["factor"], np.random.default_rng(one["seed"])) for one in each]
    networks = describe(
        family, [(one["width"],) * 2 for one in each], Table(data.x, data.y), rows, seeds=[one["seed"] for one in each],
        prior_variance=[one["prior"] ** 2 for one in each], initial_noise=[one["noise"] for one in each],
    )  # fmt: skip
    cohort = Cohort.new(family, training, networks, Table(data.x, data.y))
    both = np.broadcast_to(np.append(validation, train[:1000]), (len(each), len(validation) + len(train[:1000])))
    for one in each:
        one |= {"steps": list(checkpoints), "validation": [], "train": [], "rmse": []}
    for step in checkpoints:
        log_density, error = cohort.advance(step).foretell(both, samples=10 if quick else 100)
        cut = len(validation)
        for i, one in enumerate(each):
            one["validation"].append(round(float(log_density[i, :cut].mean()), 4))
            one["train"].append(round(float(log_density[i, cut:].mean()), 4))
            one["rmse"].append(round(float(np.sqrt((error[i, :cut] ** 2).mean())), 4))
    return each


def pruning(name: str, folder: str, quick: bool) -> list[dict[str, Any]]:
    """5.3: active units, and validation log-likelihood before and after the others are cut off."""
    data = load(name, folder)
    train, validation, _ = split(data)
    widths = (4, 8) if quick else (4, 8, 16, 32, 64, 100)
    each = [(width, seed) for width in widths for seed in range(1 if quick else SEEDS)]
    family = Variational(samples=2 if quick else 10)
    training = Training(batch=16 if quick else BATCH, chunk=10 if quick else 250)
    networks = describe(
        family, [(width,) * 2 for width, _ in each], Table(data.x, data.y), [train] * len(each),
        seeds=[seed for _, seed in each],
    )  # fmt: skip
    cohort = Cohort.new(family, training, networks, Table(data.x, data.y)).advance(20 if quick else CHECKPOINTS[-1])
    rows = [validation] * len(each)
    before, rmse = cohort.evaluate(rows)
    small = pruned(cohort)
    after, rmse_after = small.evaluate(rows)
    active, kept = active_units(cohort), np.asarray(small.networks.widths)
    activity = np.asarray(unit_activity(family, cohort.shape, cohort.networks, cohort.state.params))
    return [
        {
            "width": width, "seed": seed, "active": active[i].tolist(), "kept": kept[i].tolist(),
            "log_likelihood": [round(float(before[i]), 4), round(float(after[i]), 4)],
            "rmse": [round(float(rmse[i]), 4), round(float(rmse_after[i]), 4)],
            "activity": [[round(float(a), 4) for a in layer[:width]] for layer in activity[i]] if seed == 0 else None,
        }
        for i, (width, seed) in enumerate(each)
    ]  # fmt: skip


def run(args: argparse.Namespace) -> None:
    began = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    results = device.about("s4_studies", "run --data FOLDER", *["--quick"] * args.quick) | {
        "seeds": SEEDS,
        "batch": BATCH,
        "sets": {},
    }
    for name in args.sets:
        results["sets"][name] = {"designs": fixed_prior(name, args.data, args.quick)}
        print(f"{time.perf_counter() - began:6.1f} s  {name}: 5.1 and 5.2", flush=True)
        results["sets"][name]["pruning"] = pruning(name, args.data, args.quick)
        print(f"{time.perf_counter() - began:6.1f} s  {name}: 5.3", flush=True)
        (args.out / "s4_studies.json").write_text(json.dumps(results) + "\n")
        jax.clear_caches()


def series(designs: list[dict[str, Any]], study: str, key: str, measure: str = "validation", **fixed: float) -> tuple:
    """Values of a setting, and mean and standard error over seeds of the last value of a measure."""
    mine = [d for d in designs if d["study"] == study and all(d[name] == value for name, value in fixed.items())]
    at = sorted({d[key] for d in mine})
    ends = [np.array([d[measure][-1] for d in mine if d[key] == value]) for value in at]
    return at, [e.mean() for e in ends], [e.std(ddof=1) / np.sqrt(len(e)) if len(e) > 1 else 0.0 for e in ends]


def plot(args: argparse.Namespace) -> None:
    """Figures, and one line per trend and set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = json.loads((args.out / "s4_studies.json").read_text())["sets"]
    figures = HERE.parent / "docs" / "figures"
    figures.mkdir(parents=True, exist_ok=True)

    def panels(file: str, draw: Any, label: str, what: str = "validation log-likelihood") -> None:
        figure, axes = plt.subplots(1, len(sets), figsize=(3.2 * len(sets), 2.8), squeeze=False)
        for axis, (name, found) in zip(axes[0], sets.items(), strict=True):
            draw(axis, found)
            axis.set(title=name, xlabel=label)
            if "likelihood" in what:  # what fails altogether would flatten the rest
                best = max(np.max(line.get_ydata()) for line in axis.lines)
                axis.set_ylim(max(axis.get_ylim()[0], best - 3.0))
            axis.legend(fontsize=6)
        axes[0, 0].set_ylabel(what)
        figure.tight_layout()
        figure.savefig(figures / file, dpi=80)
        plt.close(figure)

    def by(study: str, key: str, lines: list[tuple[str, dict]]) -> Any:
        def draw(axis: Any, found: dict) -> None:
            for label, fixed in lines:
                axis.errorbar(*series(found["designs"], study, key, **fixed), marker=".", label=label)
            axis.set_xscale("log")

        return draw

    def data_amount(axis: Any, found: dict) -> None:
        for measure in ("validation", "train"):
            axis.errorbar(*series(found["designs"], "data", "factor", measure), marker=".", label=measure)
        axis.set_xscale("log")

    def noise(axis: Any, found: dict) -> None:
        for value in NOISES:
            mine = [d for d in found["designs"] if d["study"] == "noise" and d["noise"] == value]
            axis.plot(mine[0]["steps"], np.mean([d["validation"] for d in mine], axis=0), marker=".", label=f"{value}")
        axis.set_xscale("log")

    def units(axis: Any, found: dict) -> None:
        widths = sorted({p["width"] for p in found["pruning"]})
        for layer in range(2):
            counts = [[p["active"][layer] for p in found["pruning"] if p["width"] == w] for w in widths]
            axis.errorbar(widths, np.mean(counts, 1), np.std(counts, 1), marker=".", label=f"active, layer {layer + 1}")
        axis.plot(widths, widths, color="grey", linewidth=0.5, label="available")
        axis.set_ylim(0, 20)

    panels(
        "s4_width.png", by("width", "width", [(f"prior {p}", {"prior": p}) for p in (0.3, 1.0, 3.0)]), "hidden width"
    )
    panels("s4_prior.png", by("prior", "prior", [(f"width {w}", {"width": w}) for w in (8, 32)]), "prior width")
    panels("s4_noise.png", noise, "steps, by first noise variance")
    panels("s4_data.png", data_amount, "amount of data", "log-likelihood")
    panels("s4_pruning.png", units, "hidden width", "units")
    print("\n".join(trends(sets)))


def trends(sets: dict[str, Any]) -> list[str]:
    """What S4 says about each study, set by set, as lines of numbers."""
    lines = []
    for name, found in sets.items():
        designs = found["designs"]
        for study, key, measure, fixed in (
            ("width", "width", "validation", {"prior": 1.0}), ("prior", "prior", "validation", {"width": 32}),
            ("noise", "noise", "validation", {}), ("data", "factor", "validation", {}), ("data", "factor", "train", {}),
        ):  # fmt: skip
            at, mean, error = series(designs, study, key, measure, **fixed)
            line = "  ".join(f"{a:g}: {m:.3f}+-{e:.3f}" for a, m, e in zip(at, mean, error, strict=True))
            lines.append(f"{name:17s} {study:6s} {measure:10s} {line}")
        # S4: with little data the validation likelihood reaches its best and is then pushed off.
        for factor in FACTORS:
            curves = np.mean(
                [d["validation"] for d in designs if (d["study"], d["factor"]) == ("data", factor)], axis=0
            )
            lines.append(f"{name:17s} data {factor:g}: best {curves.max():.3f}, last {curves[-1]:.3f}")
        for width in sorted({p["width"] for p in found["pruning"]}):
            mine = [p for p in found["pruning"] if p["width"] == width]
            active, both = (np.mean([p[key] for p in mine], axis=0) for key in ("active", "log_likelihood"))
            lost = np.array([p["log_likelihood"][0] - p["log_likelihood"][1] for p in mine])
            lines.append(
                f"{name:17s} pruning {width:3d}: active {active[0]:.1f} and {active[1]:.1f}, likelihood {both[0]:.3f}, "
                f"lost when cut {lost.mean():.4f}, at most {lost.max():.4f}"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "plot"))
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.action == "run" and args.data is None:
        parser.error("run needs --data, the folder of the UCI sets")
    (run if args.action == "run" else plot)(args)


if __name__ == "__main__":
    main()
