"""``info``, and the commands that keep projects in order: verify, recover, relink, copy, prepare."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import ImagePath, project_argument, trust_option
from warpgauge.cli.new import foreground_facts
from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.display import counted
from warpgauge.errors import AmbiguousFileError, FileFormatError, FileTooLargeError, InvalidInputError
from warpgauge.io.stores import Place, RemotePath

if TYPE_CHECKING:
    from warpgauge.project import Event
    from warpgauge.session import Session


# ``warpgauge info FILE``: its kind, its frame, and what was assumed to read it.

_LANDMARK_SUFFIXES = (".csv", ".json", ".fcsv")


def _image(path: Place) -> dict[str, Any]:
    from warpgauge.io.images import read_image

    return read_image(path).summary()


def _transform(path: Path) -> dict[str, Any]:
    from warpgauge.io.transforms import read_transform

    transform = read_transform(path)
    return {"dimension": transform.d, **transform.description.to_dict()}


def _landmarks(path: Path) -> dict[str, Any]:
    from warpgauge.io.landmarks import read_landmarks

    try:
        found = read_landmarks(path)
    except (FileFormatError, InvalidInputError):
        # Voxel indices need a grid to become world points; to tell what the file holds they may stay what they are.
        found = read_landmarks(path, units="px")
    return {
        "name": path.name,
        "format": found.format,
        "dimension": found.d,
        "points": len(found),
        "pairs": found.moving_points is not None,
        "with uncertainty": int(found.has_covariance.sum()),
        "switched off": int((~found.active).sum()),
        "pending": len(found.pending),
        "skipped": len(found.skips),
        "frame": found.frame,
        "units": found.units,
        "low corner": found.fixed_points.min(axis=0).tolist() if len(found) else [],
        "high corner": found.fixed_points.max(axis=0).tolist() if len(found) else [],
        "assumptions": list(found.assumptions),
    }


def _audit(project: Any) -> str:
    """Return the state of the audit in a few words, without revealing which questions belong to it."""
    settings, state = project.settings, project.state
    if not settings.audit and not state.audits:
        return "none"
    sealed = any(state.is_sealed_round(drawn) for drawn in state.audits) or (settings.seal and not state.audits)
    opened = ", opened" if state.unsealed else ""
    return f"{100 * settings.audit:.0f} % of the questions{', sealed' if sealed else opened}"


def _project(path: Path) -> dict[str, Any]:
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(path) as opened:
        session = Session(opened)
        progress, posterior = session.progress(), session.posterior()
        return {
            "name": path.resolve().name,
            "dimension": opened.d,
            "units": opened.units,
            "fixed image": opened.document.images["fixed"].path,
            "moving image": opened.document.images["moving"].path,
            "candidates": len(opened.candidates),
            "targets": len(opened.targets),
            "targets are": opened.document.targets.method,
            **foreground_facts(opened.document),
            "alignment": _alignment(opened.state.alignment),
            "audit": _audit(opened),
            "annotated locations": progress.annotations,
            "queries": progress.queries,
            "placed": progress.placed,
            "skipped": progress.skipped,
            "raters": opened.state.who_answered(),
            **_snap(session),
            "transforms": opened.transform_names(),
            "mean sd over the targets": progress.mean_sd,
            "largest sd over the targets": progress.max_sd,
            "calibration factor": posterior.scale,
            "weights": progress.weights,
            "model": opened.settings.model,
            "events": opened.state.generation,
        }


def _snap(session: Session) -> dict[str, Any]:
    """Return how often proposals from the images were asked for, where they were."""
    raters = session.agreement().raters
    asked, shown, taken = (sum(getattr(one, f"snap_{what}") for one in raters) for what in ("asked", "shown", "taken"))
    return {"snap": f"asked {counted(asked, 'time')}, shown {shown}, taken {taken}"} if asked else {}


def _alignment(event: Event | None) -> str:
    if event is None:
        return "none"
    said = {None: "proposed", True: "accepted", False: "refused"}[event.payload["accepted"]]
    return f"{said} by {event.rater}: {event.payload['method']}"


KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "image": _image,
    "transform": _transform,
    "landmarks": _landmarks,
    "project": _project,
}


def _order(path: Path) -> list[str]:
    """Readers to try, most likely first: a csv file usually holds points, other text files a transform."""
    if (path / "project.json").is_file():
        return ["project"]
    if path.name.lower().endswith(_LANDMARK_SUFFIXES):
        return ["landmarks", "transform", "image"]
    return ["image", "transform", "landmarks"]


def _is_transform(path: Path) -> bool:
    """Return whether the content of a file is that of a transform, readable or not."""
    from warpgauge.io.transforms import detect_format

    try:
        return detect_format(path) in ("elastix", "itk", "ants")
    except (FileFormatError, InvalidInputError):
        return False


def describe(path: Path, kind: str | None = None) -> dict[str, Any]:
    """Describe a file as the first kind that can read it."""
    if kind is not None:
        return {"file": kind, **KINDS[kind](path)}
    for name in _order(path):
        try:
            return {"file": name, **KINDS[name](path)}
        except (AmbiguousFileError, FileTooLargeError):  # recognised: only the caller's word is missing
            raise
        except (FileFormatError, InvalidInputError):
            continue
    if _is_transform(path):  # recognised: what keeps it from being read is worth more than a list of what it is not
        _transform(path)
    raise FileFormatError(
        f"{path.name!r} is not a file that warpgauge reads (image, transform or landmarks); use --as image, "
        "--as transform or --as landmarks to see why."
    )


@click.command(
    epilog="""\b
