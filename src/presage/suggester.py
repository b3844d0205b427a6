"""Which points a study tries next: an initial design, then what its proposer says."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.effort import affordable
from presage.errors import StudyError
from presage.history import History
from presage.observations import Observations, columns_of, observe
from presage.proposers.base import Domain, Proposer
from presage.proposers.random import RandomSearch
from presage.sobol import sobol
from presage.space import Space, point_key
from presage.trial import Effort

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.surrogates import Posterior, State, Surrogate

DESIGN = 0x5EED  # tells the random stream of the initial design apart from those of the trials
OF = "of"  # in a fit state: for which surrogate, acquisition and space it was found
MANY = 5  # dimensions from which on the middle of the space is among the first points


def initial_trials(space: Space) -> int:
    """How many trials come before the surrogate is asked, where nobody says."""
    return min(space.dim + 3, 10)


def design(seed: int, count: int, dim: int) -> np.ndarray:
    """The first points of the initial design, [count, dim]: a Sobol sequence, in many dimensions with the middle.

    The middle is nearer to wherever the minimum may be than most points are, and in many dimensions than nearly all of
    them (`presage bench ablate -c no-middle`). It is not the first, so that a first trial does not depend on how many
    dimensions there are: libraries that define spaces by running do not know it yet.
    """
    points = sobol(count, dim, np.random.default_rng([seed, DESIGN]))
    return points if dim < MANY else np.insert(points, 1, 0.5, axis=0)[:count]


class Suggester:
    """Chooses points as a function of (events seen, fit state, seed, trial number) and nothing else.

    Args:
        surrogate: a name or a Surrogate.
        acquisition: a name, an Acquisition, or a whole Proposer, which brings its own surrogate.
    """

    def __init__(self, surrogate: "str | Surrogate", acquisition: "str | Acquisition | Proposer"):
        self.proposer = _proposer(surrogate, acquisition)
        self.learns = not isinstance(self.proposer, RandomSearch)
        self.adapts = surrogate == acquisition == "auto"  # who names a part has it as it is
        self._listed: tuple[Space, np.ndarray, list[str]] | None = None
        self._names = [x if isinstance(x, str) else type(x).__qualname__ for x in (surrogate, acquisition)]
        self._mark: tuple[dict[str, Any], np.ndarray] | None = None

    def effort(self, history: History) -> Effort:
        """How much the next suggestion may cost."""
        return affordable(history) if self.adapts else "usual"

    def choose(
        self, history: History, state: "State", count: int, number: int | None = None, effort: Effort = "usual"
    ) -> "tuple[np.ndarray, str, State | None]":
        """Points [count, d] (none where the space is used up), their source, and the new state if it changed.

        Args:
            history: what is known.
            state: of the last fit.
            count: how many points.
            number: of the first trial, where others count; by default that of the next trial of the history.
            effort: how much of it.
        """
        rng = np.random.default_rng([history.header["seed"], len(history.trials) if number is None else number])
        domain = self._domain(history)
        missing = history.header["initial"] - len(history.trials)
        informed = history.best is not None
        if not self.learns or (informed and missing <= 0):
            data = history.observations() if self.learns else _nothing(history.space)
            proposer = self.proposer.quick() if effort == "quick" else self.proposer
            own = self.own(state, history)
            points, new, info = proposer.propose(own, data, domain, count, rng=rng)
            source, changed = info["source"], None if new is own else {**new, OF: self._mark_of(history)}
            if not len(points) and self.learns and domain.remaining is None:  # what it looked at has been tried
                points, source = RandomSearch().propose({}, data, domain, count, rng=rng).points, "random"
            return points, source, changed
        if missing > 0 and informed:
            count = min(count, missing)
        points = design(history.header["seed"], 2 * (len(history.trials) + count) + 64, history.space.dim)
        points = domain.project(points)
        points = domain.fresh(points[domain.legal(points)], count)
        if not len(points):  # rare legal points, or a space that is nearly used up
            points = RandomSearch().propose({}, _nothing(history.space), domain, count, rng=rng).points
        return points, "initial", None

    def fit(self, history: History, state: "State") -> "tuple[Posterior, Observations]":
        """The surrogate's posterior given all values so far, and what it saw."""
        from presage.proposers.model_based import ModelBased
        from presage.threads import few_threads

        data = history.observations()
        if not data.count:
            raise StudyError("a surrogate needs at least one value, but none was told yet")
        model, state = self.proposer, self.own(state, history)
        if not isinstance(model, ModelBased):
            model, state = ModelBased(), {}
        rng = np.random.default_rng([history.header["seed"], len(history.trials)])
        with few_threads():
            return model.fit(state, data, rng=rng)[0], data

    def own(self, state: "State", history: History) -> "State":
        """The state where it was left by a suggester like this one in this space; what others learned is of no use."""
        mine = OF in state and np.array_equal(state[OF], self._mark_of(history))
        return {name: array for name, array in state.items() if name != OF} if mine else {}

    def _mark_of(self, history: History) -> np.ndarray:
        """A digest of what a state depends on besides values, [8]."""
        if self._mark is None or self._mark[0] is not history.stored_space:
            text = json.dumps([*self._names, history.stored_space], sort_keys=True)
            digest = hashlib.sha256(text.encode()).digest()[:8]
            self._mark = history.stored_space, np.frombuffer(digest, dtype=np.uint8)
        return self._mark[1]

    def _domain(self, history: History) -> Domain:
        space, often = history.space, history.header["replicates"]

        def legal(points: np.ndarray) -> np.ndarray:
            if not space.constraints:
                return np.ones(len(points), dtype=bool)
            return np.array([space.satisfies(space.decode(point)) for point in points], dtype=bool)

        def key(point: np.ndarray) -> str:
            return point_key(space.decode(point))

        if self._listed is None or self._listed[0] is not space:
            listed = space.points()
            self._listed = None if listed is None else (space, listed, [key(point) for point in listed])
        remaining = None
        if self._listed is not None:
            remaining = self._listed[1][[history.tried[k] < often for k in self._listed[2]]]
        taken = history.tried if often == 1 else {k for k, times in history.tried.items() if times >= often}
        return Domain(columns_of(space), space.project, legal, key, taken, remaining)


def _nothing(space: Space) -> Observations:
    """The table of a search that does not look at values."""
    columns = columns_of(space)
    return observe(np.empty((0, len(columns))), np.empty(0), columns)


def _proposer(surrogate: "str | Surrogate", acquisition: "str | Acquisition | Proposer") -> Proposer:
    if isinstance(acquisition, Proposer):
        if surrogate != "auto":
            raise StudyError(
                f"a Proposer brings its own surrogate, so surrogate= must be left out, but got {surrogate!r}"
            )
        return acquisition
    if surrogate == "random":
        return RandomSearch()
    from presage import acquisitions, surrogates  # with what they import, most of the time a worker takes to start
    from presage.proposers.model_based import ModelBased

    model = _named("surrogate", surrogate, {**surrogates.BY_NAME}, surrogates.Surrogate, "random")
    if acquisition == "auto" and model.greedy:
        return ModelBased(model, acquisitions.SometimesGreedy())
    return ModelBased(model, _named("acquisition", acquisition, {**acquisitions.BY_NAME}, acquisitions.Acquisition))


def _named(what: str, setting: Any, names: dict[str, Any], kind: type, *more: str) -> Any:
    if isinstance(setting, str) and setting in names:
        return names[setting]()
    if isinstance(setting, kind):
        return setting
    raise StudyError(f"{what} must be one of {[*names, *more]} or a {kind.__name__}, but got {setting!r}")
