"""Runners: the suite for each, and what only processes promise: to stop, to survive, to leave nothing behind."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from presage.errors import StudyError
from presage.executors import FuturesRunner, ProcessRunner, SerialRunner, ThreadRunner, evaluate, open_runner
from presage.testing.executors import RunnerSuite, leave, square, stumble
from presage.trial import Outcome, Trial


class TestSerial(RunnerSuite):
    def make(self):
        return SerialRunner()


class TestThreads(RunnerSuite):
    def make(self):
        return ThreadRunner(4)


class TestProcesses(RunnerSuite):
    def make(self):
        return ProcessRunner(2)


class TestThreadPoolExecutor(RunnerSuite):
    executor = ThreadPoolExecutor(4)

    def make(self):
        return FuturesRunner(self.executor)

    @classmethod
    def teardown_class(cls):
        super().teardown_class()
        assert cls.executor.submit(square, {"x": 2}).result() == 4  # left open
        cls.executor.shutdown()


class TestProcessPoolExecutor(RunnerSuite):
    executor = ProcessPoolExecutor(2, mp_context=get_context("spawn"))

    def make(self):
        return FuturesRunner(self.executor)

    @classmethod
    def teardown_class(cls):
        super().teardown_class()
        assert cls.executor.submit(square, {"x": 2}).result() == 4
        cls.executor.shutdown()


def segfault(params):
    ctypes.string_at(0)


def fork_and_leave(params):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    os._exit(5)


def sleep(params):
    time.sleep(params["seconds"])
    return 1.0


@pytest.fixture(scope="module")
def processes():
    with ProcessRunner(2) as runner:
        yield runner


@pytest.fixture(scope="module")
def hasty():
    with ProcessRunner(2, timeout=0.5) as runner:
        yield runner


def submit(runner, objective, number=0, **params):
    return runner.submit(objective, Trial(number, params))


class TestWhatProcessesSurvive:
    @pytest.mark.parametrize("seconds", [60, 0.6])
    def test_a_timeout_kills_and_the_pool_goes_on(self, hasty, seconds):
        start = time.monotonic()
        late, quick = submit(hasty, sleep, seconds=seconds), submit(hasty, sleep, seconds=0)
        assert quick.result(timeout=20) == Outcome(1.0)
        failure = late.result(timeout=20).failure
        assert (failure.kind, failure.message) == ("timeout", "took longer than 0.5 s")
        assert time.monotonic() - start < 10
        assert submit(hasty, square, x=3).result(timeout=20) == Outcome(9.0)

    def test_a_timeout_counts_neither_waiting_in_line_nor_starting(self, hasty):
        futures = [submit(hasty, sleep, seconds=0.3) for _ in range(6)]
        assert [future.result(timeout=20) for future in futures] == [Outcome(1.0)] * 6
        with ProcessRunner(1, timeout=0.05) as runner:  # less than an interpreter needs to start
            assert submit(runner, square, x=2).result(timeout=20) == Outcome(4.0)

    @pytest.mark.parametrize(
        ("objective", "reason"),
        [
            (lambda params: os._exit(0), "ended with exit code 0"),
            (lambda params: os._exit(7), "ended with exit code 7"),
            (lambda params: os.kill(os.getpid(), signal.SIGKILL), "killed by SIGKILL"),
            (segfault, "killed by SIGSEGV"),
            (fork_and_leave, "ended with exit code 5"),
        ],
    )
    def test_a_worker_that_dies_costs_its_own_trial_only(self, processes, objective, reason):
        other = submit(processes, sleep, seconds=0.5)
        failure = submit(processes, objective).result(timeout=20).failure
        assert failure.kind == "lost"
        assert reason in failure.message
        assert other.result(timeout=20) == Outcome(1.0)
        assert submit(processes, square, x=3).result(timeout=20) == Outcome(9.0)

    def test_workers_killed_while_idle_are_replaced(self, processes):
        def pid(params):
            time.sleep(0.2)
            return os.getpid()

        before = {future.result(timeout=20).value for future in [submit(processes, pid) for _ in range(2)]}
        for process in before:
            os.kill(int(process), signal.SIGKILL)
        time.sleep(0.2)
        after = {future.result(timeout=20).value for future in [submit(processes, pid) for _ in range(2)]}
        assert len(before) == len(after) == 2
        assert before.isdisjoint(after)

    def test_a_keyboard_interrupt_of_the_objectives_own_is_no_value(self, processes):
        def interrupt(params):
            raise KeyboardInterrupt

        assert submit(processes, interrupt).result(timeout=20).failure.kind == "lost"

    def test_an_objective_that_cannot_be_loaded_there_is_an_error(self, processes):
        assert submit(processes, Unloadable()).result(timeout=20).failure.message == "ImportError: not over here"
        assert submit(processes, square, x=3).result(timeout=20) == Outcome(9.0)

    def test_closing_with_cancel_stops_at_once(self):
        runner = ProcessRunner(1)
        running, waiting = submit(runner, sleep, seconds=60), submit(runner, sleep, seconds=60)
        while not running.running():
            time.sleep(0.01)
        start = time.monotonic()
        runner.close(cancel=True)
        assert time.monotonic() - start < 5
        assert running.result().failure.kind == "lost"
        assert "stopped" in running.result().failure.message
        assert waiting.cancelled()

    def test_closing_without_cancel_lets_all_finish(self):
        with ProcessRunner(1) as runner:
            futures = [submit(runner, sleep, seconds=0.1) for _ in range(3)]
        assert [future.result(timeout=0) for future in futures] == [Outcome(1.0)] * 3


class Unloadable:
    def __call__(self, params):
        return 1.0

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ImportError("not over here")


def test_workers_import_neither_jax_nor_the_main_module(processes):
    def look(params, trial):
        trial.report(0, int("presage.executors" in sys.modules))
        trial.report(1, int("jax" in sys.modules))
        return int(hasattr(sys.modules["__main__"], "__file__"))

    assert submit(processes, look).result(timeout=20) == Outcome(0.0, reports=((0, 1.0), (1, 0.0)))


def test_an_objective_is_pickled_once_and_loaded_once_per_worker():
    counted = Counted()
    with ProcessRunner(1) as runner:
        values = [submit(runner, counted).result(timeout=20).value for _ in range(3)]
    assert counted.pickled == 1
    assert values == [1.0, 2.0, 3.0]  # the same object there, which counts its calls


class Counted:
    def __init__(self):
        self.pickled = 0
        self.calls = 0

    def __call__(self, params):
        self.calls += 1
        return self.calls

    def __getstate__(self):
        self.pickled += 1
        return {"calls": 0}


@pytest.mark.parametrize("make", [lambda: ProcessRunner(1), lambda: FuturesRunner(TestProcessPoolExecutor.executor)])
def test_an_objective_that_cannot_travel_is_refused_at_once(make):
    lock = threading.Lock()

    def guarded(params):
        with lock:
            return 1.0

    with make() as runner, pytest.raises(StudyError, match=r"guarded is not .*lock.* executor='threads'"):
        submit(runner, guarded)


SCRIPT = """
import os, subprocess, sys, time
from concurrent.futures import wait
from presage.executors import open_runner
from presage.trial import Trial

