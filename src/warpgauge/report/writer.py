"""`write_report`: one self-contained HTML file, and a JSON with every number beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import (
    Assessment,
    Certificate,
    Evaluation,
    Trust,
    Truth,
    evaluate_project,
    project_certificate,
)
from warpgauge.evaluation import trust as find_trust
from warpgauge.evaluation.transforms import comparable, function_of, mapped_points
from warpgauge.io.files import replace_text
from warpgauge.io.images import Image
from warpgauge.maps.picture_parts import shown_units
from warpgauge.project import Project
from warpgauge.report.content import Content
from warpgauge.report.map_section import MethodMaps, method_maps
from warpgauge.report.page import rendered, report_path
from warpgauge.report.sections import landmark_csv, section_titles, section_values
from warpgauge.report.suspects import suspects
from warpgauge.session.control_questions import RaterCertificate, rater_certificates


def write_report(
    out_html: str | os.PathLike[str],
    *,
    evaluation: Evaluation,
    posterior: Posterior,
    judged_by: Truth | None = None,
    transforms: Mapping[str, Any] | None = None,
    targets: ArrayLike | None = None,
    trust: Trust | None = None,
    fixed: Image | None = None,
    moving: Image | None = None,
    maps: MethodMaps | bool | None = True,
    title: str = "Registration report",
    units: str | None = None,
    labels: Sequence[str] | None = None,
    project: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    hashes: Mapping[str, str] | None = None,
    region: str = "",
    raters: Mapping[str, RaterCertificate] | None = None,
    certificate: Certificate | None = None,
    created: datetime | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write a report: the verdict first, then what it rests on.

    Parameters
    ----------
    out_html : path
        Ends in ``.html``; the numbers go to the same name with ``.json``, the errors at the annotations to
        ``...-landmarks.csv``.
    evaluation : Evaluation
    posterior : Posterior
        What the annotations alone say; for maps and calibration.
    judged_by : Truth, optional
        What the evaluation was made with; the posterior by default.
    transforms : mapping, optional
        As given to `warpgauge.evaluate`; for maps, box plots, sensitivity and how each was read.
    targets : (n, d) array, optional
        As given to `warpgauge.evaluate`; for box plots and sensitivity.
    trust : Trust, optional
        Made here where it is not given.
    fixed, moving : Image, optional
        The fixed one is shown below the maps, both as a checkerboard; their hashes and frames are listed.
    maps : MethodMaps or bool
        True makes them where the fixed image and transforms with ``map`` are given; False leaves them out.
    title : str
    units : str, optional
        What one world unit is; that of the fixed image by default, else ``"px"``.
    labels : sequence of str, optional
        Names of the annotations.
    project, settings, hashes : mapping, optional
        Further names and values to be listed, for instance of the project, and hashes of files.
    region : str
        What the targets stand for, in words.
    raters : mapping of RaterCertificate, optional
        What is known of each rater.
    certificate : Certificate, optional
        The verdict of the audit, where there is one.
    created : datetime, optional
        Now by default.
    progress : callable, optional
        Called with a word or two before each step.

    Returns
    -------
    Path
        The HTML file. It refers to no other file or host.
    """
    file = report_path(out_html)
    given = posterior.annotations
    if labels is not None and len(labels) != len(given):
        raise InvalidInputError(f"{len(labels)} labels were given for {len(given)} annotations.")
    candidates = _in_order(evaluation, transforms)
    say = progress or (lambda _: None)
    say("calibration")
    if trust is None and len(given):
        trust = find_trust(posterior, candidates or None, targets, judged_by=judged_by)
    if maps is True:
        maps = _made_maps(posterior, judged_by, candidates, evaluation.tolerance, fixed, say)
    content = Content(
        title=str(title),
        created=created or datetime.now(UTC),
        units=shown_units(units or ("px" if fixed is None else fixed.grid.units)),
        evaluation=evaluation,
        posterior=posterior,
        trust=trust,
        errors=_errors(judged_by or posterior, candidates, targets),
        transforms=candidates,
        maps=maps or None,
        images={name: one for name, one in (("fixed", fixed), ("moving", moving)) if one is not None},
        project=dict(project or {}),
        settings=dict(settings or {}),
        hashes=dict(hashes or {}),
        labels=[str(label) for label in labels or []],
        landmark_errors=_landmark_errors(posterior, candidates),
        region=region,
        suspects=suspects(evaluation, judged_by or posterior),
        raters=dict(raters or {}),
        certificate=certificate,
    )
    say("page")
    numbers = json.dumps(content.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
    replace_text(file.with_suffix(".json"), numbers)
    if content.landmark_errors:
        replace_text(landmark_file(file), landmark_csv(content))
    replace_text(file, report_page(content, file))
    return file


def write_project_report(
    project: Project, out_html: str | os.PathLike[str] | None = None, *, maps: bool = True, **options: Any
) -> Path:
    """Evaluate a project's transforms and write the report about them.

    Parameters
    ----------
    project : Project
    out_html : path, optional
        ``report/report.html`` in the project by default.
    maps : bool
        Whether maps are shown.
    **options
        As `warpgauge.evaluate_project` takes them.
    """
    file = report_path(out_html or project.folder / "report" / "report.html")  # before anything is computed
    found = evaluate_project(project, **options)
    return write_assessment(
        file,
        found,
        fixed=project.image("fixed"),
        moving=project.image("moving"),
        maps=maps,
        title=project.folder.resolve().name,
        project={"project": project.id, "events": project.state.generation, "log": project.fingerprint()},
        settings=project.settings.to_dict(),
        raters=rater_certificates(project.state),
        certificate=project_certificate(project, found),
    )


def write_assessment(out_html: str | os.PathLike[str], found: Assessment, **options: Any) -> Path:
    """Write the report about a verdict; ``options`` as `write_report` takes them."""
    return write_report(
        out_html,
        evaluation=found.evaluation,
        posterior=found.posterior,
        judged_by=found.judged_by,
        transforms=found.transforms,
        targets=found.targets,
        trust=found.trust,
        units=found.units,
        region=found.region,
        **options,
    )


def landmark_file(file: Path) -> Path:
    """Return where the errors at the annotations are written, beside the page."""
    return file.with_name(f"{file.stem}-landmarks.csv")


def report_page(content: Content, file: Path) -> str:
    """Return the HTML page; ``file`` is where it is written, for the names of what lies beside it."""
    return rendered(
        "page.html",
        folder="report",
        sections=section_titles(content),
        numbers_file=file.with_suffix(".json").name,
        landmark_file=landmark_file(file).name,
        **section_values(content),
    )


def _in_order(evaluation: Evaluation, transforms: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the transforms best first, after a check that they are those of the evaluation."""
    if transforms is None:
        return {}
    if set(transforms) != set(evaluation.scores):
        raise InvalidInputError(
            f"The report got the transforms {', '.join(map(str, transforms))}, but the evaluation is of "
            f"{', '.join(evaluation.scores)}."
        )
    return {name: transforms[name] for name in evaluation.ranking(evaluation.norm)}


def _made_maps(
    posterior: Posterior,
    judged_by: Truth | None,
    transforms: Mapping[str, Any],
    tolerance: float | None,
    fixed: Image | None,
    say: Callable[[str], None],
) -> MethodMaps | None:
    usable = {name: one for name, one in transforms.items() if hasattr(one, "map") or callable(one)}
    if fixed is None or not usable or fixed.grid.d != posterior.d:
        return None
    return method_maps(
        posterior, usable, fixed.grid, judged_by=judged_by, tolerance=tolerance, fixed=fixed,
        progress=say,
    )  # fmt: skip


def _errors(truth: Truth, transforms: Mapping[str, Any], targets: ArrayLike | None) -> dict[str, Floats]:
    """Return the error of each method at every target, against what is expected there."""
    if not transforms or targets is None:
        return {}
    common = comparable(truth, transforms, targets)
    return dict(zip(transforms, truth.expected_errors(common.points, common.mapped), strict=True))


def _landmark_errors(posterior: Posterior, transforms: Mapping[str, Any]) -> dict[str, Floats]:
    """Return the distance of each method from each annotated match; methods given as mapped targets have none."""
    given = posterior.annotations
    usable = {name: one for name, one in transforms.items() if function_of(one) is not None}
    return {
        name: np.linalg.norm(mapped_points(name, one, given.fixed_points) - given.moving_points, axis=1)
        for name, one in usable.items()
        if len(given)
    }
