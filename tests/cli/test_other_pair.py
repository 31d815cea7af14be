"""Landmarks of another pair, or with other rows, are refused by ``import``, from the images around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

from command_tools import ask, call


def test_landmarks_of_other_images_are_refused(tmp_path: Path) -> None:
    """The same fixed points with matches in a third image, which is moved by 25 pixels more; the right ones come in."""
    rng = np.random.default_rng(12)
    texture = ndimage.gaussian_filter(rng.normal(size=(300, 340)), 3)
    grey = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(grey[30:270, 30:310]).save(tmp_path / "fixed.png")
    Image.fromarray(255 - grey[33:273, 26:306]).save(tmp_path / "moving.png")  # another contrast, moved by (4, -3)
    points = rng.uniform(60, 180, (40, 2))
    for name, shift in (("right", (4.0, -3.0)), ("other", (-21.0, 14.0))):
        rows = np.hstack([points, points + shift + 0.5 * rng.normal(size=points.shape)])
        lines = ["fixed_x,fixed_y,moving_x,moving_y", *(",".join(map(str, row)) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    call("new", tmp_path / "p", "--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png",
         "--candidates", 20, "--targets", "domain:30", "--foreground", "none")  # fmt: skip
    assert "the landmarks belong to other images" in call("import", tmp_path / "p", tmp_path / "other.csv", code=1)
    assert ask("import", tmp_path / "p", tmp_path / "right.csv")["placed"] == 40


def test_he_and_cc10_landmarks_on_he_and_prospc(data_dir: Path, tmp_path: Path) -> None:
    """All 78 landmarks of each; those of He and proSPC come in."""
    region = data_dir / "cima" / "lung-lesion_1"
    he, cc10, prospc = (next(region.glob(f"*-{name}-*.csv")) for name in ("He", "Cc10", "proSPC"))
    images = ["--fixed", he.with_suffix(".jpg"), "--moving", prospc.with_suffix(".jpg"), "--units", "px"]
    call("new", tmp_path / "p", *images, "--candidates", 20, "--targets", "domain:30", "--foreground", "none")
    assert "the landmarks belong to other images" in call("import", tmp_path / "p", he, cc10, code=1)
    assert ask("import", tmp_path / "p", he, prospc)["placed"] == 78
