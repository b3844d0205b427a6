"""Single choices of presage's default changed, each as a method `presage@NAME`; for the development list only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from presage.benchmarks.measures import TOO_FEW, Runs, duel, mean_ranks
from presage.errors import PresageError
from presage.kernels import Matern, SquaredExponential, Trend
from presage.proposers import ModelBased
from presage.proposers.batch import Believe
from presage.proposers.maximise import Maximiser
from presage.space import Space
from presage.surrogates import BestOf, GaussianProcess, Surrogate, automatic

OURS = "presage"
LIST = "development"


def _unchanged(space: Space) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Variant:
    """What is changed.

    Attributes:
        what: in a few words.
        settings: of the study, given its space; those of the default otherwise.
        together: points asked for at a time.
        middle: whether the middle of the space is among the first points.
    """

    what: str
    settings: Callable[[Space], dict[str, Any]] = _unchanged
    together: int = 1
    middle: bool = True


def _members(change: Callable[[GaussianProcess], GaussianProcess]) -> Surrogate:
    """The default with each of its processes changed."""
    default = automatic()
    best = default.surrogate
    if not isinstance(best, BestOf) or not all(isinstance(member, GaussianProcess) for member in best.members):
        raise PresageError("the default is not the best of some Gaussian processes any more; say anew what to change")
    return replace(default, surrogate=BestOf(tuple(change(member) for member in best.members)))  # type: ignore[arg-type]


def _member(number: int) -> Surrogate:
    default = automatic().surrogate
    assert isinstance(default, BestOf)
    return default.members[number]


def _without_trend(member: GaussianProcess) -> GaussianProcess:
    kept = [part for part in getattr(member.kernel, "parts", (member.kernel,)) if not isinstance(part, Trend)]
    (kernel,) = kept
    return replace(member, kernel=kernel)


def _smoother(member: GaussianProcess) -> GaussianProcess:
    matern = _without_trend(member).kernel
    assert isinstance(matern, Matern)
    return replace(member, kernel=SquaredExponential(matern.lengthscale, matern.variance) + Trend())


def _searching(**maximiser: int) -> Callable[[Space], dict[str, Any]]:
    return lambda space: {"acquisition": ModelBased(automatic(), maximiser=Maximiser(**maximiser))}


VARIANTS: dict[str, Variant] = {
    "free": Variant("the free process alone", lambda space: {"surrogate": _member(0)}),
    "calm": Variant("the calm process alone", lambda space: {"surrogate": _member(1)}),
    "no-trend": Variant("no trend under the processes", lambda space: {"surrogate": _members(_without_trend)}),
    "no-warp": Variant(
        "values not warped", lambda space: {"surrogate": _members(lambda member: replace(member, warp=None))}
    ),
    "smoother": Variant(
        "squared exponential instead of Matern 5/2", lambda space: {"surrogate": _members(_smoother)}
    ),
    "gp": Variant("a plain Gaussian process", lambda space: {"surrogate": "gp"}),
    "gp-mcmc": Variant("hyperparameters sampled", lambda space: {"surrogate": "gp-mcmc"}),
    "neural": Variant('surrogate "neural"', lambda space: {"surrogate": "neural"}),
    "hmc": Variant("networks sampled by HMC", lambda space: {"surrogate": "hmc"}),
    "capped": Variant("EI with a cap on what spread is worth", lambda space: {"acquisition": "capped"}),
    "ei": Variant("EI, not its logarithm", lambda space: {"acquisition": "ei"}),
    "logei": Variant("log EI whatever the noise", lambda space: {"acquisition": "logei"}),
    "nei": Variant("noisy EI whatever the noise", lambda space: {"acquisition": "nei"}),
    "lcb": Variant("a confidence bound", lambda space: {"acquisition": "lcb"}),
    "no-middle": Variant("a Sobol sequence alone to begin with", middle=False),
    "few-initial": Variant("3 initial points", lambda space: {"initial": 3}),
    "many-initial": Variant("twice the initial points", lambda space: {"initial": 2 * min(space.dim + 3, 10)}),
    "few-starts": Variant("acquisition climbed from 2 points", _searching(starts=2)),
    "more-effort": Variant(
        "acquisition climbed from 32 of four times the points", _searching(starts=32, spread=4096, local=2048)
    ),
    "batch-4": Variant("four points at a time", together=4),
    "batch-4-believed": Variant(
        "four at a time, one after another",
        lambda space: {"acquisition": ModelBased(automatic(), batch=Believe())}, together=4,
    ),
}  # fmt: skip
# Half an hour a seed and more; run when named.
DEAR = ("hmc", "gp-mcmc")
USUAL = tuple(name for name in VARIANTS if name not in DEAR)


def variant(name: str) -> Variant:
    """A variant by the part of a method's name after the @."""
    if name not in VARIANTS:
        raise PresageError(f"what is changed must be one of {', '.join(VARIANTS)}, but got {name!r}")
    return VARIANTS[name]


def markdown(runs: Sequence[Runs], methods: Sequence[str]) -> str:
    """Mean ranks among all, and for each change on how many problems the default is ahead of it, level, or behind."""
    seeds = sorted({len(r.seeds) for r in runs})
    ranks = mean_ranks(runs)
    rows = []
    for i in sorted(range(len(methods)), key=lambda i: ranks[i].mean):
        name = methods[i]
        if name == OURS:
            rows.append(["**the default**", "", str(ranks[i]), "", "", ""])
            continue
        verdicts = [duel(r, methods, OURS, among=[name]).verdict for r in runs]
        judged = any(verdict != TOO_FEW for verdict in verdicts)
        counts = [str(verdicts.count(word)) if judged else "-" for word in ("ahead", "level", "behind")]
        what = name.partition("@")[2]
        rows.append([f"`{what}`", VARIANTS[what].what, str(ranks[i]), *counts])
    head = ("change", "what", "mean rank (95 %)", "default ahead on", "level on", "behind on")
    lines = [head, ["---"] * len(head), *rows]
    count = f"{seeds[-1]} seed{'s' * (seeds[-1] != 1)}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    said = (
        f"{len(runs)} problems of the development list, {count}. Ranks are among all rows, by "
        "the least regret at the end. Ahead and behind: the share of seeds won, ties half, by the bootstrap and a sign "
        "test at 95 %, from six seeds on."
    )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{said}\n"
