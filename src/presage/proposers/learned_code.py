"""A search in a learned code: an autoencoder tells many dimensions from a few, and the few are searched."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from presage.errors import SpaceError
from presage.kernels import Axes
from presage.observations import Column, Observations
from presage.proposers.autoencoder import Autoencoder, learn
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.embedding import inner
from presage.proposers.model_based import ModelBased
from presage.proposers.nested import Either, check, joined, split
from presage.proposers.random import RandomSearch
from presage.surrogates import State

PREFIX, MODEL, WHOLE, ROWS = "code.", "code.model.", "code.whole.", "code.rows"
TRUSTED = 0.1  # noise, in standardised units, of values at points that their codes stand for
FEW = 4  # rows from which a code can be learned, at least
RENEWED = 1.2  # the code is learned again when there are so many times as many values


@dataclass(frozen=True, eq=False)
class LearnedCode(Proposer):
    """Bayesian optimisation in the code of an autoencoder that is learned from examples, or from the better points.

    For designs that lie near a curved surface of few dimensions among many: shapes, curves, settings that go together.
    The surface is learned from `examples`, which need no values. Without any, it is learned from the points tried so
    far, good ones counting more; then it is a guess at where good points lie, and a part of the points is chosen in the
    whole space lest it be taken for the truth. Functions of a cube without such a surface are better served by
    `TrustRegion` or `Embedding`.

    Args:
        dim: numbers in a code.
        examples: designs such as those looked for, as points of the unit cube (`space.encode`), [m, d].
        width: hidden units of the encoder and of the decoder.
        whole: one point out of so many is chosen in the whole space rather than in the code; 0 for none.
        base: model, acquisition and maximiser, used in the code and in the whole space.
        evaluations: of the loss when a code is learned.
    """

    dim: int = 3
    examples: np.ndarray | None = None
    width: int = 32
    whole: int = 4
    base: ModelBased = field(default_factory=ModelBased)
    evaluations: int = 300

    def __post_init__(self) -> None:
        check(self, dim=1, width=1, whole=0, evaluations=1)
        if self.examples is not None:
            examples = np.asarray(self.examples, dtype=float)
            if examples.ndim != 2 or len(examples) < FEW:
                raise ValueError(
                    f"examples must be an array of {FEW} points or more, one per row, but has the shape "
                    f"{examples.shape}; use np.array([space.encode(params) for params in designs])"
                )
            if not ((examples >= 0.0) & (examples <= 1.0) | np.isnan(examples)).all():
                raise ValueError(
                    f"examples must lie in the unit cube, but go from {np.nanmin(examples):g} to "
                    f"{np.nanmax(examples):g}; use np.array([space.encode(params) for params in designs])"
                )
            object.__setattr__(self, "examples", examples)

    def propose(
        self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        axes = Axes(domain.columns)
        if self.examples is not None and self.examples.shape[1] != len(axes):
            raise ValueError(f"examples must have {len(axes)} columns, but have {self.examples.shape[1]}")
        if self.examples is None and data.count < FEW:
            return RandomSearch().propose(state, data, domain, count, rng=rng)
        code, state = self._code(state, data, axes, rng)
        keys: set[str] = set()
        domain = replace(domain, taken=Either(domain.taken, keys))
        place = inner(domain, lambda codes: to_cube(code, codes, axes), len(code.low))
        chosen, info = np.empty((0, len(axes))), {"source": "code"}
        for _ in range(count):
            seen = coded(data, code, axes)
            if self.examples is not None and (seen.noise - data.noise < TRUSTED).sum() < len(code.low) + 2:
                some = rng.permutation(code.encode(axes.features(self.examples)))  # where designs are, to begin with
                some = some[place.legal(some)]
                points = place.fresh(some, 1)
                image = domain.project(to_cube(code, points, axes))
            elif self.whole and len(data.y) % self.whole == self.whole - 1:
                image, state, info = self._chosen(state, data, domain, WHOLE, rng)
            else:
                points, state, info = self._chosen(state, seen, place, MODEL, rng)
                image = domain.project(to_cube(code, points, axes))
            if not len(image):  # all that codes stand for has been tried or is illegal
                image, info = RandomSearch().propose({}, data, domain, 1, rng=rng).points, {"source": "random"}
            if not len(image):
                break
            chosen, data = np.vstack([chosen, image]), data.with_pending(image[0])
            keys.add(domain.key(image[0]))
        return Proposal(chosen, state, info)

    def _chosen(
        self, state: State, data: Observations, domain: Domain, prefix: str, rng: np.random.Generator
    ) -> tuple[np.ndarray, State, dict[str, Any]]:
        """A point by a model of its own, whose state has this prefix, or none."""
        model, others = split(state, prefix)
        try:
            found = self.base.propose(model, data, domain, 1, rng=rng)
        except SpaceError:  # nothing that codes stand for meets the constraints, as far as can be seen
            return np.empty((0, len(domain.columns))), state, {}
        info = {**found.info, "source": "code" if prefix == MODEL else "whole"}
        return found.points, joined(prefix, found.state, others), info

    def _code(
        self, state: State, data: Observations, axes: Axes, rng: np.random.Generator
    ) -> tuple[Autoencoder, State]:
        """The code in the state, or one learned anew; what a model knew of the old one is then forgotten."""
        width, k = len(axes.owner), min(self.dim, len(axes.owner))
        names = [PREFIX + name for name in Autoencoder._fields]
        fits = ROWS in state and len(state[names[0]]) == width and len(state[names[2]]) == k
        if fits and (self.examples is not None or data.count <= RENEWED * int(state[ROWS])):
            return Autoencoder(*(state[name] for name in names)), state
        if self.examples is None:
            x, weight = data.x[data.mask], _worth(data.y[data.mask])
        else:
            x, weight = self.examples, np.ones(len(self.examples))
        code = learn(axes.features(x), weight, k, self.width, evaluations=self.evaluations, rng=rng)
        kept = split(state, MODEL)[1]
        return code, {**kept, **dict(zip(names, code, strict=True)), ROWS: np.array(max(data.count, FEW))}


def coded(data: Observations, code: Autoencoder, axes: Axes) -> Observations:
    """The table in codes; the farther a point lies from what its code stands for, the less its value is to be trusted.

    Its noise grows by that distance, squared, over the variance of the examples: by 1 where their mean would be as good
    a guess as the code.
    """
    features = axes.features(data.x)
    codes = code.encode(features)
    off = np.square(code.decode(codes) - features).sum(axis=1) / max(float(code.variance), 1e-12)
    return replace(data, x=codes, noise=data.noise + off, columns=(Column("continuous"),) * codes.shape[1])


def _worth(y: np.ndarray) -> np.ndarray:
    """How much each value counts: half as much for a point that a tenth of the others beat."""
    rank = np.argsort(np.argsort(y, kind="stable"), kind="stable")
    return 1.0 / (1.0 + 10.0 * rank / max(len(y), 1))


def to_cube(code: Autoencoder, codes: np.ndarray, axes: Axes) -> np.ndarray:
    """Points of the unit cube, not projected yet, [n, d], of codes [n, k]; a category is the one told most clearly."""
    features = code.decode(codes)
    x = np.full((len(codes), len(axes)), 0.5)
    x[:, axes.numeric] = np.clip(features[:, : len(axes.numeric)] + 0.5, 0.0, 1.0)
    for j, column in enumerate(axes.columns):
        if column.kind == "categorical":
            told = features[:, np.flatnonzero(axes.owner == j)[: column.levels]]
            x[:, j] = (np.argmax(told, axis=1) + 0.5) / (column.levels or 1)
    return x
