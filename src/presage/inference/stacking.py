"""Predictive densities without single values, and weights of chains by them."""

import numpy as np

DOUBT = 0.5  # of a value that each chain is given beforehand, so that none is ruled out by a few values
STEPS = 200


def left_out(log_density: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log density of each value given all the others, under networks that were drawn given all of them, [n].

    Networks are weighted by 1 / p(y_i | the others, network), cut off where one would dominate (Ionides, 2008): the
    mean density under them is the density without value i.

    Args:
        log_density: of each value given the others, under each network, [s, n].
        weight: of each network, [s].
    """
    log_weight = np.log(weight)[:, None] - log_density
    log_mean = np.logaddexp.reduce(log_weight, axis=0) - np.log(len(log_weight))
    log_weight = np.minimum(log_weight, log_mean + 0.5 * np.log(len(log_weight)))
    total = np.logaddexp.reduce(log_weight, axis=0)
    return np.logaddexp.reduce(log_weight + log_density, axis=0) - total


def stacked(log_density: np.ndarray) -> np.ndarray:
    """Weights of chains [c] under which their mixture foretells values best, given the density of each, [c, n].

    Chains that have not met sit in modes of different worth, and averaging them evenly answers for the worst of them
    (Yao, Vehtari and Gelman, 2022, arXiv 2006.12335). The weights' log posterior is concave; they are found by EM.
    """
    chains, count = log_density.shape
    weight = np.full(chains, 1.0 / chains)
    for _ in range(STEPS):
        share = np.log(weight)[:, None] + log_density
        share = np.exp(share - np.logaddexp.reduce(share, axis=0))
        weight = (share.sum(axis=1) + DOUBT) / (count + DOUBT * chains)
    return weight
