"""A project as a whole: ``new``, ``align``, ``info``, ``verify``, ``copy``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.options import (
    EXISTING,
    FILE,
    FOLDER,
    NEW,
    json_option,
    project_argument,
    rater_option,
    set_option,
    settings_from,
    trust_option,
)
from warpgauge.cli.output import next_steps, note, print_facts, print_json, progress, quoted
from warpgauge.display import counted, text_table
from warpgauge.errors import (
    AmbiguousFileError,
    FileFormatError,
    FileTooLargeError,
    InvalidInputError,
    MissingExtraError,
)

if TYPE_CHECKING:
    from warpgauge.io.landmarks import Landmarks
    from warpgauge.project import Project


@click.command(
    epilog="""\b
Examples:
  warpgauge new lesion --fixed he.png --moving ki67.png
  warpgauge new lung --fixed in.nii --moving ex.nii --fixed-mask m.nii --copy
  warpgauge new chest --fixed in.nii --moving ex.nii --regions lungs.nii
  warpgauge new brain --fixed a.nii --moving b.nii --targets labels:c.nii:17
  warpgauge new brain --fixed t1.nii.gz --moving t2.nii.gz --named afids.fcsv
  warpgauge new trial --fixed a.nii.gz --moving b.nii.gz --audit 0.25
  warpgauge new pair --fixed a.png --moving b.png --spacing 3.48 --units um"""
)
@click.argument("project", type=NEW)
@click.option("--fixed", type=EXISTING, required=True, help="Fixed image.")
@click.option("--moving", type=EXISTING, required=True, help="Moving image.")
@click.option("--fixed-mask", type=EXISTING, help="Mask: candidates and targets lie where it is not zero.")
@click.option("--moving-mask", type=EXISTING, help="Mask: matches can be marked where it is not zero.")
@click.option("--regions", type=EXISTING, help="Label image: parts that may slide against each other, or are torn.")
@click.option("--missing", type=EXISTING, help="Mask: what has no match in the moving image, such as a tear.")
@click.option(
    "--foreground",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="Without a mask: detect the tissue or body and ask only there, or use the whole image.",
)
@click.option("--targets", help="Where the error counts: a number, a file, domain:N, mask:FILE or labels:FILE:17,53.")
@click.option("--candidates", help="What to ask about: a number of corners to find, a file of points, or mask:FILE.")
@click.option("--named", type=FILE, help="Named points of the fixed image to ask for first, such as a Slicer file.")
@click.option("--spacing", help="Pixel size, if the images do not store it: one number, or one per axis (x,y[,z]).")
@click.option("--units", type=click.Choice(["px", "um", "mm"]), help="Unit of the spacing.")
@click.option("--copy", is_flag=True, help="Copy the images into the project; DICOM without personal data.")
@click.option("--audit", type=float, help="Share of the questions drawn at random to test for leaks, such as 0.25.")
@click.option("--database", metavar="ADDRESS", help="Keep the log in PostgreSQL: postgresql://user@host/name.")
@set_option
@json_option
def new(
    project: Path,
    fixed: Path,
    moving: Path,
    fixed_mask: Path | None,
    moving_mask: Path | None,
    regions: Path | None,
    missing: Path | None,
    foreground: str,
    targets: str | None,
    candidates: str | None,
    named: Path | None,
    spacing: str | None,
    units: str | None,
    copy: bool,
    audit: float | None,
    database: str | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a PROJECT folder from two images.

    It holds the frames of the images, candidates (points to ask about), targets (points where the error is measured)
    and an empty log of annotations.
    """
    from warpgauge.project import ORGANISER, Project
    from warpgauge.session.questions import asked_by_organiser

    wanted = settings_from(pairs)
    if audit is not None:
        wanted["audit"] = audit
    sizes = _spacing(spacing)
    places = None if named is None else _named_places(named, fixed, sizes, units)
    if places is not None:
        wanted.setdefault("budget", len(places))
    with progress("looking for candidates") as show:
        made = Project.create(
            project,
            fixed=fixed,
            moving=moving,
            fixed_mask=fixed_mask,
            moving_mask=moving_mask,
            regions=regions,
            missing=missing,
            foreground="none" if foreground == "none" else "auto",
            targets=_points(targets),
            candidates=_points(candidates),
            spacing=sizes,
            units=units,
            copy=copy,
            database=database,
            settings=wanted,
            progress=show,
        )
    with made:
        if places is not None:
            made.append(*asked_by_organiser(made, ORGANISER, places.fixed_points, places.names, origin="given"))
        facts: dict[str, Any] = {
            "project": str(project),
            "dimension": made.d,
            "units": made.units,
            "candidates": len(made.candidates),
            "targets": len(made.targets),
            "candidates are": made.document.candidates.method,
            "targets are": made.document.targets.method,
            **_channels(made),
            **_foregrounds(made),
            **_regions(made),
        }
        if places is not None:
            facts["named landmarks"] = len(places)
        if any(record.copied and record.format == "DICOM" for record in made.document.images.values()):
            facts["DICOM copies"] = (
                "without the personal data in their headers; text or faces in the samples themselves are not removed"
            )
        where = made.document.targets.method
        doubts = _doubts_of_images(made)
    facts["doubts"] = doubts or "none"
    if as_json:
        print_json(facts)
        return
    for sentence in doubts:
        note(sentence)
    size = f"{facts['candidates']} candidates and {facts['targets']} targets"
    click.echo(f"{project}: {made.d}D, in {made.units}; {size}: {where}")
    unusual = ("fixed channels", "moving channels", "regions", "named landmarks", "DICOM copies")
    print_facts({name: facts[name] for name in unusual if name in facts})
    if not wanted.get("audit"):
        note(
            "nothing in this project can show whether a registration has seen the landmarks; new --audit 0.25 keeps "
            "random answers sealed for that."
        )
    next_steps(
        f"warpgauge import {quoted(project)} FIXED.csv MOVING.csv   (landmarks that you have)",
        f"warpgauge annotate {quoted(project)}   (mark them in the browser)",
    )


