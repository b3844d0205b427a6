"""Slow places of other libraries, replaced by ones that give the same points, for traces that take hours.

    cp benchmarks/hasten.py hebo/lib/python3.11/site-packages/sitecustomize.py    # an environment of its own
    presage bench run --methods hebo --python hebo=hebo/bin/python ...

Python imports a file of that name when it starts; nothing is replaced before the library is imported. Not for timings.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def mixed(module: ModuleType) -> None:
    """pymoo compares every pair of candidates to find equal ones; here they are looked up.

    Of equal candidates the last stays, as there; two thirds of HEBO's time.
    """

    def _do(self: Any, pop: Any, other: Any, is_duplicate: Any) -> Any:
        def told(one: Any) -> tuple[Any, ...]:
            return tuple(one.X[name] for name in names)

        names = list(pop[0].X) if len(pop) else []
        seen = {told(one) for one in other} if other is not None else set()
        for i in reversed(range(len(pop))):
            key = told(pop[i])
            if key in seen:
                is_duplicate[i] = True
            elif other is None:
                seen.add(key)
        return is_duplicate

    module.MixedVariableDuplicateElimination._do = _do


CHANGES: dict[str, Callable[[ModuleType], None]] = {"pymoo.core.mixed": mixed}


class Changed(importlib.abc.Loader):
    """A module's own loader, and its change afterwards."""

    def __init__(self, loader: importlib.abc.Loader, change: Callable[[ModuleType], None]) -> None:
        self.loader, self.change = loader, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.change(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules that are to be changed as the other finders do."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Changed(spec.loader, CHANGES[name])
        return spec


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, Finder())
