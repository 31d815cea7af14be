"""The wire format, described by OpenAPI: what its models share. Each module of routes has the models of its own.

Points are world coordinates x, y[, z]; every write carries the generation that it was based on.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from warpgauge.io.landmarks.model import text_problem

Side = Literal["fixed", "moving"]
Role = Literal["rater", "organiser"]


def _plain(value: Any) -> Any:
    """Return an array as the lists that JSON has."""
    return value.tolist() if hasattr(value, "tolist") else value


Numbers = Annotated[list[float], BeforeValidator(_plain)]
"""A vector of a record, which may be an array there."""
Rows = Annotated[list[list[float]], BeforeValidator(_plain)]
"""A matrix of a record, which may be an array there."""


class Given(BaseModel):
    """What the page gets; ``model_validate`` takes the attributes of a record that has the same names."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class Sent(BaseModel):
    """What the page sends; a field that is not known is refused rather than ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Saved(Given):
    """A write that is on the disk."""

    generation: int
    time: str


Coordinate = Annotated[FiniteFloat, Field(ge=-1e12, le=1e12)]
Element = Annotated[FiniteFloat, Field(ge=-1e24, le=1e24)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=3)]
Spread = Annotated[list[Annotated[list[Element], Field(min_length=2, max_length=3)]], Field(min_length=2, max_length=3)]
Generation = Annotated[int, Field(ge=0, le=2**53)]
Alpha = Annotated[FiniteFloat, Field(ge=1e-6, le=0.9)]
Duration = Annotated[FiniteFloat, Field(ge=0, le=1e8)]


def _showable(text: str) -> str:
    problem = text_problem(text)
    if problem:
        raise ValueError(f"the text {problem}")
    return text


Text = Annotated[str, Field(max_length=2000), AfterValidator(_showable)]
PersonName = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_showable)]


class Based(Sent):
    """A write that names the state that its sender saw."""

    generation: Generation


def rough(value: float) -> float:
    """Round to one significant digit, for a person who must not find out a prediction from the digits."""
    return float(f"{value:.0e}")
