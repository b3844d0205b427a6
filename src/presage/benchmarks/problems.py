"""The problems by name, and the lists that benchmarks are run on.

`development` is what constants may be tuned on, `reported` what results are told of; they share no function, no data
set and no system. `tuning` is S5's four learners on five data sets with 53 evaluations, as in the thesis.
"""

from collections.abc import Callable

import numpy as np

from presage.benchmarks import formulas, mixed, physical, tabular
from presage.benchmarks.problem import Instance, Params, Problem
from presage.errors import PresageError
from presage.functions import (
    Function,
    ackley,
    branin,
    forrester,
    griewank,
    hartmann3,
    hartmann4,
    hartmann6,
    levy,
    mccormick,
    michalewicz,
    rosenbrock,
    six_hump_camel,
    styblinski_tang,
)
from presage.space import Float, Space

LEARNERS = ("svm", "knn", "gbm", "mlp")
DATA = ("affinity", "interface", "lsvt", "parkinsons", "breast")
S5_TRIALS = 53
SHIFTS = 100  # added to seeds, so that no method's own stream of random numbers is the one that moved the minimum
# Least values that no formula gives: the best of many runs of differential evolution, polished (tests/test_bench.py).
REACTOR_MINIMUM = -2.1552441392821824
CARTPOLE_MINIMUM = 0.011311987261569846


def shifted(function: Function) -> Callable[[int], Instance]:
    """The function with its minimum moved to another place by every seed."""

    def make(seed: int) -> Instance:
        f = function.shifted(SHIFTS + seed)
        return Instance(f.space, f, f.minimum)

    return make


def hidden(function: Function, dim: int) -> Callable[[int], Instance]:
    """The function in a few coordinates, which the seed picks, of many."""

    def make(seed: int) -> Instance:
        f = function.shifted(SHIFTS + seed)
        chosen = np.random.default_rng([seed, 4, SHIFTS]).permutation(dim)[: f.num_dims]
        low, high = f.formula.box(f.num_dims)
        bounds = {int(i): (float(a), float(b)) for i, a, b in zip(chosen, low, high, strict=True)}
        space = Space({f"x{i}": Float(*bounds.get(i, (-1.0, 1.0))) for i in range(dim)})

        def value(params: Params) -> float:
            return f({name: params[f"x{i}"] for name, i in zip(f.space, chosen, strict=True)})

        return Instance(space, value, f.minimum)

    return make


def fixed(make: Callable[[], Instance]) -> Callable[[int], Instance]:
    """A problem that is the same for every seed; seeds then differ in the methods' own randomness only."""
    return lambda seed: make()


def _tuning(name: str, trials: int, suffix: str = "") -> Problem:
    return Problem(name + suffix, "tuning", trials, fixed(lambda: tabular.tuning(name)))


def _curve(name: str) -> Problem:
    return Problem(f"curve_{name}", "curves", 20, fixed(lambda: tabular.curve(name)))


def _selection(learners: tuple[str, ...], data: str) -> Problem:
    return Problem(f"selection_{data}", "conditional", 50, fixed(lambda: tabular.selection(learners, data)))


DEVELOPMENT = (
    Problem("forrester", "smooth", 20, shifted(forrester)),
    Problem("branin", "smooth", 30, shifted(branin)),
    Problem("six_hump_camel", "smooth", 30, shifted(six_hump_camel)),
    Problem("hartmann6", "smooth", 60, shifted(hartmann6)),
    Problem("levy10", "smooth", 60, shifted(levy.dim(10))),
    Problem("ackley5", "smooth", 50, shifted(ackley.dim(5))),
    Problem("branin_noisy", "noisy", 40, shifted(branin), noise=5.0),
    Problem("hartmann3_noisy", "noisy", 40, shifted(hartmann3), noise=0.2),
    Problem("forrester_noisy", "noisy", 30, shifted(forrester), noise=1.0),
    Problem("six_hump_camel_noisy", "noisy", 40, shifted(six_hump_camel), noise=1.0),
    Problem("hartmann4_noisy", "noisy", 50, shifted(hartmann4), noise=0.2),
    Problem("hartmann6_noisy", "noisy", 60, shifted(hartmann6), noise=0.15),
    Problem("ackley3_noisy", "noisy", 50, shifted(ackley.dim(3)), noise=1.0),
    Problem("levy3_noisy", "noisy", 50, shifted(levy.dim(3)), noise=2.0),
    Problem("ackley20", "high-dimensional", 60, shifted(ackley.dim(20))),
    Problem("branin_in_50", "high-dimensional", 60, hidden(branin, 50)),
    Problem("ackley_mixed", "mixed", 50, lambda seed: mixed.with_labels(ackley.dim(5), 2, 1, seed)),
    Problem(
        "branches", "conditional", 50,
        lambda seed: mixed.branches((branin, hartmann3, levy.dim(4)), (0.0, 0.3, 0.6), seed),
    ),
    _selection(("svm", "knn", "gbm"), "wine"),
    _tuning("svm_wine", 40),
    _tuning("gbm_diabetes", 40),
    _tuning("mlp_diabetes", 40),
    _curve("boston_housing"),
    _curve("energy"),
    Problem(
        "cartpole", "physical", 50,
        fixed(lambda: Instance(physical.CARTPOLE, physical.cartpole_cost, CARTPOLE_MINIMUM)),
    ),
)  # fmt: skip

