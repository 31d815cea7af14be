"""``warpgauge info``: the kind of a file or project, its frame, and what was assumed to read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import ImagePath, trust_option
from warpgauge.cli.new import foreground_facts, region_facts
from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.errors import AmbiguousFileError, FileFormatError, FileTooLargeError, InvalidInputError
from warpgauge.io.stores import Place, RemotePath

if TYPE_CHECKING:
    from warpgauge.core import Posterior
    from warpgauge.project.events import Align

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
    if not settings.audit and not any(drawn.sealed or drawn.design == "uniform" for drawn in state.audits):
        return "none"
    sealed = any(state.is_sealed(query.number) for query in state.queries if query.audit)
    opened = ", opened" if state.unsealed else ""
    return f"{100 * settings.audit:.0f} % of the questions{', sealed' if sealed else opened}"


def _project(path: Path) -> dict[str, Any]:
    from warpgauge.project import Project
    from warpgauge.session import Session
    from warpgauge.session.seals import sealed_answers

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
            **region_facts(opened),
            "alignment": _alignment(opened.state.alignment),
            "audit": _audit(opened),
            "sealed answers": sealed_answers(opened.state),
            "annotated locations": progress.annotations,
            "queries": progress.queries,
            "placed": progress.placed,
            "skipped": progress.skipped,
            "raters": opened.state.who_answered(),
            "blind": session.blindness.described(opened.state),
            "transforms": opened.transform_names(),
            "references": opened.reference_names(),
            "mean sd over the targets": progress.mean_sd,
            "largest sd over the targets": progress.max_sd,
            "calibration factor": posterior.scale,
            "weights": progress.weights,
            "model": opened.settings.model,
            **_own_share(posterior),
            "events": opened.state.generation,
        }


def _own_share(posterior: Posterior) -> dict[str, Any]:
    """Return how much regions move on their own, as learned until now, where there are some."""
    kernel = posterior.prior.kernel
    return {} if kernel.regions is None else {"share of each region's own": kernel.own_share}


def _alignment(record: Align | None) -> str:
    return "none" if record is None else f"{record.status} by {record.rater}: {record.method}"


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
    if _is_transform(path):  # recognised: why it cannot be read helps more than a list of what it is not
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
