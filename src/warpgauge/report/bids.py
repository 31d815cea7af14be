"""A project's annotations, transforms, error maps and verdict under the names of BIDS derivatives."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.display import csv_text
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Comparison, evaluate_project, landmark_table, project_posterior
from warpgauge.io.files import plain, replace_file
from warpgauge.io.transforms import write_transform
from warpgauge.io.transforms.ngff import linear_parts
from warpgauge.maps import error_map, write_map
from warpgauge.project import Project

VERSION = "1.10.0"
_ENTITIES = re.compile(r"sub-[0-9A-Za-z]+(_ses-[0-9A-Za-z]+)?")
_MOST = {2: 512, 3: 96}  # elements of an error map along its longest side
_COLUMNS = {
    "annotation": "Number of the annotation, from 1",
    "transform": "Transform whose error is given",
    "sd": "Root mean variance that the expert stated",
    "error": "Distance between the expert's match and where the transform puts the point",
    "error_in_sd": "The same in units of sd",
}


def write_bids(project: Project, folder: Path, entities: str) -> list[Path]:
    """Write a derivative dataset, or add to one that warpgauge wrote.

    Parameters
    ----------
    project : Project
        With annotations; transforms are optional.
    folder : Path
        Of the dataset; made where it is missing.
    entities : str
        ``sub-01`` or ``sub-01_ses-02``.

    Returns
    -------
    list of Path
        The files, relative to ``folder``.
    """
    if not _ENTITIES.fullmatch(entities):
        raise InvalidInputError(
            "BIDS entities are sub-LABEL or sub-LABEL_ses-LABEL, of letters and digits, as in sub-01_ses-02, not "
            f"{entities!r}."
        )
    names = {name: label_of(name) for name in project.transform_names()}
    if len(set(names.values())) < len(names):
        raise InvalidInputError("Two transforms have the same BIDS label; rename one (letters and digits count).")
    found = evaluate_project(project) if names else None
    posterior = project_posterior(project)
    if not len(posterior.annotations):
        raise InvalidInputError("The project has no annotations yet, so there is nothing to write.")
    place = folder.joinpath(*entities.split("_"))
    _describe(folder)
    place.mkdir(parents=True, exist_ok=True)
    start = place / entities
    unmapped = Comparison.of({"identity": lambda points: points}, None, posterior)
    written = _table(start, landmark_table(unmapped if found is None else found.comparison), project.units)
    for name, label in names.items():
        transform = project.transform(name)
        suffix = ".tfm" if linear_parts(transform) else ".nii.gz"
        file = Path(f"{start}_from-fixed_to-moving_mode-points_desc-{label}_xfm{suffix}")
        written.append(write_transform(transform, file, grid=project.fixed_grid))
        grid = project.fixed_grid
        coarse = grid.coarsened(max(1.0, max(grid.size) / _MOST[grid.d]))
        values = error_map(posterior, transform, coarse)
        written.append(Path(write_map(values, coarse, Path(f"{start}_space-fixed_desc-{label}_error.nii.gz"))))
    if found is not None:
        text = json.dumps(plain(found.to_dict()), indent=2, allow_nan=False) + "\n"
        written.append(_write(Path(f"{start}_desc-verdict_evaluation.json"), text))
    return [path.relative_to(folder) for path in written]


def label_of(name: str) -> str:
    """Return a name as the label of a BIDS entity: letters and digits alone."""
    label = re.sub(r"[^0-9A-Za-z]", "", name)
    if not label:
        raise InvalidInputError(f"The name {name!r} of a transform has no letter or digit for a BIDS label; rename it.")
    return label


def _write(path: Path, text: str) -> Path:
    replace_file(path, text.encode())
    return path


def _describe(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "dataset_description.json"
    if file.exists():
        try:
            made = [one.get("Name") for one in json.loads(file.read_text())["GeneratedBy"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            made = []
        if "warpgauge" not in made:
            raise InvalidInputError(
                f"{str(folder)!r} is another dataset (dataset_description.json); name a new folder."
            )
        return
    about = {
        "Name": "warpgauge",
        "BIDSVersion": VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": "warpgauge", "Version": __version__}],
    }
    _write(file, json.dumps(about, indent=2) + "\n")


def _table(start: Path, rows: list[dict[str, Any]], units: str) -> list[Path]:
    """Write the landmarks with every error as TSV, and what its columns are beside it."""
    shown = [["n/a" if isinstance(one, float) and math.isnan(one) else one for one in row.values()] for row in rows]
    table = csv_text([list(rows[0]), *shown], delimiter="\t")
    about: dict[str, Any] = {}
    for name in rows[0]:
        about[name] = {"Description": _COLUMNS.get(name, f"Coordinate {name[-1]} of the {name[:-2]} point, world")}
        if name not in ("annotation", "transform", "error_in_sd"):
            about[name]["Units"] = units
    base = f"{start}_desc-annotations_landmarks"
    return [
        _write(Path(f"{base}.tsv"), table),
        _write(Path(f"{base}.json"), json.dumps(about, indent=2) + "\n"),
    ]
