"""How good runs were: regret as S3 measures it, areas, ranks with their uncertainty, and who is level with whom.

Regret is how far a value without noise lies above the minimum. Arrays of runs have one row per seed, [seeds, trials].
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

TIE = 1e-9  # of a problem's scale: regrets nearer than this are rounding, not merit
DRAWS = 2000  # bootstrap samples
LEVEL = 0.95  # of confidence intervals
VERDICTS = ("ahead", "level", "behind")
TOO_FEW = "too few seeds"
FEWEST = 6  # seeds for a verdict: with fewer, a method that wins all of them may be as good as the other (p > 0.06)


def completed(regret: Sequence[float], trials: int) -> np.ndarray:
    """Regret of every evaluation, [trials]; a run that ended early has its best to the end.

    Example:
        >>> completed([4.0, 2.0, 3.0], 5)
        array([4., 2., 3., 2., 2.])
    """
    found = np.maximum(np.asarray(regret, dtype=float), 0.0)  # rounding may go below
    return np.concatenate([found, np.full(trials - len(found), found.min())])


def minimum_regret(regret: np.ndarray) -> np.ndarray:
    """S3's Q_n: the least regret among the first n evaluations, for every n.

    Example:
        >>> minimum_regret(np.array([4.0, 1.0, 3.0]))
        array([4., 1., 1.])
    """
    return np.minimum.accumulate(regret, axis=-1)


def average_regret(regret: np.ndarray) -> np.ndarray:
    """S3's R_n / n: the mean regret of the first n evaluations, for every n.

    Example:
        >>> average_regret(np.array([4.0, 1.0, 1.0]))
        array([4. , 2.5, 2. ])
    """
    return np.cumsum(regret, axis=-1) / np.arange(1, regret.shape[-1] + 1)


def tail_probability(regret: np.ndarray, epsilon: float) -> np.ndarray:
    """S3's empirical P[R_n / n > epsilon] over runs [seeds, trials], for every n.

    Example:
        >>> tail_probability(np.array([[4.0, 0.0], [1.0, 0.0]]), 1.5)
        array([0.5, 0.5])
    """
    return (average_regret(regret) > epsilon).mean(axis=0)


def area(regret: np.ndarray, scale: float) -> np.ndarray:
    """Area under the best-so-far curve: the mean over evaluations of Q_n in units of a scale.

    Example:
        >>> float(area(np.array([4.0, 1.0, 3.0, 2.0]), 2.0))
        0.875
    """
    return minimum_regret(regret).mean(axis=-1) / scale


def evaluations_to(regret: np.ndarray, target: float) -> np.ndarray:
    """Number of evaluations until the regret is at most a target, infinite where it never is.

    Example:
        >>> float(evaluations_to(np.array([4.0, 1.0, 3.0]), 1.0))
        2.0
    """
    reached = regret <= target
    return np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1.0, np.inf)


def seconds_to(regret: np.ndarray, seconds: np.ndarray, target: float) -> np.ndarray:
    """Seconds of a method's own until the regret is at most a target, infinite where it never is; [seeds] or one."""
    spent, count = np.cumsum(seconds, axis=-1), evaluations_to(regret, target)
    at = np.where(np.isfinite(count), count - 1, 0).astype(int)
    return np.where(np.isfinite(count), np.take_along_axis(spent, at[..., None], axis=-1)[..., 0], np.inf)


def ranks(values: np.ndarray, tie: float = 0.0) -> np.ndarray:
    """Ranks from 1 (least) along the first axis, [methods, ...]; values not more than `tie` apart share theirs.

    Example:
        >>> ranks(np.array([3.0, 1.0, 3.0]))
        array([2.5, 1. , 2.5])
    """
    below = (values[None] < values[:, None] - tie).sum(axis=1)
    level = (np.abs(values[None] - values[:, None]) <= tie).sum(axis=1)
    return below + (level + 1) / 2


@dataclass(frozen=True)
class Runs:
    """All methods on one problem, on the seeds that all of them have.

    Attributes:
        problem: its name.
        seeds: what they have in common.
        regret: [methods, seeds, trials].
        seconds: of each suggestion, NaN where a run had ended, [methods, seeds, trials].
        observed: the values that methods saw, where they have noise, [methods, seeds, trials].
    """

    problem: str
    seeds: tuple[int, ...]
    regret: np.ndarray
    seconds: np.ndarray
    observed: np.ndarray | None = None

    @property
    def scale(self) -> float:
        """The median regret of a first evaluation: what it is worth to search at all."""
        return float(np.median(self.regret[:, :, 0])) or 1.0

    def best(self, after: int | None = None) -> np.ndarray:
        """Least regret after some evaluations, all of them if left out, [methods, seeds]."""
        return self.regret[:, :, :after].min(axis=2)

    def picked(self) -> np.ndarray:
        """Regret where the value seen was least, which under noise is not the least regret, [methods, seeds]."""
        if self.observed is None:
            return self.best()
        at = self.observed.argmin(axis=2)
        return np.take_along_axis(self.regret, at[:, :, None], axis=2)[:, :, 0]

    def ranks(self, after: int | None = None) -> np.ndarray:
        """Ranks of the methods for every seed, [methods, seeds]."""
        return ranks(self.best(after), TIE * self.scale)


