"""Simulated physical systems: a chemical reactor to be run at a profit, and a pole to be kept upright."""

import math

import numpy as np

from presage.benchmarks.problem import Params
from presage.space import Choice, Float, Space

# A reactor of two zones. A -> B (wanted) -> C (waste), and 2 A -> D (waste); Arrhenius rates in 1/min at 350 K and
# activation temperatures in K, which the catalyst changes: (speed of A -> B, speed of B -> C, price).
RATES = ((1.0, 6000.0), (0.25, 9000.0), (0.3, 7500.0))
CATALYSTS = {"none": (1.0, 1.0, 0.0), "acid": (2.2, 2.6, 0.05), "zeolite": (1.8, 1.1, 0.35), "enzyme": (6.0, 0.5, 1.5)}
ENZYME_LIMIT = 340.0  # K, above which it denatures
STEPS = 100  # of the Runge-Kutta integration, per zone

REACTOR = Space(
    {
        "catalyst": Choice(list(CATALYSTS)),
        "feed": Float(0.5, 8.0),  # mol/l of A
        "minutes1": Float(0.1, 10.0, log=True),
        "kelvin1": Float(300.0, 420.0),
        "minutes2": Float(0.1, 10.0, log=True),
        "kelvin2": Float(300.0, 420.0),
    }
)


def reactor_cost(params: Params) -> float:
    """Minus the profit per litre of reactor and minute: what B earns less feed, heat, catalyst and separation."""
    speed1, speed2, price = CATALYSTS[params["catalyst"]]
    a, b, waste = float(params["feed"]), 0.0, 0.0
    for zone in (1, 2):
        kelvin, minutes = params[f"kelvin{zone}"], params[f"minutes{zone}"]
        alive = 1.0
        if params["catalyst"] == "enzyme":
            alive = 1.0 / (1.0 + math.exp((kelvin - ENZYME_LIMIT) / 4.0))
        k1, k2, k3 = (rate * math.exp(-energy * (1.0 / kelvin - 1.0 / 350.0)) for rate, energy in RATES)
        k1 *= 1.0 + (speed1 - 1.0) * alive
        k2 *= 1.0 + (speed2 - 1.0) * alive
        a, b, waste = _react(a, b, waste, k1, k2, k3, minutes)
    total = params["minutes1"] + params["minutes2"]
    heat = sum(params[f"minutes{z}"] * (params[f"kelvin{z}"] - 300.0) for z in (1, 2)) / 1000.0
    spent = 0.6 * params["feed"] + heat + price + 0.15 * waste + 0.05 * a
    return (spent - 2.0 * b) / (total + 1.0)  # a minute to fill and empty


def _react(
    a: float, b: float, waste: float, k1: float, k2: float, k3: float, minutes: float
) -> tuple[float, float, float]:
    """Concentrations after some time in a zone, by the classical Runge-Kutta method.

    Steps are short enough for the fastest rates of the box: k h < 2.7, where the method is stable.
    """

    def slope(a: float, b: float) -> tuple[float, float, float]:
        first, second, side = k1 * a, k2 * b, k3 * a * a
        return -first - 2.0 * side, first - second, second + side

    steps = max(STEPS, math.ceil((k1 + k2 + 4.0 * k3 * a) * minutes))
    h = minutes / steps
    for _ in range(steps):
        s1 = slope(a, b)
        s2 = slope(a + 0.5 * h * s1[0], b + 0.5 * h * s1[1])
        s3 = slope(a + 0.5 * h * s2[0], b + 0.5 * h * s2[1])
        s4 = slope(a + h * s3[0], b + h * s3[1])
        a, b, waste = (
            v + h / 6.0 * (w + 2.0 * x + 2.0 * y + z)
            for v, w, x, y, z in zip((a, b, waste), s1, s2, s3, s4, strict=True)
        )
    return a, b, waste


# A pole on a cart, kept upright by a force linear in what is measured; constants of Barto, Sutton and Anderson, 1983.
CARTPOLE = Space(
    {"position": Float(-2.0, 8.0), "speed": Float(-2.0, 8.0), "angle": Float(0.0, 80.0), "turn": Float(0.0, 30.0)}
)
STARTS = np.array([[0.0, 0.0, 0.05, 0.0], [0.5, 0.0, -0.1, 0.0], [-0.5, 0.4, 0.0, 0.3], [1.0, -0.5, 0.15, -0.2]])


def cartpole_cost(params: Params) -> float:
    """Mean quadratic cost over 8 s from four starts; a fallen pole, or a cart off its rail, costs 4 from then on."""
    gains = np.array([params[name] for name in CARTPOLE])
    state, cost, up = STARTS.copy(), 0.0, np.ones(len(STARTS), dtype=bool)
    for _ in range(400):
        force = np.clip(state @ gains, -10.0, 10.0)
        sin, cos = np.sin(state[:, 2]), np.cos(state[:, 2])
        pushed = (force + 0.05 * state[:, 3] ** 2 * sin) / 1.1
        turning = (9.8 * sin - cos * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        moving = pushed - 0.05 * turning * cos / 1.1
        rates = np.stack([state[:, 1], moving, state[:, 3], turning], axis=1)
        state = np.where(up[:, None], state + 0.02 * rates, state)
        up &= (np.abs(state[:, 0]) < 2.4) & (np.abs(state[:, 2]) < 0.6)
        running = state[:, 0] ** 2 / 4.0 + 10.0 * state[:, 2] ** 2 + 1e-3 * force**2
        cost += float(np.where(up, np.minimum(running, 4.0), 4.0).mean())
    return cost / 400.0
