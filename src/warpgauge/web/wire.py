"""The wire format, what the page gets of the project and of queries; checked too, and described by OpenAPI.

Points are world coordinates x, y[, z].
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["rater", "organiser", "viewer"]


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
    number: int = Field(description="By which all lists and marks call it: its place in the shared list, from 1.")
    position: int = Field(description="The how-manieth it is for this rater, from 1.")
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
