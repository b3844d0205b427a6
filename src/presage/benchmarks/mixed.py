"""Problems with whole numbers, choices and conditions, whose minima are known exactly or by enumeration."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from presage.benchmarks.problem import Instance, Params
from presage.functions import Function
from presage.space import Choice, Float, Int, Space

STREAM = 0xBE7C  # third number of a seed, which no method uses
STEEL = 0.0625  # inches; sheets come in multiples of it
VESSEL = Space({"shell": Int(1, 99), "head": Int(1, 99), "radius": Float(10.0, 200.0), "length": Float(10.0, 200.0)})
# The cheapest vessel: the shell's thickness decides the radius (shell = 0.0193 radius), the volume then the length.
CHEAPEST = {"shell": 13, "head": 7, "radius": 13 * STEEL / 0.0193, "length": 176.63659584}


def vessel_cost(params: Params) -> float:
    """Dollars for a pressure vessel of 750 cubic feet; what breaks a rule is charged in proportion.

    Kannan and Kramer, "An augmented Lagrange multiplier based method for mixed integer discrete continuous
    optimization", 1994. The charge is steeper than anything that breaking a rule could save.
    """
    shell, head = STEEL * params["shell"], STEEL * params["head"]
    radius, length = params["radius"], params["length"]
    volume = math.pi * radius**2 * length + 4.0 / 3.0 * math.pi * radius**3
    broken = max(0.0, 0.0193 * radius / shell - 1.0) + max(0.0, 0.00954 * radius / head - 1.0)
    broken += max(0.0, 1_296_000.0 / volume - 1.0)
    steel = 0.6224 * shell * radius * length + 1.7781 * head * radius**2
    welding = 3.1661 * shell**2 * length + 19.84 * shell**2 * radius
    return steel + welding + 50_000.0 * broken


def well(x: float) -> float:
    """Two unequal wells, (x^4 - 16 x^2 + 5 x) / 2: a coordinate of Styblinski and Tang's function."""
    return 0.5 * (x**4 - 16.0 * x**2 + 5.0 * x)


DEEPEST = -2.903534027771177  # where `well` is least
LABELS = ("amber", "blue", "coral", "denim", "ebony")
GRADES = (-4.0, -3.0, -1.0, 1.0, 3.0)  # what the labels stand for, in an order that the seed draws


def mixed_wells(seed: int) -> Instance:
    """Five coordinates of `well`: two continuous and shifted, two whole numbers, one a label."""
    rng = np.random.default_rng([seed, 1, STREAM])
    shift = rng.uniform(-1.5, 1.5, 2)
    grades = dict(zip(LABELS, rng.permutation(GRADES).tolist(), strict=True))
    space = Space(
        {"x1": Float(-5.0, 5.0), "x2": Float(-5.0, 5.0), "n1": Int(-5, 5), "n2": Int(-5, 5), "label": Choice(LABELS)}
    )

    def value(params: Params) -> float:
        points = (params["x1"] - shift[0], params["x2"] - shift[1], params["n1"], params["n2"], grades[params["label"]])
        return sum(map(well, points))

    whole = min(map(well, range(-5, 6)))
    return Instance(space, value, 2.0 * well(DEEPEST) + 2.0 * whole + min(map(well, GRADES)))


GAINS = (30.0, 14.0, 9.0, 5.0)  # what each further stage can bring, against its price of 8
STAGE_PRICE = 8.0


def stages(seed: int) -> Instance:
    """One to four stages in a row, each with a setting and a mode of its own; the fourth costs more than it brings.

    A stage brings gain_i times exp(-(x - c)^2 / 8), c depending on stage, mode and seed; the wrong mode brings half.
    """
    rng = np.random.default_rng([seed, 2, STREAM])
    centers = rng.uniform(-4.0, 4.0, (4, 2))
    right = rng.integers(0, 2, 4)
    modes = ("pulsed", "steady")
    axes: dict[str, Float | Int | Choice] = {"stages": Int(1, 4)}
    for i in range(4):
        when = None if i == 0 else {"stages": list(range(i + 1, 5))}
        axes[f"mode{i + 1}"] = Choice(modes, when=when)
        axes[f"x{i + 1}"] = Float(-5.0, 5.0, when=when)

    def value(params: Params) -> float:
        total = 0.0
        for i in range(params["stages"]):
            mode = modes.index(params[f"mode{i + 1}"])
            near = math.exp(-((params[f"x{i + 1}"] - centers[i, mode]) ** 2) / 8.0)
            total += STAGE_PRICE - GAINS[i] * (1.0 if mode == right[i] else 0.5) * near
        return total

    least = np.cumsum([STAGE_PRICE - gain for gain in GAINS]).min()
    return Instance(Space(axes), value, float(least))


def branches(functions: Sequence[Function], lifts: Sequence[float], seed: int) -> Instance:
    """A choice between test functions with coordinates of their own, each scaled to unit spread and lifted."""
    shifted = [f.shifted(STREAM + seed) for f in functions]
    rng = np.random.default_rng(0)
    scales = []
    for f in functions:
        low, high = f.formula.box(f.num_dims)
        scales.append(float(np.std(f.on_array(rng.uniform(low, high, (4096, f.num_dims))))))
    axes: dict[str, Choice | Float] = {"branch": Choice([f.name for f in functions])}
    for f in functions:
        for name, axis in f.space.items():
            axes[f"{f.name}_{name}"] = Float(axis.low, axis.high, when={"branch": [f.name]})  # type: ignore[attr-defined]
    by_name = {f.name: (f, scale, lift) for f, scale, lift in zip(shifted, scales, lifts, strict=True)}

    def value(params: Params) -> float:
        f, scale, lift = by_name[params["branch"]]
        return (f({name: params[f"{f.name}_{name}"] for name in f.space}) - f.minimum) / scale + lift

    return Instance(Space(axes), value, min(lifts))


def with_labels(function: Function, whole: int, labels: int, seed: int) -> Instance:
    """A test function lowest at 0 with some coordinates made whole numbers and some labels; the rest is shifted."""
    rng = np.random.default_rng([seed, 3, STREAM])
    names = list(function.space)
    shift = rng.uniform(-0.25, 0.25, len(names))
    axes: dict[str, Float | Int | Choice] = {}
    decode: dict[str, Callable[..., float]] = {}
    for i, (name, axis) in enumerate(function.space.items()):
        span = axis.high  # type: ignore[attr-defined]
        if i < whole:
            axes[name], decode[name] = Int(-5, 5), lambda v, span=span: v * span / 8.0
        elif i < whole + labels:
            grades = dict(zip(LABELS, rng.permutation([-0.6, -0.3, 0.0, 0.3, 0.6]).tolist(), strict=True))
            axes[name], decode[name] = Choice(LABELS), lambda v, span=span, grades=grades: grades[v] * span
        else:
            axes[name] = Float(-span, span)
            decode[name] = lambda v, span=span, by=shift[i]: v - by * span

    def value(params: Params) -> float:
        return float(function.on_array(np.array([[decode[name](params[name]) for name in names]]))[0])

    return Instance(Space(axes), value, function.minimum)
