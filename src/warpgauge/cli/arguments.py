"""Arguments and options that commands share: a project, images, transforms, and where many jobs run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from warpgauge.compute import Executor, choose_executor
from warpgauge.errors import InvalidInputError
from warpgauge.io.stores import Place, RemotePath, is_url
from warpgauge.io.transforms import read_transform
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

seed_option = click.option("--seed", type=int, default=0, show_default=True)


def _trust(context: click.Context, option: click.Parameter, value: bool) -> None:
    """Trust every project of this call, and only for this call."""
    if value:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = "1"
        context.call_on_close(
            lambda: os.environ.pop(VARIABLE, None) if before is None else os.environ.update({VARIABLE: before})
        )


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


def array_options(command: _Command) -> _Command:
    """Add what an array of vectors may leave open: --layout, --components, --convention and --frame."""
    options = (
        click.option("--layout", help="Layout of an array or Learn2Reg file, if the file does not state it."),
        click.option("--components", help="Order of the vector components of an array, if the file does not state it."),
        click.option("--convention", type=click.Choice(["relative", "absolute"]), help="Displacements or positions."),
        click.option("--frame", help="Frame of the vectors, if the file does not state it."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def chosen_transforms(project: Project, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the transforms named, or all of the project; other names may be files."""
    chosen: dict[str, Any] = {}
    wanted = list(names) or project.transform_names()
    files = [name for name in wanted if name not in project.state.transforms and Path(name).exists()]
    _check_once(wanted, files)
    # No file takes the name of a transform of the project, which sealed answers may have tested.
    titles = _file_titles(files, {*project.state.transforms, *(name for name in wanted if name not in files)})
    for name in wanted:
        if name in titles:
            chosen[titles[name]] = read_transform(Path(name), reference=project.fixed_grid, moving=project.moving_grid)
        elif name == "identity":
            chosen[name] = read_transform(lambda points: points, d=project.d)
        else:
            chosen[name] = project.transform(name)
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
    """Return a title per file: its stem, preceded by as many folders as are needed to make it unique."""
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


class ImagePath(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """A path that exists, or an address (``s3://``, ``https://``) of an OME-Zarr image."""

    name = "path or address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """Return an existing path, or a remote one for an address; click refuses everything else."""
        if isinstance(value, RemotePath) or is_url(value):
            return value if isinstance(value, RemotePath) else RemotePath(value)
        found: Path = EXISTING.convert(value, param, ctx)
        return found


_SCHEDULER = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the workers of a Dask scheduler, as in tcp://host:8786 (docs/scaling.md).",
)
_CLUSTER = click.option("--cluster", metavar="local:N", help="Run on N Dask workers of this machine.")


def cluster_options(command: _Command) -> _Command:
    """Add ``--scheduler`` and ``--cluster``, beside the command's own ``--jobs``."""
    return _SCHEDULER(_CLUSTER(command))


def resume_option(fresh: str) -> Callable[[_Command], _Command]:
    """Return the pair ``--resume/--fresh``; ``fresh`` says what the latter does."""
    words = f"Continue where an earlier run ended (the default), or {fresh}."
    return click.option("--resume/--fresh", default=True, help=words)


def executor_for(options: Mapping[str, Any]) -> Executor:
    """Return the executor that the options of `cluster_options` and ``jobs`` name."""
    return choose_executor(options["jobs"], scheduler=options["scheduler"], cluster=options["cluster"])
