"""Random embeddings: a search in few dimensions for functions that depend on few directions out of many."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from presage.errors import SpaceError
from presage.observations import Column, Observations, observe
from presage.proposers.base import Domain, Proposal, Proposer
from presage.proposers.model_based import ModelBased
from presage.proposers.nested import Either, check, equal, joined, split
from presage.proposers.random import RandomSearch
from presage.surrogates import State

CODES, IMAGES, WHICH = "embedding.codes", "embedding.images", "embedding.which"
NOWHERE = -1  # which subspace a point lies in that was drawn at random


class Map(NamedTuple):
    """From codes in [0, 1]^k to points of the cube: clip(1/2 + A (code - 1/2) scale), A being [d, k]."""

    A: np.ndarray
    scale: float

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        return np.clip(0.5 + self.scale * (codes - 0.5) @ self.A.T, 0.0, 1.0)


def hashed(d: int, k: int, rng: np.random.Generator) -> Map:
    """Every column follows one code, upward or downward: no point is clipped and the box is exactly [0, 1]^k.

    (Nayebi et al., 2019: "A framework for Bayesian optimization in embedded subspaces".)
    """
    owner = rng.permutation(np.arange(d) % k)  # each code gets its share of columns
    return Map(np.where(np.arange(k) == owner[:, None], rng.choice([-1.0, 1.0], (d, 1)), 0.0), 1.0)


def gaussian(d: int, k: int, rng: np.random.Generator) -> Map:
    """Random directions; codes stand for [-sqrt(k), sqrt(k)]^k on a cube [-1, 1]^d onto which images are clipped.

    (REMBO: Wang et al., 2016, arXiv 1301.1942, the box of their theorem 3.)
    """
    return Map(rng.standard_normal((d, k)), math.sqrt(k))


@dataclass(frozen=True)
class Embedding(Proposer):
    """Bayesian optimisation in a few random subspaces of low dimension, in turn.

    An embedding that misses a direction that matters cannot be made up for by searching it, so there are several.
    Points that were not proposed here, initial ones among them, lie in no subspace and do not count. A subspace without
    a legal point that is new is passed over; where all are, points are random.

    Args:
        dim: dimensions of each subspace.
        several: subspaces.
        sparse: map by hashing rather than by Gaussian matrices.
        base: the search within a subspace.
        seed: of the maps, which must not change during a study.
    """

    dim: int = 4
    several: int = 3
    sparse: bool = True
    base: ModelBased = field(default_factory=ModelBased)
    seed: int = 0

    def __post_init__(self) -> None:
        check(self, dim=1, several=1, seed=0)

    def propose(
        self, state: State, data: Observations, domain: Domain, count: int, *, rng: np.random.Generator
    ) -> Proposal:
        d, dim = len(domain.columns), min(self.dim, len(domain.columns))
        codes, images, which = (state.get(name) for name in (CODES, IMAGES, WHICH))
        if codes is None or images is None or which is None or codes.shape[1] != dim or images.shape[1] != d:
            codes, images, which = np.empty((0, dim)), np.empty((0, d)), np.empty(0, dtype=int)
        chosen, keys, info = np.empty((0, d)), set[str](), {"source": "embedding"}
        domain = replace(domain, taken=Either(domain.taken, keys))
        for _ in range(count):
            for skipped in range(self.several):
                turn = (len(which) + skipped) % self.several
                to_cube = (hashed if self.sparse else gaussian)(d, dim, np.random.default_rng([self.seed, turn]))
                mine = _coded(data, codes[which == turn], images[which == turn])
                code, state, info = self._chosen(state, mine, inner(domain, to_cube, dim), f"{turn}.", rng)
                if len(code):
                    image = domain.project(to_cube(code))
                    break
            else:  # all that codes stand for has been tried or is illegal
                image, info = RandomSearch().propose({}, data, domain, 1, rng=rng).points, {"source": "random"}
                code, turn = np.full((1, dim), np.nan), NOWHERE
            if not len(image):
                break
            chosen, data = np.vstack([chosen, image]), data.with_pending(image[0])
            keys.add(domain.key(image[0]))
            codes, which = np.vstack([codes, code]), np.append(which, turn)
            images = np.vstack([images, np.nan_to_num(image, nan=-1.0)])
        return Proposal(chosen, {**state, CODES: codes, IMAGES: images, WHICH: which}, info)

    def _chosen(
        self, state: State, data: Observations, place: Domain, prefix: str, rng: np.random.Generator
    ) -> tuple[np.ndarray, State, dict[str, Any]]:
        """A code in one subspace, [1, k], or none, and the state, in which that of its model has this prefix."""
        try:
            if data.count < 2:
                return place.fresh(place.random(64, rng), 1), state, {"source": "embedding"}
            model, others = split(state, prefix)
            found = self.base.propose(model, data, place, 1, rng=rng)
        except SpaceError:  # no image of a code meets the constraints, as far as can be seen
            return np.empty((0, len(place.columns))), state, {}
        return found.points, joined(prefix, found.state, others), {**found.info, "source": "embedding"}


def inner(domain: Domain, to_cube: Map | Callable[[np.ndarray], np.ndarray], dim: int) -> Domain:
    """Codes as a domain of their own, legal where their images are."""
    return replace(
        domain, columns=(Column("continuous"),) * dim, project=lambda codes: np.clip(codes, 0.0, 1.0),
        legal=lambda codes: domain.legal(domain.project(to_cube(codes))),
        key=lambda code: domain.key(domain.project(to_cube(code[None]))[0]), remaining=None, box=None,
    )  # fmt: skip


def _coded(data: Observations, codes: np.ndarray, images: np.ndarray) -> Observations:
    """The rows that are images of codes, as a table of codes."""
    same = equal(data.x, images)
    rows = np.flatnonzero(same.any(axis=1))
    values = np.where(data.mask, data.center + data.scale * data.y, np.nan)[rows]
    at = codes[same[rows].argmax(axis=1)] if len(rows) else codes[:0]
    return observe(
        at, values, (Column("continuous"),) * codes.shape[1], stddev=data.scale * np.sqrt(data.noise[rows]),
        failed=data.failed[rows], pending=data.pending[rows], seconds=data.seconds[rows],
    )  # fmt: skip
