"""Data of a project's audit: the drawn places, the answers, and the transforms' values there.

`AuditData` holds all data of a verdict by the random draw as plain arrays, so that a certificate can include them and
be checked without the project. The population are the places at which the targets are asked; where a transform is not
defined at one, it counts there as no registration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from warpgauge.audit.estimators import Draws
from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation.comparison import Comparison, mapped
from warpgauge.project import DrawAudit, Project, State
from warpgauge.session.audit_questions import audit_places
from warpgauge.session.fused_annotations import LocatedAnnotations, located_annotations
from warpgauge.session.prior import default_covariance

# Shares of the places for which `Apart.largest` is known; the last is all of them.
SHARES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Apart:
    """How far transforms lie apart: the bounds of exact tickets, which are known before any answer.

    Attributes
    ----------
    at_draws : (P, n) array
        Distances of every two transforms, in the order of `itertools.combinations`, at the drawn places.
    largest : (P, 2, S) array
        Sums of the distances and of their squares over the places where they are largest, for the `SHARES` of the
        places; the last are the sums over all places.
    """

    at_draws: Floats
    largest: Floats

    @classmethod
    def of(cls, values: Floats, rows: Ints) -> Apart:
        """Return the distances of transforms (K, N, d) at all places, of which some rows were drawn."""
        K, N, _ = values.shape
        ends = np.ceil(np.array(SHARES) * N).astype(np.int64) - 1
        apart = [np.linalg.norm(values[a] - values[b], axis=1) for a, b in combinations(range(K), 2)]
        falling = [np.sort(one)[::-1] for one in apart]
        largest = [[np.cumsum(one)[ends], np.cumsum(np.square(one))[ends]] for one in falling]
        return cls(
            np.array([one[rows] for one in apart]).reshape(-1, len(rows)),
            np.array(largest, dtype=np.float64).reshape(-1, 2, len(SHARES)),
        )


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
    sealed : (n,) array of bool
    moved : int
        Answers whose rater marked another point than the one asked.
    waiting : int
        Questions in the list that no rater has reached.
    pending : (n,) array of bool, optional
        Questions that no rater has reached although a later one is answered.
    apart : Apart or None
        None in certificates of former schemas.
    bets : (K, n) array of bool, optional
        Draws that may prove something about a transform: drawn one at a time, and with an answer that could not be
        known when the transform was added.
    undefined : (K,) array, optional
        Share of the places at which a transform is not defined.
    pixel, diagonal : float
        Of the fixed image and of the moving one, in world units.
    asked : (K, n, d) array or None
        The transforms at the drawn places as they were asked; not part of a certificate.
    """

    names: tuple[str, ...]
    draws: Draws
    answered: Bools
    matches: Floats
    covariances: Floats
    mapped: Floats
    sealed: Bools
    moved: int = 0
    waiting: int = 0
    pending: Bools | None = None
    apart: Apart | None = None
    bets: Bools | None = None
    undefined: Floats | None = None
    pixel: float = 1.0
    diagonal: float = np.inf
    asked: Floats | None = None

    @property
    def usable(self) -> Bools:
        """Questions that are answered, at points where every transform is defined."""
        return np.asarray(self.answered & np.isfinite(self.mapped).all(axis=(0, 2)))

    def bets_on(self, *rows: int) -> Bools:
        """Draws that may prove something about some of the transforms together, (n,)."""
        if self.bets is None:
            return np.ones(len(self.draws), dtype=bool)
        return np.asarray(self.bets[list(rows)].all(axis=0))

    def squares(self) -> Floats:
        """Squared errors (K, n) less the trace of the placement's covariance; zero where not usable.

        Unbiased where the stated covariances are right; differences of two transforms are unbiased in any case.
        """
        distances = np.square(self.mapped - self.matches).sum(axis=2)
        return np.where(self.usable, distances - np.trace(self.covariances, axis1=1, axis2=2), 0.0)

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
            "sealed": self.sealed.tolist(),
            "moved": self.moved,
            "waiting": self.waiting,
        } | ({} if self.apart is None else self._exact())

    def _exact(self) -> dict[str, Any]:
        """Return what exact verdicts need beside the answers."""
        assert self.apart is not None
        return {
            "pending": None if self.pending is None else self.pending.tolist(),
            "apart_at_draws": self.apart.at_draws.tolist(),
            "apart_largest": self.apart.largest.tolist(),
            "bets": None if self.bets is None else self.bets.tolist(),
            "undefined": None if self.undefined is None else self.undefined.tolist(),
            "pixel": self.pixel,
            "diagonal": self.diagonal,
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
                for name in ("matches", "covariances", "mapped")
            }
            return cls(
                tuple(str(name) for name in content["names"]),
                draws,
                np.array(content["answered"], dtype=bool),
                sealed=np.array(content["sealed"], dtype=bool),
                moved=int(content["moved"]),
                waiting=int(content["waiting"]),
                **arrays,  # type: ignore[arg-type]
                **(_read_exact(content, len(rows)) if "apart_largest" in content else {}),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"The audit in the certificate cannot be read: {error}.") from error


