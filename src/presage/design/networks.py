"""Networks as objectives that train in steps: every design is scored on rows that its networks do not learn from."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from presage.design.resumable import Job, Resumable
from presage.networks.ensemble import Sparse, member_functions
from presage.networks.functions import Functions
from presage.networks.mlp import Shape
from presage.networks.programs import start
from presage.networks.training import Cohort, Networks, Table, Training, describe
from presage.networks.variational import Variational, posterior
from presage.space import Choice, Float, Int, Space

__all__ = ["EnsembleObjective", "Fitted", "NetworkObjective", "VariationalObjective", "folds_of"]

# Widths that programs are compiled for, each depth by itself: padding a small network to 3 x 64 makes its steps ten
# times as dear, and a program costs as much as a thousand steps.
BUCKETS = (16, 32, 64, 128, 256, 1024)
TINY = 1e-12  # least variance, in units of the values' own
CHUNK = 50  # steps of one call of a program
PROGRAMS: dict[Any, Any] = {}  # compiled; a search with the same table's shape finds them again
MOST_PROGRAMS = 64
SCORED = 1000  # most rows that a fold is scored on


def folds_of(count: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to be scored on: three folds, or beyond 10,000 rows a fifth kept back."""
    order = rng.permutation(count)
    if count > 10_000:
        return [(order[count // 5 :], order[: count // 5][:SCORED])]
    parts = np.array_split(order, 3)
    return [(np.concatenate([*parts[:i], *parts[i + 1 :]]), part[:SCORED]) for i, part in enumerate(parts)]


@dataclass(frozen=True)
class Fitted:
    """Trained networks as plain functions; each is one equally weighted part of the predictive law.

    Attributes:
        functions: outputs [functions, n, 1 or 2]; the second, if there is one, adds to the log variance of the noise.
        log_noise: log variance of the noise of each function, in units of the values, [functions].
    """

    functions: Functions
    log_noise: np.ndarray

    def law(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the parts, [functions, n] each."""
        out = self.functions.values(x)
        log_noise = np.broadcast_to(self.log_noise[:, None], out.shape[:2])
        if out.shape[2] > 1:
            log_noise = log_noise + np.clip(out[..., 1], -20.0, 20.0)
        return out[..., 0], np.exp(log_noise)


@dataclass
class NetworkObjective(Resumable):
    """Designs of networks for a table of numbers, scored by the mean negative log density of rows kept back.

    Args:
        x: inputs, [n, d].
        y: values, [n].
        steps: of a whole training.
        folds: rows to learn from and to be scored on, one network or ensemble for each.
        penalty: nats added to the score for every factor e in the number of weights (S2's further work).
        batch: most rows of a minibatch.
    """

    x: np.ndarray
    y: np.ndarray
    steps: int
    folds: list[tuple[np.ndarray, np.ndarray]]
    penalty: float = 0.0
    batch: int = 512

    @abstractmethod
    def space(self) -> Space:
        """The designs that are searched by default."""

    @abstractmethod
    def first(self) -> list[dict[str, Any]]:
        """Designs of that space that do well on many tables; the first of them is always trained to the end."""

    @abstractmethod
    def family(self, params: dict[str, Any]) -> Any:
        """What programs are compiled for."""

    def training(self, params: dict[str, Any]) -> Training:
        """How networks are trained."""
        batch = None if len(self.y) <= self.batch else self.batch
        return Training(rate=params.get("rate", 1e-2), decay=self.steps, batch=batch, chunk=CHUNK)

    @abstractmethod
    def members(self, params: dict[str, Any]) -> int:
        """Networks for each fold."""

    @abstractmethod
    def options(self, params: dict[str, Any]) -> dict[str, float]:
        """Numbers of the family."""

    @abstractmethod
    def fitted(
        self, cohort: Cohort, which: Sequence[int], rows: np.ndarray, params: dict[str, Any], seed: int
    ) -> Fitted:
        """Some networks of a cohort, that learned from these rows, as functions."""

    @cached_property
    def table(self) -> Table:
        return Table(jnp.asarray(self.x, jnp.float32), jnp.asarray(self.y, jnp.float32))

    def widths(self, params: dict[str, Any]) -> tuple[int, ...]:
        """Of the hidden layers: each its own (width_1, width_2, ...), or one, times a shrink from layer to layer."""
        depth = params.get("depth", 1)
        if "width_1" in params:
            return tuple(params[f"width_{layer}"] for layer in range(1, depth + 1))
        return tuple(max(1, round(params["width"] * params.get("shrink", 1.0) ** layer)) for layer in range(depth))

    def weights(self, params: dict[str, Any]) -> int:
        """How many weights and biases a design has."""
        sizes = [self.x.shape[1], *self.widths(params), 1]
        return self.members(params) * sum((a + 1) * b for a, b in pairwise(sizes))

    def work(self, params: dict[str, Any]) -> float:
        """Multiplications of a padded network, and as much again for what every network costs."""
        width, depth = self._bucket(params), len(self.widths(params))
        return self.members(params) * (width * (self.x.shape[1] + 1) + (depth - 1) * width**2 + 1000.0)

    def _bucket(self, params: dict[str, Any]) -> int:
        return next((size for size in BUCKETS if size >= max(self.widths(params))), max(self.widths(params)))

    def cohort(self, params: dict[str, Any], rows: Sequence[np.ndarray], seeds: Sequence[int]) -> Cohort:
        """Untrained networks of a design, one for each list of rows."""
        family = self.family(params)
        widths = self.widths(params)
        options = {name: [value] * len(rows) for name, value in self.options(params).items()}
        networks: Networks = describe(
            family, [widths] * len(rows), Table(self.x, self.y), rows, seeds, most=len(self.y), **options  # type: ignore[arg-type]
        )  # fmt: skip
        shape = Shape(self.x.shape[1], len(widths), self._bucket(params), family.outputs())
        training = self.training(params)
        networks = jax.tree.map(jnp.asarray, networks)
        cohort = Cohort(family, training, shape, networks, self.table, start(family, training, shape, networks))
        return self._with_program(cohort)

    def _with_program(self, cohort: Cohort) -> Cohort:
        """A program is compiled once for all cohorts of a shape."""
        key = (cohort.family, cohort.training, cohort.shape, cohort.networks.rows.shape, cohort.table.x.shape)
        if key not in PROGRAMS:
            if len(PROGRAMS) >= MOST_PROGRAMS:
                PROGRAMS.pop(next(iter(PROGRAMS)))
            PROGRAMS[key] = cohort.compile().program
        cohort.program = PROGRAMS[key]
        return cohort

    def advance(self, jobs: Sequence[Job], until: Sequence[int]) -> list[float]:
        values = []
        with _cpu():
            for job, step in zip(jobs, until, strict=True):
                if job.state is None:
                    members = self.members(job.params)
                    rows = [learn for learn, _ in self.folds for _ in range(members)]
                    job.state = self.cohort(job.params, rows, _seeds(job.seed, len(rows)))
                job.state.advance(step)
                values.append(self.score(job))
        return values

    def score(self, job: Job) -> float:
        """Mean negative log density of the rows kept back, over all folds."""
        log_density = np.concatenate([mixture_log_density(*law) for law in self.kept_back(job)])
        value = -float(log_density.mean()) + self.penalty * float(np.log(self.weights(job.params)))
        return value if np.isfinite(value) else 1e6  # diverged: as bad as can be, and never continued

    def kept_back(self, job: Job) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each fold the values of the rows kept back, [rows], and means and variances of the parts of their law by
        the networks that did not see them, [parts, rows] each."""
        members, found = self.members(job.params), []
        for f, (learn, rows) in enumerate(self.folds):
            fitted = self.fitted(job.state, range(f * members, (f + 1) * members), learn, job.params, job.seed + f)
            found.append((self.y[rows], *fitted.law(self.x[rows])))
        return found

    def refit(self, params: dict[str, Any], seed: int) -> Fitted:
        """Networks of a design trained on all rows, as many as there are folds: the program is compiled already."""
        with _cpu():
            members, copies = self.members(params), len(self.folds)
            rows = np.arange(len(self.y))
            seeds = _seeds(seed + 7, copies * members)
            cohort = self.cohort(params, [rows] * (copies * members), seeds).advance(self.steps)
            parts = [
                self.fitted(cohort, range(c * members, (c + 1) * members), rows, params, seed + c)
                for c in range(copies)
            ]
        return joined(parts)

    def write(self, job: Job, path: Path) -> None:
        job.state.save(path)

    def read(self, job: Job, path: Path) -> None:
        with _cpu():
            family, training = self.family(job.params), self.training(job.params)
            job.state = self._with_program(Cohort.load(path, family, training, self.table))


@dataclass
class VariationalObjective(NetworkObjective):
    """Variational networks (S4): depth, width, shrink, activation, noise by a second head or not, prior, rate.

    Args:
        draws: functions drawn from each network.
        samples: Monte Carlo samples in training.
    """

    draws: int = 50
    samples: int = 3

    def space(self) -> Space:
        return Space({
            "depth": Int(1, 3), "width": Int(4, 128, log=True),
            "shrink": Choice([0.5, 1.0], when={"depth": [2, 3]}), "activation": Choice(["relu", "tanh"]),
            "heteroskedastic": Choice([False, True]),
        })  # fmt: skip

    def first(self) -> list[dict[str, Any]]:
        # Depths and widths are about those that together do best on the tables of benchmarks/architecture_search.py;
        # the cheapest is first, since the first one is trained to the end.
        return [
            {"depth": 1, "width": 20, "activation": "tanh", "heteroskedastic": True},
            {"depth": 2, "width": 25, "shrink": 1.0, "activation": "relu", "heteroskedastic": False},
            {"depth": 3, "width": 12, "shrink": 1.0, "activation": "relu", "heteroskedastic": True},
        ]

    def family(self, params: dict[str, Any]) -> Variational:
        head = bool(params.get("heteroskedastic", False))
        return Variational(
            params.get("activation", "relu"), head, samples=self.samples, head_delay=self.steps // 5 if head else 0,
            hyperprior=None if "prior_variance" in params else Variational.hyperprior, initial_stddev=0.03,
        )  # fmt: skip

    def members(self, params: dict[str, Any]) -> int:
        return 1

    def options(self, params: dict[str, Any]) -> dict[str, float]:
        return {"prior_variance": params["prior_variance"]} if "prior_variance" in params else {}

    def fitted(
        self, cohort: Cohort, which: Sequence[int], rows: np.ndarray, params: dict[str, Any], seed: int
    ) -> Fitted:
        parts = []
        head = float(cohort.state.step[which[0]]) >= cohort.family.head_delay
        for network in which:
            one = posterior(cohort, network)
            functions = one.draw(self.draws, np.random.default_rng([seed, network]))
            if functions.outputs > 1 and not head:  # the second head has not joined yet
                functions.weights[-1][..., 1] = 0.0
                functions.biases[-1][..., 1] = 0.0
            log_noise = one.log_noise + 2.0 * np.log(one.y_scale)
            parts.append(Fitted(functions, np.full(self.draws, log_noise)))
        return joined(parts)


@dataclass
class EnsembleObjective(NetworkObjective):
    """Sparse ensembles (S2): L = depth, D = width, N = members, p = keep."""

    def space(self) -> Space:
        return Space({
            "depth": Int(1, 3), "width": Int(4, 64, log=True), "members": Int(2, 16, log=True),
            "keep": Float(0.3, 1.0), "activation": Choice(["relu", "tanh"]),
        })  # fmt: skip

    def first(self) -> list[dict[str, Any]]:
        return [
            {"depth": 2, "width": 25, "members": 8, "keep": 0.8, "activation": "relu"},
            {"depth": 1, "width": 20, "members": 8, "keep": 0.8, "activation": "tanh"},
        ]

    def family(self, params: dict[str, Any]) -> Sparse:
        return Sparse(params.get("activation", "relu"))

    def members(self, params: dict[str, Any]) -> int:
        return int(params["members"])

    def options(self, params: dict[str, Any]) -> dict[str, float]:
        return {"keep": params["keep"]}

    def fitted(
        self, cohort: Cohort, which: Sequence[int], rows: np.ndarray, params: dict[str, Any], seed: int
    ) -> Fitted:
        functions = member_functions(cohort).some(list(which))
        # The law of a new value is one normal law about the members' mean: their spread and the noise. As parts of a
        # mixture, each member has the noise that gives the whole its mean squared error on the rows learned from.
        noise = float(np.mean((functions.values(self.x[rows])[..., 0].mean(axis=0) - self.y[rows]) ** 2))
        return Fitted(functions, np.full(functions.count, np.log(max(noise, TINY * float(self.y.var())))))


def _seeds(seed: int, count: int) -> list[int]:
    return [seed * 4096 + i for i in range(count)]


def _cpu() -> Any:
    return jax.default_device(jax.devices("cpu")[0])


def joined(parts: Sequence[Fitted]) -> Fitted:
    """Networks of one shape as one mixture."""
    first = parts[0].functions
    weights = tuple(np.concatenate(arrays) for arrays in zip(*(part.functions.weights for part in parts), strict=True))
    biases = tuple(np.concatenate(arrays) for arrays in zip(*(part.functions.biases for part in parts), strict=True))
    return Fitted(Functions(weights, biases, first.activation), np.concatenate([part.log_noise for part in parts]))


def mixture_log_density(y: np.ndarray, mean: np.ndarray, variance: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Log density of values [n] under equal mixtures of normal laws [parts, n], whose spread is stretched by `scale`.

    Stretched is the whole mixture about its mean: both the parts' own spread and their distances.
    """
    middle = mean.mean(axis=0)
    inner = middle + (y - middle) / scale
    each = -0.5 * (np.log(2.0 * np.pi * variance) + (inner - mean) ** 2 / variance)
    return np.logaddexp.reduce(each, axis=0) - np.log(len(each)) - np.log(scale)
