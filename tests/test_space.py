"""Spaces: every point of the cube is a legal value of the right type, and every legal value a point of the cube."""

import json
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage import Choice, Constant, Float, Int, Space
from presage.errors import SpaceError

EPS = sys.float_info.epsilon

# Generated spaces.

numbers = st.floats(-1e9, 1e9, allow_subnormal=False)
options = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(-5, 5), st.text(max_size=3),
    st.tuples(st.integers(0, 2), st.booleans()), st.lists(st.integers(0, 2), max_size=2),
)  # fmt: skip


@st.composite
def plain_floats(draw):
    low = draw(numbers)
    return Float(low, low + draw(st.floats(1e-6, 1e9)))


@st.composite
def log_floats(draw):
    low = draw(st.floats(1e-12, 1e9))
    return Float(low, low * draw(st.floats(1.001, 1e9)), log=True)


@st.composite
def stepped_floats(draw):
    low, step, excess = draw(st.tuples(st.integers(-999, 999), st.integers(1, 99), st.floats(0, 0.9)))
    return Float(low / 100, (low + step * (draw(st.integers(1, 30)) + excess)) / 100, step=step / 100)


@st.composite
def ints(draw):
    log = draw(st.booleans())
    low = draw(st.integers(1 if log else -(10**6), 10**6))
    extent = draw(st.one_of(st.integers(1, 10), st.integers(1, 2**43)))
    return Int(low, low + extent, log=log, step=1 if log else draw(st.integers(1, min(extent, 9))))


choices = st.lists(options, min_size=2, max_size=5, unique_by=json.dumps).map(Choice)
discrete = st.one_of(stepped_floats(), ints(), choices, options.map(Constant))
dimensions = st.one_of(plain_floats(), log_floats(), discrete)


@st.composite
def spaces(draw):
    """Up to five dimensions, about half of them conditional where a discrete one came before."""
    axes = {"d0": draw(st.one_of(plain_floats(), log_floats(), stepped_floats(), ints(), choices))}
    for i in range(1, draw(st.integers(1, 5))):
        axis = draw(dimensions)
        parents = [name for name, parent in axes.items() if parent.levels is not None]
        when = {}
        for parent in draw(st.lists(st.sampled_from(parents), max_size=2, unique=True)) if parents else ():
            when[parent] = [axes[parent].decode(u) for u in draw(st.lists(st.floats(0, 1), min_size=1, max_size=3))]
        if when:
            arguments = {f: getattr(axis, f) for f in axis.__match_args__}
            extra = {f: getattr(axis, f) for f in ("log", "step") if hasattr(axis, f)}
            axis = type(axis)(**arguments, **extra, when=when)
        axes[f"d{i}"] = axis
    return Space(axes)


cells = st.one_of(st.sampled_from([0.0, 1.0, 0.5, math.nan]), st.floats(0, 1))


@st.composite
def spaces_and_points(draw):
    space = draw(spaces())
    return space, np.array(draw(st.lists(cells, min_size=space.dim, max_size=space.dim)))


# What is true of a value, said a second time.


def same(a, b):
    """Equal and of the same type all the way down: True is not 1, and a tuple no list."""
    return repr(a) == repr(b)


def exists(axis, params):
    return all(p in params and any(same(params[p], v) for v in vs) for p, vs in (axis.when or {}).items())


def legal(axis, value):
    match axis:
        case Float(step=None):
            return type(value) is float and axis.low <= value <= axis.high
        case Float():
            low, high, step, exact = (Fraction(repr(v)) for v in (axis.low, axis.high, axis.step, value))
            return type(value) is float and low <= exact <= high and (exact - low) % step == 0
        case Int():
            return type(value) is int and value in range(axis.low, axis.high + 1, axis.step)
        case Choice():
            return any(same(value, option) for option in axis.options)
        case Constant():
            return same(value, axis.value)


def rounding(axis):
    """How far a point of [0, 1] may move on its way to a Float and back: a few roundings of the value."""
    if axis.log:
        return 8 * EPS * (1 + 1 / math.log(axis.high / axis.low))
    return 4 * EPS * max(abs(axis.low), abs(axis.high), axis.high - axis.low) / (axis.high - axis.low)


