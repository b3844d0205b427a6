"""What must hold before a release, by one command: `make release-check`, or

    python benchmarks/release.py [--work FOLDER] [--only build clean extras imports lowest]

build: wheel and source archive. clean: both installed into new environments, where `presage doctor` and `presage demo`
run. extras: every extra can be resolved. imports: how long `import presage` and the command line take in the clean
environment. lowest: the core tests with the lowest versions that pyproject.toml allows (constraints-min.txt). Every
Python on the path is tried. Writes benchmarks/results/release.json; needs an index of packages and some GB.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import record

ROOT = Path(__file__).parent.parent
STEPS = ("build", "clean", "extras", "imports", "lowest")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# What a user meets first, without what needs other programs: spaces, studies, storage, every kind of surrogate.
CORE = (
    "acquisitions", "cli", "forests", "gaussian_process", "hmc_network", "hyperparameters", "imports", "inference",
    "kernels", "neural_basis", "plots", "resume", "sklearn", "space", "storage", "study",
)  # fmt: skip


def run(*command: str | Path, fails: bool = False, **more: Any) -> str:
    """The output of a command; an error with all of it where the command fails, unless it may."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    if done.returncode and not fails:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + (done.stderr if done.returncode else "")


def outside() -> dict[str, str]:
    """The environment without what would let the sources of this folder be found."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def environment(folder: Path, python: str = sys.executable) -> Path:
    """A new virtual environment's Python."""
    if not (folder / "bin" / "python").exists():
        run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python: Path, *what: str | Path) -> float:
    """Install; how many seconds it took."""
    began = time.monotonic()
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what, env=outside())
    return round(time.monotonic() - began, 1)


def build(work: Path) -> dict[str, Any]:
    """The archives, what they weigh, and whether everything is in them and nothing else."""
    shutil.rmtree(work / "dist", ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT)
    (wheel,), (source,) = (work / "dist").glob("*.whl"), (work / "dist").glob("*.tar.gz")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = run("git", "ls-files", "src/presage", cwd=ROOT).split()
    missing = sorted({name.removeprefix("src/") for name in ours} - inside)
    foreign = sorted(name for name in inside if not name.startswith("presage/"))
    if missing or foreign:
        raise SystemExit(f"the wheel lacks {missing} and has {foreign}")
    with tarfile.open(source) as archive:
        names = archive.getnames()
    return {
        "wheel": wheel.name, "wheel kB": wheel.stat().st_size // 1024, "files": len(inside), "sdist": source.name,
        "sdist kB": source.stat().st_size // 1024, "sdist files": len(names),
    }  # fmt: skip


