r"""Model of the truth given the annotations *and* the transforms: their median plus an error field.

.. math:: \phi(x) = M(x) + \sqrt v \, \Big[ a(x)^p g_\rho(x) + \eta \sum_k z_k D_k(x) + \tau \sum_j u_j b_j(x) \Big],
          \qquad y_l \sim N(\phi(x_l), f \Sigma_l)

``M`` is the transforms' weighted median, ``D_k`` the difference of transform k from it, scaled to unit size, and ``a``
how far they disagree at x. The error is partly a smooth field ``g`` of scale rho, uneven with power p, partly a
combination of the transforms' own differences with standard normal ``z``, and partly an affine map, the error of a
registration that failed as a whole: ``b_j`` are 1 and the standardised coordinates, ``u_j`` standard normal vectors.
Size v, scale, unevenness, the shares eta and tau and the factor f on the stated noise are averaged with the weight that
the annotations give them (their likelihood), but for half of the weight, for which the noise is at most the stated one.
For given rho, p, eta and tau the covariance of the whitened annotations is ``v B + f I``; what eta and tau add to B has
few columns, so that one eigendecomposition for each rho and p serves every v, f, eta and tau (`core.spectra`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.kernels import KernelBundle, prior_draws
from warpgauge.core.parallel import one_blas_thread
from warpgauge.core.spectra import Likelihoods, Spectrum, WidenedSpectrum, every_pair
from warpgauge.evaluation.evidence import Evidence, EvidenceValues

UNEVENNESS = (0.0, 1.0)
ALONG = (0.3, 1.0, 3.0)
TREND = (0.0, 10.0)
OWN = (0.0, 1.0)  # shares of the smooth field that regions have to themselves, where the image has regions
# Factors on the variances that experts state, and how probable each is before any annotation. What people state is a
# guess, too large as often as too small.
NOISE_FACTORS = (1 / 9, 1.0, 3.0, 9.0)
NOISE_PRIOR = (0.2, 0.4, 0.25, 0.15)
# Annotations barely distinguish noise from errors of short range: noise up to the stated one always keeps this share.
_UP_TO_STATED = 0.5
_SIZES = 40
_MOST_SCALES = 5
# Annotations whose errors correlate by less than this have nothing to do with each other.
_UNRELATED = 0.1
# Combinations with less weight than this are left out.
_NEGLIGIBLE = 1e-4
# Sizes and noise factors with less weight than this change no digit that is shown.
_RULED_OUT = 1e-13


Matrices = Callable[[KernelBundle], Floats]


def matrices_between(points: Floats, others: Floats) -> Matrices:
    """Return the kernel matrix (n, m) of two sets of points by kernel, made once: the shapes of a scale share it."""
    return cache(lambda kernel: kernel.matrix(points, others))


@dataclass(frozen=True, eq=False)
class Component:
    """An error of unit size: its scale, unevenness, and shares along the transforms' differences and of an affine map.

    ``annotated`` is the annotations' covariance, ``residuals`` (L d,) are rotated by it.
    """

    kernel: KernelBundle
    power: float
    along: float
    trend: float
    annotated: WidenedSpectrum
    residuals: Floats

    def smooth(self, between: Matrices, here: EvidenceValues, there: EvidenceValues) -> Floats:
        """Covariance (n, m) of each coordinate, without the transforms' differences, between two sets of points."""
        uneven = (here.disagreement**self.power)[:, None]
        field = uneven * between(self.kernel) * there.disagreement**self.power
        return np.asarray(field + self.trend**2 * here.affine @ there.affine.T)

    def covariance(self, between: Matrices, here: EvidenceValues, there: EvidenceValues) -> Floats:
        """Covariance (n d, m d) between two sets of points."""
        left, right = (one.directions.reshape(-1, one.directions.shape[2]) for one in (here, there))
        smooth, result, d = self.smooth(between, here, there), self.along**2 * left @ right.T, here.directions.shape[1]
        for a in range(d):
            result[a::d, a::d] += smooth
        return np.asarray(result)

    def variance(self, here: EvidenceValues) -> Floats:
        """Covariance (n, d, d) at each point."""
        even = np.square(here.disagreement**self.power) + self.trend**2 * np.square(here.affine).sum(axis=1)
        along = self.along**2 * here.directions @ here.directions.transpose(0, 2, 1)
        return np.asarray(even[:, None, None] * np.eye(here.directions.shape[1]) + along)

    def field(self, draws: Floats, here: EvidenceValues, combined: Floats, affine: Floats) -> Floats:
        """Errors (s, n, d) of smooth draws (s, n, d), and normal numbers (s, K) and (s, d + 1, d) for the rest."""
        along = np.einsum("ndk,sk->snd", here.directions, self.along * combined)
        uneven = (here.disagreement**self.power)[:, None]
        return np.asarray(uneven * draws + along + self.trend * here.affine @ affine)

    def weights(self, factors: Floats, sizes: Floats, missed: Floats) -> Floats:
        """Weights (L d, s) of the annotations that predict errors from rotated (L d, s) or (L d, 1) residuals."""
        return self.annotated.spectrum.weights(sizes * self.annotated.solve(factors, sizes, missed))


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Model of the truth, averaged over the unknown parameters of the error; made by :meth:`ErrorModel.fit`.

    Attributes
    ----------
    evidence : Evidence
    rows : (L,) array of int
        Which of the annotations it was fitted to.
    locations : (L, d) array
    values : EvidenceValues
        At the locations.
    noise : (L, d, d) array
    components : tuple of Component
    sizes : (V,) array
        The variances v.
    weights : (C, F, V) array
        Of every component, noise factor and size; adds up to 1.
    """

    evidence: Evidence
    rows: Ints
    locations: Floats
    values: EvidenceValues
    noise: Floats
    components: tuple[Component, ...]
    sizes: Floats
    weights: Floats

    @classmethod
    @one_blas_thread()
    def fit(cls, evidence: Evidence, rows: Ints | None = None) -> ErrorModel:
        """Weigh every combination by some of the annotations (all by default)."""
        posterior = evidence.posterior
        given = posterior.annotations
        kept = np.arange(len(given)) if rows is None else rows
        here = evidence.at_annotations[kept]
        locations, noise = given.fixed_points[kept], posterior.prior.total_noise(given.covariances)[kept]
        residuals = given.moving_points[kept] - here.median
        whitening = np.linalg.inv(np.linalg.cholesky(noise))
        sizes = _size_grid(noise, residuals)
        columns = np.column_stack([_columns(here), residuals.reshape(-1)])
        components, likelihoods, between = [], [], matrices_between(locations, locations)
        for kernel, power in product(_distinguishable(posterior.prior.kernel, locations), UNEVENNESS):
            uneven = here.disagreement**power
            spectrum = Spectrum.of(uneven[:, None] * between(kernel) * uneven, whitening)
            rotated = spectrum.rotated(columns)
            found = Likelihoods(spectrum.variances, rotated[:, :-1], rotated[:, -1], np.asarray(NOISE_FACTORS), sizes)
            _, d, K = here.directions.shape
            for along, trend in product(ALONG, TREND):
                multiples = np.repeat([trend, along], [here.affine.shape[1] * d, K])  # of the columns
                likelihoods.append(found.of(multiples))
                present = np.flatnonzero(multiples)
                widened = WidenedSpectrum(spectrum, rotated[:, present] * multiples[present])
                components.append(Component(kernel, power, along, trend, widened, rotated[:, -1]))
        weights = _noise_weights(np.stack(likelihoods))
        used = [i for i, one in enumerate(weights) if one.sum() >= _NEGLIGIBLE]
        return cls(
            evidence, kept, locations, here, noise, tuple(components[i] for i in used), sizes,
            np.asarray(weights[used] / weights[used].sum()),
        )  # fmt: skip

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.locations.shape[1])

    @cached_property
    def noise_factor(self) -> float:
        """Expected factor on the stated variances of the annotations."""
        return float(self.weights.sum(axis=(0, 2)) @ np.asarray(NOISE_FACTORS))

    @property
    def believed_noise(self) -> float:
        """Expected part of the stated variances that is noise; factors above 1 count as 1."""
        return float(self.weights.sum(axis=(0, 2)) @ np.minimum(NOISE_FACTORS, 1.0))

    def mean(self, points: Floats, here: EvidenceValues) -> Floats:
        """Return the expected matches of (n, d) points; ``here`` is what the transforms say there."""
        result, between = here.median.copy(), matrices_between(points, self.locations)
        for component, table in zip(self.components, self.weights, strict=True):
            shares, factors, sizes = self._pairs(table)
            weights = component.weights(factors, sizes, component.residuals[:, None]) @ shares[:, None]
            result += self._predicted(component, between, here, weights)[0]
        return result

    def _pairs(self, table: Floats) -> tuple[Floats, Floats, Floats]:
        """Weight, noise factor and size of each pair of them that a component's (F, V) weights do not rule out."""
        shares = table.reshape(-1)
        used = shares > _RULED_OUT
        factors, sizes = every_pair(np.asarray(NOISE_FACTORS), self.sizes)
        return shares[used], factors[used], sizes[used]

    def moments(self, points: Floats, here: EvidenceValues) -> tuple[Floats, Floats]:
        """Return mean (n, d) and covariance (n, d, d) of the true match of each point."""
        n, d = points.shape
        mean, second, within = np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((n, d, d))
        between = matrices_between(points, self.locations)
        for component, table in zip(self.components, self.weights, strict=True):
            (shares, factors, sizes), spectrum = self._pairs(table), component.annotated.spectrum
            left = spectrum.rotated(component.covariance(between, here, self.values).T).T
            solved = component.annotated.solve(factors, sizes, component.residuals[:, None])
            means = (left @ (sizes * solved)).T.reshape(-1, n, d)
            mean += np.einsum("s,sni->ni", shares, means)
            second += np.einsum("s,sni,snj->nij", shares, means, means, optimize=True)
            explained = component.annotated.explained(shares * np.square(sizes), factors, sizes, left.reshape(n, d, -1))
            within += np.sum(shares * sizes) * component.variance(here) - explained
        return here.median + mean, within + second - mean[:, :, None] * mean[:, None, :]

    def sample(self, points: Floats, here: EvidenceValues, count: int, rng: np.random.Generator) -> Floats:
        """Draw joint samples of the true matches, (count, n, d)."""
        return joint_samples([self], points, here, np.zeros(count, dtype=np.int64), rng)

    def corrected(
        self, component: Component, sizes: Floats, factors: Floats, fields: Floats, between: Matrices,
        here: EvidenceValues, rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Turn (s, n + all annotations, d) fields of the prior into samples that know the annotations, (s, n, d).

        ``between`` is of the n points and the annotations' locations.
        """
        count, n = len(fields), len(here.median)
        combined = rng.standard_normal((count, here.directions.shape[2]))
        affine = rng.standard_normal((count, here.affine.shape[1], self.d))
        root = np.sqrt(sizes)[:, None, None]
        free = root * component.field(fields[:, :n], here, combined, affine)
        seen = root * component.field(fields[:, n + self.rows], self.values, combined, affine)
        normal = rng.standard_normal((count, *self.noise.shape[:2]))
        placed = np.sqrt(factors)[:, None, None] * np.einsum("lab,slb->sla", np.linalg.cholesky(self.noise), normal)
        drawn = component.annotated.spectrum.rotated((seen + placed).reshape(count, -1).T)
        weights = component.weights(factors, sizes, component.residuals[:, None] - drawn)
        return np.asarray(here.median + free + self._predicted(component, between, here, weights))

    def _predicted(self, component: Component, between: Matrices, here: EvidenceValues, weights: Floats) -> Floats:
        """Covariance with the annotations times (L d, s) weights, (s, n, d)."""
        n, d = here.median.shape
        block = component.smooth(between, here, self.values)
        smooth = (block @ weights.reshape(len(self.locations), -1)).reshape(n, d, -1)
        at = self.values.directions.reshape(-1, self.values.directions.shape[2])
        along = here.directions @ (component.along**2 * (at.T @ weights))
        return np.asarray((smooth + along).transpose(2, 0, 1))


@one_blas_thread()
def joint_samples(
    models: Sequence[ErrorModel], points: Floats, here: EvidenceValues, model_of: Ints, rng: np.random.Generator
) -> Floats:
    """Draw one joint sample of the true matches from the model that each entry of ``model_of`` names, (count, n, d).

    The models belong to one candidate set. Samples of one scale share the factor of their prior, the costly part.
    """
    n, d = points.shape
    everywhere = np.concatenate([points, models[0].evidence.posterior.annotations.fixed_points])
    samples = np.empty((len(model_of), n, d))
    betweens = {id(model): matrices_between(points, model.locations) for model in models}
    parts: dict[tuple[float, float], list[tuple[ErrorModel, Component, Ints, Floats, Floats]]] = {}
    for at, model in enumerate(models):
        rows = np.flatnonzero(model_of == at)
        chosen = np.unravel_index(systematic(model.weights.reshape(-1), len(rows), rng), model.weights.shape)
        for i, component in enumerate(model.components):
            own = chosen[0] == i
            if own.any():
                factors, sizes = np.asarray(NOISE_FACTORS)[chosen[1][own]], model.sizes[chosen[2][own]]
                kernel = component.kernel
                same = float(kernel.scales[0]), float(kernel.own[0])
                parts.setdefault(same, []).append((model, component, rows[own], sizes, factors))
    for alike in parts.values():
        fields = prior_draws(alike[0][1].kernel, everywhere, sum(len(rows) for _, _, rows, _, _ in alike), rng)
        start = 0
        for model, component, rows, sizes, factors in alike:
            drawn = fields[start : start + len(rows)]
            samples[rows] = model.corrected(component, sizes, factors, drawn, betweens[id(model)], here, rng)
            start += len(rows)
    return samples


def _columns(here: EvidenceValues) -> Floats:
    """Return affine errors of each coordinate, and the transforms' differences, at the annotations, (L d, R)."""
    L, d, _ = here.directions.shape
    affine = here.affine[:, None, :, None] * np.eye(d)[:, None]
    return np.concatenate([affine.reshape(L * d, -1), here.directions.reshape(L * d, -1)], axis=1)


def _distinguishable(kernel: KernelBundle, locations: Floats) -> list[KernelBundle]:
    """Return kernels for each of the largest scales that the annotations can distinguish from the others.

    At scales below the annotations' distance all errors are independent; only the largest of those scales is kept.
    """
    each = [KernelBundle(kernel.family, [scale], [1.0]) for scale in np.sort(kernel.scales)]
    pairs = np.triu_indices(len(locations), 1)
    blind = [bool(np.max(one.matrix(locations, locations)[pairs]) < _UNRELATED) for one in each]
    kept = each[max(sum(blind) - 1, 0) :][-_MOST_SCALES:]
    if kernel.regions is None:
        return kept
    # Where tissue slides, a registration that does not know it errs on either side of the boundary by itself.
    return [one.with_own(kernel.regions, own) for one in kept for own in OWN]


def _size_grid(noise: Floats, residuals: Floats) -> Floats:
    """Variances from far below the noise to above the largest residuals, in equal steps of their logarithm."""
    stated = float(np.sqrt(np.mean(np.trace(noise, axis1=1, axis2=2)) / noise.shape[1]))
    seen = float(np.sqrt(np.mean(np.square(residuals))))
    lowest = min(0.1 * stated, 0.05 * seen) if seen > 0 else 0.1 * stated
    return np.asarray(np.geomspace(lowest, 3 * max(seen, stated), _SIZES) ** 2)


def _noise_weights(likelihoods: Floats) -> Floats:
    """Turn log likelihoods (C, F, V) into weights.

    Noise up to the stated one keeps a fixed share of the weight; the rest goes to noise of any size.
    """
    learned = likelihoods + np.log(NOISE_PRIOR)[:, None]
    small = np.where((np.asarray(NOISE_FACTORS) <= 1)[:, None], likelihoods, -np.inf)
    any_, up_to = np.exp(learned - learned.max()), np.exp(small - small.max())
    return np.asarray(_UP_TO_STATED * up_to / up_to.sum() + (1 - _UP_TO_STATED) * any_ / any_.sum())


def systematic(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Draw indices in proportion to weights with one random offset, in random order."""
    ends = np.cumsum(weights)
    at = (np.arange(count) + rng.random()) / count * ends[-1]
    # Rounding can put the last one just beyond the end.
    return rng.permutation(np.minimum(np.searchsorted(ends, at, side="right"), len(weights) - 1))
