"""What to do next: how much a search may still gain, when to stop, and what looks wrong."""

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from presage.dimensions import Choice, Float, Int, is_number
from presage.errors import StudyError
from presage.insight import Model, Record, record_of
from presage.sobol import sobol
from presage.threads import few_threads

if TYPE_CHECKING:
    from presage.study import Study
    from presage.trial import Trial

SAMPLES = 256  # draws of the best value: a probability of 5 % is then known to within 1.4 %
POOL = 2048  # points over the whole space, of which
SPREAD = 384  # the most promising ones are those at which a draw is looked at
NEAR = 128  # points around the best ones
ENOUGH = 8  # values below which advice about the model would be noise


class Remaining(NamedTuple):
    """What is left to gain under the surrogate, in the user's units.

    Attributes:
        expected: expected improvement over the best value if the search found the true optimum.
        probability: that the improvement is larger than `worth`.
        worth: the improvement that counts.
        quantiles: of the improvement, 50 %, 90 % and 95 %.
    """

    expected: float
    probability: float
    worth: float
    quantiles: tuple[float, float, float]


def remaining(study: Any, worth: float | None = None, *, samples: int = SAMPLES, seed: int = 0) -> Remaining:
    """How much better than the best value the optimum may be.

    Functions are drawn from the posterior at points all over the space and densely around the best ones; the least
    value of each draw is one guess at the optimum. Between points a function may be lower still, so the figure errs
    on the small side where the surrogate is rough.

    Args:
        study: a Study, Result or Record with at least one value.
        worth: the least improvement that matters; see `default_worth`.
        samples: functions drawn.
        seed: of points and draws.
    """
    _check_worth(worth)
    record = record_of(study)
    model, values = record.model(), np.array([record.sign * t.values[0] for t in record.complete])
    if worth is None:
        worth = default_worth(values, record.history.header["initial"])
    rng = np.random.default_rng(seed)
    with few_threads():
        draws = record.sign * model.sample(_candidates(record, model, rng), samples, rng)
    # The best observed mean counts as found: improvement is over what the surrogate believes of the best point, which
    # is the value itself without noise and steadier than the luckiest value with it.
    incumbent = max(float(values.min()), _believed(record, model)) if _noisy(model) else float(values.min())
    gain = np.maximum(incumbent - draws.min(axis=1), 0.0)
    middle, ninety, most = np.quantile(gain, [0.5, 0.9, 0.95])
    return Remaining(
        float(gain.mean()), float((gain > worth).mean()), float(worth), (float(middle), float(ninety), float(most))
    )


def _check_worth(worth: Any) -> None:
    if worth is not None and not (is_number(worth) and worth > 0.0):
        raise StudyError(f"worth > 0 must hold, but got {worth!r}")


def default_worth(values: np.ndarray, initial: int) -> float:
    """1 % of the way from the median of the first values to the best; of the size of a constant objective.

    Later values crowd around the best one and say little about what a difference is worth.
    """
    way = float(np.median(values[: max(3, initial)]) - values.min())
    return 0.01 * way if way > 0.0 else 0.01 * abs(float(values.min())) or 1e-12


def _believed(record: Record, model: Model) -> float:
    x = np.array([record.history.points[t.number] for t in record.complete])
    return float((record.sign * model.predict(x)[0]).min())


def _noisy(model: Model) -> bool:
    """Whether observations differ noticeably from f, by the surrogate."""
    return float(np.sqrt(model.posterior.noise(model.data.x[model.data.mask][:1])[0])) > 0.05


def _candidates(record: Record, model: Model, rng: np.random.Generator) -> np.ndarray:
    space = record.space
    wide = space.project(sobol(POOL, space.dim, rng))
    mean, variance = model.posterior.marginal(wide).moments()
    wide = wide[np.argsort(mean - 2.0 * np.sqrt(variance), kind="stable")[:SPREAD]]
    best = sorted(record.complete, key=lambda t: record.sign * t.values[0])[:8]
    anchors = np.nan_to_num(np.array([record.history.points[t.number] for t in best]), nan=0.5)
    scales = 10.0 ** rng.uniform(-3.0, -0.7, (NEAR, 1))
    near = np.clip(
        anchors[rng.integers(len(anchors), size=NEAR)] + scales * rng.standard_normal((NEAR, space.dim)), 0, 1
    )
    points = space.project(np.vstack([anchors, near, wide]))
    if space.constraints:
        points = points[[space.satisfies(space.decode(point)) for point in points]]
    return np.unique(points, axis=0) if not np.isnan(points).any() else points


@dataclass
class StopWhenDone:
    """A callback that ends a search when little is left to gain.

    It stops a run once the probability that more than `worth` remains stays below `probability` at `patience` looks in
    a row, which guards against luck. A surrogate that is wrong about the objective is wrong about this, too.

    Args:
        worth: the least improvement that matters, in the objective's units; see `default_worth`.
        probability: below which the search ends.
        patience: looks in a row.
        after: values before the first look; twice the initial design if left out.

    Example:
        >>> import presage
        >>> f = presage.functions.forrester
        >>> rule = StopWhenDone(worth=0.01)
        >>> result = presage.minimize(f, f.space, trials=60, seed=0, callbacks=[rule], progress=False)
        >>> result.stopped, len(result.trials) < 60
        ('callback', True)
    """

    worth: float | None = None
    probability: float = 0.05
    patience: int = 3
    after: int | None = None
    _in_a_row: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_worth(self.worth)
        for what in ("probability", "patience") if self.after is None else ("probability", "patience", "after"):
            if not is_number(getattr(self, what)):
                raise StudyError(f"{what} must be a number, but got {getattr(self, what)!r}")
        if not 0.0 < self.probability < 1.0 or self.patience < 1:
            raise StudyError(f"0 < probability < 1 and patience >= 1 must hold, but got {self}")

    def __call__(self, study: "Study", trial: "Trial") -> None:
        record = record_of(study)
        after = 2 * record.history.header["initial"] if self.after is None else self.after
        if trial.failure or len(record.complete) < max(2, after):
            return
        little = remaining(record, self.worth).probability < self.probability
        self._in_a_row = self._in_a_row + 1 if little else 0
        if self._in_a_row >= self.patience:
            study.stop()


