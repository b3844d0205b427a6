"""What acquisitions once got wrong: mixtures, acquisitions of acquisitions, long tables, bad arguments."""

import math

import numpy as np
import pytest

from presage import Float, Space, Study
from presage.acquisitions import (
    ConfidenceBound,
    Constrained,
    Context,
    EntropySearch,
    ExpectedImprovement,
    ExploreWhenFlat,
    Feasible,
    JointEntropySearch,
    KnowledgeGradient,
    Logarithm,
    LogExpectedImprovement,
    MaxValueEntropySearch,
    Penalised,
    PerCost,
    PerSecond,
    PredictiveEntropySearch,
    ProbabilityOfImprovement,
    SometimesGreedy,
    UnderSampled,
    feasibility,
    gp_ucb,
)
from presage.observations import observe
from presage.proposers import Believe, Fantasise, JointImprovement
from presage.proposers import batch as batches
from presage.proposers.batch import joint_improvement
from presage.surrogates import GaussianProcess, Slice
from presage.surrogates.gaussian import GaussianPosterior
from presage.testing.acquisitions import Waves
from presage.testing.surrogates import MIXED, PLAIN, mixed_points, plain_points
from test_maximise import domain

pytestmark = pytest.mark.usefixtures("one_thread")

# Mixtures.

GRID = np.stack(np.meshgrid(np.linspace(0.0, 1.0, 7), np.linspace(0.0, 1.0, 7)), axis=-1).reshape(-1, 2)
X = plain_points(12, seed=1)


def mixture(components=4):
    """Processes that differ in their lengthscales and in the warp of the values."""
    x = plain_points(8)
    model = GaussianProcess(hyperparameters=Slice(samples=components), warp=(1.0, 1.0))
    data = observe(x, np.exp(np.sin(6.0 * x[:, 0]) + x[:, 1]), PLAIN)
    posterior = model.fit(data, rng=np.random.default_rng(0)).posterior
    return posterior, [GaussianPosterior(posterior.model, posterior.table, (one,)) for one in posterior.components]


def values_of(acquisition, posterior, noise, seed):
    """As if an observation had some noise, since that of a mixture is not that of each of its components."""
    context = Context(posterior.incumbent(), 8, None, lambda rng: GRID)
    ready = acquisition.prepare(posterior, context, rng=np.random.default_rng(seed))
    return ready.score(ready.joint.law(posterior.marginal(X)), ready.joint.covariance(X), noise)[0]


@pytest.mark.parametrize("kind", [MaxValueEntropySearch, JointEntropySearch])
def test_over_a_mixture_an_entropy_of_minima_is_the_mean_of_what_the_components_expect(kind):
    posterior, components = mixture()
    noise, seeds = posterior.noise(X), range(12)
    found = np.array([values_of(kind(samples=64), posterior, noise, seed) for seed in seeds])
    own = np.array([[values_of(kind(samples=64), one, noise, seed) for one in components] for seed in seeds]).mean(1)
    error = np.sqrt((found.var(axis=0, ddof=1) + own.var(axis=0, ddof=1)) / len(seeds))
    assert (error < 0.1 * own.mean(axis=0)).mean() > 0.5  # so that the next line says something
    assert (np.abs(found.mean(axis=0) - own.mean(axis=0)) < 5.0 * error).all()


