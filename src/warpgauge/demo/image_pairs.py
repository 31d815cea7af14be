"""Pairs of images with a known transformation between them, made from real images inside installed packages."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.geometry import Grid
from warpgauge.io.files import require
from warpgauge.io.transforms import DisplacementField
from warpgauge.maps import write_map
from warpgauge.simulate import random_deformation, warp_image

# Share of the other stain that each modality still shows, as a counterstain does in real sections.
COUNTERSTAIN = 0.4
_TEMPLATE = "mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"


@dataclass(frozen=True)
class DemoPair:
    """Two image files on one grid, the true transformation from fixed to moving points, and what the pair is.

    The ``mask`` says where it matters, on the grid.
    """

    fixed: Path
    moving: Path
    grid: Grid
    truth: DisplacementField
    mask: Path | None
    about: str


def make_pair(
    d: int, folder: Path, seed: int = 1, *, amplitude: float | None = None, spacing: float | None = None, step: int = 2
) -> DemoPair:
    """Make the 2D (histology) or the 3D pair (brain) in a folder.

    ``amplitude`` is the standard deviation of the control velocities of the deformation and ``spacing`` the distance of
    the control points, in world units; ``step`` millimetres of the brain template become one voxel.
    """
    if d not in (2, 3):
        raise InvalidInputError(f"The demonstration has 2 or 3 dimensions, got {d!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    usual = {2: (12.0, 96.0), 3: (5.0, 40.0)}[d]
    size = usual[0] if amplitude is None else amplitude, usual[1] if spacing is None else spacing
    return _histology(folder, seed, *size) if d == 2 else _brain(folder, seed, *size, step)


def _bytes(image: Floats) -> NDArray[np.uint8]:
    """Stretch the middle 99 % of the values over 0 to 255; this is a picture to look at, so the rest may saturate."""
    low, high = np.percentile(image, [0.5, 99.5])
    return np.asarray(np.clip(255 * (image - low) / (high - low), 0, 255), dtype=np.uint8)


def _histology(folder: Path, seed: int, amplitude: float, spacing: float) -> DemoPair:
    """Two stains of one section: haematoxylin as fixed, DAB as moving image, deformed by a velocity field."""
    require("skimage", "demo")
    from skimage.color import rgb2hed
    from skimage.data import immunohistochemistry

    densities = rgb2hed(immunohistochemistry())
    nuclei, antibody = ((one - one.mean()) / one.std() for one in (densities[..., 0], densities[..., 2]))
    fixed = 255 - _bytes(nuclei + COUNTERSTAIN * antibody)
    moving = 255 - _bytes(antibody + COUNTERSTAIN * nuclei)
    grid = Grid(fixed.shape[::-1])
    truth = random_deformation(grid, amplitude=amplitude, spacing=spacing, seed=seed)
    moving = warp_image(moving, grid, truth, fill=float(np.median(moving)))
    pictures = require("PIL.Image", "images")
    for name, image in (("fixed", fixed), ("moving", moving)):
        pictures.fromarray(image).save(folder / f"{name}.png")
    about = (
        "two stains of one immunohistochemistry section (512 x 512 px), one of them deformed by a known velocity field"
    )
    return DemoPair(folder / "fixed.png", folder / "moving.png", grid, truth, None, about)


def template_file(kind: str) -> Path:
    """Return the file of ``"t1"``, ``"gm"`` or ``"wm"`` of the brain template inside nilearn."""
    try:
        folder = resources.files("nilearn") / "datasets" / "data"
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"The brain needs the template inside nilearn; {install_advice('demo')}.") from error
    return Path(str(folder / _TEMPLATE.format(kind)))


def _template(kind: str, step: int) -> tuple[Floats, Floats]:
    """Array [z, y, x] and affine (RAS) of a template inside nilearn, every ``step``-th voxel after averaging."""
    import nibabel

    image: Any = nibabel.Nifti1Image.from_bytes(gzip.decompress(template_file(kind).read_bytes()))
    data = np.asarray(image.get_fdata(), dtype=np.float64)
    size = [n - n % step for n in data.shape]
    blocks = data[: size[0], : size[1], : size[2]].reshape(
        size[0] // step, step, size[1] // step, step, size[2] // step, step
    )
    affine = image.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ np.full(3, (step - 1) / 2)
    affine[:3, :3] *= step
    return np.ascontiguousarray(blocks.mean(axis=(1, 3, 5)).T), affine


def _brain(folder: Path, seed: int, amplitude: float, spacing: float, step: int) -> DemoPair:
    """T1 template as fixed image; a T2-like contrast made from its tissue maps, deformed, as moving image."""
    t1, affine = _template("t1", step)
    gray, _ = _template("gm", step)
    white, _ = _template("wm", step)
    gray = gray / gray.max()
    white = white / white.max()
    grid = Grid.from_affine(np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine, t1.shape[::-1], "mm")
    inside = t1 > 0.1 * t1.max()
    fluid = np.clip(1 - gray - white, 0, 1) * inside
    t2 = 220 * fluid + 120 * gray + 80 * white
    truth = random_deformation(grid, amplitude=amplitude, spacing=spacing, seed=seed)
    moving = warp_image(t2, grid, truth, fill=0.0)
    tissue = (gray + white) > 0.5
    write_map((255 * t1 / t1.max()).astype(np.float32), grid, folder / "fixed.nii.gz")
    write_map(moving.astype(np.float32), grid, folder / "moving.nii.gz")
    write_map(tissue.astype(np.uint8), grid, folder / "mask.nii.gz")
    about = f"the T1 template at {step} mm and a T2-like contrast of it, deformed by a known velocity field"
    return DemoPair(folder / "fixed.nii.gz", folder / "moving.nii.gz", grid, truth, folder / "mask.nii.gz", about)
