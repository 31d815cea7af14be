"""Reading what earlier versions wrote, by the doors that people use."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from command_tools import ask, call
from golden.figures import brief, here
from warpgauge.project import Project
from warpgauge.session import Session
from web.server_tools import served

STORED = Path(__file__).parent / "stored"
LOGS = ("version1", "version2", "version3", "version4")
CERTIFICATES = {"open": "certified", "sealed": "certified-sealed", "opened": "certified-sealed"}


def unpacked(name: str, folder: Path) -> Path:
    """Return a fresh copy of a stored project or study."""
    place = folder / name
    with zipfile.ZipFile(STORED / f"{name}.zip") as packed:
        packed.extractall(place)
    return place


def what_is_seen(folder: Path) -> dict[str, Any]:
    """Return all that commands, exported files, scripts and the page show of a project."""
    seen: dict[str, Any] = {"info": ask("info", folder), "verify": ask("verify", folder)}
    seen["verify"].pop("project", None)
    call("export", folder, folder.parent / "all.json")
    seen["exported"] = json.loads((folder.parent / "all.json").read_text(encoding="utf-8"))
    seen["exported"].pop("program", None)
    with Project.open(folder) as project:
        seen["digests"] = [event.digest for event in project.events()]
        annotations = Session(project).annotations()
        seen["annotations"] = {
            key: getattr(annotations, key).tolist() for key in ("fixed_points", "moving_points", "covariances")
        }
        seen["shift"] = project.transform("shift").map([[1.0, 2.0]]).tolist()
    seen["page"] = {}
    with served(folder, "ann,ben", rater="olga", new_links=True) as server:
        organiser = server.client()
        for path in ("locations", "progress", "project"):
            seen["page"][path] = organiser.get(f"/api/{path}").json()
        for who in ("ann", "ben"):
            seen["page"][f"list of {who}"] = server.client(who).get("/api/list").json()
    for answer in seen["page"].values():
        answer.pop("generation", None)  # registering the links is an event
    return seen


def checked_certificate(kind: str, folder: Path) -> dict[str, Any]:
    """Check a stored certificate, alone and beside the project that it is about."""
    file = STORED / f"certificate-{kind}.json"
    place = unpacked(CERTIFICATES[kind], folder)
    return {
        "alone": ask("certify", "--check", file),
        "in words": call("certify", "--check", file),
        "with its project": ask("certify", "--check", file, place),
    }


def study_told(folder: Path) -> dict[str, Any]:
    """Run a study beside the results that an earlier version kept of it."""
    place = unpacked("study", folder)
    told = ask("benchmark", place / "study.toml", "--out", place / "results")
    for key in ("computed", "cached"):  # a version may compute anew what another one kept
        told.pop(key, None)
    return brief(told)  # type: ignore[no-any-return]


def interface(folder: Path) -> dict[str, Any]:
    """Return the routes of the server with their parameters, and the fields of all that it takes and gives."""
    with served(folder, rater="olga") as server:
        described = server.client().get("/api/openapi.json").json()
    return {
        "routes": {
            f"{method} {path}": {one["name"]: one["in"] for one in route.get("parameters", ())}
            for path, routes in described["paths"].items()
            for method, route in routes.items()
        },
        "fields": {
            name: {
                field: {"needed": field in schema.get("required", ()), **_without_words(one)}
                for field, one in schema.get("properties", {}).items()
            }
            for name, schema in described["components"]["schemas"].items()
        },
    }


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_words(one) for key, one in value.items() if key not in ("description", "title")}
    return [_without_words(one) for one in value] if isinstance(value, list) else value


def record(names: list[str]) -> None:
    """Write what is read from the stored files now."""
    for name in names or [*LOGS, "certificates", "study", "interface"]:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            os.environ["XDG_STATE_HOME"] = text
            if name in LOGS:
                seen = what_is_seen(unpacked(name, folder))
            elif name == "certificates":
                seen = {kind: checked_certificate(kind, folder / kind) for kind in CERTIFICATES}
            elif name == "study":
                seen = study_told(folder)
            else:
                seen = interface(unpacked("version4", folder))
        found = json.dumps({"recorded with": here(), "seen": seen}, ensure_ascii=False, separators=(",", ":"))
        (STORED / f"{name}.json").write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(sys.argv[1:])
