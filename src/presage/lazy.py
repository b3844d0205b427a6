"""Names that a package has and imports when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: by name, the module in which it lives; empty for a name that is a module itself."""

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: Any = import_module(f"{package}.{home[name] or name}")
        if home[name]:
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)  # so that it is asked once
        return value

    return get
