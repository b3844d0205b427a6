"""Learning curves of variational networks over S4's grid of architectures: a tabular benchmark for architecture search.

    PYTHONPATH=src python benchmarks/curves.py --data FOLDER                          # one GPU, 12 minutes
    PYTHONPATH=src python benchmarks/curves.py --data FOLDER --out OTHER --quick      # a few steps on a CPU

Depth 1 to 3, all hidden layers equally wide, inverse-gamma hyperprior, Adam 1e-3. Of the training rows of standard
split 0 a fifth is for validation. Every network has the same rows and several seeds. A set's networks take as many
steps, up to 50,000, as its share of the time allows. A checkpoint is the mean over the last evaluations before it.

Each set gives SET.npz with the arrays (a: architectures, s: seeds, c: checkpoints)
    depth, width [a]; steps [c]; validation_log_likelihood, validation_rmse, test_log_likelihood, test_rmse [a, s, c];
    active [a, s, 3], units of each layer whose incoming weights have a mean KL above 0.3 (first layer) or 0.1;
    seconds_per_step, flops_per_step [a], of one network; about, a JSON text.
"""

import argparse
import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import device  # before jax: it sets flags
import jax
import numpy as np

from presage.experiments.s4_studies import split
from presage.networks.datasets import load
from presage.networks.mlp import groups
from presage.networks.pruning import active_units
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational

CHECKPOINTS = (50, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1200, 1500, 2000, 2500, 3000, 4000, 5000, 6000,
               7000, 8000, 10_000, 12_000, 14_000, 16_000, 18_000, 20_000, 25_000, 30_000, 35_000, 40_000,
               50_000)  # fmt: skip
CHUNK = 50
EVALUATIONS = 4  # before each checkpoint from step 1000 on, 50 steps apart
LEAST = 8000  # steps, whatever the time: twenty checkpoints
WIDTHS = {
    "kin8nm": (1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 60, 80, 100, 150, 200),
    "protein": (10, 25, 50, 75, 100, 150, 200, 300, 450, 600),
}
USUAL = (*range(1, 11), *range(15, 101, 5))


class Plan(NamedTuple):
    """Seeds of each network, samples in training, most rows of a batch, share of the time."""

    seeds: int = 3
    samples: int = 5
    batch: int = 500
    share: float = 1.0


PLANS = {
    "yacht": Plan(), "boston_housing": Plan(), "energy": Plan(), "concrete": Plan(), "wine_quality_red": Plan(),
    "power_plant": Plan(), "kin8nm": Plan(), "protein": Plan(seeds=2, samples=4, share=1.3),
}  # fmt: skip


def grid(name: str) -> list[tuple[int, ...]]:
    """S4's architectures for a set."""
    return [(width,) * depth for depth in (1, 2, 3) for width in WIDTHS.get(name, USUAL)]


def flops(architecture: tuple[int, ...], inputs: int, rows: int, samples: int) -> float:
    """Floating-point operations of the matrix products of one step: two per layer forwards, four backwards, 2 each."""
    products = rows * inputs * architecture[0]  # the first layer sees the same inputs in all samples
    for before, after in zip(architecture, (*architecture[1:], 1), strict=True):
        products += samples * rows * before * after
    return 2.0 * 6.0 * products


class Prepared(NamedTuple):
    """The cohorts of a set, which architectures each holds, and the rows for validation and test."""

    cohorts: list[Cohort]
    members: list[list[int]]
    architectures: list[tuple[int, ...]]
    validation: np.ndarray
    test: np.ndarray
    train: np.ndarray


def prepare(name: str, folder: str, quick: bool, compile_in: ThreadPoolExecutor) -> Prepared:
    """Networks of a set; the slow part, compilation, runs in threads."""
    data, plan = load(name, folder), PLANS[name]
    architectures = [a for a in grid(name) if a[0] in (2, 10) and len(a) < 3] if quick else grid(name)
    seeds = range(2 if quick else plan.seeds)
    train, validation, test = split(data)
    batch = None if len(train) <= plan.batch else plan.batch
    family, training = Variational(samples=2 if quick else plan.samples), Training(batch=batch, chunk=CHUNK)
    table = Table(data.x, data.y)
    members = groups(architectures, programs=1 if quick else 2)

    def make(mine: list[int]) -> Cohort:
        each = [(i, seed) for i in mine for seed in seeds]
        networks = describe(
            family, [architectures[i] for i, _ in each], table, [train] * len(each),
            seeds=[1000 * i + seed for i, seed in each],
        )  # fmt: skip
        cohort = Cohort.new(family, training, networks, table).compile()
        evaluate(cohort, validation, test, quick)  # compiles it
        return cohort

    return Prepared(list(compile_in.map(make, members)), members, architectures, validation, test, train)