def gather(records: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> list[Runs]:
    """Runs by problem, for problems of which every method has some seed in common with all others."""
    table = {(r["problem"], r["method"], r["seed"]): r for r in records}
    found = []
    for problem in dict.fromkeys(r["problem"] for r in records):
        own = [{seed for p, m, seed in table if p == problem and m == method} for method in methods]
        common = sorted(set.intersection(*own)) if own else []
        if not common:
            continue
        chosen = [[table[problem, method, seed] for seed in common] for method in methods]
        trials = max(r["trials"] for row in chosen for r in row)
        regret = [[completed(r["regret"], trials) for r in row] for row in chosen]
        seconds = [[[*r["seconds"], *[np.nan] * (trials - len(r["seconds"]))] for r in row] for row in chosen]
        observed = None
        if all("values" in r for row in chosen for r in row):
            observed = np.array(
                [[[*r["values"], *[np.inf] * (trials - len(r["values"]))] for r in row] for row in chosen]
            )
        found.append(Runs(problem, tuple(common), np.array(regret), np.array(seconds, dtype=float), observed))
    return found


@dataclass(frozen=True)
class Interval:
    """A mean and where it may lie."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def mean_ranks(runs: Sequence[Runs], *, after: int | None = None, seed: int = 0) -> list[Interval]:
    """Mean rank of each method over problems, every problem counting alike, with bootstrap intervals.

    Problems are drawn with replacement and within each of them seeds, as both are samples of what might be asked.
    """
    tables = [r.ranks(after) for r in runs]
    rng = np.random.default_rng(seed)
    drawn = np.empty((DRAWS, len(tables[0])))
    for i in range(DRAWS):
        chosen = rng.integers(len(tables), size=len(tables))
        rows = [tables[p][:, rng.integers(tables[p].shape[1], size=tables[p].shape[1])].mean(axis=1) for p in chosen]
        drawn[i] = np.mean(rows, axis=0)
    means = np.mean([table.mean(axis=1) for table in tables], axis=0)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [Interval(float(m), float(a), float(b)) for m, a, b in zip(means, low, high, strict=True)]


@dataclass(frozen=True)
class Duel:
    """One method against the best other one on a problem.

    Attributes:
        problem: its name.
        rival: the other method with the least median regret, chosen with hindsight.
        won: share of seeds on which the method ends lower, ties counting half, with its interval.
        verdict: ahead or behind where the interval lies above or below one half and a sign test over the seeds that
            are not tied agrees at the same level (the bootstrap of few seeds is too sure), level elsewhere; `TOO_FEW`
            where there are fewer than FEWEST seeds.
    """

    problem: str
    rival: str
    won: Interval
    verdict: str


def duel(runs: Runs, methods: Sequence[str], ours: str, *, among: Sequence[str] | None = None, seed: int = 0) -> Duel:
    """Whether a method is level with the best of the others on a problem, or ahead of it, by the bootstrap over seeds.

    Args:
        runs: of one problem.
        methods: names of its rows.
        ours: the method in question.
        among: the others to compare with; all that have another name if left out.
        seed: of the bootstrap.
    """
    best = runs.best()
    others = [m for m in (methods if among is None else among) if m != ours]
    medians = {m: (np.median(best[methods.index(m)]), best[methods.index(m)].mean()) for m in others}
    rival = min(others, key=lambda m: medians[m])
    mine, theirs = best[methods.index(ours)], best[methods.index(rival)]
    tie = TIE * runs.scale
    won = np.where(np.abs(mine - theirs) <= tie, 0.5, (mine < theirs).astype(float))
    rng = np.random.default_rng(seed)
    drawn = won[rng.integers(len(won), size=(DRAWS, len(won)))].mean(axis=1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    untied = won[won != 0.5]
    sure = len(untied) > 0 and binomtest(int(untied.sum()), len(untied)).pvalue < 1 - LEVEL
    verdict = "ahead" if sure and low > 0.5 else "behind" if sure and high < 0.5 else "level"
    if len(won) < FEWEST:
        verdict = TOO_FEW
    return Duel(runs.problem, rival, Interval(float(won.mean()), float(low), float(high)), verdict)


@dataclass(frozen=True)
class Pair:
    """One method against one other on all problems, on whatever seeds the two have in common.

    Attributes:
        other: the other method.
        problems: how many they share.
        seeds: the fewest and the most of a problem.
        lower, tied, higher: how many runs end so.
        share: of runs won, every problem counting alike, ties half.
        verdicts: how many problems with enough seeds have each.
    """

    other: str
    problems: int
    seeds: tuple[int, int]
    lower: int
    tied: int
    higher: int
    share: Interval
    verdicts: Counter[str]


def pairs(records: Sequence[Mapping[str, Any]], methods: Sequence[str], ours: str) -> list[Pair]:
    """A method against each of the others it shares seeds with, the one it wins least from first."""
    found = []
    for other in (name for name in methods if name != ours):
        runs = gather(records, [ours, other])
        if not runs:
            continue
        rank, ends = mean_ranks(runs)[0], np.concatenate([r.ranks()[0] for r in runs])
        counts = [len(r.seeds) for r in runs]
        verdicts = Counter(duel(r, [ours, other], ours).verdict for r in runs)
        del verdicts[TOO_FEW]
        lower, tied, higher = (int((ends == place).sum()) for place in (1.0, 1.5, 2.0))
        share = Interval(2.0 - rank.mean, 2.0 - rank.high, 2.0 - rank.low)
        found.append(Pair(other, len(runs), (min(counts), max(counts)), lower, tied, higher, share, verdicts))
    return sorted(found, key=lambda pair: pair.share.mean)
