"""Imports go one way, and what a user does not use is not imported."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import presage

ROOT = Path(presage.__file__).parent

# A module imports from its own package and from lines above its own only.
LAYERS = """
    errors markup lazy threads
    dimensions
    space
    trial
    observations
    sobol lbfgs warping priors inference networks preview
    kernels means
    surrogates
    acquisitions
    proposers
    executors storage functions
    history leases
    effort
    journal suggester
    ledger replay audit
    study
    table insight
    advice plots explain
    design
    progress dashboard report
    loop
    benchmarks
    experiments integrations
    testing cli sklearn
    __main__
"""
ORDER = {name: layer for layer, line in enumerate(LAYERS.split("\n")) for name in line.split()}

# These know less than their place would let them.
ONLY = {
    "executors": {"errors", "trial"},
    "storage": {"errors"},
    "functions": {"errors", "dimensions", "space"},
    "progress": {"trial", "advice"},
}
# study.optimize and study.explain are conveniences: both know the study, and it calls them by name when asked to.
BACK = {("study", "loop"), ("study", "explain")}


def part(module: str) -> str:
    """The name below presage that a module belongs to; empty for presage itself."""
    return ".".join(module.split(".")[1:2])


def imports(path: Path) -> set[str]:
    """The parts of presage that a file imports, at the top or inside functions, but not for the type checker only."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: presage imports itself by full names"
            public = {f"presage.{presage._HOME.get(alias.name, alias.name)}" for alias in node.names}
            found |= public - {"presage.__version__"} if node.module == "presage" else {node.module or ""}
    return {part(name) for name in found if name.split(".")[0] == "presage"} - {""}


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_points_back(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    assert own in ORDER, f"say in LAYERS where {own} belongs"
    for other in imports(path) - {own}:
        assert other in ORDER, f"say in LAYERS where {other} belongs"
        assert other in ONLY.get(own, ORDER), f"{own} may know {ONLY[own]} only, and imports {other}"
        assert ORDER[other] < ORDER[own] or (own, other) in BACK, f"{own} is below {other} and must not import it"


def test_the_walk_sees_every_kind_of_import(tmp_path):
    """A test that finds nothing would pass on everything."""
    file = tmp_path / "probe.py"
    file.write_text(
        "import numpy, presage.space\nfrom presage import lbfgs, Result, __version__\nfrom presage.trial import Trial\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from presage.study import Study\n"
        "def f():\n    from presage.history import History\n"
    )
    assert imports(file) == {"space", "lbfgs", "loop", "trial", "history"}
    assert imports(ROOT / "study.py") >= {"history", "suggester", "loop"}
    assert len(FILES) > 30


def loaded(code: str) -> set[str]:
    """The top-level modules that a new process has after running some code."""
    script = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


HEAVY = {
    "jax",
    "jaxlib",
    "equinox",
    "scipy",
    "sqlalchemy",
    "rich",
    "typer",
    "cloudpickle",
    "pebble",
    "pandas",
    "sklearn",
}


def test_import_presage_imports_nothing_heavy():
    assert not loaded("import presage; presage.Space; presage.Float") & HEAVY


def test_a_default_study_imports_neither_jax_nor_what_it_does_not_use():
    code = """
import presage
space = presage.Space({"x": presage.Float(0, 1), "n": presage.Int(1, 9)})
result = presage.minimize(lambda p: p["x"] * p["n"], space, trials=10, seed=0, progress=False)
assert result.trials[-1].source == "model"
"""
    assert loaded(code) & HEAVY <= {"scipy"}


def test_a_search_of_scikit_learns_imports_no_jax():
    assert "jax" not in loaded("from presage.sklearn import BayesSearchCV, spaces")


def test_random_search_on_a_file_imports_no_scipy(tmp_path):
    code = f"""
import presage
space = presage.Space({{"x": presage.Float(0, 1), "n": presage.Int(1, 9)}})
study = presage.Study(space, surrogate="random", storage={str(tmp_path / "study.db")!r})
study.optimize(lambda p: p["x"] * p["n"], 3)
"""
    assert loaded(code) & HEAVY <= {"sqlalchemy"}
