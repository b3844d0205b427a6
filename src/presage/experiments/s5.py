"""S5: four learners tuned on five data sets, 3 + 50 evaluations, by improvement, two bounds, and chance.

The thesis shows curves only, no numbers. Its Gaussian process with EI and with UCB at 0.5 and 1.5 is here
presage's with the same acquisitions; presage's default and Optuna's TPE are added. Losses come from tables made by
benchmarks/tables.py.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from presage.benchmarks.measures import Interval, Runs, mean_ranks
from presage.benchmarks.problems import DATA, LEARNERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = {
    "presage": "presage's default",
    "presage:gp:ei": "GP, EI",
    "presage:gp:lcb0.5": "GP, UCB 0.5",
    "presage:gp:lcb1.5": "GP, UCB 1.5",
    "random": "random search",
    "optuna-tpe": "Optuna TPE",
}
AFTER = (20, 53)
QUICK_DATA = ("lsvt", "parkinsons")


def problems(quick: bool) -> list[str]:
    """Names of the tuning problems."""
    return [f"{learner}_{data}_53" for data in (QUICK_DATA if quick else DATA) for learner in LEARNERS]


def ranks(runs: Sequence[Runs]) -> dict[int, list[Interval]]:
    """Mean ranks of the methods after 20 and after 53 evaluations."""
    return {after: mean_ranks(runs, after=after) for after in AFTER}


def markdown(runs: Sequence[Runs], methods: Sequence[str]) -> str:
    """Mean ranks as a table, best at the end first, and one sentence on what to think of it."""
    found = ranks(runs)
    order = sorted(range(len(methods)), key=lambda i: found[AFTER[-1]][i].mean)
    rows = [
        f"| {METHODS.get(methods[i], methods[i])} | " + " | ".join(str(found[after][i]) for after in AFTER) + " |"
        for i in order
    ]
    seeds = min(len(r.seeds) for r in runs)
    header = "| method | " + " | ".join(f"mean rank after {after} (95 %)" for after in AFTER) + " |"
    said = (
        f"{len(runs)} problems, {seeds} seeds or more. The thesis shows curves without numbers, so ranks cannot be put "
        "side by side; here sets are cut to 300 rows and losses are read from tables, so levels differ from its own."
    )
    return "\n".join([header, "| --- | --- | --- |", *rows, "", said]) + "\n"


def figure(runs: Sequence[Runs], methods: Sequence[str]) -> "Figure":
    """The thesis's figures: the best loss so far, one panel per problem."""
    from presage.benchmarks.figures import curves

    return curves(runs, [METHODS.get(name, name) for name in methods])
