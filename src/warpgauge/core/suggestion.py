"""Where to annotate next: Algorithm 1 of the paper, the strategies it is compared with, and some beyond it.

`compile_loops` compiles the inner loops ahead of time: once per installation, and when an interactive program starts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations, confidence_radius
from warpgauge.core.arrays import Floats, as_covariances, as_points
from warpgauge.core.gains import TIE, Gains
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.process import TransformationPrior
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError


def assumed_covariance(prior: TransformationPrior, d: int) -> Floats:
    """Covariance assumed for an annotation that is not there yet.

    A 99 % disc with a radius of a tenth of the kernel's smallest scale: the paper's 1 pixel where that is 10 pixels.
    """
    sd = 0.1 * float(prior.kernel.scales.min()) / confidence_radius(d)
    return sd**2 * np.eye(d)


STRATEGIES = ("entropy", "information", "farthest", "random")
# A candidate this close to a target, in smallest scales, is that target.
_SAME_POINT = 1e-9


class Suggester:
    """Suggests the most informative candidate to annotate next, Eq. (maximisation_problem_greedy_simplified).

    Parameters
    ----------
    prior : TransformationPrior
    candidates : (n, d) array
        Locations of the fixed image that may be asked for, distinct.
    targets : (N, d) array, optional
        Locations whose match matters. ``None`` means that every candidate is a target; which others are then has no
        effect.
    strategy : {"entropy", "information", "farthest", "random"}
        ``"entropy"`` is the paper's. ``"information"`` is the information that an annotation is expected to bring,
        times the ``chance`` that there is one (:mod:`warpgauge.core.gains`): what sessions use. ``"farthest"``
        (the paper's Heuristic) asks for the candidate farthest from all annotated ones.
    seed : int
        Breaks ties, picks the first of ``"farthest"`` and orders ``"random"``.
    default_covariance : (d, d) array, optional
        Assumed where :meth:`record` is not told one, and by ``"information"``.
    chance : (n,) array, optional
        Chance that each candidate can be answered, for ``"information"``; 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle.pyramid(smallest=10.0, levels=5))
    >>> candidates = np.array([[10.0, 10.0], [12.0, 10.0], [90.0, 80.0]])
    >>> suggester = wg.Suggester(prior, candidates)
    >>> suggester.record(0, covariance=0.25 * np.eye(2))  # annotated; where its match lies is not needed
    >>> suggester.suggest()  # the one far from it
    2
    >>> float(suggester.gains()[0])
    -inf
    """

    def __init__(
        self,
        prior: TransformationPrior,
        candidates: ArrayLike,
        targets: ArrayLike | None = None,
        strategy: str = "entropy",
        seed: int = 0,
        default_covariance: ArrayLike | None = None,
        chance: ArrayLike | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            raise InvalidInputError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}.")
        self.prior = prior
        self.strategy = strategy
        self.seed = int(seed)
        self.candidates = as_points(candidates, "candidates")
        if len(self.candidates) == 0:
            raise InvalidInputError("A Suggester needs at least one candidate, got none.")
        d = self.candidates.shape[1]
        self.targets = None if targets is None else np.unique(as_points(targets, "targets", d), axis=0)
        assumed = assumed_covariance(prior, d) if default_covariance is None else np.asarray(default_covariance)
        self.default_covariance = as_covariances(assumed[None], 1, d, "default_covariance")[0]
        expected = self.prior.total_noise(self.default_covariance[None])[0] if strategy == "information" else None
        same_point = _SAME_POINT * float(prior.kernel.scales.min())
        self._gains = Gains(prior.scalar_kernel(d), self.candidates, expected, self.targets, same_point)
        if chance is not None:
            self.set_chance(chance)
        self._log: list[int | None] = []
        self._skipped: set[int] = set()
        self._alive = np.ones(len(self.candidates), dtype=np.bool_)
        self._locations: list[Floats] = []
        self._distances = np.full(len(self.candidates), np.inf)
        # A fixed random priority for each candidate: ties are broken alike however the gains were computed.
        self._priority = np.random.default_rng(self.seed).permutation(len(self.candidates))

    def __repr__(self) -> str:
        left = f"{int(self._alive.sum())} of {counted(len(self.candidates), 'candidate')} left"
        return f"<Suggester: {self.strategy}, {left}, {counted(len(self._log), 'annotation')}>"

    def set_chance(self, chance: ArrayLike | None) -> None:
        """Weigh the candidates by the chance that they can be answered, (n,) numbers from 0 to 1; None for 1."""
        if self.strategy != "information":
            raise InvalidInputError(
                f'Only the strategy "information" can be weighed by a chance, as its gains have a zero; this is '
                f"{self.strategy!r}."
            )
        n = len(self.candidates)
        given = np.ones(n) if chance is None else np.array(chance, dtype=np.float64)
        if given.shape != (n,) or not ((given >= 0) & (given <= 1)).all():
            raise InvalidInputError(f"The chance must be {n} numbers from 0 to 1, one for each candidate.")
        self._gains.chance = given

    def chance(self, index: int) -> float:
        """Return the chance that a candidate can be answered, 1 where none was given."""
        chance = self._gains.chance
        return 1.0 if chance is None else float(chance[self._index(index)])

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.candidates.shape[1])

    @property
    def recorded(self) -> tuple[int | None, ...]:
        """Candidates annotated so far, in order; None for an annotation elsewhere."""
        return tuple(self._log)

    def gains(self) -> Floats:
        """Return the expected gain of every candidate in nats; -inf where not to ask.

        ``Delta H``, Eqs. (delta_H_in_T), (delta_H_not_in_T); with ``"information"`` the value of each question.
        """
        return np.where(self._alive, self._gains.all(), -np.inf)

    def gain(self, index: int) -> float:
        """Return the expected gain of one candidate, as in :meth:`gains`, whether or not it may be asked."""
        return self._gains.one(self._index(index))

    def suggest(self) -> int:
        """Index of the next candidate."""
        if not self._alive.any():
            raise InvalidInputError("No candidate is left to suggest: all are annotated or skipped.")
        if self.strategy == "random":
            near = np.flatnonzero(self._alive)
        elif self.strategy == "farthest":
            reach = np.where(self._alive, self._distances, -np.inf)
            best = float(reach.max())
            # Without annotations all are equally far, and the seed picks.
            near = np.flatnonzero(reach >= (best if np.isinf(best) else best * (1 - TIE)))
        else:
            return self._gains.best(self._alive, self._priority)
        return int(near[np.argmax(self._priority[near])])

    def record(self, index: int, covariance: ArrayLike | None = None) -> None:
        """Take note that a candidate was annotated with this covariance; where its match lies is not needed."""
        checked = self._index(index)
        self._record_at(self.candidates[checked], covariance)
        self._log.append(checked)
        self._alive[checked] = False

    def record_at(self, point: ArrayLike, covariance: ArrayLike | None = None) -> None:
        """Take note of an annotation at any point, candidate or not."""
        self._record_at(as_points(np.atleast_2d(np.asarray(point, dtype=np.float64)), "point", self.d)[0], covariance)
        self._log.append(None)

    def _record_at(self, location: Floats, covariance: ArrayLike | None) -> None:
        given = self.default_covariance if covariance is None else np.asarray(covariance, dtype=np.float64)
        checked = as_covariances(given[None], 1, self.d, "covariance")
        self._gains.add(location, self.prior.total_noise(checked)[0])
        self._locations.append(location)
        self._lower_distances(location)

    def _lower_distances(self, location: Floats) -> None:
        """Lower each candidate's squared distance from the annotations to that from a further one."""
        if self.strategy == "farthest":
            np.minimum(self._distances, np.square(self.candidates - location).sum(axis=1), out=self._distances)

    def undo(self) -> int | None:
        """Take the last record back and return its candidate, which may be suggested again unless it was skipped."""
        if not self._log:
            raise InvalidInputError("Nothing is recorded that could be undone.")
        index = self._log.pop()
        self._gains.drop_last()
        self._locations.pop()
        self._distances.fill(np.inf)
        for location in self._locations:
            self._lower_distances(location)
        if index is not None and index not in self._log and index not in self._skipped:
            self._alive[index] = True
        return index

    def skip(self, index: int) -> None:
        """Never suggest this candidate (again) until :meth:`restore`."""
        checked = self._index(index)
        self._skipped.add(checked)
        self._alive[checked] = False

    def restore(self, index: int) -> None:
        """Let a skipped candidate be suggested again."""
        checked = self._index(index)
        if checked not in self._skipped:
            raise InvalidInputError(f"Candidate {checked} was not skipped, so it cannot be restored.")
        self._skipped.remove(checked)
        if checked not in self._log:
            self._alive[checked] = True

    def _index(self, index: int) -> int:
        if int(index) != index or not 0 <= index < len(self.candidates):
            raise InvalidInputError(f"There is no candidate {index!r}; there are {len(self.candidates)}, from 0 on.")
        return int(index)


def compile_loops() -> None:
    """Compile the loops of the core, or read them from the disk where they were compiled before.

    A compiled loop serves both dimensions, all kernels and any number of points, so that one small piece of each kind
    of work is enough. Nothing that is called afterwards waits for the compiler.
    """
    points = np.random.default_rng(0).uniform(0, 1, (4, 2))
    annotations = Annotations(points[:2], points[:2], np.stack([np.eye(2), np.diag([1.0, 2.0])]))
    for family in ("wendland", "gaussian"):
        kernel = KernelBundle.pyramid(family, smallest=0.1, levels=2)
        TransformationPrior(kernel).condition(annotations).mean_and_covariance(points)
