"""Hypothesis draws the same examples in every run; HYPOTHESIS_PROFILE=search draws many new ones."""

import contextlib
import importlib.util
import os
import shutil
import signal

import pytest
from hypothesis import settings

from presage.testing import postgres as pg
from presage.threads import few_threads

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# What is not there is skipped, unless PRESAGE_REQUIRE names it, as .ci/run does: there a skip would hide a failure.
REQUIRED = os.environ.get("PRESAGE_REQUIRE", "").split(",")
PRESENT = {
    "postgres": lambda: pg.available() and importlib.util.find_spec("psycopg") is not None,
    "dask": lambda: importlib.util.find_spec("distributed") is not None,
    "ray": lambda: importlib.util.find_spec("ray") is not None,
    "tune": lambda: all(map(importlib.util.find_spec, ("ray", "pandas", "pyarrow"))),
    "mlflow": lambda: all(map(importlib.util.find_spec, ("mlflow", "alembic"))),
    "skopt": lambda: importlib.util.find_spec("skopt") is not None,
    "optuna": lambda: importlib.util.find_spec("optuna") is not None,
    "chromium": lambda: all(map(importlib.util.find_spec, ("playwright", "uvicorn"))) and shutil.which("chromium"),
    "mkdocs": lambda: all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings", "latex2mathml"))),
    "notebook": lambda: all(map(importlib.util.find_spec, ("nbclient", "ipykernel"))),
    "mpi": lambda: importlib.util.find_spec("mpi4py") is not None and shutil.which("mpiexec") is not None,
}


def pytest_configure():
    # In the background of a script Ctrl-C is ignored, and would be by every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    for item in items:
        for mark in item.iter_markers("needs"):
            for what in mark.args:
                if what not in REQUIRED and not PRESENT[what]():
                    item.add_marker(pytest.mark.skip(reason=f"needs {what}"))


@pytest.fixture(scope="module")
def one_thread():
    """Linear algebra on one thread, as studies do it; on a busy machine the default threads wait for each other."""
    with few_threads():
        yield


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server that tests share; its address is in the environment for the processes they start."""
    with pg.Server() as server:
        os.environ["PRESAGE_TEST_POSTGRES"] = server.url
        yield server


@pytest.fixture
def empty_postgres(postgres, request):
    """The URL of an empty corner of it."""
    return corner(request.node.name)


def corner(name):
    """A URL whose tables are apart from those of any other name."""
    import hashlib

    import psycopg

    url = os.environ["PRESAGE_TEST_POSTGRES"]
    schema = "t" + hashlib.sha256(name.encode()).hexdigest()[:16]
    # Two processes that make it at once both find that it is not there, and one of them is then told that it is.
    with psycopg.connect(url, autocommit=True) as connection, contextlib.suppress(psycopg.errors.UniqueViolation):
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    return f"{url}?options=-csearch_path%3D{schema}"
