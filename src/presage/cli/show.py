"""`presage show`: one study."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._studies import JsonOption, NameArgument, StorageOption, open_existing, read

if TYPE_CHECKING:
    from presage.history import History
    from presage.storage import Storage


def show(
    name: NameArgument = None,
    storage: StorageOption = None,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="How many of the last trials.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="What would be done for the next trial, and why, instead of the trials.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a study: settings, best trial, last trials, failures.

    Examples:
      presage show tuning --storage study.db
      presage show tuning --storage study.db --explain
    """
    from presage.table import summary

    place = open_existing(storage)
    name, history = read(place, storage, name)
    if explain:
        return _explain(name, history, place, as_json)
    facts = summary(name, history, place.living(name))
    if as_json:
        typer.echo(json.dumps(_facts(facts, history, last), indent=2))
    else:
        _print(facts, history, last)
    return None


def _explain(name: str, history: "History", place: "Storage", as_json: bool) -> None:
    from presage.cli._output import clean, out
    from presage.errors import StudyError
    from presage.explain import explain
    from presage.insight import Record

    for what, setting in history.settings.items():
        if not isinstance(setting, str):
            raise StudyError(
                f"study {name!r} was made with the {what} {setting['object']}, which is not stored; in Python, "
                "load_study with it and study.explain() tell"
            )
    told = explain(Record.after(history, place, name))
    if as_json:
        typer.echo(json.dumps(told.to_json(), indent=2))
    else:
        out().print(clean(repr(told)), soft_wrap=True)


def _facts(facts: dict[str, Any], history: "History", last: int) -> dict[str, Any]:
    from presage.table import best_of

    best = best_of(history)
    fixed = {key: history.header.get(key) for key in ("initial", "seed", "replicates")}
    return {
        **facts, **history.settings, **fixed, "space": history.space.to_json(),
        "best": None if best is None else best.to_json(),
        "last": [trial.to_json() for trial in history.trials[max(0, len(history.trials) - last) :]],
    }  # fmt: skip


def _print(facts: dict[str, Any], history: "History", last: int) -> None:
    from presage.cli._output import best_lines, brief, duration, line, out, pairs, table
    from presage.cli._params import describe
    from presage.table import best_of

    console, header, settings, best = out(), history.header, history.settings, best_of(history)
    states = ("complete", "failed", "running", "waiting")
    counts = ", ".join(f"{facts[state]} {state}" for state in states if facts[state])
    console.print(line(facts["name"]), style="bold")
    for what, text in {
        "direction": facts["direction"],
        "trials": f"{facts['trials']}" + (f" ({counts})" if counts else ""),
        "model": f"surrogate {_setting(settings['surrogate'])}, acquisition {_setting(settings['acquisition'])}, "
        f"{header['initial']} initial trials, seed {header['seed']}",
    }.items():
        console.print(f"{what:10}{line(text, 2000)}")
    for number, (key, axis) in enumerate(history.space.items()):
        console.print(f"{'' if number else 'space':10}{line(key)}={line(describe(axis))}", soft_wrap=True)
    if best is not None:
        console.print()
        console.print("\n".join(best_lines(best)), style="green", soft_wrap=True)
    if history.trials and last:
        rows = table("trial", "state", "value", "params", "took", right=("trial", "value", "took"))
        for t in history.trials[-last:]:
            value = "" if t.value is None else brief(t.value)
            rows.add_row(str(t.number), t.state, value, pairs(t.params), duration(t), style="red" if t.failure else "")
        console.print(rows)
    failures = [t for t in history.trials if t.failure][-5:]
    if failures:
        shown = f"the last {len(failures)} of {facts['failed']} failures" if facts["failed"] > 5 else "failures"
        console.print(shown, style="bold")
    for t in failures:
        assert t.failure is not None
        console.print(f"  trial {t.number}: {t.failure.kind}: {line(t.failure.message)}")


def _setting(stored: Any) -> str:
    return stored if isinstance(stored, str) else stored["object"]
