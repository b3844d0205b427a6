"""Sparse deterministic networks and ensembles of them (S2): one padded member at a time, then many together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from presage.networks.functions import Functions
from presage.networks.mlp import ACTIVATIONS, Array, Masks, Shape, layer_numbers, layer_sizes, masks, normal
from presage.networks.programs import unraveller
from presage.networks.regions import Regions
from presage.networks.training import Cohort, Table, Training, describe


class Connection(NamedTuple):
    """Weights [inputs, outputs] and biases [outputs] of a layer, and which of them are kept."""

    weight: Array
    bias: Array
    weight_kept: Array
    bias_kept: Array


@dataclass(frozen=True)
class Sparse:
    """A network each of whose weights and biases exists with some probability.

    Args:
        activation: relu, tanh or silu.
        classes: number of classes, or 0 for regression.
    """

    activation: str = "relu"
    classes: int = 0

    @property
    def options(self) -> dict[str, float]:
        """What may differ between networks of one program: the probability that a weight is kept."""
        return {"keep": 1.0}

    def outputs(self) -> int:
        return self.classes or 1

    def init(self, key: Array, widths: Array, options: dict[str, Array], shape: Shape) -> list[Connection]:
        """Weights of He's size for the inputs that are left, biases 0; draw 1 of a weight says whether it is kept."""
        exist, sizes = masks(widths, shape), layer_sizes(shape)
        rows = 1 + max(inputs for inputs, _ in sizes)
        draws = normal(key, 2, rows, [outputs for _, outputs in sizes], layer_numbers(shape.depth))
        layers = []
        for draw, (inputs, outputs), source in zip(draws, sizes, exist.sources, strict=True):
            stay = (jax.scipy.special.ndtr(draw[1]) < options["keep"]).astype(draw.dtype)
            scale = jnp.sqrt(2.0 / jnp.maximum(1.0, source.sum() * options["keep"]))
            weight = scale * draw[0, 1 : inputs + 1]
            layers.append(Connection(weight, jnp.zeros(outputs), stay[1 : inputs + 1], stay[0]))
        return layers

    def forward(self, layers: list[Connection], exist: Masks, x: Array) -> Array:
        """Outputs at points [n, d], [n, outputs]."""
        activation = ACTIVATIONS[self.activation]
        targets = [*exist.units, jnp.ones(layers[-1].bias.shape, bool)]
        h = x
        for number, (layer, source, target) in enumerate(zip(layers, exist.sources, targets, strict=True)):
            there = jax.lax.stop_gradient(layer.weight_kept) * (source[:, None] & target[None])
            pre = h @ (layer.weight * there) + layer.bias * jax.lax.stop_gradient(layer.bias_kept) * target
            if number == len(layers) - 1:
                break
            after = activation(pre) * target
            h = after if number == 0 else jnp.where(exist.present[number], after, h)
        return pre

    def loss(
        self, params: list[Connection], widths: Array, options: dict[str, Array], shape: Shape, *,
        x: Array, y: Array, weight: Array, count: Array, key: Array, step: Array,
    ) -> Array:  # fmt: skip
        """Mean squared error of standardised values, or mean log-loss of class numbers."""
        out = self.forward(params, masks(widths, shape), x)
        if not self.classes:
            return (weight * (out[:, 0] - y) ** 2).sum()
        log_share = jax.nn.log_softmax(out)
        return -(weight * jnp.take_along_axis(log_share, y.astype(int)[:, None], axis=1)[:, 0]).sum()


def member_functions(cohort: Cohort, members: Sequence[int] | None = None) -> Functions:
    """The trained networks of a cohort of Sparse as functions of the inputs as they were given."""
    networks = jax.tree.map(np.asarray, cohort.networks)
    unravel = jax.vmap(unraveller(cohort.family, cohort.shape))
    layers = [Connection(*(np.asarray(a, np.float64) for a in layer)) for layer in unravel(cohort.state.params)]
    some = np.arange(len(networks.sizes)) if members is None else np.asarray(members)
    exist = jax.vmap(lambda w: masks(w, cohort.shape))(networks.widths)
    targets = [*np.moveaxis(np.asarray(exist.units), 1, 0), np.ones(layers[-1].bias.shape, bool)]
    plain = []
    for layer, source, target in zip(layers, exist.sources, targets, strict=True):
        there = layer.weight_kept * (np.asarray(source)[:, :, None] & target[:, None])
        plain.append(((layer.weight * there)[some], (layer.bias * layer.bias_kept * target)[some]))
    present = [np.asarray(exist.present)[some, number] for number in range(cohort.shape.depth)]
    return Functions.of(
        plain, present, cohort.family.activation, networks.x_center[some], networks.x_scale[some],
        networks.y_center[some], networks.y_scale[some],
    )  # fmt: skip


