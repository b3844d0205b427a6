"""Objectives that train in steps, and a search over them that can be killed at any time.

A network's state lies on disk with the value it had there; only then is the value an event. Whatever moment a process
dies at, the folder holds a prefix of what happened: at most the training in progress is lost.
"""

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from presage.design.board import Board, Move, Search
from presage.design.curves.base import Curves
from presage.errors import StudyError
from presage.observations import columns_of
from presage.sobol import sobol
from presage.space import Space
from presage.trial import Trial

__all__ = ["Candidates", "Job", "Resumable", "Runs"]


@dataclass
class Job:
    """A network that is to be trained.

    Attributes:
        number: of the network.
        params: its design.
        seed: of its training.
        step: where it stands; the objective sets it.
        state: whatever the objective needs to go on, None before the first step; the objective sets it.
    """

    number: int
    params: dict[str, Any]
    seed: int
    step: int = 0
    state: Any = None


class Resumable(ABC):
    """Something that trains in steps."""

    @abstractmethod
    def advance(self, jobs: Sequence[Job], until: Sequence[int]) -> list[float]:
        """Train jobs, together where that is faster, each up to its step; their values there, smaller being better."""

    @abstractmethod
    def write(self, job: Job, path: Path) -> None:
        """Put a job's state into a file."""

    @abstractmethod
    def read(self, job: Job, path: Path) -> None:
        """Set a job's state from a file."""

    def work(self, params: dict[str, Any]) -> float:
        """How dear a step is, in any unit; what matters is the ratio between designs."""
        return 1.0


@dataclass(frozen=True)
class Candidates:
    """Designs among which a search chooses.

    Attributes:
        space: of the designs.
        params: one for each row.
        x: the same on the unit cube, [n, d].
        first: rows to begin with.
    """

    space: Space
    params: list[dict[str, Any]]
    x: np.ndarray
    first: tuple[int, ...] = ()

    @staticmethod
    def of(space: Space, count: int, seed: int, first: Sequence[dict[str, Any]] = ()) -> "Candidates":
        """All points of a small space, else those to begin with and Sobol points, no two alike."""
        size = space.size
        points = space.points() if size is not None and size <= count else None
        if points is None:
            points = space.project(sobol(count, space.dim, np.random.default_rng([seed, 2])))
        known = [space.check(one) for one in first]
        params, x = [], []
        # Those to begin with as they are: there and back through the cube a real number may differ in its last digit.
        for one, point in [*((p, space.encode(p)) for p in known), *((space.decode(at), at) for at in points)]:
            if one not in params and space.satisfies(one):
                params.append(one)
                x.append(point)
        return Candidates(space, params, np.array(x), tuple(params.index(one) for one in known))


