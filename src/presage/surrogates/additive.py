"""A sum of functions of a few columns each; which columns belong together is learned from the values."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from scipy.linalg import lapack

from presage.kernels import Matern, Stationary, Sum, additive
from presage.means import ConstantMean, Mean
from presage.observations import Column, Observations
from presage.priors import Prior
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.factor import JITTERS
from presage.surrogates.gaussian import Model, Table
from presage.surrogates.gaussian_process import NOISE, due, fit
from presage.surrogates.hyperparameters import Hyperparameters, Mode
from presage.warping import Warp

GROUPS = "groups"  # in the state: the number of the group that each column is in, [d]
ROWS = 150  # values that the search for groups looks at, at most
UNSURE = 0.01  # noise variance, at least, where the hyperparameters are not those of the groups
GAIN = 1.0  # by so much the log evidence must rise for a column to change its group
LOSS = 0.5  # and by so much it may fall for a column to be alone, where it is easier to understand
ROUNDS = 4  # of regrouping at given hyperparameters and finding these again, in one fit

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class AdditiveProcess(Surrogate):
    """A Gaussian process f = sum of f_g(columns of group g), with groups that are learned.

    Columns change their groups one at a time as long as the evidence rises, and hyperparameters are found again for the
    new groups (a greedy form of the searches over partitions in Gardner et al., 2017, and Wang et al., 2017, arXiv
    1703.01973). A fit goes on from the groups of the one before. What is known in many dimensions is then known
    group by group: values say something about points that are far away in all other columns.

    Args:
        kernel: of each group, on the columns of that group.
        largest: columns in a group, at most.
        moves: evidences evaluated per round; the columns that matter most are tried, as many as can meet each other.
        mean: of the process.
        noise: prior of the noise variance.
        smallest_noise: lower bound of the noise variance.
        warp: mean and standard deviation of the exponent of the values' warp, or None to leave the values alone.
        hyperparameters: how they are found once the groups are.

    Example:
        >>> import numpy as np
        >>> from presage.observations import Column, observe
        >>> x = np.random.default_rng(0).random((60, 4))
        >>> y = np.sin(6 * x[:, 0] * x[:, 2]) + np.cos(5 * x[:, 1])
        >>> fit = AdditiveProcess().fit(observe(x, y, (Column("continuous"),) * 4), rng=np.random.default_rng(0))
        >>> fit.diagnostics["groups"]
        [[0, 2], [1], [3]]
    """

    kernel: Stationary = Matern()
    largest: int = 4
    moves: int = 300
    mean: Mean = ConstantMean()
    noise: Prior = NOISE
    smallest_noise: float = 1e-8
    warp: tuple[float, float] | None = (1.0, 1.0)
    hyperparameters: Hyperparameters = Mode()

    def __post_init__(self) -> None:
        if self.largest < 1 or self.moves < 0:
            raise ValueError(
                f"largest >= 1 and moves >= 0 must hold, but got largest={self.largest}, moves={self.moves}"
            )
        kernel = self.kernel
        if not isinstance(kernel, Stationary):
            raise TypeError(f"the kernel of a group must be a stationary one such as Matern(), but got {kernel!r}")
        if kernel.on is not None or kernel.shared or kernel.variance is None or kernel.shape():
            raise ValueError(
                "the kernel of a group must have a lengthscale per column, a variance and no other parameters, and its "
                f"columns are found by the fit, but got {kernel!r}; leave on=, shared= and variance= as they are"
            )

    def model(self, columns: tuple[Column, ...], groups: Groups) -> Model:
        """The process before its hyperparameters."""
        kernel = additive(self.kernel, groups)
        return Model(kernel, self.mean, columns, self.noise, self.smallest_noise, self.warp)

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        columns = data.columns
        groups = _groups(previous, len(columns))
        known = None if groups is None else previous
        groups = groups or tuple((j,) for j in range(len(columns)))
        if not keep or known is None:
            groups, known = self._learned(data, groups, known, rng)
        found = fit(self.model(columns, groups), self.hyperparameters, data, rng, known, keep)
        report = {**found.diagnostics, "groups": [list(group) for group in groups]}
        return Fit(found.posterior, {**found.state, GROUPS: numbered(groups, len(columns))}, report)

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        return due(self, data, state, fitted)

    def _learned(
        self, data: Observations, groups: Groups, known: State | None, rng: np.random.Generator
    ) -> tuple[Groups, State]:
        """Better groups than these, and hyperparameters to start from."""
        model = self.model(data.columns, groups)
        table = _some(Table.of(data, model.axes), rng)
        start = None if known is None else known.get("theta")
        if start is not None and start.shape[1:] != (model.priors.size,):
            start = None
        theta, report = Mode().find(model, table, start, rng=rng)
        whole = self._undivided(data, table, rng)
        for _ in range(ROUNDS):
            better = False
            for parts in (Parts.of(theta[0], groups), whole):
                moved = regroup(model, table, parts, groups, self.largest, self.moves, rng)
                if moved == groups:
                    continue
                other = self.model(data.columns, moved)
                trial, its_report = Mode().find(other, table, parts.theta(moved)[None], rng=rng)
                # What looked better at the old hyperparameters may not be at its own.
                needed = GAIN if len(moved) <= len(groups) else -LOSS
                if its_report["energy"] < report["energy"] - needed:
                    model, groups, theta, report, better = other, moved, trial, its_report, True
                    break
            if not better:
                break
        return groups, {"theta": theta}

    def _undivided(self, data: Observations, table: Table, rng: np.random.Generator) -> "Parts":
        """Hyperparameters as one group of all columns has them.

        Groups that tear a product apart see no trace of its columns and make their lengthscales long; then no single
        move would pay.
        """
        everything = (tuple(range(len(data.columns))),)
        model = self.model(data.columns, everything)
        parts = Parts.of(Mode().find(model, table, None, rng=rng).theta[0], everything)
        rest = parts.rest.copy()
        rest[0] = max(rest[0], math.log(UNSURE))
        return parts._replace(rest=rest)


def _some(table: Table, rng: np.random.Generator) -> Table:
    """The table, or some of its rows where there are many."""
    if len(table.y) <= ROWS:
        return table
    rows = np.sort(rng.permutation(len(table.y))[:ROWS])
    return replace(
        table, x=table.x[rows], features=table.features[rows], y=table.y[rows], noise=table.noise[rows]
    )  # fmt: skip


def numbered(groups: Groups, count: int) -> np.ndarray:
    """The number of each column's group, [d]."""
    number = np.zeros(count, dtype=int)
    for i, group in enumerate(groups):
        number[list(group)] = i
    return number


