"""Learning the kernel's weights, and the noise, from annotated pairs by leave-one-out (section III-F-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.factors import is_isotropic
from warpgauge.core.fit_reports import FitReport
from warpgauge.core.parallel import blas_threads_for
from warpgauge.core.process import TransformationPrior
from warpgauge.errors import InvalidInputError, SingularModelError

# The logarithm of the noise may range so far about that of the mean squared displacement of the training data.
_NOISE_DOWN, _NOISE_UP = 8 * np.log(10), 4 * np.log(10)
# Iterations from every start, on at most this many annotations of each set, that tell which start to follow.
_SCOUTING, _SCOUTS = 30, 200


class _TrainingSet:
    """One set with its kernel as a function of the weights: for a bundle, no loss or gradient evaluates it again."""

    def __init__(self, prior: TransformationPrior, annotations: Annotations) -> None:
        X = annotations.fixed_points
        self.count, self.d = X.shape
        first, second = np.triu_indices(self.count)
        # Places of the pairs in a matrix, row by row: a single number each is looked up in half of the time.
        self.upper, self.apart = first * self.count + second, first != second
        self.basis = np.ascontiguousarray(prior.kernel.basis(X, first, second))
        features = prior.scalar_kernel(self.d).features(X)
        self.fixed_part = (features @ features.T).reshape(-1)[self.upper]
        self.residuals = annotations.moving_points - prior.prior_mean(X)
        self.covariances = annotations.covariances
        self.isotropic = is_isotropic(annotations.covariances)

    def loss_and_gradient(self, weights: Floats, noise: float) -> tuple[float, Floats, float]:
        """Sum of the loss over this set, its gradient by the weights, and by the noise variance."""
        with blas_threads_for(self.count if self.isotropic else self.count * self.d):
            return self._loss_and_gradient(weights, noise)

    def _loss_and_gradient(self, weights: Floats, noise: float) -> tuple[float, Floats, float]:
        gram = np.zeros((self.count, self.count))
        gram.reshape(-1)[self.upper] = weights @ self.basis + self.fixed_part
        loss, adjoint = (self._isotropic if self.isotropic else self._anisotropic)(gram, noise)
        # d loss / d theta_s is the inner product of the adjoint with scale s: each pair off the diagonal counts twice,
        # so that only its upper triangle is looked at.
        folded = adjoint.reshape(-1)[self.upper]
        folded[self.apart] *= 2
        return loss, self.basis @ folded, float(np.trace(adjoint))

    def _isotropic(self, gram: Floats, noise: float) -> tuple[float, Floats]:
        """Loss and its derivative by the scalar kernel matrix, with upper triangles of L x L matrices only."""
        gram[np.diag_indices(self.count)] += self.covariances[:, 0, 0] + noise
        C = _inverse(gram)
        q = C @ self.residuals
        D = np.diagonal(C)
        u = q / D[:, None]
        loss = 0.5 * np.sum(self.d + np.square(q).sum(axis=1) / D - self.d * np.log(D))
        B = np.square(u).sum(axis=1) + self.d / D
        # C diag(B) C is symmetric and B positive: half of the products is enough, of the lower triangle by columns,
        # which is the upper one by rows.
        lower = blas.dsyr2k(-0.5, C @ u, q, lower=1)
        lower = blas.dsyrk(0.5, (C * np.sqrt(B)).T, beta=1.0, c=lower, trans=1, lower=1, overwrite_c=1)
        return float(loss), lower.T

    def _anisotropic(self, gram: Floats, noise: float) -> tuple[float, Floats]:
        """Do the same with Ld x Ld matrices; the derivative is summed over the components, which share the scalar."""
        L, d = self.count, self.d
        gram += np.triu(gram, 1).T
        K = np.zeros((L, d, L, d))
        for a in range(d):
            K[:, a, :, a] = gram
        rows = np.arange(L)
        K[rows, :, rows, :] += self.covariances + noise * np.eye(d)
        C = _inverse(K.reshape(L * d, L * d))
        q = C @ self.residuals.reshape(-1)
        D = C.reshape(L, d, L, d)[rows, :, rows, :]
        D_inverse = np.linalg.inv(D)
        u = np.einsum("lab,lb->la", D_inverse, q.reshape(L, d))
        quadratic = np.einsum("la,la->", u, q.reshape(L, d))
        loss = 0.5 * (L * d + quadratic - np.linalg.slogdet(D)[1].sum())
        B = np.einsum("la,lb->lab", u, u) + D_inverse
        C_rows = C.reshape(L, d, L * d)
        weighted = np.einsum("lab,lbm->lam", B, C_rows)
        # Only the diagonal components of each d x d block are needed: d products of L x Ld x L.
        adjoint = np.zeros((L, L))
        v = (C @ u.reshape(-1)).reshape(L, d)
        split, split_weighted = C_rows.reshape(L * d, L, d), weighted.reshape(L * d, L, d)
        for a in range(d):
            adjoint += 0.5 * split[:, :, a].T @ split_weighted[:, :, a]
            cross = np.outer(v[:, a], q.reshape(L, d)[:, a])
            adjoint -= 0.5 * (cross + cross.T)
        return float(loss), adjoint


def _inverse(matrix: Floats) -> Floats:
    """Inverse of a symmetric positive definite matrix, of which the upper triangle is read; the matrix is overwritten.

    LinAlgError where it is not positive definite, for the caller to step back.
    """
    # The upper triangle by rows is the lower one by columns, as LAPACK counts: nothing is copied.
    factor, info = lapack.dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
    if info == 0:
        inverse, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise np.linalg.LinAlgError("not positive definite")
    diagonal = np.diagonal(inverse).copy()
    inverse = inverse.T + inverse  # zeros on the other side
    np.fill_diagonal(inverse, diagonal)
    return np.asarray(inverse)


class _Objective:
    """Mean loss over all annotations of all sets, as a function of the logarithms of weights (and noise)."""

    def __init__(self, prior: TransformationPrior, sets: Sequence[Annotations], fit_noise: bool) -> None:
        self.sets = [_TrainingSet(prior, annotations) for annotations in sets]
        self.total = sum(part.count for part in self.sets)
        self.noise = prior.noise
        self.fit_noise = fit_noise
        self.evaluations = 0

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Loss and gradient by the log parameters."""
        self.evaluations += 1
        values = np.exp(parameters)
        weights, noise = (values[:-1], float(values[-1])) if self.fit_noise else (values, self.noise)
        loss, gradient, by_noise = 0.0, np.zeros(len(weights)), 0.0
        try:
            for part in self.sets:
                one, by_weights, one_by_noise = part.loss_and_gradient(weights, noise)
                loss, gradient, by_noise = loss + one, gradient + by_weights, by_noise + one_by_noise
        except np.linalg.LinAlgError:
            return np.inf, np.zeros(len(parameters))
        by_values = np.append(gradient, by_noise) if self.fit_noise else gradient
        return loss / self.total, by_values * values / self.total


