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
from warpgauge.evaluation import CandidateAverage, Evaluation, Trust
from warpgauge.evaluation import trust as find_trust
from warpgauge.evaluation.comparison import comparable
from warpgauge.io.images import Image
from warpgauge.maps.planes import shown_units
from warpgauge.report.content import Content
from warpgauge.report.files import replace_text, report_path
from warpgauge.report.html import page, paragraph
from warpgauge.report.map_section import map_section
from warpgauge.report.method_maps import MethodMaps, method_maps
from warpgauge.report.provenance import annotation_list, provenance, reading_aid
from warpgauge.report.results import results_section, verdict
from warpgauge.report.trust_section import trust_section

_SAMPLES_FOR_ERRORS = 200


def write_report(
    out_html: str | os.PathLike[str],
    *,
    evaluation: Evaluation,
    posterior: Posterior,
    judged_by: Posterior | CandidateAverage | None = None,
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
    created: datetime | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write a report: the verdict first, then what it rests on.

    Parameters
    ----------
    out_html : path
        Ends in ``.html``; the numbers go to the same name with ``.json``.
    evaluation : Evaluation
    posterior : Posterior
        What the annotations alone say; for maps and calibration.
    judged_by : Posterior or CandidateAverage, optional
        What the evaluation was made with; the posterior by default.
    transforms : mapping, optional
        As given to `warpgauge.evaluate`; for maps, box plots, sensitivity and how each was read.
    targets : (n, d) array, optional
        As given to `warpgauge.evaluate`; for box plots and sensitivity.
    trust : Trust, optional
        Made here where it is not given.
    fixed, moving : Image, optional
        Shown with the maps; their hashes and frames are listed.
    maps : MethodMaps or bool
        True makes them where the fixed image and transforms with ``map`` are given; False leaves them out.
    title : str
    units : str, optional
        What one world unit is; that of the fixed image by default, else ``"px"``.
    labels : sequence of str, optional
        Names of the annotations.
    project, settings, hashes : mapping, optional
        Further names and values to be listed, for instance of the project, and hashes of files.
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
        averaged = isinstance(judged_by, CandidateAverage)
        trust = find_trust(posterior, candidates or None, targets, averaged=averaged)
    if maps is True:
        maps = _made_maps(posterior, candidates, evaluation.tolerance, fixed, moving, say)
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
    )
    say("page")
    numbers = json.dumps(content.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
    replace_text(file.with_suffix(".json"), numbers)
    replace_text(file, report_page(content, file.with_suffix(".json").name))
    return file


def report_page(content: Content, numbers: str) -> str:
    """Give the HTML page; ``numbers`` is the name of the JSON file beside it."""
    found = content.evaluation
    head = verdict(content) + paragraph(
        f"{len(found.scores)} methods, {found.annotations} annotations, {found.targets} targets; lengths in "
        f"{content.units}; made on {content.created:%Y-%m-%d %H:%M} {content.created.tzname() or ''}."
    )
    trust = ("calibration", "Can these numbers be trusted?", trust_section(content))
    results = ("results", "Which method is best?", results_section(content))
    calibrated = content.trust is not None and content.trust.calibrated
    parts = [
        # Trust first: where calibration is not shown to hold, it stands before the ranking.
        *((results, trust) if calibrated else (trust, results)),
        ("maps", "Where is it wrong?", map_section(content)),
        ("annotations", "Annotations", annotation_list(content)),
        ("provenance", "How it was made", provenance(content)),
        ("reading", "How to read this report", reading_aid(content)),
    ]
    if calibrated:
        parts.insert(2, parts.pop(1))  # results, maps, then trust
    return page(
        content.title, head, parts, paragraph(f"Every number of this report is in {numbers}, beside this file.")
    )


def _in_order(evaluation: Evaluation, transforms: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give the transforms best first, after a check that they are those of the evaluation."""
    if transforms is None:
        return {}
    if set(transforms) != set(evaluation.scores):
        raise InvalidInputError(
            f"The report got the transforms {', '.join(map(str, transforms))}, but the evaluation is of "
            f"{', '.join(evaluation.scores)}."
        )
    norm = "2" if "2" in evaluation.norms else evaluation.norms[0]
    return {name: transforms[name] for name in evaluation.ranking(norm)}


def _made_maps(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    tolerance: float | None,
    fixed: Image | None,
    moving: Image | None,
    say: Callable[[str], None],
) -> MethodMaps | None:
    usable = {name: one for name, one in transforms.items() if hasattr(one, "map") or callable(one)}
    if fixed is None or not usable or fixed.grid.d != posterior.d:
        return None
    return method_maps(posterior, usable, fixed.grid, tolerance=tolerance, fixed=fixed, moving=moving, progress=say)


def _errors(
    known: Posterior | CandidateAverage, transforms: Mapping[str, Any], targets: ArrayLike | None
) -> dict[str, Floats]:
    """Give the error of each method at every target, against what is expected there."""
    if not transforms or targets is None:
        return {}
    common = comparable(known, transforms, targets)
    if isinstance(known, CandidateAverage):
        # The mean of an average lies near the leading method, so its distance from it would flatter that one.
        samples = known.sample(common.points, _SAMPLES_FOR_ERRORS)
        lengths = np.stack([np.median(np.linalg.norm(samples - one, axis=2), axis=0) for one in common.mapped])
    else:
        lengths = np.linalg.norm(common.mapped - known.mean(common.points), axis=2)
    return dict(zip(transforms, lengths, strict=True))
