"""``STUDY.toml``: which pairs, which methods, and by which rules they are compared; and values written as TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation.judge import CENTRES
from warpgauge.io.files import PathLike, one_line, read_text
from warpgauge.io.inside import name_problem
from warpgauge.project.transforms import IDENTITY

_FIELD = re.compile(r"\{(\w*)\}")
# A key of so many parts takes the parser of TOML the square of their number, in time and memory.
_ENDLESS_KEY = re.compile(r"(?:[\"']?[\w-]{1,100}[\"']?\s*\.\s*){50}")


def _local(value: Any, info: ValidationInfo) -> Path:
    """Return a path; a text is taken from the folder of the study."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a path, got {value!r:.80}")
    return Path((info.context or {}).get("folder", ".")) / value


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


LocalPath = Annotated[Path, BeforeValidator(_local)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Positive = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, strict=True)]


class Declared(BaseModel):
    """A table of a study: its fields are all that it may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StudySettings(Declared):
    """Rules of the comparison.

    Attributes
    ----------
    tolerance : float, optional
        Also count the share of targets with an error above this, in world units.
    missing : {"worst", "error"}
        What happens to a pair for which a method has no transform: the method gets the last rank there, and as score
        the worst of no registration and of the references (of all methods, where the study has no references); or the
        study stops.
    samples, bootstrap, targets : int
        Samples per pair, bootstrap rounds, and targets per pair that is not a project (a project brings its own).
    sd : float, optional
        Standard deviation, in world units, of landmarks that carry no covariance of their own.
    centre : {"candidates", "prior"}
        What methods are judged by on each pair: `warpgauge.judge`, or the posterior as in the paper.
    challenge : {"anhir", "learn2reg", "acrobat"}, optional
        Whose official figures are shown beside the scores (`warpgauge.study.challenges`).
    """

    tolerance: Positive | None = None
    missing: Literal["worst", "error"] = "worst"
    samples: Count = 1000
    bootstrap: Count = 2000
    targets: Count = 1000
    sd: Positive | None = None
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    centre: str = CENTRES[0]
    challenge: Literal["anhir", "learn2reg", "acrobat"] | None = None

    @field_validator("centre")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in CENTRES:
            raise ValueError(f"centre must be one of {', '.join(CENTRES)}, got {value!r}")
        return value


class Pair(Declared):
    """One image pair: a project's folder, or landmarks with the fixed image (or a file of targets).

    ``landmark_options`` go to ``read_landmarks``. An image is needed for its grid alone, so that ``fixed`` and
    ``moving`` may be files ``*.grid.json`` as well (`warpgauge.study.pairs.read_grid`). ``diagonal`` is what ANHIR's
    errors are divided by, in world units; that of the fixed image by default. ``raters`` are further files with the
    moving points of the same landmarks by other raters, which are fused. ``matched_by`` says what the columns of a
    table of results hold in the row of this pair; ANHIR matches by them. ``group`` is the tissue or task that it
    belongs to; each has a table of its own.
    """

    name: Text
    project: LocalPath | None = None
    landmarks: LocalPath | None = None
    moving_landmarks: LocalPath | None = None
    fixed: LocalPath | None = None
    moving: LocalPath | None = None
    mask: LocalPath | None = None
    targets: LocalPath | None = None
    sd: Positive | None = None
    diagonal: Positive | None = None
    landmark_options: dict[str, Any] = Field(default_factory=dict)
    raters: tuple[LocalPath, ...] = ()
    matched_by: dict[str, str] = Field(default_factory=dict)
    group: Text | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        name = f"The pair {self.name!r}"
        if "/" in self.name or name_problem(self.name) is not None:
            raise ValueError(f"The pair's name {self.name!r} goes into file names and may not hold a slash or the like")
        if self.project is not None and self.landmarks is not None:
            raise ValueError(f"{name} has both project and landmarks; give one of them")
        if self.project is None and self.landmarks is None:
            raise ValueError(f"{name} needs project = '...' or landmarks = '...'")
        if self.landmarks is not None and self.fixed is None and self.targets is None:
            raise ValueError(
                f"{name} needs fixed = '...' (the image) or targets = '...' (a file of points), so that it is known "
                "where the error counts"
            )
        if self.raters and (self.landmarks is None or self.moving_landmarks is not None):
            raise ValueError(f"{name} has raters, so landmarks must be one file with the points of both images")
        if self.mask is not None and self.fixed is None:
            raise ValueError(f"{name} has a mask but no fixed image")
        return self


class Layout(Declared):
    """How the results of a method are laid out.

    ``transform`` holds patterns with ``{pair}`` (several form a chain, in the order of application to points).
    ``mapped_landmarks`` is the pattern of a file with the pair's fixed landmarks as the method mapped them, where there
    is no transform. ``options`` go to ``read_transform`` or ``read_landmarks``.
    """

    transform: Annotated[tuple[Text, ...], BeforeValidator(_several)] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    mapped_landmarks: Text | None = None

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of all files."""
        return self.transform if self.mapped_landmarks is None else (self.mapped_landmarks,)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.transform and self.mapped_landmarks is not None:
            raise ValueError("A method has transform or mapped_landmarks, not both; give one of them")
        for pattern in self.patterns:
            unknown = [word for word in _FIELD.findall(pattern) if word not in ("pair", "method")]
            if unknown:
                raise ValueError(
                    f"The pattern {pattern!r} holds {{{unknown[0]}}}; only {{pair}} and {{method}} are filled in"
                )
        return self


class Method(Layout):
    """One method. Without patterns it is the transform of its name within each project; ``"identity"`` does nothing.

    A ``reference`` never saw an annotation: references are the panel beside which every method is judged, so that its
    scores do not depend on the other methods.
    """

    name: Text
    reference: StrictBool = False


