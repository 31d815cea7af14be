"""The values of a project: events, the entries of its log, and what the state is made of.

All are frozen, so that a state can be copied shallowly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats, readonly
from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import text_problem

# Events, the entries of the log: a `Draft` is what a caller wants written, an `Event` is what stands in the log.
#
# What each kind of event holds, who may write it and what it does is the table in `warpgauge.project.kinds`.

SKIP_REASONS: tuple[str, ...] = ("not_visible", "ambiguous", "torn_or_missing", "outside_image", "other")
ROLES: tuple[str, ...] = ("rater", "organiser", "viewer")
ORIGINS: tuple[str, ...] = ("suggested", "repeat", "again", "given", "volunteered", "audit", "control")
DESIGNS: tuple[str, ...] = ("uniform", "disagreement")
LARGEST_NAME = 100


@dataclass(frozen=True)
class Draft:
    """An event that is to be written.

    Attributes
    ----------
    kind : str
        A key of `warpgauge.project.kinds.KINDS`.
    rater : str
        Who acts.
    query : int, optional
        Number of the query that it is about.
    payload : mapping
        What the kind demands; plain JSON values.
    duration : float, optional
        Seconds that the rater took.
    base_generation : int, optional
        Generation of the state that the rater saw; a newer change by the same rater of the same query is a conflict.
    """

    kind: str
    rater: str
    query: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    duration: float | None = None
    base_generation: int | None = None


@dataclass(frozen=True)
class Event(Draft):
    """An event of the log; ``generation`` counts from 1 without gaps, ``time`` is UTC, ``digest`` chains the log."""

    generation: int = 0
    time: str = ""
    digest: str = ""


def canonical(payload: Mapping[str, Any]) -> str:
    """Write a payload as JSON text, always the same for the same values."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def chained(previous: str, row: tuple[Any, ...]) -> str:
    """Digest of a row of the log and of all rows before it, through the digest of the row before."""
    text = json.dumps([previous, *row], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def checked_name(name: object, what: str = "The name of a rater") -> str:
    """Refuse a name that could not be shown, stored or distinguished."""
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > LARGEST_NAME:
        raise InvalidInputError(
            f"{what} must be 1 to {LARGEST_NAME} characters without blanks at the ends, got {name!r}."
        )
    if "\n" in name or "\t" in name or text_problem(name):
        raise InvalidInputError(f"{what} {text_problem(name) or 'has a line break or tab'}; use plain characters.")
    return name


# The values that the state of a project is made of; all frozen, so that a state can be copied shallowly.


@dataclass(frozen=True)
class Ellipse:
    """An ellipse or ellipsoid as it was drawn: half-lengths, and orthonormal directions as columns of ``axes``."""

    half_lengths: tuple[float, ...]
    axes: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Flag:
    """Why a placement was asked about before it was saved.

    Attributes
    ----------
    outside : float or None
        Distance from the moving image, in world units, where the point lies outside it.
    deviation : float or None
        Mahalanobis distance from what the other landmarks predict, where that is known well and the point lies beyond
        its 99.9 % region.
    confirmed : bool
        Whether the rater was asked and kept it; False for placements by a program.
    """

    outside: float | None
    deviation: float | None
    confirmed: bool


@dataclass(frozen=True)
class Placement:
    """A match placed by a rater.

    Attributes
    ----------
    point : tuple of float
        In the moving image's world.
    covariance : d tuples of d floats
        Of the point, in squared world units.
    alpha : float
        The ellipse drawn holds the true match with probability ``1 - alpha``.
    ellipse : Ellipse or None
        What was drawn, where an ellipse was.
    generation, time, duration
        Of the event that placed or last edited it.
    fixed : tuple of float or None
        The point of the fixed image that was marked instead of the queried one, where the rater moved it.
    flag : warpgauge.project.Flag or None
        Why it was asked about, if it was.
    snapped_from : tuple of float or None
        Where the rater's mark was before a proposal from the images around it was taken, if one was.
    unaided : bool
        Whether such proposals were withheld here, in a project that has them.
    """

    point: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    alpha: float
    ellipse: Ellipse | None
    generation: int
    time: str
    duration: float | None
    fixed: tuple[float, ...] | None = None
    flag: Flag | None = None
    snapped_from: tuple[float, ...] | None = None
    unaided: bool = False

    @property
    def point_world(self) -> Floats:
        """The point as an array (d,)."""
        return readonly(np.array(self.point))

    @property
    def covariance_world(self) -> Floats:
        """The covariance as an array (d, d)."""
        return readonly(np.array(self.covariance))

    @cached_property
    def smallest_sd(self) -> float:
        """Smallest standard deviation of any direction, in world units."""
        return float(np.sqrt(np.linalg.eigvalsh(self.covariance_world)[0]))


@dataclass(frozen=True)
class Skipped:
    """A query that a rater declined, and why."""

    reason: str
    text: str
    generation: int
    time: str
    duration: float | None


Answer = Placement | Skipped | None


@dataclass(frozen=True)
class Proposal:
    """A better place for a mark that a rater asked the images for (Snap), whether it was taken or not.

    Attributes
    ----------
    fixed, mark : tuple of float
        The point of the fixed image, and the rater's mark in the moving one.
    proposed : tuple of float or None
        What was shown; None where nothing stood out.
    generation : int
        When it was asked for.
    """

    fixed: tuple[float, ...]
    mark: tuple[float, ...]
    proposed: tuple[float, ...] | None
    generation: int


@dataclass(frozen=True)
class Cell:
    """What a rater has said to a query; ``disabled`` keeps a placement out of the model."""

    answer: Answer = None
    disabled: bool = False


@dataclass(frozen=True)
class QueryRecord:
    """A queried location.

    Attributes
    ----------
    number : int
        Place in the shared list, from 0.
    point : tuple of float
        In the fixed image's world.
    candidate : int or None
        Which candidate it is; None for a location from elsewhere.
    origin : {"suggested", "repeat", "again", "given", "volunteered", "audit", "control"}
        Chosen by the model; a location asked a second time to measure the error within raters; asked again by the
        organiser; brought along by an import; chosen by the rater; drawn at random for an audit; or a control
        question, whose match is known.
    same_as : int or None
        The query that a repeat or a further asking repeats. Raters are not shown this.
    for_rater : str or None
        Only this rater is asked; None for all.
    gain : float or None
        Expected gain when it was chosen, in nats.
    name : str
        Of a given location.
    generation : int
        When it entered the list.
    batch : str or None
        The import that brought it along.
    audit : (int, int) or None
        Round and place in it of an audit question. Raters are not shown this.
    known : tuple of float or None
        The known match of a control question. Raters are not shown this.
    """

    number: int
    point: tuple[float, ...]
    candidate: int | None
    origin: str
    same_as: int | None
    for_rater: str | None
    gain: float | None
    name: str
    generation: int
    batch: str | None = None
    audit: tuple[int, int] | None = None
    known: tuple[float, ...] | None = None

    @property
    def location(self) -> int:
        """Number of the first query at this location."""
        return self.number if self.same_as is None else self.same_as

    def asks(self, rater: str) -> bool:
        """Return whether this rater is asked."""
        return self.for_rater is None or self.for_rater == rater


@dataclass(frozen=True)
class AuditRound:
    """Targets drawn at random, in the order in which they are asked.

    Attributes
    ----------
    number : int
        From 0.
    design : {"uniform", "disagreement"}
        Whether all targets were equally likely, or those at which transforms disagree more so.
    sealed : bool
        Whether the answers are kept from exports, maps and predictions until they are unsealed.
    population, drawn_before : int
        Number of targets, and how many of them earlier rounds had asked; these could not be drawn again.
    seed : int
        Of the draw.
    targets : tuple of int
        Drawn rows of the project's targets.
    points, candidates : tuple
        Where each is asked (fixed world), and which candidate that is; None for the target itself.
    probabilities : tuple of float
        Inclusion probability of each in this round; of its first r of b questions, ``r / b`` of it.
    transforms : dict
        Transforms that the design knew, by name, with the generation at which each was added.
    generation : int
        When it was drawn.
    """

    number: int
    design: str
    sealed: bool
    population: int
    drawn_before: int
    seed: int
    targets: tuple[int, ...]
    points: tuple[tuple[float, ...], ...]
    candidates: tuple[int | None, ...]
    probabilities: tuple[float, ...]
    transforms: dict[str, int]
    generation: int


@dataclass(frozen=True)
class RaterRecord:
    """A registered person; ``token_hash`` is opaque here."""

    name: str
    role: str
    token_hash: str | None
    revoked: bool
    generation: int


@dataclass(frozen=True)
class TransformRecord:
    """A registration result that was added; files are relative to the project's folder."""

    name: str
    files: tuple[str, ...]
    hashes: tuple[str, ...]
    options: dict[str, Any]
    generation: int


@dataclass(frozen=True)
class Step:
    """One action in a rater's history: what a cell was before and after it.

    Actions of one ``batch`` (an import) are undone and redone together.
    """

    generation: int
    query: int
    before: Cell
    after: Cell
    batch: str | None = None


def placement_of(event: Event) -> Placement:
    """Read the placement that a ``place`` or ``edit`` event holds."""
    payload, drawn = event.payload, event.payload.get("ellipse")
    ellipse = None
    if drawn is not None:
        ellipse = Ellipse(tuple(drawn["half_lengths"]), tuple(tuple(row) for row in drawn["axes"]))
    return Placement(
        tuple(payload["point"]),
        tuple(tuple(row) for row in payload["covariance"]),
        payload["alpha"],
        ellipse,
        event.generation,
        event.time,
        event.duration,
        tuple(payload["fixed"]) if payload.get("fixed") is not None else None,
        Flag(**payload["flag"]) if payload.get("flag") is not None else None,
        tuple(payload["snapped_from"]) if payload.get("snapped_from") is not None else None,
        bool(payload.get("unaided", False)),
    )