def evaluate(cohort: Cohort, validation: np.ndarray, test: np.ndarray, quick: bool, salt: int = 0) -> np.ndarray:
    """Log-likelihood and RMSE on both sets of rows, [4, networks]."""
    rows = np.broadcast_to(np.append(validation, test), (len(cohort.networks.sizes), len(validation) + len(test)))
    log_density, error = cohort.foretell(rows, samples=10 if quick else 100, salt=salt)
    parts = slice(0, len(validation)), slice(len(validation), None)
    return np.array(
        [f for part in parts for f in (log_density[:, part].mean(axis=1), np.sqrt((error[:, part] ** 2).mean(axis=1)))]
    )


def run(name: str, made: Prepared, seconds: float, quick: bool) -> dict[str, np.ndarray]:
    """Train all networks of a set from checkpoint to checkpoint, for about so long, and gather their curves."""
    began = time.perf_counter()
    seeds = len(made.cohorts[0].networks.sizes) // len(made.members[0])
    metrics = np.zeros((4, len(made.architectures), seeds, len(CHECKPOINTS)))
    trained, steps = np.zeros(len(made.cohorts)), []
    for c, step in enumerate(CHECKPOINTS):
        before = steps[-1] if steps else 0
        spent = time.perf_counter() - began
        # The next stretch is taken to last, step for step, as long as all before it.
        if before >= (100 if quick else LEAST) and (quick or spent * step / before > seconds):
            break
        count = EVALUATIONS if step >= 1000 else 1
        looks = [look for look in range(step - (count - 1) * CHUNK, step + 1, CHUNK) if look > before]
        for i, (cohort, mine) in enumerate(zip(made.cohorts, made.members, strict=True)):
            found = []
            for look in looks:
                start = time.perf_counter()
                jax.block_until_ready(cohort.advance(look).state)
                trained[i] += time.perf_counter() - start
                found.append(evaluate(cohort, made.validation, made.test, quick, salt=look))
            metrics[..., c][:, mine] = np.mean(found, axis=0).reshape(4, len(mine), seeds)
        steps.append(step)
    metrics, speeds = metrics[..., : len(steps)], trained / steps[-1]
    active = np.zeros((len(made.architectures), seeds, 3), dtype=np.int16)
    for cohort, mine in zip(made.cohorts, made.members, strict=True):
        counts = active_units(cohort)
        active[mine, :, : counts.shape[1]] = counts.reshape(len(mine), seeds, -1)
    plan, first = PLANS[name], made.cohorts[0]
    alone = np.zeros(len(made.architectures))
    for mine, speed in zip(made.members, speeds, strict=True):
        alone[mine] = speed / (len(mine) * seeds)
    took = time.perf_counter() - began
    final = metrics[0, ..., -1].mean(axis=1)
    best = int(final.argmax())
    print(
        f"  {name}: {len(alone)} architectures x {seeds} seeds, {steps[-1]} steps in {took:.1f} s; best validation "
        f"log-likelihood {final[best]:.3f} by {made.architectures[best]}, worst {final.min():.3f}", flush=True,
    )  # fmt: skip
    rows = len(made.train) if first.training.batch is None else first.training.batch
    inputs = first.shape.inputs
    text = device.about("curves", "--data FOLDER") | {
        "set": name, "train": len(made.train), "validation": len(made.validation), "test": len(made.test), "rows": rows,
        "samples": first.family.samples, "seconds": round(took, 1), "plan": plan._asdict(),
        "evaluations": EVALUATIONS, "evaluation_samples": 10 if quick else 100,
    }  # fmt: skip
    names = ("validation_log_likelihood", "validation_rmse", "test_log_likelihood", "test_rmse")
    return {
        "depth": np.array([len(a) for a in made.architectures]), "width": np.array([a[0] for a in made.architectures]),
        "steps": np.array(steps), "active": active, "seconds_per_step": alone.astype(np.float32),
        "flops_per_step": np.array([flops(a, inputs, rows, first.family.samples) for a in made.architectures]),
        **{n: m.round(4).astype(np.float32) for n, m in zip(names, metrics, strict=True)},
        "about": np.array(json.dumps(text)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "curves")
    parser.add_argument("--sets", nargs="*", default=list(PLANS))
    parser.add_argument("--seconds", type=float, default=690.0, help="for all sets together")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    began = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1 if args.quick else 6) as compilers, ThreadPoolExecutor(1) as ahead:
        # One set is compiled while the one before it is trained.
        coming: Future[Prepared] = ahead.submit(prepare, args.sets[0], args.data, args.quick, compilers)
        for number, name in enumerate(args.sets):
            made = coming.result()
            if number + 1 < len(args.sets):
                coming = ahead.submit(prepare, args.sets[number + 1], args.data, args.quick, compilers)
            left = args.seconds - (time.perf_counter() - began)
            shares = [PLANS[other].share for other in args.sets[number:]]
            print(f"{time.perf_counter() - began:6.1f} s  {name}: {len(made.members)} programs ready", flush=True)
            table = run(name, made, left * shares[0] / sum(shares), args.quick)
            np.savez_compressed(args.out / f"{name}.npz", allow_pickle=False, **table)


if __name__ == "__main__":
    main()