def _doubts_of_images(project: Project) -> list[str]:
    """Return what the image files alone make doubtful: one image twice, a print resolution that ITK takes for mm."""
    images = project.document.images
    doubts = [text for text in (project.image("fixed").print_note,) if text]
    if images["fixed"].content_hash == images["moving"].content_hash:
        doubts.append(
            "the fixed and the moving image are one and the same file, so that there is nothing to register; make the "
            "project again with the image that was meant."
        )
    return doubts


def _points(text: str | None) -> Any:
    """Turn what a user wrote for candidates or targets into what a project takes."""
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    kind, _, rest = text.partition(":")
    if kind == "domain" and rest.isdigit():
        return {"kind": "domain", "count": int(rest)}
    if kind == "mask" and rest:
        return {"kind": "mask", "path": rest}
    if kind == "labels" and rest:
        path, _, labels = rest.rpartition(":")
        if path and all(label.strip().lstrip("-").isdigit() for label in labels.split(",")):
            return {"kind": "labels", "path": path, "labels": [int(label) for label in labels.split(",")]}
        raise InvalidInputError(f"{text!r} must read labels:FILE:17,53 with the numbers of the labels.")
    if Path(text).exists():
        return text
    raise InvalidInputError(
        f"{text!r} is neither a number, nor a file, nor domain:N, mask:FILE or labels:FILE:17,53; see --help."
    )


def _spacing(text: str | None) -> float | list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(f"--spacing {text!r} must be numbers such as 0.5 or 0.6,0.6,2.5.") from None
    return numbers[0] if len(numbers) == 1 else numbers


def _named_places(file: Path, fixed: Path, spacing: float | list[float] | None, units: str | None) -> Landmarks:
    """Read named points of the fixed image, before anything is made."""
    from warpgauge.io.images import read_image
    from warpgauge.io.landmarks import read_landmarks
    from warpgauge.session.questions import check_named

    grid = read_image(fixed, spacing=spacing, units=units).grid
    places = read_landmarks(file, fixed_grid=grid)
    check_named(places, grid, file.name)
    return places