def agree(space, a, b):
    """Whether points are the same: to the last bit in discrete cells, to rounding in continuous ones."""
    slack = [rounding(space[name]) if space[name].kind == "continuous" else 0.0 for name in space.columns]
    missing = np.isnan(a)
    return np.array_equal(missing, np.isnan(b)) and (missing | (np.abs(a - b) <= slack)).all()


@given(spaces_and_points())
def test_decode_gives_legal_values_of_the_right_type(case):
    space, point = case
    params = space.decode(point)
    assert list(params) == [name for name in space if exists(space[name], params)]
    assert all(legal(space[name], value) for name, value in params.items()), params
    checked = space.check(params)
    assert all(same(checked[name], value) for name, value in params.items())
    assert len(checked) == len(params)


@given(spaces_and_points())
def test_params_go_to_the_cube_and_back(case):
    space, point = case
    params = space.decode(point)
    encoded = space.encode(params)
    assert ((encoded >= 0) & (encoded <= 1) | np.isnan(encoded)).all()
    again = space.decode(encoded)
    assert list(again) == list(params)
    for name, value in params.items():
        if space[name].kind == "continuous":
            u = space.columns.index(name)
            assert abs(space[name].encode(again[name]) - encoded[u]) <= rounding(space[name])
        else:
            assert same(again[name], value)


@given(spaces_and_points())
def test_project_is_idempotent_and_agrees_with_decoding(case):
    space, point = case
    projected = space.project(point)
    assert projected.shape == (1, space.dim)
    assert np.array_equal(space.project(projected), projected, equal_nan=True)
    assert agree(space, space.encode(space.decode(point)), projected[0])
    assert same(space.decode(projected[0]), space.decode(point))
    many = np.random.default_rng(0).random((7, space.dim))
    assert np.array_equal(space.project(many), np.vstack([space.project(p) for p in many]), equal_nan=True)


@given(spaces_and_points())
def test_a_space_survives_json(case):
    space, point = case
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert same(again, space)
    assert same(again.decode(point), space.decode(point))


@given(dimensions.filter(lambda axis: axis.levels is not None and axis.levels <= 200))
def test_uniform_points_are_fair_draws_of_levels(axis):
    count = 50 * axis.levels
    u = (np.arange(count) + 0.5) / count
    hits = np.bincount(axis.bins(u), minlength=axis.levels)
    if getattr(axis, "log", False):  # level v owns the magnitudes from v - 1/2 to v + 1/2
        edges = np.log(np.arange(axis.low, axis.high + 2) - 0.5)
        expected = count * np.diff(edges) / (edges[-1] - edges[0])
        assert np.abs(hits - expected).max() <= 2  # one grid point more or less at either edge
    else:
        assert (hits == 50).all()
        middles = np.bincount(axis.bins(u), weights=u) / hits  # where encode puts a level
        assert np.allclose([axis.encode(axis.decode(middle)) for middle in middles], middles, rtol=1e-13)


@given(dimensions)
def test_bounds_are_reached(axis):
    low, high = axis.decode(0.0), axis.decode(1.0)
    match axis:
        case Float(step=None) | Int(step=1):
            assert (low, high) == (axis.low, axis.high)
        case Float() | Int():
            assert low == axis.low
            assert axis.high - axis.step < high <= axis.high
        case Choice():
            assert same((low, high), (axis.options[0], axis.options[-1]))


# Finite spaces.


def listed(space):
    """Every legal params of a finite space, by nested loops over the values."""
    found = [{}]
    for name, axis in space.items():
        values = [axis.decode(u) for u in axis.center(np.arange(axis.levels))]
        found = [{**p, name: v} for p in found for v in (values if exists(axis, p) else [None])]
        found = [{n: v for n, v in p.items() if n != name or exists(axis, p)} for p in found]
    return [p for p in found if all(rule(p) for rule in space.constraints)]


