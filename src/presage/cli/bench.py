"""`presage bench`: methods compared on problems whose minima are known."""

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import JsonOption, folder
from presage.errors import PresageError

if TYPE_CHECKING:
    from presage.benchmarks.measures import Pair
    from presage.benchmarks.records import Record
    from presage.benchmarks.runner import Failed, Job

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich",
    help="Compare presage with other optimisers on problems whose minima are known.",
)  # fmt: skip

_PROBLEMS = "Lists or problems with commas: reported, development, tuning, branin."
_METHODS = "With commas, as presage bench list tells; presage:gp:ei names a surrogate and an acquisition."
_ALL = " All that have results, if left out."


def _names(help: str, *flags: str) -> Any:
    return typer.Option(*flags, metavar="NAMES", help=help)


ProblemsOption = Annotated[str, _names(_PROBLEMS, "--list", "--problems", "-p")]
MethodsOption = Annotated[str, _names(_METHODS, "--methods", "-m")]
ShownProblemsOption = Annotated[str, _names(_PROBLEMS + _ALL, "--list", "--problems", "-p")]  # of what was run
ShownMethodsOption = Annotated[str, _names(_METHODS + _ALL, "--methods", "-m")]
SeedsOption = Annotated[str, typer.Option("--seeds", "-s", metavar="RANGE", help="0:20 are 0 to 19; also 3,7.")]
PythonOption = Annotated[
    list[str] | None,
    typer.Option("--python", metavar="METHOD=PATH", help="Run a peer in an interpreter of its own; repeatable."),
]
OutOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where results are, one file per method.")
]


def seeds_of(text: str) -> list[int]:
    """Seeds from a text: 0:20 are 0 to 19, 3 is 3, and 0,4,7 are those.

    Example:
        >>> seeds_of("0:3,7")
        [0, 1, 2, 7]
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not first.isdecimal() or (colon and not last.isdecimal()):
            raise typer.BadParameter(f"seeds are numbers and ranges such as 0:20 or 0,4,7, but got {text!r}")
        found |= dict.fromkeys(range(int(first), int(last)) if colon else [int(first)])
    if not found:
        raise typer.BadParameter(f"at least one seed must be named, but got {text!r}")
    return list(found)


def pythons_of(pairs: list[str]) -> dict[str, str]:
    """Interpreters by method from texts such as hebo=path/to/python."""
    from presage.benchmarks.peers import PEERS

    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or name not in PEERS:
            raise typer.BadParameter(f"--python is METHOD=PATH, METHOD one of {', '.join(PEERS)}, but got {pair!r}")
        found[name] = path
    return found


@app.command()
def run(
    problems: ProblemsOption = "reported",
    methods: MethodsOption = "presage,random",
    seeds: SeedsOption = "0:3",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time, one core each.")] = 1,
    out: OutOption = Path("bench"),
    python: PythonOption = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.0, help="Start nothing new after so long.")
    ] = None,
) -> None:  # fmt: skip
    """Run methods on problems, several seeds each. What is finished is kept: the same command goes on where it was.

    Examples:
      presage bench run --list reported --methods presage,random --seeds 0:20 --jobs 8
      presage bench run -p branin,levy10 -m presage:gp:ei,optuna-tpe --python optuna-tpe=other/bin/python
    """
    from presage.benchmarks import records
    from presage.benchmarks.methods import check
    from presage.benchmarks.problems import choose
    from presage.benchmarks.runner import jobs_for
    from presage.benchmarks.runner import run as run_all
    from presage.cli._output import err, several

    names = [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        check(name)
    chosen = choose(problems)
    wanted = list(jobs_for([p.name for p in chosen], names, seeds_of(seeds), pythons_of(python or [])))
    there = records.done(folder(out, "--out"), names, {p.name: p.trials for p in chosen})
    left = [job for job in wanted if (job.problem, job.method, job.seed) not in there]
    err().print(
        f"{several(len(wanted), 'run')}, {len(wanted) - len(left)} of them there already; results in {out}.",
        style="dim",
    )
    with Progress(len(left)) as view:
        try:
            failed = run_all(
                left, out, workers=jobs, command=typed(), seconds=seconds,
                tell=view.tell,
            )  # fmt: skip
        except KeyboardInterrupt:
            err().print(f"Stopped. The same command goes on from {out}.", style="yellow")
            raise typer.Exit(130) from None
    missing = len(left) - view.count
    if missing:
        err().print(f"{several(missing, 'run')} left; the same command goes on.", style="yellow")
    if failed:
        reasons = dict.fromkeys(f"{f.job.method}: {f.reason}" for f in failed)
        for reason in list(reasons)[:5]:
            err().print(reason, style="red", soft_wrap=True)
        raise PresageError(f"{several(len(failed), 'run')} failed; the same command tries again")


def typed() -> str:
    """What was typed; of paths that only this machine has, the last part."""
    return shlex.join(["presage", *(re.sub(r"(^|=)/.*/", r"\1", word) for word in sys.argv[1:])])


class Progress:
    """A bar where somebody looks, a line per run elsewhere."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.total, self.count, self.seen = total, 0, sys.stderr.isatty()
        self.bar = Progress(
            BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False), console=Console(stderr=True), disable=not self.seen,
        )  # fmt: skip
        self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> "Progress":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def begin(self, what: str) -> None:
        """Something long begins."""
        self.bar.update(self.task, description=what)
        if not self.seen:
            typer.echo(what, err=True)

    def step(self, said: str) -> None:
        """One more is done."""
        self.count += 1
        self.bar.update(self.task, advance=1, description=said)
        if not self.seen:
            typer.echo(f"{self.count}/{self.total} {said}", err=True)

    def tell(self, job: "Job", result: "Record | Failed") -> None:
        """A run has ended."""
        least = None if isinstance(result, tuple) else min(result["regret"])
        ending = f"failed: {result.reason}" if isinstance(result, tuple) else f"{least:.3g}"
        self.step(f"{job.method} on {job.problem}, seed {job.seed}: {ending}")


