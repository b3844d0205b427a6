"""`presage.design.search`: a network for any table, within a budget."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from presage.design.board import Search
from presage.design.curve_search import CurveSearch
from presage.design.curves.base import moments_of
from presage.design.curves.kronecker import KroneckerModel
from presage.design.model import DesignedModel
from presage.design.networks import (
    CHUNK,
    EnsembleObjective,
    NetworkObjective,
    VariationalObjective,
    folds_of,
    mixture_log_density,
)
from presage.design.resumable import Candidates, Runs
from presage.design.rows import Encoding, columns_of_table, target
from presage.markup import fragment, table
from presage.space import Space
from presage.trial import Trial

__all__ = ["Design", "search"]

SHARES = (0.2, 0.45, 0.65, 1.0)  # of a training, where it may be given up: the search's own rungs
SCALES = np.geomspace(0.5, 3.0, 73)
OBJECTIVES: dict[str, type[NetworkObjective]] = {"variational": VariationalObjective, "ensemble": EnsembleObjective}


@dataclass(frozen=True, repr=False)
class Design:
    """What a search came to.

    Attributes:
        best: the design.
        score: mean log density of rows kept back, foretold by networks of this design that had not seen them.
        model: networks of this design trained on all rows.
        history: every network started, as a trial with its curve.
        notes: what was done to the table.
        forecast: means and standard deviations of all final scores, [candidates] each.
        shares: where in their predicted laws the values of rows kept back lay, [rows].
        runs: the search itself.
    """

    best: dict[str, Any]
    score: float
    model: DesignedModel
    history: list[Trial]
    notes: tuple[str, ...]
    forecast: tuple[np.ndarray, np.ndarray]
    shares: np.ndarray
    runs: Runs

    def __repr__(self) -> str:
        complete = sum(trial.state == "complete" for trial in self.history)
        return f"Design({self.best}, score {self.score:.4g}, {len(self.history)} networks, {complete} complete)"

    def _repr_html_(self) -> str:
        within = float((np.abs(self.shares - 0.5) <= 0.45).mean())
        facts = [
            ("mean log density of rows kept back", self.score), ("inside their 90 % intervals", f"{within:.0%}"),
            *self.best.items(),
        ]  # fmt: skip
        ranked = sorted(self.history, key=lambda trial: trial.reports[-1][1])
        rows = [(t.number, t.state, *t.reports[-1], *(t.params.get(name, "") for name in self.best)) for t in ranked]
        folded = [
            ("networks", table(rows, ["network", "state", "step", "value", *self.best])),
            ("the table", table((note,) for note in self.notes)),
        ]
        return fragment("Design", f"the best of {len(self.history)} networks", table(facts), folded=folded)


def search(
    X: Any, y: Any, *, family: Literal["variational", "ensemble"] = "variational", budget: float = 300.0,
    seed: int | None = None, space: Space | None = None, steps: int | None = None, penalty: float = 0.0,
    folder: str | Path | None = None, searcher: Search | None = None, most: int | None = None,
    total_steps: int | None = None,
    tell: Callable[[Runs], None] | None = None,
) -> Design:  # fmt: skip
    """Design a network for a table.

    Networks are trained a stretch at a time; a model of their training curves decides which ones are worth going on
    with. Every design is scored by cross-validation (beyond 10,000 rows, by rows kept back). The best one is trained
    on all rows with several seeds, and the spread of its predictions is stretched so that rows kept back are foretold
    best.

    Args:
        X: rows; a data frame, a mapping of columns, or an array; numbers, texts, missing values.
        y: the value of each row.
        family: variational networks or sparse ensembles.
        budget: seconds.
        seed: of everything random.
        space: of designs; see VariationalObjective and EnsembleObjective for the names they know.
        steps: of a whole training; by default more where the budget is larger.
        penalty: nats a design must gain for every factor e in its number of weights.
        folder: where every value and state is kept, so that a search that was stopped goes on from there.
        searcher: another search than the default.
        most: stop after so many stretches of training, whatever the budget.
        total_steps: stop after so many steps of all networks together, whatever the budget; a step then costs the same
            for small and large networks. The last training on all rows does not count.
        tell: called after every stretch, and once at the start of a search that goes on.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = {"size": rng.random(60), "town": rng.choice(["a", "b"], 60)}
        >>> y = 3 * X["size"] + (X["town"] == "a") + 0.1 * rng.standard_normal(60)
        >>> design = search(X, y, budget=60, steps=100, most=2, seed=0)
        >>> design.model.predict({"size": [0.5], "town": ["a"]}).shape
        (1,)
    """
    began = time.monotonic()
    seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
    names, columns = columns_of_table(X)
    values, rows, notes = target(list(y))
    columns = [[column[i] for i in rows] for column in columns]
    encoding = Encoding.learn(names, columns)
    notes = [*notes, *encoding.notes]
    x = encoding.apply(names, columns)
    if steps is None:
        steps = 2000 if budget >= 120 else 1000 if budget >= 30 else 500
    folds = folds_of(len(values), np.random.default_rng([seed, 3]))
    objective = OBJECTIVES[family](x, values, steps, folds, penalty)
    first = objective.first() if space is None else ()
    candidates = Candidates.of(space or objective.space(), 256, seed, first)
    looks = tuple(sorted({max(CHUNK, round(share * steps / CHUNK) * CHUNK) for share in SHARES[:-1]} - {steps}))
    home = None if folder is None else Path(folder)
    if home is not None:
        _same_table(home, x, values)
    runs = Runs(
        objective, candidates, (*(look for look in looks if look < steps), steps), searcher or CurveSearch(),
        seed, home, by_steps=total_steps is not None,
    )  # fmt: skip
    _explore(runs, began, budget, most, total_steps, tell)
    row = _chosen(runs)
    job = runs._job(row)
    laws = objective.kept_back(job)
    scale, score = _calibrated(laws)
    model = DesignedModel(job.params, encoding, objective.refit(job.params, seed), scale)
    return Design(job.params, score, model, runs.trials, tuple(notes), _forecast(runs), _shares(laws, scale), runs)


def _explore(
    runs: Runs, began: float, budget: float, most: int | None, total_steps: int | None,
    tell: Callable[[Runs], None] | None,
) -> None:  # fmt: skip
    """Decide and train while there is time for one more stretch and for the last training."""
    longest = 0.0
    if tell is not None and runs.events:  # what another process left
        tell(runs)
    while most is None or len(runs.events) < most:
        start = time.monotonic()
        if len(runs.events) and start - began + longest + _last_training(runs) > budget:
            return
        moves = runs.decide()
        if not moves:
            return
        done = runs.board.done
        if total_steps is not None:
            before = (0, *runs.steps)
            wanted = sum(runs.steps[done[move.row]] - before[done[move.row]] for move in moves)
            if len(runs.events) and wanted + sum(job.step for job in runs.jobs.values()) > total_steps:
                return
        runs.advance([move._replace(column=int(done[move.row])) for move in moves], tell)
        longest = max(0.7 * longest, time.monotonic() - start)


def _last_training(runs: Runs) -> float:
    """Seconds that a whole training of the dearest network that may be chosen takes, as far as one can tell."""
    paces: dict[int, list[float]] = {}
    before: dict[int, int] = {}
    for event in runs.events:
        row, step = event["network"], event["step"]
        paces.setdefault(row, []).append(event["seconds"] / (step - before.get(row, 0)))
        before[row] = step
    # The first stretch of a network may have had to wait for its program to be compiled.
    known = [min(each[1:]) for each in paces.values() if len(each) > 1] or [min(each) for each in paces.values()]
    return 1.5 * max(known) * runs.steps[-1]


def _chosen(runs: Runs) -> int:
    """The best complete network, or, if none is complete, the started one with the best forecast."""
    best = runs.board.best()
    if best is not None:
        return best
    started = runs.board.done > 0
    mean = _forecast(runs)[0]
    return int(np.argmin(np.where(started, mean, np.inf)))


def _forecast(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of all final scores."""
    posterior = KroneckerModel().fit(runs.board.curves, rng=np.random.default_rng(runs.seed)).posterior
    return moments_of(posterior)


def _calibrated(laws: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """The stretch under which rows kept back are foretold best, and their mean log density without it."""

    def density(scale: float) -> float:
        return float(np.concatenate([mixture_log_density(*law, scale) for law in laws]).mean())

    return float(SCALES[int(np.argmax([density(scale) for scale in SCALES]))]), density(1.0)


def _shares(laws: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], scale: float) -> np.ndarray:
    """The distribution function of rows kept back at their values: uniform, if all is well."""
    from scipy.special import ndtr

    found = []
    for y, mean, variance in laws:
        middle = mean.mean(axis=0)
        inner = middle + (y - middle) / scale
        found.append(ndtr((inner - mean) / np.sqrt(variance)).mean(axis=0))
    return np.concatenate(found)


def _same_table(folder: Path, x: np.ndarray, y: np.ndarray) -> None:
    """Refuse to go on with another table."""
    from presage.errors import StudyError

    mark = hashlib.sha256(np.ascontiguousarray(x).tobytes() + np.ascontiguousarray(y).tobytes()).hexdigest()
    path = folder / "table.sha256"
    if path.exists() and path.read_text() != mark:
        raise StudyError(f"{folder} holds a search for another table; name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(mark)
