"""What an answer is expected to tell about which of several registrations is best."""

from __future__ import annotations

import numpy as np

from warpgauge.core.arrays import Floats


def best_information(samples: Floats, mapped: Floats, noise: Floats, answers: int = 32, seed: int = 0) -> Floats:
    """Return what an answer at each place is expected to tell about which transform is best, in nats, (n,).

    ``H(P_best) - E_y H(P_best | y)``. P_best is over joint samples of the truth, in each of which the transform with
    the smallest mean squared error is the best. An answer y is a sample with noise; given it, the differences of the
    mean squared errors, which are linear in the truth, are moved by their regression on the answer (exact where samples
    are Gaussian), so that no model is fitted again. Weighing samples by the likelihood instead leaves a few of them
    wherever placements are sharp, and information that is not there.

    Parameters
    ----------
    samples : (S, n, d) array
        Joint samples of the true matches at the places.
    mapped : (K, n, d) array
        The transforms there.
    noise : (d, d) array
        Covariance of a placement.
    answers : int
        Answers that are tried at each place, from so many of the samples.
    seed : int
        Of the noise.
    """
    S, n, d = samples.shape
    # What all transforms share cancels; the rest is linear in the truth.
    scores = np.stack([np.square(one - samples).sum(axis=(1, 2)) for one in mapped], axis=1)
    scores -= scores.mean(axis=1, keepdims=True)
    centred = scores - scores.mean(axis=0)
    root, rng = np.linalg.cholesky(noise), np.random.default_rng(seed)
    tried = np.linspace(0, S - 1, min(answers, S)).astype(np.int64)
    errors, drawn = (rng.standard_normal((count, d)) @ root.T for count in (S, len(tried)))
    before, found = float(_entropies(_shares(scores[None])[0])), np.empty(n)
    for place in range(n):
        here = samples[:, place]
        apart = here - here.mean(axis=0)
        slope = np.linalg.solve(apart.T @ apart / S + noise, apart.T @ centred / S)  # (d, K)
        known = (here[tried] + drawn) @ slope  # (answers, K)
        found[place] = before - _entropies(_shares(known[:, None] + scores - (here + errors) @ slope)).mean()
    return np.maximum(found, 0.0)


def _shares(scores: Floats) -> Floats:
    """Return in which share of (a, S, K) scores each transform has the smallest, (a, K)."""
    best = scores.argmin(axis=2)
    return np.stack([(best == k).mean(axis=1) for k in range(scores.shape[2])], axis=1)


def _entropies(chances: Floats) -> Floats:
    """Entropy, in nats, of distributions along the last axis."""
    return np.asarray(-(chances * np.log(np.where(chances > 0, chances, 1.0))).sum(axis=-1))
