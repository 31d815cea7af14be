"""What a ranking hangs on: the kernel, the noise, or a single annotation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.kernels import FAMILIES, KernelBundle
from warpgauge.core.leave_one_out import left_out
from warpgauge.core.process import Posterior
from warpgauge.core.scoring import win_probabilities
from warpgauge.evaluation.averaging import FEWEST, candidate_average
from warpgauge.evaluation.mapping import Remembered

FACTOR = 4.0
_MOST_POINTS = 500
_MOST_GROUPS = 40
_LEAD_SAMPLES = 200


@dataclass(frozen=True)
class Variation:
    """The ranking under one changed assumption.

    Attributes
    ----------
    name : str
        What was changed.
    kind : {"kernel", "noise", "left out"}
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
    kind: str
    ranking: tuple[str, ...]
    best_changes: bool
    kendall_distance: float
    spearman: float | None
    lead: float | None


@dataclass(frozen=True)
class Sensitivity:
    """What changed assumptions do to the ranking; the hyperparameters are not learned anew."""

    ranking: tuple[str, ...]
    variations: tuple[Variation, ...]

    def of(self, kind: str) -> tuple[Variation, ...]:
        """Variations of one kind."""
        return tuple(one for one in self.variations if one.kind == kind)

    @property
    def decisive(self) -> tuple[str, ...]:
        """Names of the variations under which another transform is best."""
        return tuple(one.name for one in self.variations if one.best_changes)

    @property
    def sentence(self) -> str:
        """All that in a sentence."""
        if len(self.ranking) < 2:
            return "There is one transform only, so no ranking to change."
        if not self.decisive:
            return f"{self.ranking[0]} stays best under all {len(self.variations)} changes of kernel, noise and data."
        shown = ", ".join(self.decisive[:5]) + (" and others" if len(self.decisive) > 5 else "")
        return f"Which transform is best changes in {len(self.decisive)} of {len(self.variations)} variations: {shown}."


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
    base = _squares(mapped, posterior.mean(points))
    describe = _Describer(list(names), base)
    variations = []
    for name, kind, changed in _changes(posterior, factor):
        other = changed()
        lead = None
        if len(names) > 1:
            win = win_probabilities(other, points, mapped)[describe.best]
            lead = float(np.delete(win, describe.best).min())
        variations.append(describe(name, kind, _squares(mapped, other.mean(points)), lead))
    for row, mean in enumerate(means_without_each(posterior, points)):
        variations.append(describe(f"without annotation {row}", "left out", _squares(mapped, mean), None))
    return Sensitivity(tuple(describe.names[k] for k in describe.order), tuple(variations))


def average_sensitivity(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    points: Floats,
    mapped: Floats,
    *,
    factor: float = FACTOR,
    seed: int = 0,
) -> Sensitivity:
    """Do the same with the average over the candidates, made anew under every change.

    The error's size is averaged over, so there are no weights to change. At most 500 of the targets are used, and at
    most 40 groups of annotations are left out, each one annotation where there are no more than that.
    """
    names = list(transforms)
    if len(points) > _MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(len(points), _MOST_POINTS, replace=False))
        points, mapped = points[rows], mapped[:, rows]
    remembered = {name: Remembered(name, one) for name, one in transforms.items()}

    def squares(known: Posterior) -> Floats:
        return _squares(mapped, candidate_average(known, remembered).mean(points))

    describe = _Describer(names, squares(posterior))
    variations = []
    for name, kind, changed in _changes(posterior, factor):
        if name.startswith("kernel weights"):
            continue
        average = candidate_average(changed(), remembered)
        lead = None
        if len(names) > 1:
            lengths = np.linalg.norm(average.sample(points, _LEAD_SAMPLES, seed)[:, None] - mapped, axis=3)
            rms = np.sqrt(np.mean(np.square(lengths), axis=2))
            ahead = (rms[:, describe.best, None] < rms).mean(axis=0)
            lead = float(np.delete(ahead, describe.best).min())
        variations.append(describe(name, kind, _squares(mapped, average.mean(points)), lead))
    given = posterior.annotations
    for group in np.array_split(np.argsort(np.arange(len(given)) % _MOST_GROUPS), min(len(given), _MOST_GROUPS)):
        kept = given[np.setdiff1d(np.arange(len(given)), group)]
        if len(kept) < FEWEST:
            continue
        rows_out = ", ".join(str(row) for row in np.sort(group))
        name = f"without annotation{'s' if len(group) > 1 else ''} {rows_out}"
        variations.append(describe(name, "left out", squares(posterior.prior.condition(kept)), None))
    return Sensitivity(tuple(describe.names[k] for k in describe.order), tuple(variations))


