"""What the truth may be, given the annotations *and* the candidate transforms, for judging those transforms.

The paper's posterior knows the annotations only. A registration has seen the images: between the annotations it is
often nearer to the truth than the posterior mean, and its distance from that mean then measures the posterior's
ignorance, not its own error. The paper leaves the mean function to the application, so here the truth is one of the
candidates, or their pointwise median, plus a Gaussian error field, ``phi = phi_hat_k + sqrt(v) s(x) g(x)``. Nothing of
it is fitted; all is averaged with the weight that the annotations give it (the evidence):

- which candidate k the truth is nearest to,
- how large the error is (v), on a fine logarithmic grid,
- how far it reaches: the scale of g, one of the prior's (those too short for any two annotations to show count once),
- how uneven it is: ``s(x)`` is a power 0, 1/2, 1 ... of how far the candidates disagree at x, because that is where
  registrations err.

Whoever is nearest to the truth everywhere gets most of the weight, and all others are then judged by their distance
from it; where the annotations cannot tell, the average says so. Real errors have heavier tails than Gaussian fields, so
the evidence counts with a power below 1 (``TEMPERING``), which leaves ranks as they are and widens the intervals; and
with a smaller one for which candidate is nearest (``CENTRE_TEMPERING``), because every candidate as a centre looks best
to itself, so that the weights alone decide who is called the best.
``docs/validation.md`` has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.process import Posterior
from warpgauge.core.sampling import prior_draws
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.centres import Centres
from warpgauge.evaluation.error_field import ErrorField, Whitening

CENTRES = ("candidates", "prior")
TEMPERING = 0.3
CENTRE_TEMPERING = 0.2
UNEVENNESS = (0.0, 0.5, 1.0, 1.5)
FEWEST = 4
_VARIANCES = 96
# Annotations whose errors correlate by less than this have nothing to do with each other.
_UNRELATED = 0.1
# Errors below this share of the noise are all the same to the annotations.
_SMALLEST_SD = 0.1
_LARGEST_SD = 2.0
# Disagreement below this share of the typical one counts as that much: nothing is known to be without any error.
_FLOOR = 0.1
# Combinations with less than this weight in all are left out.
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True, eq=False)
class CandidateAverage:
    """The truth as an average over centres, sizes, scales and unevenness of the error; made by candidate_average.

    Attributes
    ----------
    annotations : Annotations
    centres : Centres
    residuals : (C, L, d) array
        Annotated matches minus each centre there.
    fields : tuple of ErrorField
        One for every combination of scale and unevenness that has any weight.
    powers : tuple of float
        Unevenness of each field.
    variances : (V,) array
    weights : (F, C, V) array
        Posterior weight of every combination; adds up to 1.
    typical : float
        Root mean square disagreement of the candidates at the annotations, the unit of the profile.
    """

    annotations: Annotations
    centres: Centres
    residuals: Floats
    fields: tuple[ErrorField, ...]
    powers: tuple[float, ...]
    variances: Floats
    weights: Floats
    typical: float

    @property
    def d(self) -> int:
        """Dimension."""
        return self.annotations.d

    @property
    def centre_weights(self) -> dict[str, float]:
        """How probable it is that the error field is centred on each candidate, or on their median."""
        return dict(zip(self.centres.names, self.weights.sum(axis=(0, 2)).tolist(), strict=True))

    def mean(self, points: ArrayLike) -> Floats:
        """Give the expected match of (n, d) points."""
        at = as_points(points, "points", self.d)
        centres, disagreement = self.centres.at(at)
        result = np.tensordot(self.weights.sum(axis=(0, 2)), centres, axes=1)
        for field, power, weights in zip(self.fields, self.powers, self.weights, strict=True):
            used = np.argwhere(weights > 0)
            each = field.weights(self.residuals[used[:, 0]], self.variances[used[:, 1]])
            together = np.tensordot(weights[weights > 0], each, axes=1)
            result += profile(disagreement, self.typical, power)[:, None] * (
                field.kernel.matrix(at, field.locations) @ together
            )
        return np.asarray(result)

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Draw ``count`` joint samples of the true matches of (n, d) points, shape (count, n, d).

        Combinations are drawn in proportion to their weights (systematically, so that shares are right to one sample),
        then a field given the annotations: a draw of the prior, corrected by what it misses of them.
        """
        at = as_points(points, "points", self.d)
        rng = np.random.default_rng(seed)
        which = _systematic(self.weights.reshape(-1), count, rng)
        field_of, centre_of, variance_of = np.unravel_index(which, self.weights.shape)
        centres, disagreement = self.centres.at(at)
        everywhere = np.concatenate([at, self.annotations.fixed_points])
        samples = np.empty((count, *at.shape))
        # Fields of one scale share their draws' factor, which is the costly part.
        for scale in dict.fromkeys(float(field.kernel.scales[0]) for field in self.fields):
            same = [i for i, field in enumerate(self.fields) if field.kernel.scales[0] == scale]
            rows = np.flatnonzero(np.isin(field_of, same))
            if len(rows) == 0:
                continue
            draws = prior_draws(self.fields[same[0]].kernel, everywhere, len(rows), rng)
            for i in same:
                own = np.flatnonzero(field_of[rows] == i)
                chosen = rows[own]
                shape = profile(disagreement, self.typical, self.powers[i])
                samples[chosen] = centres[centre_of[chosen]] + self._conditioned(
                    i, shape, at, draws[own], self.residuals[centre_of[chosen]], self.variances[variance_of[chosen]],
                    rng,
                )  # fmt: skip
        return samples

    def _conditioned(
        self,
        i: int,
        shape: Floats,
        at: Floats,
        draws: Floats,
        residuals: Floats,
        variances: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Turn unit draws at points and annotations into fields given the residuals (Matheron's rule)."""
        field, n = self.fields[i], len(at)
        sd = np.sqrt(variances)[:, None, None]
        noise = rng.standard_normal((len(draws), len(field.profile), self.d))
        placed = np.einsum("lij,slj->sli", np.linalg.cholesky(self._noise), noise)
        missed = residuals - sd * field.profile[:, None] * draws[:, n:] - placed
        weights = field.weights(missed, variances)
        block = field.kernel.matrix(at, field.locations)
        return np.asarray(shape[:, None] * (sd * draws[:, :n] + block @ weights))

    @property
    def _noise(self) -> Floats:
        return self.centres.fallback.prior.total_noise(self.annotations.covariances)


def profile(disagreement: Floats, typical: float, power: float) -> Floats:
    """Give the unevenness of the error at points: a power of the disagreement there, 1 where it is typical."""
    if power == 0 or typical == 0:
        return np.ones(len(disagreement))
    relative = (np.square(disagreement / typical) + _FLOOR**2) / (1 + _FLOOR**2)
    return np.asarray(relative ** (power / 2))


def candidate_average(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    *,
    tempering: float = TEMPERING,
    centre_tempering: float = CENTRE_TEMPERING,
) -> CandidateAverage:
    """Average over what the truth may be, given the annotations and the transforms to be judged.

    Parameters
    ----------
    posterior : Posterior
        Brings the annotations, their noise, and the kernel's family and scales; its mean stands in where no transform
        is defined.
    transforms : mapping of name to transform
        Objects with ``map``, or callables.
    tempering, centre_tempering : float
        Powers on the evidence for the size, scale and unevenness of the error, and for its centre, in (0, 1].
    """
    given = posterior.annotations
    if len(given) < FEWEST:
        raise InvalidInputError(
            f"Judging transforms against each other needs at least {FEWEST} annotations, got {len(given)}."
        )
    if not 0 < tempering <= 1 or not 0 < centre_tempering <= 1:
        raise InvalidInputError(
            f"tempering and centre_tempering must be in (0, 1], got {tempering!r} and {centre_tempering!r}."
        )
    centres = Centres(transforms, posterior)
    values, disagreement = centres.at(given.fixed_points)
    residuals = given.moving_points - values
    noise = posterior.prior.total_noise(given.covariances)
    variances = _variance_grid(noise, residuals)
    typical = float(np.sqrt(np.mean(np.square(disagreement))))
    whitening = Whitening(noise)
    kernels = _told_apart(posterior.prior.kernel, given.fixed_points)
    fields, powers, evidence = [], [], []
    for power in UNEVENNESS if typical > 0 else (0.0,):
        shape = profile(disagreement, typical, power)
        for kernel in kernels:
            field = ErrorField.at(kernel, shape, given.fixed_points, whitening)
            fields.append(field)
            powers.append(power)
            evidence.append(field.evidence(residuals, variances))
    tempered = tempering * np.stack(evidence)
    by_centre = special.logsumexp(tempered, axis=(0, 2), keepdims=True)
    kept, weights = _pruned(tempered + (centre_tempering / tempering - 1) * by_centre)
    return CandidateAverage(
        given,
        centres,
        residuals,
        tuple(fields[i] for i in kept),
        tuple(powers[i] for i in kept),
        variances,
        weights,
        typical,
    )


def reference(
    posterior: Posterior, transforms: Mapping[str, Any], centre: str = "candidates"
) -> Posterior | CandidateAverage:
    """Give what transforms are to be judged by: their average, or the posterior itself.

    With fewer than four annotations an average says nothing, and the posterior is used.

    Parameters
    ----------
    posterior : Posterior
    transforms : mapping of name to transform
    centre : {"candidates", "prior"}
        ``"prior"`` is the paper's way.
    """
    if centre not in CENTRES:
        raise InvalidInputError(f"centre must be one of {', '.join(CENTRES)}, got {centre!r}.")
    if centre == "prior" or not transforms or len(posterior.annotations) < FEWEST:
        return posterior
    return candidate_average(posterior, transforms)


def _told_apart(kernel: KernelBundle, locations: Floats) -> list[KernelBundle]:
    """Give a kernel for each scale that the annotations can tell from the others.

    Scales at which no two annotations have to do with each other all say the same, that errors are independent; only
    the largest of them is kept, or they would outweigh the others by their number.
    """
    each = [KernelBundle(kernel.family, [scale], [1.0]) for scale in np.sort(kernel.scales)]
    pairs = np.triu_indices(len(locations), 1)
    blind = [bool(np.max(one.matrix(locations, locations)[pairs]) < _UNRELATED) for one in each]
    return each[max(sum(blind) - 1, 0) :]


def _variance_grid(noise: Floats, residuals: Floats) -> Floats:
    """Variances a component from far below the noise to above the largest residuals, in equal steps of their log."""
    stated = float(np.sqrt(np.mean(np.trace(noise, axis1=1, axis2=2)) / noise.shape[1]))
    seen = float(np.sqrt(np.max(np.mean(np.square(residuals), axis=(1, 2)))))
    return np.asarray(np.geomspace(_SMALLEST_SD * stated, _LARGEST_SD * max(seen, stated), _VARIANCES) ** 2)


def _pruned(log_weights: Floats) -> tuple[list[int], Floats]:
    """Normalise, leave out the smallest combinations that add up to next to nothing, and fields without any left."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    flat = np.sort(weights.reshape(-1))
    below = int(np.searchsorted(np.cumsum(flat), _NEGLIGIBLE))
    weights = np.where(weights >= flat[below], weights, 0.0)
    kept = [int(i) for i in np.flatnonzero(weights.sum(axis=(1, 2)) > 0)]
    return kept, np.asarray(weights[kept] / weights.sum())


def _systematic(weights: Floats, count: int, rng: np.random.Generator) -> Any:
    """Draw indices in proportion to weights with one random offset, in random order."""
    ends = np.cumsum(weights)
    at = (np.arange(count) + rng.random()) / count * ends[-1]
    # Rounding can put the last one just beyond the end.
    return rng.permutation(np.minimum(np.searchsorted(ends, at, side="right"), len(weights) - 1))
