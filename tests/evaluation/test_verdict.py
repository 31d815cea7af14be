"""The verdict in five lines: what each says by outcome, its length, and what a user sees at the command line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from command_tools import ask, call
from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.evaluation import TransformScores, Verdict
from warpgauge.evaluation.flags import Flag
from warpgauge.evaluation.verdict import count_words
from warpgauge.io.transforms.writer import write_transform

Points = np.ndarray
Mapping = Callable[[Points], Points]


# One verdict of made rows for each outcome.


def row(name: str, score: float, best: float, **about: Any) -> TransformScores:
    ends = {"2": (0.5 * score, 2 * score)}
    return TransformScores(name, {}, {"2": score}, ends, 0.0, 0.0, {"2": best}, {}, {}, 0.0, **about)


BEFORE = row("identity", 20.0, 0.0, group=9)


def verdict(rows: list[TransformScores], groups: list[list[str]], **about: Any) -> Verdict:
    given = {
        "is_separated": len(groups[0]) == 1, "too_few": False, "norm": "2", "baseline": "identity", "annotations": 25,
        "targets": 9, "samples": 100, "region": "domain", "known": 0.9, "trust": None, "flags": (),
        "suspected": frozenset(), "disqualified": frozenset(), "references": (), "by_transforms": True,
        "further": None, "units": "px", "margin": 0.1,
    }  # fmt: skip
    return Verdict(tuple(rows), tuple(map(tuple, groups)), **{**given, **about})


def two(first: float, groups: list[list[str]], **about: Any) -> Verdict:
    return verdict([row("m1", 1.0, first, group=1), row("m2", 2.0, 1 - first, group=2), BEFORE], groups, **about)


ALONE = [["m1"], ["m2"], ["identity"]]
TIED = [["m1", "m2"], ["identity"]]
NOTHING_BETTER = [row("identity", 0.5, 0.98), row("m1", 1.0, 0.02)]


@pytest.mark.parametrize(
    ("found", "outcome", "best", "line"),
    [
        (two(0.97, ALONE), "decided", "m1", "m1, of 2 methods (probability 0.97)"),
        (two(0.9, ALONE), "undecided", None, "not decided: m1 (0.90) or m2 (0.10)"),
        (
            two(0.6, TIED, further=FurtherAnnotations(30, 0.95, 200)), "undecided", None,
            "not decided: m1 (0.60) or m2 (0.40); about 30 more annotations would probably do",
        ),
        (two(0.999, TIED, is_separated=True), "tied_by_margin", None, "m1 and m2, equal within 0.1 px"),
        (
            verdict([row("m1", 1.0, 0.98), BEFORE], [["m1"], ["identity"]]), "alone", "m1",
            "m1 is the only method, better than doing nothing with probability 0.98",
        ),
        (
            verdict([row("m1", 1.0, 1.0)], [["m1"]], baseline=None), "alone", None,
            "m1 is the only method",
        ),
        (
            verdict(NOTHING_BETTER, [["identity"], ["m1"]]), "none_better", "identity",
            "doing nothing (probability 0.98): no method is better",
        ),
        (
            verdict(NOTHING_BETTER, [["identity", "m1"]]), "not_shown_better", None,
            "not shown that any method is better than doing nothing",
        ),
        (verdict([BEFORE], [["identity"]]), "only_baseline", None, "no method, only doing nothing"),
        (
            two(0.97, ALONE, too_few=True, annotations=3), "too_few", None,
            "no ranking: 3 annotations are too few (10 are a start)",
        ),
        (two(0.97, ALONE, annotations=0), "no_annotations", None, "not known: there is no annotation"),
    ],
)  # fmt: skip
def test_every_outcome_has_its_line(found: Verdict, outcome: str, best: str | None, line: str) -> None:
    assert (found.outcome, found.best, found.decided) == (outcome, best, best is not None)
    assert found.lines()["BEST"] == line
    assert str(found).startswith(f"BEST   {line}")
    assert count_words(str(found)) <= 80
    assert json.loads(json.dumps(found.to_dict()))["lines"]["BEST"] == line


def test_the_other_lines_of_a_decided_verdict() -> None:
    lines = two(0.97, ALONE).lines()
    assert lines["ERROR"] == "about 1 px (90 % interval 0.5 to 2), before registration 20 px"
    assert lines["NEXT"] == "m2, 2 px (1 to 4)"
    assert lines["BASIS"] == "25 annotations, informing 90 % of the targets"
    assert "11 % of the targets could be missed" in lines["MIND"]
    assert "41 % of the targets (most is extrapolated)" in two(0.97, ALONE, known=0.41).lines()["BASIS"]


def test_a_suspected_method_is_never_named_without_the_suspicion() -> None:
    suspicion = {"suspected": frozenset({"m1"})}
    best = two(0.99, ALONE, **suspicion).lines()["BEST"]
    assert best == (
        "m1, of 2 methods (probability 0.99); it has probably seen the landmarks; of the others m2 has the smallest "
        "error"
    )
    for found in (two(0.6, TIED, **suspicion), two(0.999, TIED, is_separated=True, **suspicion)):
        assert "m1 (has probably seen the landmarks)" in found.lines()["BEST"]


def test_what_probabilities_leave_is_named_beside_references() -> None:
    rows = [row("m1", 1.0, 0.04, group=1), row("m2", 2.0, 0.03, group=1), BEFORE]
    best = verdict(rows, TIED, references=("r",)).lines()["BEST"]
    assert best == (
        "not decided: m1 (0.04) or m2 (0.03); the other 0.93 depends on whether methods have seen the landmarks"
    )
    told = "; the other 0.93 depends on whether methods have seen the landmarks"
    assert verdict(rows, TIED, references=("r",), is_separated=True).lines()["BEST"].endswith(told)
    assert verdict(rows, [["m1", "m2", "identity"]], references=("r",)).lines()["BEST"].endswith(told)


def test_the_most_important_notes_come_first_and_no_line_makes_it_too_long() -> None:
    flags = [
        Flag("undefined", "m2 is undefined at 3 % of the targets", "", transform="m2"),
        *(
            Flag("gross_error", f"{name} may be a wrong match", "", row=4, label=name)
            for name in ("annotation 4", "pc")
        ),
        Flag("leak", "m3 has seen the landmarks; it is not ranked", "", transform="m3"),
    ]
    found = two(0.97, ALONE, flags=tuple(flags))
    assert found.lines()["MIND"] == (
        "m3 has seen the landmarks; it is not ranked; annotation 4 may be a wrong match (and 1 more); nothing shows "
        "whether a method has seen the landmarks"
    )
    many = two(0.97, ALONE, flags=tuple(Flag("masked", "word " * 11, "") for _ in range(9)))
    assert count_words(str(many)) <= 80


# What a user sees. On real histology where it is at hand, else on a made pair with the same numbers of landmarks.


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A project with 78 landmarks, and their points in both images."""
    folder = tmp_path_factory.mktemp("verdict")
    data = Path(os.environ.get("WARPGAUGE_DATA", "nowhere")) / "cima" / "lung-lesion_1"
    names = ("29-041-Izd2-w35-He-les1", "29-041-Izd2-w35-Ki67-7-les1")
    if data.is_dir():
        points = [np.genfromtxt(data / f"{name}.csv", delimiter=",", skip_header=1)[:, 1:] for name in names]
        images = [data / f"{name}.jpg" for name in names]
        landmarks = [data / f"{name}.csv" for name in names]
    else:
        rng = np.random.default_rng(0)
        fixed = rng.uniform([100, 100], [1700, 1380], (78, 2))
        moving = fixed + 40 + 25 * np.sin(fixed[:, ::-1] / 400) + 12 * rng.normal(size=fixed.shape)
        points = [fixed, moving]
        images = [folder / f"{name}.png" for name in ("fixed", "moving")]
        texture = ndimage.gaussian_filter(rng.normal(size=(1470, 1783)), 20)
        y, x = np.mgrid[:1470, :1783] - 40.0
        warped = ndimage.map_coordinates(texture, [y - 25 * np.sin(x / 400), x - 25 * np.sin(y / 400)], mode="nearest")
        for image, values in zip(images, (texture, warped), strict=True):
            Image.fromarray((128 + 40 * values / texture.std()).clip(0, 255).astype(np.uint8)).save(image)
        landmarks = [folder / f"{name}.csv" for name in ("fixed", "moving")]
        for file, at in zip(landmarks, points, strict=True):
            file.write_text(",X,Y\n" + "".join(f"{k},{x},{y}\n" for k, (x, y) in enumerate(at)))
    project = folder / "pair"
    call("new", project, "--fixed", images[0], "--moving", images[1], "--foreground", "none")
    call("import", project, *landmarks, "--radius", 10)
    return {"folder": folder, "project": project, "fixed": points[0], "moving": points[1]}


