"""Data of a project's audit: the drawn targets, the answers, and the transforms' values there.

`AuditData` holds all data of a design-based verdict as plain arrays, so that a certificate can include them and be
checked without the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.estimators import Draws, Predictions
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation.comparison import Comparison, mapped
from warpgauge.evaluation.judge import FEWEST, judge_of
from warpgauge.project import AuditRound, Project, State
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations
from warpgauge.session.prior import default_covariance

# Parts into which answers that are not sealed are split: each is predicted by a model that does not know it.
FOLDS = 5
# Predictions are used where at least this share of the questions was drawn by disagreement. With even draws, a place
# where the model is far off is rarely among few answers, and intervals would be too short without it.
_BY_DISAGREEMENT = 0.75


@dataclass(frozen=True, eq=False)
class AuditData:
    """Audit questions that raters have reached, in the order in which they were drawn.

    Attributes
    ----------
    names : tuple of str
        Transforms, K.
    draws : Draws
        All n questions that were reached, skipped ones among them; units are the project's targets.
    answered : (n,) array of bool
        Placed by at least one rater; the others were skipped, put aside or taken out.
    matches, covariances : (n, d) and (n, d, d) arrays
        Moving world points, raters fused; NaN where not answered.
    mapped : (K, n, d) array
        The transforms at the points that were marked; NaN where a transform is not defined.
    predicted, predicted_means : (K, n) arrays or None
        Squared errors expected at the drawn targets by a model that does not know the answer there, and the mean of
        that model's expectation over all targets; None where there are too few other annotations for a model, or
        most questions were drawn evenly.
    sealed : (n,) array of bool
    moved : int
        Answers whose rater marked another point than the one asked.
    waiting : int
        Questions in the list that no rater has reached.
    """

    names: tuple[str, ...]
    draws: Draws
    answered: Bools
    matches: Floats
    covariances: Floats
    mapped: Floats
    predicted: Floats | None
    predicted_means: Floats | None
    sealed: Bools
    moved: int = 0
    waiting: int = 0

    @property
    def usable(self) -> Bools:
        """Questions that are answered, at points where every transform is defined."""
        return np.asarray(self.answered & np.isfinite(self.mapped).all(axis=(0, 2)))

    def squares(self) -> Floats:
        """Squared errors (K, n) less the trace of the placement's covariance; zero where not usable.

        Unbiased where the stated covariances are right; differences of two transforms are unbiased in any case.
        """
        distances = np.square(self.mapped - self.matches).sum(axis=2)
        return np.where(self.usable, distances - np.trace(self.covariances, axis1=1, axis2=2), 0.0)

    def predictions(self, values: Floats) -> Predictions | None:
        """Return the predictions of a combination of squared errors: ``values`` (K,) are its coefficients."""
        if self.predicted is None or self.predicted_means is None:
            return None
        return Predictions(values @ self.predicted, values @ self.predicted_means)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values; None for what is not known."""
        return {
            "names": list(self.names),
            "population": self.draws.population,
            "targets": self.draws.rows.tolist(),
            "probabilities": self.draws.probabilities.tolist(),
            "rounds": self.draws.rounds.tolist(),
            "answered": self.answered.tolist(),
            "matches": _plain(self.matches),
            "covariances": _plain(self.covariances),
            "mapped": _plain(self.mapped),
            "predicted": _plain(self.predicted),
            "predicted_means": _plain(self.predicted_means),
            "sealed": self.sealed.tolist(),
            "moved": self.moved,
            "waiting": self.waiting,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> AuditData:
        """Read it back."""
        try:
            rows = np.array(content["targets"], dtype=np.int64)
            draws = Draws(
                rows,
                np.array(content["probabilities"], dtype=np.float64),
                np.array(content["rounds"], dtype=np.int64),
                int(content["population"]),
            )
            arrays = {
                name: None if content[name] is None else np.array(content[name], dtype=np.float64)
                for name in ("matches", "covariances", "mapped", "predicted", "predicted_means")
            }
            return cls(
                tuple(str(name) for name in content["names"]),
                draws,
                np.array(content["answered"], dtype=bool),
                sealed=np.array(content["sealed"], dtype=bool),
                moved=int(content["moved"]),
                waiting=int(content["waiting"]),
                **arrays,  # type: ignore[arg-type]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"The audit in the certificate cannot be read: {error}.") from error


def _plain(array: Floats | None) -> Any:
    if array is None:
        return None
    plain = array.astype(object)
    plain[np.isnan(array)] = None
    return plain.tolist()


def audited_points(project: Project) -> Floats | None:
    """Return the point of each audit question, as marked or, if not answered, as asked; None without questions."""
    asked = _asked(project)
    return None if asked is None else asked.points


def audit_data(project: Project, comparison: Comparison) -> AuditData:
    """Gather the audit of a project, sealed answers included.

    Parameters
    ----------
    project : Project
    comparison : Comparison
        Of the transforms to certify, over the project's targets. Its annotations, which are not sealed, serve for
        predictions where there are enough.
    """
    if not comparison.transforms:
        raise InvalidInputError("There is no transform to certify; add some with warpgauge add-transform.")
    asked = _asked(project)
    if asked is None:
        share = project.settings.audit
        drawn = any(query.audit is not None for query in project.state.queries)
        todo = "annotate PROJECT" if drawn or share else "annotate PROJECT --audit 0.3"
        raise InvalidInputError(
            f"No audit question has been answered, so there is nothing to certify; answer some with warpgauge {todo}."
        )
    if comparison.audited is None or not np.array_equal(comparison.audited, asked.points):
        values = mapped(comparison.transforms.values(), asked.points)
    else:
        values = comparison.values.audited
    predicted, means = None, None
    if asked.designs.count("disagreement") >= _BY_DISAGREEMENT * len(asked.designs):
        predicted, means = _predicted(comparison, asked.draws.rows, asked.points)
    return AuditData(
        tuple(comparison.transforms),
        asked.draws,
        asked.answered,
        asked.matches,
        asked.covariances,
        values,
        predicted,
        means,
        asked.sealed,
        asked.moved,
        asked.waiting,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """The audit questions that raters have reached, with their answers, whatever the transforms."""

    draws: Draws
    designs: list[str]
    points: Floats
    answered: Bools
    matches: Floats
    covariances: Floats
    sealed: Bools
    moved: int
    waiting: int


def _asked(project: Project) -> _Asked | None:
    """Return the audit questions that raters have reached; None without any."""
    with project.lock:
        state = project.state
        asked = [query.number for query in state.queries if query.audit is not None]
        reached = [number for number in asked if state.is_taken(number)]
        if not reached:
            return None
        default = default_covariance(project.fixed_grid, project.settings)
        located = located_annotations(state, project.d, default, sealed=True)
    draws = _draws(state, reached)
    rows = [located.row_at(number) for number in reached]
    return _Asked(
        draws,
        [state.audits[number].design for number in draws.rounds],
        *_answers(state, located, reached, rows, project.d),
        np.array([state.is_sealed(number) for number in reached], dtype=bool),
        sum(row is not None and located.marks[row][0].moved for row in rows),
        len(asked) - len(reached),
    )


def _draws(state: State, reached: list[int]) -> Draws:
    """Return the draws of the questions asked so far; for an unfinished round, with the probability of its part."""
    places = [state.queries[number].audit or (0, 0) for number in reached]
    counts = {number: sum(place[0] == number for place in places) for number, _ in places}
    rounds: dict[int, AuditRound] = {drawn.number: drawn for drawn in state.audits}
    targets = [rounds[number].targets[place] for number, place in places]
    shares = [
        min(1.0, rounds[number].probabilities[place] * counts[number] / len(rounds[number].targets))
        for number, place in places
    ]
    population = rounds[places[0][0]].population
    return Draws(np.array(targets), np.array(shares), np.array([number for number, _ in places]), population)


def _answers(
    state: State, located: LocatedAnnotations, reached: list[int], rows: list[int | None], d: int
) -> tuple[Floats, Bools, Floats, Floats]:
    """Return marked points (the asked one where there is no answer), which are answered, matches and covariances."""
    points = np.array([state.queries[number].point for number in reached], dtype=np.float64)
    matches, covariances = np.full((len(rows), d), np.nan), np.full((len(rows), d, d), np.nan)
    given = located.annotations
    for at, row in enumerate(rows):
        if row is not None:
            points[at], matches[at] = given.fixed_points[row], given.moving_points[row]
            covariances[at] = given.covariances[row]
    return points, np.array([row is not None for row in rows], dtype=bool), matches, covariances


def _predicted(comparison: Comparison, drawn: Ints, points: Floats) -> tuple[Floats | None, Floats | None]:
    """Return expected squared errors at the drawn targets and their means over all targets, (K, n) each.

    Answers that the posterior knows (not sealed) are predicted by models fitted without them, in `FOLDS` parts.
    """
    given = comparison.annotations
    if len(given) < FEWEST + FOLDS:
        return None, None
    values, defined = comparison.values.targets, comparison.defined.all(axis=0)
    known = {tuple(point): row for row, point in enumerate(given.fixed_points.tolist())}
    own = np.array([known.get(tuple(point), -1) for point in points.tolist()], dtype=np.int64)
    folds = np.where(own >= 0, np.cumsum(own >= 0) % FOLDS, -1)
    predicted, means = np.empty((len(values), len(points))), np.empty((len(values), len(points)))
    for fold in np.unique(folds):
        here = folds == fold
        model = judge_of(comparison if fold < 0 else comparison.without(own[here]))
        squares = np.square(values - model.mean_over(comparison)).sum(axis=2)
        average = squares[:, defined].mean(axis=1)
        means[:, here] = average[:, None]
        # Where a transform is not defined the question is not used, whatever is predicted.
        predicted[:, here] = np.where(np.isfinite(squares), squares, 0.0)[:, drawn[here]]
    return predicted, means