@app.command()
def table(
    out: OutOption = Path("bench"),
    problems: ShownProblemsOption = "",
    methods: ShownMethodsOption = "",
    ours: Annotated[
        str, typer.Option("--ours", metavar="METHOD", help="Whom to compare with the best other one.")
    ] = "presage",
    pairs: Annotated[
        bool, typer.Option("--two-by-two", help="It against each other one, on the seeds that the two have in common.")
    ] = False,
) -> None:  # fmt: skip
    """Tell the results as Markdown: ranks with confidence intervals, regrets, seconds, who is ahead of whom.

    Examples:
      presage bench table --out bench > results.md
      presage bench table --out bench --two-by-two
    """
    from presage.benchmarks.problems import choose
    from presage.benchmarks.records import read
    from presage.benchmarks.summary import markdown, two_by_two

    names = [name.strip() for name in methods.split(",") if name.strip()]
    found = read(out)
    if pairs:
        typer.echo(two_by_two(_pairs(found, problems, names, ours), ours), nl=False)
        return
    one = ours if any(r["method"] == ours for r in found) and (not names or ours in names) else None
    typer.echo(markdown(found, [p.name for p in choose(problems)] if problems else [], names, one), nl=False)


def _pairs(found: "list[Record]", problems: str, names: list[str], ours: str) -> "list[Pair]":
    """A method against each other one; an error where there is nothing to compare."""
    from presage.benchmarks.measures import pairs
    from presage.benchmarks.problems import choose
    from presage.benchmarks.summary import named

    chosen, methods = named(found, [p.name for p in choose(problems)] if problems else [], names)
    if ours not in methods:
        raise PresageError(f"--ours must be one of {', '.join(methods)}, but got {ours!r}")
    met = pairs(chosen, methods, ours)
    if not met:
        raise PresageError(f"{ours} has no seed of any problem in common with another method")
    return met


@app.command()
def plot(
    out: OutOption = Path("bench"),
    problems: ShownProblemsOption = "",
    methods: ShownMethodsOption = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Where figures go; FOLDER of --out if left out.")
    ] = None,
    ours: Annotated[
        str, typer.Option("--ours", metavar="METHOD", help="Whom to set against each other one, two by two.")
    ] = "presage",
    pairs: Annotated[
        bool, typer.Option("--two-by-two", help="Draw shares.png alone, of each pair's common seeds.")
    ] = False,
) -> None:  # fmt: skip
    """Draw the results: regrets.png with a panel per problem, ranks.png over all of them; shares.png two by two.

    Example:
      presage bench plot --out bench --to figures
    """
    from presage.benchmarks import figures
    from presage.benchmarks.problems import choose
    from presage.benchmarks.records import read
    from presage.benchmarks.summary import select

    names = [name.strip() for name in methods.split(",") if name.strip()]
    found = read(out)
    place = folder(to or out, "--to")
    if pairs:
        figures.shares(_pairs(found, problems, names, ours), ours).savefig(place / "shares.png", dpi=110)
        typer.echo(place / "shares.png")
        return
    runs, shown, _ = select(found, [p.name for p in choose(problems)] if problems else [], names)
    for name, draw in {"regrets": figures.curves, "ranks": figures.rank_curves}.items():
        draw(runs, shown).savefig(place / f"{name}.png", dpi=110)
        typer.echo(place / f"{name}.png")


