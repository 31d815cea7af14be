"""``STUDY.toml``: which pairs, which methods, and by which rules they are compared; and values written as TOML."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from warpgauge.core.kernels import FAMILIES
from warpgauge.core.power_law import FAMILY
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation.judge import CENTRES
from warpgauge.evaluation.scores import SAMPLES
from warpgauge.io.files import PathLike, one_line, read_text
from warpgauge.io.inside import name_problem
from warpgauge.project.transforms import IDENTITY

MISSING_RULES = ("worst", "exclude", "error")
CHALLENGES = ("anhir", "learn2reg", "acrobat", "brats-reg")
PATHS = ("project", "landmarks", "moving_landmarks", "fixed", "moving", "mask", "targets")
FITS = ("pair", "together")
# In an evaluation container: the study's file, and the name of the one method.
STUDY, METHOD = "study.toml", "submission"
_PART, _LONGEST_PART, _MOST_PARTS = re.compile(r"""\s*[\w"'-]+\s*"""), 100, 50
_FIELD = re.compile(r"\{(\w*)\}")


def _one_of(choices: Collection[str], default: str | None) -> Any:
    return field(default=default, metadata={"choices": tuple(choices)})


def _number(default: float | None = None, low: float | None = None, high: float = math.inf, whole: bool = False) -> Any:
    """Declare a number between two ends; above 0 where there is no lower one."""
    return field(default=default, metadata={"limits": (low, high, whole)})


