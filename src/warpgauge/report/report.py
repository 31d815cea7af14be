"""The report about an evaluation: one self-contained HTML file, and a JSON with every number beside it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.display import counted, csv_table, joined, rounded, shown_units
from warpgauge.evaluation import AuditVerdict, Evaluation, Interval, Trust, Verdict, evaluate_project, project_audit
from warpgauge.evaluation.result import score_head
from warpgauge.evaluation.verdict import region_words
from warpgauge.io.files import plain, replace_text
from warpgauge.io.images import Image
from warpgauge.io.transforms import Transform
from warpgauge.maps import map_picture
from warpgauge.project import Project
from warpgauge.report import charts
from warpgauge.report.maps import MethodMaps, best_method, checkerboards, first_shown, map_pictures, method_maps
from warpgauge.report.page import (
    MOST_OPEN,
    Cell,
    Table,
    chart,
    count_cell,
    facts,
    number_cell,
    photograph,
    rendered,
    report_path,
    share_cell,
    text_cell,
    versions,
)
from warpgauge.session import Session
from warpgauge.session.agreement import Agreement, RaterSummary
from warpgauge.session.control_questions import RaterCertificate, rater_certificates

SCHEMA = 3
_MOST_NAMED = 6
# Characters of headings that fit the page side by side.
_MOST_LEVEL = 80


@dataclass(frozen=True, eq=False)
class Report:
    """An evaluation and what is shown beside it."""

    evaluation: Evaluation
    maps: MethodMaps | None = None
    fixed: Image | None = None
    """Shown below the maps; both images as a checkerboard, and their hashes and frames are listed."""
    moving: Image | None = None
    title: str = "Registration report"
    project: Mapping[str, Any] = field(default_factory=dict)
    """Further names and values to be listed, as settings."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    agreement: Agreement | None = None
    """The raters beside each other, where there are several."""
    certificates: Mapping[str, RaterCertificate] = field(default_factory=dict)
    """What control questions and repeats say about each rater."""
    audit: AuditVerdict | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def verdict(self) -> Verdict:
        """What the evaluation says."""
        return self.evaluation.verdict

    @property
    def units(self) -> str:
        """World unit, as it is written beside numbers."""
        return shown_units(self.verdict.units or ("px" if self.fixed is None else self.fixed.grid.units))

    @property
    def images(self) -> dict[str, Image]:
        """``"fixed"`` and ``"moving"``, as far as there are any."""
        return {name: one for name, one in (("fixed", self.fixed), ("moving", self.moving)) if one is not None}

    @property
    def transforms(self) -> dict[str, Transform]:
        """All transforms that are ranked, best first."""
        return {name: self.evaluation.transforms[name] for name in self.evaluation.ranking(self.verdict.norm)}

    @property
    def methods(self) -> list[str]:
        """Names best first, without the baseline."""
        return [name for name in self.transforms if name != self.verdict.baseline]

    @cached_property
    def marks(self) -> Counter[str]:
        """Number of marks of each rater."""
        locations = () if self.agreement is None else self.agreement.locations
        return Counter(mark.rater for location in locations for mark in location.marks)

    @property
    def raters(self) -> list[RaterSummary]:
        """Who has marked anything."""
        return [] if self.agreement is None else [one for one in self.agreement.raters if self.marks[one.name]]

    @property
    def can_be_mapped(self) -> bool:
        """Whether there is a grid to map over, and a transform that is known everywhere."""
        has_grid = self.fixed is not None and self.fixed.grid.d == self.evaluation.posterior.d
        return has_grid and any(one.anywhere for one in self.evaluation.transforms.values())

    @cached_property
    def landmark_errors(self) -> dict[str, Floats]:
        """Distance of each method from each annotated match, best first; NaN outside its domain.

        Tables of points that know none of the annotated ones are left out.
        """
        by_name = dict(zip(self.evaluation.scores, self.evaluation.comparison.landmark_errors, strict=True))
        return {
            name: by_name[name]
            for name, one in self.transforms.items()
            if len(by_name[name]) and (one.anywhere or np.isfinite(by_name[name]).any())
        }

    @cached_property
    def annotation_rows(self) -> list[dict[str, Any]]:
        """A row for each annotation: points, uncertainty, and how well the others predict it."""
        annotations = self.evaluation.posterior.annotations
        trust = self.verdict.trust
        sd = np.sqrt(np.trace(annotations.covariances, axis1=1, axis2=2) / annotations.d)
        flagged = {flag.row for flag in self.verdict.flags if flag.row is not None}
        return [
            {
                "number": row + 1,
                "label": self.evaluation.comparison.label(row),
                "fixed": annotations.fixed_points[row].tolist(),
                "moving": annotations.moving_points[row].tolist(),
                "covariance": annotations.covariances[row].tolist(),
                "sd": float(sd[row]),
                "residual": None if trust is None else float(np.linalg.norm(trust.residuals[row])),
                "mahalanobis": None if trust is None else float(trust.mahalanobis[row]),
                "p": None if trust is None else float(trust.p[row]),
                "outlier": trust is not None and row in trust.outliers,
                "flagged": row in flagged,
            }
            for row in range(len(annotations))
        ]

    @property
    def doubted(self) -> frozenset[str]:
        """Labels of annotations that contradict the others or all good methods."""
        return frozenset(row["label"] for row in self.annotation_rows if row["outlier"] or row["flagged"])

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values, None for what is not a number."""
        found = self.evaluation
        told = self.verdict
        numbers: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "title": self.title,
                "created": self.created.isoformat(),
                "units": self.units,
                "norm_shown": told.norm,
                "evaluation": found.to_dict(),
                "trust": None if told.trust is None else told.trust.to_dict(),
                "errors_at_annotations": self.landmark_errors,
                "targets": {"count": told.targets, "region": region_words(told.region), "judged": told.known},
                "maps": None if self.maps is None else self.maps.summary(),
                "annotations": self.annotation_rows,
                "audit": None if self.audit is None else self.audit.to_dict(),
                "raters": {one.name: {"marks": self.marks[one.name], "bias": one.bias, "bias_se": one.bias_se,
                                      "scatter": one.scatter} for one in self.raters},
                "certificates": {name: vars(one) for name, one in self.certificates.items()},
                "transforms": {name: one.description.to_dict() for name, one in self.transforms.items()},
                "model": _model(found.posterior),
                "images": {name: image.summary() for name, image in self.images.items()},
                "project": self.project,
                "settings": self.settings,
                "versions": versions(),
            }
        )  # fmt: skip
        return numbers


def write_report(out_html: str | os.PathLike[str], evaluation: Evaluation, *, maps: bool = True, **shown: Any) -> Path:
    """Write a report: the verdict first, then what it rests on. Returns the HTML file, which refers to no other.

    Parameters
    ----------
    out_html : path
        Ends in ``.html``; the numbers go to the same name with ``.json``, the errors at the annotations to
        ``...-landmarks.csv``.
    evaluation : Evaluation
        From `warpgauge.evaluate` or `warpgauge.evaluate_project`.
    maps : bool
        Whether maps are made where the fixed image is given.
    **shown
        What is shown beside the evaluation, as :class:`Report` takes it: ``fixed`` and ``moving`` images, ``title``,
        ``project``, ``settings``, ``agreement``, ``certificates``, ``audit`` and ``created``.
    """
    file = report_path(out_html)
    report = Report(evaluation, **shown)
    if maps and report.can_be_mapped:
        assert report.fixed is not None
        report = replace(report, maps=method_maps(evaluation, report.fixed.grid, fixed=report.fixed))
    numbers = json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False, default=str)
    replace_text(file.with_suffix(".json"), numbers)
    landmark_file = file.with_name(f"{file.stem}-landmarks.csv")
    if report.landmark_errors:
        replace_text(landmark_file, _landmark_csv(report))
    else:
        landmark_file.unlink(missing_ok=True)  # of an earlier report
    verdict = evaluation.verdict
    text = rendered(
        "page.html",
        folder="report",
        title=report.title,
        sections=_sections(report),
        report=report,
        found=evaluation,
        trust=verdict.trust,
        units=report.units,
        score=score_head(verdict.norm),
        compared=joined(report.methods) if len(report.methods) <= _MOST_NAMED else f"{len(report.methods)} methods",
        version=versions()["warpgauge"],
        without=_without_flagged(report),
        results=_results(report),
        maps=None if report.maps is None else map_pictures(report.maps, evaluation),
        calibration=None if verdict.trust is None else _calibration(verdict.trust),
        landmarks=_landmarks(report),
        raters=_raters(report),
        provenance=_provenance(report),
        numbers_file=file.with_suffix(".json").name,
        landmark_file=landmark_file.name,
    )
    replace_text(file, text)
    return file


def write_project_report(
    project: Project,
    out_html: str | os.PathLike[str] | None = None,
    *,
    maps: bool = True,
    **options: Any,
) -> Path:
    """Evaluate a project's transforms and write the report about them, ``report/report.html`` in it by default.

    ``options`` are those of `warpgauge.evaluate_project`.
    """
    file = report_path(out_html or project.folder / "report" / "report.html")  # before anything is computed
    evaluation = evaluate_project(project, **options)
    return write_report(
        file,
        evaluation,
        fixed=project.image("fixed"),
        moving=project.image("moving"),
        maps=maps,
        title=project.folder.resolve().name,
        project={"project": project.id, "events": project.state.generation, "log": project.fingerprint()},
        settings=project.settings.to_dict(),
        agreement=Session(project).agreement(),
        certificates=rater_certificates(project.state),
        audit=project_audit(project, evaluation.comparison),
    )


def _sections(report: Report) -> dict[str, str]:
    """Return the sections of a report by name, in order, with their headings."""
    sections = {"results": "Which method is best?", "maps": "Where is it wrong?"}
    trust = {"calibration": "Can these numbers be trusted?"}
    verdict = report.evaluation.verdict
    # Where the model is overconfident, that stands before any ranking.
    sections = trust | sections if verdict.is_overconfident or verdict.trust is None else sections | trust
    if report.evaluation.without_flagged is not None:
        sections = {"suspects": "Annotations to check"} | sections
    sections["landmarks"] = "Errors at the annotations"
    if report.audit is not None:
        sections["audit"] = "What does the audit prove?"
    if len(report.raters) > 1 or report.certificates:
        sections["raters"] = "Do the raters agree?"
    return sections | {
        "provenance": "How it was made",
        "reading": "How to read this report",
    }


def _results(report: Report) -> dict[str, Any]:
    """Return the table of scores, the charts and the checkerboards."""
    found = report.evaluation
    norm = report.verdict.norm
    units = report.units
    best = found.verdict.rows[0]
    overlaid = best_method(found)
    overlay = None
    if overlaid is not None and report.fixed is not None and report.moving is not None:
        boards = checkerboards(report.fixed, report.moving, overlaid, report.transforms[overlaid])
        overlay = photograph(map_picture(boards), dpi=150)
    return {
        "scores": _score_table(report),
        "best": best.name,
        "error": _spread(best.score[norm], best.interval[norm]),
        "intervals": chart(charts.intervals(found, norm, score_head(norm, units))),
        "wins": chart(charts.wins(found, norm)) if len(report.methods) > 1 else None,
        "overlaid": overlaid,
        "overlay": overlay,
    }


def _score_table(report: Report) -> Table:
    """Return the table of scores, best method first."""
    found = report.evaluation
    verdict = report.verdict
    norm = verdict.norm
    units = report.units
    heads = ["method", "rank", score_head(norm, units), "90 % interval from", "to", "probability of being best",
             f"at landmarks ({units})", f"90th percentile ({units})", "outside its domain"]  # fmt: skip
    if found.tolerance is not None:
        heads.append(f"targets above {found.tolerance:g} {units}")
    rows = []
    for place, one in enumerate(verdict.rows, 1):
        low, high = one.interval[norm]
        cells = [
            count_cell(place),
            number_cell(one.score[norm]),
            number_cell(low),
            number_cell(high),
            Cell("as its copy" if one.copy_of else verdict.shown_probability(one), one.probability_best[norm]),
            number_cell(one.landmark[norm]),
            _interval_cell(one.statistics.get("p90")),
            share_cell(one.outside),
        ]
        if found.tolerance is not None:
            above = one.statistics["above_tolerance"]
            ends = f"{share_cell(above.low).text} to {share_cell(above.high).text}"
            cells.append(Cell(f"{share_cell(above.median).text} ({ends})", above.median))
        rows.append((one.name, cells))
    known = counted(verdict.annotations, "annotation")
    caption = (
        f"Errors over {verdict.targets} targets, estimated from {known}; best first. "
        f"90 % intervals in brackets ({verdict.samples} samples, seed {found.seed})."
    )
    flagged = frozenset(flag.transform for flag in verdict.flags if flag.transform is not None)
    return Table(caption, heads, rows, flagged=flagged, baseline=verdict.baseline, name="scores")


def _spread(middle: float, ends: tuple[float, float]) -> str:
    """Write a value with its interval."""
    return f"{rounded(middle)} ({rounded(ends[0])}\u00a0to\u00a0{rounded(ends[1])})"


def _interval_cell(one: Interval | None) -> Cell:
    return Cell("-") if one is None else Cell(_spread(one.median, (one.low, one.high)), one.median)


def _without_flagged(report: Report) -> Table | None:
    """Return the scores with and without the annotations that are flagged as gross errors."""
    found = report.evaluation
    other = report.evaluation.without_flagged
    norm = report.verdict.norm
    if other is None:
        return None
    rows = []
    for name in found.ranking(norm):
        cells = []
        for one in (found, other):
            score = one.scores[name]
            cells.append(Cell(_spread(score.score[norm], score.interval[norm]), score.score[norm]))
            cells.append(Cell(one.verdict.shown_probability(score), score.probability_best[norm]))
        rows.append((name, cells))
    every = report.verdict.annotations
    heads = (f"error ({report.units})", "probability of being best")
    return Table(
        f"Errors from all {every} annotations, and from the {other.verdict.annotations} that are not flagged.",
        ("method", *heads, *(f"without: {head}" for head in heads)),
        rows,
        baseline=found.verdict.baseline,
        name="without-flagged",
    )


def _calibration(trust: Trust) -> dict[str, Any]:
    """Return coverage and residuals."""
    rows = []
    for one in trust.coverage:
        cells = [Cell(f"{one.inside} of {one.count}", one.inside), share_cell(one.share), share_cell(one.low),
                 share_cell(one.high), text_cell("yes" if one.consistent else "no")]  # fmt: skip
        rows.append((f"{100 * one.level:.0f} %", cells))
    return {
        "coverage": Table(
            "Coverage of annotations predicted unseen, with 95 % binomial intervals.",
            ("region", "inside", "share", "interval from", "to", "consistent"),
            rows,
            flagged=frozenset(f"{100 * one.level:.0f} %" for one in trust.coverage if not one.consistent),
            name="coverage",
        ),
        "beyond": int((np.abs(trust.standardised) > 1.96).sum()),
        "residuals": chart(charts.residuals(trust)),
    }


def _landmarks(report: Report) -> Table | None:
    """Return the distances between each annotated match and where each method puts it."""
    errors = report.landmark_errors
    rows = report.annotation_rows
    units = report.units
    if not rows:
        return None
    shown = first_shown(list(errors), report.verdict.baseline)
    listed = []
    for at, row in enumerate(rows):
        remark = "far from all good methods" if row["flagged"] else "contradicts the others" if row["outlier"] else ""
        point = text_cell(", ".join(rounded(x, 5) for x in row["fixed"]))
        distances = [number_cell(_known(errors[name][at])) for name in shown]
        figures = [number_cell(row[key]) for key in ("sd", "mahalanobis", "p")]
        listed.append((row["label"], [point, *distances, *figures, text_cell(remark)]))
    left = len(errors) - len(shown)
    more = f" {left} further methods are in the CSV." if left else ""
    return Table(
        f"{counted(len(rows), 'annotation')}: distance in {units} between the expert's match and where a method maps "
        "the point, best method first; the standard deviation that the expert stated; and the residual from models "
        f"that do not know the annotation, divided by its expected size.{more}",
        ("annotation", f"fixed point ({units})", *shown, "stated sd", "standardised residual", "p", "remark"),
        listed,
        flagged=report.doubted,
        name="annotation-list",
        folded=len(listed) > MOST_OPEN,
        upright=sum(map(len, shown)) > _MOST_LEVEL,
    )


def _landmark_csv(report: Report) -> str:
    """Return a row for each annotation: its label, points, and the error of each method there."""
    axes = "xyz"[: report.evaluation.posterior.d]
    names = list(report.landmark_errors)
    heads = [*(f"fixed_{axis}" for axis in axes), *(f"moving_{axis}" for axis in axes)]
    rows = []
    for at, row in enumerate(report.annotation_rows):
        errors = [_known(report.landmark_errors[name][at]) for name in names]
        rows.append([row["label"], *map(float, (*row["fixed"], *row["moving"], row["sd"])), *errors])
    return csv_table(["annotation", *heads, "stated_sd", *names], rows)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _raters(report: Report) -> dict[str, Table]:
    """Return the raters beside each other, and what control questions and repeats say about each."""
    units = report.units
    rows = []
    for one in report.raters:
        offset = None if one.bias is None else float(np.linalg.norm(one.bias))
        error = None if one.bias_se is None else float(np.linalg.norm(one.bias_se))
        cells = [count_cell(report.marks[one.name]), count_cell(sum(one.skipped.values())), number_cell(offset),
                 number_cell(error), number_cell(one.scatter)]  # fmt: skip
        rows.append((one.name, cells))
    heads = ("rater", "marks", "skipped", f"offset from the other raters ({units})", f"its standard error ({units})",
             f"RMS distance from the fused mark ({units})")  # fmt: skip
    caption = "Raters at the landmarks that several of them marked; offsets are not part of any interval."
    tables = {"agreement": Table(caption, heads, rows, name="raters")} if len(rows) > 1 else {}
    if report.certificates:
        tables["certificates"] = _certificates(report)
    return tables


def _certificates(report: Report) -> Table:
    """Return bias, scatter and repeatability of each rater, with 95 % intervals."""
    rows = []
    for name, one in report.certificates.items():
        biases = []
        if one.bias is not None and one.bias_low is not None and one.bias_high is not None:
            for axis, middle, low, high in zip("xyz", one.bias, one.bias_low, one.bias_high, strict=False):
                biases.append(f"{axis} {_spread(middle, (low, high))}")
        cells = [Cell(f"{one.inside} of {one.controls}" if one.controls else "-", one.inside),
                 text_cell("; ".join(biases) or "-")]  # fmt: skip
        for middle, low, high in ((one.sd, one.sd_low, one.sd_high),
                                  (one.repeat_sd, one.repeat_low, one.repeat_high)):  # fmt: skip
            known = middle is not None and low is not None and high is not None
            cells.append(Cell(_spread(middle, (low, high)), middle) if known else number_cell(middle))  # type: ignore[arg-type]
        rows.append((name, [*cells, count_cell(one.repeats)]))
    units = report.units
    heads = ("rater", "known matches in the drawn region", f"bias, {units}", f"SD, {units}",
             f"repeatability SD, {units}", "repeats")  # fmt: skip
    return Table("Control questions and repeats of each rater, with 95 % intervals.", heads, rows, name="controls")


def _provenance(report: Report) -> dict[str, Any]:
    """Return settings, model, images, hashes, versions, seeds, and how each transform was read."""
    found = report.evaluation
    seeds = {"posterior samples": found.verdict.samples, "seed": found.seed, "targets": found.verdict.targets,
             "tolerance": found.tolerance, "norms": list(found.norms)}  # fmt: skip
    transforms = []
    for name, one in report.transforms.items():
        read = {key: value for key, value in one.description.to_dict().items() if value not in ("", [], ())}
        transforms.append(facts(f"Transform {name}", read))
    images = [
        facts(f"The {name} image", {**one.summary(), "levels": one.levels}) for name, one in report.images.items()
    ]
    return {
        "transforms": transforms,
        "project": facts("Project settings and content", report.project) if report.project else None,
        "settings": [
            facts("Model of the true transformation", _model(found.posterior)),
            facts("Settings of the evaluation", {**seeds, **report.settings}),
            *images,
        ],
        "versions": facts("Programs and libraries", versions()),
    }


def _model(posterior: Posterior) -> dict[str, Any]:
    """Return the parameters of the prior and the factor on the posterior's covariance."""
    prior = posterior.prior
    return {
        "kernel": prior.kernel.family,
        "scales": prior.kernel.scales.tolist(),
        "weights": prior.kernel.weights.tolist(),
        **({} if prior.kernel.regions is None else {"own_share_of_regions": prior.kernel.own.tolist()}),
        "mean": prior.mean if isinstance(prior.mean, str) else "a function",
        "extra_noise_variance": prior.noise,
        "covariance_factor": posterior.scale,
        "calibrated_by_leave_one_out": posterior.calibrates,
        "weights_learned": prior.fit is not None,
        "isotropic_noise": posterior.isotropic,
    }
