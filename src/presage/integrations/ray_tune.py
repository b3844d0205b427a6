"""presage as a search algorithm of Ray Tune.

tuner = tune.Tuner(
    train, param_space={"lr": tune.loguniform(1e-5, 1e-1)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=50, search_alg=PresageSearch(seed=0)),
)
"""

import base64
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from presage.dimensions import Choice, Constant, Dimension, Float, Int
from presage.errors import SpaceError, SpaceExhausted, StorageError, StudyError
from presage.integrations import require
from presage.leases import Lease
from presage.space import Space
from presage.storage import Event, MemoryStorage, Snapshot
from presage.study import Study, load_study
from presage.trial import Failure, Trial

require("ray.tune", "ray")

from ray.tune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC, TRAINING_ITERATION  # noqa: E402
from ray.tune.search import Searcher, sample  # noqa: E402
from ray.tune.search.variant_generator import parse_spec_vars  # noqa: E402

if TYPE_CHECKING:
    from presage.acquisitions import Acquisition
    from presage.proposers import Proposer
    from presage.surrogates import Surrogate

__all__ = ["PresageSearch", "space_of"]

FORMAT = 1  # of what `save` writes
Path = tuple[str, ...]


def space_of(config: Mapping[str, Any]) -> Space:
    """The space that a Tune config stands for; names of nested params are joined by slashes, constants are left out."""
    return Space({"/".join(path): dimension for path, dimension in _dimensions(config).items()})


def _dimensions(config: Mapping[str, Any]) -> dict[Path, Dimension]:
    _, domains, grids = parse_spec_vars(dict(config))
    if grids:
        name = "/".join(map(str, grids[0][0]))
        raise SpaceError(f"{name!r} must be searched, not listed, but is a grid_search; use tune.choice instead")
    found: dict[Path, Dimension] = {}
    for path, domain in domains:
        name = "/".join(map(str, path))
        if not all(isinstance(part, str) and "/" not in part for part in path):
            raise SpaceError(f"a searched param must be under names without slashes in dictionaries, but got {path}")
        try:
            found[path] = _dimension(domain)
        except SpaceError as error:
            raise SpaceError(f"{name!r}: {error}") from None
    return found


def _dimension(domain: Any) -> Dimension:
    sampler = domain.get_sampler()
    step = None
    if isinstance(sampler, sample.Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, sample.LogUniform)
    even = log or isinstance(sampler, sample.Uniform)
    match domain:
        case sample.Categorical(categories=options) if even:
            return Choice(options) if len(options) > 1 else Constant(options[0])
        case sample.Float(lower=low, upper=high) if even and math.isfinite(low) and math.isfinite(high):
            if step:
                low, high = _on_grid(low, high, step)
            return Float(low, high, log=log, step=step)
        case sample.Integer(lower=low, upper=high) if even:
            if step in (None, 1):
                return _int(low, high - 1, log, 1)  # Tune leaves the upper end out, with a step it does not
            low, high = _on_grid(low, high, step)
            return _int(round(low), round(high), log, step)
    kinds = "uniform, loguniform, quniform, randint, lograndint, qrandint and choice"
    raise SpaceError(f"a param must be one of tune's {kinds}, but got {domain!r} ({type(sampler).__name__})")


def _int(low: int, high: int, log: bool, step: int) -> Dimension:
    return Constant(low) if low == high else Int(low, high, log=log, step=step)


def _on_grid(low: float, high: float, step: float) -> tuple[float, float]:
    """The outermost multiples of the step inside the bounds, which rounding must not move out."""
    slack = 1e-9
    return math.ceil(low / step - slack) * step, math.floor(high / step + slack) * step