def leave_one_out_loss(prior: TransformationPrior, annotations: Annotations) -> float:
    """Mean over l of ``1/2 (d + q_l^T D_ll^-1 q_l - log det D_ll)``, Eq. (gpp_loss_simplified)."""
    return leave_one_out_gradient(prior, annotations)[0]


def leave_one_out_gradient(
    prior: TransformationPrior, sets: Sequence[Annotations] | Annotations
) -> tuple[float, Floats, float]:
    """Mean leave-one-out loss over the sets, its gradient by the weights, and by the noise variance.

    The derivative by the kernel matrix is formed once (one product of the matrix size); each weight's derivative is
    then an inner product, so that the cost barely depends on the number of scales.
    """
    objective = _Objective(prior, _as_sets(sets), fit_noise=False)
    try:
        sums = [part.loss_and_gradient(prior.kernel.weights, prior.noise) for part in objective.sets]
    except np.linalg.LinAlgError:
        raise SingularModelError(
            "The covariance of the annotations is singular: locations coincide, or their noise is too small for the "
            "kernel; merge coinciding locations or give the annotations more uncertainty."
        ) from None
    loss, gradient, by_noise = (sum(column) / objective.total for column in zip(*sums, strict=True))
    return float(loss), np.asarray(gradient), float(by_noise)


def _drawn(annotations: Annotations, count: int) -> Annotations:
    """At most so many of the annotations, always the same ones, drawn at random."""
    if len(annotations) <= count:
        return annotations
    return annotations[np.sort(np.random.default_rng(0).choice(len(annotations), count, replace=False))]