def _check_fields(settings: Any) -> None:
    """Check every field by what its declaration says; None is allowed where it is the default."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value is None and one.default is None:
            continue
        choices = one.metadata.get("choices", (value,))
        if value not in choices:
            raise InvalidInputError(f"{one.name} must be one of {', '.join(choices)}, got {value!r}.")
        if "limits" in one.metadata:
            _check_number(one.name, value, *one.metadata["limits"])


def _check_number(name: str, value: Any, low: float | None = None, high: float = math.inf, whole: bool = False) -> None:
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not number or not (value > 0 if low is None else low <= value <= high):
        kind = "a whole number" if whole else "a number"
        bound = "above 0" if low is None else f"of at least {low:g}"
        limit = "" if math.isinf(high) else f" and at most {high:g}"
        raise InvalidInputError(f"{name} must be {kind} {bound}{limit}, got {value!r}.")


@dataclass(frozen=True)
class StudySettings:
    """Rules of the comparison.

    Attributes
    ----------
    norm : float or "inf"
        The p of the score that is compared: 1, 2 or infinity.
    tolerance : float, optional
        Also count the share of targets with an error above this, in world units.
    missing : {"worst", "exclude", "error"}
        What happens to a pair for which a method has no transform: the method gets the last rank there, and as score
        the worst of no registration and of the references (of all methods, where the study has no references); the
        pair is left out for **all** methods; or the study stops. "worst rank" is an older name of the first.
    most_outside : float
        A transform that is undefined at more than this share of the targets counts as missing.
    samples, bootstrap, targets : int
        Samples per pair, bootstrap rounds, and targets per pair that is not a project (a project brings its own).
    sd : float, optional
        Standard deviation, in world units, of landmarks that carry no covariance of their own.
    seed : int
    centre : {"candidates", "prior"}
        What methods are judged by on each pair: `warpgauge.judge`, or the posterior as in the paper.
    challenge : {"anhir", "learn2reg", "acrobat", "brats-reg"}, optional
        Whose official figures are shown beside the scores (`warpgauge.study.official_figures`).
    """

    norm: float | str = 2.0
    tolerance: float | None = _number()
    missing: str = _one_of(MISSING_RULES, "worst")
    most_outside: float = _number(0.5, 0, 1)
    samples: int = _number(SAMPLES, 1, whole=True)
    bootstrap: int = _number(2000, 1, whole=True)
    targets: int = _number(1000, 1, whole=True)
    sd: float | None = _number()
    seed: int = _number(0, 0, whole=True)
    centre: str = _one_of(CENTRES, "candidates")
    challenge: str | None = _one_of(CHALLENGES, None)

    @property
    def p(self) -> float:
        """The norm as a number."""
        return float(self.norm)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", math.inf if self.norm == "inf" else self.norm)
        if self.missing == "worst rank":
            object.__setattr__(self, "missing", "worst")
        if self.norm not in (1, 2, math.inf):
            raise InvalidInputError(f'The norm of a study must be 1, 2 or "inf", got {self.norm!r}.')
        _check_fields(self)


@dataclass(frozen=True)
class ModelSettings:
    """The default model (`warpgauge.default_posterior`) of every pair that is not a project (a project brings its own).

    Attributes
    ----------
    family : str
        Of the kernel.
    smallest_scale : float, optional
        In world units; 10 pixels of the fixed image, or a 64th of the landmarks' extent without one.
    fit : {"pair", "together"}
        Whether the kernel's weights are learned on each pair, or on all pairs at once.
    noise : bool
        Whether an extra noise is learned as well.
    """

    family: str = _one_of(FAMILIES, FAMILY)
    smallest_scale: float | None = _number()
    fit: str = _one_of(FITS, "pair")
    noise: bool = False

    def __post_init__(self) -> None:
        _check_fields(self)
        if not isinstance(self.noise, bool):
            raise InvalidInputError(f"noise must be true or false, got {self.noise!r}.")


@dataclass(frozen=True)
class PairSpec:
    """One image pair: a project's folder, or landmarks with the fixed image (or a file of targets).

    Paths are absolute. ``landmark_options`` go to ``read_landmarks``. An image is needed for its grid alone, so that
    ``fixed`` and ``moving`` may be files ``*.grid.json`` as well (`warpgauge.study.pair_files`). ``diagonal`` is what
    ANHIR's errors are divided by, in world units; that of the fixed image by default. ``raters`` are further files with
    the moving points of the same landmarks by other raters, which are fused.
    ``matched_by`` says what the columns of a table of results hold in the row of this pair; ANHIR matches by them.
    ``group`` is the tissue or task that it belongs to; each has a table of its own.
    """

    name: str
    project: Path | None = None
    landmarks: Path | None = None
    moving_landmarks: Path | None = None
    fixed: Path | None = None
    moving: Path | None = None
    mask: Path | None = None
    targets: Path | None = None
    sd: float | None = None
    diagonal: float | None = None
    landmark_options: Mapping[str, Any] = field(default_factory=dict)
    raters: tuple[Path, ...] = ()
    matched_by: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None


@dataclass(frozen=True)
class MethodSpec:
    """One method: where its transform for a pair lies, and options for ``read_transform``.

    ``transform`` holds patterns with ``{pair}`` (several form a chain, in the order of application to points); none
    means the transform of that name within each project, and ``"identity"`` doing nothing. ``mapped_landmarks`` is the
    pattern of a file with the pair's fixed landmarks as the method mapped them, where there is no transform;
    ``options`` then go to ``read_landmarks``. A ``reference`` never saw an annotation: references are the panel beside
    which every method is judged, so that its scores do not depend on the other methods.
    """

    name: str
    transform: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    mapped_landmarks: str | None = None
    reference: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of all files of the method."""
        return self.transform if self.mapped_landmarks is None else (self.mapped_landmarks,)


@dataclass(frozen=True)
class SubmissionsSpec:
    """Where the submissions of teams lie, and how each is laid out.

    Attributes
    ----------
    folder : Path
        With a folder for each team, whose name is the method's.
    transform, options, mapped_landmarks
        As of a `MethodSpec`; patterns are relative to the folder of a team.
    """

    folder: Path
    transform: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    mapped_landmarks: str | None = None


