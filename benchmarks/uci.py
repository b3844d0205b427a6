"""Variational networks on the UCI regression sets: test log-likelihood and RMSE over the standard splits.

    PYTHONPATH=src python benchmarks/uci.py --data FOLDER                           # uci.json; one GPU, 6 minutes
    PYTHONPATH=src python benchmarks/uci.py --data FOLDER --out OTHER --quick       # a few steps on a CPU

One hidden layer of 50 units (100 for protein), all splits of a set trained in one program, with a learned noise and
with a second head for its variance. FOLDER holds one folder per set (presage.networks.datasets).
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import device  # before jax: it sets flags
import jax
import numpy as np

from presage.networks.datasets import SOURCES, load
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational

# Published means of the test log-likelihood (Wu et al., 2019): deterministic and Monte Carlo mean-field inference.
DVI = {"boston_housing": -2.41, "concrete": -3.06, "energy": -1.01, "kin8nm": 1.13, "power_plant": -2.80,
       "protein": -2.85, "wine_quality_red": -0.90, "yacht": -0.47}  # fmt: skip
MEAN_FIELD = {"boston_housing": -2.46, "concrete": -3.07, "energy": -1.03, "kin8nm": 1.14, "power_plant": -2.80,
              "protein": -2.87, "wine_quality_red": -0.92, "yacht": -0.68}  # fmt: skip
# Steps and rows of a minibatch (None: all rows). Small noise-free sets need many steps; large ones have many rows.
PLAN = {"yacht": (30_000, None), "boston_housing": (10_000, None), "energy": (30_000, None), "concrete": (20_000, None),
        "wine_quality_red": (6_000, 1000), "kin8nm": (30_000, 1000), "power_plant": (20_000, 1000),
        "protein": (30_000, 2000)}  # fmt: skip
RATE = 1e-2  # falls to 0 along a cosine


def cohort(name: str, folder: str, heteroskedastic: bool, quick: bool) -> tuple[Cohort, list[np.ndarray], int]:
    """All splits of a set as networks of one program, the rows to test each on, and the steps to take."""
    data = load(name, folder)
    splits = data.splits[:2] if quick else data.splits
    steps, batch = (20, 64) if quick else PLAN[name]
    family = Variational(heteroskedastic=heteroskedastic, head_delay=steps // 2, samples=2 if quick else 10)
    training = Training(rate=RATE, decay=steps, batch=batch, chunk=10 if quick else 250)
    table = Table(data.x, data.y)
    width = 100 if name == "protein" else 50
    networks = describe(family, [(width,)] * len(splits), table, [s[0] for s in splits], seeds=range(len(splits)))
    return Cohort.new(family, training, networks, table), [s[1] for s in splits], steps


def summary(values: np.ndarray) -> dict:
    """Mean, standard error, and all values."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return {"mean": float(values.mean()), "stderr": float(error), "all": [round(float(v), 4) for v in values]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--sets", nargs="*", default=list(PLAN))
    parser.add_argument("--seconds", type=float, default=420.0, help="begin no further set after so long")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    began = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict = device.about("uci", *["--quick"] * args.quick) | {
        "plan": {name: {"steps": PLAN[name][0], "batch": PLAN[name][1]} for name in args.sets}, "rate": RATE,
        "published": {"dvi": DVI, "mean_field": MEAN_FIELD}, "sets": {},
    }  # fmt: skip
    work = [(name, heteroskedastic) for name in args.sets for heteroskedastic in (False, True)]
    assert set(args.sets) <= set(SOURCES)

    def prepare(item: tuple[str, bool]) -> tuple[Cohort, list[np.ndarray], int]:
        made, test, steps = cohort(item[0], args.data, item[1], args.quick)
        return made.compile(), test, steps

    # Programs are compiled by other threads while the device trains the networks before them.
    with ThreadPoolExecutor(2 if args.quick else 6) as pool:
        futures = [pool.submit(prepare, item) for item in work]
        for (name, heteroskedastic), future in zip(work, futures, strict=True):
            if time.perf_counter() - began > args.seconds:
                print(f"{name}: no time left", flush=True)
                future.cancel()
                continue
            made, test, steps = future.result()
            start = time.perf_counter()
            made.advance(steps)
            jax.block_until_ready(made.state)
            seconds = time.perf_counter() - start
            log_density, rmse = made.evaluate(test, samples=10 if args.quick else 100)
            head = "heteroskedastic" if heteroskedastic else "homoskedastic"
            entry = results["sets"].setdefault(name, {})
            entry[head] = {"log_likelihood": summary(log_density), "rmse": summary(rmse), "seconds": round(seconds, 2)}
            print(
                f"{time.perf_counter() - began:6.1f} s  {name:17s} {head:16s} LL {log_density.mean():7.3f} "
                f"+- {summary(log_density)['stderr']:.3f} (mean field {MEAN_FIELD[name]}, DVI {DVI[name]})  "
                f"RMSE {rmse.mean():.3f}  {steps} steps in {seconds:.1f} s",
                flush=True,
            )
            (args.out / "uci.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