SMALL = {
    "ints": Space({"a": Int(1, 4), "b": Int(1, 100, log=True)}),
    "kinds": Space({"a": Int(0, 3), "b": Choice(["x", None, (1, 2)]), "c": Constant(7), "d": Float(0, 1, step=0.5)}),
    "conditional": Space({
        "a": Choice([1, True, "two"]), "b": Int(0, 4, when={"a": [1, "two"]}), "c": Choice(["x", ""], when={"b": 0}),
        "d": Float(0, 1, step=0.5, when={"a": "two", "b": [0, 1]}), "e": Constant(0, when={"a": True}),
    }),
    "constrained": Space({"a": Int(0, 9), "b": Int(0, 9)}, constraints=[lambda p: p["a"] < p["b"], lambda p: p["a"]]),
    "nothing legal": Space({"a": Int(0, 9)}, constraints=[lambda p: False]),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_points_are_complete_and_distinct(name):
    space = SMALL[name]
    points = space.points()
    decoded = [repr(space.decode(point)) for point in points]
    assert len(set(decoded)) == len(decoded) == len(points) == space.size
    assert set(decoded) == {repr(params) for params in listed(space)}
    assert np.array_equal(space.project(points), points.reshape(-1, space.dim), equal_nan=True)


def test_points_are_listed_only_where_they_are_few():
    assert Space({"a": Int(1, 2), "b": Float(0, 1)}).points() is None
    assert Space({"a": Int(1, 1000), "b": Int(1, 1000)}).size is None


def test_a_decimal_step_gives_the_decimals_one_writes():
    assert [Float(0, 1, step=0.1).decode(u) for u in (np.arange(11) + 0.5) / 11] == [k / 10 for k in range(11)]


# Values that a user gives.


def test_check_takes_what_means_a_legal_value():
    space = Space({
        "x": Float(0, 1), "n": Int(1, 5), "s": Float(0, 1e6, step=0.001), "c": Choice([1, 2.5, None, (3, 4)]),
        "k": Constant("k"), "d": Int(0, 3, default=2),
    })  # fmt: skip
    given_ = {"x": np.float32(0.5), "n": 3.0, "s": 999_999_001 * 0.001, "c": np.int64(1)}
    assert same(space.check(given_), {"x": 0.5, "n": 3, "s": 999_999.001, "c": 1, "k": "k", "d": 2})
    assert same(space.check({**given_, "n": np.int8(2), "c": [3, 4], "d": 0})["c"], (3, 4))
    assert same(space.check({**given_, "c": 1.0})["c"], 1)


def test_constraints_count_in_check_and_not_in_encode():
    space = Space({"a": Int(0, 9), "b": Int(0, 9)}, constraints=[lambda p: p["a"] < p["b"]])
    assert space.check({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    with pytest.raises(SpaceError, match=r"must satisfy the space's constraints, but got .*'a': 2"):
        space.check({"a": 2, "b": 2})
    assert space.decode(space.encode({"a": 2, "b": 2})) == {"a": 2, "b": 2}
    with pytest.raises(SpaceError, match=r"raised KeyError\('c'\)"):
        Space({"a": Int(0, 9)}, constraints=[lambda p: p["c"]]).check({"a": 1})


X, N, C = Float(0, 1), Int(1, 3), Choice(["a", "b"])
WRONG_SPACES = {
    "empty": (lambda: Space({}), "non-empty dictionary", "{}"),
    "a list": (lambda: Space([X]), "dictionary of dimensions", "Float"),
    "a number": (lambda: Space({"x": 3}), "'x' must be a presage.Float, Int, Choice or Constant", "got 3"),
    "a tuple": (lambda: Space({"x": (0, 1)}), "write presage.Float(low, high)", "(0, 1)"),
    "no name": (lambda: Space({"": X}), "name must be a non-empty string", "''"),
    "all constant": (lambda: Space({"x": Constant(1)}), "at least one dimension must be free", "Constant"),
    "bounds swapped": (lambda: Float(3, 1), "low < high must hold", "low=3.0, high=1.0; swap them"),
    "bounds equal": (lambda: Int(2, 2), "low < high must hold", "is a Constant"),
    "NaN bound": (lambda: Float(math.nan, 1), "low must be a finite number", "nan"),
    "infinite bound": (lambda: Float(0, math.inf), "high must be a finite number", "inf"),
    "text bound": (lambda: Float("0", 1), "low must be a finite number", "'0'"),
    "bool bound": (lambda: Int(False, 3), "whole number", "False"),
    "overflow": (lambda: Float(-1.7e308, 1.7e308), "high - low must be finite", "low=-1.7e+308"),
    "log overflow": (lambda: Float(1e-300, 1e300, log=True), "high / low must be finite", "low=1e-300"),
    "log of zero": (lambda: Float(0, 1, log=True), "low > 0 must hold with log=True", "low=0.0"),
    "log int of zero": (lambda: Int(0, 4, log=True), "low >= 1 must hold with log=True", "low=0"),
    "fraction": (lambda: Int(0.5, 4), "whole number", "0.5"),
    "huge int": (lambda: Int(0, 2**60), "at most 2**44 in size", str(2**60)),
    "step of zero": (lambda: Float(0, 1, step=0), "0 < step <= high - low must hold", "step=0.0"),
    "step too long": (lambda: Float(0, 1, step=2), "0 < step <= high - low must hold", "step=2.0"),
    "step too short": (lambda: Float(1e16, 2e16, step=0.5), "must hold for such bounds", "step=0.5"),
    "step and log": (lambda: Float(1, 2, step=0.1, log=True), "step and log=True do not go together", "Choice"),
    "whole step too long": (lambda: Int(0, 3, step=4), "1 <= step <= high - low must hold", "step=4"),
    "whole step and log": (lambda: Int(1, 9, step=2, log=True), "step and log=True do not go together", "Choice"),
    "off the step": (lambda: Int(1, 9, step=2).check(4), "1 + a multiple of step=2", "got 4"),
    "text of options": (lambda: Choice("abc"), "takes a list of options", "'abc'"),
    "one option": (lambda: Choice(["a"]), "at least two options", "Constant"),
    "twice": (lambda: Choice([1, 2, 1]), "options must differ", "got 1 twice"),
    "an object": (lambda: Choice([print, len]), "something JSON can hold", "use a name for it"),
    "NaN option": (lambda: Choice([math.nan, 1]), "something JSON can hold", "nan"),
    "set constant": (lambda: Constant({1}), "a Constant must be something JSON can hold", "{1}"),
    "when of nothing": (lambda: Space({"n": N, "x": Float(0, 1, when={})}), "when of 'x' must be a dictionary", "{}"),
    "when of a later": (lambda: Space({"x": Float(0, 1, when={"n": 1}), "n": N}), "comes before 'x'", "'n'"),
    "when of a continuum": (lambda: Space({"x": X, "n": Int(1, 3, when={"x": 0.5})}), "must be an Int", "'x'"),
    "when of no value": (lambda: Space({"n": N, "x": Float(0, 1, when={"n": []})}), "gives no value", "never exist"),
    "when of a wrong value": (lambda: Space({"n": N, "x": Float(0, 1, when={"n": 7})}), "1 <= value <= 3", "7"),
    "wrong default": (lambda: Space({"x": Float(0, 1, default=2)}), "the default of 'x'", "got 2.0"),
    "constraint": (lambda: Space({"x": X}, constraints=[True]), "must be callable", "True"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_SPACES)
def test_wrong_spaces_are_explained(case):
    make, *fragments = WRONG_SPACES[case]
    with pytest.raises(SpaceError) as caught:
        make()
    assert all(fragment in str(caught.value) for fragment in fragments), caught.value


GRADED = Float(0, 1, step=0.25)
WRONG_VALUES = {
    "not a dictionary": ([1], "params must be a dictionary", "[1]"),
    "unknown": ({"x": 0, "n": 1, "c": "a", "z": 1}, "may only name ['x', 'n', 'c', 'g', 'w']", "'z'"),
    "missing": ({"n": 1, "c": "a", "g": 0}, "must name 'x'", "default"),
    "below": ({"x": -1, "n": 1, "c": "a", "g": 0}, "'x': 0.0 <= value <= 1.0 must hold", "got -1.0"),
    "NaN": ({"x": math.nan, "n": 1, "c": "a", "g": 0}, "'x': a Float must be a finite number", "nan"),
    "text": ({"x": "0.5", "n": 1, "c": "a", "g": 0}, "'x': a Float must be a finite number", "'0.5'"),
    "bool": ({"x": 0, "n": True, "c": "a", "g": 0}, "'n': an Int must be a whole number", "True"),
    "fraction": ({"x": 0, "n": 1.5, "c": "a", "g": 0}, "'n': an Int must be a whole number", "1.5"),
    "above": ({"x": 0, "n": 4, "c": "a", "g": 0}, "'n': 1 <= value <= 3 must hold", "got 4"),
    "no option": ({"x": 0, "n": 1, "c": "z", "g": 0}, "'c': value must be one of ['a', 'b']", "'z'"),
    "off the grid": ({"x": 0, "n": 1, "c": "a", "g": 0.3}, "low + a multiple of step=0.25", "nearest is 0.25"),
    "absent": ({"x": 0, "n": 1, "c": "b", "g": 0, "w": 1}, "'w' exists only when {'c': ('a',)}", "leave it out"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_wrong_values_are_explained(case):
    params, *fragments = WRONG_VALUES[case]
    space = Space({"x": X, "n": N, "c": C, "g": GRADED, "w": Int(0, 3, when={"c": "a"}, default=1)})
    with pytest.raises(SpaceError) as caught:
        space.check(params)
    assert all(fragment in str(caught.value) for fragment in fragments), caught.value


def test_a_space_is_a_mapping():
    space = Space({"x": X, "k": Constant(3), "c": C})
    assert (list(space), len(space), "k" in space, space["c"]) == (["x", "k", "c"], 3, True, C)
    assert (space.columns, space.kinds, space.levels) == (("x", "c"), ("continuous", "categorical"), (None, 2))
    assert space == Space({"x": Float(0.0, 1.0), "k": Constant(3), "c": Choice(("a", "b"))})
    assert space != Space({"x": X, "k": Constant(4), "c": C})


@given(st.integers(1, 2**44 - 100), st.integers(0, 100))
def test_large_whole_numbers_survive_a_log_axis(low, above):
    axis = Int(low, 2**44, log=True)
    assert axis.decode(axis.encode(low + above)) == low + above


def test_the_first_levels_of_a_log_axis_are_apart():
    axis = Int(1, 2**44, log=True)
    assert [axis.decode(axis.encode(v)) for v in range(1, 200)] == list(range(1, 200))


PLAIN = Space({"x": Float(0, 1), "n": Int(1, 9), "c": Choice(["a", "b"])})
GOOD = {"x": 0.5, "n": 3, "c": "a"}


@pytest.mark.parametrize(
    ("params", "sure"),
    [
        (GOOD, True),
        ({"x": 1.0, "n": 9, "c": "b"}, True),
        ({"x": math.nan, "n": 3, "c": "a"}, False),
        ({"x": 1, "n": 3, "c": "a"}, False),  # legal, but not as it is: 1 becomes 1.0
        ({"x": 0.5, "n": True, "c": "a"}, False),
        ({"x": 0.5, "n": 10, "c": "a"}, False),
        ({"x": -0.1, "n": 3, "c": "a"}, False),
        ({"x": 0.5, "n": 3, "c": "z"}, False),
        ({"n": 3, "x": 0.5, "c": "a"}, False),  # legal, but in another order
        ({"x": 0.5, "n": 3}, False),
        ({"x": [0.5], "n": 3, "c": "a"}, False),
        (None, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("where", [0, 1, 2])
def test_what_is_seen_at_one_glance_is_what_a_closer_look_says(params, sure, where):
    many = [dict(GOOD), dict(GOOD)]
    many.insert(where, params)
    assert PLAIN.surely(many) is sure
    if sure:
        assert [PLAIN.complete(one) for one in many] == many


def test_spaces_with_more_to_them_take_a_closer_look():
    for axis in (Float(0, 1, step=0.5), Int(0, 4, step=2), Constant(1)):
        assert not Space({"x": Float(0, 1), "y": axis}).surely([{"x": 0.5, "y": 1}])
