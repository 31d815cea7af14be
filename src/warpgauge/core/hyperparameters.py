"""Learning the kernel's weights, and the noise, from annotated pairs by leave-one-out (section III-F-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, thinned_rows
from warpgauge.core.factors import is_isotropic, noisy
from warpgauge.core.fit_reports import FitReport
from warpgauge.core.parallel import blas_threads_for
from warpgauge.core.process import TransformationPrior
from warpgauge.errors import InvalidInputError, SingularModelError

# Logarithms may range so far about that of the mean squared displacement of the training data.
_LOG_DOWN = 8 * np.log(10)
_LOG_UP = 4 * np.log(10)
# Iterations from every start, on at most so many annotations of each set, that tell which start to follow to the end.
_FIRST_ITERATIONS = 20
_FIRST_ANNOTATIONS = 150


class _TrainingSet:
    """One set with its kernel as a function of the weights: for a bundle, no loss or gradient evaluates it again."""

    def __init__(self, prior: TransformationPrior, annotations: Annotations) -> None:
        X = annotations.fixed_points
        self.count, self.d = X.shape
        first, second = np.triu_indices(self.count)
        # Places of the pairs in a matrix, row by row: a single number each is looked up in half of the time.
        self.upper = first * self.count + second
        self.multiplicity = np.where(first == second, 1.0, 2.0)
        self.basis = np.ascontiguousarray(prior.kernel.basis(X, first, second))
        features = prior.scalar_kernel(self.d).features(X)
        self.trend = (features @ features.T).reshape(-1)[self.upper]
        self.residuals = annotations.moving_points - prior.prior_mean(X)
        self.covariances = annotations.covariances
        self.b = 1 if is_isotropic(annotations.covariances) else self.d

    def loss_and_gradient(self, weights: Floats, noise: float) -> tuple[float, Floats, float]:
        """Sum of the loss over this set, its gradient by the weights, and by the noise variance."""
        gram = np.zeros((self.count, self.count))
        gram.reshape(-1)[self.upper] = weights @ self.basis + self.trend
        with blas_threads_for(self.count * self.b):
            loss, adjoint = self._loss_and_adjoint(gram + np.triu(gram, 1).T, noise)
        # d loss / d theta_s is the inner product of the adjoint with scale s: each pair off the diagonal counts twice.
        return loss, self.basis @ (self.multiplicity * adjoint.reshape(-1)[self.upper]), float(np.trace(adjoint))

    def _loss_and_adjoint(self, gram: Floats, noise: float) -> tuple[float, Floats]:
        """Loss, Eq. (gpp_loss_simplified), and its derivative by the scalar kernel matrix, (L, L).

        With b = 1 the d components are columns that share one matrix, else one column holds them all.
        """
        L = self.count
        d = self.d
        b = self.b
        C = _inverse(noisy(gram, self.covariances + noise * np.eye(d), b))
        q = (C @ self.residuals.reshape(L * b, -1)).reshape(L, b, -1)
        rows = np.arange(L)
        D = C.reshape(L, b, L, b)[rows, :, rows, :]
        D_inverse = np.linalg.inv(D)
        u = D_inverse @ q
        loss = 0.5 * (L * d + np.sum(u * q) - d / b * np.linalg.slogdet(D)[1].sum())
        # 1/2 (C B C - v q^T - q v^T), summed over components, which share the scalar; C B C as a product with itself.
        root = np.linalg.cholesky(u @ u.transpose(0, 2, 1) + d / b * D_inverse)
        v = (C @ u.reshape(L * b, -1)).reshape(L, -1)
        crossed = v @ q.reshape(L, -1).T
        adjoint = -0.5 * (crossed + crossed.T)
        columns = C.reshape(L, b, L, b)
        for component in range(b):
            half = np.empty((L, L, b))
            for c in range(b):
                half[:, :, c] = sum(columns[:, component, :, a] * root[:, a, c] for a in range(c, b))
            rows_of_half = half.reshape(L, L * b)
            adjoint += 0.5 * (rows_of_half @ rows_of_half.T)
        return float(loss), adjoint


def _inverse(matrix: Floats) -> Floats:
    """Inverse of a symmetric positive definite matrix, which is overwritten; LinAlgError where it is not definite."""
    # The transpose is in the order that LAPACK wants: nothing is copied.
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
        self.noise = None if fit_noise else prior.noise

    def at(self, weights: Floats, noise: float) -> tuple[float, Floats, float]:
        """Mean loss, its gradient by the weights, and by the noise variance."""
        parts = [part.loss_and_gradient(weights, noise) for part in self.sets]
        count = sum(part.count for part in self.sets)
        loss = sum(part[0] for part in parts) / count
        by_weights = np.sum([part[1] for part in parts], axis=0) / count
        return loss, by_weights, sum(part[2] for part in parts) / count

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Loss and gradient by the log parameters."""
        values = np.exp(parameters)
        try:
            if self.noise is not None:
                loss, by_weights, _ = self.at(values, self.noise)
                return loss, by_weights * values
            loss, by_weights, by_noise = self.at(values[:-1], float(values[-1]))
            return loss, np.append(by_weights, by_noise) * values
        except np.linalg.LinAlgError:
            return np.inf, np.zeros(len(parameters))


