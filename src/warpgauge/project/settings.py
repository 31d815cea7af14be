"""The settings of a project: each declared once, with its range and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from warpgauge.core.kernels import FAMILIES
from warpgauge.core.power_law import FAMILY, SMALLEST
from warpgauge.errors import InvalidInputError
from warpgauge.project.values import Flag, Value


def _checked_family(name: str) -> str:
    if name not in FAMILIES:
        raise ValueError(f"it must be one of {', '.join(FAMILIES)}")
    return name


def _between(low: float, high: float) -> Any:
    return Field(strict=True, ge=low, le=high)


class Settings(Value):
    """How a project is annotated."""

    model: Literal["default", "paper"] = "default"
    """``default``: affine trend, weights refitted, calibrated, places by the information that an answer is expected to
    bring. ``paper``: identity mean, no refit unless trained, no calibration, places by entropy."""
    family: Annotated[str, AfterValidator(_checked_family)] = FAMILY
    """Of the radial functions."""
    smallest_scale_px: Annotated[float, _between(0.1, 1e6)] = SMALLEST
    """Smallest scale of the kernel in pixels of the fixed image."""
    default_radius: Annotated[float, _between(1e-9, 1e9)] | None = None
    """Radius, in world units, of the disc that stands for a plain click; a tenth of the smallest scale by default."""
    alpha: Annotated[float, _between(1e-6, 0.9)] = 0.01
    """A drawn ellipse holds the true match with probability ``1 - alpha``."""
    hide_prediction: Flag = False
    """Raters are not shown where the model expects the match."""
    blind: Flag = True
    """A rater sees, and is predicted from, their own answers only. In a project with registered raters nothing that
    they receive depends on the answers of others, unless ``answers_per_location`` is set: then the places do."""
    circle: Annotated[float, _between(0.0, 0.5)] = 0.15
    """Where a single rater may choose the place: the largest radius of the circle of a question, as a share of the
    shorter side of the fixed image; 0 asks at the centres."""
    repeat_fraction: Annotated[float, _between(0.0, 0.5)] = 0.0
    """Share of the locations that are asked a second time, unannounced and within the budget."""
    repeat_lag: Annotated[int, _between(1, 10_000)] = 5
    """At least so many queries lie between the two."""
    refit: Literal["auto", "never"] = "auto"
    """Whether the weights are refitted as annotations come in."""
    budget: Annotated[int, _between(1, 10_000_000)] | None = None
    """Number of landmarks that each rater is asked to place, repeats and control questions among them; skips do not
    count."""
    answers_per_location: Annotated[int, _between(1, 10_000)] | None = None
    """How many raters place each suggested location, so that a group shares the work; every rater by default."""
    guided_start: Flag = True
    """Whether the page begins by asking for three places that the rater recognises in both images."""
    stop_mean_sd: Annotated[float, _between(0.0, 1e12)] | None = None
    """The list is not extended when the mean standard deviation over the targets, in world units, is below this."""
    seed: Annotated[int, _between(0, 2**32 - 1)] = 0
    """Of samples of targets; what must not be guessed has a secret seed of its own."""
    audit: Annotated[float, _between(0.0, 0.9)] = 0.0
    """Share of the questions that are drawn at random from the targets, for a verdict that rests on no model. Raters
    cannot distinguish them, and their answers are sealed until the project is unsealed."""
    audit_seed: Annotated[int, _between(0, 2**32 - 1)] | None = None
    """Of all draws; by default seeds that nobody can guess. The log has those of the audit."""

    @classmethod
    def named(cls) -> str:
        """Return what a sentence calls them."""
        return "the settings"

    @property
    def strategy(self) -> str:
        """How the next location is chosen."""
        return "entropy" if self.model == "paper" else "information"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return self.model_dump()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Read plain values; a name that is not known is an error, not a silent loss."""
        unknown = sorted(set(values) - set(cls.model_fields))
        if unknown:
            known = ", ".join(sorted(cls.model_fields))
            raise InvalidInputError(f"There is no setting {unknown[0]!r}; there are {known}.")
        return cls(**values)

    @classmethod
    def of(cls, given: Settings | Mapping[str, Any] | None) -> Settings:
        """Read settings however they are given."""
        return given if isinstance(given, Settings) else cls.from_dict(given or {})

    def changed(self, **changes: Any) -> Settings:
        """Return the settings with some of them changed."""
        return Settings.from_dict({**self.to_dict(), **changes})