def _channels(project: Project) -> dict[str, str]:
    """Return what becomes of channels that are not grey or colours."""
    facts = {}
    for side in ("fixed", "moving"):
        found = project.image(side).apart
        if found is not None:
            names = ", ".join(found.channel_names)
            facts[f"{side} channels"] = f"{len(found.channel_names)} ({names}); grey is their mean"
    return facts


def _foregrounds(project: Project) -> dict[str, str]:
    """Return a description of the foreground found in each image."""
    records = project.document.foregrounds
    return {
        f"{side} foreground": records[side].method if side in records else "not looked for: the whole image"
        for side in ("fixed", "moving")
    }


def _regions(project: Project) -> dict[str, str]:
    """Return which regions the fixed image has, where there are some."""
    if project.regions is None:
        return {}
    names = [str(label) for label in project.regions.values]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return {"regions": f"{counted(len(names), 'label')}: {', '.join(names[:8])}{more}"}


@click.command(
    epilog="""\b
Examples:
  warpgauge align lesion
  warpgauge align lesion --yes --rater ann
  warpgauge align lesion --no"""
)
@project_argument
@click.option("--yes/--no", "accepted", default=None, help="Accept or refuse what was proposed.")
@rater_option
@json_option
def align(project: Path, accepted: bool | None, rater: str, as_json: bool) -> None:
    """Propose a rough alignment of the two images.

    Tries rotations and mirror images, and refines the best by a similarity transform. Look at the picture: it shows the
    fixed image, the aligned moving image, and a checkerboard of both. Then accept (--yes) or refuse (--no) the
    proposal. Once accepted, questions and predictions in PROJECT start from it, with a wide uncertainty. The log
    records who accepted it.
    """
    from warpgauge.project import Project
    from warpgauge.project.alignments import write_picture

    with Project.open(project) as opened:
        if accepted is None:
            found = opened.propose_alignment()
            picture = opened.folder / "alignment.png"
            facts: dict[str, Any] = {"alignment": f"proposed: {found.method}", "picture": str(picture)}
            try:
                write_picture(opened, found, picture)
            except MissingExtraError:
                facts["picture"] = None
        else:
            opened.answer_alignment(accepted, rater)
            record = opened.state.alignment
            assert record is not None
            facts = {"alignment": f"{record.status} by {rater}: {record.method}"}
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    if accepted is None:
        click.echo(f"\nIs it right? warpgauge align {quoted(project)} --yes   (or --no)")


@click.command(
    epilog="""\b
Examples:
  warpgauge info lesion
  warpgauge info fixed.nii.gz
  warpgauge info TransformParameters.0.txt --json
  warpgauge info points.txt --as landmarks
  warpgauge info --formats"""
)
@trust_option
@click.argument("path", type=EXISTING, required=False)
@click.option("--as", "kind", type=click.Choice(["image", "landmarks", "project", "transform"]), help="Its kind.")
@click.option("--formats", is_flag=True, help="List the files that are read instead.")
@json_option
def info(path: Path | None, kind: str | None, formats: bool, as_json: bool) -> None:
    """Describe a project, image, transform or landmark file.

    Prints the frame of PATH, and which assumptions were made to read it.
    """
    if formats:
        _print_formats(as_json)
        return
    if path is None:
        raise click.UsageError("Name a PATH, or --formats.")
    found = _described(path, kind)
    if as_json:
        print_json(found)
        return
    shown = {name: value for name, value in found.items() if name not in ("file", "name", "source")}
    if found["file"] == "image":
        shown["direction"] = [str(row) for row in found["direction"]]
        shown["levels"] = len(found["levels"])
        shown["percentiles"] = ", ".join(f"{q} %: {value:g}" for q, value in found["percentiles"].items())
    print_facts(shown, f"{path.name}: {found['file']}")