def leave_one_out_loss(prior: TransformationPrior, annotations: Annotations) -> float:
    """Mean over l of ``1/2 (d + q_l^T D_ll^-1 q_l - log det D_ll)``, Eq. (gpp_loss_simplified).

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[20.0], weights=[1.0]))
    >>> far_apart = wg.Annotations.isotropic([[0.0, 0.0], [50.0, 0.0]], [[0.0, 0.0], [50.0, 0.0]], sd=1.0)
    >>> round(wg.leave_one_out_loss(prior, far_apart), 4)  # 1/2 (d + d log(1 + 1)), as nothing is predicted
    1.6931
    """
    return leave_one_out_gradient(prior, annotations)[0]


def leave_one_out_gradient(
    prior: TransformationPrior, sets: Sequence[Annotations] | Annotations
) -> tuple[float, Floats, float]:
    """Mean leave-one-out loss over the sets, its gradient by the weights, and by the noise variance.

    The derivative by the kernel matrix is formed once (one product of the matrix size); each weight's derivative is
    then an inner product, so that the cost barely depends on the number of scales.
    """
    try:
        return _Objective(prior, _as_sets(sets), fit_noise=False).at(prior.kernel.weights, prior.noise)
    except np.linalg.LinAlgError:
        raise SingularModelError(
            "The covariance of the annotations is singular: locations coincide, or their noise is too small for the "
            "kernel; merge coinciding locations or give the annotations more uncertainty."
        ) from None


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
    with an exact gradient, from the best of three starts, within bounds far from any sensible value. The prior's
    family, scales, mean and trend are kept; its weights are one of the starts. The ``fit`` of what is returned is a
    :class:`FitReport`.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> x = np.random.default_rng(0).uniform(0, 100, (40, 2))
    >>> pair = wg.Annotations.isotropic(x, x + 3 * np.sin(x[:, ::-1] / 20), sd=0.5)
    >>> prior = wg.TransformationPrior(wg.KernelBundle.pyramid(smallest=10.0, levels=4))
    >>> fitted = wg.fit_kernel(prior, [pair])
    >>> wg.leave_one_out_loss(fitted, pair) < wg.leave_one_out_loss(prior, pair)
    True
    """
    from scipy import optimize

    parts = _as_sets(sets)
    objective = _Objective(prior, parts, noise)
    starts, bounds = _search(prior, objective.sets, noise)

    def descend(objective: _Objective, start: Floats, iterations: int) -> Any:
        options = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-7}
        return optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)

    # The optimiser's own small products are within the limit too.
    with blas_threads_for(max(len(part) * part.d for part in parts)):
        # A short descent from every start tells which valley is deepest; only that one is followed to its bottom.
        samples = [part[thinned_rows(len(part), _FIRST_ANNOTATIONS)] for part in parts]
        first = _Objective(prior, samples, noise)
        descents = [descend(first, start, min(_FIRST_ITERATIONS, max_iterations)) for start in starts]
        best = min(descents, key=lambda descent: float(descent.fun))
        best = descend(objective, best.x, max_iterations)
    values = np.exp(best.x)
    kernel = prior.kernel.with_weights(values[: prior.kernel.weights.size])
    fitted = prior.with_kernel(kernel, float(values[-1]) if noise else None)
    return replace(fitted, fit=FitReport(bool(best.success), float(best.fun)))


def _search(
    prior: TransformationPrior, sets: Sequence[_TrainingSet], fit_noise: bool
) -> tuple[Floats, list[tuple[float, float]]]:
    """Logarithms of the parameters to start from, (3, P), and bounds of each.

    The weights start as given, flat, and growing with the scale as smooth deformations do.
    """
    squares = np.concatenate([np.square(part.residuals).reshape(-1) for part in sets])
    variances = np.concatenate([np.trace(part.covariances, axis1=1, axis2=2) / part.d for part in sets])
    spread = max(float(squares.mean()), float(variances.mean()))
    weights = prior.kernel.weights
    scales = prior.kernel.scales
    flat = np.full(weights.size, spread / weights.size)
    growing = scales**2 / np.sum(scales**2) * spread
    starts = np.log([weights, flat, growing])
    if fit_noise:
        noise = max(prior.noise, float(variances.mean()))
        starts = np.column_stack([starts, np.full(len(starts), np.log(noise))])
    low = np.minimum(starts.min(axis=0), np.log(spread) - _LOG_DOWN)
    high = np.maximum(starts.max(axis=0), np.log(spread) + _LOG_UP)
    return starts, list(zip(low.tolist(), high.tolist(), strict=True))
