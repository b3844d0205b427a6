"""Why a study suggests as it does: what stands behind "auto", and the figures that each choice rests on."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from presage.acquisitions import LogExpectedImprovement, NoisyExpectedImprovement, SometimesGreedy
from presage.effort import CHEAP, FROM
from presage.insight import Record, record_of
from presage.markup import fragment, table
from presage.observations import Observations
from presage.proposers import ModelBased
from presage.proposers.batch import Believe, JointImprovement
from presage.proposers.model_based import FITTED
from presage.proposers.random import RandomSearch
from presage.suggester import MANY
from presage.surrogates import BestOf, Focused, GaussianProcess, Posterior, State, Surrogate
from presage.surrogates.best_of import CHOSEN, _split
from presage.surrogates.focused import KNOWN
from presage.threads import few_threads

__all__ = ["Choice", "Explanation", "explain"]

IMPROVEMENT = (
    "How much better than the best a point may be, on a log scale: where that is next to nothing everywhere, slopes "
    "still say where to go."
)


class Choice(NamedTuple):
    """One thing that was decided.

    Attributes:
        chosen: what.
        why: the rule, and the figures it was applied to.
    """

    chosen: str
    why: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a study chose and why. Printed, it is sentences; the fields are plain.

    Attributes:
        study: its name.
        facts: the figures that the choices rest on, by name.
        choices: what was decided, by part: next, surrogate, acquisition, batch, maximiser, time.
    """

    study: str
    facts: Mapping[str, Any]
    choices: Mapping[str, Choice]

    def __repr__(self) -> str:
        width = max(map(len, self.choices))
        lines = [f"{part:{width}}  {one.chosen}. {one.why}" for part, one in self.choices.items()]
        return "\n".join([f"Study {self.study!r}: {_told(self.facts)}", *lines])

    def _repr_html_(self) -> str:
        rows = [(part, one.chosen, one.why) for part, one in self.choices.items()]
        folded = [("figures", table(self.facts.items()))]
        return fragment(f"Study {self.study!r}", _told(self.facts), table(rows, ("", "chosen", "why")), folded=folded)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        choices = {part: one._asdict() for part, one in self.choices.items()}
        return {"study": self.study, "facts": dict(self.facts), "choices": choices}


def explain(study: Any) -> Explanation:
    """What a study, a record or a result would do for its next trial, and why.

    Looking changes nothing: neither the study nor what it will suggest.
    """
    record = record_of(study)
    data = record.history.observations()
    facts = _facts(record, data)
    effort = facts["effort"] = record.suggester.effort(record.history)
    proposer = record.suggester.proposer
    proposer = proposer.quick() if effort == "quick" else proposer
    choices = {"next": _next(record, facts)}
    if isinstance(proposer, ModelBased):
        posterior = None
        if data.count:
            with few_threads():
                posterior, choices["surrogate"] = _surrogate(record, proposer, data, facts)
        else:
            choices["surrogate"] = Choice(described(proposer.surrogate), "Not asked yet: there is no value.")
        choices["acquisition"] = _acquisition(record, proposer, data, facts)
        choices["batch"] = _batch(proposer, facts)
        choices["maximiser"] = _maximiser(proposer, posterior, facts)
    elif isinstance(proposer, RandomSearch):
        choices["surrogate"] = Choice("none", 'As asked for: "random" does not look at values.')
    else:
        choices["proposer"] = Choice(type(proposer).__name__, f"As asked for. {_first_sentence(proposer)}")
    choices["time"] = _time(facts, adapts=record.suggester.adapts)
    return Explanation(record.name, facts, choices)


# Figures.
def _facts(record: Record, data: Observations) -> dict[str, Any]:
    space, trials = record.space, record.trials
    listed = space.points()
    waited = [t.seconds for t in trials if t.values and t.seconds is not None]
    latency = [t.latency for t in trials if t.source == "model" and t.latency is not None]
    return {
        "dimensions": space.dim, "kinds": dict(Counter(type(axis).__name__ for axis in space.values())),
        "conditional": space.conditional, "constraints": len(space.constraints),
        "points": None if listed is None else len(listed), "trials": len(trials), "values": data.count,
        "failures": int(data.failed.sum()), "running": int(data.pending.sum()),
        "initial": record.history.header["initial"],
        "evaluation_seconds": median(waited) if waited else None,
        "suggestion_seconds": median(latency) if latency else None,
    }  # fmt: skip


