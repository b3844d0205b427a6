"""`presage doctor`: what is there, how fast it is, and what is missing."""

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Any

import typer

from presage.cli._studies import JsonOption, StorageOption

EXTRAS = {
    "dashboard": ("starlette", "uvicorn"), "postgres": ("psycopg",), "dask": ("distributed",), "ray": ("ray",),
    "mpi": ("mpi4py",), "optuna": ("optuna",), "mlflow": ("mlflow-skinny",),
}  # fmt: skip
USES = {
    "dashboard": "presage dashboard", "postgres": "studies shared by many machines", "dask": "running trials on Dask",
    "ray": "running trials on Ray", "mpi": "running trials under MPI", "optuna": "presage as Optuna's sampler",
    "mlflow": "trials in MLflow",
}  # fmt: skip


def doctor(
    storage: StorageOption = None,
    devices: Annotated[bool, typer.Option("--devices/--no-devices", help="Ask JAX what it can compute on.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Check the installation: versions, devices, speed, storage, and what is missing.

    Ends with exit code 1 where something that presage needs does not work.

    Examples:
      presage doctor
      presage doctor --storage study.db --json
    """
    found: dict[str, Any] = {
        "versions": _versions(), "machine": _machine(), "devices": _devices() if devices else None, "speed": _speed(),
        "extras": _extras(), "storage": _storage(storage) if storage else None,
    }  # fmt: skip
    problems = [f"{name} is missing; pip install {name}" for name, has in found["versions"].items() if has is None]
    problems += [
        part["error"] for part in (found["devices"], found["speed"], found["storage"]) if part and "error" in part
    ]
    found["problems"] = problems
    typer.echo(json.dumps(found, indent=2)) if as_json else _print(found)
    if problems:
        raise typer.Exit(1)


def _versions() -> dict[str, str | None]:
    """presage, Python and every package that presage needs; None where one is missing."""
    import re

    try:
        needed = [re.split(r"[\s<>=!~;\[]", text)[0] for text in requires("presage") or () if "extra ==" not in text]
    except PackageNotFoundError:  # run from its source without having been installed
        needed = ["numpy", "scipy", "threadpoolctl", "sqlalchemy", "typer", "rich", "cloudpickle", "jax", "matplotlib"]
    import presage

    return {
        "presage": presage.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in needed},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    from presage.threads import usable_cores

    facts: dict[str, Any] = {"system": platform.platform(), "cores": os.cpu_count(), "usable_cores": usable_cores()}
    if hasattr(os, "getloadavg"):
        facts["load"] = round(os.getloadavg()[0], 2)
    return facts


def _devices() -> dict[str, Any]:
    try:
        import jax

        return {"jax": [f"{device.platform}:{device.device_kind}" for device in jax.devices()]}
    except Exception as error:  # noqa: BLE001  # a broken driver raises what it likes, and this is where it is told
        return {"error": f"JAX cannot compute: {error}"}


def _speed() -> dict[str, Any]:
    """Milliseconds for a suggestion on Branin with 20 values: the first of a process, and the median of those after."""
    import numpy as np

    from presage import functions
    from presage.sobol import sobol
    from presage.study import Study

    f = functions.branin
    study = Study(f.space, seed=0)
    points = [f.space.decode(u) for u in sobol(20, f.space.dim, np.random.default_rng(0))]
    study.tell_many(points, [f(point) for point in points])
    times = []
    for _ in range(4):
        began = time.perf_counter()
        trial = study.ask()
        times.append(1000.0 * (time.perf_counter() - began))
        study.tell(trial, f(trial.params))
    return {"first_ms": round(times[0], 1), "suggestion_ms": round(sorted(times[1:])[1], 1)}


def _extras() -> dict[str, Any]:
    found = {}
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if _version(package) is None]
        found[extra] = {
            "for": USES[extra], "installed": not missing, "missing": missing,
            **({"remedy": f"pip install 'presage[{extra}]'"} if missing else {}),
        }  # fmt: skip
    return found


def _storage(place: str) -> dict[str, Any]:
    from presage.cli._studies import open_existing, shown
    from presage.errors import PresageError

    try:
        began = time.perf_counter()
        opened = open_existing(place)
        names = opened.studies()
        events = sum(len(opened.read(name)) for name in names)
    except PresageError as error:
        return {"place": shown(place), "error": str(error)}
    took = round(1000.0 * (time.perf_counter() - began), 1)
    return {"place": shown(place), "studies": len(names), "events": events, "read_ms": took}


def _print(found: dict[str, Any]) -> None:
    from presage.cli._output import line, out

    console = out()
    versions = ", ".join(f"{name} {has or 'MISSING'}" for name, has in found["versions"].items())
    machine = found["machine"]
    console.print(f"versions   {versions}", soft_wrap=True)
    console.print(
        f"machine    {machine['system']}, {machine['usable_cores']} of {machine['cores']} cores", soft_wrap=True
    )
    if found["devices"]:
        console.print(f"devices    {', '.join(found['devices'].get('jax', ['none']))}", soft_wrap=True)
    console.print(f"speed      a suggestion takes {found['speed']['suggestion_ms']:g} ms (Branin, 20 values)")
    storage = found["storage"]
    if storage is None:
        console.print("storage    none given; --storage or presage.toml (presage init) says where studies are kept")
    elif "error" not in storage:
        console.print(f"storage    {line(storage['place'])}: {storage['studies']} studies, {storage['events']} events")
    for extra, facts in found["extras"].items():
        state = "installed" if facts["installed"] else f"not installed; for {facts['for']}: {facts['remedy']}"
        console.print(f"{'extras' if extra == 'dashboard' else '':10} {extra}: {state}", soft_wrap=True)
    for problem in found["problems"]:
        console.print(f"problem    {line(problem, 2000)}", style="red", soft_wrap=True)
    if not found["problems"]:
        console.print("All is well.", style="green")
