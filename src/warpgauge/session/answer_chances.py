"""Probability that a candidate of a project can be answered, from where its match may lie and from earlier skips.

The formulas are in `warpgauge.core.expected_answers`; here are the moving image, the answers and the reach of each
reason for a skip. Of more than 2,000 candidates, the chance is worked out at about so many anchors among them and
interpolated: it changes slowly over the image. How distinctive a candidate is does not: it is looked at only for the
candidates around the most informative one, which it may give way to.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from warpgauge.core.arrays import Ints
from warpgauge.core.expected_answers import AnswerField, Recognition, chance_in_box, chance_in_region
from warpgauge.core.process import Posterior
from warpgauge.errors import SuspiciousDataWarning, WarpgaugeError
from warpgauge.geometry import Floats
from warpgauge.project import Placed, Project, Skipped, State
from warpgauge.session.nearby import Sight

# How far an answer or a skip speaks for its neighbourhood, as a share of the fixed image's diagonal: an overlap or a
# tear is large, an ambiguous structure is not.
ANSWER_REACH = 0.08
SKIP_REACHES = {
    "outside_image": 0.08,
    "torn_or_missing": 0.06,
    "not_visible": 0.06,
    "ambiguous": 0.03,
    "other": 0.03,
}
# So many answers at the same place make up for a skip.
SKIP_WEIGHT = 2.0
_MOST_ANCHORS = 2000
# A question may go to one of so many candidates, within this share of the diagonal, around the most informative one.
MOST_COMPARED = 12
ASIDE = 0.03
# Skips that tell that a place was not recognised, and how many of the last answers are learned from.
UNRECOGNISED = ("ambiguous", "not_visible")
MOST_LEARNED = 60


@dataclass(frozen=True, eq=False)
class Anchors:
    """Candidates that represent the others, and the weights for interpolating the others.

    Attributes
    ----------
    points : (m, d) array
    rows, weights : (n, k) arrays
        Anchors of each candidate and their shares, which add up to 1.
    """

    points: Floats
    rows: Ints
    weights: Floats

    @classmethod
    def among(cls, candidates: Floats) -> Anchors:
        """Choose anchors: all candidates where they are few, else one in each of about 2,000 cells of a lattice."""
        n, d = candidates.shape
        if n <= _MOST_ANCHORS:
            return cls(candidates, np.arange(n)[:, None], np.ones((n, 1)))
        low, sides = candidates.min(axis=0), np.ptp(candidates, axis=0)
        cell = float(np.max(sides)) / max(1, round(_MOST_ANCHORS ** (1 / d)))
        while True:
            cells = np.floor((candidates - low) / cell).astype(np.int64)
            _, first = np.unique(cells, axis=0, return_index=True)
            if len(first) <= _MOST_ANCHORS:
                break
            cell *= 1.1
        points = candidates[np.sort(first)]
        distances, rows = cKDTree(points).query(candidates, k=d + 2)
        weights = 1 / np.square(np.maximum(distances, 1e-9 * cell))
        return cls(points, rows, weights / weights.sum(axis=1, keepdims=True))

    def spread(self, values: Floats) -> Floats:
        """Interpolate (m,) values at the anchors to (n,) candidates; each stays within the values of its anchors."""
        # A weighted mean, which rounding may take beyond them.
        return np.asarray(np.clip(np.einsum("nk,nk->n", values[self.rows], self.weights), values.min(), values.max()))


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances of all candidates of a project.

    Parameters
    ----------
    project : Project
    anchors : Anchors
        Of the project's candidates.
    """

    project: Project
    anchors: Anchors

    def of(self, state: State, posterior: Posterior) -> Floats:
        """Return the chance of every candidate, (n,), given all raters' answers and the posterior of them."""
        points = self.anchors.points
        return self.anchors.spread(self.field(state).at(points) * self.inside(posterior, points))

    @cached_property
    def _sight(self) -> Sight | None:
        try:
            return Sight.of(self.project)
        except WarpgaugeError as error:
            note = f"{error} Until then, questions are chosen without looking at how distinctive places are."
            warnings.warn(note, SuspiciousDataWarning, stacklevel=2)
            return None

    @cached_property
    def _distinct(self) -> dict[tuple[float, ...], float]:
        return {}

    def distinct(self, point: Sequence[float]) -> float | None:
        """Return how distinctive a point is; None where that cannot be told."""
        key, sight = tuple(float(value) for value in point), self._sight
        if key not in self._distinct and sight is not None:
            self._distinct[key] = sight.distinctiveness(np.array(key))
        return self._distinct.get(key)

    def around(self, row: int) -> list[int]:
        """Return the candidates that a question about one may go to, itself first."""
        candidates = self.project.candidates
        squared = np.square(candidates - candidates[row]).sum(axis=1)
        near = np.flatnonzero(squared < (ASIDE * self.project.fixed_grid.diagonal) ** 2)
        nearest = near[np.argsort(squared[near], kind="stable")][:MOST_COMPARED]
        return [row, *(int(k) for k in nearest if k != row)]

    def recognition(self, state: State) -> Recognition:
        """Return the chance of recognising a place, learned from the last answers and skips of all raters."""
        told: list[tuple[int, bool]] = []
        for (_, number), cell in reversed(state.cells.items()):
            skipped = isinstance(cell.answer, Skipped) and cell.answer.reason in UNRECOGNISED
            if skipped or isinstance(cell.answer, Placed):
                told.append((number, not skipped))
            if len(told) == MOST_LEARNED:
                break
        # Without a skip there is nothing to tell places apart by, and nothing is looked at.
        if all(recognised for _, recognised in told):
            return Recognition()
        distinct = [self.distinct(state.queries[number].point) for number, _ in told]
        if None in distinct:
            return Recognition()
        return Recognition.learned(np.array(distinct, dtype=np.float64), np.array([seen for _, seen in told]))

    def field(self, state: State) -> AnswerField:
        """Return the field of chances learned from all raters' answers and skips."""
        points: list[tuple[float, ...]] = []
        skipped, reaches = [], []
        for (_, number), cell in state.cells.items():
            answer, point = cell.answer, state.queries[number].point
            if isinstance(answer, Placed):
                points.append(answer.placement.fixed or point)
                reaches.append(ANSWER_REACH)
            elif isinstance(answer, Skipped):
                points.append(point)
                reaches.append(SKIP_REACHES[answer.reason])
            else:
                continue
            skipped.append(isinstance(answer, Skipped))
        if not any(skipped):  # the field is 1 everywhere, however many answers there are
            points, skipped, reaches = [], [], []
        at = np.reshape(np.array(points, dtype=np.float64), (-1, self.project.d))
        world = np.array(reaches, dtype=np.float64) * self.project.fixed_grid.diagonal
        return AnswerField(at, np.array(skipped, dtype=np.bool_), world, SKIP_WEIGHT)

    def inside(self, posterior: Posterior, points: Floats) -> Floats:
        """Return the probability that the matches of (n, d) points lie in the moving image and its foreground."""
        grid, tails = self.project.moving_grid, posterior.prior.tails
        mean, covariance = posterior.mean(points), posterior.covariance(points)
        foreground = self.project.moving_foreground
        if foreground is not None and not foreground.whole:
            return chance_in_region(mean, covariance, foreground.contains, tails)
        to_index = np.linalg.inv(grid.direction) / grid.spacing[:, None]
        size = np.asarray(grid.size, dtype=np.float64)
        return chance_in_box(
            grid.world_to_index(mean), to_index @ covariance @ to_index.T, np.full(grid.d, -0.5), size - 0.5, tails
        )
