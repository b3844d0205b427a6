"""`presage.design.tune`: a user's own training loop, searched by a model of its curves; trainings pause and go on."""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from presage.design.board import Search
from presage.design.curve_search import CurveSearch
from presage.design.resumable import Candidates, Job, Resumable, Runs
from presage.errors import StudyError
from presage.markup import fragment, table
from presage.space import Space
from presage.trial import Trial

__all__ = ["TrainingLoop", "Tuned", "tune"]

Train = Callable[[dict[str, Any], Trial], Any]


@dataclass
class TrainingLoop(Resumable):
    """A function `train(params, trial)` as something that trains in steps.

    The function reports values, `trial.report(step, value)`, until the answer is not "go"; then it puts its state into
    the file `trial.checkpoint`, in whatever form, and returns. It begins from that file where there is one.

    Args:
        train: the function.
        last: the step at which a training is complete; the answer is then "stop", before it "pause".
        sign: what values are multiplied by so that smaller is better.
    """

    train: Train
    last: int
    sign: float = 1.0
    place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="presage-")))

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)

    def advance(self, jobs: Sequence[Job], until: Sequence[int]) -> list[float]:
        return [self.sign * self._train(job, step) for job, step in zip(jobs, until, strict=True)]

    def _train(self, job: Job, until: int) -> float:
        def answer(reports: list[tuple[int, float]]) -> Literal["go", "pause", "stop"]:
            step = reports[-1][0]
            if step > until:
                raise StudyError(
                    f"a training must report step {until} and return when the answer is not 'go', but reported {step}"
                )
            return "go" if step < until else "stop" if step == self.last else "pause"

        path = self.place / f"{job.number}.npz"
        trial = Trial(job.number, dict(job.params), live=answer, checkpoint=path)
        self.train(dict(job.params), trial)
        if not trial.reports or trial.reports[-1][0] != until:
            said = f"ended after step {trial.reports[-1][0]}" if trial.reports else "reported nothing"
            raise StudyError(f"a training must go on to step {until}, but it {said}")
        if not path.exists():
            raise StudyError("a training must write trial.checkpoint when the answer is not 'go', but there is no file")
        job.state = path
        return trial.reports[-1][1]

    def write(self, job: Job, path: Path) -> None:
        shutil.copyfile(job.state, path)

    def read(self, job: Job, path: Path) -> None:
        job.state = self.place / f"{job.number}.npz"
        shutil.copyfile(path, job.state)


@dataclass(frozen=True, repr=False)
class Tuned:
    """What a search over trainings came to.

    Attributes:
        best: the complete training with the best value, or, if none is complete, the one with the best last value;
            its `checkpoint` is the file that it wrote.
        trials: every training that was begun, with its curve; paused ones could go on.
        steps: taken in all.
        runs: the search itself.
    """

    best: Trial
    trials: list[Trial]
    steps: int
    runs: Runs

    def __repr__(self) -> str:
        complete = sum(trial.state == "complete" for trial in self.trials)
        step, value = self.best.reports[-1]
        return (
            f"Tuned({len(self.trials)} trainings, {complete} complete, {self.steps} steps; best {value:g} at step "
            f"{step} with {self.best.params})"
        )

    def _repr_html_(self) -> str:
        names = self.best.params
        rows = [(t.number, t.state, *t.reports[-1], *t.params.values()) for t in self.trials]
        trainings = table(rows, ["training", "state", "step", "value", *names])
        facts = table([("best value", self.best.reports[-1][1]), *names.items()])
        return fragment(
            "Tuned", f"{self.steps} steps of {len(rows)} trainings", facts, folded=[("trainings", trainings)]
        )


def tune(
    train: Train, space: Space | Mapping[str, Any], steps: Sequence[int], *, trainings: float = 10.0,
    seconds: float | None = None, direction: Literal["minimize", "maximize"] = "minimize", candidates: int = 128,
    seed: int = 0, start: Sequence[dict[str, Any]] = (), folder: str | Path | None = None,
    searcher: Search | None = None, tell: Callable[[Runs], None] | None = None,
) -> Tuned:  # fmt: skip
    """Search the params of a training loop: what promises little is paused, and taken up again if that changes.

    Args:
        train: `train(params, trial)`, see TrainingLoop.
        space: of the params.
        steps: at which a training may pause, the last one being its end.
        trainings: stop after as many steps as so many whole trainings have.
        seconds: start nothing new after so long.
        direction: of the values reported.
        candidates: among which the search chooses.
        seed: of everything random in the search.
        start: params to begin with; the first of them are trained to the end.
        folder: keeps values and states, so that the same call goes on where another one ended.
        searcher: another search than CurveSearch.
        tell: called after every stretch of training.

    Example:
        >>> from presage import Float
        >>> def train(params, trial):
        ...     at, step = np.load(trial.checkpoint)["state"] if trial.checkpoint.exists() else (1.0, 0)
        ...     while True:
        ...         at, step = at - params["rate"] * 2 * at, step + 1
        ...         if trial.report(step, np.log10(at**2 + 1e-9)) != "go":
        ...             np.savez(trial.checkpoint, state=[at, step])
        ...             return
        >>> found = tune(train, {"rate": Float(1e-3, 0.4, log=True)}, steps=(1, 3, 10, 30), trainings=5)
        >>> found.best.params["rate"] > 0.1
        True
    """
    began = time.monotonic()
    if list(steps) != sorted({*steps}) or not steps or steps[0] < 1:
        raise StudyError(f"steps must be whole numbers from 1 on, each larger than the last, but got {list(steps)}")
    if direction not in ("minimize", "maximize"):
        raise StudyError(f"direction must be 'minimize' or 'maximize', but got {direction!r}")
    sign = 1.0 if direction == "minimize" else -1.0
    loop = TrainingLoop(train, int(steps[-1]), sign)
    runs = Runs(
        loop, Candidates.of(space if isinstance(space, Space) else Space(space), candidates, seed, start),
        tuple(map(int, steps)), searcher or CurveSearch(), seed, None if folder is None else Path(folder),
    )  # fmt: skip
    while _taken(runs) < trainings * steps[-1] and (seconds is None or time.monotonic() - began < seconds):
        moves = runs.decide()
        if not moves:
            break
        done = (
            runs.board.done
        )  # a column at a time, so that every decision is about all that is known, also after a kill
        runs.advance([move._replace(column=int(done[move.row])) for move in moves], tell)
    trials = [
        trial.but({
            "values": tuple(sign * value for value in trial.values),
            "reports": [(step, sign * value) for step, value in trial.reports], "checkpoint": _file(runs, trial.number),
        })
        for trial in runs.trials
    ]  # fmt: skip
    if not trials:
        raise StudyError(f"seconds > 0 and trainings > 0 must hold, but got seconds={seconds}, trainings={trainings}")
    best = min(trials, key=lambda trial: (trial.state != "complete", sign * trial.reports[-1][1]))
    return Tuned(best, trials, _taken(runs), runs)


def _taken(runs: Runs) -> int:
    """Steps in all."""
    done = runs.board.done
    return int(np.array([0, *runs.steps])[done].sum())


def _file(runs: Runs, number: int) -> Path:
    assert isinstance(runs.objective, TrainingLoop)
    return (runs.objective.place if runs.folder is None else runs.folder / "states") / f"{number}.npz"
