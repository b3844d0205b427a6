"""Trials of a presage study as runs of MLflow.

presage.minimize(f, space, callbacks=[MLflowCallback(experiment="tuning")])
"""

import hashlib

from presage.integrations import require
from presage.study import Study
from presage.trial import Trial

require("mlflow", "mlflow")

from mlflow.entities import Metric, Param  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME  # noqa: E402

__all__ = ["MLflowCallback"]

STATES = {"complete": "FINISHED", "failed": "FAILED"}
LONGEST_PARAM, LONGEST_TAG = 6000, 5000  # characters that every MLflow server takes
BATCH = 1000  # metrics that it takes at once


class MLflowCallback:
    """Logs each trial that ends as a run, nested in one run for the study: params, value, metrics, curve, state.

    The study's own run has its settings and, step by step, the best value so far. A study that is gone on with in
    another process goes on in the same runs. Nothing global of MLflow is touched, so objectives may log for themselves.

    Args:
        experiment: MLflow's name for the group of runs; made where it does not exist.
        tracking_uri: where MLflow keeps runs; its own default where left out.
        metric: the name under which values are logged.
        tags: of all runs.
    """

    def __init__(
        self, experiment: str = "presage", *, tracking_uri: str | None = None, metric: str = "value",
        tags: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._client = MlflowClient(tracking_uri)
        self._metric, self._tags = metric, dict(tags or {})
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = known.experiment_id if known else self._client.create_experiment(experiment)
        self._parents: dict[str, str] = {}

    def __call__(self, study: Study, trial: Trial) -> None:
        """Log a trial that has ended."""
        began = trial.finished if trial.suggested is None else trial.suggested
        facts = {"presage.state": trial.state, "presage.source": trial.source, "presage.number": str(trial.number)}
        if trial.failure is not None:
            facts |= {"presage.failure": trial.failure.kind, "presage.message": trial.failure.message[:LONGEST_TAG]}
        parent = self._parent(study)
        run = self._run(f"trial {trial.number}", _millis(began), {**facts, MLFLOW_PARENT_RUN_ID: parent})
        ended = _millis(trial.finished)
        metrics = [Metric(self._metric, value, ended, step) for step, value in trial.reports]
        if trial.value is not None:
            last = trial.reports[-1][0] + 1 if trial.reports and trial.reports[-1][1] != trial.value else 0
            metrics += [Metric(self._metric, trial.value, ended, last)] if last or not trial.reports else []
            metrics += [Metric(name, value, ended, 0) for name, value in trial.metrics.items() if name != self._metric]
            metrics += [Metric(f"{self._metric}_stddev", trial.stddev, ended, 0)] if trial.stddev is not None else []
        params = [Param(name, str(value)[:LONGEST_PARAM]) for name, value in trial.params.items()]
        for start in range(0, max(len(metrics), 1), BATCH):
            self._client.log_batch(run, metrics[start : start + BATCH], params if start == 0 else [])
        self._client.set_terminated(run, STATES.get(trial.state, "RUNNING"), ended)
        if trial.value is not None:
            self._client.log_metric(parent, f"best_{self._metric}", study.best.value, ended, trial.number)

    def _parent(self, study: Study) -> str:
        """The study's own run."""
        created = study._history.header["at"]
        key = hashlib.sha256(f"{study.name} {created}".encode()).hexdigest()[:16]  # a text without quotes to search for
        if key not in self._parents:
            found = self._client.search_runs([self._experiment], f"tags.`presage.id` = '{key}'", max_results=1)
            self._parents[key] = found[0].info.run_id if found else self._begin(study, created, key)
        return self._parents[key]

    def _begin(self, study: Study, created: float, key: str) -> str:
        run = self._run(study.name, _millis(created), {"presage.study": study.name, "presage.id": key})
        settings = {"direction": study.direction, "seed": study.seed, **study._settings}
        for name, value in settings.items():
            self._client.log_param(run, name, str(value)[:LONGEST_PARAM])
        for name, dimension in study.space.items():
            self._client.set_tag(run, f"presage.space.{name}", repr(dimension)[:LONGEST_TAG])
        self._client.set_terminated(run, "FINISHED")  # or it would seem to run for ever if this process is killed
        return run

    def _run(self, name: str, began: int, tags: dict[str, str]) -> str:
        tags = {MLFLOW_RUN_NAME: name, **self._tags, **tags}
        return self._client.create_run(self._experiment, began, tags, name).info.run_id


def _millis(seconds: float | None) -> int:
    return int(1000 * (seconds or 0.0))
