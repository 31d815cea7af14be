"""Evaluation of one submission by a study: what an evaluation container runs.

The input folder holds either what a participant uploaded, or the results of an algorithm with ``predictions.json``, as
grand-challenge.org hands them over. Without a network, and with nothing written but ``metrics.json``.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.display import counted
from warpgauge.errors import FileFormatError, InvalidInputError, WarpgaugeError
from warpgauge.io.files import confined, one_line, plain, read_text, replace_file
from warpgauge.io.inside import Inside
from warpgauge.study.description import METHOD, STUDY, MethodSpec, Study, fill, read_study
from warpgauge.study.result import StudyResult
from warpgauge.study.runner import run_study

PREDICTIONS = "predictions.json"
# Where the container finds its ground truth: uploaded beside the container, or inside it.
GROUND_TRUTH = (Path("/opt/ml/input/data/ground_truth"), Path("/opt/app/ground-truth"))


def evaluate_submission(input_folder: Path, ground_truth: Path, output_folder: Path) -> dict[str, Any]:
    """Evaluate the submission in a folder, and write ``metrics.json``.

    Parameters
    ----------
    input_folder : Path
        Files as the study's pattern names them, or ``predictions.json`` with a folder for each of its jobs.
    ground_truth : Path
        The folder that `write_container` made, with ``study.toml``.
    output_folder : Path
        Where ``metrics.json`` goes.

    Returns
    -------
    dict
        What was written: ``aggregates``, and ``case`` with an entry for each pair.
    """
    if not (ground_truth / STUDY).is_file():
        raise InvalidInputError(f"There is no {STUDY} in {str(ground_truth)!r}, so there is nothing to compare with.")
    given = input_folder.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        # Logs of projects are databases, which want to write beside themselves; the image may be read-only.
        home = Path(scratch) / "ground-truth"
        shutil.copytree(ground_truth, home)
        study, root = located(read_study(home / STUDY), given, Path(scratch))
        with confined(Path(scratch), given):
            result = run_study(study, Path(scratch) / "results")
    if result.failed:  # the truth of a pair is broken: no figure may leave it out
        name, why = next(iter(result.failed.items()))
        raise InvalidInputError(f"The pair {name!r} cannot be evaluated: {why}")
    if not result.methods[0].cases:
        pair, reason = next((one.name, one.missing[METHOD]) for one in result.outcomes if one.missing)
        count = counted(len(result.outcomes), "pair")
        raise InvalidInputError(f"None of the {count} can be evaluated; of {pair!r}: {_inside(reason, root)}.")
    metrics = _metrics(result)
    output_folder.mkdir(parents=True, exist_ok=True)
    replace_file(output_folder / "metrics.json", (json.dumps(metrics, indent=2, allow_nan=False) + "\n").encode())
    return metrics


def located(study: Study, folder: Path, scratch: Path) -> tuple[Study, Path]:
    """Return a study whose one method lies in the folder of a submission, and the folder where its patterns begin."""
    root, method = _submission_root(study, folder, scratch / "staged"), study.methods[0]
    patterns = tuple(f"{glob.escape(str(root))}/{pattern}" for pattern in method.patterns)
    moved = replace(method, transform=patterns)
    if method.mapped_landmarks is not None:
        moved = replace(method, mapped_landmarks=patterns[0])
    return replace(study, methods=(moved,)), root


def submission_method(study: Study) -> MethodSpec:
    """Return how a submission is laid out below its own folder, from the patterns of the study's methods."""
    if study.submissions is not None:
        spec = study.submissions
        return MethodSpec(METHOD, spec.transform, spec.options, spec.mapped_landmarks)
    layouts = {}
    for method in study.methods:
        if not method.reference and any("{method}" in pattern for pattern in method.patterns):
            below = tuple(_below(pattern) for pattern in method.patterns)
            layouts[below, json.dumps(dict(method.options), sort_keys=True)] = method
    if len(layouts) != 1:
        found = f"they have {len(layouts)}" if layouts else "none has such a pattern"
        raise InvalidInputError(
            "It must be known how a submission is laid out: give [submissions], or the methods of the study one common "
            f"pattern with {{method}}, as in 'submissions/{{method}}/{{pair}}.nii.gz', but {found}."
        )
    (below, _), method = next(iter(layouts.items()))
    if method.mapped_landmarks is not None:
        return MethodSpec(METHOD, (), method.options, below[0])
    return MethodSpec(METHOD, below, method.options)


def _below(pattern: str) -> str:
    """Return the part of a pattern below a method's folder; a file that only the method names becomes ``*.csv``."""
    parts = re.split(r"[\\/]", pattern)
    own = next((at for at, part in enumerate(parts) if "{method}" in part), None)
    if own is None:
        raise InvalidInputError(f"The pattern {pattern!r} has no {{method}}, unlike others of the same method.")
    last = parts[own].replace("{method}", "*")
    return "/".join([last] if own == len(parts) - 1 else parts[own + 1 :]).replace("{method}", "*")


def _inside(reason: str, root: Path) -> str:
    """Return a reason without the place of the submission, which participants do not know."""
    return reason.replace(f"{root}/", "").rstrip(".")


def _submission_root(study: Study, folder: Path, staged: Path) -> Path:
    """Return the folder in which the patterns are looked for."""
    if not folder.is_dir():
        raise InvalidInputError(f"There is no input folder {str(folder)!r}.")
    for entry in folder.rglob("*"):  # a link could lead to the ground truth
        os.fspath(Inside(folder, entry.relative_to(folder).as_posix(), "file"))
    if (folder / PREDICTIONS).is_file():
        _stage(study, folder, staged)
        return staged
    entries = [one for one in folder.iterdir() if not one.name.startswith((".", "__MACOSX"))]
    if len(entries) == 1 and entries[0].is_dir() and not _any_match(study, folder):
        return entries[0]  # an archive with one folder at its top
    return folder


