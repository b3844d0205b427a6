"""`presage demo`: watch it work."""

from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._studies import JsonOption
from presage.errors import StudyError

if TYPE_CHECKING:
    from rich.table import Table

    from presage.functions import Function
    from presage.study import Study

NEXT = """
Next:
  presage run -p lr=log:1e-5:0.1 -- python train.py --lr {lr}    tune a command
  presage run module:function                                    tune a Python function
  presage run --help                                             all that it can do"""


def demo(
    function: Annotated[
        str, typer.Option("--function", "-f", help="branin, hartmann6, ackley or another of presage.functions.")
    ] = "branin",
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="How many evaluations.")] = 30,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another run.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Tune a test function whose minimum is known, and see how near it comes.

    Example:
      presage demo --function hartmann6 --trials 50
    """
    from presage import functions
    from presage.cli._output import best_lines, err, out
    from presage.loop import minimize

    known = {f.name: f for f in functions.FUNCTIONS}
    if function not in known:
        raise StudyError(f"the function must be one of {', '.join(known)}, but got {function!r}")
    f = known[function]
    err().print(f"Minimising {f.name}, {f.space.dim}-dimensional, in {trials} trials.", style="dim")
    result = minimize(f, f.space, trials, seed=seed)
    if result.stopped == "interrupted":
        raise typer.Exit(130)
    console, study = out(), result.study
    if as_json:
        import json

        told = {"function": f.name, "minimum": f.minimum, "trials": len(study.trials), "best": study.best.to_json()}
        typer.echo(json.dumps(told, indent=2))
        return
    console.print(_progress(study, f))
    console.print("\n".join(best_lines(study.best)), style="green", soft_wrap=True)
    console.print(f"The known minimum is {f.minimum:.6g}: {study.best.values[0] - f.minimum:.2g} lower.")
    console.print(NEXT, soft_wrap=True)


def _progress(study: "Study", f: "Function") -> "Table":
    """The best value after more and more trials."""
    from presage.cli._output import brief, table

    rows = table("trials", "best", "above the minimum", right=("trials", "best", "above the minimum"))
    values = [trial.values[0] for trial in study.trials if trial.values]
    shown = sorted({n for n in (1, 5, 10, 20, 30, 50, 100, 200, 500) if n < len(values)} | {len(values)})
    for count in shown:
        best = min(values[:count])
        rows.add_row(str(count), brief(best), f"{best - f.minimum:.2g}")
    return rows
