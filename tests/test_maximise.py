"""The maximiser on functions whose maximum is known, over every kind of domain."""

from dataclasses import replace

import numpy as np
import pytest

from presage import Choice, Float, Int, Space
from presage.observations import columns_of
from presage.proposers import Domain, Maximiser
from presage.proposers.slide import slide
from presage.space import point_key

NOWHERE = np.empty((0, 0))


def domain(space, tried=()):
    def legal(points):
        return np.array([space.satisfies(space.decode(point)) for point in points], dtype=bool)

    def key(point):
        return point_key(space.decode(point))

    taken = {point_key(params) for params in tried}
    points = space.points()
    remaining = None if points is None else points[[key(point) not in taken for point in points]]
    return Domain(columns_of(space), space.project, legal, key, taken, remaining)


def search(space, values, gradients, seed=0, anchors=NOWHERE, **settings):
    found = Maximiser(**settings)(values, gradients, domain(space), anchors, rng=np.random.default_rng(seed))
    points, worth = found
    assert (np.diff(worth) <= 0).all(), "in falling order"
    assert np.array_equal(space.project(points), points, equal_nan=True), "legal points only"
    assert all(space.satisfies(space.decode(point)) for point in points[:50])
    assert np.array_equal(values(points), worth)
    return points, worth


CUBE = Space({f"x{i}": Float(0, 1) for i in range(4)})
LOW, HIGH = np.array([0.2, 0.8, 0.3, 0.6]), np.array([0.75, 0.15, 0.9, 0.35])


def two_hills(x):
    """A wide hill of height 1 and a narrow one of height 2 (0.001 of the cube is above the lower one)."""
    total, slope = 0.0, 0.0
    for height, center, width in ((1.0, LOW, 0.4), (2.0, HIGH, 0.15)):
        part = height * np.exp(-0.5 * ((x - center) ** 2).sum(axis=1) / width**2)
        total = total + part
        slope = slope - part[:, None] * (x - center) / width**2
    return total, slope


@pytest.mark.parametrize("seed", range(5))
def test_the_higher_of_two_hills(seed):
    points, worth = search(CUBE, lambda x: two_hills(x)[0], two_hills, seed)
    assert np.abs(points[0] - HIGH).max() < 0.01  # the foot of the wide hill moves the top a little
    assert worth[0] > 2.0
    _, unimproved = search(CUBE, lambda x: two_hills(x)[0], None, seed, sweeps=0, generations=0)
    assert worth[0] > unimproved[0] + 0.01
    _, evolved = search(CUBE, lambda x: two_hills(x)[0], None, seed)
    assert worth[0] > evolved[0] > worth[0] - 0.01


@pytest.mark.parametrize("dim", [1, 2, 8])
@pytest.mark.parametrize(
    "means", [{"sweeps": 0, "generations": 30}, {"generations": 0}, {}], ids=["cma", "slide", "both"]
)
def test_steps_without_slopes_are_climbed(dim, means):
    """A staircase, as trees make: flat almost everywhere, its top 1/40 wide; candidates alone do not find it."""
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    goal = 0.3 + 0.4 * np.arange(dim) / dim

    def stairs(x):
        return -np.floor(40.0 * np.abs(x - goal)).sum(axis=1) / dim

    for seed in range(3):
        found = search(space, stairs, None, seed, **means)[1][0]
        assert found == 0.0 if dim < 8 or "sweeps" not in means else found > -1.0
        assert found >= search(space, stairs, None, seed, sweeps=0, generations=0)[1][0]


@pytest.mark.parametrize("means", [{"sweeps": 0, "generations": 30}, {"generations": 0}], ids=["cma", "slide"])
def test_searches_without_slopes_keep_to_the_constraints(means):
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, constraints=[lambda p: p["x"] + p["y"] < 1])
    points, worth = search(space, lambda x: x.sum(axis=1), None, **means)
    assert 0.999 < worth[0] < 1.0
    assert points[0].sum() < 1.0


