"""What quick suggestions cost and find: long studies of functions that take no time, adapting and not.

    python benchmarks/effort.py                 # writes benchmarks/results/effort.json

From trial 200 on the default makes do with fewer candidates where evaluations take next to no time. A study whose
acquisition is named, the same one, never does. Told are processor seconds of the suggestions after trial 200, in
turns on one core, and the least regrets at 200 and at the end, medians over seeds.
"""

import argparse
import os
import time
from typing import Any

import numpy as np
from record import spread, write

PROBLEMS = ("hartmann6", "levy10", "ackley5", "ackley_mixed", "branin_noisy")  # of the development list
METHODS = {"usual": "logei", "adapting": "auto"}


def trace(name: str, method: str, seed: int, trials: int) -> tuple[list[float], list[float], int]:
    """Regrets, processor seconds of the suggestions, and how many were quick."""
    import presage
    from presage.benchmarks.problems import PROBLEMS as KNOWN

    problem = KNOWN[name]
    one = problem.make(seed)
    study = presage.Study(one.space, acquisition=METHODS[method], seed=seed)
    regrets, seconds = [], []
    for number in range(trials):
        began = time.process_time()
        trial = study.ask()
        seconds.append(time.process_time() - began)
        true = one.value(trial.params)
        study.tell(trial, true + problem.disturbance(seed, number))
        regrets.append(true - one.minimum)
    return regrets, seconds, sum(trial.effort == "quick" for trial in study.trials)


def main() -> None:
    """Run, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    arguments = parser.parse_args()
    cells = [
        (name, method, seed, arguments.trials)
        for name in PROBLEMS for seed in range(arguments.seeds) for method in METHODS
    ]  # fmt: skip
    found = dict(spread(trace, cells, arguments.jobs))
    result: dict[str, Any] = {}
    print("| problem | | seconds from trial 200 on | regret at 200 | at the end | quick |\n|---|---|---|---|---|---|")
    for name in PROBLEMS:
        for method in METHODS:
            runs = [found[name, method, seed, arguments.trials] for seed in range(arguments.seeds)]
            least = np.minimum.accumulate([regrets for regrets, _, _ in runs], axis=1)
            spent = [float(sum(seconds[200:])) for _, seconds, _ in runs]
            quick = [count for *_, count in runs]
            at_200, at_end = least[:, 199], least[:, -1]
            result[f"{name}, {method}"] = {
                "seconds from trial 200 on": [round(each, 2) for each in spent], "quick": quick,
                "regret at 200": [float(f"{r:.3g}") for r in at_200], "at the end": [float(f"{r:.3g}") for r in at_end],
            }  # fmt: skip
            cells_ = (
                f"{np.median(spent):.1f} | {np.median(at_200):.2g} | {np.median(at_end):.2g} | {np.median(quick):g}"
            )
            print(f"| {name} | {method} | {cells_} |", flush=True)
    write("effort", result)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
