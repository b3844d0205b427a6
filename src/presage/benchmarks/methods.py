"""Methods by name: presage with any surrogate and acquisition, plain designs, and the peers, here or elsewhere.

A method is started for a space and then asked and told in turn; what it spends is counted by whoever runs it.
"""

import json
import re
import subprocess
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from presage.benchmarks import peers
from presage.benchmarks.ablations import Variant, variant
from presage.errors import PresageError
from presage.space import Float, Space
from presage.suggester import MANY, design, initial_trials
from presage.trial import Trial

Params = dict[str, Any]

EXTRAS = {
    "cmaes": "pip install cmaes", "hebo": "pip install HEBO, in an environment of its own with NumPy 1",
    **dict.fromkeys(("pygpgo", "pygpgo-ucb0.5", "pygpgo-ucb1.5"), "pip install pyGPGO"),
}  # fmt: skip
NAMES = (
    "presage",
    "presage:SURROGATE",
    "presage:SURROGATE:ACQUISITION",
    "presage@CHANGE",
    "random",
    "sobol",
    *peers.PEERS,
)


class MissingPeer(PresageError, ImportError):
    """A peer's library is not in the interpreter that was to run it."""


class Session(ABC):
    """One run of a method.

    Attributes:
        versions: what is being measured.
        spent: seconds that the method itself took for the latest ask and tell.
    """

    versions: Mapping[str, str]
    spent: float | None = None

    @abstractmethod
    def ask(self) -> Params:
        """The next params to try."""

    @abstractmethod
    def tell(self, value: float) -> None:
        """The value of the params asked for last."""


class Presage(Session):
    """A study of presage."""

    _warm: ClassVar[set[str]] = set()

    def __init__(self, space: Space, seed: int, name: str, change: Variant) -> None:
        from presage.study import Study

        if name not in Presage._warm:  # as the peers are; see peers.make
            Presage._warm.add(name)
            line = Space({"x": Float(0.0, 1.0)})
            warm = Study(line, seed=0, **change.settings(line))
            for _ in range(8):
                trial = warm.ask()
                warm.tell(trial, (trial.params["x"] - 0.3) ** 2)
        self.study = Study(space, seed=seed, **change.settings(space))
        if not change.middle:
            points = design(seed, 1 + initial_trials(space), space.dim)
            for point in np.delete(points, 1, axis=0) if space.dim >= MANY else points[:-1]:
                self.study.enqueue(space.decode(point))
        self.together, self.asked = change.together, deque[Trial]()
        self.versions = peers.versions(("scipy",)) | {"presage": _presage_version(), "code": code()}

    def ask(self) -> Params:
        if not self.asked:
            self.asked.extend(self.study.ask(self.together))
        self.trial = self.asked.popleft()
        return dict(self.trial.params)

    def tell(self, value: float) -> None:
        self.study.tell(self.trial, value)


class Points(Session):
    """Points that do not depend on values: uniform, or a Sobol sequence with a random shift."""

    def __init__(self, space: Space, seed: int, trials: int, name: str) -> None:
        from presage.sobol import sobol

        rng = np.random.default_rng([seed, 0xBE7C])  # another stream than any that shifts a function
        self.space, self.versions = space, peers.versions(()) | {"presage": _presage_version()}
        self.points = iter(sobol(trials, space.dim, rng) if name == "sobol" else rng.random((trials, space.dim)))

    def ask(self) -> Params:
        return self.space.decode(next(self.points))

    def tell(self, value: float) -> None:
        """Makes no difference."""


class Here(Session):
    """A peer in this process."""

    def __init__(self, method: str, space: Space, trials: int, seed: int) -> None:
        try:
            self.peer = peers.make(method, space.to_json(), trials, seed)
        except ImportError as error:
            raise _missing(method, error.name or str(error), "this interpreter") from error
        self.versions = peers.versions(self.peer.packages)

    def ask(self) -> Params:
        return self.peer.ask()

    def tell(self, value: float) -> None:
        self.peer.tell(value)