Examples:
  warpgauge info lesion
  warpgauge info fixed.nii.gz
  warpgauge info TransformParameters.0.txt --json
  warpgauge info points.txt --as landmarks
  warpgauge info https://host/image.ome.zarr"""
)
@trust_option
@click.argument("path", type=ImagePath())
@click.option("--as", "kind", type=click.Choice(sorted(KINDS)), help="Read it as this, without guessing.")
@json_option
def info(path: Place, kind: str | None, as_json: bool) -> None:
    """Describe a project, image, transform or landmark file.

    Prints the frame of PATH, and which assumptions were made to read it.
    """
    found = {"file": "image", **_image(path)} if isinstance(path, RemotePath) else describe(path, kind)
    if as_json:
        print_json(found)
        return
    shown = {name: value for name, value in found.items() if name not in ("file", "name", "source")}
    if found["file"] == "image":
        shown["direction"] = [str(row) for row in found["direction"]]
        shown["levels"] = len(found["levels"])
        shown["percentiles"] = ", ".join(f"{q} %: {value:g}" for q, value in found["percentiles"].items())
    print_facts(shown, f"{path.name}: {found['file']}")


# The commands that keep an installation and projects in order: verify, recover, relink, copy, prepare.


@click.command(epilog="\b\nExample:\n  warpgauge verify lesion")
@project_argument
@json_option
def verify(project: Path, as_json: bool) -> None:
    """Check that a PROJECT is intact.

    Checks the hashes of images and transforms, the log's file and its chain of digests, and that the log can be
    replayed. Nothing is repaired. The exit code is 1 if there is a problem.
    """
    from warpgauge.project.integrity import verify_project

    report = verify_project(project)
    if as_json:
        print_json({"ok": report.ok, "problems": list(report.problems), "checked": list(report.checked)})
    else:
        for line in report.checked:
            click.echo(f"ok       {line}")
        for line in report.problems:
            click.echo(f"PROBLEM  {line}")
        click.echo("The project is intact." if report.ok else f"Found {counted(len(report.problems), 'problem')}.")
    if not report.ok:
        raise click.exceptions.Exit(1)


