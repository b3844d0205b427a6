"""Whether Markov chains have forgotten where they began."""

import numpy as np


def rhat(chains: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat, the larger of bulk and folded; 1 where chains agree, above 1.01 a reason to worry.

    Vehtari et al. (2021), Bayesian Analysis 16, eq. 1 to 3 and 14.

    Args:
        chains: draws, [chain, draw] or [chain, draw, parameter].
    """
    draws = np.asarray(chains, dtype=float)
    single = draws.ndim == 2
    draws = draws[..., None] if single else draws
    half = draws.shape[1] // 2
    split = np.concatenate(
        [draws[:, :half], draws[:, draws.shape[1] - half :]]
    )  # the middle draw of an odd number goes
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    worst = np.maximum(_plain(_ranked(split)), _plain(_ranked(folded)))
    return worst[0] if single else worst


def _plain(z: np.ndarray) -> np.ndarray:
    n = z.shape[1]
    within = z.var(axis=1, ddof=1).mean(axis=0)
    between = n * z.mean(axis=1).var(axis=0, ddof=1)
    same = within == 0.0
    ratio = np.sqrt(((n - 1) / n * within + between / n) / np.where(same, 1.0, within))
    return np.where(same, np.where(between > 0.0, np.inf, 1.0), ratio)


def _ranked(draws: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri
    from scipy.stats import rankdata

    flat = draws.reshape(-1, draws.shape[-1])
    ranks = rankdata(flat, axis=0)
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape)
