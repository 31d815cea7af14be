"""Outputs under the names of BIDS derivatives, through the command line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import warpgauge as wg
from command_tools import ask, call
from test_napari_layers import flat_project

# Entities in the order of the specification, then a suffix and an ending.
NAME = re.compile(
    r"sub-[0-9A-Za-z]+(_ses-[0-9A-Za-z]+)?(_space-[0-9A-Za-z]+)?(_from-[0-9A-Za-z]+_to-[0-9A-Za-z]+)?"
    r"(_mode-(points|image))?(_desc-[0-9A-Za-z]+)?_(landmarks|xfm|error|evaluation)\.(tsv|json|tfm|nii\.gz)"
)


def test_a_dataset_with_valid_names_that_reads_back(tmp_path: Path) -> None:
    """Every file has a name of the standard; table, transform and map hold what the project says."""
    place, out = flat_project(tmp_path), tmp_path / "derivatives"
    written = ask("export", place, out, "--bids", "sub-01_ses-02")["written"]
    assert all(NAME.fullmatch(Path(name).name) for name in written)
    assert {Path(name).parent.as_posix() for name in written} == {"sub-01/ses-02"}
    about = json.loads((out / "dataset_description.json").read_text())
    assert about["DatasetType"] == "derivative"
    assert about["GeneratedBy"][0]["Name"] == "warpgauge"
    start = out / "sub-01" / "ses-02" / "sub-01_ses-02"
    with Path(f"{start}_desc-annotations_landmarks.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    columns = json.loads(Path(f"{start}_desc-annotations_landmarks.json").read_text())
    assert set(rows[0]) == set(columns)
    assert max(float(row["error"]) for row in rows if row["transform"] == "near") < 1e-6
    read = wg.read_transform(f"{start}_from-fixed_to-moving_mode-points_desc-far_xfm.tfm")
    assert read.map([[1.0, 1.0]])[0] == pytest.approx([31.0, 1.0])
    values = np.asarray(nib.load(f"{start}_space-fixed_desc-far_error.nii.gz").dataobj)
    assert 0.5 < np.nanmean(values) <= 1
    again = ask("export", place, out, "--bids", "sub-03")["written"]
    assert len(again) == len(written)


def test_what_is_no_entity_or_no_dataset_of_ours_is_refused(tmp_path: Path) -> None:
    place = flat_project(tmp_path)
    assert "as in sub-01_ses-02" in call("export", place, tmp_path / "d", "--bids", "01", code=1)
    assert not (tmp_path / "d").exists()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "dataset_description.json").write_text('{"Name": "mine"}')
    assert "another dataset" in call("export", place, tmp_path / "raw", "--bids", "sub-01", code=1)
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["dataset_description.json"]