def _groups(state: State | None, count: int) -> Groups | None:
    """The groups in a state; None where there are none for so many columns."""
    number = None if state is None else state.get(GROUPS)
    if number is None or len(number) != count:
        return None
    return _sorted([np.flatnonzero(number == i).tolist() for i in range(number.max(initial=-1) + 1)])


def _sorted(groups: list[list[int]]) -> Groups:
    """Groups in the order of their first columns, empty ones left out."""
    return tuple(sorted(tuple(sorted(group)) for group in groups if group))


class Parts(NamedTuple):
    """Hyperparameters of a sum over groups, column by column.

    Attributes:
        length: log lengthscales, [d].
        share: of the variance of its group, which a column takes along where it goes, [d].
        rest: what follows the kernel's in theta: log noise variance, mean, exponent.
    """

    length: np.ndarray
    share: np.ndarray
    rest: np.ndarray

    @staticmethod
    def of(theta: np.ndarray, groups: Groups) -> "Parts":
        """From a vector for some groups."""
        length, share = np.zeros((2, sum(map(len, groups))))
        at = 0
        for group in groups:
            length[list(group)] = theta[at : at + len(group)]
            weight = np.exp(-length[list(group)])  # a column that hardly matters takes next to nothing along
            share[list(group)] = math.exp(theta[at + len(group)]) * weight / weight.sum()
            at += len(group) + 1
        return Parts(length, share, theta[at:])

    def theta(self, groups: Groups) -> np.ndarray:
        """As a vector for other groups."""
        parts = [np.append(self.length[list(group)], math.log(self.share[list(group)].sum())) for group in groups]
        return np.concatenate([*parts, self.rest])


