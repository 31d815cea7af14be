"""Where to annotate next when the question is which of several registrations is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_covariances, as_points
from warpgauge.core.error_scores import mean_squared_errors, quadratic_forms, win_probabilities
from warpgauge.core.gains import TIE
from warpgauge.core.posterior_covariance import row_blocks
from warpgauge.core.process import Posterior
from warpgauge.core.suggestion import assumed_covariance
from warpgauge.errors import InvalidInputError

# Entropy of a coin of probability Phi(x): log 2 exp(-x^2 / C^2) with C^2 = pi log 2, to 0.011 nats.
_C2 = np.pi * np.log(2.0)
# A variance of a difference below this share of the two scores' own is rounding: the pair is settled.
_SETTLED = 1e-13


def expected_doubt(lead: Floats, share: Floats) -> Floats:
    r"""Entropy, in nats, that is expected to remain of "which of two is better" after a further annotation.

    The difference of two scores is Gaussian, ``lead`` its mean in standard deviations. An annotation that explains the
    ``share`` :math:`\rho^2` of its variance moves the lead to :math:`(z + \rho u) / \sqrt{1 - \rho^2}` with a standard
    normal u. With :math:`h(\Phi(x)) \approx \log(2)\, e^{-x^2 / C^2}`, :math:`C^2 = \pi \log(2)` (Houlsby, Huszar,
    Ghahramani, Lengyel 2011, "Bayesian active learning for classification and preference learning"), the mean over u is

    .. math:: \log(2) \sqrt{\frac{C^2 (1 - \rho^2)}{C^2 (1 - \rho^2) + 2 \rho^2}}
              \exp\left(-\frac{z^2}{C^2 (1 - \rho^2) + 2 \rho^2}\right)

    within 0.012 nats of the exact value. It falls as the share grows.
    """
    rest = _C2 * (1.0 - share)
    spread = rest + 2.0 * share
    return np.asarray(np.log(2.0) * np.sqrt(rest / spread) * np.exp(-np.square(lead) / spread))


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


class DecisionSuggester:
    """Suggests the candidate whose annotation is expected to settle most of the ranking of given transforms.

    The difference of two mean squared errors over the targets is linear in phi (see
    :func:`~warpgauge.core.error_scores.probability_of_smaller_error`), so what an annotation of a candidate explains of
    its variance has a closed form, and so has the expected entropy of the question which of the two is better
    (``expected_doubt``).

    Once, n N K d multiplications (n candidates, N targets, K transforms); each annotation costs O(L^2 n + n K d).
    Nothing larger than n K d numbers is stored.

    Parameters
    ----------
    posterior : Posterior
        What is known so far; its prior may be centred on the transforms' median.
    targets : (N, d) array
        Where errors count.
    mapped : (K, N, d) array
        The targets mapped by each transform.
    candidates : (n, d) array
        Locations of the fixed image that may be asked for.
    goal : {"best", "ranking"}
        Which pairs count: the leader against each other transform, or all pairs.
    seed : int
        Breaks ties.
    default_covariance : (d, d) array, optional
        Expected of an annotation; by default that of a :class:`~warpgauge.Suggester`.
    candidate_covariances : (n, d, d) array, optional
        Expected of an annotation of each candidate, in place of the default one.
    """

    def __init__(
        self,
        posterior: Posterior,
        targets: ArrayLike,
        mapped: ArrayLike,
        candidates: ArrayLike,
        goal: Literal["best", "ranking"] = "best",
        seed: int = 0,
        default_covariance: ArrayLike | None = None,
        candidate_covariances: ArrayLike | None = None,
    ) -> None:
        if goal not in ("best", "ranking"):
            raise InvalidInputError(f'goal must be "best" or "ranking", got {goal!r}.')
        d = posterior.d
        self.goal, self.seed = goal, int(seed)
        self.targets = as_points(targets, "targets", d)
        self.candidates = as_points(candidates, "candidates", d)
        self.mapped = np.asarray(mapped, dtype=np.float64)
        if self.mapped.ndim != 3 or self.mapped.shape[1:] != self.targets.shape or len(self.mapped) < 2:
            raise InvalidInputError(
                f"mapped must have shape (K, {len(self.targets)}, {d}), the targets mapped by two or more transforms, "
                f"got {self.mapped.shape}."
            )
        if len(self.candidates) == 0:
            raise InvalidInputError("A DecisionSuggester needs at least one candidate, got none.")
        assumed = assumed_covariance(posterior.prior, d) if default_covariance is None else default_covariance
        self.default_covariance = as_covariances(np.asarray(assumed)[None], 1, d, "default_covariance")[0]
        n = len(self.candidates)
        own = candidate_covariances
        everywhere = np.broadcast_to(self.default_covariance, (n, d, d)) if own is None else own
        self._expected = as_covariances(everywhere, n, d, "candidate_covariances")
        self._posteriors = [posterior]
        self._log: list[int] = []
        self._skipped: set[int] = set()
        self._priority = np.random.default_rng(self.seed).permutation(n)
        self._directions = self._deviations()
        self._prior_part = self._prior_covariances()
        self._kept: Floats | None = None

    @property
    def posterior(self) -> Posterior:
        """What is known now."""
        return self._posteriors[-1]

    @property
    def recorded(self) -> tuple[int, ...]:
        """Candidates annotated so far, in order."""
        return tuple(self._log)

    def _deviations(self) -> Floats:
        """Return the transforms' differences from their mean at the targets, (N, K d): nothing else counts."""
        deviations = self.mapped - self.mapped.mean(axis=0)
        return np.ascontiguousarray(deviations.transpose(1, 0, 2)).reshape(len(self.targets), -1)

    def _prior_covariances(self) -> Floats:
        """``sum_t kappa(c, t) delta_k(t)`` of each candidate and transform under the prior, (n, K d)."""
        kernel = self.posterior.conditioned.kernel
        result = np.empty((len(self.candidates), self._directions.shape[1]))
        for rows in row_blocks(len(self.candidates), len(self.targets), 4_000_000):
            result[rows] = kernel.matrix(self.candidates[rows], self.targets) @ self._directions
        return result

    def _covariances(self) -> Floats:
        """``sum_t k_|A(c, t) delta_k(t)``, (n, K, d), without the posterior's scale."""
        conditioned = self.posterior.conditioned
        K, d = len(self.mapped), self.posterior.d
        known = conditioned.kernel.matrix(conditioned.locations, self.targets) @ self._directions
        block = conditioned.kernel.matrix(conditioned.locations, self.candidates)
        explained = conditioned.factor.explained(block, known.reshape(-1, K, d))
        return np.asarray(self._prior_part.reshape(-1, K, d) - explained)

    def explained_shares(self) -> tuple[Floats, Floats]:
        """Share of each difference's variance that an annotation of each candidate explains, and the leads.

        Returns
        -------
        shares : (n, P) array
            In [0, 1], for the pairs of :meth:`pairs`.
        leads : (P,) array
            Mean of the difference in standard deviations, positive where the second of the pair is better; infinite
            where nothing is left to learn.
        """
        posterior, N = self.posterior, len(self.targets)
        first, second = np.array(self.pairs()).T
        errors = self.mapped - posterior.mean(self.targets)
        squares = mean_squared_errors(errors)
        spread = quadratic_forms(posterior, self.targets, errors)
        own = np.diag(spread)
        variances = own[first] + own[second] - 2 * spread[first, second]
        settled = variances <= _SETTLED * (own[first] + own[second])
        safe = np.where(settled, 1.0, variances)
        leads = np.where(settled, np.inf, (squares[first] - squares[second]) * N / (2 * np.sqrt(safe)))
        annotation = posterior.annotation_covariance(self.candidates, self._expected)
        factors = np.linalg.cholesky(annotation)
        vectors = posterior.scale * self._covariances()
        whitened = np.linalg.solve(factors, vectors.transpose(0, 2, 1))  # (n, d, K)
        drops = np.square(whitened[:, :, first] - whitened[:, :, second]).sum(axis=1)
        # Rounding may carry a share past 1 by a few ulp; more than all cannot be explained.
        return np.where(settled, 0.0, np.minimum(drops / safe, 1.0)), leads

    def pairs(self) -> Sequence[tuple[int, int]]:
        """Pairs of transforms whose order is asked for."""
        K = len(self.mapped)
        if self.goal == "ranking":
            return [(j, k) for j in range(K) for k in range(j + 1, K)]
        leader = self.leader
        return [(leader, k) for k in range(K) if k != leader]

    @property
    def leader(self) -> int:
        """Transform with the smallest expected squared error."""
        errors = self.mapped - self.posterior.mean(self.targets)
        return int(np.argmin(np.square(errors).sum(axis=(1, 2))))

    def win_probabilities(self) -> Floats:
        """Probabilities (K, K) that the row's transform is better than the column's; see the function of this name."""
        return win_probabilities(self.posterior, self.targets, self.mapped)

    def gains(self) -> Floats:
        """Return the expected drop, in nats, of the pairs' summed entropies by an annotation; -inf where not to ask."""
        if self._kept is None:
            shares, leads = self.explained_shares()
            open_ = np.isfinite(leads)
            now = expected_doubt(leads[open_], np.zeros(int(open_.sum()))).sum()
            self._kept = now - expected_doubt(leads[open_], shares[:, open_]).sum(axis=1)
        gains = self._kept.copy()
        gains[[*self._log, *self._skipped]] = -np.inf
        return gains

    def suggest(self) -> int:
        """Index of the next candidate."""
        gains = self.gains()
        best = gains.max()
        if np.isneginf(best):
            raise InvalidInputError("No candidate is left to suggest: all are annotated or skipped.")
        near = np.flatnonzero(gains >= best - TIE * max(1.0, best))
        return int(near[np.argmax(self._priority[near])])

    def record(self, index: int, moving_point: ArrayLike, covariance: ArrayLike | None = None) -> None:
        """Take an annotation of a candidate into account; here it matters where its match was found."""
        checked, d = self._index(index), self.posterior.d
        moving = as_points(np.atleast_2d(np.asarray(moving_point, dtype=np.float64)), "moving_point", d)
        given = self._expected[checked] if covariance is None else np.asarray(covariance, dtype=np.float64)
        one = Annotations(self.candidates[checked][None], moving, as_covariances(given[None], 1, d, "covariance"))
        self._posteriors.append(self.posterior.append(one))
        self._log.append(checked)
        self._kept = None

    def undo(self) -> int:
        """Take the last record back and return its candidate."""
        if not self._log:
            raise InvalidInputError("Nothing is recorded that could be undone.")
        self._posteriors.pop()
        self._kept = None
        return self._log.pop()

    def skip(self, index: int) -> None:
        """Never suggest this candidate (again) until :meth:`restore`."""
        self._skipped.add(self._index(index))

    def restore(self, index: int) -> None:
        """Let a skipped candidate be suggested again."""
        checked = self._index(index)
        if checked not in self._skipped:
            raise InvalidInputError(f"Candidate {checked} was not skipped, so it cannot be restored.")
        self._skipped.remove(checked)

    def _index(self, index: int) -> int:
        if int(index) != index or not 0 <= index < len(self.candidates):
            raise InvalidInputError(f"There is no candidate {index!r}; there are {len(self.candidates)}, from 0 on.")
        return int(index)
