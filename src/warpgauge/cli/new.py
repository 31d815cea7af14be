"""``warpgauge new``: start a project from two images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import EXISTING, FILE, NEW, ImagePath
from warpgauge.cli.output import json_option, print_facts, print_json, progress, quoted
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.io.stores import Place
    from warpgauge.project import Project
    from warpgauge.project.document import Document
    from warpgauge.session.named_places import NamedPlaces


def points_spec(text: str | None) -> Any:
    """Turn what a user wrote for candidates or targets into what a project takes.

    A number, a landmark file, or ``kind:...``: ``mask:FILE``, ``labels:FILE:17,53`` (edge of these labels),
    ``domain:5000``.
    """
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


def settings_from(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Turn ``name=value`` into settings; a value is a number, true, false, none or a word."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInputError(f"--set {pair!r} must read name=value.")
        settings[name.strip().replace("-", "_")] = _value(value.strip())
    return settings


def _settings(pairs: tuple[str, ...], model: str | None, audit: float | None, seal: bool | None) -> dict[str, Any]:
    """Return the settings, the model and the audit among them."""
    settings = settings_from(pairs)
    settings |= audit_settings(audit, seal)
    if model is not None and settings.setdefault("model", model) != model:
        raise InvalidInputError(f"--model {model} and --set model={settings['model']} contradict each other; give one.")
    return settings


def audit_settings(audit: float | None, seal: bool | None) -> dict[str, Any]:
    """Return the settings that --audit and --seal stand for."""
    given = {"audit": audit, "seal": seal}
    return {name: value for name, value in given.items() if value is not None}


def seal_option(when: str = "") -> Callable[[Any], Any]:
    """Return the option by which answers are sealed or not."""
    return click.option(
        "--seal/--no-seal",
        default=None,
        help=f"{when}Keep a quarter of the answers, at most 15, and those to audit questions out of exports, maps and "
        f"verdicts until warpgauge unseal, so that they show which registrations have seen the others. The default.",
    )


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


@click.command(
    epilog="""\b
Examples:
  warpgauge new lesion --fixed he.png --moving ki67.png
  warpgauge new lung --fixed inhale.nii.gz --moving exhale.nii.gz --fixed-mask lungs.nii.gz --copy
  warpgauge new chest --fixed inhale.nii.gz --moving exhale.nii.gz --regions lungs.nii.gz
  warpgauge new brain --fixed t1.nii.gz --moving t2.nii.gz --targets labels:aseg.nii.gz:17,53
  warpgauge new brain --fixed t1.nii.gz --moving patient.nii.gz --named afids.fcsv
  warpgauge new trial --fixed a.nii.gz --moving b.nii.gz --audit 0.3
  warpgauge new pair --fixed a.png --moving b.png --spacing 3.48 --units um --set hide-prediction=true
  warpgauge new trial --fixed a.png --moving b.png --database postgresql://warpgauge@db.example.org/studies
  warpgauge new brain --fixed s3://bucket/fixed.ome.zarr --moving https://host/moving.ome.zarr"""
)
@click.argument("project", type=NEW)
@click.option("--fixed", type=ImagePath(), required=True, help="Fixed image; a file, or an address of an OME-Zarr.")
@click.option("--moving", type=ImagePath(), required=True, help="Moving image; a file, or an address of an OME-Zarr.")
@click.option("--fixed-mask", type=EXISTING, help="Mask: candidates and targets lie where it is not zero.")
@click.option("--moving-mask", type=EXISTING, help="Mask: matches can be marked where it is not zero.")
@click.option(
    "--regions",
    type=EXISTING,
    help="Label image of the fixed image's size: parts that may slide against each other or are torn apart, one whole "
    "number each. How much they move on their own is learned. The project keeps a copy.",
)
@click.option(
    "--missing",
    type=EXISTING,
    help="Mask of the fixed image's size: what has no match in the moving image, such as a tear. Nothing is asked or "
    "judged there. The project keeps a copy.",
)
@click.option(
    "--foreground",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="Without a mask: detect the tissue or body and ask only there, or use the whole image.",
)
@click.option(
    "--targets", help="Where to measure the error: a number, a file, domain:N, mask:FILE or labels:FILE:17,53."
)
@click.option("--candidates", help="What to ask about: a number of corners to find, a file of points, or mask:FILE.")
@click.option(
    "--named",
    type=FILE,
    help="Named points of the fixed image, such as a Slicer file of a protocol: ask for these by name, first. The "
    "budget is their number unless it is set.",
)
@click.option("--spacing", help="Pixel size, if the images do not store it: one number, or one per axis (x,y[,z]).")
@click.option("--units", type=click.Choice(["px", "um", "mm"]), help="Unit of the spacing.")
@click.option(
    "--copy",
    is_flag=True,
    help="Copy the images into the project instead of referring to them; DICOM without personal data.",
)
@click.option(
    "--model",
    type=click.Choice(["default", "paper"]),
    help="Model of the true transformation: the default (docs/model.md), or exactly the paper's.",
)
@click.option(
    "--audit", type=float, help="Share of the questions drawn at random for warpgauge certify, such as 0.3; 0 to 0.9."
)
@seal_option()
@click.option("--align", "align", is_flag=True, help="Propose a rough alignment, to accept with warpgauge align --yes.")
@click.option(
    "--database", metavar="ADDRESS", help="Keep the log in PostgreSQL: postgresql://user@host/name (extra postgres)."
)
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting; docs/project.md lists them.")
@json_option
def new(project: Path, fixed: Place, moving: Place, **options: Any) -> None:
    """Make a PROJECT folder from two images.

    It holds the frames of the images, candidates (points to ask about), targets (points where the error is measured)
    and an empty log of annotations.
    """
    from warpgauge.cli.align import propose
    from warpgauge.project import ORGANISER, Project
    from warpgauge.project.alignments import check_alignable
    from warpgauge.project.creation import settings_of

    wanted = _settings(*(options[name] for name in ("pairs", "model", "audit", "seal")))
    named = None if options["named"] is None else _named(options["named"], fixed, options["spacing"], options["units"])
    if named is not None:
        wanted.setdefault("budget", len(named.names))
    settings = settings_of(wanted)
    if options["align"]:
        check_alignable(settings)
    with progress("looking for candidates") as show:
        made = Project.create(
            project,
            fixed=fixed,
            moving=moving,
            fixed_mask=options["fixed_mask"],
            moving_mask=options["moving_mask"],
            regions=options["regions"],
            missing=options["missing"],
            foreground=options["foreground"],
            targets=points_spec(options["targets"]),
            candidates=points_spec(options["candidates"]),
            spacing=_spacing(options["spacing"]),
            units=options["units"],
            copy=options["copy"],
            database=options["database"],
            settings=settings,
            progress=show,
        )
    with made:
        if named is not None:
            named.ask(made, ORGANISER)
        facts = {
            "project": str(project),
            "dimension": made.d,
            "units": made.units,
            "candidates": len(made.candidates),
            "targets": len(made.targets),
            **({} if named is None else {"named landmarks": len(named.names)}),
            "candidates are": made.document.candidates.method,
            "targets are": made.document.targets.method,
            **channel_facts(made),
            **foreground_facts(made.document),
            **region_facts(made),
            **_copied_facts(made.document),
            **(propose(made) if options["align"] else {}),
        }
    if options["as_json"]:
        print_json(facts)
        return
    print_facts(facts)
    if options["align"]:
        click.echo(f"\nIs the alignment right? warpgauge align {quoted(project)} --yes   (or --no)")
    click.echo(f"\nNext: warpgauge annotate {quoted(project)}   (or: warpgauge suggest {quoted(project)})")


