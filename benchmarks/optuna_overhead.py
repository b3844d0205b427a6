"""What a suggestion costs inside Optuna: PresageSampler, GPSampler and TPE on the same study, in one run.

    python benchmarks/optuna_overhead.py            # writes benchmarks/results/optuna_overhead.json

Hartmann6 as an Optuna study. A study is begun with n random trials; then each sampler goes on from a copy of it, trial
by trial, and the seconds of everything but the objective are taken: asking, suggesting six params, telling. GPSampler
needs PyTorch and is left out where that is missing. The last figure is presage by itself.
"""

import argparse
import importlib.util
import time
from statistics import mean, median
from typing import Any

import optuna
from record import write

from presage import Study
from presage.functions import hartmann6
from presage.integrations.optuna import PresageSampler

SIZES = (20, 50, 100)
NAMES = list(hartmann6.space)


def begun(n: int, sampler: Any) -> optuna.Study:
    """A study with n trials drawn at random, the same for every sampler."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: hartmann6({name: trial.suggest_float(name, 0, 1) for name in NAMES}), n_trials=n)
    study.sampler = sampler
    return study


def overhead(study: optuna.Study, repeats: int) -> list[float]:
    """Seconds of each trial but for the objective; the first two, in which libraries are loaded, are left out."""
    seconds = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        trial = study.ask()
        params = {name: trial.suggest_float(name, 0, 1) for name in NAMES}
        asked = time.perf_counter() - start
        value = hartmann6(params)
        start = time.perf_counter()
        study.tell(trial, value)
        seconds.append(asked + time.perf_counter() - start)
    return seconds[2:]


def alone(n: int, repeats: int) -> list[float]:
    """The same in a presage study, without Optuna."""
    done = begun(n, None).trials
    study = Study(hartmann6.space, seed=0)
    study.tell_many([t.params for t in done], [t.value for t in done])
    seconds = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        trial = study.ask()
        study.tell(trial, hartmann6(trial.params))
        seconds.append(time.perf_counter() - start)
    return seconds[2:]


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers = {"presage": lambda: PresageSampler(0), "tpe": lambda: optuna.samplers.TPESampler(seed=0)}
    packages = ["presage", "optuna", "numpy", "scipy"]  # and greenlet, without which GPSampler is slower
    if importlib.util.find_spec("torch"):
        samplers["gp"] = lambda: optuna.samplers.GPSampler(seed=0)
        packages += ["torch", "greenlet"]
    rows = []
    for n in SIZES:
        row: dict[str, Any] = {"trials": n}
        for name, make in samplers.items():
            study = begun(n, make())
            seconds = overhead(study, arguments.repeats)
            row[name] = {"median_ms": 1e3 * median(seconds), "mean_ms": 1e3 * mean(seconds), "best": study.best_value}
        plain = alone(n, arguments.repeats)
        row["without_optuna"] = {"median_ms": 1e3 * median(plain), "mean_ms": 1e3 * mean(plain)}
        rows.append(row)
        print(
            n,
            {
                name: f"{row[name]['median_ms']:.1f} ms (mean {row[name]['mean_ms']:.1f})"
                for name in row
                if name != "trials"
            },
            flush=True,
        )
    write("optuna_overhead", rows, tuple(packages))


if __name__ == "__main__":
    main()
