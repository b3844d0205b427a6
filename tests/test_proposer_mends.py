"""What once went wrong in trust regions, embeddings, learned codes and portfolios."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from presage import Float, Int, Space, Study
from presage.errors import SpaceExhausted
from presage.observations import Column, observe
from presage.proposers import Embedding, LearnedCode, ModelBased, Portfolio, RandomSearch, TrustRegion, base
from presage.proposers.nested import equal, joined, split
from presage.proposers.portfolio import GAINS, NOMINEES
from presage.proposers.trust_region import FIRST, SMALLEST, _Region
from presage.surrogates import GaussianProcess
from test_maximise import domain
from test_proposers import bowl, cube, light, stored

pytestmark = pytest.mark.usefixtures("one_thread")

CORNERED = Space(
    {name: Float(0, 1) for name in "abcd"},
    constraints=[lambda params: params["a"] > params["b"] + 0.05, lambda params: params["c"] > params["d"] + 0.05],
)


# Trust regions.


@pytest.fixture
def ended():
    """A table whose last region ends while seven of its points are pending, and the state that says so."""
    rng = np.random.default_rng(0)
    x = np.vstack([rng.random((20, 3)), 0.2 + 0.002 * rng.standard_normal((14, 3))])
    x[33] = x[22]  # tried before, as replicates are
    pending = np.isin(np.arange(34), [3, 20, 21, 27, 28, 30, 33])  # some of them slower than later ones
    values = np.square(x - 0.2).sum(axis=1) + 1.0
    return x, values, pending, _Region(SMALLEST * 1.01, 0, 2, 26, 1.0).write()


def told(x, values, pending):
    return observe(x, np.where(pending, np.nan, values), (Column("continuous"),) * 3, pending=pending)


def test_what_was_pending_when_a_region_ended_does_not_count_for_the_next(ended):
    x, values, pending, state = ended
    proposer, place = TrustRegion(light()), domain(cube(3))

    def asked(state, x, values, pending):
        return proposer.propose(stored(state), told(x, values, pending), place, 1, rng=np.random.default_rng(1))

    found = asked(state, x, values, pending)
    assert found.info["source"] == "restart"
    assert (
        int(found.state["region.since"]) == 26
    )  # the place that is pending again has two rows, neither of them counts
    for late in ([20, 21, 27], [3, 28, 30, 33]):
        pending = pending & ~np.isin(np.arange(34), late)
        found = asked(found.state, x, values, pending)
        assert found.info["source"] == "restart", "they are no points of the new start"
        assert float(found.state["region.best"]) == np.inf
        assert int(found.state["region.good"]) == 0
    new = np.vstack([np.random.default_rng(2).random((5, 3)), [[0.9, 0.9, 0.9]]])
    values = np.append(values, [9.0, 9.0, 9.0, 9.0, 9.0, 2.0])
    found = asked(found.state, np.vstack([x, new]), values, np.zeros(40, dtype=bool))
    assert found.info["source"] == "region"
    assert (found.points >= 0.9 - FIRST / 2).all(), "around the best new point, not around the old optimum"
    assert float(found.state["region.best"]) == pytest.approx(2.0)


def test_a_stored_region_that_does_not_say_what_was_left_out_is_read(ended):
    x, values, *_ = ended
    data = told(x, values, np.zeros(34, dtype=bool))
    state = _Region(0.4, 1, 2, 30, 1.5, 27).write()
    old = {name: array for name, array in state.items() if name != "region.left"}
    assert _Region.read(old, data) == _Region(0.4, 1, 2, 30, 1.5, 27)
    np.testing.assert_array_equal(_Region.read(old, data).rows(data), np.arange(27, 34))
    found = TrustRegion(light()).propose(old, data, domain(cube(3)), 1, rng=np.random.default_rng(0))
    assert found.info["source"] == "region"
    assert stored(found.state)["region.left"].shape == (0, 3)


def test_eight_workers_start_again_with_as_many_points_as_one_and_those_under_way():
    study = Study(cube(2), acquisition=TrustRegion(light()), seed=0, initial=8)
    running = study.ask(8)
    for i in range(55):  # nothing gets better
        trial = running.pop(0)
        study.tell(trial, 1.0 + i)
        running.append(study.ask())
    sources = "".join(trial.source[:3] for trial in study.trials if trial.number > 15)
    assert "reg" + "res" * (4 + 7) + "reg" in sources  # four values are a start; seven old ones come in before


# Nothing new in a subspace.


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "proposer",
    [
        Embedding(1, 2, base=light()), Embedding(1, 2, sparse=False, base=light()), TrustRegion(light()),
        LearnedCode(1, whole=0, base=light(), evaluations=20), LearnedCode(1, whole=2, base=light(), evaluations=20),
    ],
    ids=["hashed", "gaussian", "region", "code", "code-and-whole"],
)  # fmt: skip
def test_every_point_of_a_finite_space_is_tried(proposer, count):
    study = Study({"a": Int(0, 2), "b": Int(0, 2), "c": Int(0, 1)}, acquisition=proposer, seed=0, initial=2)
    points = []
    while len(points) < 18:
        for trial in study.ask(count):
            points.append(tuple(trial.params.values()))
            study.tell(trial, bowl(trial.params))
    assert len(set(points)) == len(points) == 18
    with pytest.raises(SpaceExhausted):
        study.ask()


@pytest.mark.parametrize(("seed", "found"), [(0, {1}), (1, {-1})], ids=["two-of-three", "all"])
def test_subspaces_without_a_legal_point_are_passed_over(monkeypatch, seed, found):
    """Of three maps of seed 0 the second alone has a and c rise where b and d fall; of those of seed 1 none has."""
    monkeypatch.setattr(base, "ATTEMPTS", 4)
    study = Study(CORNERED, acquisition=Embedding(1, 3, base=light(), seed=seed), seed=0, initial=2)
    for count in (2, 1, 1, 3, 1):
        for trial in study.ask(count):
            CORNERED.check(trial.params)
            study.tell(trial, bowl(trial.params))
    assert set(study._ledger.state()["embedding.which"]) == found
    assert study.trials[-1].source == ("random" if found == {-1} else "embedding")


def test_a_learned_code_of_illegal_designs_gives_way_to_random_points(monkeypatch):
    monkeypatch.setattr(base, "ATTEMPTS", 4)
    place = domain(Space({"a": Float(0, 1), "b": Float(0, 1)}, constraints=[lambda p: p["a"] > p["b"] + 0.1]))
    diagonal = np.linspace(0.0, 1.0, 12)[:, None].repeat(2, axis=1)
    x = diagonal[4:9] + np.array([0.06, -0.06])  # legal, and near enough to be trusted
    proposer = LearnedCode(1, diagonal, whole=0, base=light())
    found = proposer.propose({}, observe(x, x[:, 0], place.columns), place, 2, rng=np.random.default_rng(0))
    assert len(found.points) == 2
    assert place.legal(found.points).all()
    assert found.info == {"source": "random"}


def test_random_points_of_a_listed_space_are_not_those_taken_meanwhile():
    place = domain(Space({"a": Int(0, 5)}))
    remaining = (np.arange(6.0)[:, None] + 0.5) / 6
    taken = {place.key(point) for point in remaining[:4]}
    place = replace(place, remaining=remaining, taken=taken)
    data = observe(np.empty((0, 1)), np.empty(0), place.columns)
    points = RandomSearch().propose({}, data, place, 6, rng=np.random.default_rng(0)).points
    np.testing.assert_array_equal(np.sort(points, axis=0), remaining[4:])


# Fits that fail.


class Broken(GaussianProcess):
    def fit(self, *args, **kwargs):
        raise FloatingPointError("no factor")


def test_a_portfolio_whose_model_cannot_be_fitted_suggests_at_random():
    x = np.random.default_rng(0).random((6, 2))
    data, state = observe(x, x[:, 0], (Column("continuous"),) * 2), {GAINS: np.ones(3), NOMINEES: x[:3]}
    portfolio = Portfolio(base=ModelBased(Broken()))
    with pytest.warns(UserWarning, match=r"Broken could not be fitted \(no factor\); suggesting at random"):
        found = portfolio.propose(state, data, domain(cube(2)), 3, rng=np.random.default_rng(0))
    assert found.points.shape == (3, 2)
    assert found.info == {"source": "random"}
    assert found.state is state, "gains are kept for when it can be fitted again"


# Shared parts.


def test_equal_points_are_found_up_to_roundings_and_absent_cells():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (40, 3)) / 2.0
    x[rng.random(x.shape) < 0.2] = np.nan
    others = np.nan_to_num(x[::3], nan=-1.0) + 1e-12 * rng.standard_normal((14, 3))
    others[0] += 1e-6
    truth = (np.abs(np.nan_to_num(x, nan=-1.0)[:, None] - others) < 1e-9).all(axis=2)
    assert truth.any()
    np.testing.assert_array_equal(equal(x, others), truth)
    assert equal(x, others[:0]).shape == (40, 0)


def test_points_are_compared_without_a_table_of_all_their_differences():
    x = np.random.default_rng(0).random((200, 400))
    tracemalloc.start()
    same = equal(x, x[::2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert same.sum() == 100
    assert peak < 8 * same.size * x.shape[1] / 10  # a tenth of what they take


def test_a_nested_state_is_taken_out_and_put_back():
    state = {"0.rows": np.array(3), "0.a": np.ones(2), "10.a": np.zeros(1), "rows": np.array(7)}
    part, rest = split(state, "0.")
    assert set(part) == {"rows", "a"}
    assert set(rest) == {"10.a", "rows"}
    assert joined("0.", part, rest) == state


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Portfolio(()), ValueError, r"one or more, but got members=\(\)"),
        (lambda: Portfolio(("ei",)), ValueError, "members must be acquisitions"),
        (lambda: Portfolio(base=RandomSearch()), TypeError, "base must be a ModelBased, but got base=RandomSearch"),
        (lambda: Portfolio(rate=float("nan")), ValueError, "rate must be finite and at least 0, but got rate=nan"),
        (lambda: Embedding(dim=0), ValueError, "dim >= 1 must hold, but got dim=0"),
        (lambda: Embedding(several=0), ValueError, "several >= 1 must hold, but got several=0"),
        (lambda: Embedding(base=ModelBased), TypeError, "base must be a proposer"),
        (lambda: TrustRegion(nearest=0), ValueError, "nearest >= 1 must hold, but got nearest=0"),
        (lambda: TrustRegion(patience=0), ValueError, "patience >= 1 must hold, but got patience=0"),
        (lambda: TrustRegion(base=ModelBased), TypeError, r"such as ModelBased\(\), but got base=<class"),
        (lambda: LearnedCode(base=ModelBased), TypeError, "base must be a proposer"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(make, error, words):
    with pytest.raises(error, match=words):
        make()