def _polynomial(pair: dict[str, Any], degree: int, rows: slice) -> Mapping:
    """A registration that errs as real ones do: a polynomial through some of the landmarks."""

    def columns(at: Points) -> Points:
        x, y = (at / 1000).T
        return np.stack([x**i * y**j for i in range(degree + 1) for j in range(degree + 1 - i)], axis=1)

    fixed = pair["fixed"][rows]
    found = np.linalg.lstsq(columns(fixed), pair["moving"][rows] - fixed, rcond=None)[0]
    return lambda at: at + columns(at) @ found


def _spline(pair: dict[str, Any], rows: slice) -> Mapping:
    """A registration that has seen some of the landmarks."""
    fixed = pair["fixed"][rows]
    bend = RBFInterpolator(fixed, pair["moving"][rows] - fixed, kernel="thin_plate_spline")
    return lambda at: at + bend(at)


def _added(pair: dict[str, Any], name: str, mapping: Mapping, *options: str) -> None:
    """Write a field of displacements, and add it."""
    grid = wg.Grid((179, 148), [10, 10])
    file = pair["folder"] / f"{name}.nrrd"
    write_transform(wg.as_transform(mapping, d=2), file, grid=grid)
    call("add-transform", pair["project"], name, file, *options)


@pytest.fixture(scope="module")
def contest(pair: dict[str, Any]) -> dict[str, Any]:
    """Three registrations that err in ways of their own."""
    for name, degree, rows in (
        ("affine", 1, slice(0, None, 4)), ("quadratic", 2, slice(1, None, 4)), ("cubic", 3, slice(2, None, 3)),
    ):  # fmt: skip
        _added(pair, name, _polynomial(pair, degree, rows))
    return pair


