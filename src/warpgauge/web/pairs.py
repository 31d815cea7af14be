"""The page of all pairs: a rater's own, the organiser's table, assignments and people; figures by the logs alone.

No image is opened and no model is made for a figure, and a log is counted again only when it has changed. A pair that
cannot be read has its sentence instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import Field

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.project import Project, Skip, State
from warpgauge.project.log import Log
from warpgauge.session.queries import placed_count
from warpgauge.web.catalogue import OpenProjects, Pair
from warpgauge.web.desk import Asking, Managing
from warpgauge.web.failures import NotFoundError
from warpgauge.web.wire import Given, PersonName, Role, Sent

logger = logging.getLogger("warpgauge.web")
_ELSEWHERE_SECONDS = 60.0
router = APIRouter()


class WorkAnswer(Given):
    """What one rater has done in one pair."""

    placed: int = 0
    skipped: int = 0
    last: str | None = None


class OwnPairAnswer(Given):
    """A pair that is assigned to whoever asks; nothing about others. ``left`` is null where there is no budget."""

    key: str
    name: str
    address: str
    placed: int
    skipped: int
    left: int | None
    last: str | None
    problem: str | None


class OwnPairsAnswer(Given):
    """What is assigned to whoever asks, in the order of the assignment."""

    rater: str
    role: Role
    pairs: list[OwnPairAnswer]


class Summary(Given):
    """One pair in numbers: what each rater has done, and why the pair cannot be used, if so."""

    work: dict[str, WorkAnswer] = Field(default_factory=dict)
    budget: int | None = None
    problem: str | None = None


class PairAnswer(Summary):
    """A row of the organiser's table; until a log has been read (``counted``) its figures are 0."""

    key: str
    name: str
    address: str
    counted: bool
    raters: list[str]


class PairRaterAnswer(Given):
    """A registered person; without a link they were revoked."""

    name: str
    role: Role
    has_link: bool


class PairsAnswer(Given):
    """All pairs and people, for the organiser."""

    pairs: list[PairAnswer]
    raters: list[PairRaterAnswer]


Key = Annotated[str, Field(min_length=1, max_length=80)]


class AssignRequest(Sent):
    """Assign pairs to raters, or take them from them."""

    action: Literal["assign", "unassign"]
    raters: Annotated[list[PersonName], Field(min_length=1, max_length=1000)]
    pairs: Annotated[list[Key], Field(min_length=1, max_length=1000)]


class AssignedAnswer(Given):
    """How many assignments were made or taken away."""

    changed: int


class PersonRequest(Sent):
    """Register a person (or give them a new link), or revoke one."""

    action: Literal["add", "revoke"]
    name: PersonName
    role: Role = "rater"


class PersonAnswer(Given):
    """A link with a secret that is shown this once; none where a person was revoked."""

    link: str | None


@dataclass(frozen=True)
class Counted:
    """A summary, the stamp of the log that it was counted from, when, and the log where it is in a database."""

    stamp: object
    summary: Summary
    time: float
    log: Log | None = None


class Summaries:
    """Summaries of pairs, kept until a log changes; a project that is open already is not opened once more."""

    def __init__(self, projects: OpenProjects) -> None:
        self._projects = projects
        self._counting = threading.Lock()
        self._counted: dict[str, Counted] = {}

    def known(self, key: str) -> Summary | None:
        """Return what was last counted of a pair; None where nothing was yet."""
        counted = self._counted.get(key)
        return None if counted is None else counted.summary

    def now(self, pair: Pair) -> Summary:
        """Return the summary of a pair as its log is now."""
        former = self._counted.get(pair.key)
        log = None
        try:
            stamp = _stamp(pair.folder, None if former is None or former.log is None else former.log.last_generation)
            if former is not None and former.stamp == stamp is not None and former.summary.problem is None:
                return former.summary
            with self._projects.looked_at(pair) as project:
                generation = project.state.generation
                log = project.log
                summary = summary_of(project)
            stamp = stamp or _stamp(pair.folder, lambda: generation)
        except WarpgaugeError as error:
            stamp, summary = None, Summary(problem=str(error))
        except Exception:
            logger.exception("The pair %s cannot be summarised", pair.name)
            stamp, summary = None, Summary(problem="This pair cannot be read; the server's log says more.")
        self._counted[pair.key] = Counted(stamp, summary, time.monotonic(), log)
        return summary

    def follow(self, pairs: Iterable[Pair]) -> None:
        """Count the pairs whose logs have changed, in the background, unless that is under way already."""
        if self._counting.acquire(blocking=False):
            threading.Thread(target=self._follow, args=(list(pairs),), name="warpgauge-table", daemon=True).start()

    def _follow(self, pairs: list[Pair]) -> None:
        try:
            for pair in pairs:
                counted = self._counted.get(pair.key)
                # Whether a log elsewhere has changed is known only once it is asked: those are looked at now and then.
                is_old = counted is None or time.monotonic() - counted.time > _ELSEWHERE_SECONDS
                if is_old or _stamp(pair.folder) is not None:
                    self.now(pair)
        finally:
            self._counting.release()


