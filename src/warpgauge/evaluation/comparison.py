"""`Comparison`: transforms, and the points at which they are compared, mapped once.

It is made where transforms enter (`judge`, `evaluate`, a project, a pair of a study) and passed on whole. Each
transform is asked in one call for its values at the targets, at the annotated points, sealed ones among them, and at
the audited ones. Where a transform is not defined its row is NaN, and nothing else says so; `Comparison.counted` says
by what a missing value counts. Comparisons of some of the transforms, with other
annotations or over other targets share what is known already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Bools, Floats, as_points, thinned_rows
from warpgauge.core.calibration import scaled_left_out
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import FunctionTransform, Transform, as_transform, can_map

if TYPE_CHECKING:
    from warpgauge.evaluation.flags import Flag

# Points handed to a transform at a time.
BLOCK = 1 << 18
# Up to so many targets are sampled jointly. Of more, every batch of samples has its own random part.
MOST_JOINT_TARGETS, PART, BATCHES = 1000, 500, 10
# A target is known where the posterior's standard deviation is at most so many times the one with which a typical
# annotation is predicted by the others. Fixed on elastix-lung, COPDgene and histology; see docs/validation.md.
_LIMIT = 1.25
# Nor is it known where the annotations take less than this share from the standard deviation before them.
_LEAST = 0.1
# Fewer annotations say nothing about how well one is predicted by the others.
_FEWEST = 4


@dataclass(frozen=True, eq=False)
class Scene:
    """Where a comparison takes place, as far as it is known.

    ``grid`` is that of the fixed image, ``region`` says what the targets stand for, and ``missing`` which of (n, d)
    points have no match: maps have no values there.
    """

    grid: Grid | None = None
    units: str | None = None
    region: str = ""
    missing: Callable[[Floats], Bools] | None = None


@dataclass(frozen=True, eq=False)
class Values:
    """Values of the K transforms, (K, n, d) each: at the targets, the annotated, the sealed and the audited points."""

    targets: Floats
    annotations: Floats
    sealed: Floats
    audited: Floats


@dataclass(frozen=True, eq=False)
class Comparison:
    """Transforms that are compared, and by what; made by :meth:`Comparison.of`.

    Attributes
    ----------
    targets : (n, d) array
        Fixed world points over which errors count.
    baseline : str or None
        Name of the transform that does nothing, where it is among them.
    panel : tuple of str
        Names of the references among the transforms: registrations that never saw an annotation.
    sealed : Annotations or None
        Answers that no transform can have seen; the posterior does not know them.
    seen : dict of (m,) arrays of bool
        Of a transform, which of these it can have seen all the same, as it was added when they were open.
    whole : Posterior or None
        What all answers say, the sealed ones last; by default the posterior given the sealed ones as well.
    notes : tuple of warpgauge.evaluation.Flag
        What is known against transforms from elsewhere, to be said with the verdict.
    audited : (m, d) array
        Points marked in answer to audit questions.
    problems : dict
        Transforms that could not be read, and why.
    labels : sequence of str
        What the user calls the annotations, and after them the sealed ones; their numbers by default.
    """

    transforms: Mapping[str, Transform]
    targets: Floats
    posterior: Posterior
    baseline: str | None = None
    panel: tuple[str, ...] = ()
    sealed: Annotations | None = None
    seen: Mapping[str, Bools] = field(default_factory=dict)
    whole: Posterior | None = None
    notes: tuple[Flag, ...] = ()
    audited: Floats | None = None
    scene: Scene = field(default_factory=Scene)
    problems: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] = ()
    _known: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, transforms: Mapping[str, Any], targets: ArrayLike | None, posterior: Posterior, **rest: Any
    ) -> Comparison:
        """Return a comparison of whatever `as_transform` takes; ``rest`` are the other attributes.

        Without targets (None), the transforms are compared at the annotations only, and mapped targets are refused.
        """
        at = None if targets is None else as_points(targets, "targets", posterior.d)
        if at is None and not all(can_map(one) for one in transforms.values()):
            raise InvalidInputError(
                "Judging transforms against each other needs transforms that can be evaluated anywhere: objects with "
                "map, or callables; mapped targets alone do not say what happens at the annotations."
            )
        own = {name: as_transform(one, d=posterior.d, at=at, name=str(name)) for name, one in transforms.items()}
        return cls(own, np.empty((0, posterior.d)) if at is None else at, posterior, **rest)

    @property
    def annotations(self) -> Annotations:
        """The annotations that the posterior knows."""
        return self.posterior.annotations

    @property
    def values(self) -> Values:
        """Values of all transforms, (K, n, d); NaN rows where one is not defined."""
        if "values" not in self._made:
            points = {
                "targets": self.targets,
                "annotations": self.annotations.fixed_points,
                "sealed": self.targets[:0] if self.sealed is None else self.sealed.fixed_points,
                "audited": self.targets[:0] if self.audited is None else self.audited,
            }
            unknown = [name for name in points if name not in self._known]
            ends = np.cumsum([0, *(len(points[name]) for name in unknown)])
            stacked = [points[name] for name in unknown]
            every = mapped(self.transforms.values(), np.concatenate([self.targets[:0], *stacked]))
            new = {name: np.ascontiguousarray(every[:, ends[at] : ends[at + 1]]) for at, name in enumerate(unknown)}
            self._made["values"] = Values(**{**self._known, **new})
        found: Values = self._made["values"]
        return found

    @property
    def defined(self) -> Bools:
        """Where each transform is defined, (K, n)."""
        return np.asarray(np.isfinite(self.values.targets).all(axis=2))

    @property
    def counted(self) -> Floats:
        """Values (K, n, d) at the targets by which every transform is scored, none of them missing.

        Where a transform is not defined it counts as the worse of no registration (the identity, or the posterior's
        prior mean, which is the confirmed starting alignment) and the references of the panel that are defined there:
        whichever lies farthest from what the annotations expect. So leaving out what is hard brings no gain.
        """
        if "counted" not in self._made:
            self._made["counted"] = self._filled()
        found: Floats = self._made["counted"]
        return found

    def _filled(self) -> Floats:
        missing = ~self.defined
        if not missing.any():
            return self.values.targets
        # At all targets, wherever something is missing: no value may depend on what other transforms leave out.
        at, every = self.targets, list(self.transforms)
        references = self.values.targets[[every.index(name) for name in self.panel]]
        choices = np.concatenate([at[None], self.posterior.prior.prior_mean(at)[None], references])
        apart = np.linalg.norm(choices - self.posterior.mean(at), axis=2)
        worst = choices[np.nanargmax(apart, axis=0), np.arange(len(at))]
        return np.where(missing[:, :, None], worst, self.values.targets)

    @property
    def known(self) -> Bools:
        """Targets that the annotations inform, (n,)."""
        if "known" not in self._made:
            self._made["known"] = known_targets(self.posterior, self.targets)
        found: Bools = self._made["known"]
        return found

    def label(self, row: int) -> str:
        """Return what the user calls an annotation."""
        return self.labels[row] if self.labels else f"annotation {row + 1}"

    @property
    def landmark_errors(self) -> Floats:
        """Distances (K, L) of the transforms from the annotated matches; NaN where one is not defined."""
        return np.asarray(np.linalg.norm(self.values.annotations - self.annotations.moving_points, axis=2))

    def part(self, most: int, seed: int | Sequence[int]) -> Comparison:
        """Return the comparison over a random part of the targets, at most so many."""
        rows = thinned_rows(len(self.targets), most, seed)
        known = {**vars(self.values), "targets": np.ascontiguousarray(self.values.targets[:, rows])}
        found = replace(self, targets=self.targets[rows], _known=known)
        found._made.update(counted=np.ascontiguousarray(self.counted[:, rows]), known=self.known[rows])
        return found

    def parts(self, seed: int, most: int = BATCHES) -> list[Comparison]:
        """Return what is sampled jointly: this comparison, or of many targets random parts, at most so many."""
        if len(self.targets) <= MOST_JOINT_TARGETS:
            return [self]
        return [self.part(PART, [seed, batch]) for batch in range(min(most, BATCHES))]

    def over(self, targets: ArrayLike) -> Comparison:
        """Return the comparison over other targets."""
        known = {name: one for name, one in vars(self.values).items() if name != "targets"}
        return replace(self, targets=as_points(targets, "targets", self.posterior.d), _known=known)

    def among(self, names: Iterable[str]) -> Comparison:
        """Return the comparison of some of the transforms."""
        kept = {name: self.transforms[name] for name in names}
        rows = [list(self.transforms).index(name) for name in kept]
        known = {name: np.ascontiguousarray(one[rows]) for name, one in vars(self.values).items()}
        return replace(
            self,
            transforms=kept,
            panel=tuple(name for name in self.panel if name in kept),
            notes=tuple(one for one in self.notes if one.transform is None or one.transform in kept),
            baseline=self.baseline if self.baseline in kept else None,
            _known=known,
        )

    def opened(self) -> Comparison:
        """Return the comparison by all answers: the sealed ones count like the others from now on."""
        if self.sealed is None or not len(self.sealed):
            return replace(self, sealed=None, _known=dict(vars(self.values)))
        every = self.posterior.append(self.sealed) if self.whole is None else self.whole
        joined = np.concatenate([self.values.annotations, self.values.sealed], axis=1)
        known = {**vars(self.values), "annotations": joined, "sealed": joined[:, :0]}
        return replace(self, posterior=every, sealed=None, whole=None, _known=known)

    def hidden_from(self, name: str) -> Bools:
        """Return which of the annotations and, after them, the sealed answers a transform cannot have seen."""
        later = 0 if self.sealed is None else len(self.sealed)
        seen = self.seen.get(name, np.zeros(later, dtype=bool))
        return np.concatenate([np.zeros(len(self.annotations), dtype=bool), ~seen])

    def without(self, rows: ArrayLike) -> Comparison:
        """Return the comparison without the annotations of some rows; its posterior does not know them."""
        kept = np.setdiff1d(np.arange(len(self.annotations)), np.asarray(rows, dtype=np.int64))
        posterior = self.posterior.prior.condition(self.annotations[kept], calibrate=self.posterior.calibrates)
        known = {**vars(self.values), "annotations": np.ascontiguousarray(self.values.annotations[:, kept])}
        labels = [self.labels[row] for row in kept] if self.labels else ()
        return replace(self, posterior=posterior, labels=labels, _known=known)

    def values_of(self, others: Mapping[str, Transform]) -> Floats:
        """Values (K, n, d) of given transforms at the targets: those known where they are among these, else mapped."""
        if not self.holds(others):
            return mapped(others.values(), self.targets)
        return np.ascontiguousarray(self.values.targets[[list(self.transforms).index(name) for name in others]])

    def holds(self, others: Mapping[str, Transform]) -> bool:
        """Return whether given transforms are among these, under the same names."""
        return all(name in self.transforms and _same(self.transforms[name], one) for name, one in others.items())


def _same(one: Transform, other: Transform) -> bool:
    """Whether two transforms are one object, or the same function."""
    if isinstance(one, FunctionTransform) and isinstance(other, FunctionTransform):
        return one.function is other.function or (hasattr(one.function, "__func__") and one.function == other.function)
    return one is other


def mapped(transforms: Iterable[Transform], points: Floats) -> Floats:
    """Values (K, n, d) of transforms at points, in blocks; NaN rows where one is not defined."""
    every = list(transforms)
    out = np.empty((len(every), *points.shape))
    blocks = np.array_split(np.arange(len(points)), -(-len(points) // BLOCK)) if len(points) else []
    for k, one in enumerate(every):
        for rows in blocks:
            out[k, rows] = one.map(points[rows])
    out[~np.isfinite(out).all(axis=2)] = np.nan
    return out


def known_targets(posterior: Posterior, targets: Floats) -> Bools:
    """Return at which of (n, d) targets the annotations say as much as where they were checked against each other.

    There, errors are about as large as where each annotation was left out. Farther away nothing has tested the model.
    """
    annotations = posterior.annotations
    if len(annotations) < _FEWEST:
        return np.zeros(len(targets), dtype=bool)
    latent = scaled_left_out(posterior).covariances - posterior.prior.total_noise(annotations.covariances)
    usual = np.median(np.sqrt(np.maximum(np.trace(latent, axis1=1, axis2=2), 0.0) / posterior.d))
    deviation = posterior.standard_deviation(targets)
    before = np.sqrt(posterior.scale) * posterior.prior.condition(annotations[:0]).standard_deviation(targets)
    return np.asarray((deviation <= _LIMIT * usual) & (deviation <= (1 - _LEAST) * before))
