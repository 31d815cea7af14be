"""Certificates of pairs that are projects with an audit: kept among the results, and named on the leaderboard.

A certificate is the one that ``warpgauge certify`` makes, about the transforms in the project's log. It is made once
for each state of that log. Its file may hold the raters' answers, so that a result of a study names only what may be
published of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import certify_project, read_certificate
from warpgauge.evaluation.certificate import content_notes, content_text, digest_of
from warpgauge.io.files import replace_text
from warpgauge.io.inside import file_name
from warpgauge.project import Project
from warpgauge.study.description import Study
from warpgauge.study.pairs import Job

FOLDER = "certificates"


@dataclass(frozen=True)
class PairCertificate:
    """What the random questions of a pair's project show.

    Attributes
    ----------
    pair : str
    sentence : str
        The verdict, or why there is no certificate.
    certified : bool
        Whether it names the best transform.
    decided : tuple of (better, worse)
        Every two transforms of which one is proven to be better.
    project, digest, file : str or None
        None where there is no certificate. The file is in the folder of certificates among the results.
    notes : tuple of str
        What to keep in mind: contradictions with the model, and how draws or answers could have been known.
    """

    pair: str
    sentence: str
    certified: bool = False
    decided: tuple[tuple[str, str], ...] = ()
    project: str | None = None
    digest: str | None = None
    file: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, study: Study, pair: str, content: Mapping[str, Any], file: Path) -> PairCertificate:
        """Return what may be published of a certificate."""
        about = content["design_based"]
        proven = [one for one in (*about["contest"], *about["pairs"]) if one["better"] is not None]
        sides = [(one["better"], one["second" if one["better"] == one["first"] else "first"]) for one in proven]
        # A file that somebody submits under the name of a certified transform is not what was certified.
        named = [one.name for one in study.methods if one.patterns and one.name in content["transforms"]]
        other = [f"{name} is the project's transform, not the file that this study has for {name}" for name in named]
        return cls(
            pair,
            content["verdict"],
            about["best"] is not None,
            tuple(dict.fromkeys(sides)),
            content["project"]["name"],
            content["digest"],
            file.name,
            (*other, *content["contradictions"], *content_notes(content)),
        )


def certificate_file(folder: Path, pair: str, log: str) -> Path:
    """Return the file of a pair's certificate for one state of its project's log."""
    return folder / FOLDER / f"{file_name(pair)}-{log.rpartition(':')[2][:24]}.json"


def kept(file: Path, log: str) -> dict[str, Any] | None:
    """Read a certificate; None where there is none, or one that was changed or is of another log."""
    try:
        content = read_certificate(file) if file.is_file() else None
    except WarpgaugeError:
        return None
    if content is None or digest_of(content) != content.get("digest"):
        return None
    return content if content["project"]["log"]["digest"] == log else None


def keep(file: Path, content: Mapping[str, Any]) -> None:
    """Write a certificate as ``warpgauge certify --check`` reads it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, content_text(content))


def certified(job: Job) -> dict[str, Any]:
    """Return the content of the certificate of a pair that is a project; raises where its answers allow none."""
    assert job.pair.project is not None
    with Project.open(job.pair.project, check_images=False) as project:
        return certify_project(project).content