class Submissions(Layout):
    """Submissions of teams: ``folder`` has a folder for each, whose name is the method's; patterns begin there."""

    folder: LocalPath

    @model_validator(mode="after")
    def _laid_out(self) -> Self:
        if not self.patterns or any("{method}" in pattern for pattern in self.patterns):
            raise ValueError("[submissions] needs transform or mapped_landmarks, relative to the folder of a team")
        return self


class Study(Declared):
    """A study: pairs, methods and rules; ``folder`` is what relative patterns start from."""

    name: Text
    folder: Path
    pairs: tuple[Pair, ...]
    methods: tuple[Method, ...]
    settings: StudySettings = Field(default_factory=StudySettings)
    submissions: Submissions | None = None

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for what, items in (("pair", self.pairs), ("method", self.methods)):
            names = [item.name for item in items]
            if not names and (what == "pair" or self.submissions is None):
                raise ValueError(f"The study has no [[{what}]]; give at least one")
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise ValueError(f"The {what} {twice[0]!r} occurs twice in the study; give each its own name")
        if any(one.name == IDENTITY and one.patterns and one.transform != (IDENTITY,) for one in self.methods):
            raise ValueError(
                f"The name {IDENTITY!r} stands for no registration, which every method is compared with; give the "
                "method another name"
            )
        plain = [pair.name for pair in self.pairs if pair.project is None]
        projects = [pair.name for pair in self.pairs if pair.project is not None]
        for method in self.methods:
            if method.mapped_landmarks is not None and projects:
                raise ValueError(
                    f"The method {method.name!r} gives mapped_landmarks, but the pair {projects[0]!r} is a project, "
                    "which needs errors at its targets as well; give the method's transform"
                )
            if not method.patterns and plain:
                raise ValueError(
                    f"The method {method.name!r} has no transform pattern, but the pair {plain[0]!r} is not a project "
                    "that could hold one; give transform = '...{pair}...'"
                )
        return self

    @property
    def references(self) -> tuple[str, ...]:
        """Names of the methods that never saw an annotation."""
        return tuple(method.name for method in self.methods if method.reference)

    def with_methods(self, methods: Sequence[Method]) -> Study:
        """Return the same with other methods."""
        return Study.model_validate({**dict(self), "methods": tuple(methods)})

    def with_submissions(self) -> Study:
        """Return the same with a method for each submission that is there now."""
        layout = self.submissions
        if layout is None:
            return self
        if not layout.folder.is_dir():
            raise InvalidInputError(
                f"There is no folder {layout.folder.name!r} of submissions; make it, or mend [submissions]."
            )
        folders = sorted(path for path in layout.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        found = [_submission(layout, folder) for folder in folders]
        if not found and not self.methods:
            raise InvalidInputError(f"There is no submission in {layout.folder.name!r} that can be ranked.")
        return self.with_methods([*self.methods, *found])


def _submission(layout: Submissions, folder: Path) -> Method:
    if "{" in folder.name or "}" in folder.name:
        raise InvalidInputError(f"The folder {folder.name!r} of a submission holds a brace; give it another name.")
    return below(layout, folder, folder.name)


def below(layout: Layout, folder: Path, name: str) -> Method:
    """Return the method of a layout whose patterns begin in a folder."""
    place = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in folder.resolve().as_posix())
    mapped = None if layout.mapped_landmarks is None else f"{place}/{layout.mapped_landmarks}"
    transform = tuple(f"{place}/{pattern}" for pattern in layout.transform)
    return Method(name=name, transform=transform, options=layout.options, mapped_landmarks=mapped)


def read_study(path: PathLike) -> Study:
    """Read a study's description; relative paths are taken from its folder."""
    file = Path(path)
    text = read_text(path, "study")
    if _ENDLESS_KEY.search(text):
        raise FileFormatError(f"{file.name!r} has a key of more than 50 parts, which no study has.")
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileFormatError(f"{file.name!r} is not valid TOML: {one_line(error)}.") from error
    for name in ("pair", "method"):
        entries = content.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InvalidInputError(f"{file.name!r}: write every {name} under a heading [[{name}]] of its own.")
    folder = file.resolve().parent
    tables = {
        "name": file.stem,
        **content,
        "folder": folder,
        "pairs": content.pop("pair", []),
        "methods": content.pop("method", []),
    }
    tables = {name: value for name, value in tables.items() if name not in ("pair", "method")}
    try:
        return Study.model_validate(tables, context={"folder": folder})
    except ValidationError as error:
        raise InvalidInputError(f"{file.name!r}: {_sentence(error, tables)}.") from error


def _sentence(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """Return the first thing that is wrong, and where."""
    first = error.errors()[0]
    if first["type"] == "value_error" and len(first["loc"]) in (0, 1, 2) and first["loc"][-1:] != ("centre",):
        return str(first["ctx"]["error"])
    table, *rest = first["loc"]
    where = f"[{table}]"
    if table in ("pairs", "methods") and rest:
        entry = tables[str(table)][rest.pop(0)]
        where = f"the {str(table)[:-1]} {entry.get('name')!r}"
    if first["type"] == "extra_forbidden":
        return f"there is no {(rest or [table])[-1]!r} in {where if rest else 'a study'}"
    if first["type"] == "value_error":
        return f"{'.'.join(map(str, rest))} of {where} {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"{where} needs {rest[-1] if rest else 'a name'} = '...'"
    message = first["msg"].removeprefix("Input ")
    return f"{'.'.join(map(str, rest)) or table} of {where} {message}, got {first['input']!r:.80}"


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