def pythons() -> dict[str, str]:
    """The Pythons that are there and run, by version: this one, those on the path, those of pyenv."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in PYTHONS:
        for path in (shutil.which(f"python{version}"), *home.glob(f"versions/{version}.*/bin/python")):
            if path and version not in found and run(path, "--version", fails=True).startswith(f"Python {version}."):
                found[version] = str(path)
    return found


def clean(work: Path) -> dict[str, Any]:
    """The wheel, and with this Python the source archive, each in an environment that has nothing else."""
    result: dict[str, Any] = {"not to be had": [name for name in PYTHONS if name not in pythons()]}
    for number, (version, python) in enumerate(pythons().items()):
        for kind in ("*.whl", "*.tar.gz")[: 1 if number else 2]:
            (archive,) = (work / "dist").glob(kind)
            folder = work / f"clean-{version}-{kind[2:]}"
            shutil.rmtree(folder, ignore_errors=True)
            new = environment(folder, python)
            seconds = install(new, archive)
            doctor = json.loads(run(new.with_name("presage"), "doctor", "--json", cwd=work, env=outside()))
            demo = json.loads(run(new.with_name("presage"), "demo", "--json", cwd=work, env=outside()))
            where = run(new, "-c", "import presage; print(presage.__file__)", cwd=work, env=outside())
            if doctor["problems"] or str(folder) not in where:
                raise SystemExit(f"doctor in {new} says {doctor['problems']}; presage is {where}")
            regret = round(demo["best"]["value"] - demo["minimum"], 6)
            result[f"{version} {kind}"] = {"install seconds": seconds, "problems": [], "regret of the demo": regret}
            print(folder.name, result[f"{version} {kind}"], flush=True)
    return result


def extras(work: Path) -> dict[str, Any]:
    """How many packages pip would install for all extras together; those of this repository's own work apart."""
    (wheel,) = (work / "dist").glob("*.whl")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = sorted(set(project["optional-dependencies"]) - {"peers", "dev"})
    python, report = environment(work / "resolve"), work / "report.json"
    pip = (python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--disable-pip-version-check", "--quiet")
    run(*pip, "--report", report, f"{wheel}[{','.join(names)}]", env=outside())
    return {"extras": names, "packages": len(json.loads(report.read_text())["install"])}


def imports(work: Path) -> dict[str, Any]:
    """Best of five, in the clean environment, and the modules that take longest by themselves."""
    python = next(work.glob("clean-*-whl")) / "bin" / "python"

    def best(*command: str | Path) -> float:
        times = []
        for _ in range(5):
            began = time.monotonic()
            run(*command, cwd=work, env=outside())
            times.append(time.monotonic() - began)
        return round(1000 * min(times), 1)

    done = subprocess.run(
        [python, "-X", "importtime", "-c", "import presage"], cwd=work, env=outside(), capture_output=True, text=True
    )
    rows = re.findall(r"import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)", done.stderr)
    (whole,) = (int(total) for _, total, name in rows if name == "presage")
    return {
        "import presage, ms": whole / 1000, "python -c pass, ms": best(python, "-c", "pass"),
        "python -c 'import presage', ms": best(python, "-c", "import presage"),
        "presage --version, ms": best(python.with_name("presage"), "--version"),
        "first study of 10 trials, ms": best(
            python, "-c", "import presage; presage.minimize(lambda p: p['x'], {'x': presage.Float(0, 1)}, 10)"
        ),
    }  # fmt: skip


def lowest(work: Path) -> dict[str, Any]:
    """The core tests with the lowest versions. What they warn of is theirs: a warning is no error here."""
    (wheel,) = (work / "dist").glob("*.whl")
    python = environment(work / "lowest")
    install(
        python,
        "-c",
        ROOT / "constraints-min.txt",
        f"{wheel}[postgres,dashboard]",
        "pytest",
        "pytest-xdist",
        "hypothesis",
    )
    with tempfile.TemporaryDirectory() as folder:  # the tests without the sources beside them
        shutil.copytree(ROOT / "tests", Path(folder) / "tests")
        shutil.copy(ROOT / "pyproject.toml", folder)
        told = run(
            python, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "-W", "default", "-p", "no:cacheprovider",
            *(f"tests/test_{name}.py" for name in CORE), cwd=folder, env=outside(),
        )  # fmt: skip
    pins = re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints-min.txt").read_text(), re.MULTILINE)
    return {"tests": told.strip().splitlines()[-1], "versions": dict(pins)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "release", help="where environments are made")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="these steps; others as recorded")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    sys.argv[1:] = [] if len(arguments.only) == len(STEPS) else ["--only", *arguments.only]  # no paths in records
    work.mkdir(parents=True, exist_ok=True)
    path = record.RESULTS / "release.json"
    result = json.loads(path.read_text())["result"] if path.exists() else {}
    steps = {"build": build, "clean": clean, "extras": extras, "imports": imports, "lowest": lowest}
    for name in STEPS:
        if name in arguments.only:
            print(f"{name} ...", flush=True)
            result[name] = steps[name](work)
            print(json.dumps(result[name], indent=1), flush=True)
            record.write("release", result, ("numpy", "scipy", "build"))


if __name__ == "__main__":
    main()
