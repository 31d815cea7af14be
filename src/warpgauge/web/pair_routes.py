"""The page of all pairs: a rater's own, the organiser's table, assignments, people, and everything in one archive."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from warpgauge.display import csv_text
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation import certify_project
from warpgauge.io.landmarks.writer import write_landmarks
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.web.auth import Asking, Organising, Person, new_token, token_hash
from warpgauge.web.catalogue import Pair
from warpgauge.web.failures import WRITE_REFUSALS, NotFoundError
from warpgauge.web.roster import shared_out
from warpgauge.web.summaries import Summary, Work
from warpgauge.web.wire import RaterRequest
from warpgauge.web.wire_pairs import (
    AssignedAnswer,
    AssignRequest,
    OwnPairsAnswer,
    PairsAnswer,
    PersonAnswer,
    ShareOutRequest,
)

if TYPE_CHECKING:
    from warpgauge.web.site import Site

_FIGURES = ("placed", "skipped", "budget", "shared", "distance", "units", "transforms", "certified", "problem")
router = APIRouter()


async def _site(request: Request) -> Any:
    return request.state.site


AtSite = Annotated[Any, Depends(_site)]
"""The projects that a request is about (`Site`)."""


@router.get("/api/mine", response_model=OwnPairsAnswer)
def mine(site: AtSite, asking: Asking) -> dict[str, Any]:
    """Return the pairs assigned to whoever asks, and what is left in each."""
    pairs = site.catalogue.pairs()
    own = [pairs[key] for key in site.roster.pairs_of(asking.name) if key in pairs]
    rows = [_own(site, pair, asking.name) for pair in own]
    done = sum(row["left"] == 0 for row in rows)
    due = [pair for pair, row in zip(own, rows, strict=True) if row["left"] != 0 and row["problem"] is None]
    if due:
        site.shelf.expect(due[0])
    return {"rater": asking.name, "role": asking.role, "pairs": rows, "done": done}


def _own(site: Site, pair: Pair, name: str) -> dict[str, Any]:
    summary: Summary = site.summaries.now(pair)
    work = summary.work.get(name, Work())
    left = None if summary.budget is None else max(0, summary.budget - work.placed)
    told = {"placed": work.placed, "skipped": work.skipped, "last": work.last, "left": left}
    problem = None if summary.problem is None else "This pair cannot be used now; the organiser sees why."
    return {"key": pair.key, "name": pair.name, "address": site.address(pair), **told, "problem": problem}


@router.get("/api/pairs", response_model=PairsAnswer)
def pairs(site: AtSite, organising: Organising) -> dict[str, Any]:
    """Return all pairs and people; pairs whose logs have changed are counted meanwhile."""
    found, assigned = site.catalogue.pairs(), site.roster.assigned()
    site.summaries.follow(found.values())
    rows = [_row(site, pair, assigned.get(key, [])) for key, pair in found.items()]
    people = [_person(site, name, rows) for name in site.roster.state.raters]
    return {"pairs": rows, "raters": people, "open": len(site.shelf.open_keys), "most_open": site.shelf.most}


def _row(site: Site, pair: Pair, raters: list[str]) -> dict[str, Any]:
    known = site.summaries.known(pair.key)
    told = vars(known or Summary())
    return {
        **told,
        "work": {name: vars(work) for name, work in told["work"].items()},
        "key": pair.key,
        "name": pair.name,
        "address": site.address(pair),
        "counted": known is not None,
        "raters": raters,
    }


def _person(site: Site, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    record = site.roster.state.raters[name]
    work = [row["work"][name] for row in rows if name in row["work"]]
    return {
        "name": name,
        "role": record.role,
        "has_link": bool(record.token_hash),
        "revoked": record.revoked,
        "pairs": sum(name in row["raters"] for row in rows),
        "placed": sum(one["placed"] for one in work),
        "skipped": sum(one["skipped"] for one in work),
    }


@router.post("/api/assign", response_model=AssignedAnswer, responses=WRITE_REFUSALS)
def assign(body: AssignRequest, site: AtSite, organising: Organising) -> dict[str, Any]:
    """Assign pairs to raters, or take them from them; answers that they gave stay."""
    known = site.catalogue.pairs()
    missing = next((key for key in body.pairs if key not in known), None)
    if missing is not None and body.action == "assign":
        raise NotFoundError(f"There is no pair {missing!r}.")
    _check_raters(site, body.raters)
    wanted = body.action == "assign"
    changes = {
        name: [key for key in dict.fromkeys(body.pairs) if site.roster.is_assigned(name, key) != wanted]
        for name in dict.fromkeys(body.raters)
    }
    added, removed = (changes, {}) if wanted else ({}, changes)
    site.roster.assign(added, removed, by=organising.name)
    return {"changed": sum(map(len, changes.values()))}


@router.post("/api/share-out", response_model=AssignedAnswer, responses=WRITE_REFUSALS)
def share_out(body: ShareOutRequest, site: AtSite, organising: Organising) -> dict[str, Any]:
    """Assign all pairs evenly, a share of them to two raters."""
    _check_raters(site, body.raters)
    raters, taken = list(dict.fromkeys(body.raters)), site.roster.assigned()
    if body.overlap > 0 and len(raters) < 2:
        raise InvalidInputError("Pairs for two raters need two raters: choose another one, or an overlap of 0.")
    load = {name: len(site.roster.pairs_of(name)) for name in raters}
    given = shared_out(list(site.catalogue.pairs()), raters, load, taken, body.overlap)
    site.roster.assign(given, {}, by=organising.name)
    return {"changed": sum(map(len, given.values()))}


def _check_raters(site: Site, names: list[str]) -> None:
    known = site.roster.state.raters
    for name in names:
        if name not in known or known[name].revoked:
            raise NotFoundError(f"There is no rater {name!r}; make a link for them first.")


@router.post("/api/people", response_model=PersonAnswer, responses=WRITE_REFUSALS)
def people(body: RaterRequest, request: Request, site: AtSite, organising: Organising) -> dict[str, Any]:
    """Register a person or give them a new link (its secret is shown this once), or revoke them."""
    if body.name == organising.name:
        raise InvalidInputError("You cannot change your own role or link here.")
    secret = None
    if body.action == "revoke":
        if body.name not in site.roster.state.raters:
            raise NotFoundError("There is no registered person of that name.")
        site.roster.revoke_rater(body.name, by=organising.name)
    else:
        secret = new_token()
        site.roster.add_rater(body.name, body.role, token_hash=token_hash(secret), by=organising.name)
    site.gate.renew()
    link = None if secret is None else f"{request.state.base}/?token={secret}"
    return {"name": body.name, "role": site.roster.state.role(body.name), "link": link}


@router.get("/api/export", response_class=Response, include_in_schema=True)
def export(site: AtSite, organising: Organising) -> Response:
    """Return marks, fused marks and certificates of all pairs, and the table, in one ZIP archive.

    Sealed answers are left out, as in ``warpgauge export``; what could not be written stands in ``problems.csv``.
    """
    handle, path = tempfile.mkstemp(prefix="warpgauge-export-", suffix=".zip")
    os.close(handle)
    try:
        _pack(site, Path(path), organising)
    except BaseException:
        Path(path).unlink()
        raise
    return FileResponse(
        path,
        media_type="application/zip",
        filename="warpgauge-pairs.zip",
        background=BackgroundTask(Path(path).unlink),
    )


def _pack(site: Site, aim: Path, organising: Person) -> None:
    assigned, problems = site.roster.assigned(), list[tuple[str, str]]()
    table: list[list[Any]] = [["pair", "raters", *_FIGURES]]
    with zipfile.ZipFile(aim, "w", zipfile.ZIP_DEFLATED) as packed, tempfile.TemporaryDirectory() as folder:
        for key, pair in site.catalogue.pairs().items():
            summary = site.summaries.now(pair, audit=True)
            work = summary.work.values()
            told = {**vars(summary), "placed": sum(w.placed for w in work), "skipped": sum(w.skipped for w in work)}
            table.append([pair.name, " ".join(assigned.get(key, [])), *(told[name] for name in _FIGURES)])
            try:
                for file in _files(pair, summary, Path(folder), organising):
                    packed.write(file, f"{key}/{file.name}")
                    file.unlink()
            except (WarpgaugeError, OSError) as error:
                problems.append((pair.name, str(error)))
        packed.writestr("pairs.csv", csv_text(table))
        packed.writestr("problems.csv", csv_text([("pair", "problem"), *problems]))


def _files(pair: Pair, summary: Summary, folder: Path, organising: Person) -> Iterator[Path]:
    """Write the files of one pair and return them one by one."""
    with Project.open(pair.folder, check_images=False) as project:
        session = Session(project, rater=organising.name)
        for name, fused in (("marks", False), ("fused", True)):
            found = session.landmarks(fused=fused)
            if len(found) or len(found.skips):
                file = folder / f"{name}.csv"
                fixed, moving = project.fixed_grid, project.moving_grid
                write_landmarks(found, file, None, format="csv", lossy=True, fixed_grid=fixed, moving_grid=moving)
                yield file
        if summary.certificate is not None:
            file = folder / "certificate.json"
            file.write_text(certify_project(project, signed_off_by=organising.name).to_json(), encoding="utf-8")
            yield file
