"""What every recorded result says about where it comes from."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def write(name: str, result: Any, packages: tuple[str, ...] = ("presage", "numpy", "scipy", "cmaes")) -> None:
    """Write a result with the command, the versions and the machine that made it."""
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    record = {
        "command": command, "versions": {package: version(package) for package in packages},
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "processor": platform.machine()},
        "threads": os.environ.get("OMP_NUM_THREADS"), "result": result,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
