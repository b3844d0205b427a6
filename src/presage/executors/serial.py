"""In the caller's own thread, one after the other."""

from concurrent.futures import Future

from presage.executors.base import Objective, Runner, evaluate
from presage.trial import Outcome, Trial


class SerialRunner(Runner):
    """Evaluates inside `submit`, out of which Ctrl-C comes as usual.

    Example:
        >>> with SerialRunner() as runner:
        ...     runner.submit(lambda params: params["x"] + 1, Trial(0, {"x": 1})).result().value
        2.0
    """

    def __init__(self) -> None:
        self.workers = 1

    def submit(self, objective: Objective, trial: Trial) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(evaluate(objective, trial))
        return future

    def close(self, cancel: bool) -> None:
        """Nothing is left to do."""