class PresageSearch(Searcher):
    """Suggests the configs of a Tune run.

    A trial's value is its last result of the metric; its earlier ones are kept as its curve. Trials that raise, or
    whose metric is missing or not finite, say that their point cannot be evaluated.

    Args:
        space: what is searched: a `presage.Space` or a Tune config; the Tuner's `param_space` where left out.
        metric: whose value counts; the Tuner's where left out.
        mode: min or max; likewise.
        seed: makes suggestions repeatable; those of one trial at a time are the same as of `presage.minimize`.
        surrogate: as for `presage.Study`.
        acquisition: likewise.
        initial: likewise.
        points_to_evaluate: configs to try first.
    """

    def __init__(
        self, space: Space | Mapping[str, Any] | None = None, *, metric: str | None = None, mode: str | None = None,
        seed: int | None = None, surrogate: "str | Surrogate" = "auto",
        acquisition: "str | Acquisition | Proposer" = "auto", initial: int | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] = (),
    ) -> None:  # fmt: skip
        if mode not in (None, "min", "max"):
            raise StudyError(f"mode must be 'min' or 'max', but got {mode!r}")
        super().__init__(metric=metric, mode=mode)
        self._metric: str | None = metric
        self._mode: str | None = mode
        self._settings = {"surrogate": surrogate, "acquisition": acquisition}
        self._fixed = {"seed": seed, "initial": initial}
        self._points = [dict(point) for point in points_to_evaluate]
        self._live: dict[str, Trial] = {}
        self._study: Study | None = None
        self._lease: Lease | None = None
        self._space = space if space is None or isinstance(space, Space) else space_of(space)
        if self._space is not None and mode is not None:
            self._begin()

    @property
    def study(self) -> Study:
        """The study that the suggestions come from."""
        if self._study is None:
            raise StudyError(
                "space and mode must be known before the search begins; give them to PresageSearch, or a Tuner "
                "param_space and TuneConfig(metric=..., mode=...)"
            )
        return self._study

    def _begin(self) -> None:
        assert self._space is not None
        direction: Any = "minimize" if self._mode == "min" else "maximize"
        self._hold(Study(self._space, direction=direction, **self._fixed, **self._settings))  # type: ignore[arg-type]
        for point in self._points:
            self.study.enqueue(_flat(point))

    def _hold(self, study: Study) -> None:
        self._study, self._lease = study, Lease(study.storage, study.name, "loop")

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take what the Tuner says; False where there is a space already, and the Tuner has another."""
        for what, mine, theirs in (("metric", self._metric, metric), ("mode", self._mode, mode)):
            if None not in (mine, theirs) and mine != theirs:
                raise StudyError(f"{what} is given twice, as {mine!r} and as {theirs!r}; leave it out of PresageSearch")
        self._metric, self._mode = self._metric or metric, self._mode or mode
        known = self._space is not None
        if not known:
            self._space = space_of(config)
        if self._study is None and self._mode is not None:
            self._begin()
        return not known

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The params of a new trial, nested as in the config."""
        study = self.study
        assert self._lease is not None
        try:
            trial = study.ask_as(self._lease)[0]
        except SpaceExhausted:
            return Searcher.FINISHED
        self._live[trial_id] = trial
        return _nested(trial.params)

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Keep one point of a trial's curve."""
        value, trial = result.get(self._watched), self._live.get(trial_id)
        if trial is not None and isinstance(value, int | float) and math.isfinite(value):
            trial.report(int(result.get(TRAINING_ITERATION, len(trial.reports) + 1)), value)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Tell the study how a trial ended; one that this search did not suggest is not its own."""
        trial = self._live.pop(trial_id, None)
        if trial is None:
            return
        name = self._watched
        if error or not result or name not in result:
            why = "it raised" if error else f"its last result must have {name!r}, but has {sorted(result or {})}"
            self.study.tell(trial, failed=why)
            return
        numbers = {
            key: value for key, value in result.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            and key not in (*AUTO_RESULT_KEYS, TRAINING_ITERATION, name)
        }  # fmt: skip
        last = (int(result.get(TRAINING_ITERATION, 1)), float(result[name]))
        if trial.reports and trial.reports[-1] != last and math.isfinite(last[1]):
            trial.report(*last)
        self.study.tell(trial, last[1], metrics=numbers)

    def add_evaluated_point(
        self, parameters: dict[str, Any], value: float, error: bool = False, pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:  # fmt: skip
        """Record a config that was evaluated elsewhere."""
        study = self.study
        trial = study.enqueue(_flat(parameters))
        for step, number in enumerate(intermediate_values or ()):
            trial.report(step, number)
        if pruned:
            study._ledger.fail(trial.number, Failure("pruned", "pruned elsewhere"))
        elif error:
            study.tell(trial, failed="it failed elsewhere")
        else:
            study.tell(trial, value)

    @property
    def _watched(self) -> str:
        return self._metric or DEFAULT_METRIC

    # On disk: events as JSON. Tune itself pickles the search before it begins, and gets the same.
    def get_state(self) -> dict[str, Any]:
        """All that the search knows, as plain data."""
        if self._study is None or self._lease is None:
            return {}
        events, claims, state = self._study.storage.snapshot(self._study.name)
        return {
            "format": FORMAT, "metric": self._metric, "mode": self._mode, "owner": self._lease.owner,
            "live": {key: {"number": trial.number, "reports": trial.reports} for key, trial in self._live.items()},
            "events": [payload for _, payload in events], "claims": claims,
            "state": None if state is None else [state[0], base64.b64encode(state[1]).decode()],
        }  # fmt: skip

    def set_state(self, state: dict[str, Any]) -> None:
        """Know what `get_state` gave."""
        if not state:
            return
        if state["format"] > FORMAT:
            raise StorageError(f"this presage reads format {FORMAT}, but got {state['format']}; upgrade it")
        packed = None if state["state"] is None else (state["state"][0], base64.b64decode(state["state"][1]))
        events = [Event(seq, payload) for seq, payload in enumerate(state["events"], 1)]
        storage = MemoryStorage()
        storage.restore("study", Snapshot(events, state["claims"], packed))
        given = {what: value for what, value in self._settings.items() if not isinstance(value, str)}
        space = self._space if self._space is not None and self._space.constraints else None
        study = load_study(storage, "study", space=space, **given)  # type: ignore[arg-type]
        self._hold(study)
        assert self._lease is not None
        self._lease.owner = state["owner"]  # Tune goes on with what was being evaluated, so it is not suggested again
        self._metric, self._mode, self._space = state["metric"], state["mode"], study.space
        self._live = {
            key: study.trials[trial["number"]].but({"reports": [tuple(pair) for pair in trial["reports"]]})
            for key, trial in state["live"].items()
        }

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name not in ("_study", "_lease", "_live")}
        return {**own, "kept": self.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = state.pop("kept")
        self.__dict__.update(state, _study=None, _lease=None, _live={})
        self.set_state(kept)

    def save(self, checkpoint_path: str) -> None:
        """Write all that the search knows."""
        aside = f"{checkpoint_path}.{os.getpid()}"
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(self.get_state(), file)
        os.replace(aside, checkpoint_path)  # a kill leaves the old one or the new one

    def restore(self, checkpoint_path: str) -> None:
        """Go on from what `save` wrote; suggestions are those that would have come."""
        try:
            with open(checkpoint_path, encoding="utf-8") as file:
                self.set_state(json.load(file))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise StorageError(
                f"a search is restored from what its save wrote, but {checkpoint_path} is not that ({error!r})"
            ) from error


def _nested(params: Mapping[str, Any]) -> dict[str, Any]:
    """Params by path as nested dictionaries.

    Example:
        >>> _nested({"lr": 0.1, "net/width": 8})
        {'lr': 0.1, 'net': {'width': 8}}
    """
    out: dict[str, Any] = {}
    for name, value in params.items():
        *above, last = name.split("/")
        inside = out
        for part in above:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return out


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries as params by path."""
    return dict(_leaves((), config))


def _leaves(path: Path, config: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves((*path, name), value)
        else:
            yield "/".join((*path, name)), value
