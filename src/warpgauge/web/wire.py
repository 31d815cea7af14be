"""The wire format: what the page sends and gets, checked in both directions and described by OpenAPI.

Points are world coordinates x, y[, z]; every write carries the generation of the state that it was based on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from warpgauge.io.landmarks.model import text_problem

Coordinate = Annotated[FiniteFloat, Field(ge=-1e12, le=1e12)]
Entry = Annotated[FiniteFloat, Field(ge=-1e24, le=1e24)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=3)]
Matrix = Annotated[list[Annotated[list[Entry], Field(min_length=2, max_length=3)]], Field(min_length=2, max_length=3)]
Generation = Annotated[int, Field(ge=0, le=2**53, description="Of the state that the sender saw.")]
Duration = Annotated[FiniteFloat, Field(ge=0, le=1e8)]
Role = Literal["rater", "organiser", "viewer"]
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


class PlaceRequest(Based):
    """Place, or move, the match of a query."""

    point: Point
    covariance: Matrix
    alpha: Annotated[FiniteFloat, Field(ge=1e-6, le=0.9)]
    duration: Duration | None = None


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


class Given(BaseModel):
    """What the page gets."""

    model_config = ConfigDict(extra="forbid")


class ErrorAnswer(Given):
    """Why a request was refused, in one sentence."""

    error: str


class Level(Given):
    """A level of an image's pyramid."""

    size: list[int]
    spacing: list[float]
    origin: list[float]


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
    window: list[float] = Field(description="Samples, as they are sent, to be shown dark and bright at first.")
    levels: list[Level]
    tile: int
    version: str = Field(description="Changes with the content; tiles asked with v=version may be cached for good.")
    name: str


class Images(Given):
    """Both images."""

    fixed: ImageAnswer
    moving: ImageAnswer


class SettingsAnswer(Given):
    """Settings that the page needs."""

    hide_prediction: bool
    blind: bool
    alpha: float
    default_radius: float
    order: str
    budget: int | None
    skip_reasons: list[str]


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


class EllipseAnswer(Given):
    """An ellipse or ellipsoid; the columns of ``axes`` are its directions."""

    half_lengths: list[float]
    axes: list[list[float]]


class PredictionAnswer(Given):
    """Where the model expects the match."""

    mean: list[float]
    covariance: list[list[float]]
    ellipse: EllipseAnswer
    alpha: float
    outside: bool


class PlaceAnswer(Given):
    """An answer that placed the match."""

    kind: Literal["place"] = "place"
    point: list[float]
    covariance: list[list[float]]
    alpha: float
    generation: int
    time: str


class SkipAnswer(Given):
    """An answer that declined."""

    kind: Literal["skip"] = "skip"
    reason: str
    text: str
    generation: int
    time: str


Answer = Annotated[PlaceAnswer | SkipAnswer, Field(discriminator="kind")]


class QueryAnswer(Given):
    """A query as this rater sees it."""

    query: int
    number: int = Field(description="Which one it is for this rater, from 1.")
    total: int | None = Field(description="Of how many, where the project has a budget.")
    location: list[float]
    gain: float | None
    why: str
    generation: int
    prediction: PredictionAnswer | None
    answer: Answer | None
    disabled: bool
    locked: bool = Field(description="The organiser has settled the location.")
    can_undo: bool
    can_redo: bool


class DoneAnswer(Given):
    """Nothing is left to ask of this rater."""

    done: Literal[True] = True
    reasons: list[str]
    generation: int
    can_undo: bool
    can_redo: bool


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
    query: QueryAnswer


class SavedAnswer(Given):
    """A write."""

    saved: Saved


class ConflictAnswer(Given):
    """Another tab or device changed this answer meanwhile; nothing was written."""

    error: str
    yours: dict[str, object]
    theirs: Answer | None
    query: int | None
    generation: int = Field(description="Of the state now, on which a further try can be based.")


class LinkedAnswer(Given):
    """Points in the other image; null where there is none."""

    points: list[list[float] | None]


