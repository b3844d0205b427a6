"""presage as a sampler of Optuna studies, and studies carried from one to the other.

Example:
    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=PresageSampler(seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=12)
    >>> abs(study.best_params["x"] - 0.3) < 0.02
    True
"""

import json
import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.dimensions import Dimension, is_number
from presage.errors import SpaceError, StudyError
from presage.integrations import require
from presage.integrations.optuna_spaces import dimension_of, distributions_of, expressible, searched
from presage.proposers.model_based import ModelBased
from presage.space import Params, Space
from presage.suggester import Suggester

require("optuna", "optuna")

from optuna.distributions import BaseDistribution  # noqa: E402
from optuna.samplers import BaseSampler, RandomSampler  # noqa: E402
from optuna.study import Study, StudyDirection  # noqa: E402
from optuna.trial import FrozenTrial, TrialState  # noqa: E402

from presage.integrations.optuna_mirror import CONSTRAINTS, Follower, Mirror, design_point  # noqa: E402
from presage.integrations.optuna_studies import from_optuna, to_optuna  # noqa: E402

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.proposers import Proposer
    from presage.surrogates import Surrogate

__all__ = ["PresageSampler", "from_optuna", "to_optuna"]

SUGGESTED = "presage:suggested:"  # system attributes that tell other processes which point a running trial is at
CHUNK = 2000  # characters that any database keeps in one attribute
ROUNDS = 3  # how often a suggestion is made again because another process made one meanwhile


