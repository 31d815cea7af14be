"""Studies in the layouts of challenges, through the command line; official figures from known predictions."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates

import warpgauge as wg
from command_tools import ask, call
from warpgauge.core.annotations import Annotations
from warpgauge.io.landmarks import write_landmarks
from warpgauge.study import new_study, read_study
from warpgauge.study.challenges import field_figures
from warpgauge.study.pairs import pair_annotations, pair_grids

FAST = "samples = 40\nbootstrap = 100\ntargets = 60\n"
STAINS = ("CD31-3", "Cc10-5")
STEP = 3  # every third landmark: enough for a definition
RESULTS: list[object] = ["", "Target landmarks", "Source landmarks", "Warped source landmarks"]


def quick(study: Path) -> None:
    """Fewer samples, and one further method."""
    study.write_text(study.read_text().replace("[settings]\n", f"[settings]\n{FAST}"))


def landmarks(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", skiprows=1)[::STEP, 1:]


def anhir_data(data_dir: Path, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """ANHIR's cover table over real CIMA landmarks, and a submission that moves every source landmark half way."""
    source = data_dir / "cima" / "lung-lesion_1"
    (folder / "landmarks").mkdir()
    (folder / "submissions" / "half").mkdir(parents=True)
    found, rows, results = [], [], []
    for n, stain in enumerate(STAINS):
        for name in (stain, "He"):
            file = f"29-041-Izd2-w35-{name}-les1.csv"
            head, *lines = (source / file).read_text().splitlines(keepends=True)
            (folder / "landmarks" / file).write_text("".join([head, *lines[::STEP]]))
        moving, fixed = (source / f"29-041-Izd2-w35-{name}-les1.csv" for name in (stain, "He"))
        start, end = landmarks(moving), landmarks(fixed)
        found.append((start, end))
        rows.append([n, fixed.name, moving.name, 2311.5])
        warped = folder / "submissions" / "half" / f"{n}.csv"
        numbers = [line.split(",")[0] for line in moving.read_text().splitlines()[1::STEP]]
        lines = [f"{i},{x!r},{y!r}" for i, (x, y) in zip(numbers, ((start + end) / 2).tolist(), strict=True)]
        warped.write_text(",X,Y\n" + "\n".join(lines) + "\n")
        results.append([n, fixed.name, moving.name, warped.name])
    rows.append([7, "hidden.csv", "hidden.csv", 2000.0])  # as pairs of the test set, whose landmarks are not public
    head = ["", "Target landmarks", "Source landmarks", "Image diagonal [pixels]"]
    write_csv(folder / "dataset.csv", [head, *rows])
    write_csv(folder / "submissions" / "half" / "registration-results.csv", [RESULTS, *results])
    return found


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def write_csv(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


def test_anhir_from_its_cover_table_to_its_figures(tmp_path: Path, data_dir: Path) -> None:
    """Real landmarks, a known submission in ANHIR's own layout: its figures are those of its definitions."""
    pairs = anhir_data(data_dir, tmp_path)
    said = ask("new-study", tmp_path / "anhir.toml", "--like", "anhir", "--data", tmp_path / "dataset.csv")
    assert said["pairs"] == ["0", "1"]
    assert said["left_out"] == ["pair 7: there is no file 'hidden.csv'"]
    study = tmp_path / "anhir.toml"
    quick(study)
    study.write_text(study.read_text().replace('name = "submission"', 'name = "half"'))
    assert read_study(study).pairs[0].matched_by["Source landmarks"] == "29-041-Izd2-w35-CD31-3-les1.csv"
    found = ask("benchmark", study)["methods"][0]["official"]
    relative = [np.linalg.norm((end - start) / 2, axis=1) / 2311.5 for start, end in pairs]
    assert found["Average-Median-rTRE"] == pytest.approx(np.mean([np.median(one) for one in relative]), rel=1e-9)
    assert found["Average-Max-rTRE"] == pytest.approx(np.mean([one.max() for one in relative]), rel=1e-9)
    assert found["Average-Robustness"] == 1.0
    assert found["Average-Median-rTRE-Robust"] == found["Average-Median-rTRE"]
    table = call("benchmark", study)
    assert "Average-Median-rTRE" in table
    assert "half" in table


def test_a_pair_that_anhirs_results_do_not_name_is_missing(tmp_path: Path, data_dir: Path) -> None:
    anhir_data(data_dir, tmp_path)
    call("new-study", tmp_path / "a.toml", "--like", "anhir", "--data", tmp_path / "dataset.csv")
    quick(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text((tmp_path / "a.toml").read_text().replace('"submission"', '"half"'))
    results = tmp_path / "submissions" / "half" / "registration-results.csv"
    head, first, *_ = read_csv(results)
    write_csv(results, [head, [*first[:3], "../../dataset.csv"]])
    rows = {row["pair"]: row for row in ask("benchmark", tmp_path / "a.toml")["cases"] if row["method"] == "half"}
    assert "leads elsewhere" in rows["0"]["missing"]
    assert "no row of the pair '1'" in rows["1"]["missing"]


def variants(folder: Path) -> dict[str, float]:
    """Broken and unusual copies of the submission "half"; how far each is complete: the share of its pairs that count.

    What ANHIR's own program does with them was read in its public source: rows are joined by the names of images and
    landmarks, points are taken in the order of their rows, NaN becomes 0, and a pair whose landmarks are not all there
    counts as without registration.
    """
    half = folder / "submissions" / "half"
    head, *rows = read_csv(half / "registration-results.csv")

    def write(name: str, table: list[list[str]]) -> Path:
        place = folder / "submissions" / name
        place.mkdir()
        for file in half.glob("[0-9].csv"):
            (place / file.name).write_text(file.read_text())
        write_csv(place / "registration-results.csv", table)
        return place

    write("renumbered", [head, *([str(90 + n), *row[1:]] for n, row in enumerate(rows))])
    write("shuffled", [head, *([str(n), *row[1:]] for n, row in enumerate(rows[::-1]))])
    write("partial", [head, rows[1]])
    write("twice", [head, *rows, rows[0]])
    write("unnamed", [[row[0], row[3]] for row in (head, *rows)])
    short = write("short", [head, *rows]) / "0.csv"
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:-1]))
    nothing = write("nan", [head, *rows]) / "0.csv"
    lines = nothing.read_text().splitlines()
    nothing.write_text("\n".join([lines[0], f"{lines[1].split(',')[0]},nan,nan", *lines[2:]]) + "\n")
    return {"renumbered": 1, "shuffled": 1, "partial": 0.5, "twice": 0.5, "unnamed": 0, "short": 0.5, "nan": 1}


