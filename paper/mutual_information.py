"""Mutual information between what is annotated and all the rest, which the paper names as future work.

It lowered the error no faster than entropy, so that it is not among the strategies of
:class:`warpgauge.Suggester`.
"""

from __future__ import annotations

import numpy as np

import warpgauge as wg
from paper.datasets import Floats


def mutual_information_gains(
    prior: wg.TransformationPrior, annotations: wg.Annotations, candidates: Floats, covariance: Floats
) -> Floats:
    r"""Greedy gain of each of (n, d) candidates that are not annotated yet, in nats, (n,).

    .. math:: g(c) = \mathcal H({\tilde\Phi}_c \mid A) - \mathcal H({\tilde\Phi}_c \mid R - c)

    Krause, Singh, Guestrin 2008, "Near-optimal sensor placements in Gaussian processes", JMLR 9, Eq. (8). The rest
    ``R`` is an annotation of each candidate with the (d, d) ``covariance``.
    """
    n, d = candidates.shape
    given = prior.condition(annotations).annotation_covariance(candidates, covariance)
    nothing = prior.condition(wg.Annotations.empty(d))
    noise = covariance + prior.noise * np.eye(d)
    joint = nothing.joint_covariance(candidates) + np.kron(np.eye(n), noise)
    blocks = np.linalg.inv(joint).reshape(n, d, n, d)[np.arange(n), :, np.arange(n), :]
    return np.asarray(0.5 * (np.linalg.slogdet(given)[1] + np.linalg.slogdet(blocks)[1]))
