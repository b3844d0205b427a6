"""Architecture search played on the eight curve tables: best final score against cost, for every search of the package.

    PYTHONPATH=src python benchmarks/architecture_search.py play            # goes on where it was stopped
    PYTHONPATH=src python benchmarks/architecture_search.py tell            # table, tests and figures

Every seed of a set draws, for every architecture, which of its training seeds the search sees. A search sees validation
curves as far as it has paid for them. Cost is counted in steps and in seconds, in units of the set's mean complete training;
searches that do not look at cost are played once, the default twice, once for each. Regret is the distance of the best
final validation score found so far from the best of all, in units of the distance of the median from the best, at most 1.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import record

from presage.design.baselines import FinalSearch, Hyperband, RandomSearch, SuccessiveHalving
from presage.design.board import Played, Search, play
from presage.design.curve_search import CurveSearch
from presage.design.curves.base import Curves
from presage.design.gpar_search import GPARSearch

TABLES = record.RESULTS / "curves"
SETS = ("boston_housing", "concrete", "energy", "kin8nm", "power_plant", "protein", "wine_quality_red", "yacht")
BUDGET = 12.0  # complete trainings
GRID = np.linspace(0.0, BUDGET, 241)[1:]
SEARCHES: dict[str, Search] = {
    "random": RandomSearch(), "asha": SuccessiveHalving(), "hyperband": Hyperband(), "final": FinalSearch(),
    "gpar": GPARSearch(), "default": CurveSearch(),
}  # fmt: skip
AWARE = ("default",)  # of cost


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(TABLES / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def unit(table: dict[str, np.ndarray]) -> np.ndarray:
    """Depth and log width on the unit square."""
    depth, width = table["depth"].astype(float), np.log(table["width"].astype(float))
    return np.stack([(a - a.min()) / (a.max() - a.min()) for a in (depth, width)], axis=1)


def problem(table: dict[str, np.ndarray], seed: int) -> tuple[Curves, dict[str, np.ndarray], np.ndarray]:
    """The curves that a search of this seed sees, the cost of a step in both units, and which training seeds they are."""
    values = -table["validation_log_likelihood"].astype(float)
    n = len(values)
    pick = np.random.default_rng([seed, 0]).integers(values.shape[1], size=n)
    curves = Curves.of(unit(table), table["steps"], values[np.arange(n), pick])
    seconds = table["seconds_per_step"].astype(float)
    last = table["steps"][-1]
    return curves, {"steps": np.full(n, 1.0 / last), "seconds": seconds / seconds.mean() / last}, pick


def summary(played: Played, spent: np.ndarray, curves: Curves, budget: float) -> dict[str, Any]:
    """Regret along the grid, cost to reach the best 5 %, and what was chosen at the end."""
    finals = curves.values[:, -1]
    least, middle = finals.min(), np.median(finals)
    good = np.sort(finals)[int(np.ceil(0.05 * len(finals))) - 1]
    done = [(cost, move.row) for cost, move in zip(spent, played.moves, strict=True) if move.column == len(curves.steps) - 1]
    regret, reached, best, chosen = np.ones(len(GRID)), None, np.inf, None
    for cost, row in done:
        if cost > budget:
            break
        if finals[row] < best:
            best, chosen = finals[row], row
            regret[GRID >= cost] = min(1.0, (best - least) / (middle - least))
        if reached is None and finals[row] <= good:
            reached = float(cost)
    moves = np.array([move.row for move in played.moves])[spent <= budget]
    return {
        "auc": float(regret.mean()), "regret": regret[11::12].round(4).tolist(), "reached": reached,
        "chosen": None if chosen is None else int(chosen), "started": len(set(moves.tolist())),
        "complete": sum(cost <= budget for cost, _ in done),
    }  # fmt: skip


def one(name: str, seed: int, only: tuple[str, ...]) -> dict[str, Any]:
    """All searches on one set with one seed."""
    table = load(name)
    curves, cost, pick = problem(table, seed)
    told: dict[str, Any] = {}
    for label in only:
        search, began = SEARCHES[label], time.process_time()
        # What does not look at cost is played until both budgets are spent; random search to the end of the table, to know
        # what it takes to reach the best 5 %.
        kinds = [[kind] for kind in cost] if label in AWARE else [list(cost)]
        for group in kinds:
            rng = np.random.default_rng([seed, 1])
            if len(group) == 1:
                played = play(search, curves, cost[group[0]], BUDGET, rng=rng)
            else:
                slow = np.minimum(cost["steps"], cost["seconds"])
                played = play(search, curves, slow, 1e9 if label == "random" else BUDGET, rng=rng)
            for kind in group:
                reached = np.zeros(len(curves.x))
                spent, total = [], 0.0
                for move in played.moves:
                    steps = curves.steps[move.column]
                    total += cost[kind][move.row] * (steps - reached[move.row])
                    reached[move.row] = steps
                    spent.append(total)
                found = summary(played, np.array(spent), curves, BUDGET)
                if label == "random":
                    found["reached"] = summary(played, np.array(spent), curves, np.inf)["reached"]
                if found["chosen"] is not None:  # on the training seeds that this search did not see
                    row = found["chosen"]
                    unseen = np.delete(np.arange(table["test_log_likelihood"].shape[1]), pick[row])
                    for metric in ("validation_log_likelihood", "test_log_likelihood"):
                        found[f"unseen_{metric}"] = float(table[metric][row, unseen, -1].mean())
                told[f"{label}/{kind}"] = found
        told[f"{label}/cpu"] = round(time.process_time() - began, 2)
    return told


def do_play(args: argparse.Namespace) -> None:
    began = time.monotonic()
    store = args.out / "architecture_search.jsonl"
    have: dict[tuple[str, int], dict[str, Any]] = {}
    if store.exists():
        for line in store.read_text().splitlines():
            told = json.loads(line)
            have.setdefault((told["set"], told["seed"]), {}).update(told["result"])
    with store.open("a") as file:
        for seed in range(args.seeds):
            for name in args.sets:
                missing = tuple(label for label in args.searches if f"{label}/cpu" not in have.get((name, seed), {}))
                if not missing:
                    continue
                if time.monotonic() - began > args.seconds:
                    print("time is up; play again to go on")
                    return
                print(json.dumps({"set": name, "seed": seed, "result": one(name, seed, missing)}), file=file, flush=True)
    print("all played")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("play", "tell"))
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--searches", nargs="*", default=list(SEARCHES))
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--out", type=Path, default=record.RESULTS)
    args = parser.parse_args()
    if args.what == "play":
        do_play(args)
    else:
        import architecture_search_table

        architecture_search_table.tell(args)


if __name__ == "__main__":
    main()
