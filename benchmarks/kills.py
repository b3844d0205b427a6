"""Kill the workers of SQLite studies again and again, and record that nothing told was lost.

    python benchmarks/kills.py --kills 1000

The result is kept in benchmarks/results/kills.json; tests/test_kills.py does the same with 30 kills.
"""

import argparse
import json
import os
import platform
import sqlite3
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from presage.testing.kills import integrity, kill_test

RESULT = Path(__file__).parent / "results" / "kills.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.db")
        report = kill_test(path, options.kills, options.workers, options.seed, sound=lambda: integrity(path))
    given = " ".join(f"--{name} {value}" for name, value in vars(options).items())
    result = {
        "command": f"python benchmarks/kills.py {given}",
        "machine": {
            "cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{name: version(name) for name in ("presage", "sqlalchemy", "numpy")},
        },
        **asdict(report) | {"seconds": round(report.seconds, 1)},
        "faults": {rule: len(faults) for rule, faults in report.faults.items()},
    }  # fmt: skip
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    if report.broken or report.kills < options.kills:
        raise SystemExit(f"{report.kills} of {options.kills} kills, and broken: {json.dumps(report.broken, indent=1)}")


if __name__ == "__main__":
    main()
