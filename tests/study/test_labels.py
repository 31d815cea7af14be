"""Studies of pairs that have label images but no landmarks, as most tasks of Learn2Reg: through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates

from command_tools import ask, call
from warpgauge.study import evaluate_submission

SIZE, SPACING = (30, 26, 22), (1.0, 1.5, 2.0)
FAST = "samples = 10\nbootstrap = 200\n"


def save(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(values, np.diag([*SPACING, 1.0])), path)


def bent(seed: int, size: float) -> np.ndarray:
    """A smooth field in voxels, (X, Y, Z, 3)."""
    rng = np.random.default_rng(seed)
    parts = [gaussian_filter(rng.normal(0, 1, SIZE), 4) for _ in range(3)]
    return np.stack([size * one / np.abs(one).max() for one in parts], axis=-1).astype(np.float32)


def pulled_back(labels: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Learn2Reg's recipe: nearest neighbour at the voxel index plus the displacement."""
    places = np.stack(np.meshgrid(*map(np.arange, SIZE), indexing="ij")) + np.moveaxis(field, -1, 0)
    return map_coordinates(labels, places, order=0)


def dice(one: np.ndarray, other: np.ndarray, label: int) -> float:
    a, b = one == label, other == label
    return 2 * float(np.sum(a & b)) / float(a.sum() + b.sum())


def sd_log_jacobian(field: np.ndarray) -> float:
    """Learn2Reg's recipe: determinant plus 3, clipped, its logarithm, without a border of two voxels."""
    gradient = np.stack(np.gradient(field.astype(np.float64), axis=(0, 1, 2)), axis=-1)[2:-2, 2:-2, 2:-2]
    return float(np.log(np.clip(np.linalg.det(gradient + np.eye(3)) + 3, 1e-9, 1e9)).std())


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pairs in the layout of Learn2Reg's OASIS: images and labels. The method ``good`` knows half the field."""
    folder = tmp_path_factory.mktemp("task")
    grid = np.stack(np.meshgrid(*map(np.arange, SIZE), indexing="ij"), axis=-1)
    entries = []
    for n in range(3):
        moving = np.zeros(SIZE, np.uint8)
        moving[((grid - [10, 12, 11]) ** 2 / [36, 49, 36]).sum(axis=-1) < 1] = 1
        moving[((grid - [21, 13, 10]) ** 2 / [25, 64, 36]).sum(axis=-1) < 1] = 2
        truth = bent(n, 4.0)
        fixed = pulled_back(moving, truth)
        fixed[1, 1, 1] = 7  # a label that the moving image does not have
        for state, labels in enumerate((fixed, moving)):
            save(folder / "labelsTr" / f"OASIS_{n + 1:04d}_{state:04d}.nii.gz", labels)
            save(folder / "imagesTr" / f"OASIS_{n + 1:04d}_{state:04d}.nii.gz", labels)
        entries.append(
            {side: f"./imagesTr/OASIS_{n + 1:04d}_{s:04d}.nii.gz" for s, side in enumerate(("fixed", "moving"))}
        )
        for method, share in (("good", 0.5), ("bad", -0.5)):
            save(folder / "submissions" / method / f"disp_{n + 1:04d}_{n + 1:04d}.nii.gz", share * truth)
    (folder / "OASIS_dataset.json").write_text(json.dumps({"name": "OASIS", "registration_val": entries}))
    return folder


@pytest.fixture(scope="module")
def study(task: Path) -> Path:
    file = task / "oasis.toml"
    call("new-study", file, "--like", "learn2reg", "--data", task / "OASIS_dataset.json")
    text = file.read_text().replace("[settings]\n", f"[settings]\n{FAST}")
    block = text[text.rindex("[[method]]") :]
    file.write_text(
        text.replace(block, block.replace('"submission"', '"bad"') + block.replace('"submission"', '"good"'))
    )
    return file