def _told(facts: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in facts["kinds"].items())
    more = [
        word for word, is_so in (("conditional", facts["conditional"]), ("constrained", facts["constraints"])) if is_so
    ]
    size = [] if facts["points"] is None else [f"{facts['points']} points in all"]
    counts = [f"{facts[what]} {what}" for what in ("values", "failures", "running") if facts[what] or what == "values"]
    return "; ".join([", ".join([kinds, *more, *size]), ", ".join(counts)]) + "."


# Choices.
def _next(record: Record, facts: dict[str, Any]) -> Choice:
    number, initial = facts["trials"], facts["initial"]
    if record.history.waiting:
        return Choice(
            "a trial that waits", f"{len(record.history.waiting)} were enqueued or interrupted, and come first."
        )
    if isinstance(record.suggester.proposer, RandomSearch):
        return Choice("a random point", "No model is asked.")
    if record.history.best is None:
        why = f"The first {initial} trials are a Sobol sequence{_middle(record)}" + (
            "." if number < initial else ", as long as no value is known."
        )
        return Choice("a point of the initial design", why)
    if number < initial:
        return Choice(
            f"point {number + 1} of {initial} of the initial design",
            f"A Sobol sequence{_middle(record)}; the model comes after it.",
        )
    return Choice("a point of the model", f"{number} trials exist, and the initial design of {initial} is over.")


def _middle(record: Record) -> str:
    return ", the middle of the space the second of them" if record.space.dim >= MANY else ""


def described(surrogate: Surrogate) -> str:
    """A surrogate in a few words."""
    if isinstance(surrogate, Focused):
        return described(surrogate.surrogate)
    if isinstance(surrogate, BestOf):
        return f"the best of {len(surrogate.members)} surrogates"
    if isinstance(surrogate, GaussianProcess):
        kernel = surrogate.kernel
        parts = getattr(kernel, "parts", (kernel,))
        free = "its own variance learned" if getattr(parts[0], "variance", None) is not None else "the values' variance"
        kinds = " + ".join(type(part).__name__ for part in parts)
        return f"a Gaussian process ({kinds}, {free}, noise expected near {math.sqrt(surrogate.noise.median):.2g})"
    return type(surrogate).__name__


def _surrogate(
    record: Record, proposer: ModelBased, data: Observations, facts: dict[str, Any]
) -> tuple[Posterior, Choice]:
    """What the fit says that the next suggestion would use."""
    surrogate, state = proposer.surrogate, record.suggester.own(record.state, record.history)
    asked = record.history.settings["surrogate"]
    rng = np.random.default_rng([record.history.header["seed"], len(record.trials)])
    fitted = int(state[FITTED]) if FITTED in state else 0
    posterior, found, _ = proposer.fit(state, data, rng=rng)
    anew = found is not state
    new, looks = 0 if anew else data.count - fitted, ""
    spread = math.sqrt(float(posterior.noise(data.x[data.mask][:1])[0]))
    facts["noise"] = spread
    fitted = data.count if anew else fitted
    if isinstance(surrogate, Focused):
        seen, fitted = surrogate.seen(data, found), int(found[KNOWN][1])
        if seen.count < data.count:
            looks = f"It looks at {seen.count} of {data.count} values: the best ones, and the others evenly. "
            facts["seen"] = seen.count
        surrogate, data = surrogate.surrogate, seen
    facts["fitted_to"] = fitted
    when = f"Its hyperparameters would be found anew now, from {fitted} values"
    if not anew:
        since = f"; {_counted(new, 'value')} since then {'was' if new == 1 else 'were'} as foretold" if new else ""
        when = f"Its hyperparameters were found from {_counted(fitted, 'value')}{since}"
    noise = f"noise about {spread:.2g} of the values' spread"
    chosen = described(surrogate)
    why = f"{looks}{when}; {noise}."
    if isinstance(surrogate, BestOf):
        densities = _densities(surrogate, found, data)
        facts["leave_one_out"] = densities
        at = int(found[CHOSEN])
        chosen = described(surrogate.members[at])
        best = "foretells left-out values best" if densities[at] >= max(densities) else "did so when it was fitted"
        told = " against ".join(f"{d:.3g}" for d in (densities[at], *(d for i, d in enumerate(densities) if i != at)))
        why = f"Of {len(densities)} it {best}: mean log density {told} per value. {why}"
    if asked != "auto":
        why = f"As asked for. {why}"
    return posterior, Choice(chosen, why)


