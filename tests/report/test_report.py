"""The report: self-contained, honest before it ranks, accessible, and with the same numbers as its JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpgauge as wg
from page_parser import Page
from report_tools import assert_consistent
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Evaluation, Trust
from warpgauge.io.images import Image
from warpgauge.io.transforms import FunctionTransform
from warpgauge.maps import write_map
from warpgauge.maps.pictures import colour_ends
from warpgauge.report import method_maps, write_project_report, write_report

pytest.importorskip("matplotlib")

HOSTILE = '<script>alert("$x_1$")</script> & "quoted"'


def truth(points: np.ndarray) -> np.ndarray:
    return points + 4 * np.sin(points[:, ::-1] / 25)


def scene(d: int, *, overconfident: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(d)
    fixed = rng.uniform(0, 100, (30, d))
    annotations = wg.Annotations.isotropic(fixed, truth(fixed) + rng.normal(0, 0.5, fixed.shape), 0.5)
    weights = [0.001] if overconfident else [10.0]
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [60.0], weights), mean="affine", center=np.full(d, 50.0))
    posterior = prior.condition(annotations, calibrate=not overconfident)
    about = {"format": "ITK text", "kind": "affine", "assumptions": ("The units are mm, as ITK has it.",)}
    transforms = {
        HOSTILE: FunctionTransform(lambda x: truth(x) + 0.5, d).described(**about),
        "shift": FunctionTransform(lambda x: x + 1.0, d),
        "none": lambda x: np.where(x[:, :1] > 90, np.nan, x),
    }
    targets = rng.uniform(0, 88, (60, d))
    evaluation = wg.evaluate(posterior, transforms, targets, samples=200, tolerance=2.0)
    return {"evaluation": evaluation, "posterior": posterior, "transforms": transforms, "targets": targets}


def scored(d: int) -> Evaluation:
    evaluation: Evaluation = scene(d)["evaluation"]
    return evaluation


def fixed_image(d: int, folder: Path) -> Image:
    grid = wg.Grid((50, 40) if d == 2 else (20, 18, 10), [2.0, 2.5] if d == 2 else [5.0, 5.5, 10.0], units="mm")
    values = np.random.default_rng(0).uniform(size=grid.shape)
    return wg.read_image(write_map(values, grid, folder / "fixed.nrrd"))


@pytest.fixture(scope="module", params=[2, 3])
def report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Page, dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("report")
    image = fixed_image(request.param, folder)
    evaluation = scored(request.param)
    labels = [f"{HOSTILE} {row}" for row in range(30)]
    path = write_report(
        folder / "report.html",
        replace(evaluation, comparison=replace(evaluation.comparison, labels=labels)),
        fixed=image,
        moving=image,
        title=f"Pair {HOSTILE}",
        project={"name": HOSTILE, "raters": ["A", "B"]},
        settings={"model": {"kind": "default"}},
        created=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    )
    return Page(path.read_text("utf-8")), json.loads(path.with_suffix(".json").read_text("utf-8")), path


def test_nothing_comes_from_elsewhere(report: tuple[Page, dict[str, Any], Path]) -> None:
    """No script, no link, style sheet, frame or picture but what is in the file; a policy forbids fetching any."""
    page, _, path = report
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.tags}
    for _, given in page.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = given.get(name)
            kinds = ("data:image/png;base64,", "data:image/svg+xml;base64,", "data:text/csv;base64,", "#")
            assert value is None or value.startswith(kinds)
        assert not any(name.startswith("on") or name == "style" for name in given)
    text = path.read_text("utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    policies = [given["content"] for given in page.of("meta") if given.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_what_users_wrote_stays_text(report: tuple[Page, dict[str, Any], Path]) -> None:
    """Names with markup are shown as they are: in title, tables, verdict and alternative texts."""
    page, numbers, _ = report
    assert page.text.count(HOSTILE) > 30
    assert numbers["title"] == f"Pair {HOSTILE}"
    assert any(HOSTILE in (given["alt"] or "") for given in page.of("img"))


def test_it_can_be_read_by_everybody(report: tuple[Page, dict[str, Any], Path]) -> None:
    """Language, one first heading, no level skipped, texts for pictures, table heads with scope, links that arrive."""
    page, _, _ = report
    assert page.of("html")[0]["lang"] == "en"
    levels = [level for level, _ in page.headings]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(said.strip() for _, said in page.headings)
    images = page.of("img")
    assert len(images) >= 6
    assert all(len(given["alt"] or "") > 20 for given in images)
    assert all(given.get("scope") in ("row", "col") for given in page.of("th"))
    assert len(page.of("caption")) == len(page.of("table"))
    names = {given["id"] for _, given in page.tags if given.get("id")}
    assert {(given["href"] or "")[1:] for given in page.of("a") if "download" not in given} <= names


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = np.array([int(digits[k : k + 2], 16) for k in (0, 2, 4)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_every_text_colour_has_contrast_on_every_background(report: tuple[Page, dict[str, Any], Path]) -> None:
    """At least 4.5 to 1 by the formula of the accessibility guidelines, for each colour and background of the style."""
    style = re.search("<style>(.*?)</style>", report[2].read_text("utf-8"), re.DOTALL)
    assert style is not None
    inks = set(re.findall(r"(?<![-\w])color: (#[0-9a-f]{3,6})", style[1]))
    grounds = set(re.findall(r"background: (#[0-9a-f]{3,6})", style[1]))
    assert len(inks) >= 3
    assert len(grounds) >= 4
    for ink in inks:
        for ground in grounds:
            assert (luminance(ground) + 0.05) / (luminance(ink) + 0.05) >= 4.5


def test_the_table_has_the_numbers_of_the_json(report: tuple[Page, dict[str, Any], Path]) -> None:
    """Row by row in the order of the ranking: the value behind each cell is the JSON's, and the text its rounding."""
    page, numbers, _ = report
    evaluation = numbers["evaluation"]
    head, *rows = page.tables["scores"]
    heads = [said for _, said in head]
    assert [row[0][1] for row in rows] == evaluation["ranking"]["2"]
    for place, row in enumerate(rows, 1):
        one = evaluation["transforms"][row[0][1]]
        expected = {
            "rank": place,
            "RMS error (mm)": one["score"]["2"],
            "90 % interval from": one["interval"]["2"][0],
            "to": one["interval"]["2"][1],
            "at landmarks (mm)": one["landmark"]["2"],
            "probability of being best": one["probability_best"]["2"],
            "90th percentile (mm)": one["statistics"]["p90"]["median"],
            "targets above 2 mm": one["statistics"]["above_tolerance"]["median"],
            "outside its domain": one["outside"],
        }
        for name, value in expected.items():
            given, said = row[heads.index(name)]
            assert float(given["data-value"] or "nan") == value
            if said in ("over 0.99", "below 0.01"):
                continue
            shown = re.match(r"([\d.e+-]+)", said)
            assert shown is not None
            scale = 100 if "%" in said and "interval" not in name else 1
            assert float(shown[1]) == pytest.approx(scale * value, rel=5.1e-3, abs=0.51 if scale == 100 else 0.0051)


