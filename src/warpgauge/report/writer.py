"""`write_report`: one self-contained HTML file, and a JSON with every number beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Certificate, Evaluation, evaluate_project, project_certificate
from warpgauge.evaluation.diagnostics import trust_in
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
    evaluation: Evaluation,
    *,
    fixed: Image | None = None,
    moving: Image | None = None,
    maps: MethodMaps | bool | None = True,
    title: str = "Registration report",
    labels: Sequence[str] = (),
    project: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    hashes: Mapping[str, str] | None = None,
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
        From `warpgauge.evaluate` or `warpgauge.evaluate_project`. Its trust is found here where it was not asked for.
    fixed, moving : Image, optional
        The fixed one is shown below the maps, both as a checkerboard; their hashes and frames are listed.
    maps : MethodMaps or bool
        True makes them where the fixed image is given; False leaves them out.
    title : str
    labels : sequence of str
        Names of the annotations.
    project, settings, hashes : mapping, optional
        Further names and values to be listed, for instance of the project, and hashes of files.
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
    file, given = report_path(out_html), evaluation.posterior.annotations
    if labels and len(labels) != len(given):
        raise InvalidInputError(f"{len(labels)} labels were given for {len(given)} annotations.")
    say = progress or (lambda _: None)
    say("calibration")
    if evaluation.trust is None and len(given):
        evaluation = evaluation.trusted(trust_in(evaluation.comparison, evaluation.judged_by))
    if maps is True:
        maps = None
        if (
            fixed is not None
            and fixed.grid.d == given.d
            and any(one.anywhere for one in evaluation.transforms.values())
        ):
            maps = method_maps(evaluation, fixed.grid, fixed=fixed, checked=moving is not None, progress=say)
    content = Content(
        title=str(title),
        created=created or datetime.now(UTC),
        units=shown_units(evaluation.units or ("px" if fixed is None else fixed.grid.units)),
        evaluation=evaluation,
        errors=_by_rank(evaluation, evaluation.judged_by.expected_errors(evaluation.comparison.complete)),
        landmark_errors=_landmark_errors(evaluation),
        maps=maps or None,
        images={name: one for name, one in (("fixed", fixed), ("moving", moving)) if one is not None},
        project=dict(project or {}),
        settings=dict(settings or {}),
        hashes=dict(hashes or {}),
        labels=[str(label) for label in labels],
        suspects=suspects(evaluation),
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
    return write_report(
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


def _by_rank(evaluation: Evaluation, values: Floats) -> dict[str, Floats]:
    """Return (K, n) values by name, the best method first."""
    by_name = dict(zip(evaluation.scores, values, strict=True))
    return {name: by_name[name] for name in evaluation.ranking(evaluation.norm)}


def _landmark_errors(evaluation: Evaluation) -> dict[str, Floats]:
    """Return the distance of each method from each annotated match; tables that know none of them are left out."""
    compared = evaluation.comparison
    errors = _by_rank(evaluation, compared.landmark_errors)
    return {
        name: values
        for name, values in errors.items()
        if len(values) and (compared.transforms[name].anywhere or np.isfinite(values).any())
    }
