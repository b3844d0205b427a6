"""BoTorch as its tutorials use it: SingleTaskGP at its defaults, LogEI, multi-start L-BFGS-B."""

import warnings

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood


def suggest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The next point of the unit cube to minimise y, [d], given points [n, d] and values [n]."""
    X, Y = torch.as_tensor(x, dtype=torch.double), -torch.as_tensor(y, dtype=torch.double)[:, None]
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, X.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(X, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=Y.max())
        point, _ = optimize_acqf(acquisition, bounds=bounds, q=1, num_restarts=10, raw_samples=512)
    return point.numpy()[0]