def _densities(surrogate: BestOf, state: State, data: Observations) -> list[float]:
    """Mean leave-one-out log density of every member at the hyperparameters that are kept."""
    found = []
    for member, part in zip(surrogate.members, _split(state, len(surrogate.members)), strict=True):
        fit = member.fit(data, rng=np.random.default_rng(0), previous=part, keep=True)
        found.append(float(fit.posterior.leave_one_out().mean()))
    return found


def _acquisition(record: Record, proposer: ModelBased, data: Observations, facts: dict[str, Any]) -> Choice:
    asked = record.history.settings["acquisition"]
    acquisition = proposer.acquisition
    said = ["As asked for."] if asked != "auto" else [IMPROVEMENT]
    if asked == "auto" and isinstance(acquisition, SometimesGreedy):
        said.append(
            "Sampled networks differ away from the data for long, so every second point is where their mean is least, "
            "unless far more is expected elsewhere."
        )
    noise = max(facts.get("noise", 0.0), math.sqrt(float(data.noise[data.mask].max(initial=0.0))))
    if isinstance(acquisition, NoisyExpectedImprovement):
        if noise < acquisition.least:
            acquisition = LogExpectedImprovement()
        elif asked == "auto":
            said.append(
                f"Since noise is {noise:.2g} of the spread, which point is the best is not known: the improvement is "
                "that over what the best may be."
            )
    if facts["failures"]:
        said.append(
            f"{_counted(facts['failures'], 'trial')} failed, so it is weighted by how likely a point is to succeed, "
            "and points that would probably fail are ruled out."
        )
    return Choice(_spaced(acquisition), " ".join(said))


def _batch(proposer: ModelBased, facts: dict[str, Any]) -> Choice:
    chosen = proposer._batch
    words: dict[type, str] = {
        JointImprovement: "Points chosen together move to where their common improvement is largest.",
        Believe: "Points chosen together are chosen one after another.",
    }
    why = words.get(type(chosen), _first_sentence(chosen))
    running = _counted(facts["running"], "trial")
    said = f" What runs ({running}) counts as evaluated at its predicted mean." if facts["running"] else ""
    asked = "As asked for. " if proposer.batch is not None else ""
    return Choice(_spaced(chosen), f"{asked}{why}{said}")


def _maximiser(proposer: ModelBased, posterior: Posterior | None, facts: dict[str, Any]) -> Choice:
    m = proposer.maximiser
    if facts["points"] is not None:
        return Choice(
            "every point that is left", f"The space has {facts['points']} points, few enough to try them all."
        )
    discrete = facts["kinds"].keys() - {"Float"}
    neighbours = ", neighbours on discrete columns" if discrete else ""
    if posterior is None or posterior.differentiable:
        chosen, why = f"L-BFGS from {m.starts} starts{neighbours}", "The posterior has derivatives"
    else:
        chosen, why = (
            f"steps along single columns and CMA-ES from {m.starts} starts{neighbours}",
            "The posterior has no derivatives",
        )
    return Choice(
        chosen, f"{why}; starts are the best of {m.spread} points of the space and {m.local} around the best values."
    )


def _time(facts: dict[str, Any], *, adapts: bool) -> Choice:
    own, theirs = facts["suggestion_seconds"], facts["evaluation_seconds"]
    if own is None or theirs is None:
        return Choice("no figures yet", "There is no trial of the model with a value.")
    share = own / (own + theirs) if own + theirs else 0.0
    if facts["effort"] == "quick":
        why = "Evaluations take less time than suggestions, and there are many: fewer candidates are looked at."
    elif adapts:
        why = (
            f"The usual effort: more found nothing more, and less is spent from trial {FROM} on, where evaluations "
            f"take less than {CHEAP:.0%} of a suggestion."
        )
    else:
        why = "The same effort whatever an evaluation takes, since parts were named."
    return Choice(f"{_seconds(own)} for a suggestion, {_seconds(theirs)} for an evaluation ({share:.0%} overhead)", why)


# Words.
def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1.0 else f"{value:.3g} s"


def _spaced(thing: Any) -> str:
    """LogExpectedImprovement as log expected improvement."""
    name = type(thing).__name__
    return "".join(f" {c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def _first_sentence(thing: Any) -> str:
    return " ".join((type(thing).__doc__ or "").strip().split("\n\n")[0].split())
