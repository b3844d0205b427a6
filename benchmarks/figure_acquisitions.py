"""Each acquisition over a posterior in one dimension.

python benchmarks/figure_acquisitions.py      # writes docs/figures/acquisitions.png
"""

import numpy as np
from record import FIGURES


def main() -> None:
    """Draw."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    from presage import acquisitions
    from presage.kernels import Matern
    from presage.observations import Column, observe
    from presage.priors import LogNormal
    from presage.surrogates import GaussianProcess

    x = np.array([[0.04], [0.25], [0.45], [0.7], [0.93]])
    y = np.sin(9.0 * x[:, 0]) + x[:, 0]
    data = observe(x, y, (Column("continuous"),))
    model = GaussianProcess(Matern(LogNormal(0.15, 0.01)), noise=LogNormal(1e-3, 0.01), warp=None)
    posterior = model.fit(data, rng=np.random.default_rng(0)).posterior
    grid = np.linspace(0.0, 1.0, 401)[:, None]
    context = acquisitions.Context(posterior.incumbent(), 5, x, lambda rng: grid[::4])
    law = posterior.marginal(grid)
    mean, stddev = law.mean[0], np.sqrt(law.variance[0])
    titles = {
        "logei": "log expected improvement", "ei": "expected improvement", "nei": "noisy EI (log)",
        "pi": "probability of improvement (log)", "lcb": "confidence bound", "ucb": "scheduled bound",
        "explore": "exploration", "ts": "Thompson sampling", "kg": "knowledge gradient", "es": "entropy search",
        "pes": "predictive entropy search", "mes": "max-value entropy search", "jes": "joint entropy search",
    }  # fmt: skip
    figure, axes = plt.subplots(7, 2, figsize=(8.0, 10.5), sharex=True, layout="constrained")
    first, *rest = axes.flat
    first.fill_between(grid[:, 0], mean - 2 * stddev, mean + 2 * stddev, alpha=0.25, linewidth=0)
    first.plot(grid[:, 0], mean)
    first.plot(x[:, 0], data.y, "k.")
    first.set_title("posterior, two standard deviations", fontsize=9)
    for axis, (name, title) in zip(rest, titles.items(), strict=True):
        made = acquisitions.BY_NAME[name]()
        acquisition = made.prepare(posterior, context, rng=np.random.default_rng(0))
        values = acquisition.values(posterior, grid, context)
        if acquisition.scale == "logarithm":
            values = np.maximum(values, values.max() - 12.0)
        axis.plot(grid[:, 0], values, color="C1")
        axis.axvline(grid[np.argmax(values), 0], color="0.6", linewidth=0.8, linestyle="--")
        axis.set_title(f"{name}: {title}", fontsize=9)
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "acquisitions.png", dpi=70)


if __name__ == "__main__":
    main()
