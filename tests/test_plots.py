"""Figures, by the data they show. (How they look was looked at.)"""

import math

import matplotlib
import numpy as np
import pytest
from PIL import Image

import presage
from presage import Choice, Float, Int, Space, insight, plots
from presage.errors import StudyError

HOSTILE = "$\\frac{x}$ <b>&\n"


@pytest.fixture(scope="module")
def tuned():
    space = Space({
        "lr": Float(1e-4, 1.0, log=True), "layers": Int(1, 3), HOSTILE: Choice(["relu", "$tanh"]),
        "width": Int(4, 64, when={"layers": [2, 3]}),
    })  # fmt: skip

    def loss(params):
        if params["lr"] > 0.1:
            raise ValueError("diverged")
        return (math.log10(params["lr"]) + 2) ** 2 + 0.3 * abs(params["layers"] - 2)

    return presage.minimize(loss, space, 18, seed=1, progress=False, name=HOSTILE).study


@pytest.fixture(scope="module")
def line():
    f = presage.functions.forrester
    return presage.minimize(f, f.space, 8, seed=1, progress=False).study


def drawn(figure, path=None):
    """Renders it, or an error in a label would not show."""
    figure.savefig(path or "/dev/null", format="png")
    return figure


def by_label(ax):
    return {handle.get_label(): handle for handle in ax.get_lines()}


def test_nothing_global_changes(line, tmp_path):
    before = dict(matplotlib.rcParams)
    drawn(plots.history(line), tmp_path / "h.png")
    assert dict(matplotlib.rcParams) == before
    with Image.open(tmp_path / "h.png") as picture:
        assert picture.size[0] > 500


def test_history(tuned):
    ax = drawn(plots.history(tuned)).axes[0]
    lines = by_label(ax)
    complete = [t for t in tuned.trials if t.values]
    failed = [t.number for t in tuned.trials if t.failure]
    assert failed
    assert lines[f"failed ({len(failed)})"].get_xdata().tolist() == failed
    best = np.minimum.accumulate([t.value for t in complete])
    assert lines["best so far"].get_ydata().tolist() == best.tolist()
    shown = sorted((x, y) for source in ("initial", "model") for x, y in lines[source].get_xydata().tolist())
    assert shown == [(t.number, t.value) for t in complete]
    assert plots.history(tuned, log=True).axes[0].get_yscale() == "log"


def test_posterior_shows_the_slice_the_data_and_where_the_acquisition_is_largest(line):
    above, below = drawn(plots.posterior(line, samples=2)).axes
    record = insight.record_of(line)
    cut = insight.slice_1d(record.model(), "x", record.best.params, num=201)
    lines = by_label(above)
    assert np.array_equal(lines["mean"].get_ydata(), cut.mean)
    assert sorted(lines["values"].get_ydata()) == sorted(t.value for t in line.trials)
    worth, peak = below.get_lines()
    assert peak.get_ydata() == worth.get_ydata().max()
    assert above.get_ylabel() == "value"
    assert below.get_xlabel() == "x"
    (band,) = above.collections
    np.testing.assert_allclose([band.get_datalim(above.transData).y0, band.get_datalim(above.transData).y1],
                               [cut.low.min(), cut.high.max()])  # fmt: skip


def test_steps_and_animation_see_only_the_values_up_to_then(line, tmp_path):
    made = drawn(plots.steps(line, counts=[4, 8]))
    tops = made.axes[:2]
    assert [len(by_label(ax)["values"].get_ydata()) for ax in tops] == [4, 8]
    early, late = (by_label(ax)["mean"].get_ydata() for ax in tops)
    record = insight.record_of(line)
    truth = insight.slice_1d(record.model_of(record.prefix(4)), "x", record.best.params, num=201).mean
    assert np.array_equal(early, truth)
    assert not np.array_equal(early, late)
    plots.animation(line, tmp_path / "a.gif", counts=[4, 6, 8])
    with Image.open(tmp_path / "a.gif") as picture:
        assert picture.n_frames == 3
        assert picture.size == (720, 504)


def test_slices_and_effects(tuned):
    record = insight.record_of(tuned)
    for made, truth in (
        (plots.slices(tuned), lambda name: insight.slice_1d(record.model(), name, record.best.params)),
        (plots.effects(tuned), lambda name: insight.marginal_effect(record.model(), name)),
    ):
        axes = [ax for ax in drawn(made).axes if ax.get_visible()]
        assert [ax.get_xlabel() for ax in axes] == ["lr", "layers", HOSTILE.replace("\n", "?"), "width"]
        assert axes[0].get_xscale() == "log"
        assert [tick.get_text() for tick in axes[2].get_xticklabels()] == ["relu", "$tanh"]
        assert np.array_equal(by_label(axes[0])["mean"].get_ydata(), truth("lr").mean)


def test_contour_shows_the_grid(tuned):
    made = drawn(plots.contour(tuned, "layers", HOSTILE))
    mean, stddev = made.axes[:2]
    record = insight.record_of(tuned)
    grid = insight.grid_2d(record.model(), "layers", HOSTILE, record.best.params)
    np.testing.assert_allclose(np.ravel(mean.collections[0].get_array()), grid.mean.ravel())
    np.testing.assert_allclose(np.ravel(stddev.collections[0].get_array()), grid.stddev.ravel())
    points, failed, star = mean.get_lines()
    assert len(points.get_xdata()) == len([t for t in tuned.trials if t.values])
    assert len(failed.get_xdata()) == len([t for t in tuned.trials if t.failure])
    assert star.get_xdata()[0] == tuned.best.params["layers"]
    drawn(plots.contour(tuned))


