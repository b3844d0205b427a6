"""Studies from Optuna to presage and back, with all that either keeps."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from presage.dimensions import Choice, Constant, Dimension, Float, Int, json_key
from presage.errors import SpaceError, StudyError
from presage.history import History
from presage.integrations import require
from presage.integrations.optuna_spaces import dimension_of, stored, stored_distribution_of
from presage.integrations.records import Record, study_of
from presage.space import Space
from presage.storage import Storage
from presage.study import Study
from presage.trial import Failure, Trial

require("optuna", "optuna")

import optuna  # noqa: E402
import sqlalchemy as sa  # noqa: E402
from optuna.trial import FrozenTrial, TrialState  # noqa: E402

from presage.integrations.optuna_mirror import constraints_of  # noqa: E402

TABLES = {"studies", "trials", "version_info"}  # that every storage of Optuna has, of whichever version
KEPT = "optuna: "  # begins the note of a trial with what has no place elsewhere, as JSON
OURS = "presage:"  # begins the user attributes that presage makes


def from_optuna(
    study: "optuna.Study", *, storage: Storage | str | os.PathLike[str] | None = None, name: str | None = None,
    space: Space | None = None, **settings: Any,
) -> Study:  # fmt: skip
    """A presage study with the trials of an Optuna study: values, failures, curves, times, attributes.

    Pruned and infeasible trials become failures of their kind, enqueued ones wait; running ones are left out. User
    attributes that are numbers become metrics; what has no place is kept in notes.

    Args:
        study: of one objective.
        storage: where to; memory where left out.
        name: of the new study; Optuna's where left out.
        space: the search space; where left out, from all distributions: ranges that changed are joined, and a param
            that some trials lack is conditional on an earlier one that explains which.
        settings: surrogate, acquisition, initial, seed as for `presage.Study`.
    """
    if len(study.directions) > 1:
        raise StudyError(f"an Optuna study must have one objective, but this one has {len(study.directions)}")
    trials = [t for t in study.get_trials(deepcopy=False) if t.state != TrialState.RUNNING]
    ended = [t for t in trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED)] or trials
    exported = study.user_attrs.get(OURS + "study", {}).get("space")
    if space is None and exported is not None:
        space = _still_right(Space.from_json({**exported, "constraints": 0}), ended)
    found = space_of(ended) if space is None else space
    records, notes = [], []
    for trial in trials:
        given = trial.params or trial.system_attrs.get("fixed_params", {})
        try:
            params = _legal(found, {key: value for key, value in given.items() if space is None or key in found})
        except SpaceError as error:
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                raise SpaceError(f"trial {trial.number} must be legal in the space: {error}; give space=") from None
            notes.append(_kept({"number": trial.number, "state": trial.state.name, "params": given}))
            continue
        records.append(_record(trial, params))
    mine = {key: value for key, value in study.user_attrs.items() if key != OURS + "study"}
    notes += [_kept({"user_attrs": mine})] if mine else []
    direction = study.direction.name.lower()
    return study_of(
        found, records, storage=storage, name=study.study_name if name is None else name, notes=notes,
        direction=direction, **settings,
    )  # fmt: skip


def _legal(space: Space, params: dict[str, Any]) -> dict[str, Any]:
    """The params in a space; lists among the options come back from their texts."""
    lists = {(key, stored(option)): option for key, axis in space.items()
             for option in getattr(axis, "options", [getattr(axis, "value", None)])
             if stored(option) is not option}  # fmt: skip
    return space.complete({key: lists.get((key, value), value) for key, value in params.items()})


def _still_right(space: Space, trials: Sequence[FrozenTrial]) -> Space | None:
    """The space that an exported study had, unless Optuna has gone on with another."""
    try:
        for trial in trials:
            _legal(space, trial.params)
    except SpaceError:
        return None
    return space


def open_optuna(url: str, name: str | None = None) -> "optuna.Study":
    """A study of an Optuna storage, which must be there; the name may be left out where it has one only."""
    path = url.removeprefix("sqlite:///")
    if path != url and not os.path.exists(path.partition("?")[0]):
        raise StudyError(f"an Optuna storage must exist, but there is no file {path}")
    try:
        there = _tables(url)
        names = optuna.get_all_study_names(url) if there >= TABLES else []
    except Exception as error:  # SQLAlchemy's, Alembic's and the driver's own
        raise StudyError(f"an Optuna storage must be readable, but: {type(error).__name__}: {error}") from error
    if not there >= TABLES:
        ours = "; it is one of presage's, which needs no import" if "presage_studies" in there else ""
        shown = sa.make_url(url).set(query={}).render_as_string()  # without a password
        raise StudyError(f"studies are imported from an Optuna storage, but {shown} is no Optuna storage{ours}")
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise StudyError(f"the study must be one of {names}, but got {name!r}")
    return optuna.load_study(study_name=name, storage=url)


def _tables(url: str) -> set[str]:
    """Names of the tables in a database. Optuna itself makes its own wherever it looks."""
    engine = sa.create_engine(url)
    try:
        return set(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def _record(trial: FrozenTrial, params: dict[str, Any]) -> Record:
    attributes = {key: value for key, value in trial.user_attrs.items() if not key.startswith(OURS)}
    ours = {key.removeprefix(OURS): value for key, value in trial.user_attrs.items() if key.startswith(OURS)}
    reports = sorted(trial.intermediate_values.items())
    finite = [(step, float(value)) for step, value in reports if math.isfinite(value)]
    limits, value, failure = list(constraints_of(trial).values()), trial.value, None
    if trial.state == TrialState.PRUNED:
        failure = Failure("pruned", f"pruned at step {trial.last_step}")
    elif trial.state == TrialState.FAIL:
        failure = Failure(**ours["failure"]) if "failure" in ours else Failure("error", "failed in Optuna")
    elif any(not limit <= 0.0 for limit in limits):
        failure = Failure("invalid", f"constraints must be at most 0, but {max(limits):g} was found")
    elif value is not None and not math.isfinite(value):
        failure = Failure("invalid", f"a value must be one finite number, but got {value}")
    numbers = {} if failure else {key: float(item) for key, item in attributes.items() if _is_number(item)}
    others = {key: item for key, item in attributes.items() if key not in numbers}
    kept = {
        "user_attrs": others or None, "constraints": limits or None,
        "value": None if failure is None or value is None else repr(value),
        "reports": [[step, repr(item)] for step, item in reports] if len(finite) < len(reports) else None,
    }  # fmt: skip
    kept = {key: item for key, item in kept.items() if item is not None}
    return Record(
        params, None if failure else value, ours.get("stddev"), numbers, failure, finite,
        _seconds(trial.datetime_start), _seconds(trial.datetime_complete),
        [*ours.get("notes", ()), *([_kept(kept)] if kept else [])],
    )  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _kept(facts: dict[str, Any]) -> str:
    return KEPT + json.dumps(facts, default=repr)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


# The space of trials that were made without one.
def space_of(trials: Sequence[FrozenTrial]) -> Space:
    """The smallest space in which all trials are legal."""
    if not any(trial.distributions for trial in trials):
        raise StudyError(
            "a space is made from the params of complete or pruned trials, but there are none; give space="
        )
    names = list(dict.fromkeys(name for trial in trials for name in trial.distributions))
    names.sort(key=lambda name: sum(name not in trial.distributions for trial in trials))  # conditions come after
    axes: dict[str, Dimension] = {}
    for name in names:
        have = [trial for trial in trials if name in trial.distributions]
        try:
            kinds = [dimension_of(trial.distributions[name]) for trial in have]
        except SpaceError as error:
            raise SpaceError(f"{name!r} must be one that presage can search: {error}") from None
        axis = kinds[0]
        for other in kinds[1:]:
            axis = _joined(name, axis, other)
        lack = [trial for trial in trials if name not in trial.distributions]
        axes[name] = replace(axis, when=_condition(name, axes, have, lack)) if lack else axis
    return Space(axes)


def _joined(name: str, one: Dimension, other: Dimension) -> Dimension:
    """A dimension that holds the values of both."""
    match one, other:
        case _ if one == other:
            return one
        case Float(log=log), Float() if other.log == log:
            grid = one.step == other.step and one.low == other.low
            low, high = min(one.low, other.low), max(one.high, other.high)
            return Float(low, high, log=log, step=one.step if grid else None)
        case Int(log=log), Int() if other.log == log:
            low = min(one.low, other.low)
            step = math.gcd(one.step, other.step, one.low - other.low)
            return Int(low, max(one.high, other.high), log=log, step=step)
        case Float() | Int(), Constant(value=value):
            low, high = min(one.low, value), max(one.high, value)
            return Float(low, high, log=one.log) if isinstance(one, Float) else Int(low, high, log=one.log)
        case Constant(), Float() | Int():
            return _joined(name, other, one)
        case Constant() | Choice(), Constant() | Choice():
            mine, theirs = (d.options if isinstance(d, Choice) else (d.decode(0.5),) for d in (one, other))
            return Choice(list({json_key(value, name): value for value in (*mine, *theirs)}.values()))
    raise SpaceError(f"{name!r} must have one kind and scale in all trials, but has {one!r} and {other!r}; give space=")


def _condition(
    name: str, axes: dict[str, Dimension], have: Sequence[FrozenTrial], lack: Sequence[FrozenTrial]
) -> dict[str, list[Any]]:
    """An earlier dimension whose value tells which trials have the param; options explain better than numbers."""
    discrete = [parent for parent, axis in axes.items() if axis.levels is not None]
    for parent in sorted(discrete, key=lambda parent: not isinstance(axes[parent], Choice)):
        if all(parent in trial.params for trial in have):
            values = {json_key(trial.params[parent], parent): trial.params[parent] for trial in have}
            if not any(
                json_key(trial.params.get(parent), parent) in values for trial in lack if parent in trial.params
            ):
                return {parent: list(values.values())}
    raise SpaceError(f"{name!r} is missing in trial {lack[0].number}, and no earlier param tells when; give space=")


# And back.
def to_optuna(study: Study, *, storage: Any = None, name: str | None = None, **options: Any) -> "optuna.Study":
    """A new Optuna study with the trials of a presage study, as optuna-dashboard and Optuna's plots want them.

    Values, curves and times are Optuna's own; metrics, failures and other facts are user attributes.

    Args:
        study: what to export.
        storage: a URL, the path of an SQLite file, or an Optuna storage; memory where left out.
        name: of the new study; the same where left out.
        options: sampler and pruner as for `optuna.create_study`.
    """
    study._sync()
    return write(study.name if name is None else name, study._history, storage, **options)


def write(name: str, history: History, storage: Any, **options: Any) -> "optuna.Study":
    """A new Optuna study of that name, with what a study's events add up to."""
    header, axes = history.header, {key: stored_distribution_of(axis) for key, axis in history.space.items()}
    place = _storage(storage)
    try:
        new = optuna.create_study(study_name=name, storage=place, direction=header["direction"], **options)
    except optuna.exceptions.DuplicatedStudyError:
        raise StudyError(f"the name of a study must be new, but Optuna has a study {name!r}; choose another") from None
    kept: dict[int | None, list[str]] = {}
    for note in history.notes:
        kept.setdefault(note["number"], []).append(note["text"])
    for trial in history.trials:
        new.add_trial(_frozen(trial, axes, kept.get(trial.number, [])))
    facts, notes = _split(kept.get(None, []))
    about = {"seed": header["seed"], "space": history.space.to_json(), **history.settings}
    more = {OURS + "study": about, **({OURS + "notes": notes} if notes else {})}
    for key, value in {**facts.get("user_attrs", {}), **more}.items():
        new.set_user_attr(key, value)
    return new