offset = 1

def objective(params):
    print("at", params["x"])
    if params["x"] == "nap":
        subprocess.run(["sleep", "60"])
    return params["x"] + offset

print("main runs")
"""
GOES_ON = """
with open_runner("processes", workers=2) as runner:
    print([runner.submit(objective, Trial(i, {"x": i})).result().value for i in range(2)])
"""
HANGS_IN_CLOSE = """
with open_runner("processes", workers=2) as runner:
    future = runner.submit(objective, Trial(0, {"x": "nap"}))
"""
HANGS = (
    HANGS_IN_CLOSE
    + """    wait([future])
"""
)


def python(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.parametrize("way", ["file", "-c", "-m", "stdin"])
def test_a_script_needs_no_guard(tmp_path, way):
    (tmp_path / "script.py").write_text(SCRIPT + GOES_ON)
    arguments = {"file": ["script.py"], "-c": ["-c", SCRIPT + GOES_ON], "-m": ["-m", "script"], "stdin": ["-"]}[way]
    with python(*arguments, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(SCRIPT + GOES_ON if way == "stdin" else None, timeout=30)
    assert err == ""
    # What the main process prints into a pipe comes out at its end, what workers print at once.
    assert sorted(out.splitlines()) == ["[1.0, 2.0]", "at 0", "at 1", "main runs"]


@pytest.mark.parametrize(("how", "script"), [("ctrl-c", HANGS), ("ctrl-c", HANGS_IN_CLOSE), ("kill", HANGS)])
def test_nothing_outlives_the_main_process(how, script):
    with python("-c", SCRIPT + script, start_new_session=True) as process:
        while process.stdout.readline() != "at nap\n":
            assert process.poll() is None
        if how == "ctrl-c":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        # Workers and what they start hold the pipe of the output open: it ends when the last of them has ended.
        _, err = process.communicate(timeout=10)
    if how == "ctrl-c":
        assert err.count("Traceback") == 1, err
        assert err.endswith("KeyboardInterrupt\n")
    else:
        assert err == ""


def test_ctrl_c_comes_out_of_a_serial_submit():
    def interrupt(params):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(SerialRunner(), interrupt)
    assert submit(ThreadRunner(1), interrupt).result(timeout=5).failure.kind == "lost"


def test_a_broken_executor_loses_trials_and_says_so():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        runner = FuturesRunner(executor)
        for objective in (lambda params: os._exit(1), square):
            failure = submit(runner, objective, x=1).result(timeout=20).failure
            assert failure.kind == "lost"
            assert "BrokenProcessPool" in failure.message


def test_cancelling_reaches_the_users_executor():
    gate = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        runner = FuturesRunner(executor)
        running, waiting = (runner.submit(lambda params: gate.wait(10) + 1.0, Trial(i, {})) for i in range(2))
        while not running.running():
            time.sleep(0.001)
        runner.close(cancel=True)
        assert waiting.cancelled()
        assert not running.cancel()
        gate.set()
        assert running.result(timeout=5) == Outcome(2.0)


def test_tracebacks_keep_the_cause():
    def objective(params):
        try:
            stumble({"message": "first"})
        except ValueError as error:
            raise RuntimeError("second") from error

    text = evaluate(objective, Trial(0, {})).failure.traceback
    assert "ValueError: first" in text
    assert "direct cause" in text
    assert "base.py" not in text
    assert evaluate(leave, Trial(0, {})).failure.kind == "error"


class Foreign(Executor):
    """An executor that does not say how many workers it has."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        future.set_result(function(*args, **kwargs))
        return future


