"""`presage worker`: one of many processes, on any machines, that work on one study."""

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import StorageOption, replay, shown
from presage.cli.run import ENGINE_HELP, JSON_RESULT, _option, _print_json, _signals, _stop, _tell_plainly

if TYPE_CHECKING:
    from presage.study import Study


def worker(
    what: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What to tune.")],
    storage: StorageOption = None,
    name: Annotated[str, _option("--name", unit="NAME", help="Of the study; the first worker makes it.")] = "study",
    jobs: Annotated[int, _option("--jobs", "-j", unit="N", min=1, help="Trials at once in this worker.")] = 1,
    engine: Annotated[str | None, _option("--engine", unit="NAME", help=ENGINE_HELP)] = None,
    quiet: Annotated[bool, _option("--quiet", "-q", help="Print errors only.")] = False,
    as_json: Annotated[bool, _option("--json", help=JSON_RESULT)] = False,
    trials: Annotated[
        int | None,
        _stop("--trials", "-n", unit="N", min=1, help="Stop when the study has so many; else when told to."),
    ] = None,
    timeout: Annotated[
        float | None, _stop("--timeout", unit="SECONDS", help="A trial that takes longer fails.")
    ] = None,
    max_failures: Annotated[
        int, _stop("--max-failures", unit="N", min=1, help="Give up after so many failures in a row.")
    ] = 10,
    lease: Annotated[
        float,
        _option("--lease", unit="SECONDS", help="Without a sign of life for so long, its trials go to others."),
    ] = 60.0,
    maximize: Annotated[
        bool, _option("--maximize", help="Look for the largest value; a study that exists must do so.")
    ] = False,
    surrogate: Annotated[
        str | None, _option("--surrogate", unit="NAME", help="For a new study; auto where left out.")
    ] = None,
    seed: Annotated[
        int | None, _option("--seed", unit="N", min=0, help="For a new study: makes suggestions repeatable.")
    ] = None,
) -> None:
    """Join a study: evaluate trials until it has enough of them.

    Any number of workers on any machines share a PostgreSQL database, those of one machine may share a file. A worker
    may be killed at any time: what it was evaluating is given to another. The space of a new study is the function's
    attribute `space`, or SPACE or `space` in its module; where there is one, a study that exists must have the same.
    The current folder is importable.

    Example:
      presage worker train:loss --storage postgresql://me@host/studies --name tuning --trials 1000
    """
    from presage.cli._objective import load_objective
    from presage.cli._output import err, line, several

    if not storage:
        raise typer.BadParameter("it is needed here; give it, or set PRESAGE_STORAGE", param_hint="--storage")
    objective, module = load_objective(what)
    study = _join(storage, name, what, objective, module, maximize, {"surrogate": surrogate, "seed": seed})
    if not quiet:
        done = several(study._history.finished, "trial")
        err().print(f"Joined study {line(name)!r} in {shown(storage)}: {done} done.", style="dim")
    with _signals() as received:
        result = study.optimize(
            objective, sys.maxsize if trials is None else trials, workers=jobs, executor=engine, timeout=timeout,
            max_failures=max_failures, lease=lease, callbacks=() if quiet else (_tell_plainly(),),
        )  # fmt: skip
    if result.stopped == "interrupted":
        raise typer.Exit(128 + (received or [signal.SIGINT])[0])
    if as_json:
        _print_json(result)
    elif not quiet:
        why = "" if result.stopped == "trials" else f"; this worker ends ({result.stopped})"
        err().print(f"The study has {several(study._history.finished, 'finished trial')}{why}.", style="dim")


def _join(
    place: str, name: str, target: str, objective: Any, module: Any, maximize: bool, settings: dict[str, Any]
) -> "Study":
    """The study of that name as it is, if it is the one that the module is for; or a new one."""
    from presage.cli._objective import find_space, own_space
    from presage.errors import StudyError
    from presage.storage import open_storage
    from presage.study import Study, load_study

    storage = open_storage(place)
    if name in storage.studies():
        space = own_space(objective, module)
        if space is None and replay(storage, name).stored_space["constraints"]:  # they are the module's to give
            space = find_space(objective, module, target)
        if maximize and storage.read(name, 0, 1)[0].payload["direction"] != "maximize":
            raise StudyError(
                f"study {name!r} exists, so its direction must be minimize, but got --maximize; leave it out or use "
                "another --name"
            )
        return load_study(storage, name, space=space, surrogate=settings["surrogate"])
    given = {what: value for what, value in settings.items() if value is not None}
    joins = f"there is no study {name!r} in {shown(place)} that it could join: give the --name of one or, "
    space = find_space(objective, module, target, joins)
    return Study(space, direction="maximize" if maximize else "minimize", storage=storage, name=name, **given)
