"""The settings of a project: validation, and conversion to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from warpgauge.core.kernels import FAMILIES
from warpgauge.core.power_law import FAMILY, SMALLEST
from warpgauge.errors import InvalidInputError


def _one_of(*choices: str) -> dict[str, Any]:
    """Return the metadata of a setting that is one of some words."""
    return {"choices": choices}


def _between(low: float, high: float) -> dict[str, Any]:
    """Return the metadata of a setting that is a number from ``low`` to ``high``, both included."""
    return {"range": (low, high)}


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
        A rater sees, and is predicted from, their own answers only. In a project with registered raters nothing that
        they receive depends on the answers of others, unless ``suggest_with`` is ``"answers"``,
        ``answers_per_location`` is set or ``stop_decided`` is on: then the places do (`Settings.shares_places`).
    strategy : {"auto", "information", "entropy", "farthest", "random"}
        How the next location is chosen. ``"information"`` weighs the information that an answer brings by the chance
        that there is one; ``"entropy"`` is the paper's. ``"auto"`` is the former, in the paper's model the latter.
    suggest_with : {"auto", "answers", "default"}
        Whether the choice of places follows the answers (``"answers"``), or counts every place with the uncertainty of
        a plain click under weights that no answer changes (``"default"``): then the list depends on nobody's answers.
        ``"auto"`` is the latter in a blind project with registered raters, else the former.
    order : {"list", "random"}
        Whether raters are asked in the order of the list, or each in a random order of their own within each batch.
    batch : int, optional
        By how many locations the list grows at a time; 1 by default, 10 in random order.
    repeat_fraction : float
        Share of the locations that are asked a second time, unannounced and within the budget; 0 to 0.5.
    repeat_lag : int
        At least so many queries lie between the two.
    refit : {"auto", "never"}
        Whether the weights are refitted as annotations come in.
    refit_first, refit_growth
        At how many annotations for the first time, and by which factor that number grows from one refit to the next.
    budget : int, optional
        Number of landmarks that each rater is asked to place, repeats and control questions among them; skips do not
        count.
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
    seal : bool, optional
        Whether some answers are kept from exports, maps, predictions and verdicts until the project is unsealed: of the
        suggested locations a quarter, at most 15 at a time, drawn at random when they are asked, and all audit
        questions. On by default; off in the paper's model.
    audit_design : {"auto", "uniform"}
        Whether places at which transforms disagree are more likely to be drawn (with at least two transforms), or all
        targets are equally likely.
    audit_seed : int, optional
        Of the audit's draws and of those that are sealed; by default seeds that nobody can guess. The log has them.
    stop_decided : bool
        The list is not extended when the audit decides, whatever the model, which transform is best.
    """

    model: str = field(default="default", metadata=_one_of("default", "paper"))
    family: str = field(default=FAMILY, metadata=_one_of(*FAMILIES))
    smallest_scale_px: float = field(default=SMALLEST, metadata=_between(0.1, 1e6))
    default_radius: float | None = field(default=None, metadata=_between(1e-9, 1e9))
    alpha: float = field(default=0.01, metadata=_between(1e-6, 0.9))
    hide_prediction: bool = False
    blind: bool = True
    # The Suggester has more strategies; none of them lowered the error faster, see docs/paper/suggestion.md.
    strategy: str = field(default="auto", metadata=_one_of("auto", "information", "entropy", "farthest", "random"))
    suggest_with: str = field(default="auto", metadata=_one_of("auto", "answers", "default"))
    order: str = field(default="list", metadata=_one_of("list", "random"))
    batch: int | None = field(default=None, metadata=_between(1, 10_000))
    repeat_fraction: float = field(default=0.0, metadata=_between(0.0, 0.5))
    repeat_lag: int = field(default=5, metadata=_between(1, 10_000))
    refit: str = field(default="auto", metadata=_one_of("auto", "never"))
    refit_first: int = field(default=3, metadata=_between(3, 1_000_000))
    refit_growth: float = field(default=1.5, metadata=_between(1.01, 100.0))
    budget: int | None = field(default=None, metadata=_between(1, 10_000_000))
    answers_per_location: int | None = field(default=None, metadata=_between(1, 10_000))
    move_within: float = field(default=0.05, metadata=_between(0.0, 1.0))
    guided_start: bool = True
    snap: bool = False
    unaided: float = field(default=0.2, metadata=_between(0.0, 1.0))
    stop_mean_sd: float | None = field(default=None, metadata=_between(0.0, 1e12))
    stop_max_sd: float | None = field(default=None, metadata=_between(0.0, 1e12))
    stop_gain: float | None = field(default=None, metadata=_between(-1e6, 1e6))
    seed: int = field(default=0, metadata=_between(0, 2**32 - 1))
    audit: float = field(default=0.0, metadata=_between(0.0, 0.9))
    seal: bool | None = None
    audit_design: str = field(default="auto", metadata=_one_of("auto", "uniform"))
    audit_seed: int | None = field(default=None, metadata=_between(0, 2**32 - 1))
    stop_decided: bool = False

    def __post_init__(self) -> None:
        if self.seal is None:
            object.__setattr__(self, "seal", self.model != "paper")
        for one in fields(self):
            value, choices = getattr(self, one.name), one.metadata.get("choices")
            if choices is not None and value not in choices:
                raise InvalidInputError(f"The setting {one.name} must be one of {', '.join(choices)}, got {value!r}.")
            if "range" in one.metadata and not (value is None and one.default is None):
                whole = str(one.type).startswith("int")
                object.__setattr__(self, one.name, _number(one.name, value, whole, *one.metadata["range"]))
            if str(one.type).startswith("bool") and not isinstance(value, bool):
                raise InvalidInputError(f"The setting {one.name} must be true or false, got {value!r}.")

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

    @property
    def shares_places(self) -> tuple[str, ...]:
        """Names of the settings that let the answers of all decide which places a rater is asked."""
        shared = {
            "suggest_with": self.suggest_with == "answers",
            "answers_per_location": self.answers_per_location is not None,
            "stop_decided": self.stop_decided,
        }
        return tuple(name for name, so in shared.items() if so)

    def keeps_apart(self, registered: bool) -> bool:
        """Return whether each rater has a model of their own: in a blind project, once raters are registered."""
        return self.blind and registered

    def fixes_places(self, registered: bool) -> bool:
        """Return whether the list of places depends on nobody's answers."""
        return self.suggest_with == "default" or (self.suggest_with == "auto" and self.keeps_apart(registered))

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


def _number(name: str, value: Any, whole: bool, low: float, high: float) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or (whole and int(value) != value) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise InvalidInputError(f"The setting {name} must be {kind} from {low:g} to {high:g}, got {value!r}.")
    return int(value) if whole else float(value)


def _check_names(values: Mapping[str, Any]) -> None:
    known = {entry.name for entry in fields(Settings)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InvalidInputError(f"There is no setting {unknown[0]!r}; there are {', '.join(sorted(known))}.")