def table(shown: str) -> dict[str, list[str]]:
    """The cells of the printed table by transform; columns are two or more blanks apart."""
    lines = shown.splitlines()[2:]
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[: lines.index("")]]
    return {name: cells for name, *cells in rows}


def test_table_lines_and_json_say_the_same(contest: dict[str, Any]) -> None:
    shown = call("evaluate", contest["project"])
    found = ask("evaluate", contest["project"])
    rows = table(shown)
    assert [*rows] == found["ranking"]["2"]
    beside = shown.replace("\n".join(shown.splitlines()[1 : 2 + len(rows)]), "")
    assert count_words(beside) <= 120
    assert count_words(found["verdict"]) <= 80
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines()[3 + len(rows) :])
    assert lines == {key: text for key, text in found["lines"].items() if text}
    for name, chance in re.findall(r"(\w+) \((0\.\d\d)\)", lines["BEST"]):
        assert rows[name][-1] == chance
    first = found["ranking"]["2"][0]
    assert rows[first][1] in lines["ERROR"]
    assert rows[first][2] in lines["ERROR"]
    assert sum(one["probability_best"]["2"] for one in found["transforms"].values()) == pytest.approx(1, abs=1e-9)
    share = round(100 * found["known"])
    assert f"informing {share} % of the targets" in lines["BASIS"]


@pytest.mark.parametrize("stain", ["CD31-3", "Cc10-5", "Ki67-7", "proSPC-4", "lung"])
def test_the_lines_of_real_pairs_are_short_and_of_the_model_that_made_the_numbers(data_dir: Path, stain: str) -> None:
    """Four pairs of stains with polynomials through some of the landmarks, and a lung with published results."""
    if stain == "lung":
        folder = data_dir / "elastix-lung"
        files = [folder / f"CT_3D_lung_{side}_point_set_corrected.txt" for side in ("fixed", "moving")]
        landmarks = wg.read_landmarks(*files)
        fixed = landmarks.fixed_points
        moving = landmarks.moving_points
        transforms = {file.name[33:-4]: wg.read_transform(file) for file in (folder / "transforms").glob("Tr*.txt")}
    else:
        folder = data_dir / "cima" / "lung-lesion_1"
        fixed, moving = (
            np.genfromtxt(folder / f"29-041-Izd2-w35-{one}-les1.csv", delimiter=",", skip_header=1)[:, 1:]
            for one in ("He", stain)
        )
        pair = {"fixed": fixed, "moving": moving}
        transforms = {f"degree {k}": _polynomial(pair, k, slice(k, None, 3)) for k in (1, 2, 3)}
    annotations = wg.Annotations.isotropic(fixed, moving, 1.0)
    judge = wg.judge(wg.default_posterior(annotations, np.ptp(fixed, axis=0) + 1), {**transforms, "identity": _still})
    found = wg.evaluate(judge, {**transforms, "identity": _still}, fixed + 0.5, samples=200, regularity=False)
    assert count_words(str(found.verdict)) <= 80
    inside = [int((judge.folds.widening.levels <= level).sum()) for level in (0.5, 0.8, 0.95)]
    assert f"{', '.join(map(str, inside))} of {len(fixed)} lie within" in found.verdict.lines()["BASIS"]


def _still(at: Points) -> Points:
    return at


