"""Every surrogate with every acquisition: 15 trials on Branin, with regret and seconds.

    python benchmarks/matrix.py                        # all of them; writes benchmarks/results/matrix.json
    python benchmarks/matrix.py --surrogates gp rf     # some

Two regrets are told: of the best value seen, and of the point that the surrogate recommends in the end, the one with
the lowest predicted mean. Acquisitions that look for information rather than for good values are after the second.
"""

import argparse
import json
import os
import time
from typing import Any

import numpy as np
from record import RESULTS, spread, write


def cell(surrogate: str, acquisition: str, trials: int, seeds: int) -> dict[str, Any]:
    """Regrets and seconds of one pair."""
    import presage

    f = presage.functions.branin
    seen, recommended, seconds = [], [], []
    for seed in range(seeds):
        began = time.perf_counter()
        study = presage.Study(f.space, surrogate=surrogate, acquisition=acquisition, seed=seed, initial=5)
        study.optimize(f, trials=trials)
        seconds.append(time.perf_counter() - began)
        seen.append(study.best.value - f.minimum)
        candidates = np.random.default_rng(seed).random((4096, 2))
        tried = [study.space.encode(trial.params) for trial in study.trials]
        points = np.vstack([candidates, *tried])
        mean, _ = study.posterior().predict(points)
        recommended.append(f(f.space.decode(points[np.argmin(mean)])) - f.minimum)
    return {
        "seen": [float(f"{r:.4g}") for r in seen], "recommended": [float(f"{r:.4g}") for r in recommended],
        "seconds": [round(s, 2) for s in seconds],
    }  # fmt: skip


def main() -> None:
    """Run, print, write down."""
    from presage import acquisitions, surrogates

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surrogates", nargs="*", default=list(surrogates.BY_NAME))
    parser.add_argument("--acquisitions", nargs="*", default=[a for a in acquisitions.BY_NAME if a != "auto"])
    parser.add_argument("--trials", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--add", action="store_true", help="keep the cells that were recorded before")
    arguments = parser.parse_args()
    path = RESULTS / "matrix.json"
    cells = json.loads(path.read_text())["result"] if arguments.add and path.exists() else {}
    print("| surrogate | acquisition | regret seen | regret recommended | seconds |\n|---|---|---|---|---|")
    pairs = [
        (surrogate, acquisition, arguments.trials, arguments.seeds)
        for surrogate in arguments.surrogates for acquisition in arguments.acquisitions
    ]  # fmt: skip
    for (surrogate, acquisition, *_), row in spread(cell, pairs, arguments.jobs):
        cells[f"{surrogate} {acquisition}"] = row
        medians = [float(np.median(row[what])) for what in ("seen", "recommended", "seconds")]
        print(f"| {surrogate} | {acquisition} | {medians[0]:.3g} | {medians[1]:.3g} | {medians[2]:.1f} |", flush=True)
        write("matrix", cells)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
