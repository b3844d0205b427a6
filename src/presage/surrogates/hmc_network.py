"""A Bayesian neural network sampled by Hamiltonian Monte Carlo."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from presage.inference.chains import run, run_apart
from presage.inference.diagnostics import ess, r_hat
from presage.inference.laws import Gaussian, Law, LogNormal
from presage.inference.network import Data, Network, Weights
from presage.inference.regression import Regression
from presage.inference.samplers import HMC, Sampler
from presage.inference.stacking import left_out, stacked
from presage.kernels import feature_owners, features
from presage.observations import Column, Observations, padded
from presage.sobol import sobol
from presage.surrogates.base import Draws, Fit, Marginal, Posterior, State, Surrogate
from presage.surrogates.gaussian_process import GaussianProcess
from presage.warping import Warp

# Where values are exact the process's mode leaves noise behind; networks of every noise are averaged, so any may be.
NOISE = LogNormal(1e-6, 4.0)
PROBES = 32  # points of the cube at which chains are compared, besides the data
NOISY = 0.1  # noise variance at which chains start
AGREE = 1.05  # R-hat of predictions up to which all chains are one sample; beyond it they are weighted
AIM = 0.65  # acceptance that single chains adapt to; with the mean of their steps and masses it is 0.8
LEAST = 0.25  # importance weights are flattened until their effective number is this share of the draws


@dataclass(frozen=True)
class HMCNetwork(Surrogate):
    """Networks drawn from their posterior; the output layer of each, given the rest, in closed form.

    Chains start from the prior, or where those of the previous fit ended; those that disagree are weighted by how well
    they foretell values that are left out. The exponent of the values' warp, which cannot differ between networks that
    are averaged, is that of a Gaussian process fitted to the same data; that process is also what answers when the
    chains disagree after all patience.

    Args:
        widths: units of each hidden layer.
        activation: tanh, relu, erf or silu.
        laws: of each layer's weights, the output layer last; one stands for all.
        weight: scale of each layer's weights; the first one is inferred for each column.
        bias: standard deviation of each layer's biases.
        noise: prior of the noise variance.
        smallest_noise: added to it.
        warp: whether values are warped.
        sampler: the transition kernel.
        chains: run side by side.
        draws: positions of each chain by which it is judged.
        networks: positions kept for predictions, of all chains together.
        thin: transitions per position.
        warmup: transitions of a first fit before positions are kept.
        rewarm: the same for a fit that starts from a previous one.
        trust: largest R-hat of predictions that is accepted.
        patience: how often chains that disagree are run again, each time twice as long.
        dtype: of the sampler's arithmetic.
        device: where it runs; predictions are computed by NumPy.
    """

    greedy: ClassVar[bool] = True
    widths: tuple[int, ...] = (32, 64)
    activation: str = "tanh"
    laws: tuple[Law, ...] = (Gaussian(),)
    weight: tuple[LogNormal, ...] = (LogNormal(4.0, 1.0), LogNormal(1.5), LogNormal(1.0, 1.0))
    bias: tuple[float, ...] = (3.0, 1.0, 1.0)
    noise: LogNormal = NOISE
    smallest_noise: float = 1e-8
    warp: bool = True
    sampler: Sampler = field(default_factory=lambda: HMC(most=24, aim=AIM))
    chains: int = 4
    draws: int = 16
    networks: int = 64
    thin: int = 1
    warmup: int = 150
    rewarm: int = 8
    trust: float = 1.5
    patience: int = 1
    dtype: str = "float64"
    device: str = "cpu"

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        """Sample the hidden layers given the data; with `keep` those of the previous fit are weighted anew."""
        x, y, known = data.x[data.mask], data.y[data.mask], data.noise[data.mask]
        process, theta = None, {name[3:]: a for name, a in (previous or {}).items() if name.startswith("gp.")}
        warp = Warp()
        if self.warp:
            process = GaussianProcess().fit(data, rng=rng, previous=theta or None, keep=keep)
            warp = process.posterior.components[0].warp  # type: ignore[attr-defined]
        network = self.network(data.columns)
        inputs = features(x, data.columns)
        table = Table(network, warp, data.columns, inputs, warp.forward(y), known * np.exp(2.0 * warp.log_slope(y)), y)
        old = None if previous is None else previous.get("positions")
        if old is not None and old.shape[1:] != (network.size,):
            old = None  # the space has changed
        if keep and old is not None and previous is not None:
            posterior = table.posterior(old)
            gain = posterior.regression.evidence - previous["evidence"]
            before = np.log(previous.get("weight", posterior.weight))
            return Fit(replace(posterior, weight=flattened(before + gain)), previous, {"transitions": 0})
        return self._sample(table, old, previous, process, data, rng)

    def network(self, columns: tuple[Column, ...]) -> Network:
        """The network for a space."""
        owners = feature_owners(columns)
        return Network(
            len(owners), self.widths, self.activation, self.laws, self.weight, self.bias, self.noise,
            self.smallest_noise, tuple(owners.tolist()),
        )  # fmt: skip

    def _sample(
        self, table: "Table", old: np.ndarray | None, previous: State | None, process: Fit | None,
        data: Observations, rng: np.random.Generator,
    ) -> Fit:  # fmt: skip
        """Run the chains until they agree."""
        network = table.network
        if old is None or previous is None:
            start, step, mass = network.draw(self.chains, rng), 0.05, np.ones(network.size)
            warmup, learned = self.warmup, 0
            if self.noise.spread:  # with little noise a network that fits nothing yet sits on a cliff: begin with much
                network.piece(start, "noise")[...] = np.log(NOISY / self.noise.median) / self.noise.spread
        else:
            start, step, mass = old[-self.chains :], float(previous["step"]), previous["mass"]
            warmup, learned = self.rewarm, self.warmup
        probes = np.vstack([table.inputs[-PROBES:], features(_points(data.columns, rng), data.columns)])
        every = max(1, self.chains * self.draws // self.networks)
        report: dict[str, Any] = {"transitions": 0, "gradients": 0}
        for attempt in range(self.patience + 1):
            thin = self.thin * 2**attempt
            chains = self._run(network, table.padded(), start, step, mass, rng, warmup, thin, learned)
            report["transitions"] += warmup + thin * self.draws
            # What is stored is what is used: a later fit from the same state must find the same networks.
            positions = np.asarray(chains.positions, dtype=np.float32)
            sampled = table.posterior(positions.reshape(-1, network.size))
            output = sampled.regression.weights(np.arange(len(sampled.weight)), rng)
            functions = np.einsum("snp,sp->sn", network.basis(sampled.hidden, probes), output)
            functions = functions.reshape(self.draws, self.chains, -1)
            start, step, mass = np.asarray(positions[-1], dtype=float), float(chains.step), chains.mass
            warmup, learned = self.rewarm, self.warmup
            report["gradients"] += int(chains.gradients)
            report |= {
                "r_hat": float(r_hat(functions).max()), "ess": float(ess(functions).min()), "step": step,
                "acceptance": float(chains.acceptance), "divergent": int(chains.divergent), "rounds": attempt + 1,
            }  # fmt: skip
            if report["r_hat"] <= self.trust:
                break
        kept = positions[every - 1 :: every].reshape(-1, network.size)
        posterior = table.posterior(kept)
        if report["r_hat"] > AGREE:
            posterior = replace(posterior, weight=self._weights(posterior))
        state = {
            "positions": kept, "evidence": posterior.regression.evidence, "step": np.array(step),
            "mass": mass.astype(np.float32), "weight": posterior.weight,
        }  # fmt: skip
        if process is not None:
            state |= {f"gp.{name}": array for name, array in process.state.items()}
        if report["r_hat"] > self.trust and process is not None:
            warnings.warn(
                f"chains of the network disagree (R-hat {report['r_hat']:.2f} > {self.trust}) after "
                f"{report['transitions']} transitions; a Gaussian process answers instead", stacklevel=2,
            )  # fmt: skip
            return Fit(process.posterior, state, {**report, "fallback": "gp"})
        return Fit(posterior, state, report)

    def _weights(self, posterior: "NetworkPosterior") -> np.ndarray:
        """Weights of networks whose chains have not met, by how well each chain foretells values left out."""
        log_density = posterior.regression.leave_one_out().reshape(-1, self.chains, len(posterior.table.y))
        each = np.full(len(log_density), 1.0 / len(log_density))
        weight = stacked(np.stack([left_out(log_density[:, c], each) for c in range(self.chains)]))
        return np.tile(weight, len(log_density)) / len(log_density)

    def _run(
        self, network: Network, data: Data, start: np.ndarray, step: float, mass: np.ndarray, rng: np.random.Generator,
        warmup: int, thin: int, learned: int,
    ) -> Any:  # fmt: skip
        with jax.enable_x64(self.dtype == "float64"), jax.default_device(jax.devices(self.device)[0]):
            x, y, noise = (jnp.asarray(a, self.dtype) for a in data[:3])
            cast = Data(x, y, noise, jnp.asarray(data.mask))
            key = jax.random.key(int(rng.integers(2**31)))
            chains = (run_apart if self.device == "cpu" else run)(
                self.sampler, network, cast, jnp.asarray(start, self.dtype), step,
                jnp.asarray(mass, self.dtype), key, warmup, thin, draws=self.draws, learned=learned,
            )  # fmt: skip
            return jax.tree.map(np.asarray, chains)


@dataclass(frozen=True)
class Table:
    """What networks are conditioned on: inputs [n, D], warped values and known noise variances [n], and values [n]."""

    network: Network
    warp: Warp
    columns: tuple[Column, ...]
    inputs: np.ndarray
    latent: np.ndarray
    known: np.ndarray
    y: np.ndarray

    def padded(self) -> Data:
        """The same with empty rows up to one of a few sizes."""
        count = len(self.y)
        extra = padded(count) - count
        return Data(
            np.pad(self.inputs, ((0, extra), (0, 0))), np.pad(self.latent, (0, extra)), np.pad(self.known, (0, extra)),
            np.arange(count + extra) < count,
        )  # fmt: skip

    def posterior(self, positions: np.ndarray) -> "NetworkPosterior":
        """The networks at positions [s, p], their output layers conditioned on the values."""
        hidden = self.network.weights(positions.astype(float))
        noise = hidden.noise[:, None] + self.known
        regression = Regression.of(self.network.basis(hidden, self.inputs), self.latent, noise)
        return NetworkPosterior(self, hidden, regression, np.full(len(positions), 1.0 / len(positions)))


@dataclass(frozen=True, repr=False)
class NetworkPosterior(Posterior):
    """Weighted networks with Gaussian output layers; at a point their mixture, as one Gaussian of the same moments.

    Expected improvement averaged over networks instead explored more than short studies can afford: it left
    Forrester's local minimum as often, and later.

    Attributes:
        table: the data.
        hidden: the networks up to their output layers.
        regression: the output layers.
        weight: of each network, [s].
    """

    table: Table
    hidden: Weights
    regression: Regression
    weight: np.ndarray

    def facts(self) -> dict[str, Any]:
        return {"values": len(self.table.y), "dimensions": len(self.table.columns), "networks": len(self.weight)}

    @property
    def differentiable(self) -> bool:
        return True

    def _basis(self, x: np.ndarray) -> np.ndarray:
        return self.table.network.basis(self.hidden, features(x, self.table.columns))

    def marginal(self, x: np.ndarray) -> Marginal:
        mean, variance = self.regression.moments(self._basis(x))
        mean, variance = Marginal(mean, variance, self.weight).moments()
        return Marginal(mean[None], variance[None], np.ones(1))

    def marginal_gradient(self, x: np.ndarray) -> tuple[Marginal, np.ndarray, np.ndarray]:
        inputs, root = features(x, self.table.columns), self.regression.root
        basis = self.table.network.basis(self.hidden, inputs)
        white = basis @ np.swapaxes(root, 1, 2)
        means = np.einsum("smp,sp->sm", basis, self.regression.mean)
        variances = np.einsum("smp,smp->sm", white, white)
        mean, variance = Marginal(means, variances, self.weight).moments()
        # d variance = sum_s w_s (d variance_s + 2 (mean_s - mean) d mean_s)
        by_mean = np.broadcast_to((self.weight[:, None] * self.regression.mean)[:, None], basis.shape)
        by_variance = 2.0 * self.weight[:, None, None] * (white @ root) + 2.0 * (means - mean)[..., None] * by_mean
        slopes = [
            to_columns(self.table.network.pull_back(self.hidden, inputs, seed).sum(axis=0)[None], x, self.table.columns)
            for seed in (by_mean, by_variance)
        ]
        return Marginal(mean[None], variance[None], np.ones(1)), slopes[0], slopes[1]

    def sample(self, x: np.ndarray, num: int, *, rng: np.random.Generator) -> np.ndarray:
        basis = self._basis(x)
        which = rng.choice(len(self.weight), num, p=self.weight)
        output = self.regression.weights(which, rng)
        out = np.empty((num, len(x)))
        for s in np.unique(which):
            out[which == s] = output[which == s] @ basis[s].T
        return out

    def draw(self, num: int, *, rng: np.random.Generator) -> "NetworkDraws":
        which = rng.choice(len(self.weight), num, p=self.weight)
        return NetworkDraws(
            self.table.network, self.table.columns, take(self.hidden, which), self.regression.weights(which, rng)
        )

    def transformed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.table.warp.forward(y)[None], self.table.warp.log_slope(y)[None]

    def restored(self, f: np.ndarray) -> np.ndarray:
        return self.table.warp.inverse(f)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.marginal(x).moments()
        return self.table.warp.moments(mean, variance)

    def noise(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.weight @ self.hidden.noise)

    def condition(self, x: np.ndarray, y: np.ndarray) -> "NetworkPosterior":
        latent = self.table.warp.forward(y)
        noise = np.broadcast_to(self.hidden.noise[:, None], (len(self.weight), len(y)))
        more = self.regression.with_values(self._basis(x), latent, noise)
        weight = flattened(np.log(self.weight) + more.evidence - self.regression.evidence)
        table = replace(
            self.table, inputs=np.vstack([self.table.inputs, features(x, self.table.columns)]),
            latent=more.y, known=np.append(self.table.known, np.zeros(len(y))), y=np.append(self.table.y, y),
        )  # fmt: skip
        return NetworkPosterior(table, self.hidden, more, weight)

    def leave_one_out(self) -> np.ndarray:
        return left_out(self.regression.leave_one_out(), self.weight) + self.table.warp.log_slope(self.table.y)

    def incumbent(self) -> float:
        mean, _ = self.regression.moments(self.regression.basis)
        return float((self.weight @ mean).min())


@dataclass(frozen=True)
class NetworkDraws(Draws):
    """Networks with their output weights [num, H + 1]."""

    network: Network
    columns: tuple[Column, ...]
    hidden: Weights
    output: np.ndarray

    def values(self, x: np.ndarray) -> np.ndarray:
        basis = self.network.basis(self.hidden, features(x, self.columns))
        return np.einsum("snp,sp->sn", basis, self.output)

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seed = np.broadcast_to(self.output[:, None], (len(self.output), len(x), self.output.shape[1]))
        slope = self.network.pull_back(self.hidden, features(x, self.columns), seed)
        return self.values(x), to_columns(slope, x, self.columns)


def to_columns(slope: np.ndarray, x: np.ndarray, columns: tuple[Column, ...]) -> np.ndarray:
    """Derivatives in features [s, n, D] as those in x, [s, n, d]: features of numbers come first and move with them."""
    numeric = [j for j, column in enumerate(columns) if column.kind != "categorical"]
    out = np.zeros((len(slope), *x.shape))
    out[..., numeric] = slope[..., : len(numeric)]
    out[:, np.isnan(x)] = 0.0  # the cell of an absent dimension cannot move
    return out


def take(weights: Weights, which: np.ndarray) -> Weights:
    """Some of several networks."""
    hidden = [(matrix[which], bias[which]) for matrix, bias in weights.hidden]
    return Weights(hidden, weights.scale[which], None, weights.noise[which])


def flattened(log_weight: np.ndarray) -> np.ndarray:
    """Importance weights that sum to 1, raised to the largest power up to 1 that leaves enough of them effective."""

    def raised(power: float) -> np.ndarray:
        weight = np.exp(power * (log_weight - log_weight.max()))
        return weight / weight.sum()

    def enough(weight: np.ndarray) -> bool:
        return 1.0 / (weight @ weight) >= LEAST * len(weight)

    if enough(raised(1.0)):
        return raised(1.0)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(raised(middle)) else (low, middle)
    return raised(low)


def _points(columns: tuple[Column, ...], rng: np.random.Generator) -> np.ndarray:
    """Points of the cube, [PROBES, d]; conditional dimensions are absent from half of them."""
    x = sobol(PROBES, len(columns), rng)
    absent = np.array([column.conditional for column in columns])
    return np.where(absent & (rng.random(x.shape) < 0.5), np.nan, x)
