"""Overhead of presage and BoTorch on Hartmann6, in one run on one machine, both at their defaults.

    python benchmarks/latency.py            # writes benchmarks/results/latency.json

Measured: a warm suggestion with n observations (tell one value, ask for the next point); everything but the
objective in a new process that runs 60 trials; a new process up to its tenth suggestion; a warm suggestion while
every core is busy with other processes.
"""

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median

RESULTS = Path(__file__).parent / "results"
SIZES = (50, 100, 500, 1000)


def presage_warm(n: int, repeats: int) -> list[float]:
    """Seconds of each suggestion of a study that starts with n told values."""
    import numpy as np

    import presage

    f = presage.functions.hartmann6
    study = presage.Study(f.space, seed=0)
    points = [f.space.decode(x) for x in np.random.default_rng(0).random((n, 6))]
    study.tell_many(points, [f(p) for p in points])
    seconds = []
    for _ in range(repeats + 2):
        began = time.perf_counter()
        trial = study.ask()
        seconds.append(time.perf_counter() - began)
        study.tell(trial, f(trial.params))
    return seconds[2:]  # the first one fits from scratch


def botorch_warm(n: int, repeats: int) -> list[float]:
    """The same for BoTorch."""
    import numpy as np
    from peer_botorch import suggest

    import presage

    f = presage.functions.hartmann6
    x = np.random.default_rng(0).random((n, 6))
    y = f.on_array(x)
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        point = suggest(x, y)
        seconds.append(time.perf_counter() - began)
        x, y = np.vstack([x, point]), np.append(y, f.on_array(point[None]))
    return seconds[1:]


PRESAGE_TRIALS = """
import presage
f = presage.functions.hartmann6
study = presage.Study(f.space, seed=0, initial=5)
for _ in range({trials}):
    trial = study.ask()
    study.tell(trial, f(trial.params))
"""
BOTORCH_TRIALS = """
import numpy as np
from peer_botorch import suggest
from presage.functions import hartmann6 as f
x = np.random.default_rng(0).random((5, 6))
y = f.on_array(x)
while len(y) < {trials}:
    x = np.vstack([x, suggest(x, y)])
    y = np.append(y, f.on_array(x[-1:]))
"""


def new_process(script: str, trials: int, repeats: int) -> list[float]:
    """Seconds of a fresh interpreter that runs the script."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", script.format(trials=trials)], check=True, cwd=Path(__file__).parent)
        seconds.append(time.perf_counter() - began)
    return seconds


def _burn() -> None:
    while True:
        sum(i * i for i in range(100_000))


def busy(n: int, repeats: int) -> list[float]:
    """presage_warm while every core runs something else."""
    others = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    time.sleep(0.5)
    try:
        return presage_warm(n, repeats)
    finally:
        for other in others:
            other.kill()


def main() -> None:
    """Measure, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--without-botorch", action="store_true")
    arguments = parser.parse_args()
    both = not arguments.without_botorch
    rows: list[tuple[str, list[float], list[float]]] = []

    def add(what: str, ours: list[float], theirs: list[float]) -> None:
        rows.append((what, ours, theirs))
        line = f"{what:32s} presage {1e3 * median(ours):8.1f} ms (mean {1e3 * mean(ours):8.1f})"
        if theirs:
            line += f"   BoTorch {1e3 * median(theirs):8.1f} ms   ratio of means 1/{mean(theirs) / mean(ours):.1f}"
        print(line, flush=True)

    for n in SIZES:
        theirs = botorch_warm(n, 5 if n <= 100 else 2) if both else []
        add(
            f"warm suggestion, n = {n}", presage_warm(n, max(arguments.repeats, n // 20 + 5)), theirs
        )  # refits among them
    add(
        "new process, 60 trials", new_process(PRESAGE_TRIALS, 60, 3), new_process(BOTORCH_TRIALS, 60, 1) if both else []
    )
    add(
        "new process, tenth suggestion",
        new_process(PRESAGE_TRIALS, 10, 5),
        new_process(BOTORCH_TRIALS, 10, 3) if both else [],
    )
    idle, loaded = presage_warm(50, 40), busy(50, 40)
    add("warm suggestion, n = 50, idle", idle, [])
    add("warm suggestion, n = 50, all busy", loaded, [])
    print(f"busy / idle: {median(loaded) / median(idle):.2f}")
    names = ["presage", "numpy", "scipy"] + (["botorch", "gpytorch", "torch"] if both else [])
    record = {
        "command": "python benchmarks/latency.py", "versions": {name: version(name) for name in names},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "processor": platform.machine()},
        "seconds": {what: {"presage": ours, "botorch": theirs} for what, ours, theirs in rows},
    }  # fmt: skip
    if both:
        (RESULTS / "latency.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
