"""What an editor and a type checker can know: every public signature is complete, every lazy name resolves."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

import presage

ROOT = Path(presage.__file__).parent
MODULES = sorted(
    module.name for module in pkgutil.walk_packages([str(ROOT)], "presage.")
    if not any(part.startswith("_") for part in module.name.split(".")) and not module.name.startswith("presage.cli")
)  # fmt: skip


def lacking(name, function, bound=False):
    """What a signature does not say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    for place, parameter in enumerate(signature.parameters.values()):
        if parameter.annotation is parameter.empty and not (bound and place == 0):
            yield f"{name}: {parameter.name}"
    if signature.return_annotation is signature.empty and not name.endswith("__init__"):
        yield f"{name}: what it returns"


def of_class(cls):
    for name, member in vars(cls).items():
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        where = f"{cls.__module__}.{cls.__qualname__}.{name}"
        if isinstance(member, property):
            yield from lacking(where, member.fget, bound=True)
        elif isinstance(member, cached_property):
            yield from lacking(where, member.func, bound=True)
        elif isinstance(member, staticmethod):
            yield from lacking(where, member.__func__)
        elif isinstance(member, classmethod):
            yield from lacking(where, member.__func__, bound=True)
        elif inspect.isfunction(member) and member.__module__ == cls.__module__:
            yield from lacking(where, member, bound=True)


def unsaid(module):
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            yield from of_class(value)
        elif inspect.isfunction(value):
            yield from lacking(f"{module.__name__}.{name}", value)


@pytest.mark.parametrize("name", MODULES)
def test_public_signatures_are_complete(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:  # of a library that some parts of presage are for
        cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        if not cause.name or cause.name.startswith("presage"):
            raise
        pytest.skip(f"needs {cause.name}")
    assert not list(unsaid(module))


def test_the_walk_sees_what_lacks():
    """A test that finds nothing would pass on everything."""

    class Probe:
        def __init__(self, x):
            pass

        def method(self, y: int): ...

        @property
        def fact(self):
            return 1

        @staticmethod
        def make(z) -> int:
            return 1

        def whole(self, x: int) -> int:
            return x

    found = {text.rpartition(".")[2] for text in of_class(Probe)}
    assert found == {"__init__: x", "method: what it returns", "fact: what it returns", "make: z"}
    assert len(MODULES) > 100


LAZY = sorted(
    ".".join(("presage", *path.parent.relative_to(ROOT).parts)) for path in ROOT.rglob("__init__.py")
    if "__getattr__ = later(" in path.read_text()
)  # fmt: skip


@pytest.mark.parametrize("name", LAZY)
def test_lazy_names_are_listed(name):
    """dir() is what a console completes from, __all__ what an editor does."""
    module = importlib.import_module(name)
    assert len(LAZY) == 6
    assert set(module.__all__) <= set(dir(module))
    for each in module.__all__:
        assert getattr(module, each) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


SEEN = """
import presage

reveal_type(presage.minimize)
reveal_type(presage.surrogates.HMCNetwork())
reveal_type(presage.acquisitions.KnowledgeGradient())
reveal_type(presage.design.tune)
reveal_type(presage.Study({"x": presage.Float(0, 1)}).ask())
reveal_type(presage.sklearn.BayesSearchCV(None, {}).fit(None))
reveal_type(presage.load_study("study.db").best.value)
"""


@pytest.mark.slow
def test_a_type_checker_resolves_lazy_names(tmp_path):
    """mypy as a user has it: the package is typed, and nothing that is asked for is Any."""
    assert (ROOT / "py.typed").exists()
    (tmp_path / "seen.py").write_text(SEEN)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "seen.py", "--follow-imports=silent", "--ignore-missing-imports"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={"MYPYPATH": str(ROOT.parent), "PATH": ""},
    )  # fmt: skip
    found = [
        line.partition('Revealed type is "')[2].rstrip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    assert len(found) == 7, done.stdout + done.stderr
    minimize, network, gradient, tune, trial, search, value = found
    assert minimize.startswith("def (objective: ")
    assert minimize.endswith("presage.loop.Result")
    assert network == "presage.surrogates.hmc_network.HMCNetwork"
    assert gradient == "presage.acquisitions.knowledge.KnowledgeGradient"
    assert tune.endswith("presage.design.tuning.Tuned")
    assert trial == "presage.trial.Trial"
    assert search == "presage.sklearn.search.BayesSearchCV"
    assert value.replace("Union[", "").startswith("float")
