"""Training many networks at a time: state in, state out, going on from where it stopped."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from presage.networks.mlp import Array, Shape, padded_widths
from presage.networks.programs import Family, Networks, State, Table, Training, advance_chunk, foretell, start

__all__ = ["Cohort", "Networks", "State", "Table", "Training", "describe"]

ALIGN = 8  # widths are padded to multiples: the tensor cores of a GPU run others at half the speed or less


def describe(
    family: Family, architectures: Sequence[Sequence[int]], table: Table, rows: Sequence[np.ndarray],
    seeds: Sequence[int], *, most: int = 0, scale_y: bool = True, **options: Sequence[float],
) -> Networks:  # fmt: skip
    """Networks that standardise inputs and values by their own rows.

    Args:
        family: of all of them.
        architectures: widths of the hidden layers of each.
        table: inputs and values.
        rows: of the table, for each network.
        seeds: one for each.
        most: pad the lists of rows to so many, so that programs for different data have one shape.
        scale_y: False to leave values, such as class numbers, alone.
        options: numbers of the family, for each network.
    """
    depth = max(len(widths) for widths in architectures)
    x, y = np.asarray(table.x, dtype=np.float64), np.asarray(table.y, dtype=np.float64)
    most = max(most, *(len(one) for one in rows))
    moments: dict[int, tuple[np.ndarray, ...]] = {}
    for one in rows:  # the same rows are often given to many networks
        if id(one) not in moments:
            moments[id(one)] = (
                x[one].mean(axis=0),
                _positive(x[one].std(axis=0)),
                y[one].mean(),
                _positive(y[one].std()),
            )
    center, scale, y_center, y_scale = (
        np.array(part) for part in zip(*(moments[id(one)] for one in rows), strict=True)
    )
    if not scale_y:
        y_center, y_scale = np.zeros(len(rows)), np.ones(len(rows))
    return Networks(
        np.array([[seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF] for seed in seeds], dtype=np.uint32),
        np.array([padded_widths(widths, depth) for widths in architectures]),
        np.array([np.pad(one, (0, most - len(one))) for one in rows], dtype=np.int32),
        np.array([len(one) for one in rows], dtype=np.int32),
        center.astype(np.float32), scale.astype(np.float32), y_center.astype(np.float32), y_scale.astype(np.float32),
        {
            name: np.broadcast_to(np.asarray(options.get(name, default), dtype=np.float32), len(seeds))
            for name, default in family.options.items()
        },
    )  # fmt: skip


def _positive(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > 0.0, scale, 1.0)


@dataclass
class Cohort:
    """Networks of one padded shape that are trained together.

    Example:
        >>> from presage.networks.variational import Variational
        >>> table = Table(np.linspace(-1, 1, 20)[:, None], np.linspace(-1, 1, 20) ** 2)
        >>> family, training = Variational(samples=2), Training(chunk=5)
        >>> networks = describe(family, [(3,), (2, 4)], table, [np.arange(20)] * 2, seeds=[0, 1])
        >>> cohort = Cohort.new(family, training, networks, table).advance(10)
        >>> cohort.state.step.tolist()
        [10, 10]
    """

    family: Any
    training: Training
    shape: Shape
    networks: Networks
    table: Table
    state: State
    program: Any = None

    @staticmethod
    def new(family: Any, training: Training, networks: Networks, table: Table) -> "Cohort":
        """Untrained networks."""
        table = Table(jnp.asarray(table.x, jnp.float32), jnp.asarray(table.y, jnp.float32))
        widths = networks.widths
        width = -(-int(widths.max()) // ALIGN) * ALIGN
        shape = Shape(table.x.shape[1], widths.shape[1], width, family.outputs())
        networks = jax.tree.map(jnp.asarray, networks)
        return Cohort(family, training, shape, networks, table, start(family, training, shape, networks))

    def compile(self) -> "Cohort":
        """Compile the training now, in whatever thread this is, instead of at the first step."""
        args = (self.family, self.training, self.shape, self.networks, self.table, self.state, self.state.step)
        self.program = advance_chunk.lower(*args).compile()
        return self

    def restart(self) -> "Cohort":
        """Before the first step again."""
        self.state = start(self.family, self.training, self.shape, self.networks)
        return self

    def advance(self, until: int | np.ndarray) -> "Cohort":
        """Train each network up to its step `until` or until it stops; those beyond it stay as they are."""
        count = len(self.networks.sizes)
        goal = jnp.broadcast_to(jnp.asarray(until, jnp.int32), (count,))
        left = int(np.max(np.where(self.state.stopped, 0, np.asarray(goal) - np.asarray(self.state.step)), initial=0))
        for _ in range(-(-left // self.training.chunk)):
            if self.program is None:
                self.compile()
            self.state = self.program(self.networks, self.table, self.state, goal)
            if self.training.tolerance is not None and bool(np.all(self.state.stopped | (self.state.step >= goal))):
                break
        return self

    def advance_while_better(
        self, until: int, rows: Sequence[np.ndarray], *, every: int, patience: int, samples: int = 100
    ) -> "Cohort":
        """Train each network until its log density on rows it does not learn from has not risen for some time.

        Every network ends with the parameters that were best.

        Args:
            until: most steps.
            rows: for each network.
            every: steps between evaluations.
            patience: evaluations without a better one, after which a network stops.
            samples: of each evaluation.
        """
        count = len(self.networks.sizes)
        best, since, kept = np.full(count, -np.inf), np.zeros(count, int), self.state
        while np.any(going := ~np.asarray(self.state.stopped) & (np.asarray(self.state.step) < until)):
            step = int(np.asarray(self.state.step)[going].min()) + every
            self.advance(np.where(going, min(step, until), np.asarray(self.state.step)))
            found = self.evaluate(rows, samples)[0]
            better = found > best
            best, since = np.where(better, found, best), np.where(better, 0, since + going)
            kept = jax.tree.map(lambda new, old: jnp.where(_rows(better, new), new, old), self.state, kept)  # noqa: B023
            self.state = self.state._replace(stopped=self.state.stopped | jnp.asarray(since >= patience))
        self.state = kept
        return self

    def evaluate(self, rows: Sequence[np.ndarray], samples: int = 100, salt: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Mean log density and RMSE of each network on its own rows."""
        most = max(len(one) for one in rows)
        mask = np.arange(most) < np.array([len(one) for one in rows])[:, None]
        log_density, error = self.foretell(np.array([np.pad(one, (0, most - len(one))) for one in rows]), samples, salt)
        share = mask / mask.sum(axis=1, keepdims=True)
        return (share * log_density).sum(axis=1), np.sqrt((share * error**2).sum(axis=1))

    def foretell(self, rows: np.ndarray, samples: int = 100, salt: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Log density and error of each row, [networks, m] each."""
        found = foretell(
            self.family, self.shape, self.networks, self.table, self.state, rows.astype(np.int32), np.int32(salt),
            samples,
        )  # fmt: skip
        return np.asarray(found[0], dtype=np.float64), np.asarray(found[1], dtype=np.float64)

    def save(self, path: str | Path) -> None:
        """Write networks and state to a .npz file; the table is not among it."""
        leaves = jax.tree_util.tree_flatten_with_path({"networks": self.networks, "state": self.state})[0]
        arrays = {jax.tree_util.keystr(where): np.asarray(leaf) for where, leaf in leaves}
        about = {"family": asdict(self.family), "training": asdict(self.training), "shape": list(self.shape)}
        np.savez(path, about=np.array(json.dumps(about)), **arrays, allow_pickle=False)

    @staticmethod
    def load(path: str | Path, family: Any, training: Training, table: Table) -> "Cohort":
        """Read what `save` wrote, to go on with the same table."""
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            if about["family"] != _plain(asdict(family)):
                raise ValueError(f"{path} holds networks of {about['family']}, not of {asdict(family)}")
            shape = Shape(*about["shape"])
            options = {name: file[f"['networks'].options['{name}']"] for name in family.options}
            networks = Networks(*(options if n == "options" else file[f"['networks'].{n}"] for n in Networks._fields))
            networks = jax.tree.map(jnp.asarray, networks)
            like = jax.eval_shape(lambda n: start(family, training, shape, n), networks)
            paths, tree = jax.tree_util.tree_flatten_with_path({"state": like})
            leaves = [jnp.asarray(file[jax.tree_util.keystr(where)]) for where, _ in paths]
            state = jax.tree_util.tree_unflatten(tree, leaves)["state"]
        table = Table(jnp.asarray(table.x, jnp.float32), jnp.asarray(table.y, jnp.float32))
        return Cohort(family, training, shape, networks, table, state)


def _rows(mask: np.ndarray, like: Array) -> Array:
    """A mask of networks, in the rank of one of their arrays."""
    return jnp.asarray(mask).reshape(-1, *[1] * (like.ndim - 1))


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value))
