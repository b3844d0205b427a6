"""How a search went: values in time, regret over repeats, who did what when."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from presage.history import History
from presage.trial import Trial


def running_best(values: Sequence[float] | np.ndarray, sign: float = 1.0) -> np.ndarray:
    """The best of the values up to each, along the last axis.

    Example:
        >>> running_best([3.0, 5.0, 1.0]).tolist()
        [3.0, 3.0, 1.0]
    """
    return sign * np.minimum.accumulate(sign * np.asarray(values, dtype=float), axis=-1)


def best_so_far(trials: Iterable[Trial], sign: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the complete trials, and the best value up to each, [n] both."""
    complete = [t for t in trials if t.values]
    values = np.array([t.values[0] for t in complete])
    return np.array([t.number for t in complete], dtype=int), running_best(values, sign)


class Band(NamedTuple):
    """Quantiles over repeats, [n] each."""

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def regret_band(
    values: np.ndarray, optimum: float, sign: float = 1.0, quantiles: tuple[float, float] = (0.25, 0.75)
) -> Band:
    """Distance of the best so far from the optimum: median and two quantiles over repeats.

    Args:
        values: one row of objective values per repeat, [repeat, n].
        optimum: the best possible value.
        sign: 1 where smaller is better, -1 where larger is.
        quantiles: the ends of the band.
    """
    regret = sign * (running_best(np.atleast_2d(values), sign) - optimum)
    low, middle, high = np.quantile(regret, [quantiles[0], 0.5, quantiles[1]], axis=0)
    return Band(low, middle, high)


def timeline(history: History, now: float | None = None) -> list[dict[str, Any]]:
    """Who ran which trial from when to when, in lanes: one per worker as far as the events tell.

    An event names the process that asked; trials that overlap in one process ran in different workers of it, so each
    process has as many lanes as it had trials at once.
    """
    spans: list[tuple[float, float, Trial]] = []
    for t in history.trials:
        until = now if t.finished is None and t.state == "running" else t.finished
        if t.suggested is not None and until is not None:
            spans.append((t.suggested, until, t))
    ends: dict[tuple[str, int], float] = {}
    rows = []
    for start, end, t in sorted(spans, key=lambda span: (span[0], span[2].number)):
        process = history.ran_by.get(t.number, "")
        lane = 0
        while ends.get((process, lane), -np.inf) > start:
            lane += 1
        ends[process, lane] = max(end, start)
        rows.append({"worker": process, "lane": lane, "number": t.number, "state": t.state, "start": start, "end": end})
    return rows
