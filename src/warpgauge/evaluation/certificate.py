"""Certificates: the model's verdict and the audit's side by side, with the data needed to check them.

A certificate is JSON. Its digest covers everything else in it. While answers are sealed it holds a commitment to them
(a hash) instead of the answers; once they are opened, it holds them, so that anybody can compute the verdict again.
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
from warpgauge.display import counted, html_table, text_table
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation.audit import AuditData, audit_data, family_of
from warpgauge.evaluation.columns import PRIMARY
from warpgauge.evaluation.exact_verdict import CONFIDENCE, ExactVerdict, contradicting, exact_verdict
from warpgauge.evaluation.project_evaluation import evaluate_comparison, project_centre, project_comparison
from warpgauge.evaluation.result import Evaluation
from warpgauge.evaluation.sentences import region_words
from warpgauge.io.files import one_line, read_text, replace_text
from warpgauge.project import Project
from warpgauge.project.events import ChangeSettings
from warpgauge.session.seals import unseal as unseal_project

FORMAT, SCHEMA = "warpgauge certificate", 5
_COMMITTED = (
    "population", "targets", "probabilities", "rounds", "answered", "matches", "covariances", "sealed", "moved",
    "waiting",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Certificate:
    """Two verdicts on a project's transforms.

    Attributes
    ----------
    content : dict
        All of it, as plain values; ``content["digest"]`` covers the rest.
    verdict : ExactVerdict
        The audit's.
    evaluation : Evaluation or None
        The model's, from answers that are not sealed; None where there are none.
    """

    content: dict[str, Any]
    verdict: ExactVerdict
    evaluation: Evaluation | None = None

    @property
    def certified(self) -> bool:
        """Whether the audit shows which transform is best, independent of the model."""
        return self.verdict.certified

    @property
    def contradictions(self) -> list[str]:
        """Where the two verdicts contradict each other and what that means, one sentence per contradiction."""
        return list(self.content["contradictions"])

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return heads and rows: both verdicts side by side."""
        return self.verdict.table((self.content["model_based"] or {}).get("methods", {}))

    @property
    def title(self) -> str:
        """The number of random answers and of targets."""
        about = self.content["audit"]
        return f"From random answers at {about['usable']} of {counted(about['population'], 'target')}"

    @property
    def sentences(self) -> list[str]:
        """Both verdicts, missing answers, contradictions, and reasons for caution."""
        model = self.content["model_based"]
        found = [
            f"Audit: {self.content['verdict']}",
            *self.verdict.further,
            f"Model: {model['sentence'] if model else 'no verdict, because all answers are sealed.'}",
        ]
        found += [f"contradiction: {one}" for one in self.contradictions]
        if model and not self.contradictions:
            found.append("The two verdicts do not contradict each other.")
        return [*found, *self.notes]

    @property
    def late(self) -> list[str]:
        """Transforms that were added after the answers were opened."""
        return _late(self.content)

    @property
    def notes(self) -> list[str]:
        """The last of `sentences`: what to keep in mind, which commands print to standard error."""
        return [f"note: {one}" for one in content_notes(self.content)]

    def to_json(self) -> str:
        """Return the certificate as it is written to a file."""
        return content_text(self.content)

    def __str__(self) -> str:
        return "\n".join([text_table(*self.table(), self.title), "", *self.sentences])

    def __repr__(self) -> str:
        return f"Certificate({self.content['verdict']!r})"  # the content is as long as its answers

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.title, after=self.sentences)


