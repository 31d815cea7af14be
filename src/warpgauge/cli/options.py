"""Arguments and options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks import FORMAT_NAMES
from warpgauge.io.transforms import FORMATS, AffineTransform, read_transform
from warpgauge.io.transforms.arrays import CONVENTIONS
from warpgauge.project import Project
from warpgauge.project.permission import VARIABLE

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Paths that have to exist, and those that are written.
EXISTING = click.Path(exists=True, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
NEW = click.Path(path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
NEW_FOLDER = click.Path(file_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def _trust(context: click.Context, option: click.Parameter, value: bool) -> None:
    """Trust every project of this call, and only for this call."""
    if not value:
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"

    def restore() -> None:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before

    context.call_on_close(restore)


trust_option = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Allow a project made elsewhere to read files outside its folder; the permission is recorded.",
)


def project_argument(command: _Command) -> _Command:
    """Add the argument PROJECT and the option --trust to a command."""
    return click.argument("project", type=FOLDER)(trust_option(command))


rater_option = click.option(
    "--rater",
    default="organiser",
    show_default=True,
    envvar="WARPGAUGE_RATER",
    help="Name of the rater; the variable WARPGAUGE_RATER changes the default.",
)
landmark_format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMAT_NAMES),
    metavar="NAME",
    help="Format of the landmarks; by the file if not given. warpgauge info --formats lists them.",
)
transform_format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(sorted(FORMATS)),
    metavar="NAME",
    help="Format of the transforms; by the file if not given. warpgauge info --formats lists them.",
)
direction_option = click.option(
    "--direction", type=click.Choice(["fixed_to_moving", "moving_to_fixed"]), help="What the transforms map."
)
convention_option = click.option(
    "--convention",
    type=click.Choice(CONVENTIONS),
    metavar="NAME",
    help=f"Of fields, what vectors are, if no file says it: {', '.join(CONVENTIONS)}.",
)
set_option = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting; docs/project.md lists them."
)


def settings_from(pairs: Sequence[str]) -> dict[str, Any]:
    """Turn ``name=value`` into settings; a value is a number, true, false, none or a word."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInputError(f"--set {pair!r} must read name=value.")
        settings[name.strip().replace("-", "_")] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def chosen_transforms(project: Project, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the transforms named, or all of the project; other names may be files."""
    wanted = list(names) or project.transform_names()
    files = [name for name in wanted if name not in project.state.transforms and Path(name).exists()]
    seen: dict[str, str] = {}
    for name in wanted:
        key = str(Path(name).resolve()) if name in files else name
        if key in seen:
            raise InvalidInputError(
                f"The transform {name!r} is named twice (before as {seen[key]!r}); name each transform once."
            )
        seen[key] = name
    chosen: dict[str, Any] = {}
    # No file takes the name of a transform of the project, which sealed answers may have tested.
    taken = {*project.state.transforms, *(name for name in wanted if name not in files)}
    for name in wanted:
        if name in files:
            title = _title(name, files, taken)
            chosen[title] = read_transform(Path(name), reference=project.fixed_grid, moving=project.moving_grid)
        elif name == "identity":
            chosen[name] = AffineTransform(np.eye(project.d), np.zeros(project.d), name)
        else:
            chosen[name] = project.transform(name)
    if not chosen:
        raise InvalidInputError(
            "The project has no transform yet; add one with warpgauge add-transform, or name a file or 'identity'."
        )
    return chosen


def _title(file: str, files: Sequence[str], taken: set[str]) -> str:
    """Return the name of a file without its suffix, preceded by as many folders as tell it from the others."""
    others = [Path(other).resolve().with_suffix("").parts for other in files if other != file]
    parts = Path(file).resolve().with_suffix("").parts
    for depth in range(1, len(parts)):
        title = "/".join(parts[-depth:])
        if title not in taken and all(other[-depth:] != parts[-depth:] for other in others):
            return title
    return file  # it differs from another in its suffix alone
