"""Bayesian optimisation with neural surrogates.

Example:
    >>> import presage
    >>> space = presage.Space({"x": presage.Float(-5, 10), "y": presage.Float(0, 15)})
    >>> def f(params):
    ...     return (params["x"] - 1) ** 2 + (params["y"] - 2) ** 2
    >>> result = presage.minimize(f, space, trials=20, seed=0, progress=False)
    >>> result.best.value < 0.1
    True
"""

from typing import TYPE_CHECKING

from presage.lazy import later

__version__ = "0.1.0"

if TYPE_CHECKING:
    from presage import (
        acquisitions,
        advice,
        design,
        executors,
        functions,
        insight,
        plots,
        proposers,
        sklearn,
        storage,
        surrogates,
        testing,
    )
    from presage.errors import PresageError, SpaceExhausted, TooManyFailures
    from presage.loop import Result, maximize, minimize
    from presage.space import Choice, Constant, Float, Int, Space
    from presage.study import Study, load_study
    from presage.trial import Trial

# Names and where they live: imported when first used, so that `import presage` and the command line answer at once.
_HOME = {
    "Choice": "space", "Constant": "space", "Float": "space", "Int": "space", "Space": "space",
    "Study": "study", "load_study": "study", "Trial": "trial", "Result": "loop", "minimize": "loop", "maximize": "loop",
    "PresageError": "errors", "SpaceExhausted": "errors", "TooManyFailures": "errors",
    "acquisitions": "", "advice": "", "design": "", "executors": "", "functions": "", "insight": "", "plots": "",
    "proposers": "", "sklearn": "", "storage": "", "surrogates": "", "testing": "",
}  # fmt: skip

__all__ = [
    "Choice", "Constant", "Float", "Int", "PresageError", "Result", "Space", "SpaceExhausted", "Study",
    "TooManyFailures", "Trial", "acquisitions", "advice", "design", "executors", "functions", "insight", "load_study",
    "maximize", "minimize", "plots", "proposers", "sklearn", "storage", "surrogates", "testing",
]  # fmt: skip


__getattr__ = later(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
