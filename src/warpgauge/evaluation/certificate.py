"""Certificates: what the audit proves and what the model says, with the data needed to check it anywhere.

A certificate is JSON. Its digest covers everything else in it. Written to a file it opens the sealed answers and holds
them, so that anybody can compute the verdict again; one that is only shown leaves them sealed, and does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.core.error_scores import norm_name
from warpgauge.display import counted, joined, lines_text, probability
from warpgauge.errors import FileFormatError, WarpgaugeError
from warpgauge.evaluation.audit import (
    CONFIDENCE,
    AuditData,
    AuditVerdict,
    audit_data,
    audit_verdict,
    family_of,
    project_audit,
)
from warpgauge.evaluation.project_evaluation import evaluate_comparison, project_centre, project_comparison
from warpgauge.evaluation.result import Evaluation
from warpgauge.io.files import one_line, read_text, replace_text
from warpgauge.project import Project
from warpgauge.project.events import ChangeSettings
from warpgauge.session.seals import unseal

FORMAT, SCHEMA = "warpgauge certificate", 6
_PARTS = {"format", "schema", "project", "images", "targets", "transforms", "answers", "verdict", "digest"}


@dataclass(frozen=True, eq=False)
class Certificate:
    """The audit's verdict on a project's transforms, beside the model's."""

    content: dict[str, Any]
    """All of it, as plain values; ``content["digest"]`` covers the rest."""
    verdict: AuditVerdict

    @property
    def lines(self) -> dict[str, str]:
        """What it says: PROVEN, SIZE, OPEN, SKIPPED, MODEL and MIND, as far as there is something to say."""
        found: dict[str, str] = self.content["lines"]
        return found

    def to_json(self) -> str:
        """Return the certificate as it is written to a file."""
        return json.dumps(self.content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return lines_text(self.lines)

    def __repr__(self) -> str:
        return f"Certificate({self.verdict.sentence!r})"  # the content is as long as its answers


def certify_project(
    project: Project,
    transforms: Mapping[str, Any] | None = None,
    *,
    level: float = CONFIDENCE,
    seed: int = 0,
    signed_off_by: str = "",
    out: str | PathLike[str] | None = None,
) -> Certificate:
    """Return what a project's audit proves about its transforms, beside what the model says.

    Parameters
    ----------
    project : Project
    transforms : mapping of name to transform, optional
        All transforms of the project by default.
    level : float
        Probability, at every look, of what is proven.
    seed : int
        Of the model's samples.
    signed_off_by : str
        Who answers for it; stands in the certificate.
    out : path, optional
        Write the certificate (JSON) here and open the sealed answers, permanently: the file holds them, and they are
        used like all others from then on. Both happen, or neither.
    """
    if transforms is None:
        transforms = {name: project.transform(name) for name in project.transform_names()}
    comparison = project_comparison(project, transforms)
    evaluation = None
    if len(comparison.annotations):
        evaluation = evaluate_comparison(comparison, centre=project_centre(project), seed=seed)
    with project.lock:
        data = audit_data(project, comparison.among(transforms))
        verdict = audit_verdict(data, level=level, family=family_of(project.state, transforms), units=project.units)
        content: dict[str, Any] = {
            "format": FORMAT,
            "schema": SCHEMA,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "signed_off_by": signed_off_by,
            "software": {"warpgauge": __version__, "numpy": np.__version__},
            **_provenance(project, transforms),
            "answers": None if data.sealed.any() and out is None else data.to_dict(),
            "verdict": verdict.to_dict(),
            "model": None if evaluation is None else _model(evaluation, verdict, seed),
        }
        content["lines"] = _lines(content, verdict)
        content["digest"] = digest_of(content)
        found = Certificate(content, verdict)
        if out is not None:
            replace_text(Path(out), found.to_json())
            if data.sealed.any():
                try:
                    unseal(project, certificate=content["digest"])
                except BaseException:
                    Path(out).unlink(missing_ok=True)  # it holds answers that are still sealed
                    raise
    return found


def _model(evaluation: Evaluation, verdict: AuditVerdict, seed: int) -> dict[str, Any]:
    """Return what the model says of the certified transforms, and whether the audit excludes what it calls the best."""
    rms = norm_name(2)
    chances = {name: evaluation.scores[name].probability_best[rms] for name in verdict.mean_errors}
    leader = max(chances, key=lambda name: chances[name])
    return {
        "leader": leader,
        "probability_best": chances,
        "agrees": leader in verdict.possible,
        "annotations": evaluation.verdict.annotations,
        "seed": seed,
        "verdict": str(evaluation.verdict),
    }


def _lines(content: Mapping[str, Any], verdict: AuditVerdict) -> dict[str, str]:
    """Return the lines of the audit's verdict, the model's, and who could have known draws or answers."""
    found = verdict.lines
    model = content["model"]
    notes = [found.pop("MIND")] if "MIND" in found else []
    if model is None:
        found["MODEL"] = "no verdict, because all answers are sealed"
    else:
        leader = f"{model['leader']} with probability {probability(model['probability_best'][model['leader']])}"
        found["MODEL"] = f"agrees: {leader}"
        if not model["agrees"]:
            found["MODEL"] = (
                f"disagrees: {leader}, which is proven not to be the best. Rely on the random answers: it may have "
                "been fitted to the landmarks that the model knows"
            )
    late = [name for name, one in content["transforms"].items() if one["after_opening"]]
    about = content["audit"]
    if late:
        notes.append(f"{joined(late)} may have used the answers, being added after they were opened")
    if about["seeded"]:
        notes.append("somebody set the seed of the draws (audit_seed) and could foresee them")
    if about["redrawn"]:
        notes.append(f"{counted(about['redrawn'], 'drawn question')} were never asked, being drawn anew after changes")
    if about["left_out"]:
        notes.append(f"not shown, but allowed for: {joined(about['left_out'])}")
    return found | ({"MIND": "; ".join(notes)} if notes else {})


def _provenance(project: Project, transforms: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the certificate is about: project, images, targets, transforms, and how questions were drawn."""
    state = project.state
    document = project.document
    opened = max((event.generation for event in state.unsealed), default=None)
    records = {}
    for name in transforms:
        record = state.transforms.get(name)
        added = None if record is None else record.generation
        records[name] = {
            "hashes": [] if record is None else list(record.hashes),
            "added_at": added,
            "after_opening": opened is not None and added is not None and added > opened,
        }
    asked = sum(state.asked_in.get(drawn.number, 0) for drawn in state.audits[:-1])
    changes = [event.changes for event in project.events() if isinstance(event, ChangeSettings)]
    seeds = [document.settings.audit_seed, *(change.get("audit_seed") for change in changes)]
    return {
        "project": {
            "id": project.id,
            "name": project.folder.resolve().name,
            "units": project.units,
            "log": {"generation": state.generation, "digest": project.fingerprint()},
            "opened_at": opened,
        },
        "images": {role: record.content_hash for role, record in sorted(document.images.items())},
        "targets": {
            "hash": document.targets.content_hash,
            "count": len(project.targets),
            "region": document.targets.region,
        },
        "transforms": records,
        "audit": {
            "rounds": [{"design": drawn.design, "seed": drawn.seed} for drawn in state.audits],
            "redrawn": sum(len(drawn.targets) for drawn in state.audits[:-1]) - asked,
            "seeded": any(seed is not None for seed in seeds),
            "left_out": [name for name in state.transforms if name not in transforms],
        },
    }


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of a certificate's content, excluding the digest itself."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def read_certificate(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a certificate's content, without checking it."""
    try:
        content = json.loads(read_text(path, "certificate"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"{str(path)!r} is not JSON: {one_line(error)}.") from error
    whole = isinstance(content, dict) and content.keys() >= _PARTS
    if not whole or content["format"] != FORMAT or content["schema"] != SCHEMA:
        raise FileFormatError(
            f"{str(path)!r} is not a warpgauge certificate, or was written in another version of the format."
        )
    parts: dict[str, Any] = content
    return parts


def check_certificate(content: Mapping[str, Any], project: Project | None = None) -> list[str]:
    """Return the problems of a certificate, one sentence each; an empty list if everything is confirmed.

    With the project it belongs to, images, targets, transforms and the log are compared as well.
    """
    problems = []
    if digest_of(content) != content.get("digest"):
        problems.append("The digest does not match: the file was changed after it was written.")
    if content["answers"] is None:
        problems.append("It holds no answers, as they were sealed: its verdict cannot be computed again.")
    else:
        data = AuditData.from_dict(content["answers"])
        about = dict(content["verdict"])
        again = audit_verdict(data, level=about["level"], family=about["family"], units=about["units"]).to_dict()
        again["lines"] = about["lines"]  # whose wording may differ between versions
        if not _alike(again, about):
            problems.append("The verdict does not follow from the answers: recomputing it gives a different one.")
    if project is not None:
        problems += _check_project(content, project)
    return problems


def _check_project(content: Mapping[str, Any], project: Project) -> list[str]:
    if project.id != content["project"]["id"]:
        return ["The certificate is about another project."]
    problems = []
    log = content["project"]["log"]
    document = project.document
    transforms = project.state.transforms
    if project.fingerprint(log["generation"]) != log["digest"]:
        problems.append(f"The log does not hold event {log['generation']}, after which the certificate was made.")
    for role, known in content["images"].items():
        record = document.images.get(role)
        if record is None or record.content_hash != known:
            problems.append(f"The {role.replace('_', ' ')} is not the one that the certificate was made with.")
    if document.targets.content_hash != content["targets"]["hash"]:
        problems.append("The targets are not those that the certificate was made with.")
    for name, about in content["transforms"].items():
        if about["hashes"] and (name not in transforms or list(transforms[name].hashes) != about["hashes"]):
            problems.append(f"The transform {name!r} is not the one that the certificate was made with.")
    return problems + project.image_problems()


def _alike(one: Any, other: Any) -> bool:
    """Whether plain values agree, numbers to rounding."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, int | float):
        return bool(np.isclose(one, other, rtol=1e-6, atol=1e-9))
    return bool(one == other)


class AuditWatch:
    """A project's audit while it is being annotated; its verdict is computed when an answer or a transform changed.

    It may be looked at after every answer: what is proven keeps its error rate.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._last: tuple[object, AuditVerdict | None] | None = None

    def verdict(self) -> AuditVerdict | None:
        """Return the verdict; None with fewer than two transforms or without an answer."""
        with self.project.lock:
            state = self.project.state
            answers = tuple(
                sorted(
                    (number, who, cell.answer.generation if cell.answer else 0, cell.disabled)
                    for (who, number), cell in state.cells.items()
                    if state.queries[state.queries[number].location].audit is not None
                )
            )
            transforms = tuple((name, record.generation) for name, record in state.transforms.items())
            key = answers, transforms, len(state.unsealed), len(state.excluded)
        if self._last is None or self._last[0] != key:
            self._last = key, self._computed() if len(transforms) > 1 and answers else None
        return self._last[1]

    def _computed(self) -> AuditVerdict | None:
        try:
            return project_audit(self.project, project_comparison(self.project))
        except WarpgaugeError:  # a transform that cannot be read, which is shown elsewhere
            return None