def test_labels_alone_give_a_study_that_says_so(task: Path, tmp_path: Path) -> None:
    """No pair is left out, no standard deviation of landmarks is made up."""
    made = ask("new-study", tmp_path / "o.toml", "--like", "learn2reg", "--data", task / "OASIS_dataset.json")
    assert made["pairs"] == ["0001_0001", "0002_0002", "0003_0003"]
    assert made["left_out"] == []
    text = (tmp_path / "o.toml").read_text()
    assert "There are no landmarks: methods are ranked by Dice." in text
    assert "sd =" not in text


def test_methods_are_ranked_by_dice_and_no_verdict_on_errors_is_made_up(study: Path) -> None:
    result = ask("benchmark", study)
    assert result["score"] == "1 - Dice"
    assert [one["name"] for one in result["methods"]] == ["good", "bad"]
    assert result["verdict"].startswith(
        "There are no landmarks: methods are ranked by Dice, which does not say how large"
    )
    assert "good is first over 3 pairs with probability over 0.99" in result["verdict"]
    for row in result["cases"]:
        assert row["score"] == pytest.approx(1 - row["dice"])
        assert (row["low"], row["high"], row["landmark_mean"]) == (None, None, None)
    assert {row["method"] for row in result["cases"]} == {"good", "bad", "identity"}
    assert result["methods"][0]["acrobat"] is None
    assert result["baseline"]["cases"] == 3


def test_official_figures_are_those_of_the_challenges_recipe(study: Path, task: Path) -> None:
    """DSC over the labels that both images have, SDlogJ of the field; no TRE, as there are no landmarks."""
    result = ask("benchmark", study)
    for one in result["methods"]:
        shares, spreads = [], []
        for n in range(3):
            labels = [nib.load(task / "labelsTr" / f"OASIS_{n + 1:04d}_{s:04d}.nii.gz").get_fdata() for s in (0, 1)]
            field = nib.load(task / "submissions" / one["name"] / f"disp_{n + 1:04d}_{n + 1:04d}.nii.gz").get_fdata()
            warped = pulled_back(labels[1], field)
            shares.append(np.mean([dice(labels[0], warped, label) for label in (1, 2)]))
            spreads.append(sd_log_jacobian(field))
        official = one["official"]
        assert official["DSC mean"] == pytest.approx(np.mean(shares), abs=0.002)  # points at .5 may round either way
        assert official["DSC 30"] == pytest.approx(np.quantile(shares, 0.3), abs=0.002)
        assert official["SDlogJ mean"] == pytest.approx(np.mean(spreads), rel=1e-5)
        assert not [name for name in official if name.startswith("TRE")]
        assert 0 < official["HD95 mean"] < 10
    # Three cases that lie all on one side are just significant (DSC, HD95); SDlogJ is not, and both share its score.
    expected = [np.cbrt(1 * 1 * 0.55), np.cbrt(0.1 * 0.1 * 0.55)]
    assert [one["official"]["Rank-Score"] for one in result["methods"]] == pytest.approx(expected)


def test_table_leaderboard_and_report_name_the_score(study: Path, task: Path) -> None:
    said = call("benchmark", study, "--leaderboard", task / "board.html")
    assert "mean 1 - Dice" in said
    assert "DSC mean" in said
    board = (task / "board.html").read_text()
    assert ">1\u00a0-\u00a0Dice<" in board
    assert "world units" not in board
    call("report", study, "--out", task / "report.html")
    assert "There are no landmarks" in (task / "report.html").read_text()


def test_one_pair_gives_no_probability(study: Path, tmp_path: Path) -> None:
    """Nothing varies with one pair and no posterior, so that a probability of 1 would be made up."""
    text = study.read_text()
    first, second = text.index("[[pair]]"), text.index("[[pair]]", text.index("[[pair]]") + 1)
    alone = study.with_name("one.toml")
    alone.write_text(text[:first] + text[first:second] + text[text.rindex('[[method]]\nname = "bad"') :])
    said = call("benchmark", alone, "--leaderboard", tmp_path / "board.html")
    assert "1.000" not in said
    assert "good is first over 1 pair, too few for a probability" in said