def _read_exact(content: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Read what exact verdicts need beside the answers."""
    largest = np.array(content["apart_largest"], dtype=np.float64).reshape(-1, 2, len(SHARES))
    at_draws = np.array(content["apart_at_draws"], dtype=np.float64).reshape(-1, n)
    return {
        "apart": Apart(at_draws, largest),
        **{
            name: None if content[name] is None else np.array(content[name], dtype=bool) for name in ("pending", "bets")
        },
        "undefined": None if content["undefined"] is None else np.array(content["undefined"], dtype=np.float64),
        "pixel": float(content["pixel"]),
        "diagonal": float(content["diagonal"]),
    }


def _plain(array: Floats | None) -> Any:
    if array is None:
        return None
    plain = array.astype(object)
    plain[np.isnan(array)] = None
    return plain.tolist()


def audited_points(project: Project) -> Floats | None:
    """Return the places of the audit, then the point of each question, as marked or else as asked; None without any."""
    asked = _asked(project)
    return None if asked is None else asked.mapped_at


def audit_data(project: Project, comparison: Comparison) -> AuditData:
    """Gather the audit of a project, sealed answers included.

    Parameters
    ----------
    project : Project
    comparison : Comparison
        Of the transforms to certify, over the project's targets.
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
    points = asked.mapped_at
    if comparison.audited is None or not np.array_equal(comparison.audited, points):
        values = mapped(comparison.transforms.values(), points)
    else:
        values = comparison.values.audited
    N = len(asked.places)
    undefined = np.asarray(~np.isfinite(values).all(axis=2))
    filled = np.where(undefined[:, :, None], comparison.posterior.prior.prior_mean(points), values)
    return AuditData(
        tuple(comparison.transforms),
        asked.draws,
        asked.answered,
        asked.matches,
        asked.covariances,
        np.ascontiguousarray(filled[:, N:]),
        asked.sealed,
        asked.moved,
        asked.waiting,
        asked.pending,
        Apart.of(filled[:, :N], asked.draws.rows),
        _bets(project.state, asked, tuple(comparison.transforms)),
        undefined[:, :N].mean(axis=1),
        project.fixed_grid.pixel,
        project.moving_grid.diagonal,
        np.ascontiguousarray(filled[:, :N][:, asked.draws.rows]),
    )


def family_of(state: State, names: Collection[str]) -> int:
    """Return among how many transforms some were chosen: all that the project ever had, and others that are given."""
    return len(state.first_added) + len([name for name in names if name not in state.transforms])


def _bets(state: State, asked: _Asked, names: tuple[str, ...]) -> Bools:
    """Return which draws may prove something about which transform, (K, n).

    Answers that are not sealed may be known as soon as their round is drawn; sealed ones once they are opened. Of a
    transform that is not in the project it is not known when it was made; the verdict says how many answers were open.
    """
    known_from = [
        (state.opened_at(number) or np.inf) if state.was_sealed(number) else drawn.generation
        for number, drawn in zip(asked.numbers, asked.drawn_in, strict=True)
    ]
    records = [state.transforms.get(name) for name in names]
    added = [-1 if record is None else state.first_added[record.content] for record in records]
    return np.array([[at < known for known in known_from] for at in added])


@dataclass(frozen=True, eq=False)
class _Asked:
    """The audit questions that raters have reached, with their answers, whatever the transforms."""

    places: Floats
    numbers: list[int]
    draws: Draws
    drawn_in: list[DrawAudit]
    pending: Bools
    points: Floats
    answered: Bools
    matches: Floats
    covariances: Floats
    sealed: Bools
    moved: int
    waiting: int

    @property
    def mapped_at(self) -> Floats:
        """All points at which transforms are needed: the places of the population, then those of the questions."""
        return np.concatenate([self.places, self.points])


def _asked(project: Project) -> _Asked | None:
    """Return the audit questions that raters have reached; None without any."""
    with project.lock:
        state = project.state
        asked = [query for query in state.queries if query.audit is not None]
        reached = [query.number for query in asked if state.is_taken(query.number)]
        if not reached:
            return None
        # Of targets drawn one at a time, a question that was passed over counts as drawn.
        drawn = [state.audits[query.audit[0]] for query in asked if query.audit is not None]
        numbers = [
            query.number
            for query, own in zip(asked, drawn, strict=True)
            if query.number in reached or query.number < reached[-1]
        ]
        default = default_covariance(project.fixed_grid, project.settings)
        located = located_annotations(state, project.d, default, sealed=True)
        rounds = {query.number: own for query, own in zip(asked, drawn, strict=True)}
    rows = [located.row_at(number) for number in numbers]
    return _Asked(
        audit_places(project)[0],
        numbers,
        _draws(state, numbers),
        [rounds[number] for number in numbers],
        np.array([number not in reached for number in numbers], dtype=bool),
        *_answers(state, located, numbers, rows, project.d),
        np.array([state.is_sealed(number) for number in numbers], dtype=bool),
        sum(row is not None and located.marks[row][0].moved for row in rows),
        len(asked) - len(reached),
    )


def _draws(state: State, reached: list[int]) -> Draws:
    """Return the draws of the questions asked so far: each target was drawn by itself."""
    places = [state.queries[number].audit or (0, 0) for number in reached]
    rounds: dict[int, DrawAudit] = {drawn.number: drawn for drawn in state.audits}
    targets = [rounds[number].targets[place] for number, place in places]
    shares = [rounds[number].probabilities[place] for number, place in places]
    population = rounds[places[0][0]].population
    return Draws(np.array(targets), np.array(shares), np.arange(len(places)), population)


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
