"""GPAR (arXiv 1802.07182): each step's value is a Gaussian process of the network and of earlier values."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from presage import lbfgs
from presage.design.curves.base import CurveFit, CurveModel, CurvePosterior, Curves, Squash
from presage.kernels import Kernel, Linear, SquaredExponential
from presage.means import ZeroMean
from presage.observations import Column
from presage.priors import LogNormal, Priors
from presage.surrogates.base import Marginal, State
from presage.surrogates.gaussian import GaussianPosterior, Model, Table, condition, negative_evidence

NOISE = LogNormal(1e-2, 1.5)
UNSEEN = 1.0  # variance, in spreads of the output before, of a step that no network has reached


@dataclass(frozen=True)
class GPAR(CurveModel):
    """Output j is a Gaussian process of the network and of the outputs before it: k_x(x, x') + k_y(y, y').

    Rows count for output j if all outputs before it are known (data closed downward). Between outputs samples are
    passed, not means. With tied scales the lengthscales on the network are those of all outputs; joint fitting finds
    them from all outputs, sequential fitting from the first. Without tied scales both are the same, since the evidence
    of closed data is a sum over outputs.

    Args:
        stages: shares of the last step at which curves are looked at, or None for every column of the table.
        inputs: kernels on the network, of "eq" and "linear".
        outputs: kernels on earlier outputs, likewise; none for independent outputs.
        markov: how many earlier outputs count, None for all.
        tied: share the lengthscales on the network.
        joint: fit all outputs together.
        samples: passed between outputs.
    """

    stages: tuple[float, ...] | None = None
    inputs: tuple[str, ...] = ("eq",)
    outputs: tuple[str, ...] = ("linear",)
    markov: int | None = 1
    tied: bool = True
    joint: bool = True
    samples: int = 50

    def fit(
        self, curves: Curves, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> CurveFit:
        chosen = self.chosen(curves.steps)
        seen = curves.at(chosen)
        kept = keep and previous is not None
        squash = Squash(*previous["squash"].tolist()) if kept and previous is not None else Squash.of(curves)
        outputs = self._outputs(seen, squash, previous["units"] if kept and previous is not None else None)
        if kept and previous is not None:
            theta = previous["theta"]
        else:
            theta = self._find(outputs, None if previous is None else previous["theta"])
        fitted = tuple(
            None if out.table is None else condition(out.model, out.table, theta[None, out.take]) for out in outputs
        )
        state = {
            "theta": theta, "squash": np.array([squash.center, squash.scale]),
            "units": np.array([[out.center, out.scale] for out in outputs]),
        }  # fmt: skip
        posterior = GPARPosterior(
            squash, curves, tuple(chosen), outputs, fitted, self.samples, int(rng.integers(2**31))
        )
        return CurveFit(posterior, state)

    def chosen(self, steps: np.ndarray) -> list[int]:
        """The columns looked at, the last one among them."""
        if self.stages is None:
            return list(range(len(steps)))
        near = {int(np.argmin(np.abs(steps - share * steps[-1]))) for share in self.stages}
        return sorted(near | {len(steps) - 1})

    def earlier(self, output: int) -> list[int]:
        """The outputs that an output depends on."""
        if not self.outputs:
            return []
        return list(range(0 if self.markov is None else max(0, output - self.markov), output))

    def kernel(self, inputs: int, earlier: int) -> Kernel:
        """k_x on the first columns, k_y on the others; the parts on the network come first."""
        kinds = {"eq": SquaredExponential, "linear": Linear}
        parts: list[Kernel] = [kinds[name](on=tuple(range(inputs))) for name in self.inputs]
        if earlier:
            on = tuple(range(inputs, inputs + earlier))
            parts += [kinds[name](on=on) for name in self.outputs]
        kernel = parts[0]
        for part in parts[1:]:
            kernel = kernel + part
        return kernel

    def _outputs(self, seen: Curves, squash: Squash, units: np.ndarray | None) -> tuple["Output", ...]:
        latent, known = squash.forward(seen.values), seen.known
        made: list[Output] = []
        size = 0
        for j in range(latent.shape[1]):
            rows = np.flatnonzero(known > j)
            if units is None:
                center = float(latent[rows, j].mean()) if len(rows) else (made[-1].center if made else 0.0)
                scale = float(latent[rows, j].std()) if len(rows) > 1 else (made[-1].scale if made else 1.0)
                scale = scale if scale > 1e-9 else 1.0
            else:
                center, scale = units[j].tolist()
            before = self.earlier(j)
            columns = (*seen.columns, *[Column("continuous")] * len(before))
            model = Model(self.kernel(len(seen.columns), len(before)), ZeroMean(), columns, NOISE, 1e-6, None)
            # Where the model's vector of hyperparameters lies in that of all outputs.
            take, tied = np.empty(model.priors.size, int), 0
            if self.tied and made:
                tied = sum(b.size for b in model.priors.blocks if self._is_tied(b.name))
            fresh = np.arange(size, size + model.priors.size - tied)
            at = used = shared = 0
            for block in model.priors.blocks:
                part = slice(at, at + block.size)
                if tied and self._is_tied(block.name):
                    take[part] = made[0].tied_at[shared : shared + block.size]
                    shared += block.size
                else:
                    take[part] = fresh[used : used + block.size]
                    used += block.size
                at += block.size
            size += len(fresh)
            table = None
            if len(rows):
                x = self.joined(seen.x[rows], _standard(latent[rows], made), before)
                table = Table(
                    x, model.axes.features(x), (latent[rows, j] - center) / scale, np.zeros(len(rows)), 0.0, 1.0
                )
            tied_at = np.concatenate([
                take[sum(b.size for b in model.priors.blocks[:i]) :][: block.size]
                for i, block in enumerate(model.priors.blocks) if self._is_tied(block.name)
            ] or [np.empty(0, int)])  # fmt: skip
            made.append(Output(before, model, table, center, scale, take, tied_at))
        return tuple(made)

    def _is_tied(self, name: str) -> bool:
        """Whether a block is a lengthscale of a kernel on the network; parts of a sum are numbered."""
        number, _, what = name.rpartition(".")
        return what == "lengthscale" and (not number or int(number) < len(self.inputs))

    @staticmethod
    def joined(x: np.ndarray, standard: np.ndarray, before: list[int]) -> np.ndarray:
        """Networks and standardised earlier outputs [.., outputs] side by side; kernels measure from 0.5."""
        return np.concatenate([x, standard[..., before] + 0.5], axis=-1)

    def _find(self, outputs: tuple["Output", ...], known: np.ndarray | None) -> np.ndarray:
        """Hyperparameters at their mode."""
        size = 1 + max(int(out.take.max()) for out in outputs)
        center, lower, upper = np.empty((3, size))
        for out in reversed(outputs):
            priors = out.model.priors
            center[out.take], lower[out.take], upper[out.take] = priors.center, priors.lower, priors.upper
        theta = center if known is None or len(known) != size else known
        seen = [out for out in outputs if out.table is not None]
        if self.joint and self.tied:
            return _descend(seen, theta, lower, upper)
        fixed = np.zeros(size, bool)
        for out in seen:
            held = np.where(fixed, theta, lower), np.where(fixed, theta, upper)
            theta = _descend([out], theta, *held)
            fixed[out.take] = True
        return theta


def _descend(outputs: list["Output"], theta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The mode of the hyperparameters of some outputs; those of others stay where they are."""

    def energies(thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = np.zeros(len(thetas)), np.zeros_like(thetas)
        for s, one in enumerate(thetas):
            counted = np.zeros(len(one), bool)
            for out in outputs:
                assert out.table is not None
                priors: Priors = out.model.priors
                each, slope = priors.energy(one[None, out.take])
                new = ~counted[out.take]  # tied ones have one prior, not one for every output
                gradient[s, out.take] += np.where(new, slope[0], 0.0)
                value[s] += each[0] if new.all() else _energy_of(priors, one[out.take], new)
                counted[out.take] = True
                mine = np.zeros(len(out.take))
                value[s] += negative_evidence(out.model, out.table, one[out.take], mine)
                np.add.at(gradient[s], out.take, mine)
        return value, gradient

    found = lbfgs.minimize(energies, theta[None], lower, upper, evaluations=50, gradient_tol=1e-2, value_tol=1e-4)
    return found.x[0] if np.isfinite(found.value[0]) else theta


def _energy_of(priors: Priors, theta: np.ndarray, which: np.ndarray) -> float:
    """The energy of some coordinates, the others being at their centre, where that of log-normal laws is 0."""
    return float(priors.energy(np.where(which, theta, priors.center)[None])[0][0])


@dataclass(frozen=True)
class Output:
    """One output: what it depends on, its process before the data, its data, its units, its place among all theta."""

    before: list[int]
    model: Model
    table: Table | None
    center: float
    scale: float
    take: np.ndarray
    tied_at: np.ndarray


def _standard(latent: np.ndarray, outputs: list[Output] | tuple[Output, ...]) -> np.ndarray:
    """Outputs in their own units, [n, outputs]."""
    return (
        np.stack([(latent[:, k] - o.center) / o.scale for k, o in enumerate(outputs)], axis=-1)
        if outputs
        else latent[:, :0]
    )


@dataclass(frozen=True)
class GPARPosterior(CurvePosterior):
    """The outputs' processes given the data, and samples passed through them."""

    squash: Squash
    curves: Curves
    chosen: tuple[int, ...]
    outputs: tuple[Output, ...]
    fitted: tuple[GaussianPosterior | None, ...] = field(repr=False)
    samples: int
    seed: int

    @cached_property
    def _laws(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of every output under every sample of the outputs before, [samples, n] each."""
        return self._pass(self.samples, np.random.default_rng(self.seed), joint=False)[0]

    def _pass(
        self, num: int, rng: np.random.Generator, joint: bool
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Laws of the outputs, and samples of the last, all in squashed units; values known stand for themselves."""
        latent = self.squash.forward(self.curves.values[:, list(self.chosen)])
        n, c = latent.shape
        known = np.arange(c) < self.curves.at(list(self.chosen)).known[:, None]
        draws, laws = np.empty((num, n, c)), []
        standard = np.empty((num, n, c))
        x = np.broadcast_to(self.curves.x, (num, *self.curves.x.shape))
        for j, (out, fitted) in enumerate(zip(self.outputs, self.fitted, strict=True)):
            if fitted is None:
                mean = standard[..., j - 1] if j else np.zeros((num, n))
                variance = np.full((num, n), UNSEEN)
                drawn = mean + rng.standard_normal((num, n))
            else:
                at = GPAR.joined(x, standard, out.before)
                noise = math.exp(fitted.components[0].theta[out.model.noise_at])
                if joint:
                    mean = variance = np.zeros((num, n))
                    drawn = np.stack([fitted.sample(one, 1, rng=rng)[0] for one in at])
                    drawn = drawn + math.sqrt(noise) * rng.standard_normal((num, n))
                else:
                    # Without earlier outputs, all samples are the same points.
                    law = fitted.marginal(at.reshape(-1, at.shape[-1]) if out.before else at[0])
                    mean, variance = (
                        np.broadcast_to(a.reshape(-1, n), (num, n)) for a in (law.mean[0], law.variance[0])
                    )
                    variance = variance + noise
                    drawn = mean + np.sqrt(variance) * rng.standard_normal((num, n))
            mean, variance, drawn = (
                out.center + out.scale * mean, out.scale**2 * variance, out.center + out.scale * drawn,
            )  # fmt: skip
            seen = known[:, j]
            laws.append((np.where(seen, latent[:, j], mean), np.where(seen, 0.0, variance)))
            draws[..., j] = np.where(seen, latent[:, j], drawn)
            standard[..., j] = (draws[..., j] - out.center) / out.scale
        return laws, draws[..., -1]

    def marginal(self, column: int = -1) -> Marginal:
        column = column % len(self.curves.steps)
        if column not in self.chosen:
            steps = self.curves.steps
            raise ValueError(f"this model looks at steps {steps[list(self.chosen)]} only, not at {steps[column]}")
        mean, variance = self._laws[self.chosen.index(column)]
        return Marginal(mean, variance, np.full(len(mean), 1.0 / len(mean)))

    def sample(self, num: int, *, rng: np.random.Generator) -> np.ndarray:
        return self._pass(num, rng, joint=True)[1]