def _as_sets(sets: Sequence[Annotations] | Annotations) -> list[Annotations]:
    parts = [sets] if isinstance(sets, Annotations) else list(sets)
    if not parts or any(not isinstance(part, Annotations) or len(part) == 0 for part in parts):
        raise InvalidInputError("Leave-one-out needs one or more wg.Annotations sets, none of them empty.")
    if len({part.d for part in parts}) > 1:
        raise InvalidInputError("Leave-one-out needs sets of one dimension, got 2D and 3D together.")
    if any(len(part) < 2 for part in parts):
        raise InvalidInputError("fit_kernel needs at least 2 annotations in every set, to leave one out.")
    return parts


def fit_kernel(
    prior: TransformationPrior,
    sets: Sequence[Annotations] | Annotations,
    noise: bool = False,
    *,
    max_iterations: int = 500,
) -> TransformationPrior:
    """Learn the kernel's weights (and, if asked, the noise) on all annotation sets at once.

    Minimises the mean leave-one-out loss of Eq. (gpp_loss_simplified) over the logarithms of the weights by L-BFGS-B
    with an exact gradient, from the best of three starts, within bounds far from any sensible value.

    Parameters
    ----------
    prior : TransformationPrior
        Its family, scales, mean and trend are kept; its weights are one of the starts.
    sets : Annotations or sequence of Annotations
        Training pairs, each an independent transformation from the same prior.
    noise : bool
        Learn the extra noise variance as well.
    max_iterations : int
        For the descent from the best start.

    Returns
    -------
    TransformationPrior
        With the learned weights; its ``fit`` attribute is a :class:`FitReport`.
    """
    parts = _as_sets(sets)
    # The optimiser's own small products are within the limit too.
    with blas_threads_for(max(len(part) * part.d for part in parts)):
        return _fitted(prior, parts, noise, max_iterations)


def _fitted(
    prior: TransformationPrior, parts: list[Annotations], noise: bool, max_iterations: int
) -> TransformationPrior:
    objective = _Objective(prior, parts, noise)
    squares = np.concatenate([np.square(part.residuals).reshape(-1) for part in objective.sets])
    typical = np.concatenate([np.trace(part.covariances, axis1=1, axis2=2) / part.d for part in objective.sets])
    spread = max(float(squares.mean()), float(typical.mean()))
    noise_start = max(prior.noise, float(typical.mean())) if noise else None
    starts, low, high = prior.kernel.search(spread)
    if noise_start is not None:
        given, lowest, highest = np.log(noise_start), np.log(spread) - _NOISE_DOWN, np.log(spread) + _NOISE_UP
        starts = np.column_stack([starts, np.full(len(starts), given)])
        low, high = np.append(low, min(given, lowest)), np.append(high, max(given, highest))
    initial_loss = leave_one_out_gradient(prior, parts)[0]

    def descend(objective: _Objective, start: Floats, iterations: int) -> Any:
        from scipy import optimize

        return optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([low, high], axis=1),
            options={"maxiter": iterations, "ftol": 1e-10, "gtol": 1e-6},
        )

    # A short descent from every start tells which valley is deepest; only that one is followed to its bottom. Some
    # annotations are enough to tell valleys apart.
    some = [_drawn(part, _SCOUTS) for part in parts]
    alike = all(len(few) == len(part) for few, part in zip(some, parts, strict=True))
    scout = objective if alike else _Objective(prior, some, noise)
    runs = [descend(scout, start, min(_SCOUTING, max_iterations)) for start in starts]
    best = min(runs, key=lambda run: float(run.fun))
    if not (alike and best.success):
        best = descend(objective, best.x, max_iterations)
    values = np.exp(best.x)
    count = prior.kernel.weights.size
    at_bound = tuple(int(s) for s in range(count) if best.x[s] <= low[s] + 1e-6 or best.x[s] >= high[s] - 1e-6)
    report = FitReport(
        bool(best.success),
        str(best.message),
        float(best.fun),
        initial_loss,
        objective.evaluations + (0 if alike else scout.evaluations),
        tuple(float(run.fun) for run in runs),
        at_bound,
        objective.total,
    )
    fitted = prior.with_kernel(prior.kernel.with_weights(values[:count]), float(values[-1]) if noise else None)
    return replace(fitted, fit=report)
