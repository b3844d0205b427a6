"""Learned codes: the autoencoder against differences and principal components, the search on a curved surface."""

import io

import numpy as np
import pytest

from presage import Choice, Float, Int, Space, Study
from presage.kernels import Axes
from presage.observations import Column, columns_of, observe
from presage.proposers import Domain, LearnedCode, Maximiser, ModelBased
from presage.proposers.autoencoder import learn, loss
from presage.proposers.learned_code import ROWS, coded, to_cube
from presage.space import point_key
from presage.surrogates import GaussianProcess

pytestmark = pytest.mark.usefixtures("one_thread")

D = 20
SLOPES = np.random.default_rng(5).normal(0.0, 1.0, (D, 2))
PHASES = np.random.default_rng(6).uniform(0.0, 6.28, D)


def surface(t):
    """Points of a curved surface in 20 dimensions, [n, D], for places [n, 2]."""
    return 0.5 + 0.35 * np.sin(3.0 * t @ SLOPES.T + PHASES)


EXAMPLES = surface(np.random.default_rng(1).random((120, 2)))
CUBE = Space({f"x{i}": Float(0, 1) for i in range(D)})
TARGET = surface(np.array([[0.63, 0.21]]))[0]


def off_target(params):
    return float(np.square(np.array([params[f"x{i}"] for i in range(D)]) - TARGET).sum())


def light():
    return ModelBased(GaussianProcess(), maximiser=Maximiser(spread=128, local=64, starts=4))


def domain(space):
    def legal(points):
        return np.array([space.satisfies(space.decode(point)) for point in points], dtype=bool)

    return Domain(columns_of(space), space.project, legal, lambda point: point_key(space.decode(point)))


def test_the_loss_has_its_derivative():
    rng = np.random.default_rng(0)
    z, share = rng.standard_normal((7, 5)), rng.random(7)
    weights = 0.5 * rng.standard_normal(2 * 5 * 2 + 5 + 3 * (2 * 5 + 2 * 2 + 2))
    _, gradient = loss(weights, z, share, 2, 3)
    h = 1e-6
    for j in range(len(weights)):
        step = h * (np.arange(len(weights)) == j)
        up, down = (loss(weights + s * step, z, share, 2, 3)[0] for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-7)


def lost(code, x):
    return np.square(code.decode(code.encode(x)) - x).sum() / np.square(x - x.mean(axis=0)).sum()


def test_a_flat_surface_is_told_by_its_principal_components():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 10))
    code = learn(x, np.ones(40), 2, 8, evaluations=1, rng=rng)  # not a step of learning
    assert lost(code, x) < 0.01  # the curved part is there already, a tenth as large
    code = learn(x, np.ones(40), 2, 8, evaluations=200, rng=rng)
    assert lost(code, x) < 1e-4
    codes = code.encode(x)
    assert ((codes > 0.0) & (codes < 1.0)).all()


def test_a_curved_surface_is_told_where_principal_components_are_not_enough():
    code = learn(EXAMPLES, np.ones(120), 2, 32, evaluations=300, rng=np.random.default_rng(0))
    new = surface(np.random.default_rng(2).random((200, 2)))
    away = EXAMPLES - EXAMPLES.mean(axis=0)
    variance = np.linalg.svd(away, compute_uv=False) ** 2
    flat = 1.0 - variance[:2].sum() / variance.sum()  # what two principal components lose
    assert flat > 0.15
    assert lost(code, new) < 0.1 * flat


def test_few_and_equal_examples_have_a_code():
    for x in (np.full((4, 6), 0.3), np.random.default_rng(0).random((4, 6))):
        code = learn(x, np.ones(4), 5, 4, evaluations=20, rng=np.random.default_rng(0))
        assert np.isfinite(code.encode(x)).all()
        assert np.isfinite(code.decode(np.random.default_rng(1).random((9, 5)))).all()


def test_values_off_the_surface_count_for_little():
    code = learn(EXAMPLES - 0.5, np.ones(120), 2, 32, evaluations=300, rng=np.random.default_rng(0))
    x = np.vstack([surface(np.random.default_rng(2).random((10, 2))), np.random.default_rng(3).random((10, D))])
    columns = (Column("continuous"),) * D
    table = coded(observe(x, np.arange(20.0), columns), code, Axes(columns))
    assert table.x.shape == (20, 2)
    assert table.noise[:10].max() < 0.1
    assert table.noise[10:].min() > 0.3


def test_a_search_in_the_code_finds_the_target_on_the_surface():
    def best(**settings):
        return Study(CUBE, seed=0, **settings).optimize(off_target, trials=25).best.value

    code = LearnedCode(2, EXAMPLES, whole=0, base=light())
    assert best(acquisition=code, initial=1) < 0.05 * best(surrogate="random")