def test_a_ridge_across_the_columns_is_climbed_by_evolution_where_single_columns_are_stuck():
    """Along the diagonal of a narrow ridge every step in one column alone leads down."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]

    def ridge(x):
        away = (x - 0.4) @ turn
        return -np.square(away * [1.0, 30.0, 30.0, 30.0]).sum(axis=1)

    def left(**means):
        return -np.mean([search(CUBE, ridge, None, seed, **means)[1][0] for seed in range(4)])

    assert left(generations=60) < 0.5 * left(generations=0)


def test_absent_cells_stay_absent_while_others_slide():
    space = Space({"c": Choice(["p", "q"]), "x": Float(0, 1), "z": Float(0, 1, when={"c": "q"})})
    start = np.array([[0.25, 0.9, np.nan], [0.75, 0.9, 0.1]])

    def values(x):
        return -np.square(np.nan_to_num(x[:, 1:] - 0.4)).sum(axis=1)

    continuous = np.array([False, True, True])
    rng = np.random.default_rng(0)
    points, worth = slide(values, domain(space), start, values(start), continuous, 8, rng)
    assert np.array_equal(np.isnan(points), np.isnan(start))
    assert np.array_equal(points[:, 0], start[:, 0])
    np.testing.assert_array_equal(worth, values(points))
    assert worth.min() > -1e-3


def test_a_box_holds_every_point():
    box = np.array([[0.2, 0.3, 0.4, 0.5], [0.3, 0.5, 0.9, 0.6]])
    for gradients in (two_hills, None):
        where = replace(domain(CUBE), box=box)
        points, worth = Maximiser()(
            lambda x: two_hills(x)[0], gradients, where, LOW[None], rng=np.random.default_rng(0)
        )
        assert ((points >= box[0]) & (points <= box[1])).all()
        best = np.clip(HIGH, *box)  # by far the nearest of the box to the higher hill
        assert worth[0] >= two_hills(best[None])[0][0] - 0.05


def test_a_maximum_in_a_corner():
    points, worth = search(CUBE, lambda x: x.sum(axis=1), lambda x: (x.sum(axis=1), np.ones_like(x)))
    assert np.array_equal(points[0], np.ones(4))
    assert worth[0] == 4.0


def test_anchors_help_where_the_hill_is_narrow():
    """A needle of width 1e-3 that no candidate over the cube can see."""

    def needle(x):
        part = np.exp(-0.5 * ((x - HIGH) ** 2).sum(axis=1) / 1e-6)
        return part, -part[:, None] * (x - HIGH) / 1e-6

    blind = search(CUBE, lambda x: needle(x)[0], needle)[1][0]
    anchored = search(CUBE, lambda x: needle(x)[0], needle, anchors=HIGH[None] + 2e-3)[1][0]
    assert blind < 1e-6
    assert anchored > 0.999


MIXED = Space({"n": Int(0, 99), "c": Choice(list("abcde")), "x": Float(0, 1), "y": Float(0, 1)})


def mixed(x):
    """Greatest, 1.5, at n = 70, c = d, x = 0.295, y = 0.3; the best x follows n."""
    level = np.floor(5 * x[:, 1])
    top = 1.0 - 20 * (x[:, 0] - 0.705) ** 2 + 0.5 * (level == 3)
    dx, dy = x[:, 2] - (1 - x[:, 0]), x[:, 3] - 0.3
    slope = np.zeros_like(x)
    slope[:, 2], slope[:, 3] = -20 * dx, -20 * dy
    return top - 10 * (dx**2 + dy**2), slope


@pytest.mark.parametrize("seed", range(3))
def test_discrete_and_continuous_columns_together(seed):
    points, worth = search(MIXED, lambda x: mixed(x)[0], mixed, seed)
    best = MIXED.decode(points[0])
    assert best["c"] == "d"
    assert abs(best["n"] - 70) <= 1
    assert worth[0] > 1.5 - 20 * 0.01**2 - 1e-6
    assert worth[0] > search(MIXED, lambda x: mixed(x)[0], None, seed)[1][0]


def test_many_discrete_columns_end_where_no_neighbour_is_better():
    space = Space({**{f"n{i}": Int(0, 9) for i in range(8)}, **{f"c{i}": Choice(list("abcd")) for i in range(4)}})
    goal = space.encode({name: 3 if name[0] == "n" else "b" for name in space})

    def values(x):
        return -np.abs(x - goal).sum(axis=1)

    points, worth = search(space, values, None)
    assert worth[0] == 0.0, space.decode(points[0])


CONDITIONAL = Space({
    "k": Choice(["plain", "deep"]), "x": Float(0, 1), "n": Int(1, 500, when={"k": "deep"}),
    "y": Float(0, 1, when={"k": "deep"}),
})  # fmt: skip


@pytest.mark.parametrize("deep_is_better", [True, False])
def test_conditional_columns(deep_is_better):
    def values(x):
        return gradients(x)[0]

    def gradients(x):
        deep = x[:, 0] > 0.5
        assert np.array_equal(deep, ~np.isnan(x[:, 2]))
        assert np.array_equal(deep, ~np.isnan(x[:, 3]))
        gap = np.where(deep, x[:, 3] - 0.25, 0.0)
        top = np.where(deep, (1.0 if deep_is_better else -1.0) - np.nan_to_num(x[:, 2]), 0.0)
        slope = np.zeros_like(x)
        slope[:, 1], slope[:, 3] = -2 * (x[:, 1] - 0.6), -2 * gap
        return top - (x[:, 1] - 0.6) ** 2 - gap**2, slope

    best = CONDITIONAL.decode(search(CONDITIONAL, values, gradients)[0][0])
    assert best["x"] == pytest.approx(0.6, abs=1e-3)
    if deep_is_better:
        assert (best["k"], best["n"]) == ("deep", 1)
        assert best["y"] == pytest.approx(0.25, abs=1e-3)
    else:
        assert best == {"k": "plain", "x": best["x"]}


@pytest.mark.parametrize("width", [1.0, 0.02])
def test_constraints_hold_and_cost_little(width):
    """The free maximum at (0.9, 0.9) is forbidden; the best legal point is on the line x + y = 1."""
    rules = [lambda p: p["x"] + p["y"] < 1, lambda p: p["x"] + p["y"] > 1 - width]
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, constraints=rules)

    def gradients(x):
        return -((x - 0.9) ** 2).sum(axis=1), -2 * (x - 0.9)

    _, worth = search(space, lambda x: gradients(x)[0], gradients, anchors=np.array([[0.45, 0.54]]))
    assert -0.34 < worth[0] < -0.32  # at (1/2, 1/2) it is -0.32


@pytest.mark.parametrize("d", [4, 8])
def test_the_best_legal_point_on_a_face_is_come_near_in_more_dimensions(d):
    """The maximum of a hill under sum(x) <= 0.45 d is where its top falls on that face; climbs run against it."""
    space = Space({f"x{i}": Float(0, 1) for i in range(d)}, constraints=[lambda p: sum(p.values()) <= 0.45 * d])
    top = np.linspace(0.5, 0.75, d)

    def gradients(x):
        return -50 * ((x - top) ** 2).sum(axis=1), -100 * (x - top)

    _, worth = search(space, lambda x: gradients(x)[0], gradients, anchors=np.full((1, d), 0.3))
    highest = -50 * (top.sum() - 0.45 * d) ** 2 / d
    assert 1.1 * highest < worth[0] <= highest + 1e-9  # climbs taken back whole came to 1.3 and 1.6 times


def test_one_start_is_climbed_from():
    _, worth = search(CUBE, lambda x: two_hills(x)[0], two_hills, starts=1)
    assert worth[0] > 2.0


def test_nothing_legal_but_one_level():
    space = Space({"n": Int(0, 10**6), "x": Float(0, 1)}, constraints=[lambda p: p["n"] % 1000 == 7])
    points, _ = search(space, lambda x: x[:, 1], lambda x: (x[:, 1], np.tile([0.0, 1.0], (len(x), 1))))
    assert space.decode(points[0])["x"] == 1.0


def test_small_finite_spaces_are_exhausted():
    space = Space({"n": Int(0, 30), "m": Int(0, 30)}, constraints=[lambda p: p["n"] != p["m"]])
    tried = [{"n": 0, "m": 1}, {"n": 1, "m": 0}]

    def values(x):
        return -(x[:, 0] + x[:, 1])

    points, worth = Maximiser()(values, None, domain(space, tried), NOWHERE, rng=np.random.default_rng(0))
    assert len(points) == 31 * 30 - 2
    best = [space.decode(point) for point in points[:2]]
    assert sorted((p["n"], p["m"]) for p in best) == [(0, 2), (2, 0)]
    assert (np.diff(worth) <= 0).all()


def test_nan_is_worth_nothing():
    def values(x):
        return np.where(x[:, 0] > 0.5, np.nan, x[:, 0])

    points, worth = Maximiser()(values, None, domain(CUBE), NOWHERE, rng=np.random.default_rng(0))
    assert points[0, 0] <= 0.5
    assert worth[-1] == -np.inf


def test_the_generator_decides():
    one, again, other = (search(CUBE, lambda x: two_hills(x)[0], two_hills, seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one[:5], other[:5])


def test_among_many_hills_more_starts_are_looked_at():
    """The best of 48 hills instead of the best of 8, in twenty searches; up to ten columns nothing changes."""

    def best(d, seed, **settings):
        space = Space({f"x{i}": Float(0, 1) for i in range(d)})
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]

        def hills(x):
            """Of many heights, along axes that are not those of the cube."""
            z = (x - 0.5) @ turn
            return (0.1 * np.cos(6.0 * np.pi * z) - z**2).sum(axis=1)

        free = Domain(columns_of(space), lambda x: x, lambda x: np.ones(len(x), dtype=bool), lambda point: None)
        return Maximiser(**settings)(hills, None, free, NOWHERE, rng=np.random.default_rng(seed))[1][0]

    pairs = [[best(12, seed, entrants=n, generations=0) for n in (48, 0)] for seed in range(20)]
    more, fewer = np.mean(pairs, axis=0)
    assert more > fewer + 0.02  # a hill more or less is 0.1
    assert best(10, 0, entrants=48) == best(10, 0, entrants=0)
