"""``warpgauge new --regions``, a label image: stored, and used by suggest, evaluate, map, info and refits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as Picture

import warpgauge as wg
from command_tools import ask, call
from warpgauge.evaluation.project_evaluation import project_posterior
from warpgauge.project import Project
from warpgauge.session import Session

SIZE = 96


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two speckled images, labels of their halves, and files that are no labels."""
    rng = np.random.default_rng(0)
    speckle = rng.integers(0, 255, (SIZE // 4, SIZE // 4)).astype(np.uint8)
    Picture.fromarray(speckle).resize((SIZE, SIZE)).save(tmp_path / "fixed.png")
    Picture.fromarray(speckle).resize((SIZE, SIZE)).save(tmp_path / "moving.png")
    labels = np.zeros((SIZE, SIZE), dtype=np.uint8)
    labels[:, SIZE // 2 :] = 7
    Picture.fromarray(labels).save(tmp_path / "labels.png")
    Picture.fromarray(labels[:, :50]).save(tmp_path / "small.png")
    Picture.fromarray(np.zeros_like(labels)).save(tmp_path / "one.png")
    Picture.fromarray(labels.astype(np.float32) + 0.5).save(tmp_path / "half.tif")
    soft = np.clip((np.arange(SIZE) - 45.5) / 4, 0, 1)  # probabilities of the right half
    tifffile.imwrite(tmp_path / "soft.tif", np.tile(soft, (SIZE, 1)).astype(np.float32))
    unknown = labels.astype(np.float32)
    unknown[3, 4], unknown[5, 6] = np.nan, np.inf
    Picture.fromarray(unknown).save(tmp_path / "unknown.tif")
    return tmp_path


def make(pictures: Path, name: str, *options: object, code: int = 0) -> str:
    return call(
        "new", pictures / name, "--fixed", pictures / "fixed.png", "--moving", pictures / "moving.png",
        "--candidates", 60, "--targets", "domain:200", "--foreground", "none", *options, code=code,
    )  # fmt: skip


def slid(points: np.ndarray) -> np.ndarray:
    """The right half moves up by 3 pixels, the left one down."""
    return points + np.where(points[:, :1] >= SIZE / 2 - 0.5, [[0.0, 3.0]], [[0.0, -3.0]])


def answered(project: Project, count: int) -> Session:
    """Answer questions with the sliding motion."""
    session = Session(project, rater="ada")
    for _ in range(count):
        query = session.next_query()
        session.place(query, slid(np.asarray(query.point)[None])[0], radius=0.5, confirmed=True)
        session.refit_if_due()
    return session


def test_a_project_keeps_its_regions_and_learns_how_much_they_slide(pictures: Path) -> None:
    """Refits, posterior, evaluation and predictions at the boundary know them; removing the source changes nothing."""
    assert "2 labels: 0, 7" in make(pictures, "sliding", "--regions", pictures / "labels.png")
    make(pictures, "plain")
    (pictures / "labels.png").unlink()
    near = np.array([[SIZE / 2 - 2.0, 40.0], [SIZE / 2 + 2.0, 40.0]])
    errors = {}
    for name in ("sliding", "plain"):
        with Project.open(pictures / name) as project:
            session = answered(project, 12)
            posterior = session.posterior()
            errors[name] = np.abs(posterior.mean(near) - slid(near)).max()
            whole = project_posterior(project)
            assert (whole.prior.kernel.regions is not None) == (name == "sliding")
            if name == "sliding":
                assert whole.prior.kernel.own_share > 0.5
                assert len(project.state.fits[-1].own) == len(project.state.fits[-1].scales)
            else:
                assert project.state.fits[-1].own == ()
    assert errors["sliding"] < 0.5 * errors["plain"]
    told = ask("info", pictures / "sliding")
    assert told["regions"] == "2 labels: 0, 7"
    assert told["share of each region's own"] > 0.5
    assert "regions" not in ask("info", pictures / "plain")
    assert "unchanged" in call("verify", pictures / "sliding")


def test_the_judge_and_the_map_keep_to_the_boundary(pictures: Path) -> None:
    """The model of a smooth registration's errors has the regions; the mean map jumps where the labels change."""
    make(pictures, "sliding", "--regions", pictures / "labels.png")
    with Project.open(pictures / "sliding") as project:
        answered(project, 14)
        posterior, targets = project_posterior(project), project.targets
    transforms = {
        "smooth": lambda points: points + 3 * np.tanh((points[:, :1] - SIZE / 2) / 20) * [0, 1],
        "still": lambda points: points,
    }
    judge = wg.judge(posterior, transforms)
    off = np.abs(targets[:, 0] - SIZE / 2) < 8
    expected = judge.truth(judge.comparison.over(targets), 10)[1]
    missed = np.linalg.norm(expected[off] - slid(targets)[off], axis=1)
    best = np.linalg.norm(transforms["smooth"](targets)[off] - slid(targets)[off], axis=1)
    assert missed.mean() < 0.5 * best.mean()
    call("map", pictures / "sliding", "mean", pictures / "mean.tif", "--full")
    upward = tifffile.imread(pictures / "mean.tif")[1]
    jumps = np.abs(np.diff(upward[20:76], axis=1)).mean(axis=0)
    assert np.argmax(jumps) == SIZE // 2 - 1
    assert jumps[SIZE // 2 - 1] > 4
    assert np.delete(jumps, SIZE // 2 - 1).max() < 1


@pytest.mark.parametrize(
    ("file", "options", "word"),
    [
        ("small.png", (), "same size"),
        ("one.png", (), "at least two labels"),
        ("half.tif", (), "not whole numbers"),
        ("unknown.tif", (), "not whole numbers"),
        ("soft.tif", (), "not whole numbers"),
        ("labels.png", ("--set", "model=paper"), "default model"),
    ],
)
def test_what_holds_no_labels_is_refused_and_nothing_is_made(
    pictures: Path, file: str, options: tuple[str, ...], word: str
) -> None:
    said = make(pictures, "refused", "--regions", pictures / file, *options, code=1)
    assert word in said
    assert not (pictures / "refused").exists()


def test_an_older_program_refuses_a_project_with_regions_and_changed_labels_are_noticed(pictures: Path) -> None:
    """Version 3 programs stop at version 4; labels that were painted over are not used."""
    make(pictures, "sliding", "--regions", pictures / "labels.png")
    stored = pictures / "sliding" / "images" / "labels.png"
    painted = np.asarray(Picture.open(stored)).copy()
    painted[:20] = 7
    Picture.fromarray(painted).save(stored)
    said = call("suggest", pictures / "sliding", code=1)
    assert "has changed since" in said
    assert "put back the former file." in said  # regions cannot be relinked