def _described(path: Path, kind: str | None) -> dict[str, Any]:
    """Describe a file as the first kind that can read it: a csv file usually holds points, other text a transform."""
    from warpgauge.io.transforms import detect_format

    if kind is not None:
        return {"file": kind, **_KINDS[kind](path)}
    if (path / "project.json").is_file():
        return {"file": "project", **_project_facts(path)}
    points = path.name.lower().endswith((".csv", ".json", ".fcsv"))
    for name in ("landmarks", "transform", "image") if points else ("image", "transform", "landmarks"):
        try:
            return {"file": name, **_KINDS[name](path)}
        except (AmbiguousFileError, FileTooLargeError):  # recognised: only the caller's word is missing
            raise
        except (FileFormatError, InvalidInputError):
            continue
    try:
        recognised = detect_format(path) in ("elastix", "itk", "ants")
    except (FileFormatError, InvalidInputError):
        recognised = False
    if recognised:  # why it cannot be read helps more than a list of what it is not
        _transform_facts(path)
    raise FileFormatError(
        f"{path.name!r} is not a file that warpgauge reads (image, transform or landmarks); use --as image, "
        "--as transform or --as landmarks to see why."
    )


def _image_facts(path: Path) -> dict[str, Any]:
    from warpgauge.io.images import read_image

    return read_image(path).summary()


def _transform_facts(path: Path) -> dict[str, Any]:
    from warpgauge.io.transforms import read_transform

    transform = read_transform(path)
    return {"dimension": transform.d, **transform.description.to_dict()}


def _landmark_facts(path: Path) -> dict[str, Any]:
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
        "skipped": len(found.skips),
        "frame": found.frame,
        "units": found.units,
        "low corner": found.fixed_points.min(axis=0).tolist() if len(found) else [],
        "high corner": found.fixed_points.max(axis=0).tolist() if len(found) else [],
        "assumptions": list(found.assumptions),
    }


def _project_facts(path: Path) -> dict[str, Any]:
    from warpgauge.project import Project
    from warpgauge.session import Session
    from warpgauge.session.seals import sealed_answers

    with Project.open(path) as opened:
        session = Session(opened)
        progress = session.progress()
        posterior = session.posterior()
        record = opened.state.alignment
        facts = {
            "name": path.resolve().name,
            "dimension": opened.d,
            "units": opened.units,
            "fixed image": opened.document.images["fixed"].path,
            "moving image": opened.document.images["moving"].path,
            "candidates": len(opened.candidates),
            "targets": len(opened.targets),
            "targets are": opened.document.targets.method,
            **_foregrounds(opened),
            **_regions(opened),
            "alignment": "none" if record is None else f"{record.status} by {record.rater}: {record.method}",
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
            "events": opened.state.generation,
        }
        kernel = posterior.prior.kernel
        if kernel.regions is not None:
            facts["share of each region's own"] = kernel.own_share
    return facts


def _audit(project: Project) -> str:
    """Return the state of the audit in a few words, without revealing which questions belong to it."""
    settings = project.settings
    state = project.state
    if not settings.audit and not any(drawn.sealed or drawn.design == "uniform" for drawn in state.audits):
        return "none"
    sealed = any(state.is_sealed(query.number) for query in state.queries if query.audit)
    opened = ", opened" if state.unsealed else ""
    return f"{100 * settings.audit:.0f} % of the questions{', sealed' if sealed else opened}"


_KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "image": _image_facts,
    "landmarks": _landmark_facts,
    "project": _project_facts,
    "transform": _transform_facts,
}


def _print_formats(as_json: bool) -> None:
    from warpgauge.io.formats import rows
    from warpgauge.io.images.reader import FORMATS as IMAGES
    from warpgauge.io.landmarks.registry import FORMATS
    from warpgauge.io.transforms import NOT_READ, TABLE

    tables = {"transforms": rows(TABLE), "landmarks": rows(FORMATS.values()), "images": rows(IMAGES)}
    if as_json:
        print_json({**tables, "not read": NOT_READ})
        return
    for name, table in tables.items():
        shown = [list(row.values())[:-2] for row in table]
        click.echo(text_table(list(table[0])[:-2], shown, name) + "\n")
    click.echo("How each was verified, and what has to be given: docs/formats.md, or --json.")