class PresageSampler(BaseSampler):
    """Suggests the params of an Optuna study's trials.

    Params that all complete trials share are suggested together; others (conditional ones, those whose range changes)
    are drawn at random. The first trials follow a Sobol sequence. All trials count: failed
    ones say where not to go, constraints have a model each, running trials are pending, pruned ones stand for what they
    would have come to (their last value, moved by what complete trials gained after that step, and no better than the
    best).

    Suggestions depend on the trials, the fits so far, the seed and the trial's number only, so that any number of
    threads and processes may use one storage, with equal seeds or with none.

    Args:
        seed: makes suggestions repeatable. The same seed gives the suggestions of `presage.minimize`.
        surrogate: as for `presage.Study`.
        acquisition: likewise.
        initial: trials before the surrogate is asked; by default 3 more than dimensions, at most 10.
        space: what is searched, where that is known beforehand: a `presage.Space`, whose conditions and constraints
            are then respected from the first trial on, or its dimensions, or Optuna's distributions, by name.
        constraints_func: maps a finished trial to numbers that are at most 0 where it is feasible. Optuna 5 has
            `trial.set_constraint` instead, which works too.
        learn_failures: whether a failed trial counts against its point. Optuna's own samplers ignore such trials.
    """

    def __init__(
        self, seed: int | None = None, *, surrogate: "str | Surrogate" = "auto",
        acquisition: "str | Acquisition | Proposer" = "auto", initial: int | None = None,
        space: Space | Mapping[str, Dimension | BaseDistribution] | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None, learn_failures: bool = True,
    ) -> None:  # fmt: skip
        for what, given, least in (("seed", seed, 0), ("initial", initial, 1)):
            if given is not None and (not is_number(given) or given % 1 != 0 or given < least):
                raise StudyError(f"{what} must be a whole number of {least} or more, but got {given!r}")
        self._seed = int.from_bytes(os.urandom(4), "big") if seed is None else int(seed)
        self._initial, self._constraints_func, self._learn_failures = initial, constraints_func, learn_failures
        self._space = None if space is None else searched(space)
        self._suggester = Suggester(surrogate, acquisition)
        self._graded = isinstance(self._suggester.proposer, ModelBased)
        self._known: dict[tuple[str, int], Follower] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept, _lock=threading.Lock())

    def reseed_rng(self) -> None:
        """Nothing to do: trials differ by their numbers, which Optuna gives out once."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The distributions of what is suggested together."""
        self._raise_error_if_multi_objective(study)
        if self._space is not None:
            return distributions_of(self._space)
        with self._lock:
            follower = self._follower(study)
            follower.look(_trials(study))
            shared = follower.shared or {}
        return {name: shared[name] for name in expressible(shared)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A point of that space."""
        self._raise_error_if_multi_objective(study)
        space = self._searched(search_space)
        if space is None:
            return {}
        direction = "minimize" if study.direction == StudyDirection.MINIMIZE else "maximize"
        with self._lock:
            follower = self._follower(study)
            trials = _trials(study)
            follower.look(trials)
            fixed = (direction, self._seed, self._initial, self._learn_failures, self._graded)
            mirror = follower.mirror(space, lambda state: Mirror(space, *fixed, state))
            written = 0
            for _ in range(ROUNDS):
                mirror.catch_up(trials)
                pending = _pending(trials, trial.number)
                legal = [mirror.believed(number, params) for (number, _), params in pending.items()]
                params = mirror.suggest(self._suggester, trial.number, legal)
                written = _publish(study, trial, params, written)
                trials = _trials(study)
                news = {key for key, params in _pending(trials, trial.number).items() if params} - pending.keys()
                if not news:  # nobody else has suggested meanwhile
                    break
        return {name: value for name, value in params.items() if name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """One value: of the initial design while the space is unknown, else at random."""
        self._raise_error_if_multi_objective(study)
        if self._follower(study).shared is None and self._space is None:
            column = sum(not distribution.single() for distribution in trial.distributions.values())
            try:
                dimension = dimension_of(param_distribution)
            except SpaceError:
                pass  # not one of presage's; Optuna's random sampler knows all
            else:
                return dimension.decode(design_point(self._seed, trial.number, column + 1)[column])
        stream = np.random.SeedSequence([self._seed, trial.number, zlib.crc32(param_name.encode())])
        drawn = RandomSampler(seed=int(stream.generate_state(1)[0]))
        return drawn.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Keep the values of the constraints where Optuna keeps them."""
        if self._constraints_func is None or state not in (TrialState.COMPLETE, TrialState.PRUNED):
            return
        found = [float(value) for value in self._constraints_func(trial)]
        if np.isnan(found).any():
            raise ValueError(f"constraints must be numbers, but trial {trial.number} has {found}")
        study._storage.set_trial_system_attr(trial._trial_id, CONSTRAINTS, found)

    def _follower(self, study: Study) -> Follower:
        return self._known.setdefault((study.study_name, study._study_id), Follower())

    def _searched(self, search_space: Mapping[str, BaseDistribution]) -> Space | None:
        """The space to search; the one given to the sampler unless another sampler has taken params out of it."""
        if self._space is not None and search_space.keys() == self._space.keys():
            return self._space
        dimensions = expressible(search_space)
        return Space(dimensions) if dimensions else None


def _trials(study: Study) -> list[FrozenTrial]:
    """All trials, of every bracket of Hyperband too: values of different brackets are made comparable here."""
    return study._storage.get_all_trials(study._study_id, deepcopy=False)


def _pending(trials: Sequence[FrozenTrial], besides: int) -> dict[tuple[int, str], Params]:
    """Where running trials are, by number and what they published; empty where that is not known yet."""
    found: dict[tuple[int, str], Params] = {}
    for trial in trials:
        if trial.state == TrialState.RUNNING and trial.number != besides:
            text = _published(trial)
            try:
                suggested = json.loads(text or "{}")
            except ValueError:  # half written: its process is about to write the rest
                continue
            found[trial.number, text] = {**suggested, **trial.params}
    return found


def _published(trial: FrozenTrial) -> str:
    parts = {key: text for key, text in trial.system_attrs.items() if key.startswith(SUGGESTED)}
    return "".join(parts[key] for key in sorted(parts))


def _publish(study: Study, trial: FrozenTrial, params: Params, length: int) -> int:
    """Tell other processes; over an earlier text of that length, so that nothing of it is left. The new length."""
    text = json.dumps(params).ljust(length)
    for part in range(0, len(text), CHUNK):
        key = f"{SUGGESTED}{part // CHUNK:04d}"
        study._storage.set_trial_system_attr(trial._trial_id, key, text[part : part + CHUNK])
    return len(text)
