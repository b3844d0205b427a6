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
    function: Batch, start: np.ndarray, lower: np.ndarray | float, upper: np.ndarray | float,
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
    pairs = _Pairs(*np.zeros((2, memory, *x.shape)))
    active = np.isfinite(value)
    direction = _direction(x, gradient, lower, upper, pairs)
    length = np.minimum(1.0, 0.1 / np.maximum(np.abs(direction).max(axis=1), 1e-12))
    used = 1
    while used < evaluations and active.any():
        trial = np.where(active[:, None], np.clip(x + length[:, None] * direction, lower, upper), x)
        new_value, new_gradient = _call(function, trial)
        used += 1
        step = trial - x
        decrease = np.vecdot(gradient, step)
        accepted = active & (new_value <= value + SUFFICIENT * np.minimum(decrease, 0.0))
        # A rejected start shortens its step to the minimum of the parabola through what it knows.
        with np.errstate(invalid="ignore"):  # inf - inf of a start that began behind a wall
            bend, gain = new_value - value - decrease, value - new_value
        ratio = np.where(np.isfinite(bend) & (bend > 0), -decrease / (2.0 * np.where(bend > 0, bend, 1.0)), 0.1)
        length = np.where(accepted, 1.0, length * np.clip(ratio, 0.1, 0.5))
        stuck = ~accepted & (np.abs(length[:, None] * direction).max(axis=1) < 1e-12)
        pairs.learn(accepted, step, new_gradient - gradient)

        x = np.where(accepted[:, None], trial, x)
        gradient = np.where(accepted[:, None], new_gradient, gradient)
        value = np.where(accepted, new_value, value)
        flat = np.abs(x - np.clip(x - gradient, lower, upper)).max(axis=1) <= gradient_tol
        done = accepted & (gain <= value_tol * np.maximum(1.0, np.abs(value)))
        active &= ~(flat | done | stuck)
        if accepted.any():
            direction = np.where(accepted[:, None], _direction(x, gradient, lower, upper, pairs), direction)
    return Minima(x, value, used)


def _call(function: Batch, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients as float64, with anything not finite made a wall that no step is taken into."""
    value, gradient = (np.asarray(part, dtype=float) for part in function(x))
    good = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
    return np.where(good, value, np.inf), np.where(good[:, None], gradient, 0.0)


class _Pairs:
    """Correction pairs (step, change of the gradient) of each start, newest first, [memory, s, k] each."""

    def __init__(self, steps: np.ndarray, changes: np.ndarray):
        self.steps, self.changes = steps, changes
        self.depth = 0

    def learn(self, accepted: np.ndarray, step: np.ndarray, change: np.ndarray) -> None:
        """Keep the new pair of each start that was accepted and has seen the function bend upward."""
        rows = np.flatnonzero(accepted & (np.vecdot(step, change) > CURVATURE * np.vecdot(step, step)))
        if len(rows):
            for pairs, new in ((self.steps, step), (self.changes, change)):
                pairs[1:, rows] = pairs[:-1, rows]
                pairs[0, rows] = new[rows]
            self.depth = min(self.depth + 1, len(self.steps))


def _direction(x: np.ndarray, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray, pairs: _Pairs) -> np.ndarray:
    """L-BFGS directions (two-loop recursion, Nocedal & Wright, algorithm 7.4) on the coordinates that are free.

    A coordinate at a bound that the gradient pushes outward is held; correction pairs are used on the others only.
    """
    free = ~(((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0)) | (lower == upper))
    steepest = np.where(free, gradient, 0.0)
    steps, changes = (np.where(free, kept[: pairs.depth], 0.0) for kept in (pairs.steps, pairs.changes))
    product, square = np.vecdot(steps, changes), np.vecdot(changes, changes)
    known = product > CURVATURE * square  # also false for empty slots
    inverse = np.where(known, 1.0 / np.where(known, product, 1.0), 0.0)
    result, alphas = steepest, []
    for back in range(pairs.depth):
        alpha = inverse[back] * np.vecdot(steps[back], result)
        result = result - alpha[:, None] * changes[back]
        alphas.append(alpha)
    if pairs.depth:
        result = result * np.where(known[0], product[0] / np.where(known[0], square[0], 1.0), 1.0)[:, None]
    for back in reversed(range(pairs.depth)):
        beta = inverse[back] * np.vecdot(changes[back], result)
        result = result + (alphas[back] - beta)[:, None] * steps[back]
    direction = -np.where(free, result, 0.0)
    uphill = np.vecdot(direction, gradient) >= 0
    return np.where(uphill[:, None], -steepest, direction)
