"""The wire format: what the page sends, and what it gets of the project and of queries; described by OpenAPI.

Both are checked. Points are world coordinates x, y[, z]; every write carries the generation that it was based on.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import text_problem
from warpgauge.project import Event, Place, Placement, Skip
from warpgauge.session import Prediction

Role = Literal["rater", "organiser"]
Standing = Literal["rater", "organiser", "revoked"]


def _plain(value: Any) -> Any:
    """Return an array as the lists that JSON has."""
    return value.tolist() if hasattr(value, "tolist") else value


Numbers = Annotated[list[float], BeforeValidator(_plain)]
"""A vector of a record, which may be an array there."""
Rows = Annotated[list[list[float]], BeforeValidator(_plain)]
"""A matrix of a record, which may be an array there."""


class Given(BaseModel):
    """What the page gets: made from a dict, or from the attributes of the record that it shows."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


def same_fields(model: type[Given], record: object) -> dict[str, Any]:
    """Return the fields of a model that a record has under the same names."""
    return {name: getattr(record, name) for name in model.model_fields if hasattr(record, name)}


class ErrorAnswer(Given):
    """Why a request was refused, in one sentence."""

    error: str


class Level(Given):
    """A level of an image's pyramid."""

    size: list[int]
    spacing: list[float]
    origin: list[float]


class OverviewAnswer(Given):
    """How far the overview of an image is that has no coarse levels of its own; without one, 0 of 0 rows."""

    done: int
    rows: int


class OverviewsAnswer(Given):
    """How far the overviews of both images are."""

    fixed: OverviewAnswer
    moving: OverviewAnswer


class ChannelAnswer(Given):
    """A channel that is shown in a colour of one's choice."""

    name: str
    window: list[float] = Field(description="Samples, as they are sent, to be shown dark and bright at first.")


class ImageAnswer(Given):
    """An image: where it lies, and how its tiles are read (``value = scale * sample + offset``)."""

    size: list[int]
    spacing: list[float]
    origin: list[float]
    direction: list[list[float]]
    units: str
    channels: int
    dtype: Literal["uint8", "uint16"]
    scale: float
    offset: float
    sharpness: float = Field(description="Length over which the image changes, in its units.")
    window: list[float] = Field(description="Samples, as they are sent, to be shown dark and bright at first.")
    apart: list[ChannelAnswer] = Field(description="The channels, where they are not grey or red, green, blue.")
    levels: list[Level]
    overview: OverviewAnswer
    tile: int
    version: str = Field(description="Changes with the content; tiles asked with v=version may be cached indefinitely.")
    name: str


class Images(Given):
    """Both images."""

    fixed: ImageAnswer
    moving: ImageAnswer


class ContextAnswer(Given):
    """A further image in the frame of one of the two, to look at."""

    side: Literal["fixed", "moving"]
    image: ImageAnswer


class SettingsAnswer(Given):
    """Settings that the page needs."""

    hide_prediction: bool
    blind: bool
    alpha: float
    default_radius: float
    order: str
    budget: int | None
    skip_reasons: list[str]
    snap: bool = Field(description="Whether marks can be refined by the images around them.")
    move_within: float = Field(description="How far a queried point may be moved, in world units of the fixed image.")


class StartAnswer(Given):
    """The guided start: places that the rater recognises in both images, before the first suggestion."""

    due: bool
    volunteered: int = Field(description="Landmarks that the rater has volunteered.")
    wanted: int
    sentence: str = Field(description="What to ask the rater for.")


class ProjectAnswer(Given):
    """The project, and who the visitor is in it."""

    name: str
    d: int
    units: str
    rater: str
    role: Role
    generation: int
    readonly: bool
    compare: bool = Field(description="Whether this person may see added transforms.")
    transforms: list[str] = Field(description="Their names; empty where they may not be seen.")
    settings: SettingsAnswer
    images: Images
    contexts: list[ContextAnswer] = Field(description="Their tiles are at /api/contexts/{n}/tile.")


class EllipseAnswer(Given):
    """An ellipse or ellipsoid; the columns of ``axes`` are its directions."""

    half_lengths: Numbers
    axes: Rows


