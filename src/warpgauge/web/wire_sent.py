"""The wire format, what the page sends: checked before anything else looks at it, and described by OpenAPI.

Points are world coordinates x, y[, z]; every write carries the generation of the state that it was based on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from warpgauge.io.landmarks.model import text_problem
from warpgauge.web.wire import Role

Coordinate = Annotated[FiniteFloat, Field(ge=-1e12, le=1e12)]
Entry = Annotated[FiniteFloat, Field(ge=-1e24, le=1e24)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=3)]
Matrix = Annotated[list[Annotated[list[Entry], Field(min_length=2, max_length=3)]], Field(min_length=2, max_length=3)]
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


class PlaceRequest(Based):
    """Place, or move, the match of a query."""

    point: Point
    covariance: Matrix
    alpha: Alpha
    fixed: Point | None = Field(None, description="Point of the fixed image marked instead of the queried one.")
    snapped_from: Point | None = Field(None, description="The mark before a proposal from the images was taken.")
    confirmed: bool = Field(False, description="The rater was asked and keeps a placement that looks like a slip.")
    duration: Duration | None = None


class SnapRequest(Based):
    """Ask for a better place of a mark that is not stored yet."""

    query: Annotated[int, Field(ge=0, le=2**53)] | None = Field(description="None for a place of one's own choice.")
    point: Point = Field(description="The rater's mark in the moving image.")
    fixed: Point | None = Field(None, description="Point of the fixed image marked instead of the queried one.")


class VolunteerRequest(Based):
    """Save a landmark of the rater's own choice."""

    fixed: Point
    moving: Point
    covariance: Matrix
    alpha: Alpha
    name: Text = ""
    snapped_from: Point | None = Field(None, description="The mark before a proposal from the images was taken.")
    confirmed: bool = Field(False, description="The rater was asked and keeps a placement that looks like a slip.")
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
