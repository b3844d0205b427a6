"""What notebooks show: tables in which names are only names, and a bar that moves."""

import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from presage import Choice, Float, Study, markup
from presage.design import tune
from presage.design.run import Design
from presage.progress import in_notebook
from presage.surrogates import BY_NAME
from presage.trial import Trial

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebooks" / "first-study.ipynb"
HOSTILE = "<script>alert('1')</script><img src=x onerror=\"alert(2)\">&amp;\x1b[31m\u202e"


class Tags(HTMLParser):
    """The tags and the text of a page, as a browser reads them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = set(), set(), [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def harmless(page):
    read = Tags(page)
    assert read.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    assert read.attributes <= {"style"}
    assert not read.open
    assert "\x1b" not in page
    assert "\u202e" not in page
    return read.text


def searched(**more):
    study = Study({"x": Float(0, 1), HOSTILE: Choice([HOSTILE, "b"])}, seed=0, name=HOSTILE, **more)
    study.optimize(lambda params: 1 / 0 if len(study.trials) == 2 else params["x"] ** 2, 6)
    return study


def test_a_study_and_a_result_are_tables_of_what_they_hold():
    study = searched()
    text = harmless(study._repr_html_())
    assert "alert('1')" in text, "the name is shown as it is"
    assert "6 trials, 5 complete, 1 failed" in text
    assert f"{study.best.value:.6g}" in text
    result = study.optimize(lambda params: params["x"] ** 2, 7)
    assert "stopped by trials" in harmless(result._repr_html_())
    assert "stopped by trials" in repr(result)


def test_a_study_without_trials_is_shown_too():
    assert "0 trials" in harmless(Study({"x": Float(0, 1)})._repr_html_())
    open_one = Study({"x": Float(0, 1)}, seed=0)
    open_one.ask()
    assert "1 running" in harmless(open_one._repr_html_())


def test_long_values_are_cut():
    page = markup.table([("x" * 10_000, 1.0)])
    assert len(page) < 600


@pytest.mark.parametrize("name", ["auto", "gp-mcmc", "sparse-gp", "student-t", "rf", "gbm"])
def test_a_posterior_says_what_it_is(name):
    study = searched(surrogate=BY_NAME[name]())
    posterior = study.posterior()
    assert repr(posterior).startswith(f"{type(posterior).__name__}(values=5, dimensions=2, ")
    assert len(repr(posterior)) < 200
    text = harmless(posterior._repr_html_())
    assert type(posterior).__name__ in text
    assert "values5" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hmc", "neural", "variational", "ensemble"])
def test_a_posterior_of_networks_says_what_it_is(name):
    posterior = searched(surrogate=BY_NAME[name]()).posterior()
    assert repr(posterior).startswith(f"{type(posterior).__name__}(values=5, dimensions=2, ")
    assert "values5" in harmless(posterior._repr_html_())


def test_a_design_is_a_table():
    history = [
        Trial(0, {"width": 8}, "complete", (1.5,), reports=[(10, 2.0), (20, 1.5)]),
        Trial(3, {"width": 16}, "paused", reports=[(10, 1.75)]),
    ]
    shares = np.array([0.01, 0.5, 0.6, 0.9])
    design = Design({"width": 8}, -1.25, None, history, (HOSTILE,), (np.zeros(4), np.ones(4)), shares, None)
    text = harmless(design._repr_html_())
    assert "-1.25" in text
    assert "75%" in text, "one of the four rows kept back lies outside its interval"
    assert "alert('1')" in text
    assert repr(design) == "Design({'width': 8}, score -1.25, 2 networks, 1 complete)"


def test_trainings_are_a_table():
    def train(params, trial):
        trial.checkpoint.write_text("here")
        trial.report(1, params[HOSTILE])

    found = tune(train, {HOSTILE: Float(0, 1)}, steps=[1], trainings=3)
    assert "3 steps of 3 trainings" in harmless(found._repr_html_())


def test_a_kernel_is_told_from_a_terminal(monkeypatch):
    assert not in_notebook()
    for shell, wanted in ((None, False), (object(), False), (type("Shell", (), {"kernel": 1})(), True)):
        monkeypatch.setitem(
            sys.modules, "IPython", type("IPython", (), {"get_ipython": staticmethod(lambda s=shell: s)})
        )
        assert in_notebook() is wanted


@pytest.mark.needs("notebook")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_the_first_notebook_runs(tmp_path):
    """In a real kernel: every cell, the tables, the figure, and the bar, which ends at all trials."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [[out.get("data", {}) for out in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]
    said = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs if "name" in out]
    assert not said, "nothing is printed, no warning either"
    bar, result, prediction, posterior, figure, again, search, study = shown
    assert "12/12" in bar[0]["text/html"]
    assert "12/12" in bar[0]["text/plain"]
    assert "stopped by trials" in result[0]["text/html"]
    assert prediction[0]["text/plain"].startswith("Prediction(mean=")
    assert "values=12" in posterior[0]["text/plain"]
    assert "Matern + Trend" in posterior[0]["text/html"]
    assert "image/png" in figure[0]
    assert "16/16" in again[0]["text/html"]
    assert "16 trials" in again[1]["text/html"]
    assert "BayesSearchCV" in search[0]["text/html"]
    assert "8 trials" in study[0]["text/html"]
