"""Settings from the environment and from presage.toml: defaults for options, below flags."""

import os
from typing import Any

import typer

FILE = "presage.toml"


def defaults(group: Any, place: str | None) -> dict[str, dict[str, Any]]:
    """Defaults by command and parameter, as Click wants them: the environment's, then the file's.

    Args:
        group: the commands, to know what there is to set.
        place: the file; the one in the current folder if None, which need not be there.
    """
    commands = _commands(group)
    found = {} if place is None and not os.path.exists(FILE) else _from_file(commands, place or FILE)
    for name, command in commands.items():
        for option, param in _options(command).items():
            text = os.environ.get(f"PRESAGE_{name}_{option}".upper().replace("-", "_").replace(" ", "_"))
            if text is not None:
                many = any(each.name == param and each.multiple for each in command.params if hasattr(each, "multiple"))
                found.setdefault(name, {})[param] = text.split() if many else text
    nested: dict[str, dict[str, Any]] = {}
    for name, settings in found.items():
        outer, _, inner = name.partition(" ")
        nested.setdefault(outer, {}).update({inner: settings} if inner else settings)
    return nested


def _commands(group: Any) -> dict[str, Any]:
    """All commands by name; those inside a group as "group command"."""
    return {
        f"{name} {inner}".strip(): each
        for name, command in group.commands.items()
        for inner, each in getattr(command, "commands", {"": command}).items()
    }


def _from_file(commands: dict[str, Any], path: str) -> dict[str, dict[str, Any]]:
    import tomllib

    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}", param_hint="--config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} must be TOML, but: {error}", param_hint="--config") from None
    known = {name: _options(command) for name, command in commands.items()}
    found: dict[str, dict[str, Any]] = {name: {} for name in known}
    for key, value in settings.items():
        if isinstance(value, dict):
            if key not in known:
                single = ", ".join(name for name in known if " " not in name)
                raise _wrong(path, f"a section must be one of {single}, but got [{key}]")
            for option, inside in value.items():
                if option.replace("_", "-") not in known[key]:
                    has = ", ".join(sorted(known[key]))
                    raise _wrong(path, f"[{key}] may have {has}, but got {option!r}")
                found[key][known[key][option.replace("_", "-")]] = inside
        else:
            takers = [name for name in known if key.replace("_", "-") in known[name]]
            if not takers:
                raise _wrong(path, f"no command has an option {key!r}")
            for name in takers:
                if name != "init":  # writes a storage's name; does not use it
                    found[name].setdefault(known[name][key.replace("_", "-")], value)
    return found


def _options(command: Any) -> dict[str, str]:
    """Long names of a command's options, and of their parameters."""
    return {
        opt.removeprefix("--"): param.name
        for param in command.params
        for opt in (*param.opts, *param.secondary_opts)
        if opt.startswith("--") and opt not in ("--help",)
    }


def _wrong(path: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{path}: {why}", param_hint="--config")
