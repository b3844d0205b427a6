"""The search space: the only place where users' values and points of the unit cube meet."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from presage.dimensions import Choice, Constant, Dimension, Float, Int, from_json, json_key
from presage.errors import SpaceError

__all__ = ["Choice", "Constant", "Float", "Int", "Space", "point_key"]

Params = dict[str, Any]
Constraint = Callable[[Params], bool]

ENUMERABLE = 20_000  # finite spaces up to this size are listed; larger ones are searched like infinite ones
NOT_A_DIMENSION = "must be a presage.Float, Int, Choice or Constant"


class Space(Mapping[str, Dimension]):
    """Named dimensions, with optional constraints over their joint values.

    On the unit cube each dimension but a Constant has one column; a cell is NaN where its dimension does not exist
    under the other values (see `when`).

    Args:
        dimensions: the axes by name. An axis named in another's `when` comes before it.
        constraints: callables on a params dictionary, or a single one; a point is legal where all of them are true.

    Example:
        >>> space = Space({"layers": Int(1, 3), "width2": Int(8, 64, log=True, when={"layers": [2, 3]})})
        >>> space.decode([0.1, 0.5])
        {'layers': 1}
        >>> space.decode([0.9, 1.0])
        {'layers': 3, 'width2': 64}
    """

    def __init__(
        self, dimensions: Mapping[str, Dimension], *, constraints: Constraint | Iterable[Constraint] = ()
    ):  # fmt: skip
        if not isinstance(dimensions, Mapping) or not dimensions:
            raise SpaceError(f"a Space takes a non-empty dictionary of dimensions, but got {dimensions!r}")
        self._dimensions: dict[str, Dimension] = {}
        self._parents: dict[str, dict[str, np.ndarray]] = {}  # name -> parent -> levels under which name exists
        self._wanted: dict[str, dict[str, set[str]]] = {}  # the same as JSON texts of the parent's values
        for name, dimension in dimensions.items():
            self._add(name, dimension)
        if not callable(constraints) and not isinstance(constraints, Iterable):
            raise SpaceError(f"constraints must be a list of callables, but got {constraints!r}")
        self.constraints: tuple[Constraint, ...] = (constraints,) if callable(constraints) else tuple(constraints)
        for constraint in self.constraints:
            if not callable(constraint):
                raise SpaceError(f"a constraint must be callable with a params dictionary, but got {constraint!r}")
        self.columns: tuple[str, ...] = tuple(n for n, d in self._dimensions.items() if not isinstance(d, Constant))
        if not self.columns:
            raise SpaceError("at least one dimension must be free, but all of them are Constant")
        self._index = {name: column for column, name in enumerate(self.columns)}
        self._points: tuple[bool, list[np.ndarray]] | None = None  # whether they are too many to list, and they
        self._quick = self._quick_checks()

    def _quick_checks(self) -> tuple[tuple[str, ...], tuple[type, ...], tuple[tuple[Any, ...], ...]] | None:
        """What is surely legal as it is: names, types, and bounds or texts; None for spaces with more to it.

        A study with 100,000 trials is opened in a quarter of the time.
        """
        kinds: list[type] = []
        checks: list[tuple[Any, ...]] = []
        for axis in self._dimensions.values():
            if (
                axis.when is not None
                or isinstance(axis, Constant)
                or (isinstance(axis, Float) and axis.step is not None)
                or (isinstance(axis, Int) and axis.step > 1)
            ):
                return None
            if isinstance(axis, Float | Int):
                kinds.append(float if isinstance(axis, Float) else int)
                checks.append((axis.low, axis.high, None))
            else:
                kinds.append(str)
                texts = frozenset(option for option in getattr(axis, "options", ()) if type(option) is str)
                checks.append(("", "", texts))
        return tuple(self._dimensions), tuple(kinds), tuple(checks)

    def _add(self, name: str, dimension: Dimension) -> None:
        if not isinstance(name, str) or not name:
            raise SpaceError(f"a dimension's name must be a non-empty string, but got {name!r}")
        if not isinstance(dimension, Dimension):
            raise SpaceError(
                f"dimension {name!r} {NOT_A_DIMENSION}, but got {dimension!r}; write presage.Float(low, high)"
            )
        if dimension.when is not None:
            dimension, self._parents[name] = self._resolve(name, dimension)
        if dimension.default is not None:
            try:
                dimension = replace(dimension, default=dimension.check(dimension.default))
            except SpaceError as error:
                raise SpaceError(f"the default of {name!r}: {error}") from None
        self._dimensions[name] = dimension

    def _resolve(self, name: str, dimension: Dimension) -> tuple[Dimension, dict[str, np.ndarray]]:
        """Check a condition and put it in its canonical form."""
        if not isinstance(dimension.when, Mapping) or not dimension.when:
            raise SpaceError(
                f"when of {name!r} must be a dictionary such as {{'layers': [2, 3]}}, but got {dimension.when!r}"
            )
        when: dict[str, tuple[Any, ...]] = {}
        levels: dict[str, np.ndarray] = {}
        for parent, values in dimension.when.items():
            if parent not in self._dimensions:
                raise SpaceError(
                    f"when of {name!r} names {parent!r}, which must be a dimension that comes before {name!r}"
                )
            axis = self._dimensions[parent]
            if axis.levels is None:
                raise SpaceError(
                    f"when of {name!r} names {parent!r}, which must be an Int, a Choice or a Float with step"
                )
            many = list(values) if isinstance(values, list | tuple | range | set | frozenset) else [values]
            try:
                when[parent] = tuple(axis.check(value) for value in many)
            except SpaceError as error:
                raise SpaceError(f"when of {name!r}, for {parent!r}: {error}") from None
            if isinstance(values, set | frozenset):  # of texts it has another order in every process
                when[parent] = tuple(sorted(when[parent], key=axis.encode))
            if not many:
                raise SpaceError(f"when of {name!r} gives no value for {parent!r}, so {name!r} would never exist")
            self._wanted.setdefault(name, {})[parent] = {json_key(value, "a condition") for value in when[parent]}
            levels[parent] = axis.bins(np.array([axis.encode(value) for value in when[parent]]))
        return replace(dimension, when=when), levels

    # The mapping.
    def __getitem__(self, name: str) -> Dimension:
        return self._dimensions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dimensions)

    def __len__(self) -> int:
        return len(self._dimensions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(tuple(self._dimensions))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {dimension!r}" for name, dimension in self.items())
        return f"Space({{{inside}}}{', constraints=...' if self.constraints else ''})"

    # Its shape on the unit cube.
    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Per column: continuous, ordinal or categorical."""
        return tuple(self[name].kind for name in self.columns)

    @property
    def levels(self) -> tuple[int | None, ...]:
        """Per column: number of legal values, None for a continuum."""
        return tuple(self[name].levels for name in self.columns)

    @property
    def conditional(self) -> bool:
        """Whether some dimension does not always exist."""
        return bool(self._parents)

    # Between params and the cube.
    def check(self, params: Mapping[str, Any]) -> Params:
        """The legal params that `params` stand for: right types, constants and defaults filled in.

        Raises:
            SpaceError: names the dimension, the rule and the value; constraints count.
        """
        full = self.complete(params)
        if not self.satisfies(full):
            raise SpaceError(f"params must satisfy the space's constraints, but got {full}")
        return full

    def complete(self, params: Mapping[str, Any]) -> Params:
        """As `check`, without the constraints."""
        if type(params) is not dict and not isinstance(params, Mapping):  # the second question takes long
            raise SpaceError(f"params must be a dictionary, but got {params!r}")
        if self._quick is not None and (tuple(params), tuple(map(type, params.values()))) == self._quick[:2]:
            for (low, high, texts), value in zip(self._quick[2], params.values(), strict=True):
                if not low <= value <= high if texts is None else value not in texts:
                    break
            else:
                return dict(params)
        unknown = [name for name in params if name not in self._dimensions]
        if unknown:
            raise SpaceError(f"params may only name {list(self)}, but got {unknown[0]!r}")
        full: Params = {}
        for name, dimension in self._dimensions.items():
            if not self._exists(name, full):
                if name in params:
                    raise SpaceError(
                        f"{name!r} exists only when {dict(dimension.when or {})}; leave it out of {dict(params)}"
                    )
                continue
            if name in params:
                try:
                    full[name] = dimension.check(params[name])
                except SpaceError as error:
                    raise SpaceError(f"{name!r}: {error}") from None
            elif isinstance(dimension, Constant):
                full[name] = dimension.value
            elif dimension.default is not None:
                full[name] = dimension.default
            else:
                raise SpaceError(
                    f"params must name {name!r}, but got {dict(params)}; give it, or give the dimension a default"
                )
        return full

    def surely(self, many: Sequence[Any]) -> bool:
        """Whether all of them are legal and complete as they are; False also where only `complete` can tell."""
        if self._quick is None or set(map(type, many)) != {dict}:
            return False
        names, kinds, checks = self._quick
        if set(map(tuple, many)) != {names}:
            return False
        columns = zip(*(params.values() for params in many), strict=True)
        return all(
            set(map(type, column)) == {kind}
            and (low <= min(column) and max(column) <= high if texts is None else texts.issuperset(column))
            and (kind is not float or math.isfinite(sum(column)))  # a NaN hides from min and max
            for column, kind, (low, high, texts) in zip(columns, kinds, checks, strict=True)
        )

    def _exists(self, name: str, params: Params) -> bool:
        # By JSON text, in which True is not 1.
        return all(p in params and json_key(params[p], p) in keys for p, keys in self._wanted.get(name, {}).items())

    def satisfies(self, params: Params) -> bool:
        """Whether every constraint holds."""
        for constraint in self.constraints:
            try:
                if not constraint(dict(params)):
                    return False
            except Exception as error:
                remedy = "a constraint must work for every point of the space, conditional dimensions may be missing"
                raise SpaceError(f"constraint {constraint!r} raised {error!r} for {params}; {remedy}") from error
        return True

    def encode(self, params: Mapping[str, Any]) -> np.ndarray:
        """The point of the unit cube for legal params, [dim]."""
        full = self.complete(params)
        point = np.full(self.dim, np.nan)
        for column, name in enumerate(self.columns):
            if name in full:
                point[column] = self[name].encode(full[name])
        return point

    def decode(self, point: Sequence[float] | np.ndarray) -> Params:
        """The legal params nearest to a point of the unit cube; cells of dimensions that do not exist are ignored."""
        params: Params = {}
        for name, dimension in self._dimensions.items():
            if self._exists(name, params):
                column = self._index.get(name)
                value = 0.5 if column is None else point[column]
                params[name] = dimension.decode(0.5 if np.isnan(value) else value)
        return params

    def project(self, points: np.ndarray) -> np.ndarray:
        """Legal points next to the given ones, [n, dim]: discrete columns snapped, absent cells NaN. Idempotent."""
        out = np.array(points, dtype=float, ndmin=2)
        out[np.isnan(out)] = 0.5
        for column, name in enumerate(self.columns):  # parents come first
            out[:, column] = np.where(self._present(name, out), self[name].snap(out[:, column]), np.nan)
        return out

    # Finite spaces.
    @property
    def size(self) -> int | None:
        """Number of legal points if the space is finite and small enough to list, else None."""
        points = self.points()
        return None if points is None else len(points)

    def points(self) -> np.ndarray | None:
        """Every legal point, [size, dim], of a finite space small enough to list; else None."""
        if self._points is None:
            grid = self._grid()
            self._points = (grid is None, [])
            if grid is not None:
                self._points[1].extend(point for point in grid if self.satisfies(self.decode(point)))
        infinite, points = self._points
        return None if infinite else np.array(points).reshape(len(points), self.dim)

    def _grid(self) -> np.ndarray | None:
        """Every point, legal or not, [n, dim], cells of absent axes NaN; None where there are too many to list."""
        grid = np.empty((1, 0))
        for name in self.columns:
            present = self._present(name, grid)
            count = self[name].levels
            if present.any() and (count is None or present.sum() * count + (~present).sum() > ENUMERABLE):
                return None
            values = self[name].center(np.arange(count or 0))
            whole = np.column_stack([np.repeat(grid[present], len(values), axis=0), np.tile(values, present.sum())])
            grid = np.vstack([whole, np.column_stack([grid[~present], np.full((~present).sum(), np.nan)])])
        order = np.lexsort(np.nan_to_num(grid, nan=-1.0).T[::-1])
        return grid[order]

    def _present(self, name: str, grid: np.ndarray) -> np.ndarray:
        """In which rows of points whose earlier columns are NaN where they are absent an axis exists, [n]."""
        present = np.ones(len(grid), dtype=bool)
        for parent, levels in self._parents.get(name, {}).items():
            column = self._index.get(parent)
            if column is None:  # a Constant, which has one level
                present &= self._present(parent, grid) & bool(np.isin(0, levels))
            else:
                level = self[parent].bins(np.nan_to_num(grid[:, column]))
                present &= ~np.isnan(grid[:, column]) & np.isin(level, levels)
        return present

    # As plain data.
    def to_json(self) -> dict[str, Any]:
        """Plain data from which `from_json` makes an equal space; constraints are only counted."""
        return {
            "dimensions": [[name, dimension.to_json()] for name, dimension in self.items()],
            "constraints": len(self.constraints),
        }

    @staticmethod
    def from_json(payload: Mapping[str, Any], constraints: Iterable[Constraint] = ()) -> "Space":
        """The space that `to_json` wrote; constraints are callables and must be given again."""
        return Space({name: from_json(axis) for name, axis in payload["dimensions"]}, constraints=constraints)


def point_key(params: Params) -> str:
    """A text that is the same for the same params only."""
    return json_key(params, "params")
