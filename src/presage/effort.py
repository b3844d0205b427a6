"""How much a suggestion may cost, given what an evaluation takes."""

from statistics import median

from presage.history import History
from presage.trial import Effort

FROM = 200  # trials before which all suggestions together take a few seconds
LATELY = 20  # trials that are looked at
CHEAP = 0.1  # evaluations that take less than so much of a suggestion
DEAR = 1.0  # and those that take more than so much of a quick one end quick suggestions


def affordable(history: History) -> Effort:
    """Quick suggestions where many trials took next to no time, usual ones elsewhere.

    More than the usual effort is never spent: it found nothing more (`presage bench ablate -c more-effort`). What was
    decided is written down with each trial, which keeps a decision near the limit and lets a replay follow it.
    """
    if len(history.trials) < FROM:
        return "usual"
    lately = [t for t in history.trials[-2 * LATELY :] if t.source == "model" and t.values and t.seconds is not None]
    lately = lately[-LATELY:]
    if len(lately) < LATELY:
        return "usual"
    evaluation, suggestion = median(t.seconds or 0.0 for t in lately), median(t.latency for t in lately)
    limit = CHEAP if lately[-1].effort == "usual" else DEAR
    return "quick" if evaluation < limit * suggestion else "usual"
