"""The settings of a project: validation, and conversion to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from warpgauge.core.kernels import FAMILIES
from warpgauge.errors import InvalidInputError

_CHOICES: dict[str, tuple[str, ...]] = {
    "model": ("default", "paper"),
    "family": tuple(FAMILIES),
    # The Suggester has more; none of them lowered the error faster, see docs/paper/suggestion.md.
    "strategy": ("auto", "information", "entropy", "farthest", "random"),
    "order": ("list", "random"),
    "suggest_with": ("answers", "default"),
    "refit": ("auto", "never"),
    "audit_design": ("auto", "uniform"),
}
# Smallest and largest value; both may be taken.
_RANGES: dict[str, tuple[float, float]] = {
    "smallest_scale_px": (0.1, 1e6),
    "default_radius": (1e-9, 1e9),
    "alpha": (1e-6, 0.9),
    "repeat_fraction": (0.0, 0.5),
    "refit_growth": (1.01, 100.0),
    "stop_mean_sd": (0.0, 1e12),
    "stop_max_sd": (0.0, 1e12),
    "stop_gain": (-1e6, 1e6),
    "batch": (1, 10_000),
    "repeat_lag": (1, 10_000),
    "refit_first": (3, 1_000_000),
    "move_within": (0.0, 1.0),
    "budget": (1, 10_000_000),
    "answers_per_location": (1, 10_000),
    "seed": (0, 2**32 - 1),
    "unaided": (0.0, 1.0),
    "audit": (0.0, 0.9),
    "audit_seed": (0, 2**32 - 1),
}
_WHOLE = ("batch", "repeat_lag", "refit_first", "budget", "answers_per_location", "seed", "audit_seed")
_OPTIONAL = (
    "default_radius",
    "batch",
    "budget",
    "answers_per_location",
    "stop_mean_sd",
    "stop_max_sd",
    "stop_gain",
    "audit_seed",
)


@dataclass(frozen=True)
class Settings:
    """How a project is annotated.

    Attributes
    ----------
    model : {"default", "paper"}
        ``"default"``: affine trend, weights refitted, calibrated. ``"paper"``: identity mean, no refit unless trained,
        no calibration.
    family : str
        Of the radial functions.
    smallest_scale_px : float
        Smallest scale of the kernel in pixels of the fixed image.
    default_radius : float, optional
        Radius, in world units, of the disc that stands for a plain click; a tenth of the smallest scale by default.
    alpha : float
        A drawn ellipse holds the true match with probability ``1 - alpha``.
    hide_prediction : bool
        Raters are not shown where the model expects the match.
    blind : bool
        A rater sees, and is predicted from, their own answers only.
    strategy : {"auto", "information", "entropy", "farthest", "random"}
        How the next location is chosen. ``"information"`` weighs the information that an answer brings by the chance
        that there is one; ``"entropy"`` is the paper's. ``"auto"`` is the former, in the paper's model the latter.
    suggest_with : {"answers", "default"}
        Whether the choice uses the stated uncertainties, or the default one for all, which makes the list independent
        of the answers (as long as the weights are not refitted).
    order : {"list", "random"}
        Whether raters are asked in the order of the list, or each in a random order of their own within each batch.
    batch : int, optional
        By how many locations the list grows at a time; 1 by default, 10 in random order.
    repeat_fraction : float
        Share of the locations that are asked a second time, unannounced; 0 to 0.5.
    repeat_lag : int
        At least so many queries lie between the two.
    refit : {"auto", "never"}
        Whether the weights are refitted as annotations come in.
    refit_first, refit_growth
        At how many annotations for the first time, and by which factor that number grows from one refit to the next.
    budget : int, optional
        Number of landmarks that each rater is asked to place; skips do not count.
    answers_per_location : int, optional
        How many raters place each suggested location, so that a group shares the work; every rater by default. While
        one of them has it before them it is reserved, and others are asked elsewhere.
    move_within : float
        How far a rater may move a queried point to something recognisable, as a share of the fixed image's diagonal.
    guided_start : bool
        Whether the page begins by asking for three places that the rater recognises in both images.
    snap : bool
        Whether the page offers to refine a mark by the images around it, for two images of one modality.
    unaided : float
        Share of the locations, drawn at random for each rater, at which it is not offered all the same, so that marks
        with and without it can be compared; the log says which.
    stop_mean_sd, stop_max_sd, stop_gain : float, optional
        The list is not extended when the mean or the largest standard deviation over the targets (world units), or the
        best expected gain (nats), is below this.
    seed : int
        Of all that is random, but for the audit.
    audit : float
        Share of the locations that are drawn at random from the targets, for a verdict that rests on no model; 0 for
        none, at most 0.9. Raters cannot distinguish them.
    seal : bool
        Whether answers to audit questions are kept from exports, maps and predictions until they are unsealed.
    audit_design : {"auto", "uniform"}
        Whether places at which transforms disagree are more likely to be drawn (with at least two transforms), or all
        targets are equally likely.
    audit_seed : int, optional
        Of the audit's draws; by default each round has a seed of its own that nobody can guess. The log has it.
    stop_decided : bool
        The list is not extended when the audit decides, whatever the model, which transform is best.
    """

    model: str = "default"
    family: str = "wendland"
    smallest_scale_px: float = 10.0
    default_radius: float | None = None
    alpha: float = 0.01
    hide_prediction: bool = False
    blind: bool = True
    strategy: str = "auto"
    suggest_with: str = "answers"
    order: str = "list"
    batch: int | None = None
    repeat_fraction: float = 0.0
    repeat_lag: int = 5
    refit: str = "auto"
    refit_first: int = 3
    refit_growth: float = 1.5
    budget: int | None = None
    answers_per_location: int | None = None
    move_within: float = 0.05
    guided_start: bool = True
    snap: bool = False
    unaided: float = 0.2
    stop_mean_sd: float | None = None
    stop_max_sd: float | None = None
    stop_gain: float | None = None
    seed: int = 0
    audit: float = 0.0
    seal: bool = False
    audit_design: str = "auto"
    audit_seed: int | None = None
    stop_decided: bool = False

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(
                    f"The setting {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}."
                )
        for name, (low, high) in _RANGES.items():
            self._check_number(name, low, high)
        for name in ("hide_prediction", "blind", "guided_start", "snap", "seal", "stop_decided"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"The setting {name} must be true or false, got {getattr(self, name)!r}.")

    def _check_number(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if value is None and name in _OPTIONAL:
            return
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        whole = name not in _WHOLE or (number and int(value) == value)
        if not number or not whole or not low <= value <= high:
            kind = "a whole number" if name in _WHOLE else "a number"
            raise InvalidInputError(f"The setting {name} must be {kind} from {low:g} to {high:g}, got {value!r}.")
        object.__setattr__(self, name, int(value) if name in _WHOLE else float(value))

    @property
    def chosen_strategy(self) -> str:
        """The strategy, ``"auto"`` resolved by the model."""
        if self.strategy != "auto":
            return self.strategy
        return "entropy" if self.model == "paper" else "information"

    @property
    def growth(self) -> int:
        """By how many locations the list grows at a time."""
        return self.batch if self.batch is not None else (10 if self.order == "random" else 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Read plain values; a name that is not known is an error, not a silent loss."""
        _check_names(values)
        return cls(**values)

    def changed(self, **changes: Any) -> Settings:
        """Return the settings with some of them changed."""
        _check_names(changes)
        return replace(self, **changes)


def _check_names(values: Mapping[str, Any]) -> None:
    known = {entry.name for entry in fields(Settings)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InvalidInputError(f"There is no setting {unknown[0]!r}; there are {', '.join(sorted(known))}.")
