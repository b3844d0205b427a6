"""Proposers beyond the plain one: batches, trust regions, embeddings, portfolios."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest

import presage
from presage import Choice, Float, Int, Space, Study
from presage.acquisitions import (
    BY_NAME,
    Context,
    Exploration,
    LogExpectedImprovement,
    NoisyExpectedImprovement,
    ThompsonSampling,
    UnderSampled,
)
from presage.errors import StudyError
from presage.observations import Column, observe
from presage.priors import LogNormal
from presage.proposers import (
    Believe,
    Embedding,
    Fantasise,
    Independent,
    JointImprovement,
    Maximiser,
    ModelBased,
    Penalise,
    Portfolio,
    TrustRegion,
)
from presage.proposers.batch import _log_positive_part, joint_improvement
from presage.proposers.embedding import gaussian, hashed
from presage.proposers.portfolio import GAINS, NOMINEES
from presage.proposers.trust_region import FIRST, SMALLEST, _Region
from presage.surrogates import GaussianProcess
from presage.testing.acquisitions import Waves
from presage.testing.surrogates import plain_points

pytestmark = pytest.mark.usefixtures("one_thread")

MIXED = Space({
    "x": Float(0, 1), "n": Int(1, 50), "c": Choice(["a", "b"]), "z": Float(0, 1, when={"c": "b"}),
})  # fmt: skip


def bowl(params):
    return sum((float(v) - 0.3) ** 2 for v in params.values() if not isinstance(v, str))


def light(**settings):
    """A model-based proposer that costs little."""
    return ModelBased(GaussianProcess(), maximiser=Maximiser(spread=128, local=64, starts=4), **settings)


def cube(d):
    return Space({f"x{i}": Float(0, 1) for i in range(d)})


# Joint improvement.


def test_joint_improvement_is_that_of_many_draws():
    posterior, x = Waves(components=1), plain_points(3)
    draws = posterior.draw(4000, rng=np.random.default_rng(0))
    best = np.full(4000, 0.6)
    truth = np.maximum(best[:, None] - draws.values(x), 0.0).max(axis=1)
    value, _ = joint_improvement(draws, x, best)
    # Softened at 0.01: maxima of three grow by log(3) of it at most, positive parts by log(2), the tail adds a tenth.
    assert 0.0 < math.exp(value) - truth.mean() < 0.01 * (math.log(3) + math.log(2) + 0.1)


def test_joint_improvement_has_its_gradient():
    posterior, x = Waves(components=2), plain_points(3)
    draws = posterior.draw(50, rng=np.random.default_rng(0))
    best = np.linspace(-0.5, 0.5, 50)
    for incumbent in (best, best - 6.0):  # near, and far from any improvement
        _, gradient = joint_improvement(draws, x, incumbent)
        h = 1e-6
        for i in range(3):
            for j in range(2):
                step = np.zeros((3, 2))
                step[i, j] = h
                up, down = (joint_improvement(draws, x + s * step, incumbent)[0] for s in (1, -1))
                assert gradient[i, j] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-6)
        assert np.abs(gradient).max() > 1e-3


def test_the_soft_positive_part_grows():
    u = np.linspace(-1e4, 1e4, 20_001)
    value, slope = _log_positive_part(u)
    assert (slope > 0).all()
    assert (np.diff(value) > 0).all()
    assert np.allclose(np.exp(value[u > 50]), u[u > 50] + 0.1)


def test_a_joint_batch_is_worth_more_than_one_chosen_point_by_point():
    x = plain_points(8)
    data = observe(x, np.sin(7 * x[:, 0]) + np.cos(5 * x[:, 1]), (Column("continuous"),) * 2)
    posterior = GaussianProcess().fit(data, rng=np.random.default_rng(0)).posterior
    from test_maximise import domain

    context, start = Context(posterior.incumbent() + 0.5), plain_points(4, seed=3)
    start = start[np.argsort(-LogExpectedImprovement().values(posterior, start, context))]  # the best alone is first
    batch = JointImprovement(samples=16, evaluations=15)
    asked = LogExpectedImprovement()
    moved = batch.together(posterior, asked, context, start, start[:0], domain(cube(2)), rng=np.random.default_rng(1))
    draws = posterior.draw(64, rng=np.random.default_rng(2))
    best = np.full(64, context.best)
    assert moved.shape == start.shape
    assert ((moved >= 0) & (moved <= 1)).all()
    assert joint_improvement(draws, moved, best)[0] > joint_improvement(draws, start, best)[0]
    little = replace(context, best=context.best - 4.0)  # hardly anything can be lower: all points stay
    kept = batch.together(posterior, asked, little, start, start[:0], domain(cube(2)), rng=np.random.default_rng(1))
    assert np.array_equal(kept, start)


def test_a_joint_batch_counts_the_margin_and_noise():
    """Incumbents of a joint improvement are those of the acquisition: less a margin, drawn where they are not known."""
    from test_maximise import domain

    x = plain_points(12)
    rng = np.random.default_rng(4)
    data = observe(x, np.sin(7 * x[:, 0]) + 0.5 * rng.standard_normal(12), (Column("continuous"),) * 2)
    posterior = GaussianProcess(noise=LogNormal(0.3, 0.01)).fit(data, rng=rng).posterior
    context, start = Context(posterior.incumbent(), 12, x), plain_points(400, seed=3)
    start = start[np.argsort(-LogExpectedImprovement().values(posterior, start, context))][:40:10]

    def moved(acquisition):
        batch, space = JointImprovement(samples=16, evaluations=15), domain(cube(2))
        return batch.together(posterior, acquisition, context, start, start[:0], space, rng=np.random.default_rng(1))

    plain = moved(LogExpectedImprovement())
    assert not np.array_equal(moved(LogExpectedImprovement(margin=0.3)), plain)
    assert not np.array_equal(moved(NoisyExpectedImprovement()), plain)
    assert np.array_equal(moved(NoisyExpectedImprovement(least=10.0)), plain)  # far less noise than that


def test_only_improvements_are_moved_together():
    batches = {name: type(ModelBased(acquisition=BY_NAME[name]())._batch).__name__ for name in ("auto", "ei", "logei")}
    assert set(batches.values()) == {"JointImprovement"}
    assert isinstance(ModelBased(acquisition=BY_NAME["capped"]())._batch, Believe)  # a cap is not in the joint one


# Batches.


@pytest.mark.parametrize(
    "proposer",
    [
        light(), light(batch=Fantasise()), light(batch=Penalise()), light(batch=JointImprovement(8, 5)),
        light(acquisition=ThompsonSampling(), batch=Independent()), light(acquisition=UnderSampled(samples=3)),
    ],
    ids=["believe", "fantasise", "penalise", "joint", "thompson", "under-sampled"],
)  # fmt: skip
@pytest.mark.parametrize("space", [cube(2), MIXED], ids=["cube", "mixed"])
def test_batches_are_legal_distinct_and_repeatable(proposer, space):
    def asked():
        study = Study(space, acquisition=proposer, seed=3, initial=6)
        for trial in study.ask(6):
            study.tell(trial, bowl(trial.params))
        first = study.ask(3)
        second = study.ask()  # while three are pending
        study.tell(first[1], bowl(first[1].params))
        return [trial.params for trial in [*first, second, study.ask()]]

    points = asked()
    for params in points:
        space.check(params)
    assert len({repr(params) for params in points}) == 5
    assert asked() == points


def test_points_of_a_batch_keep_their_distance():
    def least(apart):
        study = Study(cube(2), acquisition=light(apart=apart), seed=0, initial=5)
        for trial in study.ask(5):
            study.tell(trial, bowl(trial.params))
        points = np.array([list(trial.params.values()) for trial in study.ask(6)])
        far = np.linalg.norm(points[:, None] - points, axis=2)
        return far[np.triu_indices(6, 1)].min()

    assert least(0.2) >= 0.2 > least(0.0)


def test_penalised_batches_spread_without_conditioning():
    """The same acquisition maximised twice gives neighbours; with penalties the second point goes elsewhere."""

    def second(batch):
        study = Study(cube(2), acquisition=light(acquisition=Exploration(), batch=batch), seed=1, initial=5)
        for trial in study.ask(5):
            study.tell(trial, bowl(trial.params))
        one, other = (np.array(list(trial.params.values())) for trial in study.ask(2))
        return np.linalg.norm(one - other)

    assert second(Independent()) < 0.1 < second(Penalise())


# Trust regions.


def data_of(values):
    return observe(plain_points(len(values)), np.array(values), (Column("continuous"),) * 2)


def test_a_region_grows_with_success_and_shrinks_with_failure():
    region = _Region.read({}, data_of([5.0]))
    values = [5.0]
    for value in (4.0, 3.0, 2.0):
        values.append(value)
        region = region.after(data_of(values), most_bad=4, most_good=3)
    assert region.length == 2 * FIRST
    assert region.after(data_of(values), 4, 3) == region, "no news, no change"
    for _ in range(3):
        values.append(2.0)  # not better
        region = region.after(data_of(values), 4, 3)
        assert region.length == 2 * FIRST
    region = region.after(data_of([*values, 9.0]), 4, 3)
    assert region.length == FIRST
    assert _Region.read(stored(region.write()), data_of(values)) == region


def test_a_region_that_has_become_tiny_starts_again():
    region, values = _Region.read({}, data_of([0.0])), [0.0]
    while region.since == 0:
        values += [1.0] * 4
        region = region.after(data_of(values), 4, 3)
        assert len(values) < 100
    assert region.length == FIRST
    assert region.since == len(values)
    assert region.best == np.inf
    assert region.after(data_of([*values, 3.0]), 4, 3).best == pytest.approx(3.0)
    assert SMALLEST < 0.01


def stored(state):
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **state)
    with np.load(io.BytesIO(out.getvalue()), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_points_stay_in_the_region():
    from test_maximise import domain

    space = cube(2)
    x = plain_points(30)
    data = observe(x, np.array([bowl({"a": p[0], "b": p[1]}) for p in x]), (Column("continuous"),) * 2)
    state = _Region(length=0.05, seen=30, best=0.0).write()
    found = TrustRegion(light()).propose(state, data, domain(space), 2, rng=np.random.default_rng(0))
    center = x[np.argmin(data.y)]
    assert (np.abs(found.points - center) <= 0.025 + 1e-12).all()
    assert found.info["source"] == "region"
    again = TrustRegion(light()).propose(stored(found.state), data, domain(space), 1, rng=np.random.default_rng(0))
    assert again.info["length"] == 0.05


@pytest.mark.parametrize(
    "proposer", [TrustRegion(light(), nearest=8), Portfolio(base=light()), Embedding(2, 2, base=light())]
)
@pytest.mark.parametrize("space", [cube(3), MIXED], ids=["cube", "mixed"])
def test_whole_proposers_run_a_study(proposer, space):
    def values():
        study = Study(space, acquisition=proposer, seed=0, initial=4)
        return [trial.value for trial in study.optimize(bowl, trials=14).trials]

    found = values()
    assert len(found) == 14
    assert found == values()


def test_a_region_refits_though_it_sees_the_nearest_rows_only():
    study = Study(cube(2), acquisition=TrustRegion(light(), nearest=6), seed=0, initial=4)
    fitted = []
    for _ in range(16):
        trial = study.ask()
        study.tell(trial, bowl(trial.params))
        if "rows" in study._ledger.state():
            fitted.append(int(study._ledger.state()["rows"]))
    assert fitted[-1] >= 14


# Embeddings.


@pytest.mark.parametrize("sparse", [True, False])
def test_maps_send_codes_into_the_cube(sparse):
    rng = np.random.default_rng(0)
    to_cube = (hashed if sparse else gaussian)(30, 4, rng)
    codes = rng.random((200, 4))
    points = to_cube(codes)
    assert ((points >= 0) & (points <= 1)).all()
    assert np.allclose(to_cube(np.full((1, 4), 0.5)), 0.5)
    if sparse:  # exactly the box: nothing is clipped, corners go to corners, and every code moves its share of columns
        assert np.isin(to_cube(np.array([[0.0, 1.0, 1.0, 0.0]])), [0.0, 1.0]).all()
        assert np.abs(points - 0.5).max() <= np.abs(codes - 0.5).max() + 1e-12
        assert sorted(np.abs(to_cube.A).sum(axis=0)) == [7, 7, 8, 8]


def test_an_embedding_finds_what_depends_on_few_directions():
    """Two of 60 columns matter."""

    def f(params):
        return (params["x7"] - 0.8) ** 2 + (params["x41"] - 0.3) ** 2

    def best(**settings):
        study = Study(cube(60), seed=0, initial=1, **settings)
        return study.optimize(f, trials=30).best.value

    assert best(acquisition=Embedding(dim=3, several=2, base=light())) < 0.2 * best(surrogate="random")


# Portfolios.


def test_members_gain_by_how_low_f_is_where_they_pointed():
    x = plain_points(12)
    data = observe(x, x[:, 0], (Column("continuous"),) * 2)
    from test_maximise import domain

    portfolio = Portfolio((LogExpectedImprovement(), Exploration()), light(), rate=3.0)
    state = {GAINS: np.array([0.5, 0.5]), NOMINEES: np.array([[0.05, 0.5], [0.95, 0.5]])}
    found = portfolio.propose(state, data, domain(cube(2)), 1, rng=np.random.default_rng(0))
    good, bad = found.state[GAINS]
    assert good > 0.5 > bad
    assert found.info["odds"][0] == pytest.approx(1.0 / (1.0 + math.exp(3.0 * (bad - good))))
    assert found.state[NOMINEES].shape == (2, 2)
    assert any(np.array_equal(found.points[0], nominee) for nominee in found.state[NOMINEES])


def test_a_portfolio_follows_the_better_member():
    f = presage.functions.branin
    portfolio = Portfolio((LogExpectedImprovement(), Exploration()), light(), rate=2.0)
    study = Study(f.space, acquisition=portfolio, seed=0, initial=5)
    study.optimize(f, trials=20)
    gains = study._ledger.state()[GAINS]
    assert gains[0] > gains[1]


# The way in.


def test_a_proposer_brings_its_own_surrogate():
    with pytest.raises(StudyError, match="surrogate= must be left out"):
        Study(cube(2), surrogate="gp", acquisition=TrustRegion())
    study = Study(cube(2), acquisition=TrustRegion(light()), seed=0, initial=3)
    study.optimize(bowl, trials=8)
    assert study.predict({"x0": 0.3, "x1": 0.3}).stddev > 0
