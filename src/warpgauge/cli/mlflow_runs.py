"""Logging of a study's results to MLflow: each method is a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line, require

if TYPE_CHECKING:
    from warpgauge.study import StudyResult


def mlflow_logger(uri: str) -> Callable[[StudyResult, Path], None]:
    """Return a function that logs each method of a result as a run, in an experiment with the study's name."""
    mlflow = require("mlflow", "mlflow")

    def log(result: StudyResult, numbers: Path) -> None:
        try:
            client = mlflow.MlflowClient(tracking_uri=uri)
            found = client.get_experiment_by_name(result.study.name)
            experiment = found.experiment_id if found else client.create_experiment(result.study.name)
            for row in result.rows():
                run = client.create_run(experiment, run_name=row["method"]).info.run_id
                client.set_tag(run, "verdict", result.verdict)
                for name, value in row.items():
                    if isinstance(value, int | float):
                        client.log_metric(run, _key(name), float(value))
                client.log_param(run, "method", row["method"])
                client.log_param(run, "norm", str(result.study.settings.norm))
                client.log_artifact(run, str(numbers))
                client.set_terminated(run)
        except mlflow.exceptions.MlflowException as error:
            raise InvalidInputError(f"MLflow at {uri!r} did not take the results: {one_line(error)}") from error

    return log


def _key(name: str) -> str:
    """Return a name that MLflow takes for a metric: letters, digits, and a few other signs."""
    return "".join(sign if sign.isalnum() or sign in "_-./ " else "_" for sign in name)