def test_anhir_matches_by_pair_and_counts_what_is_missing_as_unregistered(tmp_path: Path, data_dir: Path) -> None:
    """Renumbered and shuffled rows change nothing; a pair that is missing, twice or short counts as unregistered.

    In no case is an incomplete submission better than the whole one, and its absence is said.
    """
    pairs = anhir_data(data_dir, tmp_path)
    complete = variants(tmp_path)
    study = tmp_path / "a.toml"
    call("new-study", study, "--like", "anhir", "--data", tmp_path / "dataset.csv")
    quick(study)
    text = study.read_text().replace('"submission"', '"half"')
    method = text[text.rindex("[[method]]") :]
    study.write_text(text + "".join(method.replace('"half"', f'"{name}"') for name in complete))
    result = ask("benchmark", study)
    by_name = {one["name"]: one for one in result["methods"]}
    before = [np.linalg.norm(end - start, axis=1) / 2311.5 for start, end in pairs]
    after = [one / 2 for one in before]
    for name, share in complete.items():
        counted = {1: (after, after), 0.5: (before, after), 0: (before, before)}[share]
        taken = [list(one[n]) for n, one in enumerate(counted)]
        if name == "nan":
            taken[0][0] = float(np.linalg.norm(pairs[0][1][0])) / 2311.5  # at the origin
        official = by_name[name]["official"]
        assert official["Average-Median-rTRE"] == pytest.approx(np.mean([np.median(one) for one in taken]), rel=1e-9)
        assert official["Average-Max-rTRE"] == pytest.approx(np.mean([np.max(one) for one in taken]), rel=1e-9)
        improved = [np.mean(np.array(taken[n]) < before[n]) for n in range(2)]
        assert official["Average-Robustness"] == pytest.approx(np.mean(improved))
        assert by_name[name]["missing"] == round(2 * (1 - share)) + (name == "nan")
    whole = by_name["half"]
    for name, share in complete.items():
        if share < 1:
            assert by_name[name]["mean_score"] > whole["mean_score"]
            assert by_name[name]["mean_rank"] > whole["mean_rank"]
    reasons = {row["method"]: row["missing"] for row in result["cases"] if row["pair"] == "0"}
    assert "2 rows of the pair '0'" in reasons["twice"]
    assert "never by their number" in reasons["unnamed"]


