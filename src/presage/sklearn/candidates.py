"""The candidates of a search: run fold by fold, told to the study, and put into scikit-learn's table."""

import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV

from presage.errors import SpaceExhausted, StudyError
from presage.sklearn.reading import Reading
from presage.study import Study
from presage.trial import Trial

if TYPE_CHECKING:
    from presage.sklearn.search import BayesSearchCV

__all__ = ["Run"]

Fold = dict[str, Any]  # test_scores and train_scores (a number, or numbers by name), fit_time, score_time
TIMES = ("fit_time", "score_time")


@dataclass
class Run:
    """One search: what scikit-learn evaluates, and what the study is told.

    Attributes:
        search: whose settings count.
        evaluate: runs candidates on folds, by their numbers.
        reading: of the spaces.
        study: which chooses.
        rows: of the table, by trial: params as the estimator takes them, and its folds; fewer where it was stopped.
        out: what was run so far.
        taken_up: what was run by others, as the study knows it.
    """

    search: "BayesSearchCV"
    evaluate: Callable[[list[tuple[dict[str, Any], int]]], list[Fold]]
    reading: Reading
    study: Study
    rows: dict[int, tuple[dict[str, Any], list[Fold]]] = field(default_factory=dict)
    out: list[Fold] = field(default_factory=list)
    taken_up: list[Fold] = field(default_factory=list)

    def go(self, trials: int) -> None:
        """Ask, evaluate and tell until the study has so many candidates."""
        self.splits = self.search.n_splits_
        first = self.search.first_folds
        if first is not None and not first < self.splits:
            raise ValueError(f"first_folds < {self.splits} folds must hold, but got {first}; leave it out")
        while True:
            self._take_up()
            if (left := trials - self.study._history.finished) <= 0:
                break
            try:
                self._batch(self.study.ask(min(left, self.search.n_points)))
            except SpaceExhausted:
                done = self.study._history.finished
                warnings.warn(
                    f"The total space of parameters {done} is smaller than n_iter={trials}. Running {done} iterations.",
                    UserWarning, stacklevel=4,
                )  # fmt: skip
                break
        if not self.out and not self.taken_up:
            raise ValueError("every candidate of the study failed, and none is left to run; use another name=")

    def _take_up(self) -> None:
        """The rows of candidates that an earlier search left in the study, or another process just now."""
        for trial in self.study.trials:
            if trial.number not in self.rows and (trial.failure or "splits" in trial.metrics):
                folds = _folds_of(trial.metrics, self.splits)
                self.rows[trial.number] = (self.reading.params(trial.params), folds)
                self.taken_up += folds

    def _batch(self, trials: list[Trial]) -> None:
        candidates = [self.reading.params(trial.params) for trial in trials]
        first = self.search.first_folds or self.splits
        try:
            found = self._run(candidates, range(first))
            going = [i for i, folds in enumerate(found) if first < self.splits and not self._hopeless(folds)]
            more = self._run([candidates[i] for i in going], range(first, self.splits))
        except BaseException:  # error_score="raise", Ctrl-C: they wait, and are run first when the search is taken up
            for trial in trials:
                self.study.interrupt(trial)
            raise
        for i, folds in zip(going, more, strict=True):
            found[i] += folds
        best = self._best()
        for trial, params, folds in zip(trials, candidates, found, strict=True):
            self._tell(trial, folds, best)
            self.rows[trial.number] = (params, folds)

    def _run(self, candidates: list[dict[str, Any]], folds: range) -> list[list[Fold]]:
        """Some folds of candidates."""
        jobs = [(candidate, fold) for candidate in candidates for fold in folds]
        out = self.evaluate(jobs) if jobs else []
        self.out += out
        return [out[i * len(folds) : (i + 1) * len(folds)] for i in range(len(candidates))]

    @property
    def names(self) -> list[str]:
        """Of the metrics; scikit-learn calls a single one score."""
        known = (fold["test_scores"] for fold in [*self.out, *self.taken_up])
        return list(next((scores for scores in known if isinstance(scores, dict)), {"score": 0.0}))

    @property
    def multimetric(self) -> bool:
        """Whether there are several metrics, or one that has a name."""
        return any(isinstance(fold["test_scores"], dict) for fold in [*self.out, *self.taken_up])

    def _scores(self, folds: list[Fold]) -> np.ndarray:
        """What the search improves, [fold]."""
        metric = self.search._metric(self.names)
        return np.array([_of(fold["test_scores"], metric) for fold in folds], dtype=float)

    def _best(self) -> np.ndarray | None:
        """The scores of the best candidate that ran all folds."""
        whole = [self._scores(folds) for _, folds in self.rows.values() if len(folds) == self.splits]
        whole = [scores for scores in whole if np.isfinite(scores).all()]
        return max(whole, key=np.mean, default=None)

    def _hopeless(self, folds: list[Fold]) -> bool:
        """Whether a candidate cannot become the best even with each fold it lacks scored as high as any fold so far."""
        scores, best = self._scores(folds), self._best()
        if not np.isfinite(scores).all():
            return True
        if best is None:
            return False
        # The best score on the very same fold would be no bound while few candidates are known.
        highest = max(np.nanmax(self._scores(known)) for _, known in self.rows.values() if known)
        return bool(scores.sum() + (self.splits - len(scores)) * highest <= best.sum())

    def _tell(self, trial: Trial, folds: list[Fold], best: np.ndarray | None) -> None:
        """Tell the study of a candidate, compared with the best before it where it was stopped."""
        scores = self._scores(folds)
        value = float(scores.mean())
        if not math.isfinite(value):
            reasons = [fold["fit_error"].strip().splitlines()[-1] for fold in folds if fold["fit_error"]]
            lacking = int((~np.isfinite(scores)).sum())
            self.study.tell(trial, failed=": ".join([f"{lacking} of {len(scores)} folds have no score", *reasons[:1]]))
            return
        if len(folds) < self.splits:
            # Some folds are easier than others: compared on the same ones, and so never better than the best.
            assert best is not None
            value = float(best.mean() + value - best[: len(folds)].mean())
        self.study.tell(trial, value, metrics=_metrics(folds, self.splits))

    def results(self) -> dict[str, Any]:
        """The table: scikit-learn's, in which candidates that were stopped are marked."""
        names, lacking, rows = self.names, _blank(np.nan), [self.rows[number] for number in sorted(self.rows)]
        out = [
            {what: _named(fold.get(what, np.nan), names) if what.endswith("scores") else fold[what] for what in lacking}
            for _, folds in rows for fold in [*folds, *[lacking] * (self.splits - len(folds))]
        ]  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "One or more of the", UserWarning)
            made = BaseSearchCV._format_results(self.search, [params for params, _ in rows], self.splits, out)
        columns = {time: [fold[time] for fold in out] for time in TIMES}
        for kind in ("test", "train") if self.search.return_train_score else ("test",):
            columns |= {f"{kind}_{name}": [_of(fold[f"{kind}_scores"], name) for fold in out] for name in names}
        stopped = [bool(folds) and len(folds) < self.splits and not self._failed(folds) for _, folds in rows]
        for row in np.flatnonzero(stopped):
            for column, cells in columns.items():
                some = np.array(cells).reshape(len(rows), self.splits)[row, : len(rows[row][1])]
                made[f"mean_{column}"][row], made[f"std_{column}"][row] = some.mean(), some.std()
        if self.search.first_folds is not None:
            made["stopped"] = np.array(stopped)
        for column in columns.keys() - {*TIMES}:
            if not np.isfinite(means := made[f"mean_{column}"]).all():
                kind = column.partition("_")[0]
                warnings.warn(f"One or more of the {kind} scores are non-finite: {means}", UserWarning, stacklevel=5)
        return made

    def _failed(self, folds: list[Fold]) -> bool:
        return not np.isfinite(self._scores(folds)).all()


