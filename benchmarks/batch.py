"""Batches of 8 on Hartmann6 against one point at a time: how many evaluations each needs to come as close.

    python benchmarks/batch.py --jobs 2         # writes benchmarks/results/batch.json
    python benchmarks/batch.py --botorch        # BoTorch's batches against its own single points, batch_botorch.json
    python benchmarks/batch.py --hindsight      # the best of nine batches each time, batch_hindsight.json

Told are, for some regrets, the evaluations until a run is as close. About three runs in ten stay in the second-best
minimum (regret 0.12), so that a median says more of them than of batches: what counts is the expected running time
(Hansen et al., arXiv 1603.08785, section 5): evaluations of all runs, those that never come as close with all of
theirs, for each run that does; the factor by which it is longer than one by one comes with a bootstrap interval over
seeds. Medians are told besides, such runs counting as longer than all. All runs of a seed start from the same initial
points, which count.
"""

import argparse
import os
import time
from typing import Any

import numpy as np
from record import spread, write

TARGETS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
KINDS = ("one by one", "believe", "fantasise", "joint", "penalise")
BOTORCH = ("BoTorch one by one", "BoTorch joint")
HINDSIGHT = ("one by one", "joint", "in hindsight")


def trace(kind: str, seed: int, trials: int, size: int) -> tuple[list[float], float]:
    """Regrets in the order of evaluation, and seconds."""
    import presage
    from presage import proposers

    if kind in BOTORCH:
        return trace_botorch(1 if kind == BOTORCH[0] else size, seed, trials)
    if kind == "in hindsight":
        return trace_hindsight(seed, trials, size)
    kinds = {"believe": proposers.Believe, "joint": proposers.JointImprovement, "penalise": proposers.Penalise,
             "fantasise": proposers.Fantasise}  # fmt: skip
    f = presage.functions.hartmann6
    acquisition: Any = "auto" if kind == "one by one" else proposers.ModelBased(batch=kinds[kind]())
    study = presage.Study(f.space, acquisition=acquisition, seed=seed, initial=8)
    began = time.perf_counter()
    while len(study.trials) < trials:
        for trial in study.ask(1 if kind == "one by one" else size):
            study.tell(trial, f(trial.params))
    return [trial.value - f.minimum for trial in study.trials], time.perf_counter() - began


def trace_botorch(size: int, seed: int, trials: int) -> tuple[list[float], float]:
    """The same by BoTorch, from the points that presage begins with."""
    import peer_botorch
    import torch

    import presage

    torch.manual_seed(seed)
    f = presage.functions.hartmann6
    study = presage.Study(f.space, seed=seed, initial=8)
    first = [trial.params for trial in study.ask(8)]
    points, values = np.array([f.space.encode(params) for params in first]), [f(params) for params in first]
    began = time.perf_counter()
    while len(values) < trials:
        y = np.array(values)
        more = peer_botorch.suggest(points, y)[None] if size == 1 else peer_botorch.suggest_batch(points, y, size)
        points = np.concatenate([points, more])
        values += [f(f.space.decode(point)) for point in more]
    return [value - f.minimum for value in values], time.perf_counter() - began


def trace_hindsight(seed: int, trials: int, size: int) -> tuple[list[float], float]:
    """The same with the best of nine batches each time, as only their values tell."""
    import presage
    from presage import acquisitions, proposers

    f = presage.functions.hartmann6
    batches = [proposers.JointImprovement(), proposers.JointImprovement(), proposers.Fantasise(), proposers.Penalise()]
    others = [acquisitions.ThompsonSampling(), acquisitions.MaxValueEntropySearch()]
    others += [acquisitions.ConfidenceBound(kappa=kappa) for kappa in (1.0, 2.0)]
    made = [proposers.ModelBased(batch=batch) for batch in [*batches, proposers.Believe()]]
    made += [proposers.ModelBased(acquisition=other) for other in others]
    study = presage.Study(f.space, seed=seed, initial=8)
    told = [trial.params for trial in study.ask(8)]
    values = [f(params) for params in told]
    began = time.perf_counter()
    while len(values) < trials:
        found: list[tuple[list[float], list[Any]]] = []
        for number, proposer in enumerate(made):
            study = presage.Study(f.space, acquisition=proposer, seed=1000 * seed + number, initial=8)
            study.tell_many(told, values)
            params = [trial.params for trial in study.ask(size)]
            found.append(([f(one) for one in params], params))
        best, params = min(found, key=lambda each: min(each[0]))
        values, told = values + best, told + params
    return [value - f.minimum for value in values], time.perf_counter() - began