MIXED = Space(
    {
        "a": Float(1e-3, 10, log=True), "n": Int(1, 50), "c": Choice(["p", "q", "r"]),
        "z": Float(0, 1, when={"c": "q"}), "w": Float(-1, 1),
    },
    constraints=[lambda params: params["w"] <= params["n"] / 50],
)  # fmt: skip


@pytest.mark.parametrize("given", [False, True])
def test_points_are_legal_distinct_and_repeatable(given):
    place, rng = domain(MIXED), np.random.default_rng(0)
    x = place.random(12, rng)
    data = observe(x, np.nansum(x, axis=1), place.columns)
    proposer = LearnedCode(2, place.random(30, rng) if given else None, base=light())
    found, state = [], {}
    for _ in range(2):
        points, state, info = proposer.propose({}, data, place, 5, rng=np.random.default_rng(1))
        assert len(points) == 5
        assert np.array_equal(MIXED.project(points), points, equal_nan=True)
        assert place.legal(points).all()
        assert len({place.key(point) for point in points}) == 5
        assert info["source"] in ("code", "whole")
        assert all(isinstance(array, np.ndarray) for array in state.values())
        found.append(points)
    np.testing.assert_array_equal(found[0], found[1])
    with io.BytesIO() as file:  # as a storage keeps it
        np.savez(file, **state)
        file.seek(0)
        kept = dict(np.load(file))
    again = proposer.propose(kept, data, place, 1, rng=np.random.default_rng(2))
    same = proposer.propose(state, data, place, 1, rng=np.random.default_rng(2))
    np.testing.assert_array_equal(again.points, same.points)


def test_any_code_stands_for_a_point_of_the_cube():
    axes = Axes(columns_of(MIXED))
    x = domain(MIXED).random(20, np.random.default_rng(0))
    code = learn(axes.features(x), np.ones(20), 3, 8, evaluations=50, rng=np.random.default_rng(0))
    codes = np.random.default_rng(1).uniform(-3.0, 4.0, (100, 3))
    points = to_cube(code, codes, axes)
    assert ((points >= 0.0) & (points <= 1.0)).all()
    levels = points[:, 2] * 3 - 0.5  # a category is the middle of its cell
    np.testing.assert_allclose(levels, np.round(levels), atol=1e-9)
    assert len(np.unique(np.round(levels))) > 1


def test_without_examples_the_code_is_learned_again_as_values_come_in():
    place = domain(CUBE)
    proposer = LearnedCode(2, base=light(), evaluations=20)
    x = np.random.default_rng(0).random((16, D))
    y = np.square(x - TARGET).sum(axis=1)

    def asked(state, n):
        return proposer.propose(state, observe(x[:n], y[:n], place.columns), place, 1, rng=np.random.default_rng(n))

    assert asked({}, 3).info["source"] == "random"
    state = asked({}, 10).state
    assert int(state[ROWS]) == 10
    assert int(asked(state, 12).state[ROWS]) == 10
    renewed = asked(state, 13).state
    assert int(renewed[ROWS]) == 13
    assert not np.array_equal(renewed["code.weights"], state["code.weights"])


def test_a_whole_study_without_examples():
    def values():
        study = Study(CUBE, acquisition=LearnedCode(2, base=light(), evaluations=50), seed=0, initial=5)
        return [trial.value for trial in study.optimize(off_target, trials=14).trials]

    found = values()
    assert found == values()
    assert min(found[5:]) < min(found[:5])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dim": 0}, "dim >= 1"), ({"width": 0}, "width >= 1"), ({"whole": -1}, "whole >= 0"),
        ({"evaluations": 0}, "evaluations >= 1"), ({"examples": np.zeros((2, 3))}, "4 points or more"),
        ({"examples": np.zeros(5)}, "one per row"), ({"examples": np.full((5, 3), 2.0)}, "unit cube"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_said(settings, words):
    with pytest.raises(ValueError, match=words):
        LearnedCode(**settings)


def test_examples_come_first_even_where_values_are_noisy():
    """Then the model: four values on the surface are enough to begin with, whatever their own noise."""
    place, proposer = domain(CUBE), LearnedCode(2, EXAMPLES.tolist(), whole=0, base=light())
    x = surface(np.random.default_rng(2).random((4, 2)))
    for n, source in ((3, None), (4, "code")):
        data = observe(x[:n], np.arange(float(n)), place.columns, stddev=np.full(n, 5.0))
        found = proposer.propose({}, data, place, 1, rng=np.random.default_rng(0))
        assert found.info.get("source") == "code"
        assert ("acquisition" in found.info) == (source is not None)


def test_examples_must_have_the_columns_of_the_space():
    place = domain(CUBE)
    data = observe(np.zeros((0, D)), np.zeros(0), place.columns)
    with pytest.raises(ValueError, match="must have 20 columns, but have 3"):
        LearnedCode(examples=np.zeros((5, 3))).propose({}, data, place, 1, rng=np.random.default_rng(0))
