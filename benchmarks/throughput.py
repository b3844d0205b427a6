"""S4's grid on Boston, 84 variational networks for 50,000 steps: seconds on one GPU, and the share of its ceiling.

    PYTHONPATH=src python benchmarks/throughput.py --data FOLDER                        # throughput.json; 4 minutes
    PYTHONPATH=src python benchmarks/throughput.py --data FOLDER --out OTHER --quick    # a few steps on a CPU
    PYTHONPATH=src python benchmarks/throughput.py --data FOLDER --cpu                  # throughput_cpu.json

Depth 1 to 3 x 28 widths up to 100, all 455 training rows in each step, 10 samples, local reparametrisation. Networks
of similar size are padded to one shape and trained by one program. --cpu: together against one after another.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import device  # before jax: it sets flags
import jax
import jax.numpy as jnp
import numpy as np
from curves import flops, grid

from presage.networks.datasets import load
from presage.networks.mlp import groups
from presage.networks.training import Cohort, Table, Training, describe
from presage.networks.variational import Variational

SAMPLES = 10


def ceiling(size: int) -> dict[str, float]:
    """What the device reaches at its best: FLOP/s of a large float32 product at JAX's default precision and at full
    precision, and bytes/s of a sum of two large arrays."""
    a = jnp.ones((size, size), jnp.float32)
    found = {}
    for name, precision in (("default", None), ("full", "highest")):
        product = jax.jit(lambda a, b, precision=precision: jnp.matmul(a, b, precision=precision))
        found[f"matmul_{name}_flops"] = 2.0 * size**3 / fastest(lambda product=product: product(a, a))
    big = jnp.ones(size * size * 4, jnp.float32)
    total = jax.jit(lambda a: 2.0 * a + 1.0)
    found["bytes_per_second"] = 2.0 * big.nbytes / fastest(lambda: total(big))
    return found


def fastest(call, repeats: int = 10) -> float:
    """Least seconds of a call."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def cohorts(
    folder: str, architectures: list[tuple[int, ...]], members: list[list[int]], chunk: int, threads: int
) -> list:
    """One compiled cohort for each group of architectures."""
    data = load("boston_housing", folder)
    family, training, table = Variational(samples=SAMPLES), Training(chunk=chunk), Table(data.x, data.y)
    train = data.splits[0][0]

    def make(mine: list[int]) -> Cohort:
        networks = describe(family, [architectures[i] for i in mine], table, [train] * len(mine), seeds=mine)
        return Cohort.new(family, training, networks, table).compile()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(make, members))


def step_seconds(cohort: Cohort, steps: int) -> np.ndarray:
    """Seconds per step after the first chunk, and of the processor's time, which the work of others does not change."""
    begin = int(np.max(cohort.state.step)) + cohort.training.chunk
    jax.block_until_ready(cohort.advance(begin).state)
    began = np.array([time.perf_counter(), time.process_time()])
    jax.block_until_ready(cohort.advance(begin + steps).state)
    return (np.array([time.perf_counter(), time.process_time()]) - began) / steps


