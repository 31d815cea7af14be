"""The value that every landmark reader returns and every writer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import UNITS, Floats

Frame = Literal["LPS", "image"]
FRAMES: tuple[str, ...] = ("LPS", "image")
# A coordinate beyond this is not a place in an image, in any unit; it would only overflow in later sums of squares.
LARGEST_COORDINATE = 1e12


class Skip(NamedTuple):
    """A place that a rater was asked to annotate and declined."""

    fixed_point: Floats
    reason: str
    rater: str | None


def covariance_problem(covariance: Floats) -> str | None:
    """Return what keeps a matrix from being a covariance, or None."""
    if not np.all(np.isfinite(covariance)) or np.max(np.abs(covariance)) > LARGEST_COORDINATE**2:
        return "has numbers that are not finite or absurdly large"
    size = float(np.max(np.abs(covariance)))
    if not np.allclose(covariance, covariance.T, rtol=0.0, atol=1e-9 * size):
        return "is not symmetric"
    if float(np.linalg.eigvalsh(covariance)[0]) < -1e-9 * size:
        return "has a negative eigenvalue"
    return None


def text_problem(text: str) -> str | None:
    """Return what keeps a name, a rater or a reason from being stored in any text file, or None."""
    if len(text) > 10_000:
        return "is longer than 10000 characters"
    if any(ord(c) < 32 and c not in "\t\n" for c in text):
        return "has control characters"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is not a character"
    return None


def _points(points: ArrayLike, what: str) -> Floats:
    array = np.array(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InvalidInputError(f"Landmarks.{what} must be an (n, 2) or (n, 3) array, got shape {array.shape}.")
    if not np.all(np.abs(array) <= LARGEST_COORDINATE):
        raise InvalidInputError(
            f"Landmarks.{what} has numbers that are not finite or beyond {LARGEST_COORDINATE:g}; remove those rows."
        )
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Corresponding points of two images, or a set of points of one.

    Points are world coordinates x, y[, z]. ``covariances`` are those of the moving points, NaN in a row without one.
    Rows that are not ``active`` were switched off by their annotator. ``frame`` is the anatomical world of ITK or that
    of an image that has no patient. ``assumptions`` say what the file did not say and the reader took for granted.

    >>> import warpgauge as wg
    >>> pairs = wg.Landmarks([[1.0, 2.0], [3.0, 5.0]], [[1.5, 2.0], [3.0, 5.5]], names=("a", "b"), units="um")
    >>> pairs.to_annotation_arrays(default_covariance=4.0)[1]
    array([[1.5, 2. ],
           [3. , 5.5]])
    """

    fixed_points: Floats
    moving_points: Floats | None = None  # None: a set of points
    covariances: Floats | None = None
    names: tuple[str, ...] | None = None
    raters: tuple[str | None, ...] | None = None
    active: NDArray[np.bool_] = None  # type: ignore[assignment]  # replaced in __post_init__
    skips: tuple[Skip, ...] = ()
    frame: Frame = "image"
    units: str = "px"
    assumptions: tuple[str, ...] = ()
    format: str = ""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "fixed_points", _points(self.fixed_points, "fixed_points"))
        if self.moving_points is not None:
            set_field(self, "moving_points", _points(self.moving_points, "moving_points"))
            if self.moving_points.shape != self.fixed_points.shape:
                raise InvalidInputError(
                    f"Landmarks need as many moving as fixed points, got {self.moving_points.shape[0]} moving and "
                    f"{self.fixed_points.shape[0]} fixed points of {self.moving_points.shape[1]} and "
                    f"{self.fixed_points.shape[1]} coordinates."
                )
        self._check_columns()
        self._check_choices()

    def _check_columns(self) -> None:
        set_field = object.__setattr__
        n = len(self)
        active = np.ones(n, dtype=bool) if self.active is None else np.array(self.active, dtype=bool)
        active.flags.writeable = False
        set_field(self, "active", active)
        for name in ("names", "raters"):
            column: Sequence[str | None] | None = getattr(self, name)
            if column is not None:
                set_field(self, name, tuple(column))
                _check_texts(tuple(column), n, name)
        if active.shape != (n,):
            raise InvalidInputError(f"Landmarks.active must have {n} entries, got shape {active.shape}.")
        if self.covariances is not None:
            set_field(self, "covariances", self._checked_covariances(self.covariances))
        set_field(self, "skips", tuple(self.skips))
        set_field(self, "assumptions", tuple(self.assumptions))
        _check_texts(tuple(skip.reason for skip in self.skips), len(self.skips), "skips")
        if any(not skip.reason.strip() for skip in self.skips):
            raise InvalidInputError("Every skip in Landmarks.skips needs a reason; give one.")

    def _checked_covariances(self, covariances: ArrayLike) -> Floats:
        array = np.array(covariances, dtype=np.float64)
        if array.shape != (len(self), self.d, self.d) or self.moving_points is None:
            raise InvalidInputError(
                f"Landmarks.covariances must be one {self.d} x {self.d} matrix for each of {len(self)} pairs, "
                f"got shape {array.shape}."
            )
        for row in np.flatnonzero(~np.all(np.isnan(array), axis=(1, 2))):
            problem = covariance_problem(array[row])
            if problem:
                raise InvalidInputError(f"The covariance of landmark {row} (counted from 0) {problem}; correct it.")
        array.flags.writeable = False
        return array

    def _check_choices(self) -> None:
        if self.frame not in FRAMES or (self.frame == "LPS" and self.d == 2):
            raise InvalidInputError(f"Landmarks.frame must be 'LPS' (3D only) or 'image', got {self.frame!r}.")
        if self.units not in UNITS:
            raise InvalidInputError(f"Landmarks.units must be one of {', '.join(UNITS)}, got {self.units!r}.")

    def __repr__(self) -> str:
        read = f", read as {self.format}" if self.format else ""
        return f"<Landmarks: {self.d}D, {counted(len(self), 'landmark')} in {self.units} ({self.frame}){read}>"

    def __len__(self) -> int:
        return int(self.fixed_points.shape[0])

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return int(self.fixed_points.shape[1])

    @property
    def has_covariance(self) -> NDArray[np.bool_]:
        """Mask of the rows that carry a covariance."""
        if self.covariances is None:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(~np.isnan(self.covariances[:, 0, 0]))

    def to_annotation_arrays(self, default_covariance: ArrayLike | None = None) -> tuple[Floats, Floats, Floats]:
        """Return fixed points, moving points and covariances of the active pairs.

        ``default_covariance`` is that of rows without one: a variance, or a (d, d) matrix. Without it such rows are an
        error, since nothing says how uncertain they are.
        """
        if self.moving_points is None:
            raise InvalidInputError("These landmarks are a set of points without correspondences; read pairs instead.")
        known = self.has_covariance
        missing = int(np.sum(self.active & ~known))
        covariances = np.zeros((len(self), self.d, self.d))
        if default_covariance is not None:
            covariances[:] = _default_matrix(default_covariance, self.d)
        elif missing:
            raise InvalidInputError(
                f"{missing} of {int(np.sum(self.active))} landmarks have no covariance; pass default_covariance, a "
                f"variance in {self.units}^2 or a {self.d} x {self.d} matrix."
            )
        if self.covariances is not None:
            covariances[known] = self.covariances[known]
        keep = self.active
        return self.fixed_points[keep], self.moving_points[keep], covariances[keep]


def _check_texts(texts: Sequence[str | None], n: int, what: str) -> None:
    if len(texts) != n:
        raise InvalidInputError(f"Landmarks.{what} must have {n} entries, got {len(texts)}.")
    for row, text in enumerate(texts):
        problem = "is not text" if not isinstance(text, str | None) else text_problem(text or "")
        if problem:
            raise InvalidInputError(f"Landmarks.{what}[{row}] {problem}; replace it.")


def _default_matrix(default: ArrayLike, d: int) -> Floats:
    matrix = np.asarray(default, dtype=np.float64)
    if matrix.ndim == 0:
        matrix = float(matrix) * np.eye(d)
    problem = f"has shape {matrix.shape}" if matrix.shape != (d, d) else covariance_problem(matrix)
    if problem:
        raise InvalidInputError(f"default_covariance must be a variance or a {d} x {d} covariance, but it {problem}.")
    return matrix
