"""Whether the surrogate's probabilities came true."""

from typing import NamedTuple

import numpy as np

from presage.insight.record import Record


class Foretold(NamedTuple):
    """What the surrogate said of values before it saw them, [n] each.

    Attributes:
        number: of the trials.
        pit: predictive probability of a value at most as large as the one that came (probability integral transform);
            uniform where the surrogate is calibrated.
        log_density: log predictive density in the user's units.
        mean, stddev: of f, predicted, in the user's units.
        value: what came.
    """

    number: np.ndarray
    pit: np.ndarray
    log_density: np.ndarray
    mean: np.ndarray
    stddev: np.ndarray
    value: np.ndarray


def foretell(record: Record, start: int | None = None, growth: float = 0.125) -> Foretold:
    """Fit to the first values, foretell the next few, take them in, and so on: every prediction is of the future.

    Args:
        record: the study.
        start: values seen before the first prediction; by default the initial design.
        growth: how many more are foretold before the next fit, as a share of those seen.
    """
    key = (record.history.seq, start, growth)
    if record.foretold is None or record.foretold[0] != key:
        record.foretold = key, _foretell(record, start, growth)
    return record.foretold[1]


def _foretell(record: Record, start: int | None, growth: float) -> Foretold:
    complete = record.complete
    seen = max(2, record.history.header["initial"] if start is None else start)
    parts: list[tuple[np.ndarray, ...]] = []
    numbers: list[int] = []
    while seen < len(complete):
        until = min(len(complete), seen + max(1, int(growth * seen)))
        data = record.prefix(seen)
        model = record.model_of(data)
        new = record.prefix(until).rescaled(data.center, data.scale)
        x, y, noise = new.x[seen:], new.y[seen:], new.noise[seen:]
        log_density, below = model.posterior.foretold(x, y, noise)
        pit = below if record.sign > 0 else 1.0 - below
        parts.append((pit, log_density - np.log(data.scale), *model.predict(x), model.to_user(y)))
        numbers += [t.number for t in complete[seen:until]]
        seen = until
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0)] * 5
    return Foretold(np.array(numbers, dtype=int), *columns)


def reliability(pit: np.ndarray, levels: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Nominal levels of central intervals and the share of values inside each, [k] both.

    Example:
        >>> reliability(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.5]))[1].tolist()
        [0.5]
    """
    levels = np.linspace(0.0, 1.0, 21) if levels is None else levels
    inside = np.abs(pit - 0.5)[:, None] <= 0.5 * levels
    return levels, inside.mean(axis=0)
