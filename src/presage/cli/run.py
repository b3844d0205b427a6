"""`presage run`: tune a command or a Python function."""

import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import StorageOption, replay, shown
from presage.errors import PresageError

if TYPE_CHECKING:
    from presage.cli._command import CommandRunner
    from presage.loop import Callback, Result
    from presage.space import Space
    from presage.study import Study
    from presage.trial import Trial

Objective = Callable[..., Any]
PARAM_HELP = (
    "A dimension of the search: NAME=float:LOW:HIGH, log:LOW:HIGH, step:LOW:HIGH:STEP, int:LOW:HIGH, "
    "intstep:LOW:HIGH:STEP, logint:LOW:HIGH, choice:A,B,... or const:VALUE."
)
ENGINE_HELP = "Where functions run: serial, threads, processes, dask, dask://host:port, ray, ray://host:port or mpi."
JSON_RESULT = "Print the result as JSON, and nothing else on stdout."
JSON_HELP = "The value is this field of the JSON object in the command's last line of output; dots go deeper."


def _option(*names: str, help: str, unit: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, metavar=unit, **more)


_search = partial(_option, rich_help_panel="The search")
_stop = partial(_option, rich_help_panel="When to stop")
_model = partial(_option, rich_help_panel="The model")


def run(
    what: Annotated[list[str], typer.Argument(metavar="MODULE:FUNCTION | -- COMMAND", help="What to tune.")],
    param: Annotated[list[str], _search("--param", "-p", unit="NAME=KIND:...", help=PARAM_HELP)] = [],  # noqa: B006
    start: Annotated[
        list[str], _search("--start", unit="NAME=VALUE,...", help="What a new study tries first; may be repeated.")
    ] = [],  # noqa: B006
    maximize: Annotated[bool, _search("--maximize", help="Look for the largest value, not the least.")] = False,
    json_field: Annotated[str | None, _search("--json-field", unit="FIELD", help=JSON_HELP)] = None,
    jobs: Annotated[int, _option("--jobs", "-j", unit="N", min=1, help="Trials at once.")] = 1,
    engine: Annotated[str | None, _option("--engine", unit="NAME", help=ENGINE_HELP)] = None,
    storage: StorageOption = None,
    name: Annotated[str, _option("--name", unit="NAME", help="Of the study; one that exists is continued.")] = "study",
    quiet: Annotated[bool, _option("--quiet", "-q", help="Print the result only.")] = False,
    as_json: Annotated[bool, _option("--json", help=JSON_RESULT)] = False,
    trials: Annotated[
        int, _stop("--trials", "-n", unit="N", min=1, help="Finished trials in all, earlier runs included.")
    ] = 50,
    timeout: Annotated[
        float | None, _stop("--timeout", unit="SECONDS", help="A trial that takes longer fails.")
    ] = None,
    seconds: Annotated[
        float | None, _stop("--seconds", unit="SECONDS", help="Start nothing new after so long.")
    ] = None,
    target: Annotated[float | None, _stop("--target", unit="VALUE", help="Stop at a value as good as this.")] = None,
    patience: Annotated[
        int | None, _stop("--patience", unit="N", min=1, help="Stop after N values without a better one.")
    ] = None,
    worth: Annotated[
        float | None,
        _stop("--worth", unit="VALUE", help="Stop once an improvement of more than VALUE is unlikely (below 5 %)."),
    ] = None,
    max_failures: Annotated[
        int, _stop("--max-failures", unit="N", min=1, help="Give up after so many failures in a row.")
    ] = 10,
    surrogate: Annotated[
        str | None, _model("--surrogate", unit="NAME", help="auto, gp, gp-mcmc, student-t, rf, neural, random, ...")
    ] = None,
    acquisition: Annotated[
        str | None, _model("--acquisition", unit="NAME", help="auto, ei, eips, pi, lcb, mes, ts, ...")
    ] = None,
    initial: Annotated[
        int | None, _model("--initial", unit="N", min=1, help="Trials before the model is asked.")
    ] = None,
    seed: Annotated[int | None, _model("--seed", unit="N", min=0, help="Makes suggestions repeatable.")] = None,
) -> None:
    """Tune a command or a Python function.

    A COMMAND has {name} where a parameter goes ({{ and }} are literal braces) and prints its value as the last line of
    standard output. It runs without a shell; PRESAGE_TRIAL and PRESAGE_PARAMS (JSON) are in its environment.

    A FUNCTION takes a dictionary of params and returns the value. Without --param the space is its attribute `space`,
    or SPACE or `space` in its module; the current folder is importable.

    Examples:
      presage run -p lr=log:1e-5:0.1 -- python train.py --lr {lr}
      presage run train:loss --trials 100 --jobs 4 --storage study.db
    """
    from presage import loop
    from presage.cli._params import parse_start

    space, objective, runner = _parse(what, param, json_field, jobs, timeout)
    if runner is not None and engine is not None:
        raise typer.BadParameter("it is for functions; commands run on this machine", param_hint="--engine")
    settings = {"surrogate": surrogate, "acquisition": acquisition, "initial": initial, "seed": seed, "name": name}
    with _usage("--start"):
        points = [parse_start(text, space) for text in start]
    study = _open(space, "maximize" if maximize else "minimize", storage, settings)
    if not study.trials:  # one that is continued has had them
        for point in points:
            study.enqueue(point)
    if runner is not None:
        runner.proven = study._history.best is not None
    if not quiet:
        _greet(study, storage, trials)
    with _signals() as received:
        result = loop.run(
            study, objective, trials=trials, workers=jobs, executor=engine if runner is None else runner,
            timeout=timeout if runner is None else None,
            seconds=seconds, target=target, patience=patience, max_failures=max_failures, progress=not quiet,
            callbacks=[*_stopping(worth), *(() if quiet or sys.stderr.isatty() else (_tell_plainly(),))],
        )  # fmt: skip
    if result.stopped == "interrupted":
        _say_how_to_resume(storage)
        raise typer.Exit(128 + (received or [signal.SIGINT])[0])
    if as_json:
        _print_json(result)
        if result.study._history.best is None:
            raise typer.Exit(1)
    else:
        _report(result, storage, quiet)


