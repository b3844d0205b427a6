"""Bayesian linear regression on many bases at once: the output layers of sampled networks, in closed form."""

import math
from typing import NamedTuple

import numpy as np


class Regression(NamedTuple):
    """Posteriors of weights with prior N(0, I), one for each of s bases.

    Attributes:
        basis: [s, n, p].
        y: [n].
        noise: variances, [s, n].
        mean: of the weights, [s, p].
        root: R with R' R the covariance of the weights, [s, p, p].
        evidence: log density of y, [s].
    """

    basis: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    mean: np.ndarray
    root: np.ndarray
    evidence: np.ndarray

    @staticmethod
    def of(basis: np.ndarray, y: np.ndarray, noise: np.ndarray) -> "Regression":
        """Condition on values y of basis @ weights with noise."""
        scaled = basis / noise[..., None]
        precision = np.swapaxes(scaled, 1, 2) @ basis
        precision[:, *np.diag_indices(basis.shape[2])] += 1.0
        factor = np.linalg.cholesky(precision)
        root = np.linalg.inv(factor)
        mean = np.einsum("sij,sik,sk->sj", root, root, np.einsum("snp,n->sp", scaled, y), optimize=True)
        error = y - np.einsum("snp,sp->sn", basis, mean)
        log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        square = (error**2 / noise).sum(axis=1) + (mean**2).sum(axis=1)
        evidence = -0.5 * (square + log_det + np.log(2.0 * math.pi * noise).sum(axis=1))
        return Regression(basis, y, noise, mean, root, evidence)

    def with_values(self, basis: np.ndarray, y: np.ndarray, noise: np.ndarray) -> "Regression":
        """The same after further values [m] on bases [s, m, p]."""
        return Regression.of(
            np.concatenate([self.basis, basis], axis=1), np.append(self.y, y),
            np.concatenate([self.noise, noise], axis=1),
        )  # fmt: skip

    def moments(self, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of basis [s, m, p] @ weights, [s, m] each."""
        white = basis @ np.swapaxes(self.root, 1, 2)
        return np.einsum("smp,sp->sm", basis, self.mean), np.einsum("smp,smp->sm", white, white)

    def weights(self, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Weights drawn from the posteriors numbered `which` [k], [k, p]."""
        out = np.empty((len(which), self.mean.shape[1]))
        normal = rng.standard_normal(out.shape)
        for s in np.unique(which):
            mine = which == s
            out[mine] = self.mean[s] + normal[mine] @ self.root[s]
        return out

    def leave_one_out(self) -> np.ndarray:
        """Log density of each value given all the others, under each basis, [s, n].

        With K the covariance of y, Rasmussen & Williams, eq. 5.10 to 5.12, need the diagonal of K^-1 and K^-1 y.
        Where values are fewer than weights K itself is inverted: its complement in the weights would lose the digits.
        """
        n, width = self.basis.shape[1:]
        if n <= width:
            K = self.basis @ np.swapaxes(self.basis, 1, 2)
            K[:, *np.diag_indices(n)] += self.noise
            inverse = np.linalg.inv(np.linalg.cholesky(K))
            precision = np.einsum("sij,sij->sj", inverse, inverse)
            alpha = np.einsum("sij,sik,k->sj", inverse, inverse, self.y, optimize=True)
        else:
            mean, variance = self.moments(self.basis)
            precision = np.maximum(1.0 - variance / self.noise, 1e-12) / self.noise
            alpha = (self.y - mean) / self.noise
        return 0.5 * (np.log(precision / (2.0 * math.pi)) - alpha**2 / precision)