class PredictionAnswer(Given):
    """Where the model expects the match."""

    mean: Numbers
    covariance: Rows
    ellipse: EllipseAnswer
    alpha: float
    outside: bool


class PlaceAnswer(Given):
    """An answer that placed the match."""

    kind: Literal["place"] = "place"
    point: list[float]
    covariance: list[list[float]]
    alpha: float
    fixed: list[float] | None
    snapped_from: list[float] | None = None
    flagged: bool = Field(description="It lies outside the image or far from a prediction that was known well.")
    generation: int
    time: str


def predicted(prediction: Prediction) -> dict[str, Any]:
    """Describe a prediction, which has an ellipse's fields itself."""
    told = same_fields(PredictionAnswer, prediction)
    return {**told, "ellipse": same_fields(EllipseAnswer, prediction), "outside": not prediction.inside}


def rough(value: float) -> float:
    """Round to one significant digit, for a person who must not find out a prediction from the digits."""
    return float(f"{value:.0e}")


class NearbyPoint(Given):
    """A place near the queried one that is easier to recognise."""

    point: list[float]
    keeps: float = Field(description="Expected information of an answer there, as a share of that at the query.")


class NearbyAnswer(Given):
    """Places near a query that may be marked instead."""

    points: list[NearbyPoint] = Field(description="At most three, the most distinctive first; often none.")


class SkipAnswer(Given):
    """An answer that declined."""

    kind: Literal["skip"] = "skip"
    reason: str
    text: str
    generation: int
    time: str


Answer = Annotated[PlaceAnswer | SkipAnswer, Field(discriminator="kind")]


def described(answer: Event | None, *, hidden: bool = False) -> dict[str, Any] | None:
    """Describe an answer; where predictions are hidden, not whether it was far from one."""
    if isinstance(answer, Place):
        placement, flagged = answer.placement, not hidden and answer.doubt is not None
        told = {"point": placement.moving, "covariance": placement.covariance, "alpha": placement.alpha}
        told |= {"fixed": placement.fixed, "flagged": flagged}
        return {"kind": "place", **told, "generation": answer.generation, "time": answer.time}
    return SkipAnswer.model_validate(answer).model_dump() if isinstance(answer, Skip) else None


class QueryAnswer(Given):
    """A query as this rater sees it."""

    query: int
    number: int = Field(description="1-based number for this rater, in the order in which they answer.")
    position: int = Field(description="1-based position among this rater's placements; skips do not count.")
    total: int | None = Field(description="Of how many, where the project has a budget.")
    location: list[float]
    radius: float = Field(description="The rater may choose a place within it; 0 where all are asked exactly there.")
    name: str = Field(description="What a protocol, or the rater, calls the location; often empty.")
    own_choice: bool = Field(description="The rater volunteered it.")
    unaided: bool = Field(description="Snap stays off here, so that marks with and without it can be compared.")
    gain: float | None
    generation: int
    prediction: PredictionAnswer | None
    answer: Answer | None
    disabled: bool
    locked: bool = Field(description="The organiser has settled the location.")
    placed: int = Field(description="Placements of this rater that count for the budget.")
    skipped: int
    can_undo: bool
    can_redo: bool
    start: StartAnswer


class DoneAnswer(Given):
    """Nothing is left to ask of this rater."""

    done: Literal[True] = True
    reasons: list[str]
    generation: int
    placed: int
    skipped: int
    total: int | None
    can_undo: bool
    can_redo: bool
    start: StartAnswer


class Saved(Given):
    """A write that is on the disk."""

    generation: int
    time: str


class WriteAnswer(Given):
    """A write, and what comes next."""

    saved: Saved
    next: QueryAnswer | DoneAnswer


class StepAnswer(Given):
    """A write, and the query that it changed."""

    saved: Saved
    query: QueryAnswer | DoneAnswer


class SavedAnswer(Given):
    """A write."""

    saved: Saved


class VolunteeredAnswer(Given):
    """A volunteered landmark."""

    saved: Saved
    query: int = Field(description="Its number in the list.")
    start: StartAnswer


