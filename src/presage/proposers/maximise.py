"""Where an acquisition is largest."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from presage import lbfgs
from presage.proposers.base import Domain
from presage.proposers.evolve import evolve
from presage.proposers.slide import slide
from presage.sobol import sobol

Values = Callable[[np.ndarray], np.ndarray]
Gradients = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

JUMPS = np.array([-13, -5, -2, -1, 1, 2, 5, 13])  # steps tried on ordinal columns, in levels
SPANS = np.array([-0.1, -0.03, -0.01, 0.01, 0.03, 0.1])  # and of the whole range: a log axis has no even levels
MOST_LEVELS = 12  # categories tried per column and round
MANY = 10  # columns above which more starts are looked at, briefly


@dataclass(frozen=True)
class Maximiser:
    """Many candidates, then the best of them improved: L-BFGS on continuous columns, neighbours on discrete ones.

    Where the posterior has no gradients, steps along single columns and CMA-ES take the place of L-BFGS.

    Args:
        spread: Sobol candidates over the whole cube.
        local: candidates around the best observed points.
        starts: candidates that are improved.
        evaluations: quasi-Newton evaluations per start and round.
        sweeps: over single columns, in the first round; in each further one half as many.
        generations: of CMA-ES per start and round.
        steps: changes of single discrete columns per round.
        rounds: alternations between continuous and discrete columns.
        entrants: where there are no gradients, and more than ten columns, so many candidates are improved a little and
            the best go on. Of 40 cases with trees in 12 and 20 dimensions 6 missed 0.99 of the best known expected
            improvement without it, 2 with it; processes missed it in none, and their studies got no better by it.
    """

    spread: int = 1024
    local: int = 512
    starts: int = 8
    evaluations: int = 50
    sweeps: int = 20
    generations: int = 20
    steps: int = 50
    rounds: int = 4
    entrants: int = 48

    def __call__(
        self,
        values: Values,
        gradients: Gradients | None,
        domain: Domain,
        anchors: np.ndarray,
        *,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Legal points in falling order of value, [m, d] and [m]. Finite spaces small enough to list are exhausted.

        Args:
            values: the acquisition at points [n, d].
            gradients: the same with derivatives, None where there are none.
            domain: where to look.
            anchors: the best points observed, best first, [a, d].
            rng: draws the candidates.
        """
        if domain.remaining is not None:
            return _ranked(domain.remaining, values(domain.remaining))
        groups = [_ranked(points, values(points)) for points in self.candidates(domain, anchors, rng=rng)]
        # Half of the starts from each group: in many dimensions the neighbours of good points outbid every point of
        # the open cube, and no start would be left to find a better hill.
        race = gradients is None and len(domain.columns) > MANY and self.entrants > self.starts
        share = -(-(self.entrants if race else self.starts) // len(groups))
        best, best_worth = (np.concatenate([group[part][:share] for group in groups]) for part in (0, 1))
        if race:
            brief = replace(self, evaluations=10, sweeps=3, generations=0, steps=1, rounds=1)
            found = _ranked(*brief._improve(values, gradients, domain, best, best_worth, rng))
            best, best_worth = (part[: self.starts] for part in found)
        best, best_worth = self._improve(values, gradients, domain, best, best_worth, rng)
        points, worth = (np.concatenate([group[part] for group in groups]) for part in (0, 1))
        return _ranked(np.concatenate([best, points]), np.concatenate([best_worth, worth]))

    def fewer(self, times: int) -> "Maximiser":
        """The same with so many times fewer candidates."""
        return replace(self, spread=self.spread // times, local=self.local // times)

    def candidates(self, domain: Domain, anchors: np.ndarray, *, rng: np.random.Generator) -> list[np.ndarray]:
        """Legal points from everywhere and, where there are anchors, from around them."""
        groups = (self._spread(domain, rng), self._near(domain, anchors, rng))
        return [points for points in groups if len(points)]

    def _spread(self, domain: Domain, rng: np.random.Generator) -> np.ndarray:
        """Candidates from everywhere."""
        points = domain.inside(sobol(self.spread, len(domain.columns), rng))
        legal = points[domain.legal(points)]
        if len(legal) >= self.starts:
            return legal
        # Where legal points are rare each costs hundreds of others, so a few per start must do.
        return np.concatenate([legal, domain.random(8 * self.starts, rng)])

    def _near(self, domain: Domain, anchors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Candidates around good points, from very near to a third of the cube away."""
        if not len(anchors):
            return anchors
        d = len(domain.columns)
        base = anchors[rng.integers(len(anchors), size=self.local)]
        base = np.where(np.isnan(base), rng.random(base.shape), base)
        width = 10.0 ** rng.uniform(-4.0, -0.5, (self.local, 1))
        moved = rng.random(base.shape) < np.maximum(0.5, 1.0 / d)
        near = np.where(moved, base + width * rng.standard_normal(base.shape), base)
        # Most discrete cells of a neighbour stay; those that move may go anywhere.
        jumped = np.where(rng.random(base.shape) < 1.0 / d, rng.random(base.shape), base)
        discrete = np.array([column.levels is not None for column in domain.columns])
        points = domain.project(np.clip(np.where(discrete, jumped, near), *domain.bounds))
        return points[domain.legal(points)]

    def _improve(
        self, values: Values, gradients: Gradients | None, domain: Domain, points: np.ndarray, worth: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        continuous = np.array([column.levels is None for column in domain.columns])
        for turn in range(self.rounds):
            if continuous.any() and gradients is not None:
                points, worth, stopped = self._climb(gradients, domain, points, worth, continuous)
                if stopped.any():
                    found = points[stopped], worth[stopped]
                    found = slide(values, domain, *found, continuous, self.sweeps >> turn, rng)
                    points[stopped], worth[stopped] = evolve(values, domain, *found, continuous, self.generations, rng)
            elif continuous.any():
                points, worth = slide(values, domain, points, worth, continuous, self.sweeps >> turn, rng)
                points, worth = evolve(values, domain, points, worth, continuous, self.generations, rng)
            if continuous.all():
                break
            before = worth
            for _ in range(self.steps):
                points, worth, changed = _step(values, domain, points, worth, rng)
                if not changed:
                    break
            if (worth == before).all():
                break
        return points, worth

    def _climb(
        self, gradients: Gradients, domain: Domain, points: np.ndarray, worth: np.ndarray, continuous: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Move the continuous columns to a local maximum, and tell which climbs were stopped by the constraints.

        What is not legal is a wall. A climb ends there although the best place may be further along it.
        """
        free, stopped = continuous & ~np.isnan(points), np.zeros(len(points), dtype=bool)

        def negative(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            at = np.where(free, x, points)
            value, gradient = gradients(at)
            outside = ~domain.legal(at)
            stopped[outside] = True
            return np.where(outside, np.inf, -value), np.where(free, -gradient, 0.0)

        start = np.where(free, points, 0.0)
        lower, upper = np.where(free[None], domain.bounds[:, None], 0.0)
        found = lbfgs.minimize(
            negative, start, lower, upper, evaluations=self.evaluations, gradient_tol=1e-4, value_tol=1e-7
        )
        moved, better = np.where(free, found.x, points), -found.value > worth
        return np.where(better[:, None], moved, points), np.where(better, -found.value, worth), stopped


def _step(
    values: Values, domain: Domain, points: np.ndarray, worth: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Replace each point by the best of its neighbours that differ in one discrete column."""
    neighbours, owner = [], []
    for i, point in enumerate(points):
        filled = np.where(np.isnan(point), rng.random(len(point)), point)
        for j, column in enumerate(domain.columns):
            if column.levels is None or np.isnan(point[j]):
                continue
            if column.kind == "categorical":
                cells = (rng.permutation(column.levels)[:MOST_LEVELS] + 0.5) / column.levels
            else:
                cells = np.clip(point[j] + np.concatenate([JUMPS / column.levels, SPANS]), 0.0, 1.0)
            for cell in cells:
                other = filled.copy()
                other[j] = cell
                neighbours.append(other)
                owner.append(i)
    around = domain.project(np.array(neighbours))
    legal = domain.legal(around)
    around, owners = around[legal], np.array(owner)[legal]
    if not len(around):
        return points, worth, False
    found = values(around)
    points, worth, changed = points.copy(), worth.copy(), False
    for k in np.argsort(-found):
        i = owners[k]
        if found[k] > worth[i] + 1e-9:
            points[i], worth[i], changed = around[k], found[k], True
    return points, worth, changed


def _ranked(points: np.ndarray, worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    worth = np.where(np.isnan(worth), -np.inf, worth)
    order = np.argsort(-worth, kind="stable")
    return points[order], worth[order]
