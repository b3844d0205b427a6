"""Network features with a linear head: linear in the number of observations."""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from presage.kernels import features
from presage.observations import Column, Observations
from presage.surrogates.base import Fit, State, Surrogate
from presage.surrogates.linear_head import Bayes, Head, ScalePrior, Scales, Spectrum, Weights, excess, extend
from presage.surrogates.network import Basis, Layout
from presage.surrogates.neural_posterior import Member, NeuralPosterior, Seen
from presage.surrogates.representation import Rows, ThetaPrior, learn, refine
from presage.warping import Warp

MANY = 4096  # beyond so many rows the factors are part of the state
HELD = 4096  # held-out rows that are looked at


@dataclass(frozen=True)
class NeuralBasis(Surrogate):
    """Several small networks, each with a Bayesian linear model on its hidden units (docs/neural.md).

    Each network's representation is learned without one fold of the rows. What its head then foretells of that fold
    says by how much the head is too sure of itself, and the head's scales are corrected by it: a representation that
    was fitted to the values it explains makes the evidence, and with it the head, overconfident.

    Args:
        widths: units of each hidden layer.
        members: networks; 1 has no fold to correct itself by.
        head: how the scales of the linear model are chosen.
        every_layer: the inputs, squares of numbers and all hidden units are features, not only the last layer's units.
        lengthscale: median in one dimension, and standard deviation of its logarithm.
        scales: prior of the head's scales.
        warp: learn a monotone transformation of the values.
        evaluations: of the evidence, per network, for a first fit.
        again: the same for a fit that starts from an earlier one.
        full: beyond so many rows the representation is learned from minibatches of that many.
        steps: of minibatches, for a first fit.
        rate: the first step size, in units of the weights' prior.
        growth: retrain when the number of values has grown by this factor.
        surprise: retrain when new values were foretold worse than the held-out ones by so many nats on average.
    """

    widths: tuple[int, ...] = (300,)
    members: int = 4
    head: Head = field(default_factory=Bayes)
    every_layer: bool = True
    lengthscale: tuple[float, float] = (0.5, 0.5)
    scales: ScalePrior = field(default_factory=ScalePrior)
    warp: bool = False
    evaluations: int = 60
    again: int = 15
    full: int = 512
    steps: int = 100
    rate: float = 0.1
    growth: float = 1.1
    surprise: float = 2.0

    def fit(
        self, data: Observations, *, rng: np.random.Generator, previous: State | None = None, keep: bool = False
    ) -> Fit:
        known = self._usable(previous, data.columns)
        if keep and known is not None:
            return Fit(self._kept(data, known), known, {"evaluations": 0})
        rows = _rows(data)
        seed = int(rng.integers(2**31)) if known is None else int(known["seed"])
        layouts = self._layouts(data.columns, seed)
        fold = np.flatnonzero(data.mask) % self.members
        if len(rows.y) < 2 * self.members or self.members == 1:
            fold = np.full(len(rows.y), -1)  # too few to leave some out
        exponent: float | None = None
        thetas, evaluations = [], 0
        for j, layout in enumerate(layouts):
            theta, used = self._represent(
                layout, rows, np.flatnonzero(fold != j), None if known is None else known["theta"][j], exponent, rng
            )
            exponent = float(theta[layout.d + 2])  # the first network chooses the warp for all
            thetas.append(theta)
            evaluations += used
        warp = Warp.of(rows.y, float(exponent or 0.0))[0]
        seen = Seen.of(rows, warp)
        solved = [
            self._solve(Basis(layout, theta), seen, fold == j) for j, (layout, theta) in
            enumerate(zip(layouts, thetas, strict=True))
        ]  # fmt: skip
        left_out = np.concatenate([one.left_out for one in solved], axis=1)
        # What each network foretold of its own fold, taken together: one factor for all, or the widest would rule.
        factor = excess(left_out[0] ** 2 / left_out[1]) if left_out.size else 1.0
        scales = np.array([one.scales for one in solved]) * factor
        foretold = -0.5 * (left_out[0] ** 2 / (factor * left_out[1]) + np.log(2.0 * math.pi * factor * left_out[1]))
        state = {
            "seed": np.array(seed), "theta": np.array(thetas), "scales": scales, "warp": np.array(warp),
            "units": np.array([data.center, data.scale]), "count": np.array(len(rows.y)),
            "foretold": np.array(foretold.mean() if foretold.size else -np.inf), "seen": np.packbits(data.mask),
        }  # fmt: skip
        factors = [
            seen.factor(Basis(layout, theta), fold < len(layouts), scale[1]) if seen.known.any() else one.factor
            for layout, theta, scale, one in zip(layouts, thetas, scales, solved, strict=True)
        ]
        posterior = self._posterior(data.columns, state, factors, seen, warp, fold)
        if len(rows.y) > MANY:
            state |= posterior.remembered(data)
        report = {
            "evaluations": evaluations, "exponent": warp.exponent, "excess": factor,
            "foretold": float(state["foretold"]),
        }  # fmt: skip
        return Fit(posterior, state, report)

    def due(self, data: Observations, state: State, fitted: int) -> bool:
        """Whether the representation should be learned anew: many more values, or values that surprise it."""
        known = self._usable(state, data.columns)
        if known is None or data.count < int(known["count"]):
            return True
        new = data.count - int(known["count"])
        if new and (data.count < 10 or data.count >= self.growth * int(known["count"])):
            return True
        return new >= 3 and self._foretold(data, known) < float(known["foretold"]) - self.surprise

    def _foretold(self, data: Observations, known: State) -> float:
        """Mean log density of the values that came after a fit, in its units."""
        old = data.rescaled(*known["units"].tolist())
        inside = np.isin(np.arange(len(data.y)), np.flatnonzero(np.unpackbits(known["seen"])))
        posterior = self._kept(replace(old, mask=old.mask & inside), known)
        new = old.mask & ~inside
        log_density, _ = posterior.foretold(old.x[new], old.y[new], old.noise[new])
        return float(np.mean(log_density - posterior.transformed(old.y[new])[1][0]))

    def _layouts(self, columns: tuple[Column, ...], seed: int) -> list[Layout]:
        return [Layout(columns, self.widths, self.every_layer, (seed, j)) for j in range(self.members)]

    def _usable(self, state: State | None, columns: tuple[Column, ...]) -> State | None:
        """A state if it is of this configuration and space."""
        size = self._layouts(columns, 0)[0].size
        return state if state and "theta" in state and state["theta"].shape == (self.members, size) else None

    def _represent(
        self, layout: Layout, rows: Rows, train: np.ndarray, known: np.ndarray | None, exponent: float | None,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, int]:  # fmt: skip
        """Theta of one network, learned from some rows, and evaluations of the evidence."""
        prior = ThetaPrior.of(layout, self.lengthscale, self.scales, self.warp)
        start, used = (prior.center if known is None else known), 0
        if exponent is not None:
            start = start.copy()
            start[layout.d + 2] = exponent
        if known is None or len(train) <= self.full:
            few, chosen = rows, train
            if len(train) > self.full:
                few, chosen = rows.take(rng.choice(train, self.full, replace=False)), np.arange(self.full)
            start, used = learn(
                layout, few, chosen, prior, start, exponent=exponent,
                mean_field=self.head.mean_field,
                evaluations=self.evaluations if known is None else self.again,
            )  # fmt: skip
        if len(train) > self.full:
            latent = Warp.of(rows.y, float(start[layout.d + 2]))[0].forward(rows.y[train])
            steps = self.steps if known is None else self.steps // 4
            start = refine(
                layout, rows.take(train), latent, start, prior, steps=steps, batch=self.full, rate=self.rate,
                mean_field=self.head.mean_field, rng=rng,
            )  # fmt: skip
        return start, used

    def _solve(self, basis: Basis, seen: "Seen", out: np.ndarray) -> "Solved":
        """The head of one network, scales chosen without the rows left out."""
        layout, count = basis.layout, int((~out).sum())
        start = Scales(*np.exp(basis.theta[layout.d : layout.d + 2]).tolist())
        train = seen.factor(basis, ~out, start.noise)
        scales = self.head.scales(Spectrum.of(train, count), count, self.scales, start)
        law = Weights.given(train, scales, self.head.mean_field)
        at = np.flatnonzero(out)[:HELD]
        mean, variance = law.moments(basis(seen.inputs[at]))
        left_out = np.array([seen.latent[at] - mean, variance + scales.noise + seen.known[at]])
        rest = seen.factor(basis, out, start.noise)
        return Solved(scales, extend(train, rest[:, :-1], rest[:, -1]), left_out)

    def _kept(self, data: Observations, known: State) -> "NeuralPosterior":
        """The posterior of an earlier fit given all rows; those that its factors hold already are not visited."""
        rows = _rows(data)
        units = float(known["units"][0]), float(known["units"][1])
        warp = Warp(*known["warp"].tolist())
        # The same warp, for values in the units of these data.
        shift, stretch = (units[0] - data.center) / data.scale, units[1] / data.scale
        warp = warp._replace(low=shift + stretch * warp.low, unit=stretch * warp.unit)
        seen = Seen.of(rows, warp)
        bases = [Basis(layout, theta) for layout, theta in
                 zip(self._layouts(data.columns, int(known["seed"])), known["theta"], strict=True)]  # fmt: skip
        everything = np.ones(len(rows.y), dtype=bool)
        fold = np.flatnonzero(data.mask) % self.members
        if "factors" in known:
            inside = np.isin(np.flatnonzero(data.mask), np.flatnonzero(np.unpackbits(known["seen"])))
            if np.array_equal(known["sums"], rows.inputs[inside].sum(axis=0)):  # else the space has changed
                factors = [
                    seen.factor(basis, ~inside, scale[1], factor)
                    for basis, scale, factor in zip(bases, known["scales"], known["factors"], strict=True)
                ]
                watch = np.append((np.cumsum(data.mask) - 1)[known["watch"]], np.flatnonzero(~inside))
                return self._posterior(data.columns, known, factors, seen, warp, fold, watch)
        factors = [
            seen.factor(basis, everything, scale[1]) for basis, scale in zip(bases, known["scales"], strict=True)
        ]
        return self._posterior(data.columns, known, factors, seen, warp, fold)

    def _posterior(
        self, columns: tuple[Column, ...], state: State, factors: list[np.ndarray], seen: "Seen", warp: Warp,
        fold: np.ndarray, watch: np.ndarray | None = None,
    ) -> "NeuralPosterior":  # fmt: skip
        layouts = self._layouts(columns, int(state["seed"]))
        members = tuple(
            Member(Basis(layout, theta), Weights.given(factor, Scales(*scale), self.head.mean_field), factor)
            for layout, theta, factor, scale in zip(
                layouts, state["theta"], factors, np.asarray(state["scales"]).tolist(), strict=True
            )
        )
        return NeuralPosterior(columns, members, warp, seen, fold, watch)


class Solved(NamedTuple):
    """A head's scales, the factor of all rows, and errors and variances foretold of the rows left out, [2, m]."""

    scales: Scales
    factor: np.ndarray
    left_out: np.ndarray


def _rows(data: Observations) -> Rows:
    return Rows(features(data.x[data.mask], data.columns), data.y[data.mask], data.noise[data.mask])
