"""The folder of a project: its creation, and its contents beside the log (images, candidates, targets, foregrounds)."""

from __future__ import annotations

import hashlib
import shutil
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpgauge._version import __version__
from warpgauge.candidates import Foreground, find_foreground, foreground_from_mask
from warpgauge.compute import Executor
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import sync_folder
from warpgauge.io.images import Image, read_image
from warpgauge.io.limits import check_memory
from warpgauge.io.numpy_files import read_array
from warpgauge.io.stores import Place
from warpgauge.project.document import Document, ForegroundRecord, ImageRecord, write_document
from warpgauge.project.errors import ProjectError, project_content
from warpgauge.project.event_log import now
from warpgauge.project.images import Spacing, copy_into, image_problem, open_image, record_of, relative_path, unwritable
from warpgauge.project.permission import permit_new
from warpgauge.project.points import Progress, load, make_candidates, make_targets, read_on_grid, store
from warpgauge.project.settings import Settings
from warpgauge.project.stores import store_at

# The foregrounds of a project's images: found or taken from a mask when it is made, stored, and found again.

Wanted = Literal["auto", "none"]
SIDES: tuple[str, ...] = ("fixed", "moving")


def make_foregrounds(wanted: str, images: Mapping[str, Image]) -> dict[str, Foreground]:
    """Return the foregrounds of the fixed and the moving image, where there is one.

    Parameters
    ----------
    wanted : {"auto", "none"}
        Whether to look for the tissue or body where no mask is given.
    images : mapping
        ``fixed``, ``moving``, and the masks ``fixed_mask``, ``moving_mask`` where given: each replaces what would be
        found.
    """
    if wanted not in ("auto", "none"):
        raise InvalidInputError(f"The foreground must be 'auto' or 'none', or give a mask; got {wanted!r}.")
    found: dict[str, Foreground] = {}
    for side in SIDES:
        mask = images.get(f"{side}_mask")
        if mask is not None:
            array = read_on_grid(mask.path, images[side].grid, "mask", side)
            found[side] = foreground_from_mask(array, images[side].grid, mask.path.name)
        elif wanted == "auto":
            found[side] = find_foreground(images[side])
    return found


def store_foreground(folder: Path, side: str, made: Foreground, from_mask: bool) -> ForegroundRecord:
    """Write a foreground into the project and return its record."""
    file = f"{side}_foreground.npz"
    np.savez_compressed(folder / file, mask=np.packbits(made.mask))
    source = "mask" if from_mask else "image"
    return ForegroundRecord(file, _hash(made.mask), made.grid, made.share, source, made.method)


def load_foreground(folder: Path, record: ForegroundRecord) -> Foreground | None:
    """Read a foreground back; None where its file is missing. One that is not the stored one is refused."""
    file = folder / record.file
    if not file.is_file():
        return None
    with project_content(repr(record.file), "delete it, and it is made again"):
        check_memory(record.file, record.grid.count, file.stat().st_size)
        bits = np.unpackbits(read_array(file, member="mask"), count=record.grid.count)
        mask = bits.astype(bool).reshape(record.grid.shape)
    if _hash(mask) != record.content_hash:
        raise ProjectError(
            f"{record.file!r} is not the foreground that the project was made with; delete it, and it is made again."
        )
    mask.flags.writeable = False
    return Foreground(mask, record.grid, record.method)


def found_again(record: ForegroundRecord, image: Image, mask: Image | None) -> Foreground:
    """Make a foreground whose file is missing again, from the image or the mask that it came from."""
    if record.source == "mask" and mask is not None:
        array = read_on_grid(mask.path, image.grid, "mask")
        return foreground_from_mask(array, image.grid, mask.path.name)
    return find_foreground(image)


def _hash(mask: NDArray[np.bool_]) -> str:
    text = repr(mask.shape).encode() + np.packbits(mask).tobytes()
    return "sha256:" + hashlib.sha256(text).hexdigest()


# What a project holds beside its log: images with their frames, candidates, targets and foregrounds.


