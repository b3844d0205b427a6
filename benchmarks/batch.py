"""Batches of 8 on Hartmann6 against one point at a time: how many evaluations each needs to come as close.

    python benchmarks/batch.py          # writes benchmarks/results/batch.json

For each seed the regret that the sequential search has after --trials evaluations is the target that batches are
measured by, and the loss is the share of evaluations that they need more. Batches start from the same initial points.
"""

import argparse
import os
import time

import numpy as np
from record import write


def trace(seed: int, trials: int, size: int, batch: str) -> tuple[list[float], float]:
    """Values in the order of evaluation, and seconds."""
    import presage
    from presage import proposers
    from presage.surrogates import GaussianProcess

    kinds = {"believe": proposers.Believe, "joint": proposers.JointImprovement, "penalise": proposers.Penalise,
             "fantasise": proposers.Fantasise}  # fmt: skip
    f = presage.functions.hartmann6
    proposer = proposers.ModelBased(GaussianProcess(), batch=kinds[batch]())
    study = presage.Study(f.space, acquisition=proposer, seed=seed, initial=8)
    began = time.perf_counter()
    while len(study.trials) < trials:
        asked = study.ask(size)
        for trial in asked:
            study.tell(trial, f(trial.params))
    return [trial.value for trial in study.trials], time.perf_counter() - began


def needed(values: list[float], target: float) -> int:
    """Evaluations until a value is as low; one more than there are where none is."""
    reached = np.flatnonzero(np.minimum.accumulate(values) <= target)
    return int(reached[0]) + 1 if len(reached) else len(values) + 1


def main() -> None:
    """Run, print, write down."""
    import presage

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=48)
    parser.add_argument("--kinds", nargs="*", default=["believe", "penalise"])
    arguments = parser.parse_args()
    minimum, rows = presage.functions.hartmann6.minimum, []
    longest = 2 * arguments.trials
    for seed in range(arguments.seeds):
        one, seconds = trace(seed, longest, 1, "believe")
        target = min(one[: arguments.trials])
        row = {
            "seed": seed,
            "target": target - minimum,
            "sequential": needed(one, target),
            "seconds": round(seconds, 1),
        }
        for kind in arguments.kinds:
            values, seconds = trace(seed, longest, 8, kind)
            row[kind] = needed(values, target)
            row[f"{kind} regret"] = min(values[: arguments.trials]) - minimum
            row[f"{kind} seconds"] = round(seconds, 1)
        rows.append(row)
        print(row, flush=True)
    summary = {kind: float(np.median([row[kind] / row["sequential"] for row in rows])) for kind in arguments.kinds}
    print("evaluations, batches of 8 : one at a time (median):", summary)
    write("batch", {"rows": rows, "median ratio of evaluations": summary})


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