def content_text(content: Mapping[str, Any]) -> str:
    """Return a certificate's content as it is written to a file."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def content_notes(content: Mapping[str, Any]) -> list[str]:
    """Return what to keep in mind about a certificate: how somebody could have known its draws or its answers."""
    about, named = content["audit"], ", ".join(_late(content))
    found = []
    if named:
        found.append(f"added after the answers were opened, so they may have used the answers: {named}")
    if about["seeded"]:
        found.append("somebody set the seed of the draws (audit_seed), and could foresee them")
    if about["redrawn"]:
        found.append(
            f"{counted(about['redrawn'], 'drawn question')} were never asked, because transforms or settings "
            "changed and questions were drawn anew"
        )
    if about["elsewhere"]:
        found.append(
            f"{counted(about['elsewhere'], 'random draw')} of questions about these images, made on this "
            "computer, are not in this project (a copy of it, or another project): who kept the draw that suits "
            "has a verdict without its confidence"
        )
    if content["left_out"]:
        left = ", ".join(content["left_out"])
        found.append(f"other transforms of the project, which the confidence allows for: {left}")
    return found


def _late(content: Mapping[str, Any]) -> list[str]:
    return [name for name, one in content["transforms"].items() if one["after_opening"]]


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of a certificate's content, excluding the digest itself."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def certify_project(
    project: Project,
    transforms: Mapping[str, Any] | None = None,
    *,
    level: float = CONFIDENCE,
    seed: int = 0,
    signed_off_by: str = "",
    out: str | PathLike[str] | None = None,
    unseal: bool = False,
    evaluation: Evaluation | None = None,
    created: datetime | None = None,
) -> Certificate:
    """Certify a project's transforms: by its model and by its audit.

    Parameters
    ----------
    project : Project
    transforms : mapping of name to transform, optional
        All transforms of the project by default.
    level : float
        Of the audit's bounds and decisions.
    seed : int
        Of samples and resampling.
    signed_off_by : str
        Who answers for it; stands in the certificate.
    out : path, optional
        Write the certificate (JSON) here.
    unseal : bool
        Open the sealed answers once the file is written, and record that in the log: from then on they are used like
        all others. The certificate then holds the answers.
    evaluation : Evaluation, optional
        The model's verdict on the same transforms, where it is known already.
    created : datetime, optional
        Now by default.
    """
    if unseal and out is None:
        raise InvalidInputError("Opened answers have to stand in a file; name one: out='certificate.json'.")
    if transforms is None:
        transforms = {name: project.transform(name) for name in project.transform_names()}
    comparison = project_comparison(project, transforms) if evaluation is None else evaluation.comparison
    if evaluation is None and len(comparison.annotations):
        centre = project_centre(project)
        evaluation = evaluate_comparison(comparison, centre=centre, seed=seed, further=False, with_trust=False)
    data = audit_data(project, comparison.among(transforms))
    family = family_of(project.state, transforms)
    verdict = exact_verdict(data, level=level, family=family, units=project.units)
    model = None if evaluation is None else _model(evaluation, list(transforms))
    contradictions = [] if model is None else contradicting(verdict, model, project.units)
    with project.lock:
        content: dict[str, Any] = {
            "format": FORMAT,
            "schema": SCHEMA,
            "created": (created or datetime.now(UTC)).isoformat(timespec="seconds"),
            "signed_off_by": signed_off_by,
            "software": {"warpgauge": __version__, "numpy": np.__version__},
            **_provenance(project, transforms),
            "seeds": {"intervals": seed, "rounds": [drawn.seed for drawn in project.state.audits]},
            "left_out": [name for name in project.state.transforms if name not in transforms],
            "audit": _audit(project, data),
            "commitment": commitment(data),
            "answers": data.to_dict() if unseal or not data.sealed.any() else None,
            "design_based": verdict.to_dict(),
            "model_based": model,
            "contradictions": contradictions,
            "verdict": verdict.sentence,
        }
        content["digest"] = digest_of(content)
        if out is not None:
            replace_text(Path(out), content_text(content))
        if unseal and data.sealed.any():
            try:
                unseal_project(project, certificate=content["digest"])
            except BaseException:
                Path(str(out)).unlink(missing_ok=True)  # it holds answers that are still sealed
                raise
    return Certificate(content, verdict, evaluation)


def project_certificate(project: Project, evaluation: Evaluation) -> Certificate | None:
    """Return the certificate of a project beside a verdict of its model; None without enough audit answers."""
    names = project.transform_names()
    if not project.state.audits or not names or not set(names) <= set(evaluation.transforms):
        return None
    try:
        chosen = {name: evaluation.transforms[name] for name in names}
        return certify_project(project, chosen, evaluation=evaluation)
    except InvalidInputError:
        return None


def commitment(data: AuditData) -> str:
    """Return a hash of the draws and the answers behind the audit's verdict.

    What follows from them and from the transforms is not covered: another version may round it differently.
    """
    content = data.to_dict()
    content = {key: content[key] for key in _COMMITTED}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def _model(result: Evaluation, names: list[str]) -> dict[str, Any]:
    order = list(result.scores)
    rows = [order.index(name) for name in names]
    return {
        "methods": {
            name: {"rms": float(result.scores[name].score[PRIMARY]),
                   "interval": [float(one) for one in result.scores[name].interval[PRIMARY]]}
            for name in names
        },
        "level": 0.9,
        "names": names,
        "win_probability": result.win_probability[np.ix_(rows, rows)].tolist(),
        "annotations": result.annotations,
        "sentence": str(result.verdict),
    }  # fmt: skip


def _provenance(project: Project, transforms: Mapping[str, Any]) -> dict[str, Any]:
    state = project.state
    opened = max((one.generation for one in state.unsealed), default=None)
    return {
        "project": {
            "id": project.id,
            "name": project.folder.resolve().name,
            "units": project.units,
            "log": {"generation": state.generation, "digest": project.fingerprint()},
            "opened_at": opened,
        },
        "images": {role: record.content_hash for role, record in sorted(project.document.images.items())},
        "targets": {
            "hash": project.document.targets.content_hash,
            "count": len(project.targets),
            "region": region_words(project.document.targets.region),
        },
        "transforms": {
            name: {
                "hashes": list(state.transforms[name].hashes) if name in state.transforms else [],
                "added_at": state.transforms[name].generation if name in state.transforms else None,
                "after_opening": opened is not None and name in state.transforms
                and state.transforms[name].generation > opened,
            }
            for name in transforms
        },
    }  # fmt: skip


def _audit(project: Project, data: AuditData) -> dict[str, Any]:
    """Describe the design: rounds, questions, skips, and what an organiser could have changed about the draws."""
    state = project.state
    questions = [query for query in state.queries if query.audit is not None]
    places = [query.audit for query in questions if query.audit is not None]
    asked = {drawn.number: sum(number == drawn.number for number, _ in places) for drawn in state.audits}
    return {
        "asked_at_candidates": sum(query.candidate is not None for query in questions),
        "rounds": [
            {
                "design": drawn.design,
                "sealed": drawn.sealed,
                "drawn_at": drawn.generation,
                "questions": len(drawn.targets),
                "asked": asked[drawn.number],
            }
            for drawn in state.audits
        ],
        "redrawn": sum(len(drawn.targets) - asked[drawn.number] for drawn in state.audits[:-1]),
        "seeded": _was_seeded(project),
        "population": data.draws.population,
        "reached": len(data.draws),
        "answered": int(data.answered.sum()),
        "usable": int(data.usable.sum()),
        "not_answered": int((~data.answered).sum()),
        "moved": data.moved,
        "waiting": data.waiting,
        "sealed": int(data.sealed.sum()),
    }


def _was_seeded(project: Project) -> bool:
    """Return whether the seed of the draws was ever a setting, which its owner could foresee the draws by."""
    if project.document.settings.audit_seed is not None:
        return True
    changes = (event.changes for event in project.events() if isinstance(event, ChangeSettings))
    return any(each.get("audit_seed") is not None for each in changes)


def read_certificate(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a certificate's content, without checking it."""
    try:
        content = json.loads(read_text(path, "certificate"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"{str(path)!r} is not JSON: {one_line(error)}.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("schema") != SCHEMA:
        raise FileFormatError(
            f"{str(path)!r} is not a warpgauge certificate, or was written in another version of the format."
        )
    return content


def check_certificate(content: Mapping[str, Any], project: Project | None = None) -> list[str]:
    """Return the problems of a certificate, one sentence each; an empty list if everything is confirmed.

    Parameters
    ----------
    content : mapping
        As `read_certificate` returns it.
    project : Project, optional
        Checked too: images, transforms, targets and the log, and the verdict is computed again from its answers.
    """
    problems = []
    if digest_of(content) != content.get("digest"):
        problems.append("The digest does not match: the file was changed after it was written.")
    if content.get("answers") is not None:
        problems += _check_answers(content, AuditData.from_dict(content["answers"]))
    if project is not None:
        problems += _check_project(content, project)
    return problems


def _check_answers(content: Mapping[str, Any], data: AuditData) -> list[str]:
    problems = []
    if commitment(data) != content["commitment"]:
        problems.append("The answers are not those that the certificate was made with.")
    if not _same_verdict(_again(content, data).to_dict(), content["design_based"]):
        problems.append("The verdict does not follow from the answers: recomputing it gives a different one.")
    return problems


def _again(content: Mapping[str, Any], data: AuditData) -> ExactVerdict:
    """Compute the verdict of a certificate again."""
    about = content["design_based"]
    return exact_verdict(data, level=about["level"], family=about["family"], units=about["units"])


def _check_project(content: Mapping[str, Any], project: Project) -> list[str]:
    problems = []
    if project.id != content["project"]["id"]:
        return ["The certificate is about another project."]
    log = content["project"]["log"]
    if project.fingerprint(log["generation"]) != log["digest"]:
        problems.append(f"The log does not hold event {log['generation']}, after which the certificate was made.")
    for role, known in content["images"].items():
        record = project.document.images.get(role)
        if record is None or record.content_hash != known:
            problems.append(f"The {role.replace('_', ' ')} is not the one that the certificate was made with.")
    if project.document.targets.content_hash != content["targets"]["hash"]:
        problems.append("The targets are not those that the certificate was made with.")
    known_transforms = project.state.transforms
    for name, about in content["transforms"].items():
        if about["hashes"] and (name not in known_transforms or list(known_transforms[name].hashes) != about["hashes"]):
            problems.append(f"The transform {name!r} is not the one that the certificate was made with.")
    problems += project.image_problems()
    if not problems and content["answers"] is None and project.state.generation == log["generation"]:
        problems += _check_sealed(content, project)
    return problems


def _check_sealed(content: Mapping[str, Any], project: Project) -> list[str]:
    """Recompute the verdict from an unchanged project, for a certificate that does not hold the answers."""
    transforms = {name: project.transform(name) for name in content["transforms"]}
    data = audit_data(project, project_comparison(project, transforms).among(transforms))
    same = commitment(data) == content["commitment"]
    if same and _same_verdict(_again(content, data).to_dict(), content["design_based"]):
        return []
    return ["The verdict does not follow from the project's answers: recomputing it gives a different one."]


def _same_verdict(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two verdicts agree in all but their sentences, whose wording may differ between versions."""
    words = ("sentence", "further")
    return _alike(*({key: value for key, value in each.items() if key not in words} for each in (one, other)))


def _alike(one: Any, other: Any) -> bool:
    """Whether plain values agree, numbers to rounding."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, int | float):
        return bool(np.isclose(one, other, rtol=1e-6, atol=1e-9))
    return bool(one == other)