@dataclass
class Runs:
    """Networks of one search: which were started, how far each is, and every value it had on the way.

    Args:
        objective: what trains them.
        candidates: what could be trained.
        steps: at which networks are looked at, the last one being the end.
        search: which chooses.
        seed: of everything random.
        folder: where states and events are kept; None for memory alone.
        by_steps: a step costs the same for every network; if not, what the objective says.
    """

    objective: Resumable
    candidates: Candidates
    steps: tuple[int, ...]
    search: Search
    seed: int = 0
    folder: Path | None = None
    by_steps: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = np.full((len(self.candidates.params), len(self.steps)), np.nan)
        self.spent = np.zeros(len(self.candidates.params))
        if self.folder is not None:
            (self.folder / "states").mkdir(parents=True, exist_ok=True)
            self._open()

    @property
    def board(self) -> Board:
        work = np.array([1.0 if self.by_steps else self.objective.work(params) for params in self.candidates.params])
        curves = Curves(self.candidates.x, np.array(self.steps), self.values.copy(), columns_of(self.candidates.space))
        return Board(curves, work, self.candidates.first)

    @property
    def seconds(self) -> float:
        """Spent on training so far, by all processes."""
        return float(self.spent.sum())

    def decide(self) -> list[Move]:
        """What to train next: a function of the events, so that a resumed search goes on as an uninterrupted one."""
        rng = np.random.default_rng([self.seed, len(self.events)])
        return self.search.decide(self.board, rng=rng, memory={})

    def advance(self, moves: list[Move], tell: Callable[["Runs"], None] | None = None) -> None:
        """Train what was decided, looking at every step on the way."""
        goal = {move.row: move.column for move in moves}
        while goal:
            done = self.board.done
            goal = {row: column for row, column in goal.items() if done[row] <= column}
            if not goal:
                return
            rows = list(goal)
            jobs = [self._job(row) for row in rows]
            until = [self.steps[done[row]] for row in rows]
            began = time.perf_counter()
            values = self.objective.advance(jobs, until)
            took = (time.perf_counter() - began) / len(rows)
            for job, step, value in zip(jobs, until, values, strict=True):
                self._keep(job, step, float(value), took)
            if tell is not None:
                tell(self)

    @property
    def trials(self) -> list[Trial]:
        """Every network started, as a trial with its curve; paused ones can go on."""
        made = []
        for row, job in sorted(self.jobs.items()):
            known = np.isfinite(self.values[row])
            curve = [(self.steps[c], float(self.values[row, c])) for c in np.flatnonzero(known)]
            ended = bool(known[-1])
            made.append(
                Trial(
                    row, job.params, "complete" if ended else "paused", (curve[-1][1],) if ended else (),
                    source="model", reports=curve,
                )
            )  # fmt: skip
        return made

    def _job(self, row: int) -> Job:
        """The job of a row; its state is read from the disk where another process left it."""
        if row not in self.jobs:
            self.jobs[row] = Job(row, self.candidates.params[row], self.seed * 1_000_003 + row)
        job = self.jobs[row]
        if job.step and job.state is None:
            assert self.folder is not None
            self.objective.read(job, self._path(row))
        return job

    def _path(self, row: int) -> Path:
        assert self.folder is not None
        return self.folder / "states" / f"{row}.npz"

    def _keep(self, job: Job, step: int, value: float, seconds: float) -> None:
        """State first, then the event: what the events say is on disk."""
        event = {"network": job.number, "step": int(step), "value": value, "seconds": round(seconds, 4)}
        job.step = int(step)
        if self.folder is not None:
            path = self._path(job.number)
            part = path.with_name(f"part-{path.name}")
            self.objective.write(job, part)
            # The state that the last event speaks of stays until this event is written.
            os.replace(part, path.with_name(f"{job.number}-{step}.npz"))
            with (self.folder / "events.jsonl").open("a") as file:
                file.write(json.dumps(event) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(path.with_name(f"{job.number}-{step}.npz"), path)
        self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        row = event["network"]
        self.values[row, self.steps.index(event["step"])] = event["value"]
        self.spent[row] += event["seconds"]

    def _open(self) -> None:
        """Take up what another process left."""
        assert self.folder is not None
        header = {
            "space": self.candidates.space.to_json(), "candidates": len(self.candidates.params),
            "steps": list(self.steps), "seed": self.seed,
        }  # fmt: skip
        path, events = self.folder / "search.json", self.folder / "events.jsonl"
        if path.exists():
            known = json.loads(path.read_text())
            if known != json.loads(json.dumps(header)):
                other = _difference(known, header)
                raise StudyError(f"{self.folder} holds another search: {other}; name another folder, or remove it")
        else:
            part = path.with_name("part-search.json")
            part.write_text(json.dumps(header))
            os.replace(part, path)
        text = events.read_text() if events.exists() else ""
        whole, _, torn = text.rpartition("\n")
        if torn:  # the line that a killed process was writing
            events.write_text(whole + "\n" if whole else "")
        for line in whole.splitlines():
            event = json.loads(line)
            self._apply(event)
            row = event["network"]
            job = self.jobs.setdefault(row, Job(row, self.candidates.params[row], self.seed * 1_000_003 + row))
            job.step = event["step"]
        for row, job in self.jobs.items():
            waiting = self._path(row).with_name(f"{row}-{job.step}.npz")
            if waiting.exists():  # the event was written, the state not yet in its place
                os.replace(waiting, self._path(row))
        for left in (self.folder / "states").glob("*-*.npz"):  # of a training whose event was never written
            left.unlink()


def _difference(known: dict[str, Any], wanted: dict[str, Any]) -> str:
    """What two headers disagree on."""
    other = [name for name in wanted if known.get(name) != json.loads(json.dumps(wanted[name]))]
    return ", ".join(f"{name} was {known.get(name)!r}, is {wanted[name]!r}" for name in other)[:500]