def _storage(storage: Any) -> Any:
    """An Optuna storage for a URL or a path; what else there is as it is."""
    if not isinstance(storage, str | os.PathLike):
        return storage
    place = os.fspath(storage)
    url = place if "://" in place else f"sqlite:///{place}"
    try:
        return optuna.storages.RDBStorage(url)
    except Exception as error:  # SQLAlchemy's, Alembic's and the driver's own
        said = str(error).partition("\n")[0]
        raise StudyError(
            f"an Optuna storage must be writable, but: {type(error).__name__}: {said}; give the URL of another "
            "database, or the name of a file in a folder that exists"
        ) from error


def _split(texts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """What Optuna had and presage has no place for, and what people wrote."""
    facts: dict[str, Any] = {}
    for text in texts:
        if text.startswith(KEPT):
            facts |= json.loads(text.removeprefix(KEPT))
    return facts, [text for text in texts if not text.startswith(KEPT)]


def _frozen(trial: Trial, axes: dict[str, Any], texts: Sequence[str]) -> FrozenTrial:
    facts, notes = _split(texts)
    states = {"complete": TrialState.COMPLETE, "failed": TrialState.FAIL, "waiting": TrialState.WAITING}
    state = states.get(trial.state, TrialState.RUNNING)
    value = trial.value
    more: dict[str, Any] = {"source": trial.source, "attempt": trial.attempt, "latency": trial.latency}
    if trial.stddev is not None:
        more["stddev"] = trial.stddev
    if trial.failure is not None:
        more["failure"] = vars(trial.failure)
        value = float(facts["value"]) if "value" in facts else None
        if trial.failure.kind == "pruned":
            state = TrialState.PRUNED
        elif value is not None:  # complete for Optuna, but infeasible or infinite
            state = TrialState.COMPLETE
    if notes:
        more["notes"] = notes
    reports = {int(step): float(number) for step, number in facts.get("reports", trial.reports)}
    system: dict[str, Any] = {"constraints": facts["constraints"]} if "constraints" in facts else {}
    waiting, params = state == TrialState.WAITING, {key: stored(item) for key, item in trial.params.items()}
    frozen = optuna.trial.create_trial(
        state=state, value=value, params={} if waiting else params,
        distributions={} if waiting else {key: axes[key] for key in trial.params},
        user_attrs={**trial.metrics, **facts.get("user_attrs", {}), **{OURS + key: item for key, item in more.items()}},
        system_attrs={**system, **({"fixed_params": params} if waiting else {})},
        intermediate_values=reports,
    )  # fmt: skip
    started = trial.finished if trial.suggested is None else trial.suggested
    frozen.datetime_start = None if waiting or started is None else datetime.fromtimestamp(started)
    frozen.datetime_complete = None if trial.finished is None else datetime.fromtimestamp(trial.finished)
    return frozen


__all__ = ["from_optuna", "open_optuna", "space_of", "to_optuna", "write"]