@dataclass(frozen=True)
class Ensemble:
    """Trained members.

    Attributes:
        functions: the members, those of region 0 first.
        regions: where each expert is asked, or None when all members are asked everywhere.
        included: members that count, [members]; see `included_members`.
        noise: mean squared error of the mean at the training points; 0 for classification.
        classes: number of classes, or 0.
        steps: how many each member took, [members].
    """

    functions: Functions
    regions: Regions | None
    included: np.ndarray
    noise: float
    classes: int
    steps: np.ndarray

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """What each included member, or expert of the point's region, says, [members, n, outputs].

        Members of every region are equally many, those excluded being replaced by included ones of their region.
        """
        regions = 1 if self.regions is None else self.regions.count
        each = len(self.included) // regions
        where = np.zeros(len(x), int) if self.regions is None else self.regions.of(x)
        out = np.empty((each, len(x), self.functions.outputs))
        for region in range(regions):
            here = where == region
            mine = region * each + np.flatnonzero(self.included[region * each : (region + 1) * each])
            out[:, here] = self.functions.some(np.resize(mine, each)).values(x[here])
        return out

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean over members and variance between them, [n] each; for classes the shares, [n, classes] each."""
        out = self.outputs(x)
        if not self.classes:
            return out[..., 0].mean(axis=0), out[..., 0].var(axis=0)
        share = softmax(out)
        return share.mean(axis=0), share.var(axis=0)


def softmax(out: np.ndarray) -> np.ndarray:
    """Shares of the classes on the last axis."""
    share = np.exp(out - out.max(axis=-1, keepdims=True))
    return share / share.sum(axis=-1, keepdims=True)


def included_members(out: np.ndarray, y: np.ndarray, least: float) -> np.ndarray:
    """Members that count, [members]: their predictions at the data vary at least `least` times as much as the values.

    S2 leaves out members with too many weights dropped, whose predictions hardly vary. Should none be left, all count.

    Args:
        out: predictions, [members, n, outputs].
        y: values, or classes as ones among zeros, [n, outputs].
        least: ratio of standard deviations.
    """
    spread = np.sqrt(out.var(axis=1).sum(axis=-1))
    good = spread >= least * np.sqrt(y.var(axis=0).sum())
    return good if good.any() else np.ones(len(good), bool)


TRAINING = Training(rate=1e-2, tolerance=1e-4)


@dataclass(frozen=True)
class EnsembleDesign:
    """S2's design of an ensemble, and how it is trained.

    Args:
        depth: hidden layers, L.
        width: units of each, D.
        members: N.
        keep: probability that a weight or bias exists, p.
        activation: relu, tanh or silu.
        steps: most steps.
        training: by default full-batch Adam and S2's stopping rule, losses that differ by less than 1e-4; S2 uses
            Adadelta, Training("adadelta", 1.0, tolerance=1e-4), which takes about ten times as many steps.
        bootstrap: train each member on rows drawn with replacement.
        regions: experts on so many regions of the inputs, `members` for each, combined piecewise; 1 for none.
        least_spread: see `included_members`.
    """

    depth: int = 2
    width: int = 50
    members: int = 10
    keep: float = 0.9
    activation: str = "relu"
    steps: int = 2000
    training: Training = TRAINING
    bootstrap: bool = False
    regions: int = 1
    least_spread: float = 0.1

    def fit(self, x: np.ndarray, y: np.ndarray, *, seed: int, classes: int = 0, most: int = 0) -> Ensemble:
        """Train all members together.

        Args:
            x: inputs, [n, d].
            y: values, or class numbers, [n].
            seed: of everything random.
            classes: number of classes, or 0 for regression.
            most: pad the table to so many rows, so that tables of different sizes share a program.
        """
        rng = np.random.default_rng(seed)
        found = Regions.piecewise(x, np.eye(classes)[y.astype(int)] if classes else y[:, None], self.regions)
        where = found.of(x)
        rows = []
        for region in range(found.count):
            mine = np.flatnonzero(where == region)
            rows += [rng.choice(mine, len(mine)) if self.bootstrap else mine for _ in range(self.members)]
        family = Sparse(self.activation, classes)
        seeds = (seed * 2**20 + np.arange(len(rows))).tolist()
        most = max(most, len(y))
        table = Table.padded(x, y, most)
        networks = describe(
            family, [(self.width,) * self.depth] * len(rows), table, rows, seeds=seeds, most=most,
            scale_y=not classes, keep=[self.keep] * len(rows),
        )  # fmt: skip
        cohort = Cohort.new(family, self.training, networks, table).advance(self.steps)
        functions = member_functions(cohort)
        included = np.concatenate([
            included_members(
                functions.some(range(r * self.members, (r + 1) * self.members)).values(x[where == r]),
                np.eye(classes)[y[where == r].astype(int)] if classes else y[where == r, None], self.least_spread,
            )
            for r in range(found.count)
        ])  # fmt: skip
        fitted = Ensemble(
            functions, found if found.count > 1 else None, included, 0.0, classes, np.asarray(cohort.state.step)
        )
        if classes:
            return fitted
        noise = float(np.mean((fitted.predict(x)[0] - y) ** 2))
        return Ensemble(functions, fitted.regions, included, noise, classes, fitted.steps)
