"""`presage reproduce`: a seed's experiments in one command."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import JsonOption
from presage.cli._studies import folder as make_folder
from presage.errors import PresageError

if TYPE_CHECKING:
    from presage.experiments.base import Cell, Experiment, Told

ABOUT = {
    "s1": "networks sampled by Hamiltonian Monte Carlo", "s2": "ensembles designed by integrated acquisition",
    "s3": "adaptive representations", "s4": "architecture search for Bayesian networks", "s5": "pyGPGO's tuning tasks",
}  # fmt: skip


def reproduce(
    seed: Annotated[str, typer.Argument(metavar="SEED", help="s1, s2, s3, s4 or s5.")],
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes: fewer repeats, smaller sizes.")] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Repeats of everything; by seed and --quick if left out.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Measurements at a time, one core each.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where results go; reproduce-SEED if left out.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAMES", help="Some experiments, with commas, such as s1_prior.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="s4: the UCI sets, as FOLDER/yacht/data.txt.")
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", metavar="PATH", help="s5: one that has Optuna, pyGPGO; else this one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Run the experiments of a seed document, and set what it says beside what is found.

    The folder gets report.md, figures, a record of each experiment with the command and versions that made it, and
    every single measurement: stopped at any time, the same command goes on where it was.

    Examples:
      presage reproduce s1 --quick
      presage reproduce s4 --data uci --jobs 8 --out s4
    """
    if seed not in ABOUT:
        raise PresageError(f"the seed must be one of {', '.join(ABOUT)}, but got {seed!r}")
    for option, given, only_of in (("--data", data, "s4"), ("--python", python, "s5")):
        if given is not None and seed != only_of:
            raise PresageError(f"{option} is for {only_of} only, but the seed is {seed}")
    chosen = None if seed == "s5" else _chosen(seed, quick, seeds, data, only)
    folder = make_folder(out or Path(f"reproduce-{seed}"), "--out")
    with _interruptible(folder):
        if chosen is None:
            told = _tuning(folder, quick, seeds, jobs, python)
        else:
            told = _experiments(chosen, folder, jobs)
    text = f"# {seed.upper()}: {ABOUT[seed]}\n\n" + "\n".join(
        f"## {title}\n\n{one.markdown()}" for title, one in told.values()
    )
    (folder / "report.md").write_text(text)
    if as_json:
        facts = {
            name: {"title": title, "rows": one.rows, "differs": one.differs} for name, (title, one) in told.items()
        }
        text = json.dumps(facts, indent=2) + "\n"
    typer.echo(text, nl=False)


@contextmanager
def _interruptible(folder: Path) -> Iterator[None]:
    from presage.cli._output import err

    try:
        yield
    except KeyboardInterrupt:
        err().print(f"Stopped. The same command goes on from {folder}.", style="yellow")
        raise typer.Exit(130) from None


def _chosen(seed: str, quick: bool, seeds: int | None, data: Path | None, only: str | None) -> "list[Experiment]":
    import importlib

    more: dict[str, Any] = {"data": data} if seed == "s4" else {}
    found = importlib.import_module(f"presage.experiments.{seed}").experiments(quick, seeds, **more)
    names = [name.strip() for name in only.split(",")] if only else [experiment.name for experiment in found]
    known = {experiment.name: experiment for experiment in found}
    for name in names:
        if name not in known:
            raise PresageError(f"an experiment of {seed} must be one of {', '.join(known)}, but got {name!r}")
    return [known[name] for name in names]


def _experiments(chosen: "list[Experiment]", folder: Path, jobs: int) -> "dict[str, tuple[str, Told]]":
    from presage.cli.bench import Progress, typed
    from presage.experiments.base import run, write

    told = {}
    with Progress(sum(len(experiment.cells) for experiment in chosen)) as view:
        for experiment in chosen:
            view.begin(experiment.title)
            found = run(experiment, folder, jobs=jobs, tell=partial(_step, view, experiment.name))
            told[experiment.name] = (experiment.title, write(experiment, found, folder, typed()))
    return told


def _step(view: Any, name: str, cell: "Cell") -> None:
    view.step(f"{name} {' '.join(map(str, cell))}")


def _tuning(
    folder: Path, quick: bool, seeds: int | None, jobs: int, python: str | None
) -> "dict[str, tuple[str, Told]]":
    """S5: runs are kept as those of `presage bench`."""
    from presage.benchmarks import runner
    from presage.benchmarks.records import read
    from presage.benchmarks.summary import select
    from presage.cli._output import err
    from presage.cli.bench import Progress, typed
    from presage.experiments import s5

    names, repeats = s5.problems(quick), range(seeds or (1 if quick else 20))
    theirs = [name for name in s5.PACKAGE if name not in s5.METHODS]
    pythons = dict.fromkeys(("optuna-tpe", *theirs), python) if python else {}
    wanted = [
        *runner.jobs_for(names, list(s5.METHODS), repeats, pythons),
        *runner.jobs_for(names, theirs, repeats[: s5.SEEDS_OF_PACKAGE], pythons),
    ]
    with Progress(len(wanted)) as view:
        failed = runner.run(wanted, folder, workers=jobs, command=typed(), tell=view.tell)
    for reason in dict.fromkeys(f.reason for f in failed):
        err().print(f"Left out: {reason}", style="yellow", soft_wrap=True)
    found = read(folder)
    there = {record["method"] for record in found}
    told = {}
    for name, title, group in s5.TABLES:
        methods = [method for method in group if method in there]
        if name == "s5_package" and there.isdisjoint(theirs):
            continue
        runs, shown, _ = select(found, names, methods)
        s5.figure(runs, shown).savefig(folder / f"{name}.png", dpi=110)
        told[name] = (title, s5.tell(runs, shown))
    return told
