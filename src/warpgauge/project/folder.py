"""What a project holds beside its log: images with their frames, candidates, targets and foregrounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Literal

from warpgauge.candidates import Foreground, LabelRegions
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.images import Image
from warpgauge.project.document import Document
from warpgauge.project.foregrounds import found_again, load_foreground, missing_area
from warpgauge.project.images import image_problem, missing_image, open_image
from warpgauge.project.points import load


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
        """Tissue or body in the fixed image; None where it was switched off, or in projects of early versions."""
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

    @cached_property
    def given_regions(self) -> LabelRegions | None:
        """Parts of the fixed image that may move on their own, by label image; None where there are none."""
        if "regions" not in self.document.images:
            return None
        return LabelRegions.of(self.image("regions").read(), self.fixed_grid, "The label image of the regions")

    @cached_property
    def masked_missing(self) -> Foreground | None:
        """What has no match in the moving image, by its mask; None where the project has none."""
        if "missing" not in self.document.images:
            return None
        return missing_area(self.image("missing").read(), self.fixed_grid)

    def image(self, role: str) -> Image:
        """Open an image; raises when it is missing or changed."""
        if role not in self.document.images:
            raise InvalidInputError(f"The project has no {role.replace('_', ' ')}.")
        return open_image(self.folder, self.document.images[role], role)

    def image_problems(self, *, thorough: bool = False) -> list[str]:
        """Return which images are missing or changed, one sentence each."""
        records = self.document.images.items()
        problems = (image_problem(self.folder, record, role, thorough=thorough) for role, record in records)
        return [problem for problem in problems if problem is not None]

    def missing_images(self) -> list[str]:
        """Return which images are not where they should be, one sentence each; no image is opened."""
        problems = (missing_image(self.folder, record, role) for role, record in self.document.images.items())
        return [problem for problem in problems if problem is not None]