def regroup(
    model: Model, table: Table, parts: Parts, groups: Groups, largest: int, moves: int, rng: np.random.Generator
) -> Groups:
    """Groups of larger evidence at the same lengthscales and noise, column after column.

    Args:
        model: of the groups as they are.
        table: the data.
        parts: hyperparameters, which stay.
        groups: as they are.
        largest: columns in a group, at most.
        moves: evidences evaluated, at most.
        rng: chooses the order of columns.
    """
    search = _Search.of(model, table, parts)
    # A column that f hardly depends on tells nothing apart wherever it is.
    matter = np.argsort(parts.length - 0.5 * np.log(parts.share), kind="stable")[: max(2, math.isqrt(moves))]
    sets = [list(group) for group in groups]
    kernels = [search.kernel(group) for group in sets]
    total = np.add.reduce(kernels)
    worth, left, moved = search.evidence(total), moves, True
    while moved and left > 0:
        moved = False
        for j in rng.permutation(matter).tolist():
            home = next(i for i, group in enumerate(sets) if j in group)
            without = [k for k in sets[home] if k != j]
            rest = search.kernel(without)
            base = total - kernels[home] + rest
            best: tuple[float, int, np.ndarray] | None = None
            for i, group in enumerate([*sets, []]):  # the last one: alone
                inside = i < len(sets) and np.isin(group, matter).any()
                alone = i == len(sets) and without
                if left <= 0 or i == home or not (alone or (inside and len(group) < largest)):
                    continue
                joined = search.kernel([*group, j])
                value = search.evidence(base + joined - (kernels[i] if inside else 0.0))
                left -= 1
                needed = -LOSS if alone else GAIN
                if value > worth + needed and (best is None or value > best[0]):
                    best = value, i, joined
            if best is not None:
                worth, i, joined = best
                total, moved = base + joined - (kernels[i] if i < len(sets) else 0.0), True
                sets[home], kernels[home] = without, rest
                if i < len(sets):
                    sets[i], kernels[i] = [*sets[i], j], joined
                else:
                    sets.append([j])
                    kernels.append(joined)
    return _sorted(sets)


@dataclass(frozen=True)
class _Search:
    """The evidence of groups at fixed lengthscales, noise, mean and warp.

    Attributes:
        one: the kernel of a group, for its profile.
        square: squared distances of the rows in each column, in lengthscales, [d, n, n].
        share: variance that each column brings to its group, [d].
        residual: values less the mean, [n].
        noise: variances, [n].
    """

    one: Stationary
    square: np.ndarray
    share: np.ndarray
    residual: np.ndarray
    noise: np.ndarray

    @staticmethod
    def of(model: Model, table: Table, parts: Parts) -> "_Search":
        theta = np.append(np.zeros(model.noise_at), parts.rest)  # the kernel's are not asked for
        warp = Warp() if model.warp is None else Warp.of(table.y, model.exponent(theta))[0]
        latent = warp.forward(table.y)
        known = table.noise * np.exp(2.0 * warp.log_slope(table.y))
        level = model.mean.evaluate(theta[model.mean_at], table.x, table.units(latent, warp)).value
        square = np.zeros((len(parts.length), len(latent), len(latent)))
        for feature, column in zip(table.features.T, model.axes.owner, strict=True):
            square[column] += ((feature[:, None] - feature) / math.exp(parts.length[column])) ** 2
        one = cast(Stationary, cast(Sum, model.kernel).parts[0])
        return _Search(one, square, parts.share, latent - level, math.exp(parts.rest[0]) + known)

    def kernel(self, group: list[int]) -> np.ndarray:
        """Of the rows with each other, [n, n]."""
        if not group:
            return np.zeros_like(self.square[0])
        return self.share[group].sum() * self.one.profile(self.square[group].sum(axis=0), np.empty(0)).value

    def evidence(self, kernel: np.ndarray) -> float:
        """log p(values), up to a constant."""
        K = kernel.copy()
        diagonal = np.diag_indices(len(K))
        K[diagonal] += self.noise + JITTERS[0] * K[diagonal].mean()
        factor, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            return -math.inf
        white = lapack.dtrtrs(factor, self.residual, lower=1)[0]
        return -0.5 * float(white @ white) - float(np.log(factor[diagonal]).sum())
