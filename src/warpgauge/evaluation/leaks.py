r"""Test of whether a registration has seen the open annotations.

Some answers are sealed: no registration can have seen them. A registration T that was bent to the open answers by a
share f of its residuals there has the residuals

.. math:: e'_{open} = (1 - f) \, e_{open}, \qquad e'_{sealed} = e_{sealed} - f \, (W e_{open}),

with W the interpolation by which it was bent. `leak_tests` undoes the suspected leak,
:math:`z = e' + f / (1 - f) W e'`, and asks for which f the residuals look most alike at open and sealed answers: by the
likelihood of z under Student-t tails about a combination of the reference registrations' residuals, plus
``d n_open log 1 / (1 - f)`` for the change of volume. The largest over f is compared with the same number after the
labels open and sealed were permuted, so that the rate of false alarms does not depend on the model.

Two interpolations are tried, each with permutations of its own: a thin-plate spline, and none at all (a bend so short
that it does not reach the sealed answers). Twice the smaller p is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import RBFInterpolator

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.parallel import one_blas_thread
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.comparison import Comparison

LEVEL = 0.02
SHARES = (0.2, 0.35, 0.5, 0.7, 0.85)
PERMUTATIONS = 399
TAILS = 8.0
# Fewer sealed or open answers than this say nothing about a leak.
FEWEST = 3
# Ridge of the combination of the references, as a share of their mean square.
_RIDGE = 0.01
_STEPS = 12


@dataclass(frozen=True)
class LeakTest:
    """Result of the test for one registration.

    Attributes
    ----------
    p : float
        Probability of a number as large where nothing has leaked: at most this.
    share : float
        The share f of the residuals that fits best.
    open, sealed : int
        Answers behind it.
    """

    p: float
    share: float
    open: int
    sealed: int

    @property
    def leaked(self) -> bool:
        """Whether the registration has seen open answers, by this test."""
        return self.p <= LEVEL


def tested(comparison: Comparison) -> dict[str, LeakTest]:
    """Test the methods of a comparison by its sealed answers; empty where there are too few.

    References and the transform that does nothing are not tested, nor are those that were added when the answers were
    open. A method is tested by the answers where it is defined; of those that were opened one after the other, by those
    that it cannot have seen.
    """
    sealed, given = comparison.sealed, comparison.annotations
    if sealed is None or min(len(sealed), len(given)) < FEWEST:
        return {}
    points = np.concatenate([given.fixed_points, sealed.fixed_points])
    answers = np.concatenate([given.moving_points, sealed.moving_points])
    values = np.concatenate([comparison.values.annotations, comparison.values.sealed], axis=1)
    names, defined = list(comparison.transforms), np.isfinite(values).all(axis=2)
    references = [k for k, name in enumerate(names) if name in comparison.panel]
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    for k, name in enumerate(names):
        if name not in comparison.panel and not np.array_equal(values[k], points):
            groups.setdefault((comparison.hidden_from(name).tobytes(), defined[k].tobytes()), []).append(k)
    found: dict[str, LeakTest] = {}
    for alike in groups.values():
        rows = defined[alike[0]]
        hidden = comparison.hidden_from(names[alike[0]])[rows]
        if min(hidden.sum(), (~hidden).sum()) >= FEWEST:
            beside = [k for k in references if defined[k, rows].all()]
            missed = answers[rows] - values[:, rows]
            tests = leak_tests(missed[alike], missed[beside], points[rows], hidden)
            found.update({names[k]: one for k, one in zip(alike, tests, strict=True)})
    return found


@one_blas_thread()
def leak_tests(
    residuals: Floats, references: Floats, points: Floats, sealed: Bools, *, seed: int = 0, count: int = PERMUTATIONS
) -> list[LeakTest]:
    """Test whether residuals are smaller at open answers than they would be without having seen them.

    What is found of one registration does not depend on the others.

    Parameters
    ----------
    residuals : (M, n, d) array
        Answer less registration, at open and sealed answers, for M registrations.
    references : (K, n, d) array
        The same of registrations that never saw an answer; K may be 0.
    points : (n, d) array
        The annotated fixed points.
    sealed : (n,) array of bool
    seed : int
        Of the permutations.
    count : int
        Permutations of the labels.
    """
    hidden = np.asarray(sealed, dtype=bool)
    n_open, n_sealed = int((~hidden).sum()), int(hidden.sum())
    if min(n_open, n_sealed) < FEWEST:
        raise InvalidInputError(
            f"A leak test needs at least {FEWEST} open and {FEWEST} sealed answers, got {n_open} and {n_sealed}."
        )
    rng = np.random.default_rng([seed, len(hidden), n_open])
    labels = np.stack([hidden, *(rng.permutation(hidden) for _ in range(count))])
    combination = _combination(references)
    scores = np.stack([_scores(residuals, combination, points, ~one) for one in labels])  # (1 + count, M, 2, F)
    largest = scores.max(axis=3)
    # Permutations that give the same number count as larger, against the suspicion.
    p = (1 + np.sum(largest[1:] >= largest[0] - 1e-9, axis=0)) / (count + 1)
    found = []
    for each, score in zip(p, scores[0], strict=True):
        way = int(each.argmin())
        found.append(LeakTest(min(1.0, 2 * float(each[way])), SHARES[int(score[way].argmax())], n_open, n_sealed))
    return found


def _combination(references: Floats) -> Floats:
    """Matrix (n d, n d) that takes residuals to their ridge regression on those of the references."""
    size = references.shape[1] * references.shape[2]
    if not len(references):
        return np.zeros((size, size))
    columns = references.reshape(len(references), size).T
    gram = columns.T @ columns
    ridge = _RIDGE * float(np.trace(gram)) / len(gram) * np.eye(len(gram))
    return np.asarray(columns @ np.linalg.solve(gram + ridge, columns.T))


def _scores(residuals: Floats, combination: Floats, points: Floats, seen: Bools) -> Floats:
    """Log likelihood less that without a leak, for each registration, interpolation and share, (M, 2, F)."""
    n, d = points.shape
    spread = np.zeros((n, n))
    spread[:, seen] = thin_plate_weights(points[seen], points)
    local = np.diag(seen.astype(np.float64))
    undone = np.stack([one @ residuals for one in (spread, local)], axis=1)  # (M, 2, n, d)
    odds = np.array([f / (1 - f) for f in SHARES])
    z = residuals[:, None, None] + odds[:, None, None] * undone[:, :, None]
    volume = d * int(seen.sum()) * np.log1p(odds)
    without = _profile_likelihood(residuals, combination)[:, None, None]
    return np.asarray(_profile_likelihood(z, combination) + volume - without)


def _profile_likelihood(z: Floats, combination: Floats) -> Floats:
    """Student-t log likelihood of (..., n, d) vectors about their regression, at its best scale."""
    *lead, n, d = z.shape
    flat = z.reshape(*lead, n * d)
    squares = np.square(flat - flat @ combination.T).reshape(*lead, n, d).sum(axis=-1)
    scale = np.maximum(squares.mean(axis=-1) / d, 1e-300)
    for _ in range(_STEPS):  # the fixed point of the scale's likelihood equation (EM)
        weights = (TAILS + d) / (TAILS + squares / scale[..., None])
        scale = np.maximum((weights * squares).mean(axis=-1) / d, 1e-300)
    logs = -0.5 * (TAILS + d) * np.log1p(squares / (TAILS * scale[..., None])) - 0.5 * d * np.log(scale)[..., None]
    return np.asarray(logs.sum(axis=-1))


def thin_plate_weights(known: Floats, points: Floats) -> Floats:
    """Matrix (n, m) that interpolates values at m known points to n points by a thin-plate spline.

    With too few points for an affine map, or points on a line or plane, the values are spread as their mean.
    """
    m, d = known.shape
    affine = np.column_stack([np.ones(m), known - known.mean(axis=0)])
    if np.linalg.matrix_rank(affine) <= d:
        return np.full((len(points), m), 1 / m)
    kernel = "thin_plate_spline" if d == 2 else "linear"
    return np.asarray(RBFInterpolator(known, np.eye(m), kernel=kernel, degree=1)(points))