def test_acrobat_is_matched_by_point_in_micrometres(tmp_path: Path, data_dir: Path) -> None:
    """One table for all pairs; the median over pairs of each pair's 90th percentile."""
    source = data_dir / "cima" / "lung-lesion_1"
    head = ["anon_id", "point_id", "ihc_antibody", "mpp_ihc_10X", "ihc_x", "ihc_y", "mpp_he_10X", "he_x", "he_y"]
    truth, submitted, errors = [], [], []
    rng = np.random.default_rng(3)
    end = 9.1 * landmarks(source / "29-041-Izd2-w35-He-les1.csv")
    for case, stain in enumerate(STAINS):
        start = 9.1 * landmarks(source / f"29-041-Izd2-w35-{stain}-les1.csv")
        guess = end + rng.normal(0, 40 * (case + 1), end.shape)
        errors.append(np.linalg.norm(guess - end, axis=1))
        for n in range(len(end)):
            known = [case, n, stain, 0.91, *start[n], 0.91]
            truth.append([*known, *end[n]])
            submitted.append([*known, *guess[n]])
    truth.append([9, 0, "ER", 0.91, 5, 5, 0.91, "", ""])
    write_csv(tmp_path / "truth.csv", [head, *truth])
    (tmp_path / "submissions").mkdir()
    write_csv(tmp_path / "submissions" / "submission.csv", [head, *submitted[::-1]])
    said = ask("new-study", tmp_path / "a.toml", "--like", "acrobat", "--data", tmp_path / "truth.csv", "--sd", 12)
    assert said["left_out"] == ["pair 9: he_x and he_y are empty"]
    quick(tmp_path / "a.toml")
    assert read_study(tmp_path / "a.toml").settings.sd == 12
    study = (tmp_path / "a.toml").read_text()
    (tmp_path / "a.toml").write_text(study + study[study.rindex("[[method]]") :].replace('submission"', 'partial"'))
    partial = [row for row in submitted if row[:2] != [0, 3]]
    partial[4] = [*partial[4][:-1], "nan"]  # point 5 of the first pair
    write_csv(tmp_path / "submissions" / "partial.csv", [head, *partial])
    by_name = {one["name"]: one for one in ask("benchmark", tmp_path / "a.toml")["methods"]}
    left = errors[0].copy()
    start = 9.1 * landmarks(source / f"29-041-Izd2-w35-{STAINS[0]}-les1.csv")
    left[[3, 5]] = np.linalg.norm(start - end, axis=1)[[3, 5]]  # a missing point keeps its place
    tails = [np.percentile(one, 90) for one in (left, *errors[1:])]
    assert by_name["partial"]["official"]["Mean-90th-percentile-TRE"] == pytest.approx(np.mean(tails), rel=1e-9)
    assert by_name["partial"]["missing"] == 0
    found = by_name["submission"]["official"]
    tails = [np.percentile(one, 90) for one in errors]
    assert found["Median-90th-percentile-TRE"] == pytest.approx(np.median(tails), rel=1e-9)
    assert found["Mean-90th-percentile-TRE"] == pytest.approx(np.mean(tails), rel=1e-9)


def test_acrobat_averages_the_distances_from_its_annotators(tmp_path: Path, data_dir: Path) -> None:
    """Two annotators: the error at a landmark is the mean of its distances from both, as the challenge says.

    What the model takes is their fused points, with the scatter as uncertainty.
    """
    source = data_dir / "cima" / "lung-lesion_1"
    start, first = (9.1 * landmarks(source / f"29-041-Izd2-w35-{name}-les1.csv") for name in ("CD31-3", "He"))
    rng = np.random.default_rng(5)
    second = first + rng.normal(0, 15, first.shape)
    guess = first + rng.normal(0, 60, first.shape)
    head = ["anon_id", "point_id", "annotator", "ihc_x", "ihc_y", "he_x", "he_y"]
    rows = [[3, n, who, *start[n], *end[n]] for who, end in (("a", first), ("b", second)) for n in range(len(start))]
    del rows[len(start) + 4]  # the second annotator has not placed point 4
    rows.append([3, 99, "b", 7, 7, 8, 8])  # and one that the first has not
    write_csv(tmp_path / "truth.csv", [head, *rows])
    (tmp_path / "submissions").mkdir()
    no_annotator = [name for name in head if name != "annotator"]
    submitted = [[3, n, *start[n], *guess[n]] for n in range(len(start))]
    write_csv(tmp_path / "submissions" / "submission.csv", [no_annotator, *submitted])
    study = tmp_path / "a.toml"
    said = ask("new-study", study, "--like", "acrobat", "--data", tmp_path / "truth.csv")
    assert said["left_out"] == ["pair 3: 1 point that another annotator has not placed"]
    quick(study)
    result = ask("benchmark", study)
    distances = np.stack([np.linalg.norm(guess - end, axis=1) for end in (first, second)])
    distances[1, 4] = np.nan
    expected = np.percentile(np.nanmean(distances, axis=0), 90)
    assert result["methods"][0]["official"]["Mean-90th-percentile-TRE"] == pytest.approx(expected, rel=1e-9)
    described = read_study(study)
    pair = described.pairs[0]
    annotations, _ = pair_annotations(pair, described.settings, *pair_grids(pair))
    middle = (first + second) / 2
    middle[4] = first[4]
    np.testing.assert_allclose(annotations.moving_points, middle, atol=1e-6)
    spread = np.sqrt(np.trace(annotations.covariances, axis1=1, axis2=2) / 2)
    assert spread.mean() == pytest.approx(15 / np.sqrt(2), rel=0.25)  # of two placements, each about their mean
    submitted_twice = tmp_path / "submissions" / "submission.csv"
    write_csv(submitted_twice, [head, *rows])
    row = next(one for one in ask("benchmark", study)["cases"] if one["method"] == "submission")
    assert "several rows per point" in row["missing"]


