"""Ranking sensitivity: how the order of transforms changes with the kernel, the noise, or one annotation less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, tied_ranks
from warpgauge.core.error_scores import mean_squared_errors, win_probabilities
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.process import Posterior

FACTOR = 4.0
# What can be changed, by its code, and the kind under which it is shown.
KINDS = {"weights": "kernel", "family": "kernel", "noise": "noise", "left_out": "left out"}


@dataclass(frozen=True)
class Variation:
    """The ranking under one changed assumption.

    Attributes
    ----------
    name : str
        What was changed; annotations are counted from 1.
    kind : {"kernel", "noise", "left out"}
    code : {"weights", "family", "noise", "left_out"}
        What is changed, for programs.
    ranking : tuple of str
        By the 2-norm against the changed posterior mean, best first.
    best_changes : bool
        Whether another transform than before is best.
    kendall_distance : float
        Share of the pairs of transforms that changed their order, 0 to 1.
    spearman : float or None
        Rank correlation with the unchanged ranking; None for a single transform.
    lead : float or None
        Exact probability that the unchanged best still beats every single other (the smallest of them); None for
        annotations left out, and for a single transform.
    """

    name: str
    code: str
    ranking: tuple[str, ...]
    best_changes: bool
    kendall_distance: float
    spearman: float | None
    lead: float | None
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", KINDS[self.code])


@dataclass(frozen=True)
class Sensitivity:
    """Rankings under changed assumptions; the hyperparameters are not relearned."""

    ranking: tuple[str, ...]
    variations: tuple[Variation, ...]

    def __repr__(self) -> str:
        return f"<Sensitivity: another is best under {len(self.decisive)} of {len(self.variations)} changes>"

    def of(self, kind: str) -> tuple[Variation, ...]:
        """Variations of one kind."""
        return tuple(one for one in self.variations if one.kind == kind)

    @property
    def decisive(self) -> tuple[str, ...]:
        """Names of the variations under which another transform is best."""
        return tuple(one.name for one in self.variations if one.best_changes)

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if len(self.ranking) < 2:
            return "There is only one transform, so there is no ranking to change."
        checks = f"{len(self.variations)} sensitivity checks (other kernels, other noise, annotations left out)"
        if not self.decisive:
            return f"{self.ranking[0]} has the smallest estimated error in all {checks}."
        shown = ", ".join(self.decisive[:5]) + (" and others" if len(self.decisive) > 5 else "")
        return f"Another transform has the smallest estimated error in {len(self.decisive)} of {checks}: {shown}."


def sensitivity(
    posterior: Posterior,
    names: Sequence[str],
    points: Floats,
    mapped: Floats,
    *,
    factor: float = FACTOR,
) -> Sensitivity:
    """Rank again with weights and noise times and over ``factor``, other families, and each annotation left out.

    Parameters
    ----------
    posterior : Posterior
    names : sequence of str
    points : (n, d) array
        Targets that all transforms map.
    mapped : (K, n, d) array
    factor : float
        On all weights of the kernel, and on the covariances of all annotations (extra noise included).
    """
    base = mean_squares(mapped, posterior.mean(points))
    describe = Describer(list(names), base)
    variations = []
    for code, name, changed in model_changes(posterior, factor):
        other = changed()
        lead = None
        if len(names) > 1:
            win = win_probabilities(other, points, mapped)[describe.best]
            lead = float(np.delete(win, describe.best).min())
        variations.append(describe(name, code, mean_squares(mapped, other.mean(points)), lead))
    for number, mean in enumerate(means_without_each(posterior, points), 1):
        variations.append(describe(f"without annotation {number}", "left_out", mean_squares(mapped, mean), None))
    return Sensitivity(tuple(describe.names[k] for k in describe.order), tuple(variations))


def mean_squares(mapped: Floats, mean: Floats) -> Floats:
    """Mean squared distance of (K, n, d) mapped points from (n, d) points, (K,)."""
    return mean_squared_errors(mapped - mean)


def model_changes(posterior: Posterior, factor: float) -> list[tuple[str, str, Callable[[], Posterior]]]:
    """Return codes, names and makers of posteriors with another kernel or another noise."""
    prior, given = posterior.prior, posterior.annotations
    kernel = prior.kernel

    def with_kernel(other: KernelBundle) -> Callable[[], Posterior]:
        return lambda: prior.with_kernel(other).condition(given, calibrate=posterior.calibrates)

    def with_noise(times: float) -> Callable[[], Posterior]:
        scaled = Annotations(given.fixed_points, given.moving_points, given.covariances * times)
        noisier = replace(prior, noise=prior.noise * times, fit=None)
        return lambda: noisier.condition(scaled, calibrate=posterior.calibrates)

    changes = [
        ("weights", f"kernel weights x {factor:g}", with_kernel(kernel.with_weights(kernel.weights * factor))),
        ("weights", f"kernel weights / {factor:g}", with_kernel(kernel.with_weights(kernel.weights / factor))),
    ]
    changes += [
        ("family", f"kernel family {family}", with_kernel(kernel.with_family(family)))
        for family in kernel.other_families
    ]
    changes.append(("noise", f"noise x {factor:g}", with_noise(factor)))
    changes.append(("noise", f"noise / {factor:g}", with_noise(1 / factor)))
    return changes


def means_without_each(posterior: Posterior, points: Floats) -> Floats:
    """Posterior mean at the points with each annotation left out in turn, (L, n, d), from one factorisation.

    Leaving out l takes ``K_X(x)^T K_AA^-1 E_l r_l`` from the mean, with ``r_l`` its leave-one-out residual.
    """
    conditioned, L, d = posterior.conditioned, len(posterior.annotations), posterior.d
    if L == 0:
        return np.empty((0, *points.shape))
    residuals = posterior.left_out().residuals
    if posterior.spots is posterior.annotations:
        alone = np.zeros((L, d, L))
        alone[np.arange(L), :, np.arange(L)] = residuals
    else:  # with M the noise of its merged location, K_X^T K_AA^-1 E_l is that of the location times M N_l^-1
        at = posterior.spot_of
        alone = np.zeros((conditioned.count, d, L))
        parts = np.linalg.solve(posterior.noise, residuals[..., None])[..., 0]
        alone[at, :, np.arange(L)] = np.einsum("lab,lb->la", conditioned.noise[at], parts)
    taken = conditioned.solve(alone)
    block = conditioned.kernel.matrix(points, conditioned.locations)
    change = (block @ taken.reshape(conditioned.count, d * L)).reshape(len(points), d, L)
    return np.asarray(posterior.mean(points) - change.transpose(2, 0, 1))


class Describer:
    """Compares rankings with the first one."""

    def __init__(self, names: list[str], squares: Floats) -> None:
        self.names, self.base = names, squares
        self.order = [int(k) for k in np.argsort(squares, kind="stable")]
        self.best = self.order[0]

    def __call__(self, name: str, code: str, squares: Floats, lead: float | None) -> Variation:
        """Describe the ranking that (K,) mean squared errors under a change give."""
        order = [int(k) for k in np.argsort(squares, kind="stable")]
        K = len(order)
        above = np.triu_indices(K, 1)
        signs = [np.sign(values[:, None] - values[None])[above] for values in (self.base, squares)]
        spearman = None
        if K > 1:
            spearman = _correlation(tied_ranks(self.base), tied_ranks(squares))
        return Variation(
            name,
            code,
            tuple(self.names[k] for k in order),
            bool(squares[self.best] > squares.min()),
            float(np.mean(signs[0] * signs[1] < 0)) if K > 1 else 0.0,
            spearman,
            lead,
        )


def _correlation(a: Floats, b: Floats) -> float:
    """Pearson correlation of ranks; 1 where a ranking is all ties and the other equal to it, else 0."""
    x, y = a - a.mean(), b - b.mean()
    size = float(np.sqrt(x @ x * (y @ y)))
    return float(x @ y / size) if size > 0 else float(np.array_equal(a, b))