def test_a_registration_that_has_seen_half_of_the_landmarks_is_suspected_before_the_others(
    contest: dict[str, Any],
) -> None:
    before = ask("evaluate", contest["project"])
    for name, rows in (("half", slice(0, None, 2)), ("all", slice(None))):
        _added(contest, name, _spline(contest, rows))
        found = ask("evaluate", contest["project"])
        call("remove-transform", contest["project"], name)
        assert found["suspected"] == [name]
        assert not any(flag["code"] == "gross_error" for flag in found["flags"])
        best = found["lines"]["BEST"]
        assert name not in best or "probably seen the landmarks" in best
        assert found["best"] != name or "; it has probably seen the landmarks" in best
        for other in ("affine", "quadratic", "cubic"):
            assert found["transforms"][other]["score"] == before["transforms"][other]["score"]


def test_beside_references_probabilities_add_up_to_one_or_the_rest_is_named(contest: dict[str, Any]) -> None:
    references = {"first": (1, slice(3, None, 5)), "second": (2, slice(2, None, 5)), "third": (1, slice(1, None, 7))}
    for name, (degree, rows) in references.items():
        _added(contest, name, _polynomial(contest, degree, rows), "--reference")
    found = ask("evaluate", contest["project"])
    for name in references:
        call("remove-transform", contest["project"], name)
    assert found["references"] == list(references)
    rest = 1 - sum(one["probability_best"]["2"] for one in found["transforms"].values())
    assert rest > -1e-9
    told = f"; the other {rest:.2f} depends on whether methods have seen the landmarks"
    assert (told in found["lines"]["BEST"]) == (rest >= 0.05)


def test_a_file_added_twice_is_one_method(contest: dict[str, Any]) -> None:
    alone = ask("evaluate", contest["project"])
    call("add-transform", contest["project"], "twin", contest["folder"] / "cubic.nrrd")
    found = ask("evaluate", contest["project"])
    rows = table(call("evaluate", contest["project"]))
    call("remove-transform", contest["project"], "twin")
    assert found["transforms"]["twin"]["copy_of"] == "cubic"
    assert rows["twin"][-1] == "= cubic"
    for name, one in alone["transforms"].items():
        assert found["transforms"][name]["probability_best"] == one["probability_best"]
    assert found["further_annotations"] == alone["further_annotations"]


def test_three_landmarks_give_no_ranking(contest: dict[str, Any], tmp_path: Path) -> None:
    image = tmp_path / "image.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (1470, 1783)).astype(np.uint8)).save(image)
    call("new", tmp_path / "few", "--fixed", image, "--moving", image, "--foreground", "none")
    rows = np.column_stack([contest["fixed"], contest["moving"]])[:3]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
    (tmp_path / "pairs.csv").write_text("fixed_x,fixed_y,moving_x,moving_y\n" + text)
    call("import", tmp_path / "few", tmp_path / "pairs.csv", "--radius", 10, "--force")
    for name in ("affine", "cubic"):
        call("add-transform", tmp_path / "few", name, contest["folder"] / f"{name}.nrrd")
    shown = call("evaluate", tmp_path / "few")
    assert "no ranking: 3 annotations are too few" in shown
    assert "interval" not in shown
    assert {cells[-1] for cells in table(shown).values()} == {"-"}


def test_a_rater_far_from_the_others_is_named_with_the_landmark(contest: dict[str, Any], tmp_path: Path) -> None:
    """Four raters mark 20 named landmarks; one sets one of them 300 px away."""
    rng = np.random.default_rng(1)
    image = tmp_path / "image.png"
    Image.fromarray(rng.integers(0, 255, (1470, 1783)).astype(np.uint8)).save(image)
    call("new", tmp_path / "many", "--fixed", image, "--moving", image, "--foreground", "none")
    for rater in ("ada", "ben", "cas", "dot"):
        moving = contest["moving"][:20] + rng.normal(0, 2, (20, 2))
        if rater == "dot":
            moving[7] += [300.0, 0.0]
        rows = [
            f"node {k},{x},{y},{u},{v}\n"
            for k, ((x, y), (u, v)) in enumerate(zip(contest["fixed"][:20], moving, strict=True))
        ]
        (tmp_path / f"{rater}.csv").write_text("name,fixed_x,fixed_y,moving_x,moving_y\n" + "".join(rows))
        call("import", tmp_path / "many", tmp_path / f"{rater}.csv", "--rater", rater, "--radius", 10, "--force")
    for name in ("affine", "cubic"):
        call("add-transform", tmp_path / "many", name, contest["folder"] / f"{name}.nrrd")
    shown = call("evaluate", tmp_path / "many")
    mind = next(line for line in shown.splitlines() if line.startswith("MIND"))
    assert "rater dot marked node 7 " in mind
    assert "from the others" in mind