def _stopping(worth: float | None) -> "list[Callback]":
    if worth is None:
        return []
    from presage.advice import StopWhenDone

    with _usage("--worth"):
        return [StopWhenDone(worth=worth)]


def _print_json(result: "Result") -> None:
    import json

    from presage.table import best_of, summary

    study, history = result.study, result.study._history
    best, facts = best_of(history), summary(study.name, history, study.storage.living(study.name))
    told = {"stopped": result.stopped, **facts, "best": best and best.to_json()}
    typer.echo(json.dumps(told, indent=2))


def _parse(
    what: list[str], params: list[str], json_field: str | None, jobs: int, timeout: float | None
) -> "tuple[Space, Objective, CommandRunner | None]":
    """The space, the objective and, for a command, what runs it. All that is wrong here is wrong usage."""
    from presage.cli._command import Command, CommandRunner, check_command
    from presage.cli._objective import TARGET, find_space, load_objective
    from presage.cli._params import parse_params

    if timeout is not None and not 0 < timeout < float("inf"):
        raise typer.BadParameter(
            f"it must be a positive number of seconds, but got {timeout:g}", param_hint="--timeout"
        )
    with _usage("--param"):
        written = parse_params(params) if params else None
    if len(what) == 1 and TARGET.fullmatch(what[0]):
        if json_field is not None:
            raise typer.BadParameter("it is for commands; a function returns its value", param_hint="--json-field")
        objective, module = load_objective(what[0])
        if written is None:
            return find_space(objective, module, what[0], "give --param NAME=KIND:... or, "), objective, None
        return written.space, objective, None
    with _usage("COMMAND"):
        check_command(what, list(written.space) if written else [])
    if written is None:
        raise typer.BadParameter("a command needs at least one --param NAME=KIND:...", param_hint="--param")
    return written.space, Command(tuple(what), json_field, written.texts), CommandRunner(jobs, timeout)


