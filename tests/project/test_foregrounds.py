"""A project knows where its images show something: found, stored, shown, found again, or not wanted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from warpgauge.cli.app import app
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project, ProjectError

SIZE = (320, 240)
BOX = (slice(60, 200), slice(80, 280))


def section(path: Path, shift: int = 0) -> Path:
    """A rectangle of stained tissue on glass."""
    rng = np.random.default_rng(5)
    picture = np.full((*SIZE[::-1], 3), 244.0)
    box = (BOX[0], slice(BOX[1].start + shift, BOX[1].stop + shift))
    shape = (140, 200)
    picture[box] = rng.normal((120, 60, 150), 1, (*shape, 3)) + np.repeat(rng.normal(0, 30, (*shape, 1)), 3, axis=2)
    Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(path)
    return path


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Path]:
    """Two sections, the second 30 pixels to the right."""
    return {"fixed": section(tmp_path / "he.png"), "moving": section(tmp_path / "ki67.png", 30)}


def inside(points: np.ndarray, shift: int = 0, margin: float = 0.0) -> np.ndarray:
    x, y = points.T
    across = (x >= 80 + shift + margin) & (x <= 279 + shift - margin)
    return across & (y >= 60 + margin) & (y <= 199 - margin)


def test_new_asks_and_measures_in_the_tissue_only(pair: dict[str, Path], tmp_path: Path) -> None:
    """Candidates and targets lie in the tissue; `new` and `info` say what is taken for tissue."""
    run = CliRunner().invoke(app, ["new", str(tmp_path / "p"), *arguments(pair)])
    assert run.exit_code == 0, run.output
    with Project.open(tmp_path / "p") as project:
        assert inside(project.candidates).all()
        assert inside(project.targets, margin=-1.5).all()
        assert len(project.targets) > 1000
        assert project.document.targets.covers_candidates
        assert "foreground of the fixed image (3" in project.document.targets.method
        assert project.fixed_foreground is not None
        assert project.moving_foreground is not None
        middle = np.array([[95.0, 130.0], [295.0, 130.0]])
        assert project.fixed_foreground.contains(middle).tolist() == [True, False]
        assert project.moving_foreground.contains(middle).tolist() == [False, True]
        assert project.verify().ok
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "p"), "--json"])
    assert "bright, colourless background" in json.loads(shown.output)["moving foreground"]
    assert "lattice over the foreground" in json.loads(shown.output)["targets are"]


def arguments(pair: dict[str, Path], *more: str) -> list[str]:
    return ["--fixed", str(pair["fixed"]), "--moving", str(pair["moving"]), *more]


def test_none_uses_the_whole_image(pair: dict[str, Path], tmp_path: Path) -> None:
    """Without a foreground the targets are the whole image, as they were before."""
    run = CliRunner().invoke(app, ["new", str(tmp_path / "p"), *arguments(pair, "--foreground", "none")])
    assert run.exit_code == 0, run.output
    with Project.open(tmp_path / "p") as project:
        assert project.fixed_foreground is None
        assert project.moving_foreground is None
        assert not inside(project.targets).all()
        assert "domain" in project.document.targets.method


def test_masks_replace_what_would_be_found(pair: dict[str, Path], tmp_path: Path) -> None:
    """A mask of either image is its foreground; one of another size is refused, and no project is left behind."""
    mask = np.zeros(SIZE[::-1], np.uint8)
    mask[100:150, 120:200] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    for side, name in (("fixed", "f"), ("moving", "m")):
        with Project.create(tmp_path / name, **pair, **{f"{side}_mask": tmp_path / "mask.png"}) as project:
            found = getattr(project, f"{side}_foreground")
            assert found.share == pytest.approx(mask.mean() / 255)
            assert "mask.png" in found.method
            assert found.contains([[150.0, 120.0], [90.0, 70.0]]).tolist() == [True, False]
        with Project.open(tmp_path / name) as again:
            assert np.array_equal(getattr(again, f"{side}_foreground").mask, found.mask)
    Image.fromarray(mask[:-1]).save(tmp_path / "mask.png")
    with pytest.raises(InvalidInputError, match="moving image has the size"):
        Project.create(tmp_path / "x", **pair, moving_mask=tmp_path / "mask.png")
    assert not (tmp_path / "x").exists()


def test_a_moved_mask_of_the_moving_image_is_linked_anew(pair: dict[str, Path], tmp_path: Path) -> None:
    Image.fromarray(np.full(SIZE[::-1], 255, np.uint8)).save(tmp_path / "mask.png")
    Project.create(tmp_path / "p", **pair, moving_mask=tmp_path / "mask.png").close()
    (tmp_path / "mask.png").rename(tmp_path / "elsewhere.png")
    run = CliRunner().invoke(app, ["verify", str(tmp_path / "p"), "--moving-mask", str(tmp_path / "elsewhere.png")])
    assert run.exit_code == 0, run.output
    with Project.open(tmp_path / "p") as project:
        assert project.image("moving_mask").path.name == "elsewhere.png"


def test_a_lost_or_changed_foreground_is_refused(pair: dict[str, Path], tmp_path: Path) -> None:
    with Project.create(tmp_path / "p", **pair, foreground="auto") as project:
        mask = project.moving_foreground.mask
    file = tmp_path / "p" / "moving_foreground.npz"
    np.savez_compressed(file, mask=np.packbits(~mask))
    for words in ("put back the former one", "put the file back"):
        with Project.open(tmp_path / "p") as project:
            with pytest.raises(ProjectError, match=words):
                _ = project.moving_foreground
            assert words in project.verify().problems[0]
        file.unlink(missing_ok=True)


def test_a_wrong_word_is_refused(pair: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'auto' or 'none'"):
        Project.create(tmp_path / "p", **pair, foreground="tissue")
    with pytest.raises(InvalidInputError, match="the project has none"):
        Project.create(tmp_path / "p", **pair, foreground="none", targets={"kind": "foreground"})


def test_no_candidate_of_a_brain_lies_on_a_black_voxel(data_dir: Path, tmp_path: Path) -> None:
    """On the Colin27 template, where a third of the corners of the whole image lie on voxels of value 0."""
    colin, mni = (data_dir / "afids" / name for name in ("colin27_T1.nii.gz", "mni152_6asym_T1.nii.gz"))
    with Project.create(tmp_path / "p", fixed=colin, moving=mni) as project:
        array, grid = project.image("fixed").read(), project.fixed_grid
        for points in (project.candidates, project.targets):
            index = np.round(grid.world_to_index(points)).astype(int)
            assert (array[tuple(index[:, ::-1].T)] > 0).all()
        assert len(project.candidates) > 500
