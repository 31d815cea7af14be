"""Creation of a project: it is built in a hidden folder, which is renamed in one step."""

from __future__ import annotations

import secrets
import shutil
import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.candidates import Foreground, LabelRegions
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, say
from warpgauge.io.files import sync_folder
from warpgauge.io.images import Image, read_image
from warpgauge.project.document import Document, ImageRecord, write_document
from warpgauge.project.foregrounds import missing_area, store_foreground
from warpgauge.project.images import RELINKED, Spacing, copy_into, overview_file, record_of, relative_path, unwritable
from warpgauge.project.log import now
from warpgauge.project.permission import permit_new
from warpgauge.project.points import PointSet, Progress, make_candidates, make_targets, read_on_grid, store
from warpgauge.project.postgres import stored_address
from warpgauge.project.settings import Settings
from warpgauge.project.stores import create_log

FOLDERS: tuple[str, ...] = ("transforms", "maps", "report")


def spacings_of(spacing: Spacing | Mapping[str, Spacing]) -> dict[str, Spacing]:
    """Return the spacing that was given for each of the two images."""
    if not isinstance(spacing, Mapping):
        return {"fixed": spacing, "moving": spacing}
    unknown = set(spacing) - {"fixed", "moving"}
    if unknown:
        raise InvalidInputError(f"spacing may be given for 'fixed' and 'moving', not for {sorted(unknown)[0]!r}.")
    return {"fixed": spacing.get("fixed"), "moving": spacing.get("moving")}


def read_images(paths: Mapping[str, Path], spacings: Mapping[str, Spacing], units: str | None) -> dict[str, Image]:
    """Open the images of a new project by role, and refuse a pair that does not go together."""
    images = {}
    for role, path in paths.items():
        # Masks and labels need no units: only their samples count, and they lie on their image's grid.
        images[role] = read_image(path, spacing=spacings.get(role), units=units if role in spacings else None)
    _check_pair(images["fixed"], images["moving"])
    if "regions" in images:
        labels = read_on_grid(paths["regions"], images["fixed"].grid, "label image")
        LabelRegions.of(labels, images["fixed"].grid, f"The label image {paths['regions'].name!r}")
    return images


def make_points(
    images: Mapping[str, Image],
    foregrounds: Mapping[str, Foreground],
    candidates: Any,
    targets: Any,
    progress: Progress | None,
) -> tuple[PointSet, PointSet]:
    """Return the candidates and the targets of a new project."""
    grid = images["fixed"].grid
    mask = read_on_grid(images["fixed_mask"].path, grid, "mask") if "fixed_mask" in images else None
    asked = make_candidates(candidates, images["fixed"], mask, foregrounds.get("fixed"), progress)
    judged = make_targets(targets, grid, mask, asked.points_world, foregrounds.get("fixed"))
    if "missing" not in images:
        return asked, judged
    area = missing_area(read_on_grid(images["missing"].path, grid, "mask of what has no match"), grid)
    return asked.outside(area, "candidates"), judged.outside(area, "targets")


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{str(folder)!r} exists already and is not an empty folder; choose another name.")


def build(
    folder: Path,
    images: Mapping[str, Image],
    candidates: PointSet,
    targets: PointSet,
    foregrounds: Mapping[str, Foreground],
    settings: Settings,
    *,
    spacings: Mapping[str, Spacing],
    units: str | None,
    copy: bool,
    database: str | None,
) -> None:
    """Write the folder of a new project under a hidden name, and rename it when it is complete."""
    project_id = str(uuid.uuid4())
    address = None if database is None else stored_address(database)
    fresh = folder.parent / f".{folder.name}.{project_id[:8]}"
    try:
        fresh.mkdir(parents=True)
        for name in FOLDERS:
            (fresh / name).mkdir()
        records: dict[str, ImageRecord] = {}
        for role, image in images.items():
            copied = copy or role not in RELINKED
            path = copy_into(image, fresh) if copied else relative_path(image.path, folder)
            unit = units if role in spacings else None
            # A copy of DICOM has other headers, and so another hash.
            stored = read_image(fresh / path, spacing=spacings.get(role), units=unit) if copied else image
            records[role] = record_of(stored, path, copied, spacings.get(role), unit)
            if role in spacings:  # or whoever sees a large image first would wait for its coarse levels
                image.make_overview(overview_file(fresh, records[role].content_hash))
        areas = {}
        for side, foreground in foregrounds.items():
            areas[side] = store_foreground(fresh, side, foreground, from_mask=f"{side}_mask" in images)
        document = Document(
            id=project_id,
            created=now(),
            program=f"warpgauge {__version__}",
            images=records,
            candidates=store(fresh, "candidates", candidates),
            targets=store(fresh, "targets", targets),
            settings=settings,
            foregrounds=areas,
            database=address,
            draw_seed=secrets.randbits(64),
        )
        create_log(fresh, project_id, database)
        write_document(fresh, document)
        sync_folder(fresh)
        fresh.rename(folder)
        permit_new(folder, document)
        sync_folder(folder.parent)
    except OSError as error:
        raise unwritable(folder.parent, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _check_pair(fixed: Image, moving: Image) -> None:
    one, other = fixed.grid, moving.grid
    if one.d != other.d:
        raise InvalidInputError(f"The fixed image is {one.d}D and the moving image {other.d}D; both must be the same.")
    if one.units != other.units:
        raise InvalidInputError(
            f"The fixed image is in {one.units} and the moving image in {other.units}; give {say('spacing')} and "
            f"{say('units')}, so that displacements between them have one unit."
        )
    ratio = float(np.prod(one.spacing) / np.prod(other.spacing)) ** (1 / one.d)
    if not 1 / 50 < ratio < 50:
        warnings.warn(
            f"The pixels of the fixed image are {ratio:.3g} times as large as those of the moving image; check the "
            f"spacings, {one.spacing.tolist()} and {other.spacing.tolist()} {one.units}.",
            SuspiciousDataWarning,
            stacklevel=4,
        )