def test_a_contour_needs_two_dimensions(line):
    with pytest.raises(StudyError, match="use posterior"):
        plots.contour(line)


def test_parallel_draws_every_trial_and_the_best_on_top(tuned):
    lines = drawn(plots.parallel(tuned)).axes[0].get_lines()
    lines = [line for line in lines if len(line.get_xdata()) == 4]
    assert len(lines) == len([t for t in tuned.trials if t.values])
    np.testing.assert_array_equal(lines[-1].get_ydata(), tuned.space.encode(tuned.best.params))


def test_importance_bars_are_the_indices(tuned):
    ax = drawn(plots.importance(tuned)).axes[0]
    rows = insight.importance(insight.record_of(tuned).model()).summary()[::-1]
    widths = [patch.get_width() for patch in ax.patches]
    np.testing.assert_allclose(widths[:4], [row[2] for row in rows])
    np.testing.assert_allclose(widths[4:], np.maximum([row[1] for row in rows], 0))
    assert rows[-1][0] == "lr"


def test_calibration_of_a_study_and_of_arrays(tuned):
    pit = insight.foretell(insight.record_of(tuned)).pit
    for made in (drawn(plots.calibration(tuned)), drawn(plots.reliability(pit))):
        left, right = made.axes
        assert by_label(left)["model"].get_ydata().tolist() == insight.reliability(pit)[1].tolist()
        assert sum(bar.get_height() for bar in right.patches if bar.get_height() == int(bar.get_height())) >= len(pit)
    with pytest.raises(StudyError, match="after the initial design"):
        plots.calibration(presage.Study(tuned.space, seed=0))


def test_timeline_bars_are_the_times_that_trials_took(tuned):
    ax = drawn(plots.timeline(tuned)).axes[0]
    rows = insight.timeline(insight.record_of(tuned).history)
    assert len(ax.patches) == len(rows)
    np.testing.assert_allclose(
        sorted(bar.get_width() for bar in ax.patches), sorted(max(r["end"] - r["start"], 1e-9) for r in rows), atol=1e-6
    )
    with pytest.raises(StudyError, match="handed out"):
        plots.timeline(presage.Study(tuned.space, seed=0))


def test_regret(tuned):
    runs = np.random.default_rng(0).random((7, 20)) + 1.0
    ax = drawn(plots.regret({"a": runs, HOSTILE: runs + 1.0}, 1.0 - 1e-6)).axes[0]
    middle = ax.get_lines()[0].get_ydata()
    np.testing.assert_allclose(middle, np.median(np.minimum.accumulate(runs, axis=1), axis=0) - 1 + 1e-6)
    assert ax.get_yscale() == "log"


def test_traces_flag_chains_that_disagree():
    chains = np.random.default_rng(0).standard_normal((3, 100, 2))
    chains[1, :, 1] += 3.0
    made = drawn(plots.traces(chains, ["fine", HOSTILE]))
    titles = [ax.get_title(loc="right") for ax in made.axes[::2]]
    assert "disagree" not in titles[0]
    assert f"{insight.rhat(chains)[1]:.3f}: chains disagree" in titles[1]
    assert np.array_equal(made.axes[0].get_lines()[2].get_ydata(), chains[2, :, 0])
    with pytest.raises(StudyError, match=r"\[chain, draw, parameter\]"):
        plots.traces(chains[0])


def test_learning_curves_forecasts_and_decisions():
    ahead = (np.arange(3, 6), np.array([0.3, 0.2, 0.1]), np.array([0.01, 0.02, 0.03]))
    made = drawn(
        plots.curves([[(1, 0.9), (2, 0.5)], [(1, 0.8)]], [ahead, None], decisions=["stop", None], quantity="loss")
    )
    ax = made.axes[0]
    curve, forecast, end = ax.get_lines()[:3]
    assert curve.get_ydata().tolist() == [0.9, 0.5]
    assert forecast.get_ydata().tolist() == [0.3, 0.2, 0.1]
    assert (end.get_xdata().tolist(), end.get_ydata().tolist()) == ([2], [0.5])
    box = ax.collections[0].get_datalim(ax.transData)
    assert (box.y0, box.y1) == pytest.approx((0.04, 0.32))
    assert ax.get_ylabel() == "loss"


def test_architecture_map_averages_repeats_and_frames_the_best():
    for direction, best in (("minimize", (0, 1)), ("maximize", (1, 0))):
        ax = drawn(plots.architecture([1, 1, 2, 1], [8, 16, 8, 16], [0.5, 0.1, 0.9, 0.3], direction=direction)).axes[0]
        shown = ax.images[0].get_array().filled(np.nan)
        np.testing.assert_allclose(shown, [[0.5, 0.2], [0.9, np.nan]])
        frame = ax.patches[0]
        assert (frame.get_y() + 0.5, frame.get_x() + 0.5) == best


def test_every_figure_of_a_study_is_listed():
    assert {*plots.OF_STUDY} <= {*plots.__all__}