def _any_match(study: Study, folder: Path) -> bool:
    method = study.methods[0]
    return any(
        next(folder.glob(fill(pattern, glob.escape(pair.name), METHOD)), None) is not None
        for pair in study.pairs
        for pattern in method.patterns
    )


def _stage(study: Study, folder: Path, staged: Path) -> None:
    """Lay links to the outputs of an algorithm as the study's pattern names them, one job per pair."""
    try:
        jobs = json.loads(read_text(folder / PREDICTIONS, "list of predictions"))
        listed = [(str(job["pk"]), _names(job["inputs"]), list(job["outputs"])) for job in jobs]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{PREDICTIONS} is not a list of jobs with pk, inputs and outputs.") from error
    pattern = study.methods[0].patterns[0]
    if "{pair}" not in pattern or len(study.methods[0].patterns) > 1:
        raise FileFormatError(f"This study wants one file per pair from an algorithm, but its pattern is {pattern!r}.")
    for key, names, outputs in listed:
        pair = _pair_of(study, names, key)
        aim = staged / fill(pattern, pair, METHOD)
        if aim.exists():
            raise FileFormatError(f"Two jobs of {PREDICTIONS} belong to the pair {pair!r}.")
        aim.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_output(folder, key, outputs, Path(pattern).name), aim)


def _names(inputs: list[Mapping[str, Any]]) -> list[str]:
    """Return the names of a job's input images and the strings among its other inputs."""
    found = [str(one["image"]["name"]) for one in inputs if one.get("image")]
    return found + [one["value"] for one in inputs if isinstance(one.get("value"), str)]


def _pair_of(study: Study, names: list[str], key: str) -> str:
    """Return the pair that an input names: by its whole name without suffixes, or by a part between separators."""
    fits = [
        pair.name
        for pair in study.pairs
        if any(re.search(rf"(?<![0-9A-Za-z]){re.escape(pair.name)}(?![0-9A-Za-z])", name) for name in names)
    ]
    if len(fits) != 1:
        what = "no pair" if not fits else f"the pairs {', '.join(fits)}"
        raise FileFormatError(
            f"The inputs of the job {key!r} ({', '.join(names) or 'none has a name'}) name {what} of the study; one of "
            "them has to hold the name of one pair."
        )
    return fits[0]


def _output(folder: Path, key: str, outputs: list[Mapping[str, Any]], wanted: str) -> Path:
    """Return the one file of a job's outputs that has the ending that the study's pattern has."""
    ending = wanted[wanted.rfind("}") + 1 :] if "}" in wanted else Path(wanted).suffix
    suffix = "".join(Path(ending.replace("*", "")).suffixes) or ending
    files: list[Path] = []
    for one in outputs:
        interface = (one.get("interface") or one.get("socket") or {}) if isinstance(one, Mapping) else None
        if not isinstance(interface, Mapping):
            raise FileFormatError(f"An output of the job {key!r:.80} in {PREDICTIONS} has no interface.")
        place = Inside(folder, f"{key}/output/{interface.get('relative_path', '')}".rstrip("/"), "output").path
        files += [place] if place.is_file() else sorted(place.glob("*")) if place.is_dir() else []
    fits = [file for file in files if file.is_file() and file.name.endswith(suffix)]
    if len(fits) != 1:
        raise FileFormatError(
            f"The job {key!r} has {len(fits)} output files that end in {suffix!r}; it needs exactly one."
        )
    return fits[0]


def _metrics(result: StudyResult) -> dict[str, Any]:
    """Return what participants may know: their scores, nothing about single landmarks."""
    method = result.methods[0]
    interval = method.score_interval
    cases = {}
    for row in result.case_rows():
        if row["method"] == METHOD:
            shown = {name: row[name] for name in ("score", "low", "high", "landmark_mean", "missing")}
            cases[row["pair"]] = {**shown, **row["official"]}
    before = result.baseline
    aggregates: dict[str, Any] = {
        "mean_score": method.mean_score,
        "mean_score_low": interval.low,
        "mean_score_high": interval.high,
        "mean_score_before_registration": before["mean_score"] if before else None,
        "cases": method.cases,
        "missing": method.missing,
        "too_good": len(result.flagged(METHOD, "too_good")),
        **method.official,
    }
    found: dict[str, Any] = plain(
        {"study": result.study.name, "program": f"warpgauge {__version__}", "aggregates": aggregates, "case": cases}
    )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run as the container's entry point: ``[INPUT [OUTPUT [GROUND_TRUTH]]]``, by default /input and /output."""
    given = [Path(one) for one in (sys.argv[1:] if arguments is None else arguments)]
    places = [*given, *(Path("/input"), Path("/output"), _ground_truth())[len(given) :]]
    try:
        metrics = evaluate_submission(places[0], places[2], places[1])
    except WarpgaugeError as error:
        # The last line of standard error is what participants see.
        print(f"The submission could not be evaluated: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # whatever a submission causes
        traceback.print_exc()
        told = f"{type(error).__name__}: {one_line(error)}"
        print(f"The submission could not be evaluated ({told}); tell the organisers.", file=sys.stderr)
        return 1
    print(json.dumps(metrics["aggregates"], indent=2))
    return 0


def _ground_truth() -> Path:
    return next((place for place in GROUND_TRUTH if place.is_dir()), GROUND_TRUTH[-1])


if __name__ == "__main__":
    sys.exit(main())
