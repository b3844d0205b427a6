"""What a warm suggestion of a default study on Hartmann6 spends on maximising the acquisition, with 100 values.

    OMP_NUM_THREADS=1 python benchmarks/maximisation.py     # writes benchmarks/results/maximisation.json

Told are seconds on the clock and seconds of the processor; the latter do not depend on what else the machine does.
"""

import argparse
import os
import time
from typing import Any

import numpy as np
from record import write


def measure(surrogate: str, values: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of the maximiser and of the whole suggestion, one of each per suggestion."""
    import presage
    from presage.proposers import Maximiser

    plain, spent = Maximiser.__call__, [0.0, 0.0]

    def timed(*arguments: Any, **settings: Any) -> Any:
        clock, processor = time.perf_counter(), time.process_time()
        try:
            return plain(*arguments, **settings)
        finally:
            spent[0] += time.perf_counter() - clock
            spent[1] += time.process_time() - processor

    f = presage.functions.hartmann6
    study = presage.Study(f.space, surrogate=surrogate, seed=0)
    points = [f.space.decode(x) for x in np.random.default_rng(0).random((values, 6))]
    study.tell_many(points, [f(point) for point in points])
    rows: dict[str, list[float]] = {"maximiser": [], "maximiser, processor": [], "whole": [], "whole, processor": []}
    Maximiser.__call__ = timed  # type: ignore[method-assign]
    try:
        for i in range(repeats + 2):
            spent[:] = 0.0, 0.0
            clock, processor = time.perf_counter(), time.process_time()
            trial = study.ask()
            whole = (time.perf_counter() - clock, time.process_time() - processor)
            if i >= 2:  # the first one fits from scratch
                for name, seconds in zip(rows, (*spent, *whole), strict=True):
                    rows[name].append(round(seconds, 5))
            study.tell(trial, f(trial.params))
    finally:
        Maximiser.__call__ = plain  # type: ignore[method-assign]
    return rows


def main() -> None:
    """Measure, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surrogates", nargs="*", default=["auto", "gp"])
    parser.add_argument("--values", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    result = {}
    for surrogate in arguments.surrogates:
        rows = measure(surrogate, arguments.values, arguments.repeats)
        told = {name: {"median": float(np.median(row)), "mean": float(np.mean(row))} for name, row in rows.items()}
        result[surrogate] = {**told, "values at the start": arguments.values, "seconds": rows}
        for name, row in told.items():
            print(f"{surrogate:6s} {name:22s} median {1e3 * row['median']:7.1f} ms, mean {1e3 * row['mean']:7.1f} ms")
    write("maximisation", result)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