def test_a_missing_file_and_a_field_that_leaves_the_image_are_missing_cases(study: Path, task: Path) -> None:
    """The second says how much of the labels is mapped outside."""
    far = np.zeros((*SIZE, 3), np.float32)
    far[..., 0] = 40
    save(task / "submissions" / "odd" / "disp_0001_0001.nii.gz", far)
    text = study.read_text()
    odd = study.with_name("odd.toml")
    odd.write_text(text.replace('name = "bad"', 'name = "odd"'))
    rows = {row["pair"]: row for row in ask("benchmark", odd)["cases"] if row["method"] == "odd"}
    assert "of the labels outside the moving image" in rows["0001_0001"]["missing"]
    assert "there is no file" in rows["0002_0002"]["missing"]
    assert all(row["rank"] == 2 for row in rows.values())
    worst = {row["pair"]: row["score"] for row in ask("benchmark", odd)["cases"] if row["method"] == "identity"}
    assert all(row["score"] >= worst[pair] for pair, row in rows.items())


def test_the_containers_metrics_have_overlap_and_official_figures(study: Path, task: Path, tmp_path: Path) -> None:
    """metrics.json of a submission: the same figures as the study's, for the leaderboard and for each pair."""
    call("benchmark", study, "--container", tmp_path / "box")
    names = {path.name for path in (tmp_path / "box" / "ground-truth").rglob("*.nii.gz")}
    assert len(names) == 6
    assert all("labels-OASIS" in name for name in names)
    evaluate_submission(task / "submissions" / "good", tmp_path / "box" / "ground-truth", tmp_path / "out")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    expected = next(one for one in ask("benchmark", study)["methods"] if one["name"] == "good")
    found = metrics["aggregates"]
    for name in ("dice", "hd95", "surface_distance", "mean_score"):
        assert found[name] == pytest.approx(expected[name], rel=1e-12)
    del expected["official"]["Rank-Score"]  # there are no others to be ranked among
    assert {name: found[name] for name in expected["official"]} == pytest.approx(expected["official"])
    assert found["mean_score"] == pytest.approx(1 - found["dice"])
    assert found["mean_score"] < found["mean_score_before_registration"]
    for row in metrics["case"].values():
        assert {"dice", "hd95", "surface_distance", "DSC", "HD95", "SDlogJ"} <= set(row)
        assert row["landmark_mean"] is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("moving_labels =", "moving =", "has one of fixed_labels and moving_labels"),
        ('name = "0001_0001"', 'name = "0001_0001"\ntargets = "t.json"', "has targets but no landmarks"),
        ('name = "0001_0001"', 'name = "0001_0001"\nsd = 2.0', "has sd but no landmarks"),
        (
            'name = "0001_0001"',
            'name = "marked"\nlandmarks = "a.json"\ntargets = "a.json"\n\n[[pair]]\nname = "0001_0001"',
            "The pair '0001_0001' has labels but no landmarks, unlike the pair 'marked'",
        ),
        (
            'transform = "submissions/{method}/disp_{pair}.nii.gz"',
            'mapped_landmarks = "{method}.csv"',
            "have no landmarks",
        ),
    ],
)
def test_what_does_not_go_with_labels_alone_is_one_sentence(study: Path, old: str, new: str, words: str) -> None:
    text = study.read_text()
    assert old in text
    wrong = study.with_name("wrong.toml")
    wrong.write_text(text.replace(old, new, 1))
    error = call("benchmark", wrong, code=1)
    assert words in error
    assert error.count("\n") == 1


def test_pairs_without_landmarks_among_others_are_left_out_by_name(study: Path, task: Path, tmp_path: Path) -> None:
    """Errors in mm and overlap are not averaged: keypoints of one pair make the others drop out, with a reason."""
    for state in (0, 1):
        file = task / "keypointsTr" / f"OASIS_0001_{state:04d}.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text("10,10,10\n12,9,8\n20,14,11\n")
    try:
        made = ask("new-study", tmp_path / "o.toml", "--like", "learn2reg", "--data", task / "OASIS_dataset.json")
    finally:
        for file in (task / "keypointsTr").iterdir():
            file.unlink()
    assert made["pairs"] == ["0001_0001"]
    assert made["left_out"] == [f"pair 000{n}_000{n}: it has labels but no landmarks, unlike others" for n in (2, 3)]