class Interpreter:
    """Another interpreter that serves peers, and the end of what it wrote to standard error."""

    def __init__(self, python: str) -> None:
        script = str(Path(peers.__file__).resolve())
        try:
            # -I: neither this folder nor PYTHONPATH may put modules in front of the peer's own.
            self.pipe = subprocess.Popen(
                [python, "-I", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip
        except OSError as error:
            raise PresageError(f"--python must name an interpreter, but {python!r} cannot be run: {error}") from error
        self.words: deque[str] = deque(maxlen=20)
        threading.Thread(target=self._listen, daemon=True).start()  # a full pipe would stop the peer

    def _listen(self) -> None:
        assert self.pipe.stderr is not None
        self.words.extend(self.pipe.stderr)

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.pipe.stdin is not None
        assert self.pipe.stdout is not None
        try:
            self.pipe.stdin.write(json.dumps(request) + "\n")
            self.pipe.stdin.flush()
            line = self.pipe.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.pipe.wait()
            raise PresageError(f"the peer's interpreter ended with exit code {code}: {''.join(self.words)[-2000:]}")
        return json.loads(line)


_STARTED: dict[str, Interpreter] = {}  # by path; used for one run after another


class Elsewhere(Session):
    """A peer in another interpreter, spoken to in lines of JSON."""

    def __init__(self, python: str, method: str, space: Space, trials: int, seed: int) -> None:
        process = _STARTED.get(python)
        if process is None or process.pipe.poll() is not None:
            process = _STARTED[python] = Interpreter(python)
        self.process = process
        answer = process.call({"start": [method, space.to_json(), trials, seed]})
        if answer.get("missing"):
            raise _missing(method, answer["missing"], python)
        self.versions = self._checked(answer)["versions"]

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise PresageError(f"the peer failed: {answer['error']}")
        return answer

    def ask(self) -> Params:
        answer = self._checked(self.process.call({"ask": 0}))
        self.spent = answer["seconds"]
        return answer["params"]

    def tell(self, value: float) -> None:
        answer = self._checked(self.process.call({"tell": value}))
        self.spent = (self.spent or 0.0) + answer["seconds"]


def check(method: str) -> None:
    """Raise if there is no such method; whether its library is there turns out when it is started."""
    base, *settings = method.split(":")
    if method.startswith("presage@"):
        variant(method.partition("@")[2])
    elif base == "presage" and len(settings) <= 2:
        from presage import acquisitions, surrogates

        names = (["surrogate", *surrogates.BY_NAME], ["acquisition", *acquisitions.BY_NAME])
        for setting, (what, *known) in zip(settings, names, strict=False):
            if setting not in known and not (what == "acquisition" and re.fullmatch(r"lcb[0-9.]+", setting)):
                raise PresageError(
                    f"the {what} of a method must be one of {', '.join(known)}, but got {setting!r} in {method!r}"
                )
    elif method not in NAMES or settings:
        raise PresageError(f"a method must be one of {', '.join(NAMES)}, but got {method!r}")


def start(method: str, space: Space, trials: int, seed: int, python: str | None = None) -> Session:
    """A run of a method, in another interpreter if one is given."""
    base, *settings = method.split(":")
    if method.startswith("presage@"):
        return Presage(space, seed, method, variant(method.partition("@")[2]))
    if base == "presage":
        return Presage(space, seed, method, Variant(method, lambda space: _settings(*settings)))
    if base in ("random", "sobol"):
        return Points(space, seed, trials, base)
    return Elsewhere(python, base, space, trials, seed) if python else Here(base, space, trials, seed)


def _settings(surrogate: str = "auto", acquisition: str = "auto") -> dict[str, Any]:
    from presage.acquisitions import ConfidenceBound

    bound = re.fullmatch(r"lcb([0-9.]+)", acquisition)
    return {"surrogate": surrogate, "acquisition": ConfidenceBound(float(bound[1])) if bound else acquisition}


def _missing(method: str, what: str, where: str) -> MissingPeer:
    remedy = EXTRAS.get(method, "pip install 'presage[peers]'")
    return MissingPeer(
        f"method {method!r} needs {what!r}, which {where} does not have: {remedy}, or name an interpreter that has it "
        f"with --python {method}=PATH"
    )


def _presage_version() -> str:
    from presage import __version__

    return __version__


def code() -> str:
    """A digest of the source that suggestions depend on, so that results of other code can be told apart."""
    import hashlib

    import presage

    root = Path(presage.__file__).parent
    skipped = {"benchmarks", "cli", "dashboard", "experiments", "plots", "testing"}
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] not in skipped:
            digest.update(f"{inside}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
