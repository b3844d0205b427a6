"""Whether Markov chains can be trusted: rank-normalised split R-hat and effective sample size.

Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), arXiv 1903.08008; shapes are [draws, chains, ...].
"""

import numpy as np


def split(x: np.ndarray) -> np.ndarray:
    """Each chain cut into two, [draws // 2, 2 chains, ...]; the middle draw of an odd number is left out."""
    half = len(x) // 2
    return np.concatenate([x[:half], x[len(x) - half :]], axis=1)


def normal_scores(x: np.ndarray) -> np.ndarray:
    """Ranks over all draws and chains as normal quantiles (their eq. 14); ties share their mean rank."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    count = x.shape[0] * x.shape[1]
    rank = rankdata(x.reshape(count, -1), axis=0).reshape(x.shape)
    return ndtri((rank - 0.375) / (count + 0.25))


def _variances(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean variance within chains, and the pooled estimate that counts their differences (eq. 1 to 3), [...] each."""
    within = x.var(axis=0, ddof=1).mean(axis=0)
    return within, (len(x) - 1) / len(x) * within + x.mean(axis=0).var(axis=0, ddof=1)


def _plain_r_hat(x: np.ndarray) -> np.ndarray:
    within, pooled = _variances(x)
    # Chains that never moved, all at one value, agree; at different values they could not disagree more.
    still = np.where(pooled > 0.0, np.inf, 1.0)
    return np.where(within > 0.0, np.sqrt(pooled / np.where(within > 0.0, within, 1.0)), still)


def r_hat(x: np.ndarray) -> np.ndarray:
    """The larger of rank-normalised split R-hat and that of the distances from the median (eq. 15), [...]."""
    x = split(np.asarray(x, dtype=float))
    folded = np.abs(x - np.median(x, axis=(0, 1)))
    return np.maximum(_plain_r_hat(normal_scores(x)), _plain_r_hat(normal_scores(folded)))


def ess(x: np.ndarray, *, rank: bool = True) -> np.ndarray:
    """Effective number of independent draws for the bulk of the law, or for the plain mean, [...].

    Autocorrelations by FFT over split chains, summed in Geyer's initial monotone sequence (eq. 10 to 11).

    Args:
        x: [draws, chains, ...].
        rank: normalise by ranks first.
    """
    x = split(np.asarray(x, dtype=float))
    x = normal_scores(x) if rank else x
    draws, chains = x.shape[:2]
    within, pooled = _variances(x)
    padded = 2 ** int(np.ceil(np.log2(2 * draws)))
    power = np.abs(np.fft.rfft(x - x.mean(axis=0), padded, axis=0)) ** 2
    cov = np.fft.irfft(power, padded, axis=0)[:draws].mean(axis=1) / draws  # [draws, ...], mean over chains
    moving = pooled > 0.0
    # eq. 10: the within-chain autocovariances, biased as is usual, against the pooled variance
    rho = 1.0 - (within - cov * draws / (draws - 1.0)) / np.where(moving, pooled, 1.0)
    rho[0] = 1.0
    pairs = rho[: draws // 2 * 2].reshape(draws // 2, 2, *rho.shape[1:]).sum(axis=1)
    positive = np.cumprod(pairs > 0.0, axis=0)
    falling = np.minimum.accumulate(pairs, axis=0) * positive
    time = -1.0 + 2.0 * falling.sum(axis=0)
    # Antithetic chains can beat independent draws, by so much as their number lets one see.
    time = np.maximum(time, 1.0 / np.log10(draws * chains))
    return np.where(moving, draws * chains / time, draws * chains)
