"""The values that events hold: points, names and texts with their checks, placements, and what a rater has said.

All are frozen, so that a state can be copied shallowly. They are read and checked by pydantic, from the log as from a
request; what is wrong is said in one sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from warpgauge.core.annotations import covariance_from_ellipse
from warpgauge.core.arrays import Floats, as_covariances, as_numbers
from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import LARGEST_COORDINATE, text_problem
from warpgauge.project.names import checked_name

if TYPE_CHECKING:
    from warpgauge.project.events import Place, Skip

SkipReason = Literal["not_visible", "ambiguous", "torn_or_missing", "outside_image", "other"]
Role = Literal["rater", "organiser"]
Origin = Literal["suggested", "repeat", "again", "given", "volunteered", "audit", "control"]
Design = Literal["uniform", "disagreement"]
SKIP_REASONS: tuple[str, ...] = get_args(SkipReason)
ROLES: tuple[str, ...] = get_args(Role)
ORGANISER: Final = "organiser"
PROGRAM = "warpgauge"  # who acts where nobody does: suggestions, automatic fits and alignments
# Marks a field that no rater may be sent.
SECRET = {"secret": True}
_LONGEST_INPUT = 60


def _checked_text(text: str) -> str:
    problem = text_problem(text)
    if problem:
        raise ValueError(f"the text {problem}; replace it")
    return text


def _checked_covariance(rows: Matrix) -> Matrix:
    array = as_covariances([rows], 1, len(rows), "The covariance")
    return plain_rows(array[0])


# Numbers are numbers: neither texts nor true and false stand for them.
Number = Annotated[float, Field(strict=True)]
Whole = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Coordinate = Annotated[float, Field(strict=True, ge=-LARGEST_COORDINATE, le=LARGEST_COORDINATE)]
Vector = Annotated[tuple[Coordinate, ...], Field(min_length=2, max_length=3)]
_Element = Annotated[float, Field(strict=True, ge=-(LARGEST_COORDINATE**2), le=LARGEST_COORDINATE**2)]
_Row = Annotated[tuple[_Element, ...], Field(min_length=2, max_length=3)]
Matrix = Annotated[tuple[_Row, ...], Field(min_length=2, max_length=3)]
Covariance = Annotated[Matrix, AfterValidator(_checked_covariance)]
Name = Annotated[str, AfterValidator(checked_name)]
Text = Annotated[str, Field(max_length=10_000), AfterValidator(_checked_text)]


class Value(BaseModel):
    """A value that is checked when it is made; what is wrong with it is an `InvalidInputError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidInputError(_sentence(self.named(), error)) from None

    @classmethod
    def named(cls) -> str:
        """Return what a sentence calls a value of this kind."""
        words = re.sub("(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _sentence(what: str, error: ValidationError) -> str:
    """Say what is wrong with the first field of a value that is."""
    first = error.errors(include_url=False)[0]
    at = ".".join(map(str, first["loc"])) or "content"
    if first["type"] == "missing":
        return f"The {at} of {what} is missing; state it."
    if first["type"] == "value_error":
        return f"The {at} of {what} is wrong: {str(first['ctx']['error']).rstrip('.')}."
    given = str(first["input"])[:_LONGEST_INPUT]
    return f"The {at} of {what} is wrong: {first['msg'][0].lower()}{first['msg'][1:]}, got {given!r}."


def secrets_of(kind: type[BaseModel]) -> frozenset[str]:
    """Names of the fields of a value that no rater may be sent."""
    return frozenset(name for name, field in kind.model_fields.items() if field.json_schema_extra == SECRET)


class Doubt(Value):
    """Why a placement was asked about before it was saved."""

    outside: Number | None = None
    """Distance from the moving image, in world units, where the point lies outside it."""
    deviation: Number | None = None
    """Mahalanobis distance from what the other landmarks predict, where that is known well and it is too long."""
    distance: Number | None = None
    """The same distance in world units."""
    confirmed: Flag = False
    """Whether the rater was asked and kept it; False for placements by a program."""

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
            often = f"{self.deviation:.2g} times the usual"
            parts.append(f"{self.distance:.3g} {units} from where the other landmarks say, {often}")
        return " and ".join(parts) or None


class Placement(Value):
    """A match as a rater drew it; the body of a request has the same fields."""

    moving: Vector
    """In the moving image's world."""
    covariance: Covariance
    """Of that point, in squared world units."""
    alpha: Annotated[float, Field(strict=True, gt=0, lt=1)]
    """The ellipse drawn holds the true match with probability ``1 - alpha``."""
    fixed: Vector | None = None
    """The place in the fixed image, where the rater chose another one than that of the question."""

    @classmethod
    def drawn(
        cls,
        moving: ArrayLike,
        covariance: ArrayLike | None = None,
        *,
        alpha: float,
        ellipse: tuple[ArrayLike, ArrayLike] | None = None,
        radius: float | None = None,
        fixed: ArrayLike | None = None,
    ) -> Self:
        """Return a placement, world units, with a covariance (d, d), an ellipse, or the radius of a disc or ball.

        An ellipse is ``(half_lengths, axes)``, its axes as orthonormal columns; it and a disc hold the match with
        probability ``1 - alpha``. ``fixed`` is the place in the fixed image, where it is not that of the question.
        """
        given = [one for one in (covariance, ellipse, radius) if one is not None]
        if len(given) > 1:
            raise InvalidInputError("Give one of covariance, ellipse and radius, not several.")
        if not given:
            raise InvalidInputError("A placement needs a covariance, an ellipse or a radius.")
        point = as_numbers(moving, "The placed point", "numbers")
        if radius is not None:
            ellipse = np.full(point.size, radius), np.eye(point.size)
        if ellipse is not None:
            covariance = covariance_from_ellipse(ellipse[0], ellipse[1], alpha)
        own = None if fixed is None else as_numbers(fixed, "The point of the fixed image", "numbers").tolist()
        spread = as_numbers(covariance if covariance is not None else (), "The covariance", "a matrix of numbers")
        return cls(moving=point.tolist(), covariance=spread.tolist(), alpha=float(alpha), fixed=own)

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """All that must have as many coordinates as the images."""
        return (self.moving, *self.covariance, *([] if self.fixed is None else [self.fixed]))

    @property
    def covariance_world(self) -> Floats:
        """Covariance as an array (d, d)."""
        return np.array(self.covariance)


@dataclass(frozen=True)
class Cell:
    """What a rater has said to a query: the event that placed or skipped it; ``disabled`` keeps it out of the model.

    ``batch`` names the import that the answer came with.
    """

    answer: Place | Skip | None = None
    disabled: bool = False
    batch: str | None = None

    @property
    def placement(self) -> Placement | None:
        """The placement, where there is one."""
        return getattr(self.answer, "placement", None)


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


def plain_rows(array: Any) -> tuple[tuple[float, ...], ...]:
    """Return the rows of an array as tuples."""
    return tuple(tuple(row) for row in np.asarray(array, dtype=np.float64).tolist())