def test_open_runner_chooses_what_fits():
    assert isinstance(open_runner(), SerialRunner)
    assert isinstance(open_runner("serial"), SerialRunner)
    for arguments in [(None, 2), (None, 1, 5.0), ("processes",)]:
        with open_runner(*arguments) as runner:
            assert isinstance(runner, ProcessRunner)
            assert runner.workers == max(arguments[1:2] or [1])
    with open_runner("threads", 3) as runner:
        assert isinstance(runner, ThreadRunner)
        assert runner.workers == 3
    with ThreadPoolExecutor(3) as executor:
        assert open_runner(executor).workers == 3
        assert open_runner(executor, workers=2).workers == 2
    runner = open_runner(Foreign(), workers=2)
    assert submit(runner, lambda params: params["x"], x=1).result(timeout=5) == Outcome(1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"executor": "spark"}, "executor must be .* but got 'spark'"),
        ({"executor": print}, "executor must be .* but got <built-in function print>"),
        ({"executor": "threads", "timeout": 2}, "nothing else can be stopped"),
        ({"executor": "serial", "timeout": 2}, "nothing else can be stopped"),
        ({"executor": "serial", "workers": 2}, "one trial at a time, but got workers=2"),
        ({"executor": Foreign()}, "Foreign does not say how many workers it has; give workers="),
        ({"workers": 0}, "1 or more, but got workers=0"),
        ({"workers": 2.5}, "1 or more, but got workers=2.5"),
        ({"timeout": 0}, "positive number of seconds, but got timeout=0"),
    ],
)
def test_open_runner_says_what_does_not_fit(arguments, message):
    with pytest.raises(StudyError, match=message):
        open_runner(**arguments)