REPORTED = (
    Problem("goldstein_price", "smooth", 40, shifted(formulas.goldstein_price)),
    Problem("beale", "smooth", 40, shifted(formulas.beale)),
    Problem("rastrigin3", "smooth", 50, shifted(formulas.rastrigin.dim(3))),
    Problem("shekel7", "smooth", 50, shifted(formulas.shekel)),
    Problem("rosenbrock4", "smooth", 50, shifted(rosenbrock.dim(4))),
    Problem("michalewicz5", "smooth", 50, shifted(michalewicz.dim(5))),
    Problem("griewank6", "smooth", 50, shifted(griewank.dim(6))),
    Problem("dixon_price8", "smooth", 60, shifted(formulas.dixon_price.dim(8))),
    Problem("mccormick_noisy", "noisy", 40, shifted(mccormick), noise=0.5),
    Problem("styblinski_tang3_noisy", "noisy", 50, shifted(styblinski_tang.dim(3)), noise=5.0),
    Problem("cosine_mixture4_noisy", "noisy", 50, shifted(formulas.cosine_mixture.dim(4)), noise=0.1),
    Problem("zakharov20", "high-dimensional", 60, shifted(formulas.zakharov.dim(20))),
    Problem("powell40", "high-dimensional", 60, shifted(formulas.powell.dim(40))),
    Problem("camel_in_100", "high-dimensional", 60, hidden(formulas.three_hump_camel, 100)),
    Problem(
        "pressure_vessel", "mixed", 50,
        fixed(lambda: Instance(mixed.VESSEL, mixed.vessel_cost, mixed.vessel_cost(mixed.CHEAPEST))),
    ),
    Problem("wells_mixed", "mixed", 50, mixed.mixed_wells),
    Problem("stages", "conditional", 50, mixed.stages),
    _selection(LEARNERS, "parkinsons"),
    _selection(LEARNERS, "lsvt"),
    _tuning("svm_interface", 40),
    _tuning("svm_breast", 40),
    _tuning("gbm_affinity", 40),
    _tuning("gbm_breast", 40),
    _tuning("mlp_affinity", 40),
    _tuning("mlp_interface", 40),
    _curve("yacht"),
    _curve("power_plant"),
    Problem(
        "reactor", "physical", 50,
        fixed(lambda: Instance(physical.REACTOR, physical.reactor_cost, REACTOR_MINIMUM)),
    ),
)  # fmt: skip

TUNING = tuple(_tuning(f"{learner}_{data}", S5_TRIALS, "_53") for learner in LEARNERS for data in DATA)

LISTS: dict[str, tuple[Problem, ...]] = {"development": DEVELOPMENT, "reported": REPORTED, "tuning": TUNING}
PROBLEMS: dict[str, Problem] = {problem.name: problem for many in LISTS.values() for problem in many}


def choose(names: str) -> list[Problem]:
    """The problems of a text such as "reported", "branin,levy10" or a mixture of both."""
    chosen: dict[str, Problem] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name not in LISTS and name not in PROBLEMS:
            known = f"{', '.join(LISTS)}, or of {', '.join(PROBLEMS)}"
            raise PresageError(f"a problem or list must be one of {known}, but got {name!r}")
        chosen |= {problem.name: problem for problem in LISTS.get(name) or (PROBLEMS[name],)}
    if not chosen:
        raise PresageError(f"at least one problem must be named, but got {names!r}")
    return list(chosen.values())
