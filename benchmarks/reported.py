"""The tables of the reported list from the traces in results/bench, as `presage bench table` tells them, and a figure.

    python benchmarks/reported.py       # results/bench/reported*.md, two_by_two.md, docs/figures/shares.png

Each table names methods. Its problems are those that every one of them has been run on with 20 seeds.
"""

from record import FIGURES, RESULTS

from presage.benchmarks import figures
from presage.benchmarks.measures import pairs
from presage.benchmarks.problems import choose
from presage.benchmarks.records import Record, read
from presage.benchmarks.summary import markdown, two_by_two

OURS = "presage"
FAST = (OURS, "optuna-tpe", "nevergrad", "cmaes", "sobol", "random")
PEERS = ("optuna-gp-exact", "optuna-gp", "botorch", "hebo")
DEAR = ("ax", "smac", "skopt", "botorch-noisy")
ALL = (*FAST, *PEERS, *DEAR)
TABLES = {"reported": FAST, "reported_25": (*FAST, *PEERS), "reported_20": (*FAST, *PEERS, *DEAR)}
SEEDS = 20


def problems(runs: list[Record], methods: tuple[str, ...], seeds: int) -> list[str]:
    """The reported problems that every method has been run on with so many seeds in common."""
    have: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        have.setdefault((run["problem"], run["method"]), set()).add(run["seed"])
    names = [problem.name for problem in choose("reported")]
    return [
        name for name in names
        if len(set.intersection(*(have.get((name, method), set()) for method in methods))) >= seeds
    ]  # fmt: skip


def main() -> None:
    """Write tables and figure, and say what is in them."""
    runs, folder = read(RESULTS / "bench"), RESULTS / "bench"
    for name, methods in TABLES.items():
        chosen = problems(runs, methods, SEEDS)
        (folder / f"{name}.md").write_text(markdown(runs, chosen, methods, OURS))
        print(f"{name}: {len(chosen)} problems, {len(methods)} methods, {SEEDS} seeds")
    listed = problems(runs, (OURS,), 1)
    met = pairs([run for run in runs if run["problem"] in listed], ALL, OURS)
    (folder / "two_by_two.md").write_text(two_by_two(met, OURS))
    figures.shares(met, OURS).savefig(FIGURES / "shares.png", dpi=110)


if __name__ == "__main__":
    main()