def _squares(mapped: Floats, mean: Floats) -> Floats:
    return np.asarray(np.square(mapped - mean).sum(axis=2).mean(axis=1))


def _changes(posterior: Posterior, factor: float) -> list[tuple[str, str, Callable[[], Posterior]]]:
    prior, given = posterior.prior, posterior.annotations
    kernel = prior.kernel

    def with_kernel(other: KernelBundle) -> Callable[[], Posterior]:
        return lambda: prior.with_kernel(other).condition(given, calibrate=posterior.calibrates)

    def with_noise(times: float) -> Callable[[], Posterior]:
        scaled = Annotations(given.fixed_points, given.moving_points, given.covariances * times)
        noisier = replace(prior, noise=prior.noise * times, fit=None)
        return lambda: noisier.condition(scaled, calibrate=posterior.calibrates)

    changes = [
        (f"kernel weights x {factor:g}", "kernel", with_kernel(kernel.with_weights(kernel.weights * factor))),
        (f"kernel weights / {factor:g}", "kernel", with_kernel(kernel.with_weights(kernel.weights / factor))),
    ]
    for family in FAMILIES:
        if family != kernel.family:
            other = KernelBundle(family, kernel.scales, kernel.weights)
            changes.append((f"kernel family {family}", "kernel", with_kernel(other)))
    changes.append((f"noise x {factor:g}", "noise", with_noise(factor)))
    changes.append((f"noise / {factor:g}", "noise", with_noise(1 / factor)))
    return changes


def means_without_each(posterior: Posterior, points: Floats) -> Floats:
    """Posterior mean at the points with each annotation left out in turn, (L, n, d), from one factorisation.

    Leaving out l takes ``K_X(x)^T K_AA^-1 E_l r_l`` from the mean, with ``r_l`` its leave-one-out residual.
    """
    conditioned, L, d = posterior.conditioned, len(posterior.annotations), posterior.d
    if L == 0:
        return np.empty((0, *points.shape))
    residuals = left_out(conditioned, posterior.weights).residuals
    if conditioned.isotropic:
        inverse = conditioned.W.T @ conditioned.W
        taken = inverse[:, None, :] * residuals.T[None]
    else:
        spread = np.zeros((L, d, L))
        spread[np.arange(L), :, np.arange(L)] = residuals
        taken = (conditioned.W.T @ (conditioned.W @ spread.reshape(L * d, L))).reshape(L, d, L)
    block = conditioned.kernel.matrix(points, conditioned.locations)
    change = (block @ taken.reshape(L, d * L)).reshape(len(points), d, L)
    return np.asarray(posterior.mean(points) - change.transpose(2, 0, 1))


class _Describer:
    """Compares rankings with the first one."""

    def __init__(self, names: list[str], squares: Floats) -> None:
        self.names, self.base = names, squares
        self.order = [int(k) for k in np.argsort(squares, kind="stable")]
        self.best = self.order[0]

    def __call__(self, name: str, kind: str, squares: Floats, lead: float | None) -> Variation:
        order = [int(k) for k in np.argsort(squares, kind="stable")]
        K = len(order)
        above = np.triu_indices(K, 1)
        signs = [np.sign(values[:, None] - values[None])[above] for values in (self.base, squares)]
        spearman = None
        if K > 1:
            ranks = [stats.rankdata(values) for values in (self.base, squares)]
            spearman = _correlation(*ranks)
        return Variation(
            name,
            kind,
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
