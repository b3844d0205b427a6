"""S4's figures 5.7 to 5.14 from the curve tables: the best final score against the number of points sampled.

    PYTHONPATH=src python benchmarks/s4_search.py play     # goes on where it was stopped
    PYTHONPATH=src python benchmarks/s4_search.py plot

One figure for each set. Left: algorithm 2 on GPAR over three stages, by acquisition and by how many samples estimate a
mean and a variance; a point is one stage of one network, as in the document. Right: the same algorithm on final values
alone, where a point is a whole training. Random search and presage's default (a point is one of its moves) stand in
both columns. Above: the mean over seeds of the best final validation log-likelihood so far, with its standard error;
below: its standard deviation.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
import record
from architecture_search import SETS, load, played_so_far, problem

from presage.design.baselines import RandomSearch
from presage.design.board import Board, Move, Search
from presage.design.curve_search import CurveSearch
from presage.design.curves.base import Curves
from presage.design.gpar_search import GPARSearch
from presage.experiments.s4 import begin_with

POINTS = 60
ACQUISITIONS, SAMPLES = ("ei", "pi", "ucb"), (50, 10, 3)
SEARCHES: dict[str, Search] = {
    f"{what} {acquisition} {samples}": GPARSearch(
        stages=(1000, 4000) if what == "gpar" else (), acquisition=acquisition, samples=samples
    )
    for what in ("gpar", "final") for acquisition in ACQUISITIONS for samples in SAMPLES
} | {"random": RandomSearch(parallel=4), "default": CurveSearch()}  # fmt: skip


def improvements(
    search: Search, curves: Curves, cost: np.ndarray, first: tuple[int, ...], rng: np.random.Generator
) -> list[list[float]]:
    """The points at which the best final score rose, and to what, [[point, log-likelihood], ...]."""
    values = np.full_like(curves.values, np.nan)
    found: list[list[float]] = []
    best, count, memory = np.inf, 0, {}  # type: ignore[var-annotated]
    while count < POINTS:
        moves: list[Move] = search.decide(
            Board(Curves(curves.x, curves.steps, values, curves.columns), cost, first), rng=rng, memory=memory
        )
        if not moves:
            break
        for row, column in moves:
            values[row, : column + 1] = curves.values[row, : column + 1]
            count += 1
            if column == len(curves.steps) - 1 and values[row, -1] < best:
                best = float(values[row, -1])
                found.append([count, round(-best, 5)])
    return found


def do_play(args: argparse.Namespace) -> None:
    began, store = time.monotonic(), record.RESULTS / "s4_search.jsonl"
    have = played_so_far(store)
    for seed in range(args.seeds):
        for name in args.sets:
            missing = [label for label in SEARCHES if label not in have.get((name, seed), {})]
            if not missing:
                continue
            if time.monotonic() - began > args.seconds:
                print("time is up; play again to go on")
                return
            curves, cost, _ = problem(load(name), seed)
            first = begin_with(name, curves.x)
            result = {
                label: improvements(SEARCHES[label], curves, cost["steps"], first, np.random.default_rng([seed, 3]))
                for label in missing
            }
            with store.open("a") as file:
                print(json.dumps({"set": name, "seed": seed, "result": result}), file=file, flush=True)
    print("all played")


def so_far(found: list[list[float]]) -> np.ndarray:
    """The best score after every point, NaN before the first whole training, [POINTS]."""
    best = np.full(POINTS, np.nan)
    for point, value in found:
        best[int(point) - 1 :] = value
    return best


def do_plot(args: argparse.Namespace) -> None:
    from presage.plots._style import CYCLE, DASHES
    from presage.plots._style import figure as frame

    have = played_so_far(record.RESULTS / "s4_search.jsonl")
    at = np.arange(1, POINTS + 1)
    told: dict[str, Any] = {}
    for number, name in enumerate(SETS, start=7):
        plays = [result for (of, seed), result in sorted(have.items()) if of == name and seed < args.seeds]
        told[name] = {"seeds": len(plays)}
        with frame(2, 2, size=(8.0, 5.0), sharex=True, sharey="row") as (made, axes):
            for side, (what, title) in enumerate((("gpar", "GPAR over three stages"), ("final", "final values only"))):
                lines = [
                    (f"{what} {acquisition} {samples}", CYCLE[i], DASHES[j], 0.9)
                    for i, acquisition in enumerate(ACQUISITIONS) for j, samples in enumerate(SAMPLES)
                ]  # fmt: skip
                lines += [("random", "0.45", "-", 1.8), ("default", "black", "-", 1.8)]
                for label, color, dash, width in lines:
                    best = np.array([so_far(play[label]) for play in plays])
                    whole = np.isfinite(best).all(axis=0)  # a mean over some of the seeds would fall as others join
                    mean = np.where(whole, best.mean(axis=0), np.nan)
                    spread = np.where(whole, best.std(axis=0, ddof=1), np.nan)
                    told[name][label] = {
                        f"after {point}": [float(mean[point - 1]), float(spread[point - 1])] for point in (40, POINTS)
                    }
                    shown = label.removeprefix(f"{what} ")
                    axes[0, side].plot(at, mean, color=color, linestyle=dash, linewidth=width, label=shown)
                    if dash == DASHES[0] or width > 1:
                        error = spread / np.sqrt(len(plays))
                        axes[0, side].fill_between(at, mean - error, mean + error, color=color, alpha=0.12, linewidth=0)
                    axes[1, side].plot(at, spread, color=color, linestyle=dash, linewidth=width)
                axes[0, side].set_title(f"{name}: {title}")
                axes[1, side].set_xlabel("points sampled")
            finals = [value for play in plays for label in ("random", "default") for _, value in play[label]]
            low = np.quantile(finals, 0.25)
            axes[0, 0].set_ylim(bottom=low)
            axes[0, 0].set_ylabel("best log-likelihood")
            axes[1, 0].set_ylabel("its standard deviation")
            axes[0, 1].legend(fontsize=6, ncol=3, loc="lower right")
            made.savefig(record.FIGURES / f"s4_5_{number}.png", dpi=70)
    record.write("s4_search", told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("play", "plot"))
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    args = parser.parse_args()
    {"play": do_play, "plot": do_plot}[args.what](args)


if __name__ == "__main__":
    main()
