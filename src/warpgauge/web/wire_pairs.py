"""The wire format of the page of all pairs; see `warpgauge.web.wire`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from warpgauge.web.wire import Given, Sent, Standing

Key = Annotated[str, Field(min_length=1, max_length=80)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class OwnPairAnswer(Given):
    """A pair that is assigned to whoever asks; nothing about others."""

    key: str
    name: str
    address: str = Field(description="Of its annotator.")
    placed: int
    skipped: int
    left: int | None = Field(description="Landmarks still to place; null where the organiser set no number.")
    last: str | None = Field(description="When this person last answered there, UTC.")
    problem: str | None = Field(description="Why it cannot be used now.")


class OwnPairsAnswer(Given):
    """What is assigned to whoever asks, in the order of the assignment."""

    rater: str
    role: Standing
    pairs: list[OwnPairAnswer]
    done: int = Field(description="Pairs with nothing left.")


class WorkAnswer(Given):
    """What one rater has done in one pair."""

    placed: int
    skipped: int
    last: str | None


class PairAnswer(Given):
    """A row of the organiser's table."""

    key: str
    name: str
    address: str
    counted: bool = Field(description="Whether the log has been read yet; the figures are 0 until then.")
    raters: list[str] = Field(description="To whom it is assigned.")
    work: dict[str, WorkAnswer]
    budget: int | None = Field(description="Landmarks that each rater is to place.")
    units: str
    shared: int = Field(description="Locations with the marks of several raters; sealed ones are left out.")
    distance: float | None = Field(description="Median over these of the largest distance between two raters.")
    transforms: int
    certificate: str | None = Field(description="What the audit shows so far.")
    certified: bool
    problem: str | None


class PairRaterAnswer(Given):
    """A registered person."""

    name: str
    role: Standing
    has_link: bool
    revoked: bool
    pairs: int = Field(description="Number assigned.")
    placed: int
    skipped: int


class PairsAnswer(Given):
    """All pairs and people, for the organiser."""

    pairs: list[PairAnswer]
    raters: list[PairRaterAnswer]
    open: int = Field(description="Projects that this server has open now.")
    most_open: int


class AssignRequest(Sent):
    """Assign pairs to raters, or take them from them."""

    action: Literal["assign", "unassign"]
    raters: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    pairs: Annotated[list[Key], Field(min_length=1, max_length=1000)]


class ShareOutRequest(Sent):
    """Assign all pairs evenly; raters that a pair has already count, and nothing is taken away."""

    raters: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    overlap: Annotated[float, Field(ge=0, le=1)] = 0.1


class AssignedAnswer(Given):
    """How many assignments were made or taken away."""

    changed: int


class PersonAnswer(Given):
    """The person; the secret in the link is shown this once."""

    name: str
    role: Standing
    link: str | None
