"""Variational networks on the UCI regression sets: test log-likelihood and RMSE over the standard splits.

    PYTHONPATH=src python benchmarks/uci.py choose --data FOLDER        # uci_choice.json; one GPU, 8 minutes
    PYTHONPATH=src python benchmarks/uci.py run --data FOLDER           # uci.json, with what was chosen; 6 minutes
    ... --out OTHER --quick                                             # a few steps on a CPU
    PYTHONPATH=src python benchmarks/uci.py table

One hidden layer of 50 units (100 for protein), all splits and seeds of a set trained in one program. The noise is one
normal law, one Student law, or normal with a variance that a second head gives. For each set and noise `choose` trains
all candidates (activation, number of steps) on nine tenths of the training rows and keeps the one under which
the other tenth is most probable; test rows are seen by `run` only, once. FOLDER holds one folder per set
(presage.networks.datasets).
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import device  # before jax: it sets flags
import jax
import numpy as np
from scipy.special import logsumexp

from presage.networks.datasets import load
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational

# Published means of the test log-likelihood (Wu et al., 2019): deterministic and Monte Carlo mean-field inference, both
# with a second head for the variance of the noise.
DVI = {"boston_housing": -2.41, "concrete": -3.06, "energy": -1.01, "kin8nm": 1.13, "power_plant": -2.80,
       "protein": -2.85, "wine_quality_red": -0.90, "yacht": -0.47}  # fmt: skip
MEAN_FIELD = {"boston_housing": -2.46, "concrete": -3.07, "energy": -1.03, "kin8nm": 1.14, "power_plant": -2.80,
              "protein": -2.87, "wine_quality_red": -0.92, "yacht": -0.68}  # fmt: skip
# Most steps, and rows of a minibatch (None: all rows).
PLAN = {"yacht": (12_000, None), "boston_housing": (8_000, None), "energy": (12_000, None), "concrete": (12_000, None),
        "wine_quality_red": (8_000, 1000), "kin8nm": (16_000, 1000), "power_plant": (12_000, 1000),
        "protein": (12_000, 2000)}  # fmt: skip
NOISES: dict[str, dict[str, Any]] = {"normal": {}, "student": {"tails": True}, "second head": {"heteroskedastic": True}}
# A prior variance for each weight instead of each layer was a candidate too, and never the best: uci_choice.json.
CANDIDATES = [
    {"activation": activation, "share": share}  # of the most steps
    for activation, share in product(("relu", "silu"), (1.0, 0.125))
]
RATE = 1e-2  # falls to 0 along a cosine
SEEDS = 3
RESULTS = Path(__file__).parent / "results"


def cohort(
    name: str, rows: list[np.ndarray], table: Table, noise: str, candidate: dict[str, Any], samples: int, quick: bool
) -> tuple[Cohort, int]:
    """Networks of one program, one for each list of rows, and the steps to take."""
    most, batch = (40, 64) if quick else PLAN[name]
    steps = int(most * candidate["share"])
    family = Variational(
        candidate["activation"], samples=2 if quick else samples, initial_stddev=1e-3, head_delay=steps // 5,
        **NOISES[noise],
    )  # fmt: skip
    training = Training(rate=RATE, decay=steps, batch=batch, chunk=5 if quick else 250)
    widths = (100 if name == "protein" else 50,)
    networks = describe(family, [widths] * len(rows), table, rows, seeds=range(len(rows)))
    return Cohort.new(family, training, networks, table), steps


def foretold(
    work: list[Any], make: Callable[[Any], tuple[Cohort, int]], rows: Callable[[Any], np.ndarray],
    args: argparse.Namespace, until: float,
) -> Iterator[tuple[Any, int, float, np.ndarray, np.ndarray]]:  # fmt: skip
    """Items of work with steps and seconds of their training, log density and error of each row, [networks, m].

    Programs are compiled by other threads while the device trains.
    """
    samples = 10 if args.quick else 100

    def compiled(item: Any) -> tuple[Cohort, int] | None:
        if time.perf_counter() > until:
            return None
        made, steps = make(item)
        made.compile().foretell(rows(item), samples)  # of untrained networks, for the compilation
        return made, steps

    with ThreadPoolExecutor(args.threads) as pool:
        futures = [pool.submit(compiled, item) for item in work]
        for number, item in enumerate(work):
            ready = futures[number].result()
            futures[number] = None  # type: ignore[call-overload]  # networks are large
            if ready is None or time.perf_counter() > until:
                print(f"{item}: no time left", flush=True)
                continue
            made, steps = ready
            began = time.perf_counter()
            jax.block_until_ready(made.advance(steps).state)
            seconds = time.perf_counter() - began
            yield item, steps, seconds, *made.foretell(rows(item), samples)


def choose(args: argparse.Namespace, until: float) -> None:
    """Held-out log-likelihood of every candidate, and the best for each set and noise."""
    results = about(args) | {"held_out": "a tenth of the training rows of each split", "sets": recorded(args.choice)}
    data = {name: load(name, args.data) for name in args.sets}
    candidates = CANDIDATES[:1] if args.quick else CANDIDATES
    parts = {}
    for name in args.sets:
        # Half of the splits, fewer of large sets, and 5 samples instead of 10: there are many candidates.
        shuffled = [np.random.default_rng(i).permutation(train) for i, (train, _) in enumerate(data[name].splits)]
        some = shuffled[: 2 if args.quick else 10 if len(data[name].y) < 2000 else 4]
        parts[name] = [(rows[len(rows) // 10 :], rows[: len(rows) // 10][:1000]) for rows in some]
    work = list(product(args.sets, args.noises, candidates))

    def make(item: tuple[str, str, dict[str, Any]]) -> tuple[Cohort, int]:
        name, noise, candidate = item
        table = Table(data[name].x, data[name].y)
        return cohort(name, [rows for rows, _ in parts[name]], table, noise, candidate, 5, args.quick)

    def held_out(item: tuple[str, str, dict[str, Any]]) -> np.ndarray:
        return np.array([rows for _, rows in parts[item[0]]])

    for item, steps, seconds, log_density, error in foretold(work, make, held_out, args, until):
        name, noise, candidate = item
        each = log_density.mean(axis=1)
        entry = candidate | {
            "steps": steps, "log_likelihood": float(each.mean()),
            "stderr": float(each.std(ddof=1) / np.sqrt(len(each))),
            "rmse": float(np.sqrt((error**2).mean(axis=1)).mean()),
        }  # fmt: skip
        found = results["sets"].setdefault(name, {}).setdefault(noise, {"candidates": []})
        others = [one for one in found["candidates"] if any(one.get(key) != candidate[key] for key in candidate)]
        found["candidates"] = [*others, entry]
        finite = [one for one in found["candidates"] if np.isfinite(one["log_likelihood"])]
        found["best"] = max(finite, key=lambda one: one["log_likelihood"], default=entry)
        print(name, noise, {k: round(v, 3) if isinstance(v, float) else v for k, v in entry.items()},
              f"{seconds:.1f} s", flush=True)  # fmt: skip
        (args.out / "uci_choice.json").write_text(json.dumps(results, indent=1) + "\n")


def run(args: argparse.Namespace, until: float) -> None:
    """Test log-likelihood and RMSE of what was chosen: of single networks, and of the mixture of all seeds."""
    chosen = recorded(args.choice)
    results = about(args) | {"seeds": SEEDS, "published": {"dvi": DVI, "mean_field": MEAN_FIELD}}
    results["sets"] = recorded(RESULTS / "uci.json")
    data = {name: load(name, args.data) for name in args.sets}
    splits = {name: data[name].splits[: 2 if args.quick else None] for name in args.sets}
    work = list(product(args.sets, args.noises))

    def candidate(name: str, noise: str) -> dict[str, Any]:
        return chosen[name][noise]["best"] if noise in chosen.get(name, {}) else CANDIDATES[0]

    def make(item: tuple[str, str]) -> tuple[Cohort, int]:
        rows, table = [train for train, _ in splits[item[0]]] * SEEDS, Table(data[item[0]].x, data[item[0]].y)
        return cohort(item[0], rows, table, item[1], candidate(*item), 10, args.quick)

    def test(item: tuple[str, str]) -> np.ndarray:
        return np.array([rows for _, rows in splits[item[0]]] * SEEDS)

    for (name, noise), steps, seconds, *found in foretold(work, make, test, args, until):
        log_density, error = (each.reshape(SEEDS, len(splits[name]), -1) for each in found)
        mixture = logsumexp(log_density, axis=0) - np.log(SEEDS)
        one, both = [
            {"log_likelihood": summary(density.mean(axis=1)), "rmse": summary(np.sqrt((wrong**2).mean(axis=1)))}
            for density, wrong in ((log_density[0], error[0]), (mixture, error.mean(axis=0)))
        ]
        taken = {"activation": candidate(name, noise)["activation"], "steps": steps}
        entry = {"chosen": taken, "single": one, "mixture": both, "seconds": round(seconds, 2)}
        results["sets"].setdefault(name, {})[noise] = entry
        print(
            f"{name:17s} {noise:12s} LL {one['log_likelihood']['mean']:7.3f} +- {one['log_likelihood']['stderr']:.3f}, "
            f"mixture {both['log_likelihood']['mean']:7.3f} (mean field {MEAN_FIELD[name]}, DVI {DVI[name]})  RMSE "
            f"{one['rmse']['mean']:.3f}, {both['rmse']['mean']:.3f}  {taken} {seconds:.1f} s", flush=True,
        )  # fmt: skip
        (args.out / "uci.json").write_text(json.dumps(results, indent=1) + "\n")


def table(args: argparse.Namespace, _: float) -> None:
    """What is recorded, as Markdown: of one network and of the mixture, next to the published columns."""
    noises = [noise for noise in NOISES if any(noise in found for found in recorded(args.out / "uci.json").values())]
    print("| set | mean field | DVI |" + "".join(f" {noise} | three |" for noise in noises) + " RMSE |")
    print("|---|" + "---|" * (3 + 2 * len(noises)))
    for name, found in recorded(args.out / "uci.json").items():
        cells = [f"{MEAN_FIELD[name]:.2f}", f"{DVI[name]:.2f}"]
        for noise in noises:
            cells += [f"{found[noise][kind]['log_likelihood']['mean']:.2f}" for kind in ("single", "mixture")]
        print(f"| {name} | " + " | ".join([*cells, f"{found['normal']['single']['rmse']['mean']:.3g}"]) + " |")


def about(args: argparse.Namespace) -> dict[str, Any]:
    """Command, versions, machine and plan."""
    plan = {name: {"most_steps": PLAN[name][0], "batch": PLAN[name][1]} for name in args.sets}
    return device.about("uci", args.action, "--data FOLDER", *["--quick"] * args.quick) | {"plan": plan, "rate": RATE}


def recorded(path: Path) -> dict[str, Any]:
    """What is known of each set; what is run anew takes its place."""
    return json.loads(path.read_text())["sets"] if path.exists() else {}


def summary(values: np.ndarray) -> dict[str, Any]:
    """Mean, standard error, and all values."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return {"mean": float(np.mean(values)), "stderr": float(error), "all": [round(float(v), 4) for v in values]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("choose", "run", "table"))
    parser.add_argument("--data", default="")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--choice", type=Path, default=RESULTS / "uci_choice.json", help="what `choose` wrote")
    parser.add_argument("--noises", nargs="*", default=list(NOISES), choices=list(NOISES))
    parser.add_argument("--sets", nargs="*", default=list(PLAN), choices=list(PLAN))
    parser.add_argument("--seconds", type=float, default=480.0, help="begin no further networks after so long")
    parser.add_argument("--threads", type=int, default=8, help="that compile")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    until = time.perf_counter() + args.seconds
    args.out.mkdir(parents=True, exist_ok=True)
    {"choose": choose, "run": run, "table": table}[args.action](args, until)


if __name__ == "__main__":
    main()