def summary_of(project: Project) -> Summary:
    """Return the summary of an open project."""
    with project.lock:
        state = project.state
        work = {name: _work(state, name) for name in state.who_answered()}
        problems = project.missing_images()
    return Summary(work=work, budget=project.settings.budget, problem=problems[0] if problems else None)


def _work(state: State, name: str) -> WorkAnswer:
    last = state.last_action.get(name)
    return WorkAnswer(
        placed=placed_count(state, name),
        skipped=sum(isinstance(state.answer(name, query), Skip) for query in state.trails.get(name, ())),
        last=None if last is None else last.time,
    )


def _stamp(folder: Path, last: Callable[[], int] | None = None) -> object:
    """Return what changes with every event of a project's log; ``last`` tells the last event of one elsewhere."""
    document, log = (_status(folder / name) for name in ("project.json", "annotations.sqlite"))
    if log is not None:
        return document, log
    return None if last is None else (document, last())


def _status(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


async def _site(request: Request) -> Any:
    return request.app.state.site


AtSite = Annotated[Any, Depends(_site)]
"""The projects that a request is about (`Site`)."""


@router.get("/api/mine")
def mine(site: AtSite, asking: Asking) -> OwnPairsAnswer:
    """Return the pairs assigned to whoever asks, and what is left in each."""
    pairs = site.catalogue.pairs()
    record = site.people.content.people.get(asking.name)
    keys = [] if record is None else [key for key in record.pairs if key in pairs]
    rows = [_own(site, pairs[key], asking.name) for key in keys]
    return OwnPairsAnswer(rater=asking.name, role=asking.role, pairs=rows)  # type: ignore[arg-type]


def _own(site: Any, pair: Pair, name: str) -> OwnPairAnswer:
    summary: Summary = site.summaries.now(pair)
    work = summary.work.get(name, WorkAnswer())
    left = None if summary.budget is None else max(0, summary.budget - work.placed)
    problem = None if summary.problem is None else "This pair cannot be used now; the organiser sees why."
    return OwnPairAnswer(
        key=pair.key, name=pair.name, address=pair.address, left=left, problem=problem, **work.model_dump()
    )


@router.get("/api/pairs")
def pairs(site: AtSite, managing: Managing) -> PairsAnswer:
    """Return all pairs and people; pairs whose logs have changed are counted meanwhile."""
    found = site.catalogue.pairs()
    people = site.people.content.people
    site.summaries.follow(found.values())
    rows = []
    for key, pair in found.items():
        summary = site.summaries.known(key)
        rows.append(
            PairAnswer(
                key=key,
                name=pair.name,
                address=pair.address,
                counted=summary is not None,
                raters=[name for name, one in people.items() if key in one.pairs],
                **(summary or Summary()).model_dump(),
            )
        )
    raters = [PairRaterAnswer(name=name, role=one.role, has_link=one.token is not None) for name, one in people.items()]
    return PairsAnswer(pairs=rows, raters=raters)


@router.post("/api/assign")
def assign(body: AssignRequest, site: AtSite, managing: Managing) -> AssignedAnswer:
    """Assign pairs to raters, or take them from them; answers that they gave stay."""
    missing = next((key for key in body.pairs if key not in site.catalogue.pairs()), None)
    if missing is not None and body.action == "assign":
        raise NotFoundError(f"There is no pair {missing!r}.")
    return AssignedAnswer(changed=site.people.assign(body.raters, body.pairs, remove=body.action == "unassign"))


@router.post("/api/people")
def change_person(body: PersonRequest, site: AtSite, managing: Managing) -> PersonAnswer:
    """Register a person or give them a new link (its secret is shown this once), or revoke them."""
    if body.name == managing.name:
        raise InvalidInputError("You cannot change your own role or link here.")
    if body.action == "revoke":
        site.people.revoke(body.name)
        return PersonAnswer(link=None)
    return PersonAnswer(link=site.link(site.people.invite(body.name, body.role)))
