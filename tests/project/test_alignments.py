"""A rough alignment is proposed, shown, used once somebody has accepted it, and kept out where hints are hidden."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from project.tools import draft
from warpgauge.cli.app import app
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """A picture and itself turned upside down, as arguments of `new`."""
    noise = ndimage.gaussian_filter(np.random.default_rng(8).normal(size=(180, 240)), 7)
    picture = Image.fromarray((255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8))
    picture.save(tmp_path / "he.png")
    picture.transpose(Image.Transpose.ROTATE_180).save(tmp_path / "ki67.png")
    return ["--fixed", str(tmp_path / "he.png"), "--moving", str(tmp_path / "ki67.png"), "--candidates", "30"]


def called(*arguments: str) -> str:
    run = CliRunner().invoke(app, list(arguments))
    assert run.exit_code == 0, run.output
    return run.output


def expected(folder: Path) -> np.ndarray:
    """Where the session expects the match of a point before anything is annotated."""
    with Project.open(folder) as project:
        return wg.Session(project).posterior().mean(np.array([[60.0, 50.0]]))[0]


def test_it_is_used_once_it_is_accepted(pair: list[str], tmp_path: Path) -> None:
    """`align` proposes; the mean stays the identity until `align --yes`; who said so stands in the log."""
    folder = tmp_path / "p"
    called("new", str(folder), *pair)
    told = json.loads(called("align", str(folder), "--json"))
    assert "turned by 180 degrees" in told["alignment"]
    with Image.open(folder / "alignment.png") as picture:
        assert picture.size == (3 * 240, 180)
    assert expected(folder).tolist() == [60.0, 50.0]
    called("align", str(folder), "--yes", "--rater", "ann")
    assert expected(folder) == pytest.approx([239 - 60, 179 - 50], abs=5)
    with Project.open(folder) as project:
        events = [(event.kind, event.rater, event.accepted) for event in project.events()]
        assert events == [("align", "warpgauge", None), ("align", "ann", True)]
        assert project.verify().ok
        sd = np.sqrt(np.diag(wg.Session(project).posterior().covariance(np.array([[119.5, 89.5]]))[0]))
        assert (sd > 0.1 * project.fixed_grid.diagonal).all()  # the shift alone has a tenth of the diagonal
    assert "accepted by ann" in called("info", str(folder))
    called("align", str(folder), "--no", "--rater", "bob")
    assert expected(folder).tolist() == [60.0, 50.0]
    assert "refused by bob" in called("info", str(folder))


def test_annotations_overrule_it(pair: list[str], tmp_path: Path) -> None:
    """An accepted alignment that is wrong does not stand in the way of what is placed."""
    with Project.create(tmp_path / "p", fixed=pair[1], moving=pair[3], candidates=30) as project:
        wrong = {
            "matrix": [[1.0, 0.0], [0.0, 1.0]],
            "offset": [20.0, 0.0],
            "score": 0.1,
            "rival": 0.0,
            "method": "by hand",
        }
        project.append(draft("align", "ann", payload={**wrong, "accepted": True}))
        session = wg.Session(project, rater="ann")
        corners = np.array([[30.0, 30.0], [210.0, 30.0], [30.0, 150.0], [210.0, 150.0], [120.0, 90.0]])
        for point in corners:
            session.volunteer(point, [239.0, 179.0] - point)
        assert session.posterior().mean(np.array([[90.0, 60.0]]))[0] == pytest.approx([149.0, 119.0], abs=2)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [(["--set", "hide-prediction=true"], "hides predictions"), (["--set", "model=paper"], "identity as its mean")],
)
def test_it_is_refused_where_it_has_no_place(pair: list[str], tmp_path: Path, more: list[str], sentence: str) -> None:
    """Where raters must not be given a hint, or the model is the paper's."""
    called("new", str(tmp_path / "p"), *pair, *more)
    run = CliRunner().invoke(app, ["align", str(tmp_path / "p")])
    assert run.exit_code != 0
    assert sentence in str(run.exception)


def test_wrong_words_about_an_alignment(pair: list[str], tmp_path: Path) -> None:
    with Project.create(tmp_path / "p", fixed=pair[1], moving=pair[3], candidates=30) as project:
        with pytest.raises(InvalidInputError, match="No alignment was proposed"):
            project.answer_alignment(True, "ann")
        bad = {"matrix": [[1.0, 1.0], [1.0, 1.0]], "offset": [0.0, 0.0], "score": 0.0, "rival": 0.0}
        bad |= {"accepted": True, "method": "by hand"}
        with pytest.raises(InvalidInputError, match="invertible"):
            project.append(draft("align", "ann", payload=bad))
        with pytest.raises(InvalidInputError, match="accepted"):
            project.append(draft("align", "ann", payload={**bad, "accepted": "maybe"}))
