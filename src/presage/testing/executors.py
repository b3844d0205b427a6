"""The tests that every runner must pass.

Example, in a file that pytest collects:

    class TestMyRunner(RunnerSuite):
        def make(self):
            return MyRunner(workers=2)
"""

import math
import sys
import time
from concurrent.futures import as_completed
from typing import Any, ClassVar

import numpy as np

from presage.executors import Objective, Runner
from presage.trial import Failure, Outcome, Trial

Params = dict[str, Any]


class RunnerSuite:
    """What a runner promises, as test methods; a subclass says in `make` how to get one."""

    runner: ClassVar[Runner]

    def make(self) -> Runner:
        """A new runner, shared by all tests of the class."""
        raise NotImplementedError

    @classmethod
    def setup_class(cls) -> None:
        cls.runner = cls().make()

    @classmethod
    def teardown_class(cls) -> None:
        cls.runner.close(cancel=False)

    def run(self, objective: Objective, **params: Any) -> Outcome:
        return self.runner.submit(objective, Trial(0, params)).result(timeout=60)

    def fail(self, objective: Objective, **params: Any) -> Failure:
        outcome = self.run(objective, **params)
        assert outcome.value is None
        assert outcome.failure is not None
        return outcome.failure

    def test_it_says_how_many_workers_it_has(self) -> None:
        assert isinstance(self.runner.workers, int)
        assert self.runner.workers >= 1

    def test_a_value_comes_back(self) -> None:
        assert self.run(square, x=3) == Outcome(9.0)

    def test_scalars_of_any_kind_are_values(self) -> None:
        for value in (2, 2.0, np.float32(2), np.int64(2), np.array(2.0)):
            outcome = self.run(give, value=value)
            assert outcome == Outcome(2.0), value
            assert type(outcome.value) is float

    def test_what_is_no_finite_number_is_invalid(self) -> None:
        cases = {"nan": math.nan, "inf": -math.inf, "None": None, "str": "1.0", "array": np.ones(2), "bool": True}
        for reason, value in cases.items():
            failure = self.fail(give, value=value)
            assert failure.kind == "invalid"
            assert reason in failure.message
            assert "must be one finite number" in failure.message

    def test_a_value_that_cannot_be_read_is_invalid(self) -> None:
        assert self.fail(lambda params: 10**400).kind == "invalid"

    def test_an_exception_is_told_from_the_users_code_on(self) -> None:
        failure = self.fail(stumble, message="no such file")
        assert (failure.kind, failure.message) == ("error", "ValueError: no such file")
        first = failure.traceback.splitlines()[1]
        assert "in stumble" in first, failure.traceback
        assert failure.traceback.endswith("ValueError: no such file\n")

    def test_an_exception_need_not_be_an_ordinary_one(self) -> None:
        assert self.fail(raise_local_class).message.endswith("Local: of a class that only the objective knows")
        assert "cannot be shown" in self.fail(raise_unprintable).message
        assert self.fail(raise_base).kind == "error"

    def test_a_call_that_does_not_fit_is_an_error(self) -> None:
        failure = self.fail(lambda: 1.0)
        assert failure.kind == "error"
        assert failure.message.startswith("TypeError: ")

    def test_sys_exit_is_an_error(self) -> None:
        failure = self.fail(leave)
        assert failure.kind == "error"
        assert failure.message == "the objective called sys.exit(3)"
        assert self.run(square, x=2) == Outcome(4.0)

    def test_each_of_many_trials_gets_its_own_outcome(self) -> None:
        futures = {self.runner.submit(dawdle, Trial(i, {"x": i, "seconds": i % 7 / 1000})): i for i in range(60)}
        values = {futures[future]: future.result().value for future in as_completed(futures, timeout=60)}
        assert values == {i: 2.0 * i for i in range(60)}

    def test_objectives_may_take_turns(self) -> None:
        for x in (2, 3):
            assert self.run(square, x=x) == Outcome(float(x**2))
            assert self.run(lambda params: params["x"] + 0.5, x=x) == Outcome(x + 0.5)

    def test_an_objective_may_ask_for_its_trial(self) -> None:
        objectives = (by_name, by_place, by_keyword, Callable(), lambda params, t: t.number)
        for objective in objectives:
            assert self.runner.submit(objective, Trial(7, {})).result(timeout=60) == Outcome(7.0), objective
        for objective in (optional, lambda *args: len(args), lambda params, **options: len(options) + 1):
            assert self.run(objective) == Outcome(1.0)

    def test_reports_come_back(self) -> None:
        assert self.run(report, fine=True) == Outcome(1.0, reports=((0, 0.5), (1, 0.25)))
        outcome = self.run(report, fine=False)
        assert outcome.failure is not None
        assert outcome.reports == ((0, 0.5), (1, 0.25))

    def test_the_record_is_not_shared(self) -> None:
        trial = Trial(0, {"x": 1, "layers": [1, 2]})
        assert self.runner.submit(vandal, trial).result(timeout=60) == Outcome(1.0, reports=((0, 1.0),))
        assert trial == Trial(0, {"x": 1, "layers": [1, 2]})

    def test_messages_keep_their_characters(self) -> None:
        message = "größer als 日本語 \N{SNOWMAN} \x00 \ud800"
        failure = self.fail(stumble, message=message)
        assert failure.message == f"ValueError: {message}"

    def test_much_comes_back_whole(self) -> None:
        assert self.fail(stumble, message="x" * 10**6).message == "ValueError: " + "x" * 10**6
        assert self.run(report_often, times=10**4).reports == tuple((i, float(i)) for i in range(10**4))
        assert len(self.fail(give, value=np.zeros(10**6)).message) < 1000

    def test_closures_travel(self) -> None:
        offset = 10**6
        large = np.arange(offset)
        assert self.run(lambda params: params["x"] + large[-1] + 1, x=0.5) == Outcome(offset + 0.5)


# Objectives, in the open so that they travel by reference; the lambdas above travel by value.


def square(params: Params) -> Any:
    return params["x"] ** 2


def give(params: Params) -> Any:
    return params["value"]


def stumble(params: Params) -> Any:
    raise ValueError(params["message"])


def leave(params: Params) -> Any:
    sys.exit(3)


def raise_local_class(params: Params) -> Any:
    class Local(Exception):
        pass

    raise Local("of a class that only the objective knows")


def raise_unprintable(params: Params) -> Any:
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError

    raise Unprintable


def raise_base(params: Params) -> Any:
    raise BaseException("not even an Exception")


def dawdle(params: Params) -> Any:
    time.sleep(params["seconds"])
    return 2 * params["x"]


def by_name(params: Params, trial: Any = None) -> Any:
    return trial.number


def by_place(params: Params, handle: Trial) -> Any:
    return handle.number


def by_keyword(params: Params, *, scale: int = 1, trial: Trial) -> Any:
    return trial.number


class Callable:
    def __call__(self, params: Params, trial: Trial) -> Any:
        return trial.number


def optional(params: Params, extra: Any = None) -> Any:
    return 1 if extra is None else 0


def report(params: Params, trial: Trial) -> Any:
    assert trial.report(0, 0.5) == "go"
    trial.report(1, np.float64(0.25))
    if not params["fine"]:
        raise RuntimeError
    return 1


def report_often(params: Params, trial: Trial) -> Any:
    for i in range(params["times"]):
        trial.report(i, i)
    return 0


def vandal(params: Params, trial: Trial) -> Any:
    params["x"] = 100
    params["layers"].append(3)
    trial.report(0, trial.params.pop("x"))
    return len(trial.params.pop("layers")) - 1
