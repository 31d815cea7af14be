"""What the commands that work on a project share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.errors import InvalidInputError
from warpgauge.io.transforms import Transform, detect_format, read_transform
from warpgauge.project import Project

project_argument = click.argument("project", type=click.Path(exists=True, file_okay=False, path_type=Path))
rater_option = click.option(
    "--rater",
    default="organiser",
    show_default=True,
    envvar="WARPGAUGE_RATER",
    help="Who acts; WARPGAUGE_RATER sets it.",
)


def companions(file: Path) -> list[Path]:
    """Files that a transform file draws in from elsewhere: the initial transforms of elastix."""
    from warpgauge.io.transforms.elastix import initial_files

    return initial_files(file) if file.is_file() and detect_format(file) == "elastix" else []


def read_added(project: Project, name: str) -> Transform:
    """Read a transform that was added to a project, as it was told then."""
    record = project.state.transforms.get(name)
    if record is None or not record.files:
        known = ", ".join(added_names(project)) or "none"
        raise InvalidInputError(f"The project has no transform {name!r}; it has {known}.")
    options = dict(record.options)
    sources = [project.folder / file for file in record.files[: options.pop("sources", len(record.files))]]
    return read_transform(
        sources[0] if len(sources) == 1 else sources,
        reference=project.fixed_grid,
        moving=project.moving_grid,
        **options,
    )


def added_names(project: Project) -> list[str]:
    """Names of the transforms in force, in the order in which they were added."""
    return [name for name, record in project.state.transforms.items() if record.files]


def chosen_transforms(project: Project, names: tuple[str, ...]) -> dict[str, Any]:
    """Give the transforms named, or all of the project; a name that is no transform of it may be a file."""
    chosen: dict[str, Any] = {}
    for name in names or added_names(project):
        if name not in project.state.transforms and Path(name).exists():
            chosen[Path(name).stem] = read_transform(
                Path(name), reference=project.fixed_grid, moving=project.moving_grid
            )
        elif name == "identity":
            chosen[name] = read_transform(lambda points: points, d=project.d)
        else:
            chosen[name] = read_added(project, name)
    if not chosen:
        raise InvalidInputError(
            "The project has no transform yet; add one with warpgauge add-transform, or name a file or 'identity'."
        )
    return chosen
