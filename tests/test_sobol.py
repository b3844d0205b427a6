"""Our Sobol points against SciPy's."""

import numpy as np
import pytest
from scipy.stats import qmc

from presage.sobol import BITS, sobol


def digits(points):
    return np.floor(points * 2**BITS).astype(np.int64)


@pytest.mark.parametrize("power", [0, 1, 5, 9])
def test_without_their_shift_the_points_are_scipys(power):
    ours = digits(sobol(2**power, 64, np.random.default_rng(0)))
    unshifted = ours ^ ours[0]  # the first point of the sequence is 0
    theirs = digits(qmc.Sobol(64, scramble=False, bits=BITS).random_base2(power))
    # SciPy goes through the same points in the order of a Gray code.
    assert sorted(map(tuple, unshifted)) == sorted(map(tuple, theirs))


def test_a_longer_sequence_begins_with_the_shorter_one():
    long, short = (sobol(count, 5, np.random.default_rng(1)) for count in (100, 37))
    assert np.array_equal(long[:37], short)


def test_every_column_is_stratified_whatever_the_shift():
    for seed in range(3):
        points = sobol(64, 80, np.random.default_rng(seed))
        assert points.shape == (64, 80)
        assert ((points >= 0) & (points < 1)).all()
        strata = np.sort(np.floor(64 * points[:, :64]), axis=0)
        assert (strata == np.arange(64)[:, None]).all()
        assert len({tuple(column) for column in points.T}) == 80  # beyond the table: independent draws


def test_the_generator_draws_the_shift():
    one, again, other = (sobol(8, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.isclose(one, other).any()
