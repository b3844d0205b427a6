"""Whether what a storage holds of a study is whole and makes sense. Looks only; nothing is repaired."""

from presage.errors import StorageError
from presage.history import History
from presage.journal import unpack
from presage.storage import Storage


def audit(storage: Storage, name: str) -> list[str]:
    """What is wrong with a study, in sentences; none where all is well."""
    try:
        events, claims, state = storage.snapshot(name)
    except StorageError as error:
        return [str(error)]
    history, found = History(), []
    for event in events:
        try:
            history.apply(event)
        except StorageError as error:
            found.append(str(error))
            break
    else:
        found += _claims(history, set(claims))
    if state is not None:
        if not 0 < state[0] <= len(events):
            found.append(f"the fit state must be of one of {len(events)} events, but is of event {state[0]}")
        try:
            unpack(state[1])
        except StorageError as error:
            found.append(str(error))
    return found


def _claims(history: History, claims: set[str]) -> list[str]:
    """Each thing that may happen once to a trial has its claim, and no claim stands for what did not happen."""
    asked = {trial.number for trial in history.trials if trial.source != "told"}
    told = {f"told:{trial.number}" for trial in history.trials if trial.finished is not None and trial.number in asked}
    found = [f"trial {claim[5:]} has ended, but nobody claimed that" for claim in sorted(told - claims)]
    for claim in sorted(claims):
        kind, _, rest = claim.partition(":")
        number = rest.partition(":")[0]
        known = kind in ("told", "number", "start") and number.isdigit()
        # A change of the space claims the number that comes next, which no trial may have yet.
        known = known and int(number) < len(history.trials) + (kind == "number" and history.spaces > 0)
        if not known or (kind == "told" and claim not in told):
            found.append(f"somebody claimed {claim!r}, which did not happen")
    if history.trials and "number:0" not in claims:
        found.append("trial 0 must be claimed by whoever made it, but is not")
    return found
