"""Probability that a candidate of a project can be answered, from where its match may lie and from earlier skips.

The formulas are in `warpgauge.core.expected_answers`; here are the moving image, the answers and the reach of each
reason for a skip. Of more than 2,000 candidates, the chance is worked out at about so many anchors among them and
interpolated: it changes slowly over the image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from warpgauge.core.arrays import Ints
from warpgauge.core.expected_answers import AnswerField, chance_in_box, chance_in_region
from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats
from warpgauge.project import Place, Project, Skip, State

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


@dataclass(frozen=True, eq=False)
class Anchors:
    """Candidates that represent the others, and the weights for interpolating the others."""

    points: Floats
    rows: Ints
    """Anchors of each candidate, (n, k)."""
    weights: Floats
    """Their shares, which add up to 1, (n, k)."""

    @classmethod
    def among(cls, candidates: Floats) -> Anchors:
        """Choose anchors: all candidates where they are few, else one in each of about 2,000 cells of a lattice."""
        n, d = candidates.shape
        if n <= _MOST_ANCHORS:
            return cls(candidates, np.arange(n)[:, None], np.ones((n, 1)))
        low = candidates.min(axis=0)
        cell = float(np.ptp(candidates, axis=0).max()) / max(1, round(_MOST_ANCHORS ** (1 / d)))
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
    """Chances of all candidates of a project."""

    project: Project
    anchors: Anchors

    def of(self, state: State, posterior: Posterior) -> Floats:
        """Return the chance of every candidate, (n,), given all raters' answers and the posterior of them."""
        points = self.anchors.points
        return self.anchors.spread(self.field(state).at(points) * self.inside(posterior, points))

    def field(self, state: State) -> AnswerField:
        """Return the field of chances learned from all raters' answers and skips."""
        points: list[tuple[float, ...]] = []
        skipped: list[bool] = []
        reaches: list[float] = []
        for (_, number), cell in state.cells.items():
            point = state.queries[number].point
            if isinstance(cell.answer, Place):
                points.append(cell.answer.placement.fixed or point)
                skipped.append(False)
                reaches.append(ANSWER_REACH)
            elif isinstance(cell.answer, Skip):
                points.append(point)
                skipped.append(True)
                reaches.append(SKIP_REACHES[cell.answer.reason])
        if not any(skipped):  # the field is 1 everywhere, however many answers there are
            points, skipped, reaches = [], [], []
        at = np.reshape(np.array(points, dtype=np.float64), (-1, self.project.d))
        world = np.array(reaches, dtype=np.float64) * self.project.fixed_grid.diagonal
        return AnswerField(at, np.array(skipped, dtype=np.bool_), world, SKIP_WEIGHT)

    def inside(self, posterior: Posterior, points: Floats) -> Floats:
        """Return the probability that the matches of (n, d) points lie in the moving image and its foreground."""
        grid = self.project.moving_grid
        tails = posterior.prior.tails
        mean = posterior.mean(points)
        covariance = posterior.covariance(points)
        foreground = self.project.moving_foreground
        if foreground is not None and not foreground.whole:
            return chance_in_region(mean, covariance, foreground.contains, tails)
        to_index = np.linalg.inv(grid.direction) / grid.spacing[:, None]
        size = np.asarray(grid.size, dtype=np.float64)
        return chance_in_box(
            grid.world_to_index(mean), to_index @ covariance @ to_index.T, np.full(grid.d, -0.5), size - 0.5, tails
        )