def needed(regrets: list[float], target: float) -> float:
    """Evaluations until a regret is as low; infinite where none is."""
    reached = np.flatnonzero(np.array(regrets) <= target)
    return float(reached[0]) + 1 if len(reached) else np.inf


def running_time(needed: "list[float] | np.ndarray", trials: int) -> float:
    """Evaluations of all runs for each that came as close; infinite where none did."""
    close = int(np.isfinite(needed).sum())
    return float(np.minimum(needed, trials).sum()) / close if close else np.inf


def factor(batches: list[float], single: list[float], trials: int) -> str:
    """Running time of batches by that of single points, both by seed, with a bootstrap interval of 95 %."""
    rng, both = np.random.default_rng(0), np.array([batches, single])
    drawn = rng.integers(both.shape[1], size=(4000, both.shape[1]))
    if not np.isfinite(both).any(axis=1).all():
        return "-"
    factors = np.array([running_time(both[0, seeds], trials) / running_time(both[1, seeds], trials) for seeds in drawn])
    low, high = np.quantile(np.where(np.isnan(factors), np.inf, factors), [0.025, 0.975], method="nearest")
    return f"{running_time(both[0], trials) / running_time(both[1], trials):.2f} ({low:.2f} to {high:.2f})"


def mean_of_reached(needed: list[float]) -> float:
    """Mean evaluations of the runs that came as close."""
    reached = [count for count in needed if np.isfinite(count)]
    return float(np.mean(reached)) if reached else np.inf


def named(numbers: list[float]) -> dict[str, str]:
    """Numbers by target, as text: some are infinite."""
    return {f"{target:g}": f"{number:.4g}" for target, number in zip(TARGETS, numbers, strict=True)}


def main() -> None:
    """Run, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--botorch", action="store_true", help="BoTorch's batches instead; needs it installed")
    parser.add_argument("--hindsight", action="store_true", help="the best of nine batches each time instead")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    arguments = parser.parse_args()
    kinds = ["one by one", *(k for k in arguments.kinds if k != "one by one")]
    if arguments.botorch or arguments.hindsight:
        kinds = list(BOTORCH if arguments.botorch else HINDSIGHT)
    runs = [(kind, seed, arguments.trials, arguments.size) for seed in range(arguments.seeds) for kind in kinds]
    found: dict[str, dict[int, tuple[list[float], float]]] = {kind: {} for kind in kinds}
    for (kind, seed, *_), one in spread(trace, runs, arguments.jobs):
        found[kind][seed] = one
    result: dict[str, Any] = {}
    alone: list[list[float]] = []
    print("| batches | " + " | ".join(f"to {target:g}" for target in TARGETS) + " | seconds |")
    print("|---|" + "---|" * (len(TARGETS) + 1))
    for kind in kinds:
        runs_of = [found[kind][seed] for seed in sorted(found[kind])]
        counts = [[needed(regrets, target) for regrets, _ in runs_of] for target in TARGETS]
        alone = alone or counts  # one by one comes first
        longer = [factor(each, single, arguments.trials) for each, single in zip(counts, alone, strict=True)]
        expected = [running_time(each, arguments.trials) for each in counts]
        medians = [float(np.median(each)) for each in counts]
        seconds = float(np.median([seconds for _, seconds in runs_of]))
        cells = [f"{time:.0f} ({median:g})" for time, median in zip(expected, medians, strict=True)]
        print(f"| {kind} | " + " | ".join(cells) + f" | {seconds:.1f} |")
        result[kind] = {
            "expected running time": named(expected),
            "longer than one by one": dict(zip(map(str, TARGETS), longer, strict=True)),
            "median evaluations": named(medians),
            "mean of those that came as close": named([mean_of_reached(each) for each in counts]),
            "came as close": named([float(np.isfinite(each).mean()) for each in counts]),
            "median seconds": round(seconds, 2),
            "best so far": [[float(f"{r:.3g}") for r in np.minimum.accumulate(regrets)] for regrets, _ in runs_of],
        }  # fmt: skip
    for kind, told in result.items():
        print(f"{kind}: {', '.join(told['longer than one by one'].values())} times as long as one by one")
    if arguments.botorch:
        write("batch_botorch", result, ("presage", "numpy", "scipy", "torch", "botorch", "gpytorch"))
    else:
        write("batch_hindsight" if arguments.hindsight else "batch", result)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    main()
