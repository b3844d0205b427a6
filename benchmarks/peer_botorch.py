"""BoTorch as its tutorials use it: SingleTaskGP at its defaults or a sparse one, LogEI, multi-start L-BFGS-B."""

import warnings

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood, VariationalELBO


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


def suggest_batch(x: np.ndarray, y: np.ndarray, size: int) -> np.ndarray:
    """The next points of the unit cube, [size, d]: the joint LogEI of its tutorials, all points moved together."""
    X, Y = torch.as_tensor(x, dtype=torch.double), -torch.as_tensor(y, dtype=torch.double)[:, None]
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, X.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(X, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = qLogExpectedImprovement(model, best_f=Y.max())
        points, _ = optimize_acqf(acquisition, bounds=bounds, q=size, num_restarts=10, raw_samples=512)
    return points.numpy()


def sparse(x: np.ndarray, y: np.ndarray, epochs: int = 40, inducing: int = 256) -> SingleTaskVariationalGP:
    """A variational Gaussian process with inducing points for -y, by Adam on minibatches, as in BoTorch's tutorials."""
    X, Y = torch.as_tensor(x, dtype=torch.double), -torch.as_tensor(y, dtype=torch.double)[:, None]
    model = SingleTaskVariationalGP(X, Y, inducing_points=min(inducing, len(X)))
    mll = VariationalELBO(model.likelihood, model.model, num_data=len(X))
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for at in torch.randperm(len(X)).split(1024):
            optimizer.zero_grad()
            loss = -mll(model.model(X[at]), Y[at, 0])
            loss.backward()
            optimizer.step()
    model.eval()
    return model


def suggest_sparse(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The next point by a sparse Gaussian process, [d]."""
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, x.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        acquisition = LogExpectedImprovement(sparse(x, y), best_f=-float(y.min()))
        point, _ = optimize_acqf(acquisition, bounds=bounds, q=1, num_restarts=10, raw_samples=512)
    return point.numpy()[0]


def sparse_prediction(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of an observation at some points by a sparse Gaussian process, [m] each."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with torch.enable_grad():
            model = sparse(x, y)
        law = model.posterior(torch.as_tensor(at, dtype=torch.double), observation_noise=True)
    return -law.mean.detach().numpy()[:, 0], law.variance.detach().numpy()[:, 0]
