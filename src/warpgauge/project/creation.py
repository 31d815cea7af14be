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
from warpgauge.candidates import LabelRegions
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, say
from warpgauge.io.files import sync_folder
from warpgauge.io.images import Image, read_image
from warpgauge.project.document import Document, ImageRecord, write_document
from warpgauge.project.foregrounds import make_foregrounds, missing_area, store_foreground
from warpgauge.project.images import RELINKED, Spacing, copy_into, record_of, relative_path, unwritable
from warpgauge.project.log import now
from warpgauge.project.permission import permit_new
from warpgauge.project.points import Progress, make_candidates, make_targets, read_on_grid, store
from warpgauge.project.postgres import stored_address
from warpgauge.project.settings import Settings
from warpgauge.project.stores import create_log

FOLDERS: tuple[str, ...] = ("transforms", "maps", "report")


def create_project(
    folder: Path,
    fixed: Path,
    moving: Path,
    masks: Mapping[str, Path],
    regions: Path | None,
    missing: Path | None,
    foreground: str,
    targets: Any,
    candidates: Any,
    spacing: Spacing | Mapping[str, Spacing],
    units: str | None,
    copy: bool,
    settings: Settings,
    progress: Progress | None,
    database: str | None,
) -> None:
    """Make a project in a folder that does not exist yet or is empty.

    ``masks`` are those of ``fixed`` and ``moving``, where given; for the others see `Project.create`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{str(folder)!r} exists already and is not an empty folder; choose another name.")
    told = _spacings(spacing)
    images = {
        "fixed": read_image(fixed, spacing=told["fixed"], units=units),
        "moving": read_image(moving, spacing=told["moving"], units=units),
    }
    _check_pair(images["fixed"], images["moving"])
    images |= {f"{side}_mask": read_image(path) for side, path in masks.items()}
    if regions is not None:
        if settings.model == "paper":
            raise InvalidInputError("Regions need the default model: the paper's has one kernel for the whole image.")
        labels = read_on_grid(regions, images["fixed"].grid, "label image")
        LabelRegions.of(labels, images["fixed"].grid, f"The label image {regions.name!r}")
        images["regions"] = read_image(regions)
    if missing is not None:
        images["missing"] = read_image(missing)
    mask = read_on_grid(masks["fixed"], images["fixed"].grid, "mask") if "fixed" in masks else None
    foregrounds = make_foregrounds(foreground, images)
    found = make_candidates(candidates, images["fixed"], mask, foregrounds.get("fixed"), progress)
    aims = make_targets(targets, images["fixed"].grid, mask, found.points_world, foregrounds.get("fixed"))
    if missing is not None:
        grid = images["fixed"].grid
        area = missing_area(read_on_grid(missing, grid, "mask of what has no match"), grid)
        found, aims = found.outside(area, "candidates"), aims.outside(area, "targets")
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
            # Masks and labels need no units: only their samples count, and they lie on their image's grid.
            unit = units if role in ("fixed", "moving") else None
            # A copy of DICOM has other headers, and so another hash.
            stored = read_image(fresh / path, spacing=told.get(role), units=unit) if copied else image
            records[role] = record_of(stored, path, copied, told.get(role), unit)
        document = Document(
            project_id,
            now(),
            f"warpgauge {__version__}",
            records,
            store(fresh, "candidates", found),
            store(fresh, "targets", aims),
            settings,
            {
                side: store_foreground(fresh, side, made, from_mask=f"{side}_mask" in images)
                for side, made in foregrounds.items()
            },
            address,
            secrets.randbits(64),
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


def _spacings(spacing: Spacing | Mapping[str, Spacing]) -> dict[str, Spacing]:
    if not isinstance(spacing, Mapping):
        return {"fixed": spacing, "moving": spacing}
    unknown = set(spacing) - {"fixed", "moving"}
    if unknown:
        raise InvalidInputError(f"spacing may be given for 'fixed' and 'moving', not for {sorted(unknown)[0]!r}.")
    return {"fixed": spacing.get("fixed"), "moving": spacing.get("moving")}


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


def settings_of(given: Settings | Mapping[str, Any] | None) -> Settings:
    """Read settings however they are given."""
    if given is None:
        return Settings()
    return given if isinstance(given, Settings) else Settings.from_dict(given)