@dataclass(frozen=True)
class Study:
    """A study: pairs, methods and rules; ``folder`` is what relative paths start from."""

    name: str
    folder: Path
    pairs: tuple[PairSpec, ...]
    methods: tuple[MethodSpec, ...]
    settings: StudySettings = field(default_factory=StudySettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    submissions: SubmissionsSpec | None = None

    def __post_init__(self) -> None:
        for what, items in (("pair", self.pairs), ("method", self.methods)):
            names = [item.name for item in items]
            if not names and (what == "pair" or self.submissions is None):
                raise InvalidInputError(f"The study has no [[{what}]]; give at least one.")
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InvalidInputError(f"The {what} {twice!r} occurs twice in the study; give each its own name.")
        for pair in self.pairs:
            _check_pair(pair)
        loose = [method.name for method in self.methods if not method.patterns]
        plain = [pair.name for pair in self.pairs if pair.project is None]
        projects = [pair.name for pair in self.pairs if pair.project is not None]
        points = [method.name for method in self.methods if method.mapped_landmarks is not None]
        if any(one.name == IDENTITY and one.patterns and one.transform != (IDENTITY,) for one in self.methods):
            raise InvalidInputError(
                f"The name {IDENTITY!r} stands for no registration, which every method is compared with; give the "
                "method another name."
            )
        if points and projects:
            raise InvalidInputError(
                f"The method {points[0]!r} gives mapped_landmarks, but the pair {projects[0]!r} is a project, which "
                "needs errors at its targets as well; give the method's transform."
            )
        if loose and plain:
            raise InvalidInputError(
                f"The method {loose[0]!r} has no transform pattern, but the pair {plain[0]!r} is not a project that "
                "could hold one; give transform = '...{pair}...'."
            )

    @property
    def references(self) -> tuple[str, ...]:
        """Names of the methods that never saw an annotation."""
        return tuple(method.name for method in self.methods if method.reference)


def read_study(path: PathLike) -> Study:
    """Read a study's description; relative paths are taken from its folder."""
    text = read_text(path, "study")
    file = Path(path)
    _check_dots(text, file.name)
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileFormatError(f"{file.name!r} is not valid TOML: {one_line(error)}.") from error
    folder = file.resolve().parent
    try:
        _check_keys(content, {"name", "settings", "model", "pair", "method", "submissions"}, "the study")
        return Study(
            name=str(content.get("name", file.stem)),
            folder=folder,
            pairs=tuple(_pair(entry, folder) for entry in _tables(content, "pair")),
            methods=tuple(_method(entry) for entry in _tables(content, "method")),
            settings=_settings(StudySettings, content.get("settings", {}), "[settings]"),
            model=_settings(ModelSettings, content.get("model", {}), "[model]"),
            submissions=_submissions(content["submissions"], folder) if "submissions" in content else None,
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{file.name!r}: {error}") from error


def _check_dots(text: str, name: str) -> None:
    """Refuse keys of absurdly many parts, for which the parser of TOML takes the square of their number."""
    run = 0
    for piece in text.split("."):
        run = run + 1 if len(piece) < _LONGEST_PART and _PART.fullmatch(piece) else 0
        if run > _MOST_PARTS:
            raise FileFormatError(f"{name!r} has a key of more than {_MOST_PARTS} parts, which no study has.")


def _check_keys(values: Mapping[str, Any], known: Any, where: str) -> None:
    """Refuse keys that are not among those named, or not among the fields of a class."""
    if isinstance(known, type):
        known = {one.name for one in fields(known)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InvalidInputError(f"There is no {unknown[0]!r} in {where}; there are {', '.join(sorted(known))}.")


def _tables(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    entries = content.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidInputError(f"Write every {name} under a heading [[{name}]] of its own.")
    return entries


def _settings(kind: Any, values: Any, where: str) -> Any:
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"{where} must be a table.")
    _check_keys(values, kind, where)
    return kind(**values)


def _text(values: Mapping[str, Any], key: str, where: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{where} needs {key} = '...'.")
    return value


def _pair(values: Mapping[str, Any], folder: Path) -> PairSpec:
    name = _text(values, "name", "Every [[pair]]")
    _check_keys(values, PairSpec, f"the pair {name!r}")
    paths: dict[str, Any] = {key: folder / _text(values, key, f"The pair {name!r}") for key in PATHS if key in values}
    options = dict(values.get("landmark_options", {}))
    raters = values.get("raters", [])
    if not isinstance(raters, list) or not all(isinstance(one, str) and one.strip() for one in raters):
        raise InvalidInputError(f"raters of the pair {name!r} must be a list of paths.")
    others = tuple(folder / one for one in raters)
    matched = values.get("matched_by", {})
    if not isinstance(matched, Mapping) or not all(isinstance(one, str) for one in matched.values()):
        raise InvalidInputError(f"matched_by of the pair {name!r} must be a table of texts by column.")
    group = _text(values, "group", f"The pair {name!r}") if "group" in values else None
    paths |= {"sd": values.get("sd"), "diagonal": values.get("diagonal"), "matched_by": dict(matched), "group": group}
    return PairSpec(name, landmark_options=options, raters=others, **paths)


def _check_pair(pair: PairSpec) -> None:
    if "/" in pair.name or name_problem(pair.name) is not None:
        raise InvalidInputError(
            f"The pair's name {pair.name!r} goes into file names and may not hold a slash or the like."
        )
    if pair.project is not None and pair.landmarks is not None:
        raise InvalidInputError(f"The pair {pair.name!r} has both project and landmarks; give one of them.")
    if pair.project is None and pair.landmarks is None:
        raise InvalidInputError(f"The pair {pair.name!r} needs project = '...' or landmarks = '...'.")
    if pair.landmarks is not None and pair.fixed is None and pair.targets is None:
        raise InvalidInputError(
            f"The pair {pair.name!r} needs fixed = '...' (the image) or targets = '...' (a file of points), so that "
            "it is known where the error counts."
        )
    if pair.raters and (pair.landmarks is None or pair.moving_landmarks is not None):
        raise InvalidInputError(
            f"The pair {pair.name!r} has raters, so landmarks must be one file with the points of both images."
        )
    if pair.mask is not None and pair.fixed is None:
        raise InvalidInputError(f"The pair {pair.name!r} has a mask but no fixed image.")
    for key in ("sd", "diagonal"):
        if getattr(pair, key) is not None:
            _check_number(f"{key} of the pair {pair.name!r}", getattr(pair, key))


def _method(values: Mapping[str, Any]) -> MethodSpec:
    name = _text(values, "name", "Every [[method]]")
    _check_keys(values, MethodSpec, f"the method {name!r}")
    given = values.get("transform", [])
    patterns = [given] if isinstance(given, str) else given
    if not isinstance(patterns, list) or not all(isinstance(one, str) and one.strip() for one in patterns):
        raise InvalidInputError(f"transform of the method {name!r} must be a path, or a list of paths.")
    mapped = None
    if "mapped_landmarks" in values:
        mapped = _text(values, "mapped_landmarks", f"The method {name!r}")
        if patterns:
            raise InvalidInputError(f"The method {name!r} has both transform and mapped_landmarks; give one of them.")
    for pattern in [*patterns, *([mapped] if mapped else [])]:
        unknown = [word for word in _FIELD.findall(pattern) if word not in ("pair", "method")]
        if unknown:
            raise InvalidInputError(
                f"The pattern {pattern!r} of the method {name!r} holds {{{unknown[0]}}}; only {{pair}} and {{method}} "
                "are filled in."
            )
    reference = values.get("reference", False)
    if not isinstance(reference, bool):
        raise InvalidInputError(f"reference of the method {name!r} must be true or false, got {reference!r}.")
    return MethodSpec(name, tuple(patterns), dict(values.get("options", {})), mapped, reference)


def _submissions(values: Any, folder: Path) -> SubmissionsSpec:
    where = "[submissions]"
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"{where} must be a table.")
    _check_keys(values, SubmissionsSpec, where)
    layout = {key: values[key] for key in ("transform", "options", "mapped_landmarks") if key in values}
    method = _method({"name": "a submission", **layout})
    if not method.patterns or any("{method}" in pattern for pattern in method.patterns):
        raise InvalidInputError(f"{where} needs transform or mapped_landmarks, relative to the folder of a team.")
    place = folder / _text(values, "folder", where)
    return SubmissionsSpec(place, method.transform, method.options, method.mapped_landmarks)


def fill(pattern: str, pair: str, method: str) -> str:
    """Fill ``{pair}`` and ``{method}`` into a pattern."""
    names = {"pair": pair, "method": method}
    return _FIELD.sub(lambda match: names[match.group(1)], pattern)


def toml_value(value: Any) -> str:
    """Return a string, number, truth value, list or mapping as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    # A JSON string is a TOML string as long as nothing outside ASCII is escaped.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else f"{value!r}"
