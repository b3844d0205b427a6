"""Searches over training curves, on tables where the answer is known."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from presage.design import (
    Board,
    CurveSearch,
    FinalSearch,
    GPARSearch,
    Hyperband,
    Move,
    RandomSearch,
    SuccessiveHalving,
    play,
)
from presage.design.baselines import log_expected_improvement
from presage.design.board import rungs_at
from presage.design.curve_search import rates
from presage.design.curves import Curves
from presage.surrogates.base import Marginal

STEPS = np.array([100, 300, 1000, 2000, 3000, 5000, 9000])


def table(seed=0, n=24):
    """Power laws whose level is a parabola of the first coordinate; what is seen early tells of the end."""
    rng = np.random.default_rng(seed)
    x = np.stack([np.linspace(0.0, 1.0, n), rng.random(n)], axis=1)
    level = 4.0 * (x[:, 0] - 0.7) ** 2 + 0.05 * rng.standard_normal(n)
    return Curves.of(
        x, STEPS, level[:, None] + 20.0 * STEPS[None] ** -0.5 + 0.01 * rng.standard_normal((n, len(STEPS)))
    )


SEARCHES = [
    RandomSearch(),
    SuccessiveHalving(),
    Hyperband(),
    FinalSearch(),
    GPARSearch(),
    CurveSearch(),
    CurveSearch(parallel=3),
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: type(s).__name__)
def test_every_search_plays_to_the_end_of_a_small_table(search):
    """Never twice the same, never backwards, and in the end all is trained."""
    curves = table(n=9)
    played = play(search, curves, np.ones(9), math.inf, rng=np.random.default_rng(0))
    reached = dict.fromkeys(range(9), -1)
    for move in played.moves:
        assert move.column > reached[move.row]
        reached[move.row] = move.column
    assert set(reached.values()) == {len(STEPS) - 1}
    assert played.spent[-1] == pytest.approx(9 * STEPS[-1])  # nothing is paid for twice


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: type(s).__name__)
def test_a_search_is_a_function_of_board_and_generator(search):
    one, two = (play(search, table(), np.ones(24), 4.0 * STEPS[-1], rng=np.random.default_rng(3)) for _ in range(2))
    assert one.moves == two.moves


def test_a_move_must_train():
    class Stubborn(RandomSearch):
        def decide(self, board, *, rng, memory):
            return [Move(0, 2)]

    with pytest.raises(ValueError, match="already made"):
        play(Stubborn(), table(), np.ones(24), 1e9, rng=np.random.default_rng(0))


def test_prices_count_what_is_left():
    curves = table(n=3)
    values = curves.values.copy()
    values[0, 3:] = np.nan
    values[1] = np.nan
    board = Board(Curves(curves.x, STEPS, values, curves.columns), np.array([1.0, 2.0, 3.0]))
    assert board.price(0, 4) == STEPS[4] - STEPS[2]
    assert board.price(1, 0) == 2.0 * STEPS[0]
    assert board.best() == 2
    np.testing.assert_array_equal(board.price(np.arange(2), np.array([[3], [6]])), [[1000, 4000], [8000, 18000]])


def test_successive_halving_promotes_the_best_third():
    """By hand: after three starts the best of them goes on, and it alone."""
    curves = table()
    played = play(SuccessiveHalving(least=1 / 9), curves, np.ones(24), 8000.0, rng=np.random.default_rng(1))
    rungs = rungs_at(STEPS, (1 / 9, 1 / 3))
    starts = [move.row for move in played.moves[:3]]
    assert all(move.column == rungs[0] for move in played.moves[:3])
    assert played.moves[3] == Move(min(starts, key=lambda row: curves.values[row, rungs[0]]), rungs[1])
    assert played.moves[4].column == rungs[0]


def test_hyperband_begins_wide_and_ends_with_complete_trainings():
    played = play(Hyperband(least=1 / 9), table(), np.ones(24), 1e9, rng=np.random.default_rng(1))
    rungs = rungs_at(STEPS, (1 / 9, 1 / 3))
    columns = [move.column for move in played.moves]
    # Algorithm 1 with R = 9, eta = 3: brackets of 9, 3, 1 - 5, 1 - 3 networks.
    assert columns[:13] == [rungs[0]] * 9 + [rungs[1]] * 3 + [rungs[2]]
    assert columns[13:19] == [rungs[1]] * 5 + [rungs[2]]
    assert columns[19:22] == [rungs[2]] * 3


def test_expected_improvement_is_its_integral():
    law = Marginal(np.array([[0.3, -1.0], [1.0, 0.5]]), np.array([[0.5, 0.2], [1.5, 0.1]]), np.array([0.3, 0.7]))
    found = np.exp(log_expected_improvement(law, 0.2))
    for row in range(2):
        wanted = sum(
            w * quad(lambda y, m=m, v=v: max(0.2 - y, 0.0) * norm(m, math.sqrt(v)).pdf(y), -12, 0.2)[0]
            for w, m, v in zip(law.weight, law.mean[:, row], law.variance[:, row], strict=True)
        )
        assert found[row] == pytest.approx(wanted, rel=1e-8)


def best_rate(mean, stddev, informed, best, now, later):
    """By definition: the largest expected gain over expected cost of all rules 'go on if the mean is below m'."""
    moved = math.sqrt(stddev**2 - informed**2)
    z = np.linspace(-8.0, 8.0, 4001)
    weight = norm.pdf(z)
    weight /= weight.sum()
    s = (best - mean - moved * z) / informed
    gain = informed * (norm.pdf(s) + s * norm.cdf(s))
    return (np.cumsum(weight * gain) / (now + later * np.cumsum(weight))).max()


@pytest.mark.parametrize(
    ("mean", "informed", "later"), [(0.5, 0.3, 4.0), (2.0, 0.9, 10.0), (-1.0, 0.5, 0.1), (1.0, 0.2, 50.0)]
)
def test_a_rate_is_that_of_the_best_rule_for_giving_up(mean, informed, later):
    found = rates(np.array([mean]), np.array([1.0]), np.array([informed]), 0.0, np.array([1.0]), np.array([later]))[0]
    assert found == pytest.approx(
        best_rate(mean, 1.0, informed, 0.0, 1.0, later), rel=0.1
    )  # only 16 rules are compared


def test_without_a_look_the_rate_is_improvement_over_cost():
    stddev = np.array([0.5, 1.0])
    found = rates(np.array([0.1, -0.4]), stddev, stddev, 0.0, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    law = Marginal(np.array([[0.1, -0.4]]), stddev[None] ** 2, np.ones(1))
    np.testing.assert_allclose(found, np.exp(log_expected_improvement(law, 0.0)) / [4.0, 6.0], rtol=1e-9)


def test_what_is_nearly_done_is_finished_rather_than_something_as_good_begun():
    """No dithering: of two networks that promise the same, the one that was paid for goes on."""
    same = np.array([0.0, 0.0])
    found = rates(same, np.ones(2), np.ones(2) * 0.5, 0.0, np.array([1.0, 1.0]), np.array([8.0, 1.0]))
    assert found[1] > found[0]


def test_the_default_finds_the_best_for_less_than_random_search():
    """Forty tables; the cost to reach the best tenth, by the sign test at one in a thousand."""
    better = []
    for seed in range(40):
        curves = table(seed)
        good = np.sort(curves.values[:, -1])[1]

        def cost(search, curves=curves, good=good, seed=seed):
            played = play(search, curves, np.ones(24), 24.0 * STEPS[-1], rng=np.random.default_rng(seed))
            for spent, move in zip(played.spent, played.moves, strict=True):
                if move.column == len(STEPS) - 1 and curves.values[move.row, -1] <= good:
                    return spent
            return math.inf

        class Until(CurveSearch):
            def decide(self, board, *, rng, memory, good=good):
                best = board.best()
                return (
                    []
                    if best is not None and board.finals[best] <= good
                    else super().decide(board, rng=rng, memory=memory)
                )

        better.append(cost(Until()) < cost(RandomSearch()))
    assert sum(better) >= 30  # of 40: P = 1.1e-3 under equal chances


def test_a_dear_network_must_promise_more():
    curves = table()
    cost = np.where(np.arange(24) % 2, 10.0, 1.0)
    played = play(CurveSearch(), curves, cost, 6.0 * STEPS[-1], rng=np.random.default_rng(0))
    after = [move.row for move in played.moves]
    assert len(after) > 10
    assert np.mean([row % 2 for row in after]) < 0.35


def test_it_begins_with_the_networks_that_are_named_and_completes_the_best_of_them():
    curves = table()
    played = play(CurveSearch(), curves, np.ones(24), 3.0 * STEPS[-1], rng=np.random.default_rng(0), first=(7, 3))
    look = rungs_at(STEPS, (0.2,))[0]
    assert played.moves[:2] == [Move(7, len(STEPS) - 1), Move(3, look)]
    assert played.moves[2].column == look
    assert played.moves[2].row not in (7, 3)
    together = play(
        CurveSearch(parallel=3), curves, np.ones(24), 3.0 * STEPS[-1], rng=np.random.default_rng(0), first=(7, 3)
    )
    assert together.moves[:2] == played.moves[:2]
