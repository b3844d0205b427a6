"""Improvement per second: what searches spend until they are close, where some evaluations take far longer than others.

    python benchmarks/seconds.py --jobs 2       # writes benchmarks/results/seconds.json

The clock is a pretended one. A trial takes from 1 to 100 s, evenly in logarithms along the first dimension, upwards or
downwards. Branin has a minimum near either end, the camel's two are in the middle, Hartmann's is at 0.2. Told are the
seconds until the regret is as low, medians over seeds; a run that never is counts as longer than all.
"""

import argparse
import os
import time
from typing import Any

import numpy as np
from record import spread, write

TARGETS = {"branin": (0.1, 24), "six_hump_camel": (0.01, 32), "hartmann6": (0.3, 40)}  # regret, and trials
WAYS = ("upwards", "downwards")
METHODS = ("auto", "eips")


class Clock:
    """The module time, but seconds pass only when it is told so."""

    now = 1e9

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        """Seconds since the epoch, pretended."""
        return self.now


def spent(name: str, way: str, method: str, seed: int) -> float:
    """Pretended seconds until the regret is low."""
    import presage
    from presage import ledger

    clock = Clock()
    ledger.time = clock  # type: ignore[assignment]
    f, (target, trials) = getattr(presage.functions, name), TARGETS[name]
    study = presage.Study(f.space, acquisition=method, seed=seed)
    total = 0.0
    for _ in range(trials):
        trial = study.ask()
        first = f.space.encode(trial.params)[0]
        took = 100.0 ** (first if way == "upwards" else 1.0 - first)
        clock.now += took
        total += took
        value = f(trial.params)
        study.tell(trial, value)
        if value - f.minimum <= target:
            return total
    return np.inf


def main() -> None:
    """Run, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    cells = [
        (name, way, method, seed)
        for name in TARGETS for way in WAYS for method in METHODS for seed in range(arguments.seeds)
    ]  # fmt: skip
    found = dict(spread(spent, cells, arguments.jobs))
    result = {}
    print("| function | dearer | default | per second | reached |\n|---|---|---|---|---|")
    for name in TARGETS:
        for way in WAYS:
            times = {m: np.array([found[name, way, m, s] for s in range(arguments.seeds)]) for m in METHODS}
            result[f"{name} {way}"] = {
                m: [float(f"{t:.4g}") if np.isfinite(t) else None for t in times[m]] for m in METHODS
            }
            reached = " and ".join(str(int(np.isfinite(times[m]).sum())) for m in METHODS)
            print(f"| {name} | {way} | {np.median(times['auto']):.0f} | {np.median(times['eips']):.0f} | {reached} |")
    write("seconds", result)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