class ProjectFolder(ABC):
    """The folder of a project; `warpgauge.project.Project` adds the log.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def document(self) -> Document:
        """What ``project.json`` says."""

    @property
    def id(self) -> str:
        """Identifier, the same for all copies of the project."""
        return self.document.id

    @property
    def d(self) -> int:
        """Dimension."""
        return self.fixed_grid.d

    @property
    def units(self) -> str:
        """World unit."""
        return self.fixed_grid.units

    @property
    def fixed_grid(self) -> Grid:
        """Frame of the fixed image."""
        return self.document.images["fixed"].grid

    @property
    def moving_grid(self) -> Grid:
        """Frame of the moving image."""
        return self.document.images["moving"].grid

    @cached_property
    def candidates(self) -> Floats:
        """World points of the fixed image that may be asked for."""
        return load(self.folder, self.document.candidates, "candidates")

    @cached_property
    def targets(self) -> Floats:
        """World points of the fixed image at which the transformation matters."""
        return load(self.folder, self.document.targets, "targets")

    @cached_property
    def fixed_foreground(self) -> Foreground | None:
        """Tissue or body in the fixed image; None where none was wanted, or an older warpgauge made the project."""
        return self._foreground("fixed")

    @cached_property
    def moving_foreground(self) -> Foreground | None:
        """Tissue or body in the moving image; None as for the fixed one."""
        return self._foreground("moving")

    def _foreground(self, side: Literal["fixed", "moving"]) -> Foreground | None:
        record = self.document.foregrounds.get(side)
        if record is None:
            return None
        found = load_foreground(self.folder, record)
        if found is not None:
            return found
        mask = self.image("fixed_mask" if side == "fixed" else "moving_mask") if record.source == "mask" else None
        return found_again(record, self.image(side), mask)

    def image(self, role: Literal["fixed", "moving", "fixed_mask", "moving_mask"]) -> Image:
        """Open an image; raises when it is missing or changed."""
        if role not in self.document.images:
            raise InvalidInputError(f"The project has no {role.replace('_', ' ')}.")
        return open_image(self.folder, self.document.images[role], role)

    def image_problems(self, *, thorough: bool = False) -> list[str]:
        """Return which images are missing or changed, one sentence each."""
        records = self.document.images.items()
        problems = (image_problem(self.folder, record, role, thorough=thorough) for role, record in records)
        return [problem for problem in problems if problem is not None]


# Creation of a project: it is built in a hidden folder, which is renamed in one step.

FOLDERS: tuple[str, ...] = ("transforms", "maps", "report")


def create_project(
    folder: Path,
    fixed: Place,
    moving: Place,
    masks: Mapping[str, Path],
    foreground: str,
    targets: Any,
    candidates: Any,
    spacing: Spacing | Mapping[str, Spacing],
    units: str | None,
    copy: bool,
    settings: Settings,
    progress: Progress | None,
    database: str | None,
    executor: Executor | None,
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
    mask = read_on_grid(masks["fixed"], images["fixed"].grid, "mask") if "fixed" in masks else None
    foregrounds = make_foregrounds(foreground, images)
    found = make_candidates(candidates, images["fixed"], mask, foregrounds.get("fixed"), progress, executor)
    aims = make_targets(targets, images["fixed"].grid, mask, found.points_world, foregrounds.get("fixed"))
    project_id, log = str(uuid.uuid4()), store_at(database)
    fresh = folder.parent / f".{folder.name}.{project_id[:8]}"
    try:
        fresh.mkdir(parents=True)
        for name in FOLDERS:
            (fresh / name).mkdir()
        records: dict[str, ImageRecord] = {}
        for role, image in images.items():
            path = copy_into(image, fresh) if copy else relative_path(image.path, folder)
            # A mask is told nothing: only its samples count, and it lies on its image's grid.
            records[role] = record_of(image, path, copy, told.get(role), None if role.endswith("_mask") else units)
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
            log.address,
        )
        log.create(fresh, project_id)
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