def _named(file: Path, fixed: Place, spacing: str | None, units: str | None) -> NamedPlaces:
    """Read named points of the fixed image, before anything is made."""
    from warpgauge.io.images import read_image
    from warpgauge.io.landmarks import read_landmarks
    from warpgauge.session.named_places import NamedPlaces

    grid = read_image(fixed, spacing=_spacing(spacing), units=units).grid
    return NamedPlaces.of(read_landmarks(file, fixed_grid=grid), grid, file.name)


def _copied_facts(document: Document) -> dict[str, str]:
    """Return what was left out of copies of DICOM series, and what was not looked at."""
    if not any(record.copied and record.format == "DICOM" for record in document.images.values()):
        return {}
    said = "without the personal data in their headers; text or faces in the samples themselves are not removed"
    return {"DICOM copies": said}


def channel_facts(project: Project) -> dict[str, str]:
    """Return what becomes of channels that are not grey or colours."""
    found = {side: project.image(side).apart for side in ("fixed", "moving")}
    return {
        f"{side} channels": f"{len(one.channel_names)} ({', '.join(one.channel_names)}); grey is their mean"
        for side, one in found.items()
        if one is not None
    }


def foreground_facts(document: Document) -> dict[str, str]:
    """Return a description of the foreground found in each image."""
    records = document.foregrounds
    return {
        f"{side} foreground": records[side].method if side in records else "not looked for: the whole image"
        for side in ("fixed", "moving")
    }


def region_facts(project: Project) -> dict[str, str]:
    """Return which regions the fixed image has, where there are some."""
    facts = {}
    if project.given_regions is not None:
        facts["regions"] = _some([str(label) for label in project.given_regions.values], "label")
    return facts


def _some(names: list[str], what: str) -> str:
    """Return how many there are, and the first of them."""
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"{counted(len(names), what)}: {shown}"


def _spacing(text: str | None) -> float | list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(f"--spacing {text!r} must be numbers such as 0.5 or 0.6,0.6,2.5.") from None
    return numbers[0] if len(numbers) == 1 else numbers
