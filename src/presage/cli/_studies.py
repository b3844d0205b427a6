"""Reading studies that exist. Replays the events, so that nothing is written and nothing but JSON is needed."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.errors import StudyError

if TYPE_CHECKING:
    from presage.history import History
    from presage.storage import Storage
    from presage.trial import Trial

StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage", "-s", envvar="PRESAGE_STORAGE", metavar="FILE|URL",
        help="Where studies are kept: a file such as study.db, or a URL.",
    ),
]  # fmt: skip
NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Which study; may be left out where there is only one.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


def open_existing(place: str | None) -> "Storage":
    """The storage, which must be there: a look never makes a file."""
    if not place:
        raise typer.BadParameter("it is needed here; give it, or set PRESAGE_STORAGE", param_hint="--storage")
    from presage.storage import open_storage

    return open_storage(place, create=False)


def read(storage: "Storage", place: str | None, name: str | None) -> tuple[str, "History"]:
    """A study's name and past; without a name, of the only one there is."""
    names = storage.studies()
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        wanted = "a study's name must be given" if name is None else f"there is no study {name!r}"
        has = f"has {', '.join(map(repr, names))}" if names else "is empty"
        raise StudyError(f"{wanted}; the storage {shown(place)} {has}")
    return name, replay(storage, name)


def replay(storage: "Storage", name: str) -> "History":
    """What a study's events add up to."""
    from presage.history import History

    history = History()
    for event in storage.read(name):
        history.apply(event)
    return history


def shown(place: str | None) -> str:
    """A storage's address without the password that it may hold."""
    return re.sub(r"://.*@", "://***@", re.sub(r"(://.*)\?.*", r"\1", str(place), flags=re.DOTALL), flags=re.DOTALL)


def best_of(history: "History") -> "Trial | None":
    """The complete trial with the best value, if there is one."""
    return None if history.best is None else history.trials[history.best]


def summary(name: str, history: "History", living: set[str]) -> dict[str, Any]:
    """A study in a few plain facts; trials whose worker is lost count as waiting, since they will be run again."""
    from presage.leases import gone

    lost = {number for number, owner in history.owners.items() if owner not in living or gone(owner)}
    states = ["waiting" if trial.number in lost else trial.state for trial in history.trials]
    best = best_of(history)
    moments = [m for t in history.trials for m in (t.suggested, t.finished) if m is not None]
    return {
        "name": name, "direction": history.header["direction"], "trials": len(states),
        **{state: states.count(state) for state in ("complete", "failed", "running", "waiting")},
        "best": None if best is None else best.value, "created": history.header["at"],
        "changed": max([history.header["at"], *moments]),
    }  # fmt: skip
