"""What every surrogate must do, as tests to inherit: one or more for each sentence of `presage.surrogates.base`."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from presage.observations import Column, Observations, observe
from presage.surrogates.base import Fit, Posterior, State, Surrogate

PLAIN = (Column("continuous"),) * 2
MIXED = (Column("continuous"), Column("ordinal", 4), Column("categorical", 3), Column("continuous", None, True))


def plain_points(count: int, seed: int = 0) -> np.ndarray:
    """Points of the unit square, [count, 2]."""
    return np.random.default_rng(seed).random((count, 2))


def mixed_points(count: int, seed: int = 0) -> np.ndarray:
    """Points with a number, four levels, three categories, and a number absent in the first category, [count, 4]."""
    x = np.random.default_rng(seed).random((count, 4))
    x[:, 1] = (np.floor(4 * x[:, 1]) + 0.5) / 4
    x[:, 2] = (np.floor(3 * x[:, 2]) + 0.5) / 3
    x[x[:, 2] < 1 / 3, 3] = np.nan
    return x


def smooth(x: np.ndarray) -> np.ndarray:
    """A smooth function of the cells that exist, [n]."""
    return np.nansum(np.sin(3.0 * x + np.arange(x.shape[1])), axis=1)


def plain_data(count: int = 15) -> Observations:
    x = plain_points(count)
    return observe(x, smooth(x), PLAIN)


def mixed_data(count: int = 20) -> Observations:
    x = mixed_points(count)
    return observe(x, smooth(x), MIXED)


def awkward() -> dict[str, Observations]:
    """Tables that a study meets sooner or later."""
    x = plain_points(8)
    some = np.arange(8) < 3
    return {
        "plain": plain_data(),
        "mixed": mixed_data(),
        "one value": observe(x[:1], np.array([3.0]), PLAIN),
        "two equal points": observe(x[[0, 0]], np.array([3.0, 3.0]), PLAIN),
        "equal points, other values": observe(x[[0, 0, 1, 1]], np.array([0.0, 1.0, 2.0, 3.0]), PLAIN),
        "thirty equal points": observe(np.repeat(x[:1], 30, axis=0), np.arange(30.0), PLAIN),
        "neighbours": observe(x[:1] + 1e-9 * x, smooth(x), PLAIN),
        "constant": observe(x, np.full(8, 3.0), PLAIN),
        "an outlier": observe(x, np.where(some, 0.0, 1e9 * smooth(x)), PLAIN),
        "known noise": observe(x, smooth(x), PLAIN, stddev=np.where(some, 0.5, np.nan)),
        "failed and pending": observe(x, np.where(some, smooth(x), np.nan), PLAIN, failed=~some & (x[:, 0] > 0.5),
                                      pending=~some & (x[:, 0] <= 0.5)),
    }  # fmt: skip


def probes(data: Observations, count: int = 40) -> np.ndarray:
    """Points to ask a posterior about, observed ones among them."""
    new = mixed_points(count, seed=1) if data.columns == MIXED else plain_points(count, seed=1)
    return np.vstack([new, data.x[:3]])


class SurrogateSuite:
    """Tests for a surrogate: inherit in a test module of pytest, and say how one is made.

    Example:
        >>> from presage.surrogates import GaussianProcess
        >>> class TestGaussianProcess(SurrogateSuite):
        ...     def make(self):
        ...         return GaussianProcess()
    """

    def make(self) -> Surrogate:
        """The surrogate."""
        raise NotImplementedError

    def fit(self, data: Observations, previous: State | None = None, keep: bool = False) -> Posterior:
        return self.whole(data, previous, keep).posterior

    def whole(self, data: Observations, previous: State | None = None, keep: bool = False) -> Fit:
        return self.make().fit(data, rng=np.random.default_rng(0), previous=previous, keep=keep)

    def test_answers_are_finite_and_have_their_shapes(self) -> None:
        for name, data in awkward().items():
            posterior, _, diagnostics = self.whole(data)
            assert isinstance(diagnostics, dict), name
            x = probes(data)
            law = posterior.marginal(x)
            components = len(law.weight)
            assert law.mean.shape == law.variance.shape == (components, len(x)), name
            assert np.isfinite(law.mean).all(), name
            assert np.isfinite(law.variance).all(), name
            assert (law.variance > 0).all(), name
            assert (law.weight >= 0).all(), name
            assert abs(law.weight.sum() - 1.0) < 1e-12, name
            assert law.df is None or (law.df.shape == (components,) and (law.df > 0).all()), name
            draws = posterior.sample(x, 3, rng=np.random.default_rng(0))
            assert draws.shape == (3, len(x)), name
            assert np.isfinite(draws).all(), name
            noise = posterior.noise(x)
            assert noise.shape == (len(x),), name
            assert (noise >= 0).all(), name
            assert isinstance(posterior.incumbent(), float), name
            mean, variance = posterior.predict(x)
            assert mean.shape == variance.shape == (len(x),), name
            assert np.isfinite(mean).all(), name
            assert np.isfinite(variance).all(), name
            assert (variance > 0).all(), name
            assert posterior.marginal(x[:0]).mean.shape == (components, 0), name

    def test_a_fit_beats_a_constant(self) -> None:
        for data in (plain_data(30), mixed_data(60)):
            x = probes(data)
            truth = (smooth(x) - data.center) / data.scale
            mean, _ = self.fit(data).predict(x)
            assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.5 * truth.std()

    def test_predictions_of_the_data_are_their_values(self) -> None:
        """Whatever is transformed inside, predict speaks of the values that were given."""
        data = plain_data(30)
        mean, variance = self.fit(data).predict(data.x)
        assert np.abs(mean - data.y).max() < 0.5
        assert (variance < 1.0).all()

    def test_transformed_values_are_restored(self) -> None:
        data = plain_data(30)
        posterior = self.fit(data)
        latent, _ = posterior.transformed(data.y)
        if len(latent) == 1:  # components may each have units of their own
            near(posterior.restored(latent[0]), data.y)

    def test_points_are_answered_one_by_one(self) -> None:
        for data in (plain_data(), mixed_data()):
            posterior, x = self.fit(data), probes(data)
            together, alone = posterior.marginal(x), [posterior.marginal(point[None]) for point in x]
            near(together.mean, np.hstack([law.mean for law in alone]))
            near(together.variance, np.hstack([law.variance for law in alone]))

    def test_only_rows_with_a_value_count(self) -> None:
        for data in (plain_data(), mixed_data()):
            posterior, x = self.fit(data), probes(data)
            more = data.with_pending(x[0]).with_pending(x[1]).padded()
            more.failed[len(data.y)], more.pending[len(data.y)] = True, False
            same_law(posterior, self.fit(more), x)

    def test_the_same_generator_gives_the_same_answers(self) -> None:
        for data in (plain_data(), mixed_data()):
            x = probes(data)
            one, other = self.fit(data), self.fit(data)
            assert np.array_equal(one.marginal(x).mean, other.marginal(x).mean)
            assert np.array_equal(one.marginal(x).variance, other.marginal(x).variance)
            first, again, new = (one.sample(x, 4, rng=np.random.default_rng(seed)) for seed in (0, 0, 1))
            assert np.array_equal(first, again)
            assert not np.allclose(first, new)

    def test_gradients_are_those_of_the_marginal(self) -> None:
        for data in (plain_data(), mixed_data()):
            posterior = self.fit(data)
            if not posterior.differentiable:
                continue
            x = probes(data)[:-3]  # a Matern kernel has no third derivative at the data
            law, by_mean, by_variance = posterior.marginal_gradient(x)
            near(law.mean, posterior.marginal(x).mean)
            near(law.variance, posterior.marginal(x).variance)
            for j, column in enumerate(data.columns):
                present = ~np.isnan(x[:, j])
                if column.kind == "categorical":
                    continue

                def along(step: float, j: int = j) -> np.ndarray:
                    moved = posterior.marginal(x + step * np.eye(x.shape[1])[j])  # noqa: B023
                    return np.array([moved.mean, moved.variance])

                slope = central(along, 1e-4 if self.slack() == 1.0 else 1e-3)[:, :, present]
                same_slope(np.array([by_mean[:, present, j], by_variance[:, present, j]]), slope)

    def test_samples_have_the_moments_of_the_marginal(self) -> None:
        count = 4000
        for data in (plain_data(), mixed_data()):
            posterior, x = self.fit(data), probes(data, 8)
            mean, variance = posterior.marginal(x).moments()
            draws = posterior.sample(x, count, rng=np.random.default_rng(2))
            square = (draws - mean) ** 2
            # Five standard errors, the second one by the draws' own fourth moment; both floors are numerical jitter.
            assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / count) + 1e-6).all()
            assert (np.abs(square.mean(axis=0) - variance) < 5 * square.std(axis=0) / np.sqrt(count) + 1e-6).all()

    def test_samples_are_joint(self) -> None:
        data = plain_data()
        x = np.repeat(probes(data, 2)[:2], 2, axis=0) + [[0.0, 0.0], [1e-6, 0.0]] * 2
        draws = self.fit(data).sample(x, 400, rng=np.random.default_rng(3))
        differ = np.abs(draws[:, 0] - draws[:, 1]).max()
        assert differ < 0.1 * draws[:, 0].std(), "two points next to each other have nearly the same value in each draw"

    def test_an_observation_teaches(self) -> None:
        for data in (plain_data(), mixed_data()):
            posterior = self.fit(data)
            x = probes(data)
            before, _ = posterior.predict(x)
            _, variance = posterior.marginal(x).moments()
            at = [int(np.argmax(variance))]
            told = before[at] + 1.0
            after = posterior.condition(x[at], told)
            assert after.marginal(x).moments()[1][at] < variance[at]
            assert before[at] < after.predict(x)[0][at] < told + 0.1
            assert np.array_equal(posterior.predict(x)[0], before), "a posterior does not change"

    def test_the_incumbent_is_the_least_mean_at_the_data(self) -> None:
        for name, data in awkward().items():
            posterior = self.fit(data)
            mean, _ = posterior.marginal(data.x[data.mask]).moments()
            assert abs(posterior.incumbent() - mean.min()) < 1e-5 * (1.0 + abs(mean.min())), name
            each, means = posterior.incumbents(), posterior.marginal(data.x[data.mask]).mean
            assert each.shape in {(1,), (len(means),)}, name
            if len(each) > 1:
                np.testing.assert_allclose(each, means.min(axis=1), rtol=1e-5, atol=1e-5, err_msg=name)

    def test_the_state_is_plain_arrays_that_start_the_next_fit(self) -> None:
        for data in (plain_data(), mixed_data()):
            fit, x = self.whole(data), probes(data)
            state = stored(fit.state)
            kept = self.whole(data, previous=state, keep=True)
            same_law(fit.posterior, kept.posterior, x)
            for name, array in state.items():
                assert np.array_equal(array, kept.state[name])
            law = self.fit(data, previous=state).marginal(x)
            assert np.isfinite(law.mean).all()
            assert np.isfinite(law.variance).all()

    def test_a_state_of_another_space_is_no_hindrance(self) -> None:
        state = self.whole(mixed_data()).state
        for keep in (False, True):
            law = self.fit(plain_data(), previous=state, keep=keep).marginal(plain_points(5))
            assert np.isfinite(law.mean).all()

    def test_drawn_functions_are_functions(self) -> None:
        for name, data in awkward().items():
            posterior, x = self.fit(data), probes(data)
            draws = posterior.draw(3, rng=np.random.default_rng(0))
            value = draws.values(x)
            assert value.shape == (3, len(x)), name
            assert np.isfinite(value).all(), name
            # A draw may be a sum of a thousand terms that are 1e5 each and cancel.
            np.testing.assert_allclose(draws.values(x[::-1])[:, ::-1], value, rtol=1e-6, atol=1e-6, err_msg=name)
            if posterior.differentiable:
                again, gradient = draws.values_and_gradients(x)
                np.testing.assert_allclose(again, value, rtol=1e-6, atol=1e-6, err_msg=name)
                assert gradient.shape == (3, *x.shape), name
                assert not gradient[:, np.isnan(x)].any(), name
                again, pull = draws.values_and_pull(x)
                np.testing.assert_allclose(again, value, rtol=1e-6, atol=1e-6, err_msg=name)
                weight = np.random.default_rng(1).standard_normal(value.shape)
                together = np.einsum("sn,snd->nd", weight, gradient)
                near = 1e-6 * np.abs(gradient).max()
                np.testing.assert_allclose(pull(weight), together, rtol=1e-6, atol=near, err_msg=name)

    def test_drawn_functions_have_their_gradients(self) -> None:
        posterior, x, h = self.fit(plain_data()), 0.1 + 0.8 * plain_points(5, seed=2), 1e-3
        if not posterior.differentiable:
            return
        draws = posterior.draw(2, rng=np.random.default_rng(0))
        gradient = draws.values_and_gradients(x)[1]
        for j in range(x.shape[1]):
            step = h * np.eye(x.shape[1])[j]
            near, far = (draws.values(x + k * step) - draws.values(x - k * step) for k in (1.0, 2.0))
            # To fourth order, since terms that cancel (see above) leave 1e-8 in a value: too much for a smaller step.
            slope = (8.0 * near - far) / (12.0 * h)
            np.testing.assert_allclose(gradient[..., j], slope, rtol=1e-4, atol=1e-4 * self.slack())

    def test_drawn_functions_have_the_law_of_the_posterior(self) -> None:
        """Mean and standard deviation over many draws against the marginal, where the law is one Gaussian or t."""
        posterior, x = self.fit(plain_data()), plain_points(10, seed=2)
        num = 4000
        value = posterior.draw(num, rng=np.random.default_rng(0)).values(x)
        mean, variance = posterior.marginal(x).moments()
        error = np.sqrt(variance / num)
        assert (np.abs(value.mean(axis=0) - mean) < 5.0 * error + 1e-6).all()
        # A few draws in the tail, and priors made of finitely many functions, leave the spread within a quarter.
        np.testing.assert_allclose(value.std(axis=0), np.sqrt(variance), rtol=0.25, atol=1e-3)

    def slack(self) -> float:
        """How much coarser than float64 this surrogate computes: 1 or, where networks run in float32, more."""
        return 1.0

    def test_the_score_of_what_was_seen_beats_that_of_what_was_not(self) -> None:
        data = plain_data(20)
        posterior = self.fit(data)
        x = plain_points(40, seed=3)
        fresh = observe(x, smooth(x), PLAIN).rescaled(data.center, data.scale)
        good = posterior.score(fresh)
        assert np.isfinite(good).all()
        assert 0.0 <= good.coverage50 <= good.coverage90 <= 1.0
        off = observe(x, smooth(x) + 10.0, PLAIN).rescaled(data.center, data.scale)
        bad = posterior.score(off)
        assert bad.log_density < good.log_density
        assert bad.rmse > good.rmse
        assert bad.coverage90 < good.coverage90


def central(function: Callable[[float], Any], step: float = 1e-3) -> np.ndarray:
    """The derivative at 0, by differences of fourth order: the error is about step^4 times the fifth derivative."""
    near, far = function(step) - function(-step), function(2 * step) - function(-2 * step)
    return (8.0 * near - far) / (12.0 * step)


def near(a: np.ndarray, b: np.ndarray, rounding: float = 1e-9) -> None:
    """Equal but for the order in which sums were taken."""
    assert np.shape(a) == np.shape(b)
    assert (np.abs(a - b) <= rounding * (1.0 + np.abs(b))).all(), np.abs(a - b).max()


def same_slope(given: np.ndarray, expected: np.ndarray) -> None:
    """Equal to a part in ten thousand of the largest: what differences can tell of a function that bends at 1/10."""
    assert np.shape(given) == np.shape(expected)
    assert (np.abs(given - expected) <= 1e-4 * np.abs(expected).max()).all(), np.abs(given - expected).max()


def same_law(one: Posterior, other: Posterior, x: np.ndarray) -> None:
    a, b = one.marginal(x), other.marginal(x)
    near(a.mean, b.mean, 1e-6)
    near(a.variance, b.variance, 1e-6)


def stored(state: State) -> State:
    """A state as it comes back from a storage."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **state)
    with np.load(io.BytesIO(out.getvalue()), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
