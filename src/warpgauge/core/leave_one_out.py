"""Leave-one-out predictions of annotations (section III-F-2), and the factor on the covariance that they ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.core.tails import GAUSSIAN, beyond
from warpgauge.display import counted

# Pseudo-annotations that say "the factor is 1": they dominate while there are few real ones.
PRIOR_ANNOTATIONS = 2.0
PRIOR_FACTOR = 1.0
# With Student-t tails this many pseudo-annotations say this factor; chosen on public landmarks: docs/validation.md.
T_PRIOR_ANNOTATIONS = 5.0
T_PRIOR_FACTOR = 1.3
_LOG_FACTOR_BOUND = float(np.log(1e6))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """How well each annotation is predicted by the others.

    Residuals (L, d), ``y_l`` minus its prediction; what the model says their covariances (L, d, d) are,
    ``k_|A(l)(x_l, x_l) + Sigma_l + noise``; the Mahalanobis length of each, and the probability of a length at least
    that large, by the chi-square distribution (by the F distribution where the model has Student-t tails).
    """

    residuals: Floats
    covariances: Floats
    mahalanobis: Floats
    p: Floats

    @classmethod
    def of(cls, residuals: Floats, covariances: Floats, tails: float = GAUSSIAN) -> LeaveOneOut:
        """Judge (L, d) residuals by their covariances."""
        squares = mahalanobis(residuals, covariances)
        return cls(residuals, covariances, np.sqrt(squares), beyond(squares, residuals.shape[1], tails))

    def __repr__(self) -> str:
        largest = f", largest Mahalanobis length {self.mahalanobis.max():.3g}" if len(self.mahalanobis) else ""
        return f"<LeaveOneOut: {counted(len(self.residuals), 'annotation')}{largest}>"

    @property
    def standardised(self) -> Floats:
        """Residuals whitened by their covariance, (L, d)."""
        factors = np.linalg.cholesky(self.covariances)
        return np.asarray(np.linalg.solve(factors, self.residuals[..., None])[..., 0])


def left_out(conditioned: Conditioned, weights: Floats, tails: float = GAUSSIAN) -> LeaveOneOut:
    """Predict each annotation from the others, given ``weights = K_AA^-1 (Y - mu(X))``.

    ``y_l - mu_|A(l)(x_l) = D_ll^-1 q_l`` with covariance ``D_ll^-1``.
    """
    covariances = np.asarray(np.linalg.inv(conditioned.diagonal_blocks()), dtype=np.float64)
    return LeaveOneOut.of(np.einsum("lab,lb->la", covariances, weights), covariances, tails)


def left_out_beside(
    residuals: Floats, covariances: Floats, merged: Floats, offsets: Floats, noise: Floats, tails: float = GAUSSIAN
) -> LeaveOneOut:
    """Predict annotations from those at other locations and from the others of their own.

    ``residuals`` and ``covariances`` are those of each annotation's location, all of its annotations merged to one of
    noise ``M``, predicted from the other locations; ``offsets`` each match minus the merged one, ``noise`` its ``N_l``.
    """
    # The others of the location say z with precision Q; V is what they leave of the prediction P from elsewhere.
    precisions = np.linalg.inv(noise)
    P = covariances - merged
    Q = np.linalg.inv(merged) - precisions
    V = P @ np.linalg.inv(np.eye(P.shape[-1]) + Q @ P)
    # About the merged match: there the location's answers weigh 0 together, and the others -N_l^-1 times the offset.
    pulled = -np.einsum("lab,lb->la", precisions, offsets) + np.einsum("lab,lb->la", Q, residuals)
    predicted = np.einsum("lab,lb->la", V, pulled) - residuals
    return LeaveOneOut.of(offsets - predicted, (V + np.swapaxes(V, 1, 2)) / 2 + noise, tails)


def scale_factor(predicted: LeaveOneOut, noise: Floats, tails: float = GAUSSIAN) -> float:
    """Factor on the posterior covariance that makes the leave-one-out residuals most likely, shrunk to 1.

    Residual l is taken as ``N(0, c k_l + N_l)`` with ``k_l`` the leave-one-out posterior covariance and ``N_l`` the
    annotation's own noise, which is not scaled. The penalty ``nu (log c + 1 / c) / 2`` is that of ``nu / d`` further
    annotations whose residuals say 1; without noise the result is ``(nu + sum m_l) / (nu + L d)``.

    With finite ``tails`` the residuals are Student-t with that covariance, so that few large ones count little, and
    the penalty is that of five annotations that say 1.3.
    """
    gaussian = np.isinf(tails)
    prior_factor = PRIOR_FACTOR if gaussian else T_PRIOR_FACTOR
    if len(noise) == 0:
        return prior_factor
    from scipy import optimize  # takes a while to load

    d = noise.shape[-1]
    strength = d * (PRIOR_ANNOTATIONS if gaussian else T_PRIOR_ANNOTATIONS)
    # Noise and leave-one-out covariance are diagonalised together: c k + N becomes c t + 1 - t with t from 0 to 1.
    root_inverse = np.linalg.inv(np.linalg.cholesky(predicted.covariances))
    shares, vectors = np.linalg.eigh(root_inverse @ noise @ np.swapaxes(root_inverse, 1, 2))
    t = np.maximum(1 - shares, 0)  # rounding alone can take it below 0
    squares = np.square(np.einsum("lba,lbc,lc->la", vectors, root_inverse, predicted.residuals))

    def loss(log_factor: float) -> float:
        variance = np.exp(log_factor) * t + 1 - t
        penalty = strength * (log_factor + prior_factor * np.exp(-log_factor))
        if gaussian:
            data = np.sum(np.log(variance) + squares / variance)
        else:
            lengths = (squares / variance).sum(axis=1)
            data = np.log(variance).sum() + (tails + d) * np.log1p(lengths / (tails - 2)).sum()
        return float(0.5 * (data + penalty))

    found = optimize.minimize_scalar(loss, bounds=(-_LOG_FACTOR_BOUND, _LOG_FACTOR_BOUND), method="bounded")
    return float(np.exp(found.x))