@click.command(
    epilog="""\b
Examples:
  warpgauge recover lesion --mirror /backup/warpgauge
  warpgauge recover lesion --accept-loss"""
)
@project_argument
@click.option("--mirror", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the mirror.")
@click.option("--accept-loss", is_flag=True, help="Continue although acknowledged events are lost.")
@json_option
def recover(project: Path, mirror: Path | None, accept_loss: bool, as_json: bool) -> None:
    """Rebuild a damaged annotation log of PROJECT.

    The new log is made from what can be read of the old one and from a mirror (see annotate --mirror). Stop the server
    first. The old log is kept beside the new one. If saved events are in neither, nothing is changed unless you accept
    the loss. A log in a database gets the events that it lacks; an empty database gets all of them. Repeat this with
    the mirror of every host.
    """
    from warpgauge.project.integrity import recover_project

    done = recover_project(project, mirror, accept_loss=accept_loss)
    if as_json:
        print_json(vars(done))
    elif not done.kept and not done.from_mirror:
        click.echo(f"The log is intact: {counted(done.events, 'event')}; nothing was changed.")
    elif done.database:
        click.echo(
            f"The database {done.database} now holds {counted(done.events, 'event')}: {done.from_log} were there, "
            f"{done.from_mirror} came from the mirror."
        )
    else:
        lost = f"; lost: {counted(done.lost, 'acknowledged event')}" if done.lost else "; no acknowledged event is lost"
        click.echo(
            f"The log was rebuilt with {counted(done.events, 'event')} ({done.from_log} from the log, "
            f"{done.from_mirror} from the mirror){lost}. The old log is kept as {done.kept}."
        )


_IMAGE = ImagePath()


@click.command(
    epilog="""\b
Examples:
  warpgauge relink lesion --moving /new/place/ki67.png
  warpgauge relink lesion --fixed he.tif --moving ki67.tif --accept-changed"""
)
@project_argument
@click.option("--fixed", type=_IMAGE, help="Where the fixed image is now.")
@click.option("--moving", type=_IMAGE, help="Where the moving image is now.")
@click.option("--fixed-mask", type=_IMAGE, help="Where the fixed image's mask is now.")
@click.option("--moving-mask", type=_IMAGE, help="Where the moving image's mask is now.")
@click.option(
    "--accept-changed", is_flag=True, help="Accept a file with different content; its frame must be the same."
)
@json_option
def relink(project: Path, accept_changed: bool, as_json: bool, **images: Place | None) -> None:
    """Update the paths of moved or renamed images.

    The log of PROJECT records the change.
    """
    from warpgauge.project import Project

    if not any(images.values()):
        raise InvalidInputError("relink needs at least one of --fixed, --moving, --fixed-mask and --moving-mask.")
    with Project.open(project, check_images=False) as opened:
        opened.relink(accept_changed=accept_changed, **images)  # type: ignore[arg-type]  # options of that name only
        facts = {role: record.path for role, record in opened.document.images.items()}
        problems = opened.image_problems()
    print_json({"images": facts, "problems": problems}) if as_json else print_facts(facts)
    for problem in problems:
        click.echo(f"note: {problem}", err=True)


@click.command(epilog="\b\nExample:\n  warpgauge prepare")
def prepare() -> None:
    """Compile the inner loops now (once per installation).

    Without this, the first command that needs a loop compiles it, which takes some seconds, and stores it on disk.
    """
    import numpy as np

    from warpgauge.core.annotations import Annotations
    from warpgauge.core.kernels import KernelBundle
    from warpgauge.core.process import TransformationPrior
    from warpgauge.core.suggestion import compile_loops
    from warpgauge.maps.exceedance import exceedance_probability

    start = time.perf_counter()
    compile_loops()
    point = np.zeros((1, 2))
    annotations = Annotations(point, point, np.diag([1.0, 2.0])[None])
    posterior = TransformationPrior(KernelBundle("wendland", [1.0], [1.0])).condition(annotations)
    exceedance_probability(posterior, point, point, 1.0)
    click.echo(f"The inner loops are compiled and on disk ({time.perf_counter() - start:.1f} s).")


@click.command(
    epilog="""\b
Examples:
  warpgauge copy lesion postgresql://warpgauge@db.example.org/studies
  warpgauge copy lesion sqlite"""
)
@project_argument
@click.argument("target")
@json_option
def copy(project: Path, target: str, as_json: bool) -> None:
    """Move the annotation log to PostgreSQL, or back.

    Copies the log of PROJECT to TARGET, which is used from then on. TARGET is the address of a PostgreSQL database, for
    servers on several hosts, or "sqlite" for a file in the project's folder. Every event is copied unchanged, and
    project.json then names the database. The old log is kept but accepts no more events. A password is never stored:
    set PGPASSWORD, use a passfile (~/.pgpass), or put the whole address into WARPGAUGE_DATABASE. Needs the extra
    "postgres".
    """
    from warpgauge.project.log_stores import copy_log

    done = copy_log(project, target)
    if as_json:
        print_json(vars(done))
        return
    copied = f"{counted(done.events, 'event')} {'was' if done.events == 1 else 'were'} copied"
    click.echo(f"{copied} from {done.source} to {done.target}, which is used from now on.")
    click.echo(f"The old log is kept as {done.kept}.")