class PointsAnswer(Given):
    """World points of the fixed image."""

    points: list[list[float]]


class LinesAnswer(Given):
    """Polylines in the moving image's world; null interrupts a line."""

    lines: list[list[list[float] | None]]


class TransformRow(Given):
    """A transform, and where it stands so far (2-norm over the targets, world units)."""

    name: str
    description: str
    problem: str | None = Field(description="Why it cannot be used, if so.")
    rank: int | None
    error: float | None
    interval: list[float | None] | None
    probability_best: float | None
    outside: float | None


class TransformsAnswer(Given):
    """All transforms, best first."""

    transforms: list[TransformRow]
    verdict: str
    decided: bool
    units: str


class ListRowAnswer(Given):
    """An answer and how it fits the others; ``residual`` is left out where predictions are hidden."""

    query: int
    location: list[float]
    point: list[float] | None
    covariance: list[list[float]] | None
    alpha: float | None
    residual: list[float] | None
    distance: float | None
    mahalanobis: float | None
    p: float | None
    outlier: bool
    swapped: bool
    partner: int | None
    sentence: str
    disabled: bool
    excluded: bool
    skipped: bool
    reason: str | None
    text: str
    generation: int
    time: str
    duration: float | None
    rater: str | None


class ListAnswer(Given):
    """All answers that this person may see."""

    rows: list[ListRowAnswer]
    generation: int


class CurvePoint(Given):
    """Uncertainty after so many annotations."""

    annotations: int
    mean_sd: float


class StopAnswer(Given):
    """A stop rule."""

    rule: str
    met: bool
    sentence: str


class RankingAnswer(Given):
    """How far the ranking of the transforms is decided."""

    order: list[str]
    probability_best: float | None
    decided: bool
    sentence: str


class ProgressAnswer(Given):
    """How far along the work is."""

    annotations: int
    answered: int
    placed: int
    skipped: int
    deferred: int
    queries: int
    targets: int
    mean_sd: float
    max_sd: float
    units: str
    curve: list[CurvePoint]
    next_gain: float | None
    stop: list[StopAnswer]
    done: bool
    reasons: list[str]
    seconds: list[float] = Field(description="Time for each answer that told one, in the order of the answers.")
    median_seconds: float | None
    model: str
    ranking: RankingAnswer | None


class IntraAnswer(Given):
    """Error of a rater against themselves."""

    pairs: int
    mean_distance: float | None
    sd: float | None
    changed_mind: int


class RaterAnswer(Given):
    """A rater's work, as the organiser sees it."""

    name: str
    role: Role
    registered: bool
    has_link: bool
    revoked: bool
    placed: int
    deferred: int
    skipped: dict[str, int]
    median_seconds: float | None
    bias: list[float] | None
    bias_se: list[float | None] | None
    scatter: float | None
    intra: IntraAnswer | None


class RatersAnswer(Given):
    """All raters."""

    raters: list[RaterAnswer]
    pooled_sd: float | None
    generation: int


class LinkAnswer(Given):
    """A person's link; the secret in it is shown this once."""

    name: str
    role: Role
    link: str | None
    saved: Saved


class MarkAnswer(Given):
    """A rater's mark at a location."""

    rater: str
    query: int
    origin: str
    point: list[float]
    covariance: list[list[float]]
    ellipse: EllipseAnswer
    alpha: float
    disabled: bool
    excluded: bool
    generation: int
    time: str


class FusedAnswer(Given):
    """What the model uses at a location."""

    point: list[float]
    covariance: list[list[float]]
    ellipse: EllipseAnswer


class LocationAnswer(Given):
    """A location as its raters see it."""

    query: int
    location: list[float]
    marks: list[MarkAnswer]
    skips: dict[str, str]
    mean_distance: float | None
    max_distance: float | None
    fused: FusedAnswer | None
    resolved: str | None
    locked: bool


class LocationsAnswer(Given):
    """All locations."""

    locations: list[LocationAnswer]
    alpha: float
    generation: int
