"""The values of a project: entries of its log, placements, and the records that its state is made of.

All are frozen, so that a state can be copied shallowly. Fields marked `SECRET` are never sent to a rater; those marked
`on_wire` are what `warpgauge.web.wire` takes over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import covariance_from_ellipse
from warpgauge.core.arrays import Floats, as_points, readonly
from warpgauge.errors import InvalidInputError
from warpgauge.project.content_checks import Matrix, Vector, alpha, matrix, number, numbers, plain_rows, vector

SKIP_REASONS: tuple[str, ...] = ("not_visible", "ambiguous", "torn_or_missing", "outside_image", "other")
ROLES: tuple[str, ...] = ("rater", "organiser")
REVOKED = "revoked"
ORGANISER = "organiser"
ORIGINS: tuple[str, ...] = ("suggested", "repeat", "again", "given", "volunteered", "audit", "control")
DESIGNS: tuple[str, ...] = ("uniform", "disagreement")


# Metadata of a field that no rater may be sent.
SECRET = {"secret": True}


def on_wire(words: str = "") -> dict[str, str]:
    """Return the metadata of a field that the page sends and gets, with its description there."""
    return {"wire": words}


def secrets_of(record: type) -> frozenset[str]:
    """Names of the fields of a record that no rater may be sent."""
    return frozenset(one.name for one in fields(record) if one.metadata.get("secret"))


@dataclass(frozen=True)
class Stamp:
    """Who did what, and when: everything that an entry of the log says besides its content.

    Attributes
    ----------
    rater : str
        Who acted.
    kind : str
        Of the event.
    query : int or None
        Number of the query that it is about.
    generation : int
        Counts the events of the log from 1, without gaps.
    time : str
        UTC.
    duration : float or None
        Seconds that the rater took.
    """

    rater: str
    kind: str
    query: int | None
    generation: int
    time: str = ""
    duration: float | None = None


@dataclass(frozen=True)
class Entry:
    """An event as it stands in the log: its stamp, and what follows. `read_event` makes an `Event` of it.

    Attributes
    ----------
    payload : mapping
        What the event holds, exactly as it was stored.
    base_generation : int or None
        Generation of the state that the rater saw.
    digest : str
        Of this entry and, through the digest before it, of all earlier ones.
    """

    kind: str
    rater: str
    query: int | None
    payload: Mapping[str, Any]
    duration: float | None
    base_generation: int | None
    generation: int
    time: str
    digest: str

    @property
    def stamp(self) -> Stamp:
        """Who did what, and when."""
        return Stamp(self.rater, self.kind, self.query, self.generation, self.time, self.duration)


def canonical(payload: Mapping[str, Any]) -> str:
    """Write a payload as JSON text, always the same for the same values."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def chained(previous: str, row: tuple[Any, ...]) -> str:
    """Digest of a row of the log and of all rows before it, through the digest of the row before."""
    text = json.dumps([previous, *row], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Ellipse:
    """An ellipse or ellipsoid as it was drawn: half-lengths, and orthonormal directions as columns of ``axes``."""

    half_lengths: Vector
    axes: Matrix

    @classmethod
    def read(cls, payload: Mapping[str, Any], d: int) -> Self:
        """Check what the log says of an ellipse."""
        half_lengths = vector(payload["half_lengths"], d, "The half-lengths")
        return cls(half_lengths, plain_rows(as_points(payload["axes"], "The axes", d)))


@dataclass(frozen=True)
class Doubt:
    """Why a placement was asked about before it was saved.

    Attributes
    ----------
    outside : float or None
        Distance from the moving image, in world units, where the point lies outside it.
    deviation : float or None
        Mahalanobis distance from what the other landmarks predict, the stated uncertainty included, where that is
        known well and the point lies beyond its 99.9 % region.
    distance : float or None
        The same distance in world units; not kept in the log.
    confirmed : bool
        Whether the rater was asked and kept it; False for placements by a program.
    """

    outside: float | None
    deviation: float | None
    distance: float | None = None
    confirmed: bool = False

    @classmethod
    def read(cls, flag: Mapping[str, Any]) -> Self:
        """Check what the log says of a doubt: both numbers are optional, and whether it was confirmed is not."""
        outside, deviation = (
            None if flag.get(key) is None else number(flag[key], f"{key} of a flag") for key in ("outside", "deviation")
        )
        return cls(outside, deviation, confirmed=bool(flag.get("confirmed", False)))

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps."""
        return {"outside": self.outside, "deviation": self.deviation, "confirmed": self.confirmed}

    def question(self, units: str, *, hide_prediction: bool = False) -> str | None:
        """Return the question to ask the rater; None where any reason would reveal a hidden prediction."""
        reason = self.reason(units, hide_prediction=hide_prediction)
        return None if reason is None else f"This is {reason}: keep it?"

    def reason(self, units: str, *, hide_prediction: bool = False) -> str | None:
        """Return why the placement looks like a slip, as words that follow "is"; see `question`."""
        parts = []
        if self.outside is not None:
            parts.append(f"{self.outside:.3g} {units} outside the moving image")
        if self.deviation is not None and not hide_prediction:
            away, often = f"{self.distance:.3g} {units}", f"{self.deviation:.2g} times the usual"
            parts.append(f"{away} from where the other landmarks say, {often}")
        return " and ".join(parts) or None


@dataclass(frozen=True)
class Placement:
    """A match as a rater drew it.

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
    fixed : tuple of float or None
        Point of the fixed image marked instead of the queried one, where the rater moved it.
    snapped_from : tuple of float or None
        The mark before a proposal from the images around it was taken, if one was.
    unaided : bool
        Whether such proposals were withheld here, in a project that has them.
    doubt : warpgauge.project.Doubt or None
        Why it was asked about, if it was.
    """

    point: Vector = field(metadata=on_wire())
    covariance: Matrix = field(metadata=on_wire())
    alpha: float = field(metadata=on_wire())
    ellipse: Ellipse | None = None
    fixed: Vector | None = field(
        default=None, metadata=on_wire("Point of the fixed image marked instead of the queried one.")
    )
    snapped_from: Vector | None = field(
        default=None, metadata=on_wire("The mark before a proposal from the images was taken.")
    )
    unaided: bool = False
    doubt: Doubt | None = field(default=None, metadata=SECRET)

    @classmethod
    def drawn(
        cls,
        point: ArrayLike,
        covariance: ArrayLike | None = None,
        *,
        alpha: float,
        ellipse: tuple[ArrayLike, ArrayLike] | None = None,
        radius: float | None = None,
        fixed: ArrayLike | None = None,
        snapped_from: ArrayLike | None = None,
    ) -> Self:
        """Return a placement with an uncertainty given as a covariance, an ellipse, or the radius of a disc or ball.

        The numbers are checked when the placement is saved.

        Parameters
        ----------
        point : (d,) array
            In the moving image's world.
        covariance : (d, d) array, optional
        alpha : float
            Ellipse and disc hold the match with probability ``1 - alpha``.
        ellipse : (half_lengths, axes), optional
            Axes are orthonormal columns.
        radius : float, optional
        fixed, snapped_from : (d,) array, optional
            See the attributes.
        """
        given = sum(one is not None for one in (covariance, ellipse, radius))
        if given != 1:
            several = "Give one of covariance, ellipse and radius, not several."
            raise InvalidInputError(several if given else "A placement needs a covariance, an ellipse or a radius.")
        at = numbers(point, "The placed point")
        if radius is not None:
            ellipse = np.full(at.size, radius), np.eye(at.size)
        shape = None
        if ellipse is not None:
            covariance = covariance_from_ellipse(ellipse[0], ellipse[1], alpha)
            shape = Ellipse(tuple(np.asarray(ellipse[0]).tolist()), plain_rows(np.asarray(ellipse[1])))
        return cls(
            _nested(at),
            _nested(numbers(covariance if covariance is not None else (), "The covariance")),
            alpha,
            shape,
            None if fixed is None else _nested(numbers(fixed, "The point of the fixed image")),
            None if snapped_from is None else _nested(numbers(snapped_from, "The mark before it was snapped")),
        )

    @classmethod
    def read(cls, payload: Mapping[str, Any], d: int) -> Self:
        """Check what the log says of a placement: the point and its uncertainty."""
        ellipse, fixed, before = (payload.get(key) for key in ("ellipse", "fixed", "snapped_from"))
        return cls(
            vector(payload.get("point"), d, "The placed point"),
            matrix(payload.get("covariance"), d, "The covariance"),
            alpha(payload.get("alpha")),
            None if ellipse is None else Ellipse.read(ellipse, d),
            None if fixed is None else vector(fixed, d, "The moved point of the fixed image"),
            None if before is None else vector(before, d, "The mark before it was snapped"),
            bool(payload.get("unaided")),
            None if payload.get("flag") is None else Doubt.read(payload["flag"]),
        )

    def payload(self) -> dict[str, Any]:
        """Return what the log keeps."""
        content: dict[str, Any] = {"point": self.point, "covariance": self.covariance, "alpha": self.alpha}
        content["ellipse"] = None if self.ellipse is None else vars(self.ellipse)
        if self.fixed is not None:
            content.update(fixed=self.fixed, origin="moved")  # the origin is for people who read the log
        if self.snapped_from is not None:
            content["snapped_from"] = self.snapped_from
        if self.unaided:
            content["unaided"] = True
        if self.doubt is not None:
            content["flag"] = self.doubt.payload()
        return content

    @cached_property
    def covariance_world(self) -> Floats:
        """Covariance as an array (d, d)."""
        return readonly(np.array(self.covariance))


def _nested(array: Floats) -> Any:
    """Return an array of any shape as nested tuples."""
    return tuple(_nested(row) for row in array) if array.ndim else float(array)


@dataclass(frozen=True, kw_only=True)
class Stamped:
    """What an event left in the state, with the stamp of that event."""

    stamp: Stamp

    @property
    def generation(self) -> int:
        """Generation of the event."""
        return self.stamp.generation

    @property
    def time(self) -> str:
        """When it was written, UTC."""
        return self.stamp.time


@dataclass(frozen=True, kw_only=True)
class Placed(Stamped):
    """A placement that was saved; the stamp is of the event that placed or last edited it.

    ``batch`` names the import that it came with.
    """

    placement: Placement
    batch: str | None = None


@dataclass(frozen=True, kw_only=True)
class Skipped(Stamped):
    """A query that a rater declined, and why."""

    reason: str
    text: str


Answer = Placed | Skipped | None


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

    fixed: Vector
    mark: Vector
    proposed: Vector | None
    generation: int


@dataclass(frozen=True)
class Cell:
    """What a rater has said to a query; ``disabled`` keeps a placement out of the model."""

    answer: Answer = None
    disabled: bool = False

    @property
    def placement(self) -> Placement | None:
        """The placement, where there is one."""
        return self.answer.placement if isinstance(self.answer, Placed) else None


@dataclass(frozen=True, kw_only=True)
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
        The query that a repeat or a further asking repeats.
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
        Round and place in it of an audit question.
    known : tuple of float or None
        The known match of a control question.
    sealed : bool
        Whether answers at this location were drawn to be sealed, when it was asked for the first time.
    """

    number: int
    point: Vector
    candidate: int | None
    origin: str = field(metadata=SECRET)
    same_as: int | None = field(metadata=SECRET)
    for_rater: str | None
    gain: float | None
    name: str
    generation: int
    batch: str | None = None
    audit: tuple[int, int] | None = field(default=None, metadata=SECRET)
    known: Vector | None = field(default=None, metadata=SECRET)
    sealed: bool = field(default=False, metadata=SECRET)

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
        Of each draw, among the targets that were left, where they were drawn one at a time. Else the inclusion
        probability of each in this round; of its first r of b questions, ``r / b`` of it.
    transforms : dict
        Transforms that the design knew, by name, with the generation at which each was added.
    sequential : bool
        Whether targets were drawn one at a time, without replacement.
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
    points: tuple[Vector, ...]
    candidates: tuple[int | None, ...]
    probabilities: tuple[float, ...]
    transforms: Mapping[str, int]
    sequential: bool = False
    generation: int = 0


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
    """A registration result that was added; files are relative to the project's folder.

    A reference never saw an annotation: it belongs to the panel that methods are judged beside.
    """

    name: str
    files: tuple[str, ...]
    hashes: tuple[str, ...]
    options: dict[str, Any]
    generation: int
    reference: bool = False

    @property
    def content(self) -> str:
        """What the transform is, whatever its name: the hashes of its files, and how they are read."""
        return canonical({"hashes": self.hashes, "options": self.options})

    @property
    def subject(self) -> str:
        """What notes about the transform are about; the same for the same content, whatever its name."""
        return f"transform {hashlib.sha256(self.content.encode()).hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class FitRecord(Stamped):
    """Learned weights.

    Attributes
    ----------
    told : mapping
        All that the log says about them.
    family, scales, weights, noise
        Kernel and extra noise variance, in world units.
    own : tuple of float
        Share of each weight that regions have to themselves; empty in projects without regions.
    trend : (float, float) or None
        Standard deviations of the affine trend, linear and of the translation; None in early versions.
    annotations : int
        Number of annotations that they were learned from.
    projects : int
        Number of other projects that they were learned from.
    from_projects : bool
        Whether they were learned from other projects; then they are not refitted automatically.
    fitted_noise : bool
        Whether the noise was learned, too.
    """

    told: Mapping[str, Any]
    family: str
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    noise: float
    own: tuple[float, ...]
    trend: tuple[Any, Any] | None
    annotations: int
    projects: int
    from_projects: bool
    fitted_noise: bool

    @classmethod
    def of(cls, told: Mapping[str, Any], stamp: Stamp) -> Self:
        """Return the record of an event; events of early versions lack some keys."""
        return cls(
            told=told,
            family=told["family"],
            scales=tuple(told["scales"]),
            weights=tuple(told["weights"]),
            noise=float(told["noise"]),
            own=tuple(told.get("own", ())),
            trend=(told["linear_sd"], told["translation_sd"]) if "linear_sd" in told else None,
            annotations=int(told.get("annotations", 0)),
            projects=len(told.get("projects", ())),
            from_projects=told.get("source") == "projects",
            fitted_noise=bool(told.get("fitted_noise")),
            stamp=stamp,
        )


@dataclass(frozen=True, kw_only=True)
class AlignmentRecord(Stamped):
    """The rough alignment that was proposed last; ``accepted`` is None until somebody has answered."""

    accepted: bool | None
    matrix: Matrix
    offset: Vector
    score: float
    rival: float
    method: str

    @property
    def status(self) -> str:
        """One of proposed, accepted and refused."""
        return {None: "proposed", True: "accepted", False: "refused"}[self.accepted]


@dataclass(frozen=True, kw_only=True)
class ControlsRecord(Stamped):
    """Points with known matches, of which one question in ``every`` asks one."""

    fixed: tuple[Vector, ...]
    moving: tuple[Vector, ...]
    every: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Settled(Stamped):
    """A location that the organiser has settled, with a remark."""

    text: str


@dataclass(frozen=True, kw_only=True)
class NoteRecord(Stamped):
    """A doubt about a transform or an import, which is repeated until an organiser has accepted it.

    Attributes
    ----------
    subject : str
        What it is about: `TransformRecord.subject`, or the name of an import's batch.
    code : str
        What was found.
    numbers : mapping
        The figures behind it.
    text : str
        The name of a reading or the words that were said, for people.
    """

    subject: str
    code: str
    numbers: Mapping[str, float]
    text: str


@dataclass(frozen=True, kw_only=True)
class SealRecord(Stamped):
    """How answers are drawn to be sealed: of the suggested locations a share, at most so many at a time, by a seed."""

    seed: int
    share: float
    most: int


@dataclass(frozen=True, kw_only=True)
class Unsealed(Stamped):
    """Sealed answers were opened, for a verdict; ``certificate`` is its digest, where one was written."""

    certificate: str


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