@dataclass(frozen=True)
class Advice:
    """One thing worth knowing: a short code, how urgent it is, what was seen, and what to do about it."""

    code: str
    level: Literal["info", "warning"]
    text: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def advise(study: Any) -> list[Advice]:
    """What looks wrong or could be better, the most urgent first."""
    record = record_of(study)
    found = [
        *_failures(record), *_constant(record), *_slow(record), *_bounds(record), *_noise(record), *_log_scale(record)
    ]  # fmt: skip
    return sorted(found, key=lambda advice: advice.level != "warning")


def _failures(record: Record) -> list[Advice]:
    ended = [t for t in record.trials if t.state in ("complete", "failed")]
    failed = [t for t in ended if t.failure]
    if len(ended) < 5 or len(failed) < max(3, 0.3 * len(ended)):
        return []
    kinds = sorted({t.failure.kind for t in failed if t.failure})
    last = failed[-1].failure
    assert last is not None
    text = f"{len(failed)} of {len(ended)} trials failed ({', '.join(kinds)}); the last one: {last.message[:120]}"
    remedy = "see the traceback in the failed trial; narrow the space or add a constraint where failures gather"
    if "timeout" in kinds:
        remedy = "raise the timeout, or narrow the dimensions that make a trial slow"
    return [Advice("failures", "warning", text, remedy)]


def _constant(record: Record) -> list[Advice]:
    values = {t.values[0] for t in record.complete}
    if len(values) != 1 or len(record.complete) < 5:
        return []
    text = f"all {len(record.complete)} values are {values.pop():g}"
    return [Advice("constant", "warning", text, "check that the objective uses its params and returns what it should")]


def _slow(record: Record) -> list[Advice]:
    timed = [t for t in record.complete if t.seconds is not None and t.source == "model"][-20:]
    if len(timed) < 5:
        return []
    suggestion = float(np.median([t.latency for t in timed]))
    objective = float(np.median([t.seconds for t in timed]))
    if suggestion < 0.05 or suggestion < objective:
        return []
    text = f"a suggestion takes {suggestion:.2g} s, the objective {objective:.2g} s"
    remedy = "use surrogate='random' for an objective this fast, or let it do more work per trial"
    return [Advice("slow-suggestions", "info", text, remedy)]


def _bounds(record: Record) -> list[Advice]:
    """The best trials crowd at an end of a range that may be too narrow."""
    complete = record.complete
    if len(complete) < 2 * ENOUGH:
        return []
    top = sorted(complete, key=lambda t: record.sign * t.values[0])[: max(3, len(complete) // 10)]
    found = []
    for name in record.space.columns:
        dimension = record.space[name]
        if not isinstance(dimension, Float | Int) or (dimension.levels or 9) < 5:
            continue
        at = np.array([dimension.encode(t.params[name]) for t in top if name in t.params])
        if len(at) < len(top):
            continue
        for end, near in (
            ("low", at < 0.02 + 0.5 / (dimension.levels or 1e9)),
            ("high", at > 0.98 - 0.5 / (dimension.levels or 1e9)),
        ):
            if near.all():
                bound = getattr(dimension, end)
                side = "lower" if end == "low" else "upper"
                text = f"the best {len(at)} trials have {name} at its {side} bound {bound:g}"
                found.append(
                    Advice("at-bound", "warning", text, f"widen {name} with study.update_space(), if it may go further")
                )
    return found


def _noise(record: Record) -> list[Advice]:
    """Left-one-out predictions that gain less than 1/2 log 2 over a constant one leave half of the variance open."""
    complete = record.complete
    if len(complete) < max(2 * ENOUGH, 8 * record.space.dim) or len({t.values[0] for t in complete}) < 3:
        return []
    constant = -0.5 * math.log(2.0 * math.pi * math.e)
    if float(record.model().posterior.leave_one_out().mean()) - constant >= 0.5 * math.log(2.0):
        return []
    text = "knowing the params explains less than half of the variation of the values, as far as the model can tell"
    remedy = "if a repeated trial gives other values, average several runs or tell stddev=; check that params are used"
    return [Advice("noise", "warning", text, remedy)]


def _log_scale(record: Record) -> list[Advice]:
    """A positive range over many magnitudes that is searched evenly: nearly all points have the largest magnitude."""
    found = []
    for name in record.space.columns:
        dimension = record.space[name]
        if isinstance(dimension, Choice) or not isinstance(dimension, Float | Int) or dimension.log:
            continue
        if isinstance(dimension, Float) and dimension.step is not None:
            continue
        if dimension.low > 0 and dimension.high / dimension.low >= 1000:
            scale = f"{name} goes from {dimension.low:g} to {dimension.high:g} on an even scale"
            text = f"{scale}: nine tenths of it lie above {dimension.high / 10:g}"
            found.append(Advice("log-scale", "info", text, f"give {name} log=True if its magnitude is what matters"))
    return found
