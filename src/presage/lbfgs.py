"""Bounded quasi-Newton descent from many starts at once, each with its own curvature and line search.

One call of the function evaluates all starts together, so a jitted and vmapped function runs at full width, and a
start that has converged costs nothing but its row. Written by hand because SciPy's L-BFGS-B takes one start (a
stacked problem shares one curvature and one step length among unrelated starts), and because a quasi-Newton loop
inside jit takes seconds to compile for each shape.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Batch = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

SUFFICIENT = 1e-4  # Armijo's constant
CURVATURE = 1e-10  # pairs with s'y below this times s's are not learned from


class Minima(NamedTuple):
    """Where each start ended: points [s, k], values [s], and how often the batch was evaluated."""

    x: np.ndarray
    value: np.ndarray
    evaluations: int


def minimize(
    function: Batch, start: np.ndarray, lower: np.ndarray, upper: np.ndarray,
    *, evaluations: int = 60, memory: int = 10, gradient_tol: float = 1e-5, value_tol: float = 1e-9,
) -> Minima:  # fmt: skip
    """Minimise a batch of functions on boxes.

    Args:
        function: maps points [s, k] to values [s] and gradients [s, k]; row i of the result depends on row i only.
        start: [s, k].
        lower: bounds, broadcast to [s, k].
        upper: bounds, broadcast to [s, k]; equal bounds hold a coordinate fixed.
        evaluations: at most so many calls of the function.
        memory: correction pairs kept per start.
        gradient_tol: a start ends when no component of its projected gradient is larger.
        value_tol: a start ends when a step improves its value by less, relative to max(1, |value|).
    """
    lower, upper = np.broadcast_to(lower, start.shape), np.broadcast_to(upper, start.shape)
    x = np.clip(np.asarray(start, dtype=float), lower, upper)
    value, gradient = _call(function, x)
    count, size = x.shape
    steps, changes = np.zeros((2, memory, count, size))
    weight = np.zeros((memory, count))  # 1 / s'y, 0 for an empty slot
    active = np.isfinite(value)
    learned = np.zeros(count, dtype=int)
    direction, slope = _direction(x, gradient, lower, upper, steps, changes, weight, learned)
    length = np.minimum(1.0, 0.1 / np.maximum(np.abs(direction).max(axis=1), 1e-12))
    used = 1
    while used < evaluations and active.any():
        trial = np.where(active[:, None], np.clip(x + length[:, None] * direction, lower, upper), x)
        new_value, new_gradient = _call(function, trial)
        used += 1
        step = trial - x
        decrease = np.einsum("sk,sk->s", gradient, step)
        accepted = active & (new_value <= value + SUFFICIENT * np.minimum(decrease, 0.0))
        # A rejected start shortens its step to the minimum of the parabola through what it knows.
        bend = new_value - value - decrease
        with np.errstate(all="ignore"):
            ratio = np.where(np.isfinite(bend) & (bend > 0), -decrease / (2.0 * bend), 0.1)
        length = np.where(accepted, 1.0, length * np.clip(ratio, 0.1, 0.5))
        stuck = active & ~accepted & (np.abs(length[:, None] * direction).max(axis=1) < 1e-12)

        change = new_gradient - gradient
        product = np.einsum("sk,sk->s", step, change)
        learn = accepted & (product > CURVATURE * np.einsum("sk,sk->s", step, step))
        rows = np.flatnonzero(learn)
        slots = learned[rows] % memory
        steps[slots, rows], changes[slots, rows], weight[slots, rows] = step[rows], change[rows], 1.0 / product[rows]
        learned[rows] += 1

        gain = value - new_value
        x = np.where(accepted[:, None], trial, x)
        gradient = np.where(accepted[:, None], new_gradient, gradient)
        value = np.where(accepted, new_value, value)
        flat = np.abs(x - np.clip(x - gradient, lower, upper)).max(axis=1) <= gradient_tol
        done = accepted & (gain <= value_tol * np.maximum(1.0, np.abs(value)))
        active &= ~(flat | done | stuck)
        if accepted.any():
            fresh, slope = _direction(x, gradient, lower, upper, steps, changes, weight, learned)
            direction = np.where(accepted[:, None], fresh, direction)
    return Minima(x, value, used)


def _call(function: Batch, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients as float64, with anything not finite made a wall that no step is taken into."""
    value, gradient = (np.asarray(part, dtype=float) for part in function(x))
    good = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
    return np.where(good, value, np.inf), np.where(good[:, None], gradient, 0.0)


def _direction(
    x: np.ndarray, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray,
    steps: np.ndarray, changes: np.ndarray, weight: np.ndarray, learned: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """L-BFGS directions (two-loop recursion, Nocedal & Wright, algorithm 7.4) on the coordinates that are free.

    A coordinate at a bound that the gradient pushes outward is held; correction pairs are used on the others only.
    """
    held = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0)) | (lower == upper)
    free = ~held
    memory = len(weight)
    depth = min(int(learned.max(initial=0)), memory)
    result = np.where(free, gradient, 0.0)
    count = len(x)
    rows = np.arange(count)
    pairs = []
    scale = np.ones(count)
    for back in range(depth):
        slot = (learned - 1 - back) % memory
        known = (learned > back) & (weight[slot, rows] > 0)
        step = np.where(free, steps[slot, rows], 0.0)
        change = np.where(free, changes[slot, rows], 0.0)
        product = np.einsum("sk,sk->s", step, change)
        square = np.einsum("sk,sk->s", change, change)
        known &= product > CURVATURE * np.maximum(square, 1e-300)
        inverse = np.where(known, 1.0 / np.where(known, product, 1.0), 0.0)
        if back == 0:
            scale = np.where(known, product / np.where(known, square, 1.0), 1.0)
        alpha = inverse * np.einsum("sk,sk->s", step, result)
        result = result - alpha[:, None] * change
        pairs.append((step, change, inverse, alpha))
    result = result * scale[:, None]
    for step, change, inverse, alpha in reversed(pairs):
        beta = inverse * np.einsum("sk,sk->s", change, result)
        result = result + (alpha - beta)[:, None] * step
    direction = -np.where(free, result, 0.0)
    slope = np.einsum("sk,sk->s", direction, gradient)
    uphill = slope >= 0
    direction = np.where(uphill[:, None], -np.where(free, gradient, 0.0), direction)
    return direction, slope