@click.command(
    epilog="""\b
Examples:
  warpgauge verify lesion
  warpgauge verify lesion --mend --mirror /backup/warpgauge
  warpgauge verify lesion --moving /new/place/ki67.png
  warpgauge verify lesion --fixed he.tif --moving ki67.tif --accept-changed"""
)
@project_argument
@click.option("--mend", is_flag=True, help="Rebuild a damaged log; stop the server first. The old one is kept.")
@click.option("--mirror", type=FOLDER, help="With --mend: folder of the mirror (see annotate --mirror).")
@click.option("--accept-loss", is_flag=True, help="With --mend: continue although saved events are lost.")
@click.option("--fixed", type=EXISTING, help="Where the fixed image is now.")
@click.option("--moving", type=EXISTING, help="Where the moving image is now.")
@click.option("--fixed-mask", type=EXISTING, help="Where the fixed image's mask is now.")
@click.option("--moving-mask", type=EXISTING, help="Where the moving image's mask is now.")
@click.option("--accept-changed", is_flag=True, help="Accept an image with different content but the same frame.")
@json_option
def verify(
    project: Path,
    mend: bool,
    mirror: Path | None,
    accept_loss: bool,
    fixed: Path | None,
    moving: Path | None,
    fixed_mask: Path | None,
    moving_mask: Path | None,
    accept_changed: bool,
    as_json: bool,
) -> None:
    """Check that a PROJECT is intact.

    Checks the hashes of images and transforms, the log's file and its chain of digests, that the log can be replayed,
    and that it ends where your state folder says (XDG_STATE_HOME). Lines "not checked" name what could not be checked
    here. The exit code is 1 if there is a problem.

    Nothing is repaired unless you ask for it: --mend rebuilds the log from what can be read of it and from a mirror,
    and changes nothing if saved events are in neither. --fixed, --moving and their masks tell where images have moved.
    """
    from warpgauge.project import Project
    from warpgauge.project.integrity import verify_project

    if (mirror is not None or accept_loss) and not mend:
        raise click.UsageError("--mirror and --accept-loss belong to --mend.")
    if mend:
        _mend(project, mirror, accept_loss, as_json)
        return
    if fixed or moving or fixed_mask or moving_mask:
        with Project.open(project, check_images=False) as opened:
            opened.relink(
                fixed=fixed,
                moving=moving,
                fixed_mask=fixed_mask,
                moving_mask=moving_mask,
                accept_changed=accept_changed,
            )
    report = verify_project(project)
    if as_json:
        print_json({"ok": report.ok, **{name: list(lines) for name, lines in vars(report).items()}})
    else:
        for prefix, lines in (
            ("ok       ", report.checked),
            ("not checked  ", report.unchecked),
            ("PROBLEM  ", report.problems),
        ):
            for line in lines:
                click.echo(f"{prefix}{line}")
        click.echo("The project is intact." if report.ok else f"Found {counted(len(report.problems), 'problem')}.")
    if not report.ok:
        raise click.exceptions.Exit(1)


def _mend(project: Path, mirror: Path | None, accept_loss: bool, as_json: bool) -> None:
    """Rebuild a log and say what came of it."""
    from warpgauge.project.recovery import recover_project

    done = recover_project(project, mirror, accept_loss=accept_loss)
    events = counted(done.events, "event")
    if as_json:
        print_json(vars(done))
    elif not done.kept and not done.from_mirror:
        click.echo(f"The log is intact: {events}; nothing was changed.")
    elif done.database:
        click.echo(
            f"{done.database} now holds {events}: {done.from_log} were there, {done.from_mirror} came from the mirror."
        )
    else:
        lost = f"; lost: {counted(done.lost, 'acknowledged event')}" if done.lost else "; no acknowledged event is lost"
        click.echo(
            f"The log was rebuilt with {events} ({done.from_log} from the log, {done.from_mirror} from the mirror)"
            f"{lost}. The old log is kept as {done.kept}."
        )


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
    from warpgauge.project.stores import copy_log

    done = copy_log(project, target)
    if as_json:
        print_json(vars(done))
        return
    copied = f"{counted(done.events, 'event')} {'was' if done.events == 1 else 'were'} copied"
    click.echo(f"{copied} from {done.source} to {done.target}, which is used from now on.")
    note(f"The old log is kept as {done.kept}.")
