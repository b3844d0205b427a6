"""Forecasts of the learning curves of a study's trials, for those who watch it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from presage.design.curves import Curves, LatentKronecker
from presage.observations import columns_of
from presage.space import Space
from presage.trial import Trial

ROWS, STEPS = 24, 10  # of the table that is fitted: a look at a page should not take longer than a moment


class Forecast(NamedTuple):
    """What is expected of a curve from its last report on: steps, mean and central 95 % interval, [m] each."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def forecast(trials: Sequence[Trial], space: Space, sign: float = 1.0) -> dict[int, Forecast]:
    """Forecasts, up to the last step that any trial reached, of those that run or are paused, by trial number.

    Args:
        trials: of one study; those without reports do not count, nor do failed ones.
        space: of their params.
        sign: 1 where small values are good, -1 where large ones are.
    """
    last = {t.number: max(step for step, _ in t.reports) for t in trials if t.reports}
    usable = [t for t in trials if t.number in last and t.state in ("complete", "running", "paused")]
    open_ = [t for t in usable if t.state != "complete"][-ROWS // 2 :]
    rows = [t for t in usable if t.state == "complete"][-(ROWS - len(open_)) :] + open_
    end = max((last[t.number] for t in rows), default=0)
    if len(rows) - len(open_) < 2 or all(last[t.number] == end for t in open_):
        return {}
    reported = np.unique([step for t in rows for step, _ in t.reports])
    # The steps at which most can be learned lie evenly in their logarithm; the end of each open curve is among them.
    wanted = np.geomspace(1, len(reported), STEPS).round().astype(int) - 1
    steps = np.unique([*reported[wanted], *(last[t.number] for t in open_), end])
    values = np.array([_along(t, steps) for t in rows])
    x = np.array([space.encode(t.params) for t in rows])
    shift = 1.0 - min(float(steps[0]), 1.0)  # the model knows positive steps only
    curves = Curves(x, steps + shift, sign * values, columns_of(space))
    posterior = LatentKronecker().fit(curves, rng=np.random.default_rng(0)).posterior
    found = {}
    laws = [posterior.marginal(c) for c in range(len(steps))]
    mean = np.array([law.mean[0] for law in laws])
    spread = 1.96 * np.sqrt(np.array([law.variance[0] for law in laws]))
    for i, trial in enumerate(rows):
        if trial.state == "complete" or last[trial.number] == end:
            continue
        ahead = steps >= last[trial.number]
        bounds = [sign * posterior.squash.inverse(mean[ahead, i] + k * spread[ahead, i]) for k in (0.0, -sign, sign)]
        found[trial.number] = Forecast(steps[ahead], *bounds)
    return found


def _along(trial: Trial, steps: np.ndarray) -> np.ndarray:
    """A curve at some steps, between its reports by straight lines; NaN before the first and after the last."""
    at, values = np.array(sorted(trial.reports), dtype=float).T
    return np.interp(steps, at, values, left=np.nan, right=np.nan)
