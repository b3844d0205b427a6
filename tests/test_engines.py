"""Engines of other libraries run a study: every value that an objective computed is stored once."""

import os
import subprocess
import sys
import time

import pytest

from presage.errors import StudyError
from presage.executors import open_runner
from presage.executors.engines import NAMES, is_engine
from presage.testing.fleet import LOG, SECONDS, Fleet, broken

SCRIPT = """
import sys
from presage.study import Study
from presage.testing.fleet import SPACE, objective
if __name__ == "__main__":
    study = Study(SPACE, surrogate="random", seed=0, storage=sys.argv[2], name="fleet")
    result = study.optimize(objective, 10, executor=sys.argv[1], workers=int(sys.argv[3]))
    print(result.stopped)
"""


@pytest.fixture
def run(tmp_path):
    """Runs a script with a study on an engine, in processes of their own; what it printed, and the account."""
    (tmp_path / "script.py").write_text(SCRIPT)
    fleet = Fleet(str(tmp_path / "study.db"), tmp_path, trials=10)
    environment = os.environ | {LOG: str(fleet.log), SECONDS: "0.01"}

    def go(engine, *prefix, workers=2):
        command = [*prefix, "script.py", engine, fleet.storage, str(workers)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout, fleet.account()

    return go


@pytest.mark.needs("dask")
def test_dask(run):
    said, account = run("dask", sys.executable)
    assert said == "trials\n"
    assert broken(account) == {}
    assert account["evaluations"] == 10


@pytest.mark.needs("mpi")
def test_mpi(run):
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    mpi = ["mpiexec", *root, "--oversubscribe", "-n", "4", sys.executable, "-m", "mpi4py.futures"]
    said, account = run("mpi", *mpi, workers=1)
    assert said == "trials\n"
    assert broken(account) == {}
    assert account["evaluations"] == 10


@pytest.mark.slow
@pytest.mark.needs("ray")
def test_ray(run):
    said, account = run("ray", sys.executable)
    assert said.endswith("trials\n")
    assert broken(account) == {}
    assert account["evaluations"] == 10


CLUSTER = """
import os, sys
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None, silence_logs=50)
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.needs("dask")
def test_a_dask_cluster_that_runs_is_joined_and_left_running(run, tmp_path):
    (tmp_path / "cluster.py").write_text(CLUSTER)
    environment = os.environ | {LOG: str(tmp_path / "fleet.log"), SECONDS: "0.01"}
    with subprocess.Popen(
        [sys.executable, "cluster.py"], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as cluster:  # fmt: skip
        address = cluster.stdout.readline().strip().removeprefix("tcp://")
        assert address.startswith("127.0.0.1:")
        said, account = run(f"dask://{address}", sys.executable, workers=1)
        assert said == "trials\n"
        assert broken(account) == {}
        assert cluster.poll() is None
        cluster.stdin.close()


LISTENING = """
import json, subprocess, sys, time
from presage.executors import open_runner
if __name__ == "__main__":
    with open_runner(sys.argv[1], 2) as runner:
        print(runner.workers, flush=True)
        sys.stdin.readline()
"""


def sockets():
    """Local addresses that somebody on this machine listens on, from the kernel."""
    found = set()
    for kind in ("tcp", "tcp6"):
        with open(f"/proc/net/{kind}") as table:
            rows = [line.split() for line in table.readlines()[1:]]
        found |= {row[1] for row in rows if row[3] == "0A"}
    return found


@pytest.mark.needs("dask")
@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs the proc file system")
def test_an_engine_started_here_listens_on_this_machine_only(tmp_path):
    (tmp_path / "listening.py").write_text(LISTENING)
    before = sockets()
    with subprocess.Popen(
        [sys.executable, "listening.py", "dask"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout.readline() == "2\n"
        inodes = set()
        for pid in family(engine.pid):
            for link in os.listdir(f"/proc/{pid}/fd"):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{link}")) if os.path.lexists(f"/proc/{pid}/fd/{link}") else None
        mine = {address for address in sockets() - before if listens(address, inodes)}
        engine.stdin.close()
        engine.wait(60)
    assert mine
    assert {address.partition(":")[0] for address in mine} == {"0100007F"}  # 127.0.0.1 as the kernel writes it


def family(pid):
    """A process and all that it started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = file.read().split()
    return [pid, *(member for child in children for member in family(child))]


def listens(address, inodes):
    for kind in ("tcp", "tcp6"):
        with open(f"/proc/net/{kind}") as table:
            for row in (line.split() for line in table.readlines()[1:]):
                if row[1] == address and row[3] == "0A" and f"socket:[{row[9]}]" in inodes:
                    return True
    return False


@pytest.mark.parametrize(("engine", "module"), [("dask", "distributed"), ("ray", "ray"), ("mpi", "mpi4py")])
def test_a_missing_engine_says_what_to_install(engine, module, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(StudyError, match=rf'needs {module}.*pip install "presage\[{engine}\]"'):
        open_runner(engine, 2)


def test_names_are_told_apart_from_others():
    assert all(is_engine(name) for name in NAMES)
    assert not any(is_engine(name) for name in ("serial", "threads", "processes", "daskk", None, 3))
    with pytest.raises(StudyError, match="MPI has no address"):
        open_runner("mpi://host")
    with pytest.raises(StudyError, match=r"an engine \(dask, dask://host:port, ray"):
        open_runner("spark")
    with pytest.raises(StudyError, match="timeout needs executor='processes'"):
        open_runner("dask", 2, timeout=3.0)


@pytest.mark.needs("dask")
def test_a_scheduler_that_does_not_answer_is_said():
    began = time.monotonic()
    with pytest.raises(StudyError, match=r"must answer at 127\.0\.0\.1:1"):
        open_runner("dask://127.0.0.1:1")
    assert time.monotonic() - began < 60
