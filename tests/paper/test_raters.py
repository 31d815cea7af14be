"""The raters study: tallies against loops by hand, and published figures of the real data."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

import oracle
from paper import raters
from paper.experiment import Run, run_experiment

LEVELS = (0.5, 0.8, 0.95)
THRESHOLDS = {level: chi2.ppf(level, 3) for level in LEVELS}


def placements(count: int = 6, points: int = 5) -> np.ndarray:
    rng = np.random.default_rng(3)
    truth = rng.uniform(0, 80, (points, 3))
    return truth + rng.normal(0, 1, (count, points, 3)) * rng.uniform(0.3, 2, (points, 1))


def log_density(miss: np.ndarray, covariance: np.ndarray) -> float:
    """Log density of N(0, covariance)."""
    square = miss @ np.linalg.solve(covariance, miss)
    return float(-0.5 * (square + np.linalg.slogdet(2 * np.pi * covariance)[1]))


def by_hand(method: str, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of one placement from the definitions."""
    d, count = 3, len(group)
    fits = [oracle.sample_covariance_fusion(group[:, point]) for point in range(group.shape[1])]
    means = np.array([mean for mean, _ in fits])
    scatter = np.array([covariance * (count - 1) for _, covariance in fits])
    if method == "sample":
        return means, scatter / (count - 1)
    freedom = (count - 1) * len(fits)
    total = scatter.sum(axis=0)
    pooled = (total + np.trace(total) / (d * freedom) * np.eye(d)) / (freedom + 1)
    if method == "one for all":
        return means, np.array([pooled] * len(fits))
    strength = {"pooled": 5.0, "pooled, strength 1": 1.0, "pooled, strength 20": 20.0}[method]
    return means, (scatter + strength * pooled) / (count - 1 + strength)


@pytest.mark.parametrize("method", list(raters.METHODS))
def test_tallies_are_those_of_every_left_out_rater_and_group(method: str) -> None:
    """Coverage and log score of N(mean, (1 + 1/m) Sigma), by loops over raters, groups and points."""
    every = placements()
    found = raters.several_raters(every, seed=0)["tallies"]
    for size in (2, 3, 4, 5):
        tally = found[f"{method}|{size}"]
        if method == "sample" and size <= 3:
            assert tally["count"] == 0
            assert tally["refused"] > 0
            continue
        count, score, inside = 0, 0.0, dict.fromkeys(LEVELS, 0)
        for left_out in range(6):
            for group in combinations([r for r in range(6) if r != left_out], size):
                means, covariances = by_hand(method, every[list(group)])
                for point in range(5):
                    own = (1 + 1 / size) * covariances[point]
                    miss = every[left_out, point] - means[point]
                    count += 1
                    score += log_density(miss, own)
                    for level in LEVELS:
                        inside[level] += miss @ np.linalg.solve(own, miss) <= THRESHOLDS[level]
        assert tally["count"] == count
        # Four raters' sample covariance in 3D is barely of full rank, and its inverse loses as many digits.
        assert tally["log score"] == pytest.approx(score, rel=1e-5 if method == "sample" else 1e-9)
        assert tally["inside"] == {str(level): int(number) for level, number in inside.items()}


def test_distances_are_between_a_group_and_half_of_all_raters() -> None:
    """Five raters: one, two and three of them against two others."""
    every = placements(5)
    found = raters.several_raters(every, seed=0)["distances"]
    for size in (1, 2, 3):
        lengths = []
        for group in combinations(range(5), size):
            for rest in combinations([r for r in range(5) if r not in group], 2):
                for point in range(5):
                    difference = sum(every[r, point] for r in group) / size - sum(every[r, point] for r in rest) / 2
                    lengths.append(np.linalg.norm(difference))
        assert found[str(size)] == pytest.approx(np.mean(lengths), rel=1e-12)


def test_two_raters_are_predicted_by_the_scatter_at_all_other_locations() -> None:
    """Twice the covariance of one placement; a swapped pair of points is a gross error."""
    rng = np.random.default_rng(1)
    first = np.array([[x, y] for x in (0.0, 50.0, 100.0) for y in (0.0, 50.0, 100.0)])
    second = first + rng.normal(0, 2, first.shape)
    second[[3, 7]] = second[[7, 3]]
    found = raters.two_raters(first, second)
    assert found["gross errors"] == 2
    score = {"one for all|1": 0.0, "without gross errors|1": 0.0, "others only|1": 0.0}
    for row in range(9):
        for name, left in (("one for all|1", [row]), ("without gross errors|1", [row, 3, 7])):
            rest = [i for i in range(9) if i not in left]
            scatter = sum(2 * np.outer(second[i] - first[i], second[i] - first[i]) / 4 for i in rest)
            single = (scatter + np.trace(scatter) / (2 * len(rest)) * np.eye(2)) / (len(rest) + 1)
            value = log_density(second[row] - first[row], 2 * single)
            score[name] += value
            if name.startswith("without") and row not in (3, 7):
                score["others only|1"] += value
    for name, value in score.items():
        assert found["tallies"][name]["log score"] == pytest.approx(value, rel=1e-9)
    assert found["tallies"]["others only|1"]["count"] == 7