def _blank(score: Any) -> Fold:
    return {"test_scores": score, "train_scores": score, **dict.fromkeys(TIMES, np.nan)}


def _of(scores: Any, name: str) -> float:
    """A score by name; a fold that raised may have one number for all of them."""
    return scores.get(name, np.nan) if isinstance(scores, dict) else scores


def _named(scores: Any, names: list[str]) -> Any:
    return {name: _of(scores, name) for name in names} if names != ["score"] else _of(scores, "score")


def _metrics(folds: list[Fold], splits: int) -> dict[str, float]:
    """Folds as numbers that a study keeps, so that the table can be made again."""
    numbers: dict[str, float] = {"splits": splits}
    for i, fold in enumerate(folds):
        for kind in ("test", "train"):
            scores = fold.get(f"{kind}_scores", {})
            named = scores if isinstance(scores, dict) else {"score": scores}
            numbers |= {f"split{i}_{kind}_{name}": float(score) for name, score in named.items()}
        numbers |= {f"split{i}_{time}": float(fold[time]) for time in TIMES}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def _folds_of(metrics: Mapping[str, float], splits: int) -> list[Fold]:
    """What `_metrics` wrote; nothing for a trial that failed."""
    if not metrics:
        return []
    if metrics["splits"] != splits:
        raise StudyError(
            f"the study has candidates of {metrics['splits']:g} folds, but cv gives {splits}; name another"
        )
    found = (re.fullmatch(r"split\d+_test_(.+)", key) for key in metrics)
    names = list(dict.fromkeys(match[1] for match in found if match))
    count = 1 + max((i for i in range(splits) if any(key.startswith(f"split{i}_") for key in metrics)), default=-1)
    return [
        {
            "fit_error": None,
            **{
                f"{kind}_scores": _named({n: metrics.get(f"split{i}_{kind}_{n}", np.nan) for n in names}, names)
                for kind in ("test", "train")
            },
            **{time: metrics.get(f"split{i}_{time}", np.nan) for time in TIMES},
        }
        for i in range(count)
    ]  # fmt: skip