@contextmanager
def _usage(hint: str) -> Iterator[None]:
    """Errors in the block are the command line's."""
    try:
        yield
    except PresageError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def _open(space: "Space", direction: Any, place: str | None, settings: dict[str, Any]) -> "Study":
    """A new study, or the one of that name; settings that are left out are then the stored ones."""
    from presage.storage import open_storage
    from presage.study import Study

    storage = open_storage(place)
    if settings["name"] in storage.studies():
        stored = replay(storage, settings["name"]).settings
        for what in ("surrogate", "acquisition"):
            if settings[what] is None and isinstance(stored[what], str):
                settings[what] = stored[what]
    given = {what: value for what, value in settings.items() if value is not None}
    return Study(space, direction=direction, storage=storage, **given)


def _greet(study: "Study", place: str | None, trials: int) -> None:
    from presage.cli._output import brief, err, line, several
    from presage.table import best_of

    history, best = study._history, best_of(study._history)
    if place is None:
        text = "The study is kept in memory; --storage study.db keeps it in a file, so that it can be continued."
    elif history.finished:
        known = f"{several(history.finished, 'trial')} done" + (f", best {brief(best.value)}" if best else "")
        text = f"Continuing study {line(study.name)!r} in {shown(place)}: {known}."
        if history.finished >= trials:
            text += f" That is all of --trials {trials}; raise it to go on."
    else:
        text = f"Study {line(study.name)!r} in {shown(place)}."
    err().print(text, style="dim")


def _tell_plainly() -> "Callback":
    """Prints a line per trial, for logs."""
    from presage.cli._output import brief, duration, err, line, pairs
    from presage.table import best_of

    console = err()

    def tell(study: "Study", trial: "Trial") -> None:
        best = best_of(study._history)
        if trial.failure:
            told = f"failed ({trial.failure.kind}: {line(trial.failure.message)})"
        else:
            told = f"value {brief(trial.value)}"
        so_far = f", best {brief(best.value)}" if best else ""
        console.print(f"trial {trial.number}: {told}{so_far}, {duration(trial)}, {pairs(trial.params)}")

    return tell


@contextmanager
def _signals() -> Iterator[list[int]]:
    """A request to end, or a terminal that is closed, ends the run as Ctrl-C does: with all that it started."""
    received: list[int] = []

    def interrupt(number: int, _: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
                before[number] = signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_how_to_resume(place: str | None) -> None:
    from presage.cli._output import err

    if place is None:
        err().print(
            "The study was kept in memory and is gone; with --storage study.db it could be continued.", style="dim"
        )
    else:
        command = shlex.join(["presage", *map(shown, sys.argv[1:])])
        err().print(f"Everything is kept. To go on, run it again:\n  {command}", style="dim", soft_wrap=True)


def _report(result: "Result", place: str | None, quiet: bool) -> None:
    from presage.cli._output import best_lines, err, line, out
    from presage.table import best_of

    history = result.study._history
    best, failed = best_of(history), [t for t in history.trials if t.failure]
    if failed and failed[-1].failure and not quiet:
        last = failed[-1].failure
        text = f"{len(failed)} of {len(history.trials)} trials failed, the last one: {last.kind}: {line(last.message)}"
        err().print(text, style="yellow")
    if best is None:
        err().print("Error: no trial has a value.", style="red")
        raise typer.Exit(1)
    reasons = {
        "exhausted": "Every point of the space was tried.", "seconds": "The time is up.",
        "target": "The target is reached.", "patience": "No better value for a while.",
        "request": "Somebody asked to stop.", "callback": "Little is left to gain.",
    }  # fmt: skip
    if result.stopped in reasons and not quiet:
        err().print(reasons[result.stopped])
    out().print("\n".join(best_lines(best)), style="green", soft_wrap=True)
    if place is not None and not quiet:
        hint = shlex.join(["presage", "show", result.study.name, "--storage", shown(place)])
        err().print(f"More: {hint}", style="dim", soft_wrap=True)
