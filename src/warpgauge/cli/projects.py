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
    wanted = list(names) or added_names(project)
    files = [name for name in wanted if name not in project.state.transforms and Path(name).exists()]
    _check_once(wanted, files)
    titles = _file_titles(files, {name for name in wanted if name not in files})
    for name in wanted:
        if name in titles:
            chosen[titles[name]] = read_transform(Path(name), reference=project.fixed_grid, moving=project.moving_grid)
        elif name == "identity":
            chosen[name] = read_transform(lambda points: points, d=project.d)
        else:
            chosen[name] = read_added(project, name)
    if not chosen:
        raise InvalidInputError(
            "The project has no transform yet; add one with warpgauge add-transform, or name a file or 'identity'."
        )
    return chosen


def _check_once(wanted: list[str], files: list[str]) -> None:
    """Refuse what is named twice, whichever way a file's path was spelt."""
    seen: dict[str, str] = {}
    for name in wanted:
        key = str(Path(name).resolve()) if name in files else name
        if key in seen:
            raise InvalidInputError(
                f"The transform {name!r} is named twice (before as {seen[key]!r}); name each transform once."
            )
        seen[key] = name


def _file_titles(files: list[str], taken: set[str]) -> dict[str, str]:
    """Give each file its stem as name, or where stems collide as many folders before it as tell it from the others."""
    titles = _distinct({file: (*Path(file).resolve().parts[:-1], Path(file).stem) for file in files}, taken)
    if len(set(titles.values())) == len(files):
        return titles
    # Some differ in nothing but their suffix.
    return _distinct({file: Path(file).resolve().parts for file in files}, taken)


def _distinct(parts: dict[str, tuple[str, ...]], taken: set[str]) -> dict[str, str]:
    titles: dict[str, str] = {}
    for file, own in parts.items():
        others = [other for name, other in parts.items() if name != file]
        depth = 1
        while depth < len(own) and (
            "/".join(own[-depth:]) in taken or any(other[-depth:] == own[-depth:] for other in others)
        ):
            depth += 1
        titles[file] = "/".join(own[-depth:])
    return titles
