"""`presage reproduce`: a seed's experiment in one command."""

import json
from pathlib import Path
from typing import Annotated

import typer

from presage.cli._studies import JsonOption
from presage.errors import PresageError

ELSEWHERE = {
    "s1": "benchmarks/s1.py", "s2": "benchmarks/s2_design.py and s2_variance.py", "s3": "benchmarks/neural.py",
    "s4": "benchmarks/s4_studies.py",
}  # fmt: skip


def reproduce(
    seed: Annotated[str, typer.Argument(metavar="SEED", help="s5.")],
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes: two data sets, one seed.")] = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Repeats of everything; 1 with --quick.")] = 20,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time, one core each.")] = 1,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where results go.")
    ] = Path("reproduce-s5"),
    python: Annotated[
        str | None, typer.Option("--python", metavar="PATH", help="One that has Optuna; this one if left out.")
    ] = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Run a seed's experiment and tell its results: a table, curves.png, and every run in FOLDER.

    Stopped at any time, the same command goes on where it was.

    Example:
      presage reproduce s5 --quick
    """
    from presage.benchmarks import runner
    from presage.benchmarks.records import read
    from presage.benchmarks.summary import select
    from presage.cli._output import err
    from presage.cli.bench import Progress
    from presage.experiments import s5

    if seed in ELSEWHERE:
        raise PresageError(f"{seed} is not a command yet; in the repository, see {ELSEWHERE[seed]}")
    if seed != "s5":
        raise PresageError(f"the seed must be s5, but got {seed!r}")
    names = s5.problems(quick)
    wanted = list(
        runner.jobs_for(names, list(s5.METHODS), range(1 if quick else seeds), {"optuna-tpe": python} if python else {})
    )
    with Progress(len(wanted)) as view:
        failed = runner.run(wanted, out, workers=jobs, command=f"presage reproduce {seed}", tell=view.tell)
    for reason in dict.fromkeys(f.reason for f in failed):
        err().print(f"Left out: {reason}", style="yellow", soft_wrap=True)
    found = read(out)
    methods = [name for name in s5.METHODS if any(r["method"] == name for r in found)]
    runs, shown, _ = select(found, names, methods)
    s5.figure(runs, shown).savefig(out / "curves.png", dpi=110)
    text = s5.markdown(runs, shown)
    (out / "ranks.md").write_text(text)
    if as_json:
        told = {after: dict(zip(shown, map(vars, ranks), strict=True)) for after, ranks in s5.ranks(runs).items()}
        text = json.dumps({"mean ranks after": told}, indent=2) + "\n"
    typer.echo(text, nl=False)