def on_gpu(args: argparse.Namespace) -> None:
    steps, chunk = (40, 20) if args.quick else (50_000, 500)
    architectures = (
        [a for a in grid("boston_housing") if a[0] in (2, 10) and len(a) < 3] if args.quick else grid("boston_housing")
    )
    members = groups(architectures, programs=1 if args.quick else 3)
    record = device.about("throughput", "--data FOLDER") | {
        "networks": len(architectures),
        "steps": steps,
        "samples": SAMPLES,
    }
    record["ceiling"] = ceiling(512 if args.quick else 8192)
    print({name: f"{value:.3g}" for name, value in record["ceiling"].items()}, flush=True)
    began = time.perf_counter()
    made = cohorts(args.data, architectures, members, chunk, threads=1 if args.quick else 9)
    record["compile_seconds"] = round(time.perf_counter() - began, 2)
    print(f"{len(made)} programs compiled in {record['compile_seconds']} s", flush=True)
    rows = int(made[0].networks.sizes[0])
    record["groups"] = []
    training = time.perf_counter()
    for cohort, mine in zip(made, members, strict=True):
        start = time.perf_counter()
        taken = 0
        while taken < steps and time.perf_counter() - began < args.seconds:
            taken = min(steps, taken + 10 * chunk)
            jax.block_until_ready(cohort.advance(taken).state)
        seconds = time.perf_counter() - start
        useful = sum(flops(architectures[i], cohort.shape.inputs, rows, SAMPLES) for i in mine)
        padded = len(mine) * flops((cohort.shape.width,) * cohort.shape.depth, cohort.shape.inputs, rows, SAMPLES)
        record["groups"].append({
            "networks": len(mine), "depth": cohort.shape.depth, "width": cohort.shape.width, "steps": taken,
            "seconds": round(seconds, 3), "microseconds_per_step": round(1e6 * seconds / max(taken, 1), 1),
            "useful_flops_per_step": useful, "padded_flops_per_step": padded, "loss": float(cohort.state.loss.mean()),
        })  # fmt: skip
        print(record["groups"][-1], flush=True)
        record["training_seconds"] = round(time.perf_counter() - training, 2)
        record["total_seconds"] = round(time.perf_counter() - began, 2)
        done = record["groups"]
        for kind in ("useful", "padded"):
            rate = sum(g[f"{kind}_flops_per_step"] * g["steps"] for g in done) / record["training_seconds"]
            record[f"{kind}_flops_per_second"] = rate
            record[f"{kind}_share_of_ceiling"] = rate / record["ceiling"]["matmul_default_flops"]
        (args.out / "throughput.json").write_text(json.dumps(record, indent=1) + "\n")
    whole = all(group["steps"] == steps for group in done)
    print(
        f"{len(architectures)} networks, {steps} steps{'' if whole else ' (cut: out of time)'}: "
        f"{record['training_seconds']} s and {record['compile_seconds']} s of compilation; "
        f"{record['useful_flops_per_second']:.3g} FLOP/s useful, {record['padded_flops_per_second']:.3g} with padding, "
        f"{100 * record['padded_share_of_ceiling']:.1f} % of the ceiling"
    )  # fmt: skip


def on_cpu(args: argparse.Namespace) -> None:
    """Networks together against one after another; every fourteenth of these is run and stands for its neighbours."""
    architectures = grid("boston_housing")
    began = time.process_time()
    together = cohorts(args.data, architectures, groups(architectures, programs=2), chunk=2, threads=1)
    compile_together = time.process_time() - began
    one_run = sum(step_seconds(cohort, 4) for cohort in together)
    some = list(range(7, len(architectures), 14))
    began = time.process_time()
    alone = cohorts(args.data, architectures, [[i] for i in some], chunk=20, threads=1)
    compile_alone = (time.process_time() - began) / len(some) * len(architectures)
    one_by_one = sum(step_seconds(cohort, 40) for cohort in alone) / len(some) * len(architectures)
    record = device.about("throughput", "--data FOLDER", "--cpu") | {
        "networks": len(architectures), "networks_run_alone": [architectures[i] for i in some],
        "order": "seconds, seconds of the processor's time",
        "per_step_together": one_run.tolist(), "per_step_one_after_another": one_by_one.tolist(),
        "ratio_per_step": (one_by_one / one_run).tolist(),
        "compilation_together": compile_together, "compilation_one_after_another": compile_alone,
        "ratio_of_compilation": compile_alone / compile_together,
    }  # fmt: skip
    print(json.dumps(record, indent=1))
    (args.out / "throughput_cpu.json").write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--seconds", type=float, default=270.0, help="stop after so long")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (on_cpu if args.cpu else on_gpu)(args)


if __name__ == "__main__":
    main()