class StartSkippedAnswer(Given):
    """The guided start was skipped."""

    saved: Saved
    start: StartAnswer


class ConfirmAnswer(Given):
    """The placement looks like a slip; nothing was written. Send it again with ``confirmed`` to keep it."""

    kind: Literal["confirm"] = "confirm"
    error: str = Field(description="The question to ask, in one sentence.")
    outside: float | None = Field(description="Distance from the moving image, in world units.")
    deviation: float | None = Field(description="Standard deviations from where the other landmarks say.")
    yours: dict[str, object]
    generation: int


class ConflictAnswer(Given):
    """Another tab or device changed this answer meanwhile; nothing was written."""

    kind: Literal["conflict"] = "conflict"
    error: str
    yours: dict[str, object]
    theirs: Answer | None
    query: int | None
    generation: int = Field(description="Of the state now, on which a further try can be based.")


# What the page sends, checked before anything else looks at it.

Coordinate = Annotated[FiniteFloat, Field(ge=-1e12, le=1e12)]
Element = Annotated[FiniteFloat, Field(ge=-1e24, le=1e24)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=3)]
Spread = Annotated[list[Annotated[list[Element], Field(min_length=2, max_length=3)]], Field(min_length=2, max_length=3)]
Generation = Annotated[int, Field(ge=0, le=2**53, description="Of the state that the sender saw.")]
Alpha = Annotated[FiniteFloat, Field(ge=1e-6, le=0.9)]
Duration = Annotated[FiniteFloat, Field(ge=0, le=1e8)]
Reason = Literal["not_visible", "ambiguous", "torn_or_missing", "outside_image", "other"]


def _showable(text: str) -> str:
    problem = text_problem(text)
    if problem:
        raise ValueError(f"the text {problem}")
    return text


Text = Annotated[str, Field(max_length=2000), AfterValidator(_showable)]
Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_showable)]


class Sent(BaseModel):
    """What the page sends; a field that is not known is refused rather than ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Based(Sent):
    """A write that names the state it was based on."""

    generation: Generation


class _PlacingRequest(Based):
    """A placement, whether its rater was asked about it, and how long it took."""

    confirmed: bool = Field(False, description="The rater was asked and keeps a placement that looks like a slip.")
    duration: Duration | None = None

    covariance: Spread
    alpha: Alpha
    snapped_from: Point | None = None


def drawn_placement(d: int, **told: Any) -> Placement:
    """Return a placement that was sent; refuse another dimension than the project's."""
    if not len(told["moving"]) == len(told["covariance"]) == d or any(len(row) != d for row in told["covariance"]):
        raise InvalidInputError(f"A placement in this project has {d} coordinates and a {d} x {d} matrix.")
    return Placement.drawn(**told)


class PlaceRequest(_PlacingRequest):
    """Place, or move, the match of a query."""

    point: Point
    fixed: Point | None = None

    def placement(self, d: int) -> Placement:
        """Return what the rater drew."""
        return drawn_placement(d, moving=self.point, covariance=self.covariance, alpha=self.alpha, fixed=self.fixed)


class VolunteerRequest(_PlacingRequest):
    """Save a landmark of the rater's own choice."""

    fixed: Point
    moving: Point
    name: Text = ""

    def placement(self, d: int) -> Placement:
        """Return what the rater drew."""
        return drawn_placement(d, moving=self.moving, covariance=self.covariance, alpha=self.alpha, fixed=self.fixed)


class SkipRequest(Based):
    """Decline a query."""

    reason: Reason
    text: Text = ""
    duration: Duration | None = None


class DisableRequest(Based):
    """Take one's own placement out of the model, or put it back."""

    disabled: bool


class MarkRequest(Based):
    """Take a rater's mark out of the model, or put it back."""

    rater: Name
    text: Text = ""


class ResolveRequest(Based):
    """Settle a location."""

    text: Text = ""


class AskAgainRequest(Based):
    """Ask a location once more, of one rater or of all."""

    rater: Name | None = None


class RaterRequest(Sent):
    """Register a person (or give them a new link), or revoke one."""

    action: Literal["add", "revoke"]
    name: Name
    role: Role = "rater"