@app.command()
def ablate(
    changes: Annotated[
        str | None,
        typer.Option("--changes", "-c", metavar="NAMES", help="With commas; all but hmc and gp-mcmc, if left out."),
    ] = None,
    seeds: SeedsOption = "0:3",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time, one core each.")] = 1,
    out: OutOption = Path("ablations"),
    problems: Annotated[
        str | None, typer.Option("--problems", "-p", metavar="NAMES", help="Some of the development list only.")
    ] = None,
) -> None:  # fmt: skip
    """Change single choices of the default on the development list and tell what each is worth, as Markdown.

    What is finished is kept in FOLDER: the same command goes on where it was. The reported list is not touched.

    Example:
      presage bench ablate --seeds 0:10 --jobs 8
    """
    from presage.benchmarks import ablations, records
    from presage.benchmarks.problems import choose
    from presage.benchmarks.runner import jobs_for
    from presage.benchmarks.runner import run as run_all
    from presage.benchmarks.summary import select
    from presage.cli._output import err

    names = list(ablations.USUAL) if changes is None else [c.strip() for c in changes.split(",") if c.strip()]
    for name in names:
        ablations.variant(name)
    listed = [p.name for p in choose(ablations.LIST)]
    chosen = listed if problems is None else [p.name for p in choose(problems)]
    for name in chosen:
        if name not in listed:
            raise PresageError(f"choices are tried on {', '.join(listed)} only, but got {name!r}")
    methods = [ablations.OURS, *(f"{ablations.OURS}@{name}" for name in names)]
    wanted = list(jobs_for(chosen, methods, seeds_of(seeds), {}))
    folder(out, "--out")
    with Progress(len(wanted)) as view:
        try:
            failed = run_all(wanted, out, workers=jobs, command=typed(), tell=view.tell)
        except KeyboardInterrupt:
            err().print(f"Stopped. The same command goes on from {out}.", style="yellow")
            raise typer.Exit(130) from None
    for reason in dict.fromkeys(f"{f.job.method}: {f.reason}" for f in failed):
        err().print(reason, style="red", soft_wrap=True)
    runs, shown, _ = select(records.read(out), chosen, methods)
    text = ablations.markdown(runs, shown)
    (out / "ablations.md").write_text(text)
    typer.echo(text, nl=False)


@app.command()
def latency(
    methods: Annotated[
        str | None,
        typer.Option("--methods", "-m", metavar="NAMES", help="With commas; every surrogate and peer, if left out."),
    ] = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="NUMBERS", help="Numbers of values, with commas.")
    ] = "10,100,1000,10000,100000",
    limit: Annotated[float, typer.Option("--limit", min=0.1, help="Seconds that one step of a cell may take.")] = 60.0,
    out: OutOption = Path("latency"),
    python: PythonOption = None,
) -> None:  # fmt: skip
    """Measure what a suggestion takes against the number of values, cold start included; one table, one figure.

    What is measured is kept in FOLDER: the same command goes on where it was. Every method is given the same values
    in a process of its own; one that exceeds the limit is not tried with more of them.

    Example:
      presage bench latency --python botorch=peers/bin/python --python hebo=hebo/bin/python
    """
    from presage.benchmarks import latency as measured
    from presage.cli._output import err

    known = (*measured.surrogates(), *measured.PEERS)
    names = list(known) if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise PresageError(f"a method must be one of {', '.join(known)}, but got {name!r}")
    if not all(part.strip().isdecimal() and int(part) > 1 for part in sizes.split(",")):
        raise typer.BadParameter(f"sizes are whole numbers above 1 with commas, but got {sizes!r}")
    wanted = [int(part) for part in sizes.split(",")]
    folder(out, "--out")
    with Progress(len(names) * len(wanted)) as view:
        try:
            found = measured.run(
                names, out / "cells.jsonl", sizes=wanted, limit=limit, pythons=pythons_of(python or []),
                command=typed(), tell=view.step,
            )  # fmt: skip
        except KeyboardInterrupt:
            err().print(f"Stopped. The same command goes on from {out}.", style="yellow")
            raise typer.Exit(130) from None
    text = measured.markdown(found)
    (out / "latency.md").write_text(text)
    measured.figure(found).savefig(out / "latency.png", dpi=90)
    typer.echo(text, nl=False)


@app.command("list")
def list_all(
    problems: ProblemsOption = "development,reported,tuning",
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """List the problems with their spaces and budgets, and the methods.

    Example:
      presage bench list --list reported
    """
    import json

    from presage.benchmarks.methods import NAMES
    from presage.benchmarks.problems import LISTS, choose
    from presage.cli._output import out, table

    rows = []
    for p in choose(problems):
        space = p.make(0).space
        inside = next(name for name, many in LISTS.items() if p in many)
        rows.append({
            "problem": p.name, "list": inside, "kind": p.kind, "dimensions": space.dim, "trials": p.trials,
            "noise": p.noise, "conditional": space.conditional,
        })  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"problems": rows, "methods": NAMES}, indent=2))
        return
    shown = table("problem", "list", "kind", "dimensions", "trials", "noise", right=("dimensions", "trials", "noise"))
    for row in rows:
        cells = (row["problem"], row["list"], row["kind"], row["dimensions"], row["trials"], row["noise"] or "")
        shown.add_row(*map(str, cells))
    out().print(shown)
    out().print(f"methods: {', '.join(NAMES)}", soft_wrap=True)