def test_raters_who_answered_for_other_points_are_one_sentence(tmp_path: Path) -> None:
    """Only the moving points of raters are fused: the fixed points must be the same."""
    rng = np.random.default_rng(0)
    fixed = rng.uniform(0, 200, (12, 2))
    for name, points in (("a", fixed), ("b", fixed + 1)):
        write_landmarks(wg.Landmarks(points, points + 3), tmp_path / f"{name}.csv")
    (tmp_path / "s.toml").write_text(
        '[[pair]]\nname = "p"\nlandmarks = "a.csv"\nraters = ["b.csv"]\ntargets = "a.csv"\n'
        '[[method]]\nname = "m"\ntransform = "identity"\n'
    )
    error = call("benchmark", tmp_path / "s.toml", code=1)
    assert "did not answer for the same fixed points" in error


def learn2reg_data(data_dir: Path, folder: Path, case: int, step: int) -> None:
    """Every few real landmarks of a DIR-Lab COPD case as in Learn2Reg, on grids eight times coarser along each axis."""
    with (data_dir / "copdgene" / "copd_cases.csv").open() as stream:
        row = next(row for row in csv.DictReader(stream) if int(row["case"]) == case)
    for name in ("imagesTs", "landmarksTs"):
        (folder / name).mkdir()
    spacing = 8 * np.array([float(row[f"d{axis}_mm"]) for axis in "xyz"])
    size = tuple(int(row[f"n{axis}"]) // 8 + 1 for axis in "xyz")
    for phase, state in enumerate(("e", "i")):
        name = f"LungCT_{case:04d}_{phase:04d}"
        image = nib.Nifti1Image(np.zeros(size, np.uint8), np.diag([*spacing, 1.0]))
        nib.save(image, folder / "imagesTs" / f"{name}.nii.gz")
        voxels = np.loadtxt(data_dir / "copdgene" / f"copd{case}_300_{state}BH_xyz_r1.txt")[::step] - 1
        np.savetxt(folder / "landmarksTs" / f"{name}.csv", voxels / 8, delimiter=",", fmt="%.6f")
    pair = {side: f"./imagesTs/LungCT_{case:04d}_{n:04d}.nii.gz" for n, side in enumerate(("fixed", "moving"))}
    (folder / "LungCT_dataset.json").write_text(json.dumps({"name": "LungCT", "registration_val": [pair]}))


def write_field(path: Path, field: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(field.astype(np.float32), np.eye(4)), path)
    return path


@pytest.mark.parametrize(("case", "published"), [(1, 26.33), (2, 21.79), (3, 12.64), (4, 29.58), (5, 30.08)])
def test_learn2regs_zero_field_gives_the_published_initial_error(
    tmp_path: Path, data_dir: Path, case: int, published: float
) -> None:
    """300 landmarks of each DIR-Lab COPD case, and a field of zeros."""
    learn2reg_data(data_dir, tmp_path, case, 1)
    new_study(tmp_path / "l.toml", "learn2reg", tmp_path / "LungCT_dataset.json")
    pair = read_study(tmp_path / "l.toml").pairs[0]
    grids = [wg.read_image(path).grid for path in (pair.fixed, pair.moving) if path is not None]
    given = Annotations(*wg.read_landmarks(tmp_path / "landmarks" / f"{pair.name}.csv").to_annotation_arrays(1.0))
    file = write_field(tmp_path / "disp.nii.gz", np.zeros((*grids[0].size, 3)))
    found = field_figures(file, "learn2reg", given, grids[0], grids[1])
    assert found["TRE"] == pytest.approx(published, abs=0.005)
    assert found["SDlogJ"] == pytest.approx(0, abs=1e-12)


def test_learn2reg_from_its_description_to_its_figures(tmp_path: Path, data_dir: Path) -> None:
    """A field that bends, by the challenge's own recipe: cubic spline at the landmarks, voxels times spacing."""
    learn2reg_data(data_dir, tmp_path, 1, 10)
    call("new-study", tmp_path / "l.toml", "--like", "learn2reg", "--data", tmp_path / "LungCT_dataset.json")
    quick(tmp_path / "l.toml")
    pair = read_study(tmp_path / "l.toml").pairs[0]
    assert pair.name == "0001_0001"
    assert pair.fixed is not None
    size, rng = wg.read_image(pair.fixed).grid.size, np.random.default_rng(0)
    field = np.stack([gaussian_filter(rng.normal(0, 10, size), 3) for _ in range(3)], axis=-1).astype(np.float32)
    write_field(tmp_path / "submissions" / "submission" / "disp_0001_0001.nii.gz", field)
    result = ask("benchmark", tmp_path / "l.toml")
    points = [np.loadtxt(tmp_path / "landmarksTs" / f"LungCT_0001_000{n}.csv", delimiter=",") for n in (0, 1)]
    moved = points[0] + np.stack([map_coordinates(field[..., n], points[0].T) for n in range(3)], axis=1)
    expected = np.linalg.norm((moved - points[1]) * [5.0, 5.0, 20.0], axis=1).mean()
    found = result["methods"][0]["official"]
    assert found["TRE mean"] == pytest.approx(expected, rel=1e-5)
    assert found["SDlogJ mean"] > 0.001


def test_learn2reg_has_no_figures_of_a_submission_that_lacks_a_field_or_has_nan(tmp_path: Path, data_dir: Path) -> None:
    """Its program refuses a submission with a missing field, and computes NaN from a field with NaN."""
    learn2reg_data(data_dir, tmp_path, 1, 10)
    call("new-study", tmp_path / "l.toml", "--like", "learn2reg", "--data", tmp_path / "LungCT_dataset.json")
    quick(tmp_path / "l.toml")
    study = (tmp_path / "l.toml").read_text()
    (tmp_path / "l.toml").write_text(study + study[study.rindex("[[method]]") :].replace('submission"', 'nan"'))
    size = nib.load(tmp_path / "imagesTs" / "LungCT_0001_0000.nii.gz").shape
    field = np.zeros((*size, 3), np.float32)
    field[5, 5, 5] = np.nan
    write_field(tmp_path / "submissions" / "nan" / "disp_0001_0001.nii.gz", field)
    by_name = {one["name"]: one for one in ask("benchmark", tmp_path / "l.toml")["methods"]}
    assert by_name["nan"]["official"] == {}  # nobody has a figure
    assert by_name["nan"]["missing"] == 0
    assert by_name["submission"]["official"] == {}
    assert by_name["submission"]["missing"] == 1


@pytest.mark.parametrize(
    ("like", "content", "words"),
    [
        ("anhir", "a,b\n1,2\n", "no column 'Source landmarks'"),
        ("learn2reg", "{", "not valid JSON"),
        ("learn2reg", "{}", "lists no pairs"),
        ("acrobat", "anon_id,point_id\n", "no column 'ihc_x'"),
        ("acrobat", "anon_id,point_id,ihc_x,ihc_y,he_x,he_y\n1,1,a,2,3,4\n", "line 2: ihc_x is 'a'"),
        ("acrobat", "anon_id,point_id,ihc_x,ihc_y,he_x,he_y\n1,1,1,2,3,4\n1,1,1,2,3,4\n", "occurs twice"),
        ("acrobat", "anon_id,point_id,ihc_x,ihc_y,he_x,he_y\n1,1,1,2,,\n", "describes no pair"),
    ],
)
def test_what_is_not_such_data_is_one_sentence(tmp_path: Path, like: str, content: str, words: str) -> None:
    (tmp_path / "data").write_text(content)
    error = call("new-study", tmp_path / "s.toml", "--like", like, "--data", tmp_path / "data", code=1)
    assert words in error
    assert error.count("\n") == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data"]


def test_a_study_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("mine")
    (tmp_path / "data").write_text("{}")
    error = call("new-study", tmp_path / "s.toml", "--like", "learn2reg", "--data", tmp_path / "data", code=1)
    assert "already a file" in error
    assert (tmp_path / "s.toml").read_text() == "mine"
