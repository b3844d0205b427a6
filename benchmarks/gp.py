"""The Gaussian process against LAPACK, BoTorch and GPyTorch, in one run on one machine.

    python benchmarks/gp.py            # writes benchmarks/results/gp.json

Measured, on Hartmann6 values: one gradient of the log evidence at n = 512 against LAPACK's potrf + potri on the same
matrix; a warm refit at n = 500 after one new value against `fit_gpytorch_mll` on a new SingleTaskGP, which is what
BoTorch's users do; 200 slice-sampled hyperparameter vectors at n = 50, warm. Checked: mean and variance for
the same hyperparameters against GPyTorch's. Needs botorch.
"""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np
from scipy.linalg import lapack

from presage.functions import hartmann6
from presage.kernels import Matern, SquaredExponential, Trend
from presage.observations import Column, Observations, observe
from presage.surrogates import GaussianProcess, Slice, automatic
from presage.surrogates.gaussian import Table, condition, energy
from presage.surrogates.hyperparameters import Mode

COLUMNS = (Column("continuous"),) * 6
RESULTS = Path(__file__).parent / "results"


def data(n: int) -> Observations:
    x = np.random.default_rng(0).random((n, 6))
    return observe(x, hartmann6.on_array(x), COLUMNS)


def seconds(function: Callable[[], object], repeats: int) -> list[float]:
    """Of each of some calls, after one that is not counted."""
    function()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return found


def gradient(n: int = 512, repeats: int = 40) -> dict:
    """The evidence and its derivative against the factorisation and inverse alone; least of some calls."""
    found = {}
    for name, kernel in (("matern", Matern()), ("matern + trend", Matern() + Trend())):
        model = GaussianProcess(kernel).model(COLUMNS)
        table = Table.of(data(n), model.axes)
        theta = model.priors.center[None].copy()
        theta[0, model.noise_at] = math.log(1e-2)
        K = model.kernel.evaluate(theta[0, : model.noise_at], table.features, table.features, model.axes).value
        K[np.diag_indices(n)] += 1e-2

        def inverse(K: np.ndarray = K) -> None:
            factor, _ = lapack.dpotrf(K.T, lower=1, clean=0)
            lapack.dpotri(factor, lower=1, overwrite_c=1)

        ours, theirs = [], []
        for _ in range(repeats):  # in turn: the machine is shared
            ours += seconds(lambda model=model, table=table, theta=theta: energy(model, table, theta), 1)
            theirs += seconds(inverse, 1)
        found[name] = {"gradient": min(ours), "lapack": min(theirs), "ratio": min(ours) / min(theirs)}
    return found


def refit(n: int = 500, repeats: int = 5) -> dict:
    """A fit with one more value, from the previous one, against BoTorch's."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    rng, found = np.random.default_rng(0), {}
    more = data(n + 1)
    for name, surrogate in (("gp", GaussianProcess()), ("auto", automatic())):
        state = surrogate.fit(data(n), rng=rng).state
        found[name] = median(seconds(lambda s=surrogate, state=state: s.fit(more, rng=rng, previous=state), repeats))
    x, y = torch.tensor(more.x), torch.tensor(-more.y)[:, None]

    def botorch() -> None:
        fit_gpytorch_mll(ExactMarginalLogLikelihood((model := SingleTaskGP(x, y)).likelihood, model))

    found["botorch"] = median(seconds(botorch, 3))
    return {**found, "ratio gp": found["gp"] / found["botorch"], "ratio auto": found["auto"] / found["botorch"]}


def samples(n: int = 50, count: int = 200) -> dict:
    model = GaussianProcess().model(COLUMNS)
    table = Table.of(data(n), model.axes)
    rng = np.random.default_rng(0)
    known = Mode().find(model, table, None, rng=rng).theta
    report: dict = {}

    def run() -> None:
        report.update(Slice(count, 25, 1).find(model, table, known, rng=rng).report)

    return {"seconds": median(seconds(run, 3)), **report}


def agreement(n: int = 40) -> dict:
    """The largest difference of means and variances from GPyTorch's, for the same hyperparameters."""
    import gpytorch
    import torch

    seen, new, found = data(n), np.random.default_rng(1).random((50, 6)), {}
    for name, kernel, peer in (
        ("matern 5/2", Matern(), gpytorch.kernels.MaternKernel(2.5, ard_num_dims=6)),
        ("matern 3/2", Matern(nu=1.5), gpytorch.kernels.MaternKernel(1.5, ard_num_dims=6)),
        ("squared exponential", SquaredExponential(), gpytorch.kernels.RBFKernel(ard_num_dims=6)),
    ):
        model = GaussianProcess(kernel, warp=None).model(COLUMNS)
        theta = model.priors.center + 0.3 * np.random.default_rng(2).standard_normal(model.priors.size)
        theta[model.noise_at] = math.log(1e-2)
        law = condition(model, Table.of(seen, model.axes), theta[None]).marginal(new)

        class Exact(gpytorch.models.ExactGP):
            def __init__(self, x, y, likelihood, peer=peer):
                super().__init__(x, y, likelihood)
                self.mean_module = gpytorch.means.ConstantMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(peer)

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        process = Exact(torch.tensor(seen.x), torch.tensor(seen.y), likelihood).double()
        likelihood.double().noise = 1e-2
        process.mean_module.initialize(constant=float(theta[-1]))
        process.covar_module.outputscale = math.exp(theta[6])
        peer.lengthscale = torch.tensor(np.exp(theta[:6]))
        process.eval()
        with torch.no_grad():
            theirs = process(torch.tensor(new))
        found[name] = {
            "mean": float(np.abs(law.mean[0] - theirs.mean.numpy()).max()),
            "variance": float(np.abs(law.variance[0] - theirs.variance.numpy()).max()),
        }
    return found


def main() -> None:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)
    packages = ("presage", "numpy", "scipy", "torch", "botorch", "gpytorch")
    record = {
        "command": "python benchmarks/gp.py",
        "versions": {"python": sys.version.split()[0], **{name: version(name) for name in packages}},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one BLAS thread, other work beside",
        "agreement with GPyTorch": agreement(),
        "gradient at n = 512, d = 6 (s)": gradient(),
        "refit at n = 500 (s)": refit(),
        "200 hyperparameter vectors at n = 50": samples(),
    }
    text = json.dumps(record, indent=1)
    print(text)
    (RESULTS / "gp.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
