"""The wire format: what the page gets of lists, progress, transforms, overlays, raters and locations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from warpgauge.web.wire import EllipseAnswer, Given, Numbers, Rows, Saved, Standing


class TransformRow(Given):
    """A transform, and where it stands so far (2-norm over the targets, world units)."""

    name: str
    description: str
    problem: str | None = Field(description="Why it cannot be used, if so.")
    mapped: bool = Field(description="Whether it has maps: the identity that is only a baseline has none.")
    rank: int | None
    score: float | None
    interval: list[float | None] | None
    probability_best: float | None
    outside: float | None
    cells: list[float | str | list[float | None] | None] = Field(description="Values of the columns, in their order.")


class ColumnAnswer(Given):
    """A column of the table of transforms."""

    key: str
    head: str
    unit: str = Field(description="What a value is: a length, a share, an interval (score, low, high) and so on.")


class TransformsAnswer(Given):
    """All transforms and the identity as a baseline, best first."""

    transforms: list[TransformRow]
    columns: list[ColumnAnswer]
    verdict: str
    decided: bool
    targets: str = Field(description="What errors are averaged over, in a sentence.")
    flags: list[str] = Field(description="What to look at before the ranking, a sentence each.")
    units: str


class ListRowAnswer(Given):
    """An answer and how it fits the others; ``residual`` is left out where predictions are hidden."""

    query: int = Field(description="Number in the shared list, from 0.")
    number: int = Field(description="1-based number for its rater, in the order in which they answered.")
    location: Numbers
    point: Numbers | None
    covariance: Rows | None
    alpha: float | None
    residual: Numbers | None
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
    chosen: Literal["asked", "moved", "volunteered"] = Field(description="Whether the rater chose or moved the place.")
    flagged: bool = Field(description="It lies outside the image or far from a prediction that was known well.")
    snap: Literal["", "taken", "shown", "nothing found", "withheld"] = Field(
        description="What became of proposals from the images here; shown: and not taken."
    )


class ListAnswer(Given):
    """All answers that this person may see."""

    rows: list[ListRowAnswer]
    detectable: float | None = Field(
        description="A slip at least so long, in world units, would have been found at any mark; null where marks are "
        "too few to compare them, or predictions are hidden."
    )
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
    """Progress of the annotation."""

    annotations: int
    answered: int
    placed: int
    skipped: int
    deferred: int
    queries: int
    targets: int
    mean_sd: float
    max_sd: float
    region: float = Field(description="A standard deviation times this is the ± of the page: the region at its level.")
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


class CertificateAnswer(Given):
    """How exact a rater is, by control questions and repeats, with 95 % intervals; lengths in world units."""

    controls: int
    bias: Numbers | None
    bias_low: Numbers | None
    bias_high: Numbers | None
    sd: float | None
    sd_low: float | None
    sd_high: float | None
    inside: int = Field(description="Known matches within the region that the rater drew.")
    inside_low: float
    inside_high: float
    repeats: int
    repeat_sd: float | None
    repeat_low: float | None
    repeat_high: float | None


class RaterAnswer(Given):
    """A rater's work, as the organiser sees it."""

    name: str
    role: Standing
    registered: bool
    has_link: bool
    revoked: bool
    placed: int
    deferred: int
    skipped: dict[str, int]
    median_seconds: float | None
    bias: Numbers | None
    bias_se: list[float | None] | None
    scatter: float | None
    intra: IntraAnswer | None
    certificate: CertificateAnswer | None
    snap_asked: int = Field(default=0, description="Proposals from the images that were asked for.")
    snap_shown: int = Field(default=0, description="Of these, those in which a place was shown.")
    snap_taken: int = Field(default=0, description="Standing marks that were moved to a proposed place.")


class RatersAnswer(Given):
    """All raters."""

    raters: list[RaterAnswer]
    pooled_sd: float | None
    sealed: int = Field(description="Locations whose answers are sealed; which ones is not told.")
    generation: int


class LinkAnswer(Given):
    """A person's link; the secret in it is shown this once."""

    name: str
    role: Standing
    link: str | None
    saved: Saved


class MarkAnswer(Given):
    """A rater's mark at a location."""

    rater: str
    query: int
    origin: str = Field(description="suggested, repeat, again, given, volunteered, or moved by the rater.")
    fixed: list[float] = Field(description="The point of the fixed image that was marked.")
    flagged: bool = Field(description="It lies outside the image or far from a prediction that was known well.")
    point: list[float]
    covariance: list[list[float]]
    ellipse: EllipseAnswer
    alpha: float
    disabled: bool
    excluded: bool
    control: bool = Field(description="Whether the match is known: the mark only measures the rater.")
    generation: int
    time: str


class FusedAnswer(Given):
    """What the model uses at a location."""

    point: Numbers
    covariance: Rows
    ellipse: EllipseAnswer


class LocationAnswer(Given):
    """A location as its raters see it."""

    query: int
    location: Numbers
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


class LinkedAnswer(Given):
    """Points in the other image; null where there is none."""

    points: list[list[float] | None]


class PointsAnswer(Given):
    """World points of the fixed image."""

    points: list[list[float]]


class LinesAnswer(Given):
    """Polylines in the moving image's world; null interrupts a line."""

    lines: list[list[list[float] | None]]
