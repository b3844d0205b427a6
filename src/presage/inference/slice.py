"""Slice sampling, one coordinate at a time."""

from collections.abc import Callable

import numpy as np

WIDE = 2.5
BATCH = 5  # sweeps after which widths are adapted


def slice_sample(
    log_density: Callable[[np.ndarray], float], start: np.ndarray, *, samples: int, warmup: int, thin: int = 1,
    width: float = 1.0, rng: np.random.Generator,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Draws from an unnormalised density, [samples, p], and how often it was evaluated.

    Shrinkage (Neal, 2003, figure 5), every coordinate in turn with its own width. During warm-up the interval is
    stepped out (figure 3) and the width follows the slices seen: a uniform draw from a slice moves by a third of its
    length on average. Afterwards the interval is WIDE such slices, placed at random and not stepped out (m = 1 in
    figure 3), which leaves the law invariant as well and spares the evaluations at its ends.

    Args:
        log_density: of a vector [p]; -inf outside its support.
        start: a vector with positive density.
        samples: draws kept.
        warmup: sweeps before the first.
        thin: sweeps per draw kept.
        width: first width of every coordinate.
        rng: a generator.
    """
    x = np.array(start, dtype=float)
    level = log_density(x)
    if not np.isfinite(level):
        raise ValueError(
            f"a slice sampler must start where the density is positive, but its logarithm is {level} there"
        )
    widths = np.full(len(x), float(width))
    seen = np.zeros(len(x))
    evaluations = 1
    kept = np.empty((samples, len(x)))
    for sweep in range(warmup + samples * thin):
        for j in range(len(x)):
            height = level - rng.exponential()
            left = x[j] - widths[j] * rng.random()
            right = left + widths[j]

            def at(value: float, j: int = j) -> float:
                nonlocal evaluations
                evaluations += 1
                moved = x.copy()
                moved[j] = value
                return log_density(moved)

            if sweep < warmup:
                while at(left) > height:
                    left -= widths[j]
                while at(right) > height:
                    right += widths[j]
            while True:
                proposal = left + (right - left) * rng.random()
                new = at(proposal)
                if new > height:
                    break
                if proposal < x[j]:
                    left = proposal
                else:
                    right = proposal
            seen[j] += abs(proposal - x[j])
            x[j], level = proposal, new
        if sweep < warmup and (sweep + 1) % BATCH == 0:
            widths = np.maximum(3.0 * seen / BATCH, 1e-3)
            seen[:] = 0.0
        if sweep == warmup - 1:
            widths *= WIDE
        if sweep >= warmup and (sweep - warmup) % thin == thin - 1:
            kept[(sweep - warmup) // thin] = x
    return kept, evaluations