def made_up(folder: Path) -> Path:
    """A data directory of the same form as the real one, with numbers of our own."""
    (folder / "afids").mkdir(parents=True)
    every = placements(6)
    with (folder / "afids" / "afids_multirater_long.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dataset", "image", "rater", "session", "afid", "x_mm", "y_mm", "z_mm"])
        for image, count in (("sub-1", 3), ("tpl-MNI152NLin6Asym", 4), ("tpl-MNIColin27", 6)):
            for rater in range(count):
                for point in range(5):
                    writer.writerow(["x", image, f"r{rater}", "", point + 1, *every[rater, point].tolist()])
    rng = np.random.default_rng(0)
    names = {
        "lung-lesion_3": ("50", ("29-041-Izd2-w35-He-les3.csv", "29-041-Izd2-w35-proSPC-4-les3.csv")),
        "mammary-gland_1": ("100", ("s1_37-HE_A4926-4L.csv", "s1_40-PR_A4926-4L.csv")),
    }
    for region, (percent, files) in names.items():
        for name in files:
            points = rng.uniform(0, 1000, (8, 2))
            for rater in ("PS", "JB"):
                place = folder / "cima" / region / f"user-{rater}_scale-{percent}pc"
                place.mkdir(parents=True, exist_ok=True)
                rows = points + (rater == "JB") * rng.normal(0, 3, points.shape)
                if rater == "JB" and name.startswith("s1_37"):
                    rows = np.concatenate([rows, rows[-1:]])
                lines = [" ,X,Y", *(f"{i + 1},{x},{y}" for i, (x, y) in enumerate(rows))]
                (place / name).write_text("\n".join(lines) + "\n")
    return folder


def test_the_study_runs_and_adds_its_tallies_up(tmp_path: Path) -> None:
    """Shares of the merged tallies; flipping two axes from RAS changes neither coverage nor scores."""
    data = made_up(tmp_path / "data")
    findings = run_experiment(raters.EXPERIMENT, data, tmp_path / "out", runs=1)
    alone = raters.several_raters(placements(6), seed=0)["tallies"]["pooled|5"]
    found = findings.numbers["shares"]["colin27"]["pooled|5"]
    assert found["placements"] == 30
    assert found["log score"] == pytest.approx(alone["log score"] / 30, rel=1e-9)
    assert found["coverage"]["0.8"] == pytest.approx(alone["inside"]["0.8"] / 30)
    assert findings.numbers["shares"]["cima"]["one for all|1"]["placements"] == 32
    assert set(findings.figures) == {"coverage"}
    assert any("sample is refused" in sentence for sentence in findings.sentences)
    assert (tmp_path / "out" / "raters.json").is_file()


def test_the_published_figures_of_the_real_raters(data_dir: Path) -> None:
    """CIMA: mean and median distance and nine wrong matches; HCP: 0.66 mm from the mean of three raters."""
    he, prospc = (
        raters.compute(data_dir, Run("x", {"dataset": "cima", "region": "lung-lesion_3", "stain": stain}))
        for stain in ("He", "proSPC")
    )
    assert he["distances"]["mean"] == pytest.approx(146.8, abs=0.1)
    assert he["distances"]["median"] == pytest.approx(73, abs=0.5)
    assert prospc["distances"]["mean"] == pytest.approx(37.4, abs=0.1)
    assert prospc["distances"]["median"] == pytest.approx(25, abs=0.5)
    assert he["gross errors"] == 9
    runs = [run for run in raters.plan(data_dir, 30, 0, False) if run.parameters["dataset"] == "hcp"]
    complete = [run for run in runs if run.parameters["image"] != "sub-201111"]  # which two raters placed
    one_against_two = [raters.compute(data_dir, run)["distances"]["2"] for run in complete]
    # The distance to the mean of all three is two thirds of that to the mean of the two others.
    assert 2 / 3 * np.mean(one_against_two) == pytest.approx(0.66, abs=0.015)
