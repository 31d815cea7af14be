"""Models of the truth and references of which what was asked once is kept.

So a further method on a pair needs no new fit, and no file but its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.cross_fit import CrossFit
from warpgauge.evaluation.evidence import Evidence, EvidenceValues
from warpgauge.io.transforms import FunctionTransform, Transform


@dataclass(frozen=True, eq=False)
class KeptFit(CrossFit):
    """A `CrossFit` that remembers its residuals, means and samples by their inputs, and is fitted only for new ones.

    Attributes
    ----------
    given : Evidence
        What it is fitted to.
    kept : dict of arrays
        What is remembered; whatever is asked for the first time is added.
    """

    given: Evidence = field(kw_only=True)
    kept: dict[str, Floats] = field(kw_only=True)

    @classmethod
    def remembering(cls, evidence: Evidence, kept: dict[str, Floats]) -> KeptFit:
        """Return the fit to evidence; ``kept`` is what is remembered of the same fit, or empty."""
        if "residuals" not in kept:
            made = CrossFit.of(evidence)
            kept |= {"residuals": made.residuals, "squares": made.squares}
            found = cls(made.models, made.residuals, made.squares, given=evidence, kept=kept)
            found.__dict__["made"] = made
            return found
        return cls((), kept["residuals"], kept["squares"], given=evidence, kept=kept)

    @cached_property
    def made(self) -> CrossFit:
        """The fit itself."""
        return CrossFit.of(self.given)

    @property
    def evidence(self) -> Evidence:
        """The transforms about whose median the truth is modelled."""
        return self.given

    @property
    def noise_factor(self) -> float:
        """Expected factor on the stated variances of the annotations."""
        return self.made.noise_factor

    def mean(self, points: Floats, here: EvidenceValues) -> Floats:
        """Return the expected matches of (n, d) points; ``here`` is what the transforms say there."""
        return self._known(f"mean {_digest(points)}", lambda: self.made.mean(points, here))

    def whole_mean(self, points: Floats, here: EvidenceValues) -> Floats:
        """Return the expected matches of (n, d) points by the one model of all annotations."""
        return self._known(f"whole mean {_digest(points)}", lambda: self.whole.mean(points, here))

    def sample(self, points: Floats, here: EvidenceValues, count: int, rng: np.random.Generator) -> Floats:
        """Draw joint samples of the true matches, (count, n, d)."""
        key = f"sample {count} {_digest(points)} {_state(rng)}"
        return self._known(key, lambda: self.made.sample(points, here, count, rng))

    def compare(self, points: Floats, here: EvidenceValues, count: int, rng: np.random.Generator) -> Floats:
        """Draw joint samples of the true matches, (count, n, d), from the one model of all annotations."""
        key, drawn = f"compare {count} {_digest(points)} {_state(rng)}", super().compare
        return self._known(key, lambda: drawn(points, here, count, rng))

    def _known(self, key: str, made: Callable[[], Floats]) -> Floats:
        if key not in self.kept:
            self.kept[key] = made()
        return self.kept[key]


def keep_reference(name: str, transform: Transform, asked: Sequence[Floats], kept: dict[str, Floats]) -> None:
    """Remember where a reference maps each of some sets of points."""
    kept |= {_asked(name, points): transform.map(points) for points in asked}


def kept_reference(
    name: str, asked: Sequence[Floats], kept: Mapping[str, Floats], read: Callable[[], Transform | str]
) -> Transform | None:
    """Return a reference that is read only for other sets of points; None where one of these is not remembered."""
    if any(_asked(name, points) not in kept for points in asked):
        return None
    once = cache(read)

    def mapped(points: Floats) -> Floats:
        if (known := kept.get(_asked(name, points))) is not None:
            return known
        if isinstance(found := once(), str):
            raise InvalidInputError(found)
        return found.map(points)

    return FunctionTransform(mapped, asked[0].shape[1])


def _asked(name: str, points: Floats) -> str:
    return f"reference {name} {_digest(points)}"


def _state(rng: np.random.Generator) -> str:
    return _digest(str(rng.bit_generator.state).encode())


def _digest(content: Floats | bytes) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.tobytes()).hexdigest()[:16]