def test_the_json_has_everything(report: tuple[Page, dict[str, Any], Path]) -> None:
    page, numbers, _ = report
    assert numbers["created"] == "2026-01-02T03:04:00+00:00"
    assert numbers["versions"]["warpgauge"] == wg.__version__
    assert numbers["transforms"][HOSTILE]["assumptions"] == ["The units are mm, as ITK has it."]
    assert "The units are mm, as ITK has it." in page.text
    assert numbers["transforms"]["none"]["kind"] == "Python function '<lambda>'"
    assert len(numbers["annotations"]) == 30
    assert numbers["annotations"][3]["label"] == f"{HOSTILE} 3"
    assert numbers["evaluation"]["seed"] == 0
    assert numbers["images"]["fixed"]["content_hash"] in page.text
    assert numbers["model"]["weights"] == [10.0]
    shares = numbers["maps"]["methods"]
    assert shares["none"]["median"] > shares[HOSTILE]["median"]
    assert len(numbers["errors_at_annotations"][HOSTILE]) == 30
    assert shares["none"]["outside"] > 0


def test_calibration_that_failed_is_said_before_any_ranking(tmp_path: Path) -> None:
    """The warning is the first thing after the title, and the calibration stands before the results."""
    given = scene(2, overconfident=True)
    assert Trust.of_posterior(given["posterior"]).verdict == "overconfident"
    page = Page(write_report(tmp_path / "r.html", given["evaluation"], maps=False).read_text("utf-8"))
    warning = page.text.index("Do not rely on what follows")
    assert warning < page.text.index(given["evaluation"].verdict.lines()["BEST"])
    assert warning < min(page.text.index(name) for name in ("shift", "none"))
    titles = [said for level, said in page.headings if level == 2]
    assert titles[:2] == ["Can these numbers be trusted?", "Which method is best?"]
    good = scene(2)
    assert Trust.of_posterior(good["posterior"]).verdict == "calibrated"
    page = Page(write_report(tmp_path / "g.html", good["evaluation"], maps=False).read_text("utf-8"))
    assert "Do not rely" not in page.text
    first = page.text[page.text.rindex("Registration report") :]
    assert 0 < first.index(good["evaluation"].verdict.lines()["BEST"]) < 80


def test_a_report_of_the_evaluation_alone(tmp_path: Path) -> None:
    """Images may be missing; what cannot be shown is said."""
    path = write_report(tmp_path / "r.html", scored(2))
    page = Page(path.read_text("utf-8"))
    assert "No maps were made" in page.text
    assert json.loads(path.with_suffix(".json").read_text("utf-8"))["maps"] is None