@pytest.mark.parametrize("kind", [MaxValueEntropySearch, JointEntropySearch])
@pytest.mark.parametrize(("samples", "drawn"), [(1, 4), (4, 4), (5, 8)])
def test_every_component_has_equally_many_minima(kind, samples, drawn):
    posterior, _ = mixture()
    context = Context(posterior.incumbent(), 8, None, lambda rng: GRID)
    ready = kind(samples=samples).prepare(posterior, context, rng=np.random.default_rng(0))
    assert ready.lowest.shape == (4, drawn // 4)
    value, gradient = ready.values_and_gradients(posterior, X, context)
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        slope = (ready.values(posterior, X + step, context) - ready.values(posterior, X - step, context)) / 2e-5
        assert np.abs(slope - gradient[:, j]).max() < 1e-4 * np.abs(gradient).max()
    assert np.isfinite(value).all()


@pytest.mark.parametrize("kind", [LogExpectedImprovement, ExpectedImprovement, ProbabilityOfImprovement])
def test_over_a_mixture_improvements_are_those_of_each_component_over_its_own_incumbent(kind):
    """Each component has a warp, and so units, of its own; what is below all values told improves on all of them."""
    posterior, components = mixture()
    each = posterior.incumbents()
    assert np.ptp(each) > 0.05  # so that one incumbent for all would not do
    np.testing.assert_allclose(each, [one.incumbent() for one in components])
    value, _ = kind().values_and_gradients(posterior, X, Context(Context.best_of(posterior)))
    own = [kind().logarithm().values(one, X, Context(Context.best_of(one))) for one in components]
    found = np.log(value) if kind is ExpectedImprovement else value
    np.testing.assert_allclose(found, np.logaddexp.reduce(own, axis=0) - np.log(len(own)), rtol=1e-9)


def test_components_keep_incumbents_of_their_own_while_points_are_awaited():
    posterior, _ = mixture()
    x = np.array([[0.72, 0.02], [0.8, 0.1]])
    data = observe(posterior.table.x, posterior.table.y, PLAIN)
    rows = Context(Context.best_of(posterior), 8, data.x, lambda rng: GRID)
    for batch in (Believe(), Fantasise()):
        after, _, context = batch.pending(posterior, LogExpectedImprovement(), rows, x, rng=np.random.default_rng(0))
        assert np.shape(context.best) == (4, 1)
        assert (context.best <= rows.best).all()
        if isinstance(batch, Believe):
            np.testing.assert_allclose(context.best[:, 0], [one.incumbent() for one in after_of(after)], atol=1e-3)


@pytest.mark.parametrize("num", [3, 4, 8])
def test_draws_know_whose_incumbent_is_theirs(num):
    """Each draw comes from a component; the lowest values of its draws at the data are about the incumbent."""
    posterior, _ = mixture()
    best = Context.best_of(posterior)
    draws = posterior.draw(num, rng=np.random.default_rng(0))
    lowest = draws.values(posterior.table.x).min(axis=1)
    nearest = best[np.abs(lowest[:, None] - best.T).argmin(axis=1)]
    np.testing.assert_array_equal(draws.own(best), nearest)
    assert len(np.unique(nearest)) == min(num, 4)
    assert draws.own(0.25) == 0.25


def test_joint_batches_measure_each_draw_from_its_own_incumbent(monkeypatch):
    posterior, _ = mixture()
    asked = []

    def seen(draws, x, best):
        asked.append((draws, best))
        return joint_improvement(draws, x, best)

    monkeypatch.setattr(batches, "joint_improvement", seen)
    context = Context(Context.best_of(posterior) + 2.0, 8, posterior.table.x)
    space = Space({"a": Float(0, 1), "b": Float(0, 1)})
    start = np.array([[0.1, 0.9], [0.9, 0.9], [0.5, 0.1]])
    JointImprovement(samples=8, evaluations=3).together(
        posterior, LogExpectedImprovement(), context, start, start[:0], domain(space), rng=np.random.default_rng(0)
    )
    draws, best = asked[0]
    known = np.minimum(np.ravel(draws.own(context.best)), draws.values(start[:1])[:, 0])
    np.testing.assert_allclose(best, known)


def test_undersampled_acquisitions_work_over_mixtures():
    surrogate = GaussianProcess(hyperparameters=Slice(samples=4))
    for samples in (2, 10):
        study = Study({"x": Float(0, 1), "y": Float(-1, 1)}, surrogate=surrogate, acquisition=UnderSampled(
            samples=samples), seed=0)  # fmt: skip
        study.optimize(lambda p: (p["x"] - 0.3) ** 2 + p["y"] ** 2, trials=8, progress=False)
        assert len(study.trials) == 8


def after_of(posterior):
    return [GaussianPosterior(posterior.model, posterior.table, (one,)) for one in posterior.components]


# Acquisitions of acquisitions.


def timed():
    x = np.linspace(0.0, 1.0, 12)[:, None]
    return observe(x, (x[:, 0] - 0.5) ** 2, PLAIN[:1], seconds=np.exp(8.0 * x[:, 0]))


WRAPPERS = {
    "Constrained": lambda base: Constrained(base, Waves(level=0.3)),
    "PerCost": lambda base: PerCost(base, Waves()),
    "Penalised": lambda base: Penalised(base, np.array([[0.4]]), np.array([0.1]), np.array([0.2]), 3.0),
    "Feasible": lambda base: Feasible(base, Waves(level=2.0)),
    "SometimesGreedy": lambda base: SometimesGreedy(base, every=5),
    "ExploreWhenFlat": lambda base: ExploreWhenFlat(base, 1e-12),
    "Logarithm": Logarithm,
    "Constrained(SometimesGreedy)": lambda base: Constrained(SometimesGreedy(base, every=5), Waves(level=0.3)),
    "PerSecond": lambda base: PerSecond(base, exponent=0.5),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_worth_per_second_counts_inside_other_acquisitions(name):
    data, x = timed(), np.array([[0.05], [0.5], [0.95]])
    posterior = GaussianProcess().fit(data, rng=np.random.default_rng(0)).posterior
    context = Context(3.0, 12, data.x, lambda rng: rng.random((50, 1)))  # all improve: logarithms of plain numbers do

    def values(acquisition):
        once = acquisition.informed(data)
        ready = [a.prepare(posterior, context, rng=np.random.default_rng(0)) for a in (once, once.informed(data))]
        again, twice = (a.logarithm().values(posterior, x, context) for a in ready)
        assert np.array_equal(again, twice)  # a proposer informs once for a batch and again for each of its points
        return again

    plain = ExpectedImprovement()
    cost = values(plain) - values(PerSecond(plain))
    assert cost[2] - cost[0] == pytest.approx(math.log(0.1 + math.exp(7.6)) - math.log(0.1 + math.exp(0.4)), abs=0.3)
    assert values(WRAPPERS[name](plain)) - values(WRAPPERS[name](PerSecond(plain))) == pytest.approx(cost, abs=1e-9)


def test_without_times_a_logarithm_stays_one():
    x = np.linspace(0.0, 1.0, 5)[:, None]
    data = observe(x, x[:, 0], PLAIN[:1])
    assert Logarithm(PerSecond(ExpectedImprovement())).informed(data) == Logarithm(ExpectedImprovement())
    nested = PerSecond(Constrained(PerSecond(), Waves()))
    assert nested.informed(data) == Constrained(LogExpectedImprovement(), Waves())


# Failures in long tables.


def learned(monkeypatch, data):
    """What is learned, and how many rows it was learned from at each lengthscale."""
    seen, laplace = [], feasibility._laplace
    monkeypatch.setattr(feasibility, "_laplace", lambda x, *rest: seen.append(x) or laplace(x, *rest))
    found = Feasible.learned(LogExpectedImprovement(), data)
    monkeypatch.setattr(feasibility, "_laplace", laplace)
    return found, seen


def table(count, fails, columns=PLAIN, points=plain_points):
    x = points(count)
    failed = fails(x)
    return observe(x, np.where(failed, np.nan, np.square(x[:, :2] - 0.2).sum(axis=1)), columns, failed=failed)


def corner(x):
    return (x[:, :2] > 0.8).all(axis=1)


def test_up_to_five_hundred_rows_are_learned_from_as_they_are(monkeypatch):
    data = table(500, corner)
    _, seen = learned(monkeypatch, data)
    assert len(seen) == 3
    assert all(np.array_equal(x, data.x) for x in seen)


@pytest.mark.parametrize(
    "fails", [corner, lambda x: x[:, 0] > 0.1, lambda x: x[:, 0] > 0.5, lambda x: np.square(x - 0.5).sum(axis=1) < 0.05]
)
def test_some_of_many_rows_tell_where_evaluations_fail(monkeypatch, fails):
    data = table(900, fails)
    few, seen = learned(monkeypatch, data)
    assert [len(x) for x in seen] == [500] * 3
    failed = fails(seen[0])
    assert 0 < failed.sum() <= max(250, 500 - data.count)
    assert failed.sum() == min(data.failed.sum(), 250) or (~failed).sum() == data.count
    monkeypatch.setattr(feasibility, "MOST", 900)
    every, _ = learned(monkeypatch, data)
    # The truth, and what all rows tell: where points are ruled out. Away from the edge there is no doubt.
    new = plain_points(2000, seed=1)
    allowed, expected = (one.added(new) > feasibility.LIKELY for one in (few, every))
    assert (allowed & fails(new)).mean() < 0.01
    assert (allowed != expected).mean() < 0.03
    best = data.x[np.argsort(np.where(data.mask, data.y, np.inf))[:10]]
    assert (few.added(best) > feasibility.LIKELY).sum() >= (every.added(best) > feasibility.LIKELY).sum() - 1


def test_what_works_far_from_failures_is_not_forgotten(monkeypatch):
    """A search that has long been at work away from the few points that failed goes on there, and may go elsewhere."""
    rng = np.random.default_rng(0)
    spread = np.vstack([rng.random((300, 2)), 0.7 + 0.3 * rng.random((600, 2))])  # most lie around the failures
    x = np.vstack([spread, 0.1 + 0.01 * rng.standard_normal((10, 2))])  # and the last ones around the best
    failed = corner(x) & (rng.random(len(x)) < 0.1)
    data = observe(x, np.where(failed, np.nan, np.square(x - 0.1).sum(axis=1)), PLAIN, failed=failed)
    found, seen = learned(monkeypatch, data)
    assert len(seen[0]) == 500
    assert (found.added(x[-10:]) > feasibility.LIKELY).all()
    elsewhere = 0.6 * rng.random((200, 2))
    assert (found.added(elsewhere) > feasibility.LIKELY).mean() > 0.95


def test_some_of_many_mixed_rows_are_the_same_ones_each_time(monkeypatch):
    data = table(700, lambda x: x[:, 0] > 0.7, MIXED, mixed_points)
    (one, seen), (other, again) = learned(monkeypatch, data), learned(monkeypatch, data.with_pending(data.x[:1]))
    assert len(seen[0]) == 500
    assert len(np.unique(np.nan_to_num(seen[0], nan=-1.0), axis=0)) == 500  # none of them twice
    assert np.array_equal(seen[0], again[0], equal_nan=True)
    new = mixed_points(50, seed=1)
    assert np.array_equal(one.added(new), other.added(new))


# Arguments.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EntropySearch(points=0), "points must be a whole number of 2 or more, but got points=0"),
        (lambda: EntropySearch(points=1), "points must be a whole number of 2 or more, but got points=1"),
        (lambda: PredictiveEntropySearch(points=0), "points must be a whole number of 2 or more, but got points=0"),
        (lambda: KnowledgeGradient(points=0), "points must be a whole number of 1 or more, but got points=0"),
        (lambda: KnowledgeGradient(points=2.5), "points must be a whole number of 1 or more, but got points=2.5"),
        (lambda: MaxValueEntropySearch(samples=0), "samples must be a whole number of 1 or more, but got samples=0"),
        (lambda: JointEntropySearch(samples=-1), "samples must be a whole number of 1 or more, but got samples=-1"),
        (lambda: JointEntropySearch(least_noise=-1.0), "least_noise must be finite and at least 0"),
        (lambda: SometimesGreedy(every=0), "every must be a whole number of 1 or more, but got every=0"),
        (lambda: SometimesGreedy(every=True), "every must be a whole number of 1 or more, but got every=True"),
        (lambda: SometimesGreedy(share=math.nan), "share must be finite and at least 0, but got share=nan"),
        (lambda: SometimesGreedy(much="1"), "much must be finite and at least 0, but got much='1'"),
        (lambda: ExploreWhenFlat(LogExpectedImprovement(), 0.0), "threshold > 0 must hold, but got threshold=0.0"),
        (lambda: ExploreWhenFlat(LogExpectedImprovement(), math.nan), "threshold must be finite and at least 0"),
        (lambda: ConfidenceBound("2"), "kappa must be finite and at least 0, but got kappa='2'"),
        (lambda: ConfidenceBound(math.nan), "kappa must be finite and at least 0, but got kappa=nan"),
        (lambda: ConfidenceBound(-1.0), "kappa must be finite and at least 0, but got kappa=-1.0"),
        (lambda: PerSecond(exponent=math.nan), "exponent must be finite and at least 0, but got exponent=nan"),
        (lambda: PerSecond(exponent=math.inf), "exponent must be finite and at least 0, but got exponent=inf"),
        (lambda: PerCost(LogExpectedImprovement(), Waves(), math.nan), "exponent must be finite and at least 0"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_arguments_at_the_edge_are_legal():
    for kappa in (0, 0.0, np.float32(1.5), np.int64(2), gp_ucb):
        assert ConfidenceBound(kappa).kappa is kappa
    assert KnowledgeGradient(points=np.int64(1)).points == 1
    assert SometimesGreedy(every=1, share=0.0, much=0.0).every == 1
    assert PerSecond(exponent=0.0).exponent == 0.0
