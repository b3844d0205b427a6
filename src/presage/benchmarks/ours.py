"""presage's own surrogates, served the way `peers.py` serves the others; imports no more than a user's script would."""

from typing import Any

from presage.benchmarks import peers
from presage.space import Space
from presage.study import Study


class Ours(peers.Peer):
    """A study."""

    packages = ("scipy",)

    def __init__(self, surrogate: str, space: dict[str, Any], trials: int, seed: int) -> None:
        super().__init__(peers.Task(space, trials, seed))
        self.study = Study(Space.from_json(space), seed=seed, surrogate=surrogate)

    def ask(self) -> peers.Params:
        self.trial = self.study.ask()
        return dict(self.trial.params)

    def tell(self, value: float) -> None:
        self.study.tell(self.trial, value)

    def give(self, points: list[peers.Params], values: list[float]) -> None:
        self.study.tell_many(points, values)


def cold(method: str, space: dict[str, Any], trials: int, seed: int) -> peers.Peer:
    """A method such as presage:gp."""
    return Ours(method.partition(":")[2], space, trials, seed)


if __name__ == "__main__":
    peers.serve(cold)
