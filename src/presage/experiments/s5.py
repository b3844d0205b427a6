"""S5: four learners tuned on five data sets, 3 + 50 evaluations, by improvement, two bounds, and chance.

The thesis shows curves only, no numbers. Its package is run by its rules, with EI and with UCB at 0.5 and 1.5, and so
is presage's Gaussian process with the same acquisitions; presage's default and Optuna's TPE are added. Losses come from
tables made by benchmarks/tables.py.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from presage.benchmarks.measures import Interval, Runs, mean_ranks
from presage.benchmarks.problems import DATA, LEARNERS
from presage.experiments.base import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKAGE = {
    "presage": "presage's default",
    "pygpgo": "pyGPGO, EI",
    "pygpgo-ucb0.5": "pyGPGO, UCB 0.5",
    "pygpgo-ucb1.5": "pyGPGO, UCB 1.5",
    "random": "random search",
    "optuna-tpe": "Optuna TPE",
}
METHODS = {
    "presage": "presage's default",
    "presage:gp:ei": "GP, EI",
    "presage:gp:lcb0.5": "GP, UCB 0.5",
    "presage:gp:lcb1.5": "GP, UCB 1.5",
    "random": "random search",
    "optuna-tpe": "Optuna TPE",
}
TRIED = {"random", *(name for name in {**PACKAGE, **METHODS} if "gp" in name)}  # by the thesis
LABELS = PACKAGE | METHODS
SEEDS_OF_PACKAGE = 5  # its searches take half a minute each
TABLES = (
    ("s5_package", "Mean ranks on twenty tuning problems, against the thesis's package", PACKAGE),
    ("s5_ranks", "Mean ranks with the thesis's acquisitions over presage's Gaussian process", METHODS),
)
THESIS = "a curve of the loss"
AFTER = (20, 53)
QUICK_DATA = ("lsvt", "parkinsons")


def problems(quick: bool) -> list[str]:
    """Names of the tuning problems."""
    return [f"{learner}_{data}_53" for data in (QUICK_DATA if quick else DATA) for learner in LEARNERS]


def ranks(runs: Sequence[Runs]) -> dict[int, list[Interval]]:
    """Mean ranks of the methods after 20 and after 53 evaluations."""
    return {after: mean_ranks(runs, after=after) for after in AFTER}


def tell(runs: Sequence[Runs], methods: Sequence[str]) -> Told:
    """Mean ranks, best at the end first; the thesis has curves of the loss and no numbers."""
    found = ranks(runs)
    order = sorted(range(len(methods)), key=lambda i: found[AFTER[-1]][i].mean)
    rows = []
    for i in order:
        theirs = THESIS if methods[i] in TRIED else "not in the document"
        ours = "; ".join(f"{found[after][i]} after {after}" for after in AFTER)
        rows.append((f"mean rank (95 %) of {LABELS.get(methods[i], methods[i])}", theirs, ours))
    seeds = min(len(r.seeds) for r in runs)
    differs = (
        f"{len(runs)} problems, {seeds} seed{'s' * (seeds > 1)} or more. The thesis shows curves without numbers, so "
        "ranks cannot be put side by side; here sets are cut to 300 rows and losses are read from tables, so "
        "levels differ from its own."
    )
    return Told(tuple(rows), differs)


def figure(runs: Sequence[Runs], methods: Sequence[str]) -> "Figure":
    """The thesis's figures: the best loss so far, one panel per problem."""
    from presage.benchmarks.figures import curves

    return curves(runs, [LABELS.get(name, name) for name in methods])
