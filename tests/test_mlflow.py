"""Trials as MLflow runs, in a database of MLflow's own."""

import pytest

import presage
from presage import Choice, Float, Space

pytestmark = [pytest.mark.needs("mlflow"), pytest.mark.filterwarnings("ignore")]  # MLflow's own warnings are not ours


def objective(params, trial):
    if trial.number == 2:
        raise ValueError("a bad day")
    for step in range(3):
        trial.report(step, params["x"] + 2 - step)
    return params["x"]


def test_every_trial_is_a_nested_run(tmp_path):
    from mlflow.tracking import MlflowClient

    from presage.integrations.mlflow import MLflowCallback

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    space = Space({"x": Float(0, 1), "act": Choice(["relu", None])})
    for trials in (3, 4):  # the second time as another process would, which goes on with the study
        log = MLflowCallback("tuning", tracking_uri=uri, metric="loss", tags={"team": "a"})
        result = presage.minimize(
            objective, space, trials, seed=0, progress=False, callbacks=[log], storage=tmp_path / "s.db", name="it's"
        )
    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("tuning").experiment_id])
    parent = next(run for run in runs if run.data.tags.get("presage.study") == "it's")
    by_number = {int(r.data.tags["presage.number"]): r for r in runs if r is not parent}
    assert len(runs) == 5
    assert sorted(by_number) == [0, 1, 2, 3]
    for trial in result.trials:
        run = by_number[trial.number]
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.tags["team"] == "a"
        assert run.data.params == {name: str(value) for name, value in trial.params.items()}
        assert run.info.status == ("FAILED" if trial.number == 2 else "FINISHED")
        assert abs(run.info.end_time - 1000 * trial.finished) <= 1
        if trial.values:
            curve = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")]
            assert curve == trial.reports  # whose last is the value
            assert run.data.metrics["loss"] == trial.value
    assert by_number[2].data.tags["presage.message"] == "ValueError: a bad day"
    assert parent.data.metrics["best_loss"] == result.best.value
    assert parent.data.params["direction"] == "minimize"
