"""`write_report`: one self-contained HTML file, and a JSON with every number beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from warpgauge.evaluation import Evaluation, evaluate_project, project_audit
from warpgauge.io.files import replace_text
from warpgauge.project import Project
from warpgauge.report.map_section import MethodMaps, method_maps
from warpgauge.report.page import rendered, report_path
from warpgauge.report.report import Report
from warpgauge.report.sections import landmark_csv, section_titles, section_values
from warpgauge.session.control_questions import rater_certificates


def write_report(
    out_html: str | os.PathLike[str],
    evaluation: Evaluation,
    *,
    maps: MethodMaps | bool = True,
    progress: Callable[[str], None] | None = None,
    **shown: Any,
) -> Path:
    """Write a report: the verdict first, then what it rests on.

    Parameters
    ----------
    out_html : path
        Ends in ``.html``; the numbers go to the same name with ``.json``, the errors at the annotations to
        ``...-landmarks.csv``.
    evaluation : Evaluation
        From `warpgauge.evaluate` or `warpgauge.evaluate_project`.
    maps : MethodMaps or bool
        True makes them where the fixed image is given; False leaves them out.
    progress : callable, optional
        Called with a word or two before each step.
    **shown
        What is shown beside the evaluation, as :class:`Report` takes it: ``fixed`` and ``moving`` images, ``title``,
        ``labels``, ``project``, ``settings``, ``hashes``, ``raters``, ``audit`` and ``created``.

    Returns
    -------
    Path
        The HTML file. It refers to no other file or host.
    """
    file, say = report_path(out_html), progress or (lambda _: None)
    report = Report(evaluation, **shown)
    made = maps if isinstance(maps, MethodMaps) else _maps(report, say) if maps else None
    report = replace(report, maps=made)
    say("page")
    numbers = json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False, default=str)
    replace_text(file.with_suffix(".json"), numbers)
    beside = file.with_name(f"{file.stem}-landmarks.csv")
    if report.landmark_errors:
        replace_text(beside, landmark_csv(report))
    else:
        beside.unlink(missing_ok=True)  # of an earlier report
    text = rendered(
        "page.html",
        folder="report",
        sections=section_titles(report),
        numbers_file=file.with_suffix(".json").name,
        landmark_file=beside.name,
        **section_values(report),
    )
    replace_text(file, text)
    return file


def _maps(report: Report, say: Callable[[str], None]) -> MethodMaps | None:
    """Return the maps of a report; they need a fixed image, and a transform that is known everywhere."""
    found, fixed = report.evaluation, report.fixed
    if fixed is None or fixed.grid.d != found.posterior.d or not any(one.anywhere for one in found.transforms.values()):
        return None
    return method_maps(found, fixed.grid, fixed=fixed, checked=report.moving is not None, progress=say)


def write_project_report(
    project: Project,
    out_html: str | os.PathLike[str] | None = None,
    *,
    maps: bool = True,
    **options: Any,
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
        audit=project_audit(project, found.comparison),
    )