def test_a_report_of_more_targets_than_can_be_drawn_jointly(tmp_path: Path) -> None:
    """What `evaluate` can score has a report."""
    given = scene(2)
    targets = np.random.default_rng(3).uniform(0, 88, (17_000, 2))
    transforms = {name: one for name, one in given["transforms"].items() if name != "none"}
    judge = wg.judge(given["posterior"], transforms)
    evaluation = wg.evaluate(judge, transforms, targets, samples=50)
    path = write_report(tmp_path / "r.html", evaluation, maps=False)
    numbers = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert numbers["targets"]["count"] == 17_000


def test_errors_at_landmarks_of_an_earlier_report_do_not_stay_beside_a_new_one(tmp_path: Path) -> None:
    given = scene(2)
    write_report(tmp_path / "r.html", given["evaluation"], maps=False)
    assert (tmp_path / "r-landmarks.csv").is_file()
    evaluation = wg.evaluate(given["posterior"], {"a": truth(given["targets"])}, given["targets"], samples=50)
    write_report(tmp_path / "r.html", evaluation, maps=False)
    assert not (tmp_path / "r-landmarks.csv").exists()


def test_prior_alone_makes_no_claim(tmp_path: Path) -> None:
    given = scene(2)
    empty = given["posterior"].prior.condition(wg.Annotations.empty(2))
    evaluation = wg.evaluate(empty, given["transforms"], given["targets"], samples=50)
    page = Page(write_report(tmp_path / "r.html", evaluation).read_text("utf-8"))
    assert "There are no annotations, so this report cannot say how good a registration is." in page.text


def test_maps_of_methods_are_the_errors_to_be_expected(tmp_path: Path) -> None:
    """A shift of 300 that everything else contradicts is expected to be about 300 off everywhere, and never below 2."""
    given = scene(2)
    image = fixed_image(2, tmp_path)
    transforms = {**given["transforms"], "far": lambda x: truth(x) + np.array([300.0, 0.0])}
    evaluation = wg.evaluate(given["posterior"], transforms, given["targets"], samples=50, tolerance=2.0)
    made = method_maps(evaluation, image.grid, fixed=image, elements=20)
    assert made.grid.size == (20, 16)
    np.testing.assert_allclose(made.expected["far"], 300.0, rtol=0.05)
    assert np.isnan(made.expected["none"]).any()
    assert made.summary()["methods"]["none"]["outside"] == pytest.approx(np.isnan(made.expected["none"]).mean())
    picture = made.picture(made.expected, "expected error", image.grid.points(0, 2), high=5.0)
    assert picture.entropy is made.entropy
    assert colour_ends(picture) == (0.0, 5.0)


def test_the_report_of_a_judge_is_consistent(tmp_path: Path) -> None:
    """What verdict, table, maps and CSV say of transforms judged with a baseline agrees."""
    given = scene(2)
    image = fixed_image(2, tmp_path)
    transforms = {**given["transforms"], "identity": lambda x: x}
    transforms["plain"] = transforms.pop(HOSTILE)
    judged = wg.judge(given["posterior"], transforms)
    evaluation = wg.evaluate(judged, transforms, given["targets"], samples=200)
    path = write_report(tmp_path / "r.html", evaluation, fixed=image, moving=image)
    assert_consistent(path)


@pytest.mark.parametrize("count", [1, 2, 5, 15])
def test_one_to_fifteen_methods_fit_on_the_page(tmp_path: Path, count: int) -> None:
    """Best first, at most eight maps, and the baseline among them however many methods there are."""
    given = scene(2)
    image = fixed_image(2, tmp_path)
    transforms = {f"m{k:02d}": (lambda x, k=k: truth(x) + 0.4 * k) for k in range(count)}
    transforms["identity"] = lambda x: x + 30.0
    judged = wg.judge(given["posterior"], transforms)
    evaluation = wg.evaluate(judged, transforms, given["targets"], samples=100)
    path = write_report(tmp_path / "r.html", evaluation, fixed=image, moving=image)
    assert_consistent(path)
    page = Page(path.read_text("utf-8"))
    title = next(given["alt"] or "" for given in page.of("img") if "expected error" in (given["alt"] or ""))
    assert len(re.findall(r"m\d\d", title)) == min(count, 7 if count > 7 else count)
    assert "identity" in title
    heads = [said for _, said in page.tables["annotation-list"][0]]
    assert "identity" in heads
    assert len(heads) <= 6 + 8


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    evaluation = scored(2)
    with pytest.raises(InvalidInputError, match=r"must end in \.html"):
        write_report(tmp_path / "r.pdf", evaluation)
    with pytest.raises(InvalidInputError, match="There is no folder"):
        write_report(tmp_path / "missing" / "r.html", evaluation)
    assert not list(tmp_path.iterdir())


def test_a_wrong_name_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"must end in \.html"):
        write_project_report(None, tmp_path / "r.pdf")  # type: ignore[arg-type]  # no project is opened for it
