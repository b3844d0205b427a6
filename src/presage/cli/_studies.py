"""Reading studies that exist. Replays the events, so that nothing is written and nothing but JSON is needed."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from presage.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

    from presage.history import History
    from presage.insight import Record
    from presage.storage import Storage

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
    history.catch_up(storage, name)
    return history


def read_record(storage: "Storage", place: str | None, name: str | None) -> "Record":
    """A study to look at, with its model."""
    from presage.insight import Record

    name, history = read(storage, place, name)
    return Record.after(history, storage, name)


def file_name(name: str) -> str:
    """A study's name as part of a file's name.

    Example:
        >>> file_name("../a b")
        'a_b'
    """
    return re.sub(r"[^\w.-]+", "_", name).strip("._")[:80] or "study"


def folder(path: "Path", hint: str) -> "Path":
    """The folder, made where there is none: what goes wrong is wrong usage, and is said before anything is computed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"it must be a folder, but {path} is none: {error.strerror}", param_hint=hint
        ) from None
    return path


def write(path: "Path", data: bytes, hint: str) -> None:
    """Write a file, and its folder where there is none; what goes wrong is wrong usage."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint=hint) from None


def shown(place: str | None) -> str:
    """A storage's address without the password that it may hold."""
    return re.sub(r"://.*@", "://***@", re.sub(r"(://.*)\?.*", r"\1", str(place), flags=re.DOTALL), flags=re.DOTALL)
