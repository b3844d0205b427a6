"""Slow places of other libraries, replaced by ones that give the same points, for traces that take hours.

    cp benchmarks/hasten.py hebo/lib/python3.11/site-packages/sitecustomize.py    # an environment of its own
    presage bench run --methods hebo --python hebo=hebo/bin/python ...

Python imports a file of that name when it starts; nothing is replaced before the library is imported. Not for timings.
HEBO (pymoo), SMAC3 and scikit-optimize (scikit-learn's kernels) gain by it.
"""

import gc
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
            return tuple(map(one.X.__getitem__, names))

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


def individual(module: ModuleType) -> None:
    """Candidates of pymoo begin as a copy of one made once, and share a configuration that nothing changes."""
    shared = module.default_config()
    module.Individual.default_config = staticmethod(lambda: shared)
    fresh = dict(vars(module.Individual()))

    def __init__(self: Any, config: Any = None, **given: Any) -> None:  # noqa: N807
        own = self.__dict__
        own.update(fresh, data={}, evaluated=set(), config=shared if config is None else config)
        for name, value in given.items():
            place = next((key for key in (name, "_" + name) if key in own), None)
            if place is None:
                own["data"][name] = value
            else:
                own[place] = value

    module.Individual.__init__ = __init__


def process(module: ModuleType) -> None:
    """SMAC3 has scikit-learn copy the kernel for every likelihood, priors too; the fit that follows makes it anew."""
    likelihood = module.GaussianProcessRegressor.log_marginal_likelihood

    def log_marginal_likelihood(self: Any, theta: Any = None, eval_gradient: bool = False, **more: Any) -> Any:
        return likelihood(self, theta, eval_gradient, **{"clone_kernel": False, **more})

    module.GaussianProcessRegressor.log_marginal_likelihood = log_marginal_likelihood


def kernels(module: ModuleType) -> None:
    """A kernel of scikit-learn looks for hyperparameters in all its attributes; their names belong to its class."""
    names: dict[type, list[str]] = {}

    def hyperparameters(self: Any) -> list[Any]:
        kind = type(self)
        if kind not in names:
            names[kind] = [name for name in dir(kind) if name.startswith("hyperparameter_")]
        return [getattr(self, name) for name in names[kind]]

    module.Kernel.hyperparameters = property(hyperparameters)


CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "pymoo.core.mixed": mixed, "pymoo.core.individual": individual, "sklearn.gaussian_process._gpr": process,
    "sklearn.gaussian_process.kernels": kernels,
}  # fmt: skip


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
    gc.set_threshold(100_000, 20, 100)  # thousands of candidates a suggestion are not looked through for cycles
