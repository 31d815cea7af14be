"""``warpgauge tre`` and `wg.tre`: published errors without a project, what was assumed, and other readings."""

from __future__ import annotations

import csv
from pathlib import Path

import nibabel
import numpy as np
import pytest

import warpgauge as wg
from command_tools import ask, call
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import AffineTransform, write_transform


def _csv(path: Path, rows: Floats, header: str) -> Path:
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Forty pairs of 2D landmarks in one file and in two, a good affine and its inverse."""
    rng = np.random.default_rng(0)
    fixed = rng.uniform(0, 500, (40, 2))
    matrix, offset = np.array([[1.02, 0.1], [-0.08, 0.97]]), np.array([25.0, -40.0])
    moving = fixed @ matrix.T + offset
    good = AffineTransform(matrix, np.add(offset, [3.0, 4.0]))
    write_transform(good, tmp_path / "good.tfm")
    write_transform(good.inverse(), tmp_path / "back.tfm")
    return {
        "pairs": _csv(tmp_path / "pairs.csv", np.hstack([fixed, moving]), "fixed_x,fixed_y,moving_x,moving_y"),
        "fixed": _csv(tmp_path / "fixed.csv", fixed, "x,y"),
        "moving": _csv(tmp_path / "moving.csv", moving, "x,y"),
        "good": tmp_path / "good.tfm",
        "back": tmp_path / "back.tfm",
    }


def test_published_errors_of_elastix_without_any_option(data_dir: Path) -> None:
    """All 14 means, medians and maxima to 0.0005 mm, and no other reading is named."""
    folder = data_dir / "elastix-lung"
    points = [folder / f"CT_3D_lung_{side}_point_set_corrected.txt" for side in ("fixed", "moving")]
    found = ask("tre", *points, *sorted((folder / "transforms").glob("TransformParameters_*.txt")))
    with (folder / "expected_tre.csv").open() as file:
        expected = {row["transform"]: row for row in csv.DictReader(file)}
    assert len(found["transforms"]) == len(expected) == 14
    for row in found["transforms"]:
        name = row["name"].removesuffix(".txt").split("3DCT_lung.")[1].replace(".", "_")
        known = expected[name]
        for key, column in (("mean", "tre_mean_mm"), ("median", "tre_median_mm"), ("maximum", "tre_max_mm")):
            assert row[key] == pytest.approx(float(known[column]), abs=0.00051), name
        assert row["fits_better"] is None


def test_published_initial_errors_of_lungs_need_the_voxels_and_say_so(data_dir: Path) -> None:
    """DIR-Lab's and COPDgene's files count voxels: refused with the option that is missing, then as published."""
    for folder, table, names, column in (
        ("dirlab4dct", "cases.csv", "Case{}_300_{}_xyz.txt", "tre300_mean_mm"),
        ("copdgene", "copd_cases.csv", "copd{}_300_{}_xyz_r1.txt", "initial_tre_published_mean_mm"),
    ):
        phases = ("T00", "T50") if folder == "dirlab4dct" else ("iBH", "eBH")
        with (data_dir / folder / table).open() as file:
            for row in csv.DictReader(file):
                points = [data_dir / folder / names.format(row["case"], phase) for phase in phases]
                spacing = ",".join(row[f"d{axis}_mm"] for axis in "xyz")
                size = ",".join(row[f"n{axis}"] for axis in "xyz")
                found = ask("tre", *points, "--spacing", spacing, "--size", size)
                assert found["before"]["mean"] == pytest.approx(float(row[column]), abs=0.006), points[0].name
        assert "--fixed-image" in call("tre", *points, code=3)


def test_published_distance_of_two_raters_of_cima(data_dir: Path) -> None:
    """Pixels by the file itself, without any option."""
    folder = data_dir / "cima" / "lung-lesion_3"
    raters = [folder / f"user-{name}_scale-50pc" / "29-041-Izd2-w35-He-les3.csv" for name in ("PS", "JB")]
    found = ask("tre", *raters)
    assert found["units"] == "px"
    assert found["before"]["mean"] == pytest.approx(146.8, abs=0.05)


def test_both_forms_of_landmarks_give_the_same_table(files: dict[str, Path], tmp_path: Path) -> None:
    """One file of pairs, two files, arrays; the error before registration without a transform."""
    one = ask("tre", files["pairs"], files["good"])
    two = ask("tre", files["fixed"], files["moving"], files["good"])
    assert one["transforms"][0]["mean"] == pytest.approx(5.0)
    assert {**one, "assumed": 0} == {**two, "assumed": 0}
    pairs = wg.read_landmarks(files["pairs"])
    assert pairs.moving_points is not None
    memory = wg.tre(pairs.fixed_points, pairs.moving_points, files["good"])
    assert memory["good.tfm"].summary.mean == one["transforms"][0]["mean"]
    before = ask("tre", files["pairs"])
    assert before["transforms"] == []
    assert before["before"]["mean"] == pytest.approx(memory.before.mean)
    assert "error before registration" in call("tre", files["pairs"])


def test_the_other_direction_is_named_never_applied_and_taken_on_request(files: dict[str, Path]) -> None:
    """The table has the error as given, a sentence has the other; --read-as takes it and says so."""
    told = ask("tre", files["pairs"], files["back"])["transforms"][0]
    assert told["fits_better"]["kinds"] == ["inverse"]
    assert told["mean"] > 20 * told["fits_better"]["mean"] > 0
    shown = call("tre", files["pairs"], files["back"])
    assert "--read-as inverse" in shown
    assert "fits better in the other direction, or with the sides swapped" in shown
    taken = ask("tre", files["pairs"], files["back"], "--read-as", "inverse")["transforms"][0]
    assert taken["read_as"] == "inverse"
    assert taken["mean"] == pytest.approx(5.0, abs=1e-6)
    assert taken["fits_better"] is None
    assert "read as inverse" in call("tre", files["pairs"], files["back"], "--read-as", "inverse")
    mended = ask("tre", files["pairs"], files["back"], "--direction", "moving_to_fixed")["transforms"][0]
    assert mended["mean"] == pytest.approx(5.0, abs=1e-6)


def test_every_reading_that_is_named_can_be_taken(tmp_path: Path) -> None:
    """With --read-as the mean is the one that the sentence promised, on both sides of the map in another unit."""
    rng = np.random.default_rng(1)
    grid = Grid((80, 90, 40), (1.0, 1.2, 5.0), (-60.0, -30.0, 20.0), units="mm")
    fixed = grid.index_to_world(rng.uniform(5, 35, (40, 3)))
    right = AffineTransform(np.eye(3) + 0.03 * rng.normal(size=(3, 3)), [9.0, -6.0, 4.0])
    moving = right.map(fixed)
    steps = grid.direction * grid.spacing
    wrongs = {
        "xy": lambda x: x + (right.map(x) - x)[:, [1, 0, 2]],
        "lps": lambda x: x + (right.map(x) - x) * [-1, -1, 1],
        "reversed": lambda x: x + (right.map(x) - x)[:, ::-1],
        "positions": lambda x: right.map(x) - x,
        "voxel": lambda x: x + (right.map(x) - x) @ np.linalg.inv(steps).T,
    }
    result = wg.tre(fixed, moving, wrongs, fixed_image=grid)
    for kind in wrongs:
        fit = result[kind].fit
        assert fit.kinds == (kind,)
        taken = wg.tre(fixed, moving, wrongs[kind], fixed_image=grid, read_as=fit.option)["transform"]
        assert taken.summary.mean == pytest.approx(fit.better, abs=1e-9) == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(InvalidInputError):
        wg.tre(fixed, moving, wrongs["xy"], read_as="sideways")
    with pytest.raises(InvalidInputError):
        wg.tre(fixed, moving, wrongs["voxel"], read_as="voxel-displacements")


def test_figures_against_their_definitions(tmp_path: Path) -> None:
    """Mean, median, RMS, 90th percentile, snapped mean, rTRE and the mean error vector, each from its formula."""
    rng = np.random.default_rng(2)
    grid = Grid((100, 120), (2.0, 3.0), units="um")
    fixed, moving = rng.uniform(5, 150, (2, 30, 2))
    errors = rng.normal([1.0, -3.0], 2.0, (30, 2))
    result = wg.tre(fixed, moving, {"table": moving + errors}, fixed_image=grid)
    table = result["table"]
    lengths = np.sqrt((errors**2).sum(axis=1))
    summary = table.summary
    assert summary.rms == pytest.approx(np.sqrt(np.mean(lengths**2)))
    assert summary.median == pytest.approx(np.median(lengths))
    assert summary.percentile90 == pytest.approx(np.quantile(lengths, 0.9))
    assert summary.maximum == pytest.approx(lengths.max())
    spread = 1.645 * lengths.std(ddof=1) / np.sqrt(30)
    assert summary.high - summary.low == pytest.approx(2 * spread, rel=0.15)  # a bootstrap of 30 against the formula
    snapped = np.round((moving + errors) / [2.0, 3.0]) * [2.0, 3.0]
    figures = result.challenge_figures(table)
    assert figures["snapped_mean"] == pytest.approx(np.linalg.norm(snapped - moving, axis=1).mean())
    assert figures["rtre_median"] == pytest.approx(np.median(lengths) / np.hypot(200.0, 360.0))
    vector = result.mean_error_in_voxels(table)
    assert vector is not None
    np.testing.assert_allclose(vector, errors.mean(axis=0) / [2.0, 3.0])
    again = wg.tre(fixed, moving, {"table": moving + errors}, fixed_image=grid)
    assert str(again) == str(result)


def test_landmarks_outside_a_field_are_counted_and_fail_the_bound(files: dict[str, Path], tmp_path: Path) -> None:
    """They are in no figure, the table says how many, the CSV leaves them empty; --fail-above does not let them by."""
    grid = Grid((300, 600))
    write_transform(wg.read_transform(files["good"]), tmp_path / "field.nrrd", grid=grid)
    found = ask("tre", files["pairs"], tmp_path / "field.nrrd", "--per-landmark", tmp_path / "errors.csv")
    row = found["transforms"][0]
    assert row["outside"] > 0
    assert row["n"] + row["outside"] == 40
    with (tmp_path / "errors.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert sum(not one["field.nrrd"] for one in rows) == row["outside"]
    assert np.mean([float(one["field.nrrd"]) for one in rows if one["field.nrrd"]]) == pytest.approx(row["mean"])
    call("tre", files["pairs"], tmp_path / "field.nrrd", "--fail-above", 6, code=1)


def test_exit_codes(files: dict[str, Path], tmp_path: Path) -> None:
    """0; 1 only by --fail-above; 2 wrong usage; 3 every failure, with a sentence and without a traceback."""
    call("tre", files["pairs"], files["good"], "--fail-above", 5.1)
    call("tre", files["pairs"], files["good"], "--fail-above", 4.9, code=1)
    call("tre", files["pairs"], files["good"], "--sideways", code=2)
    call("tre", code=2)
    (tmp_path / "broken.tfm").write_text("#Insight Transform File V1.0\nTransform: nothing\n")
    for arguments in (
        (files["fixed"],),
        (files["pairs"], tmp_path / "broken.tfm"),
        (files["fixed"], files["moving"], files["moving"]),
        (files["pairs"], files["good"], "--spacing", "1,1"),
        (files["pairs"], files["good"], "--read-as", "voxel-landmarks"),
    ):
        said = call("tre", *arguments, code=3)
        assert "Traceback" not in said
        assert len(said) > 20


def test_what_is_open_is_named_by_the_options_of_this_command(files: dict[str, Path], tmp_path: Path) -> None:
    """--frame is that of landmarks here, --field-frame that of fields; each refusal names one that this command has."""
    np.savetxt(tmp_path / "bare.txt", np.arange(12.0).reshape(4, 3))
    said = call("tre", tmp_path / "bare.txt", tmp_path / "bare.txt", code=3)
    assert "--frame index1" in said
    assert "--format" not in said
    assert ask("tre", tmp_path / "bare.txt", tmp_path / "bare.txt", "--frame", "LPS")["landmarks"] == 4
    points = _csv(
        tmp_path / "solid.csv", np.arange(24.0).reshape(4, 6), "fixed_x,fixed_y,fixed_z,moving_x,moving_y,moving_z"
    )
    nibabel.save(nibabel.Nifti1Image(np.ones((4, 5, 6, 3)), np.eye(4)), tmp_path / "field.nii")
    assert "--field-frame LPS" in " ".join(call("tre", points, tmp_path / "field.nii", code=3).split())


def test_sets_of_points_in_memory_are_joined_by_row_or_refused() -> None:
    """What one side switched off is left out; another unit, or the same names in another order, is an error."""
    points = np.arange(8.0).reshape(4, 2)
    fixed = wg.Landmarks(points, names=tuple("abcd"), units="um", active=np.array([True, False, True, True]))
    moving = wg.Landmarks(
        points + np.array([3, 4]), names=tuple("abcd"), units="um", active=np.array([True, True, False, True])
    )
    result = wg.tre(fixed, moving)
    assert (result.before.n, result.before.mean, result.names) == (2, 5.0, ("a", "d"))
    for other in (wg.Landmarks(points, units="mm"), wg.Landmarks(points, names=tuple("dcba"), units="um")):
        with pytest.raises(InvalidInputError):
            wg.tre(fixed, other)


def test_a_chain_is_one_transform(files: dict[str, Path]) -> None:
    """There and back again is the identity."""
    row = ask("tre", files["pairs"], files["good"], files["back"], "--chain")["transforms"]
    assert len(row) == 1
    assert row[0]["mean"] == pytest.approx(ask("tre", files["pairs"])["before"]["mean"])
