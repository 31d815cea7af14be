"""Results of a study in a real MLflow store."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest

from command_tools import call
from study_tools import make_study


def test_every_method_is_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics of the run are the numbers of study.json, which is attached."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder is enough here; servers are the usual case
    study = make_study(tmp_path, 2)
    study.write_text(study.read_text().replace("samples = 100", "samples = 30"))
    uri = (tmp_path / "runs").as_uri()
    call("benchmark", study, "--mlflow", uri)
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("small")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"near", "far", "farther"}
    found = json.loads((tmp_path / "STUDY-results" / "study.json").read_text())["methods"]
    for one in found:
        assert runs[one["name"]].data.metrics["mean_score"] == pytest.approx(one["mean_score"])
    assert [file.path for file in client.list_artifacts(runs["near"].info.run_id)] == ["study.json"]


def test_a_store_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    study = make_study(tmp_path, 1)
    error = call("benchmark", study, "--mlflow", "nonsense://x", code=1)
    assert "MLflow at 'nonsense://x' did not take the results" in error
