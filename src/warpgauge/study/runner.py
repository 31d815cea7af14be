"""`run_study` compares all methods over all pairs; pairs run in parallel, and each result is stored at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from warpgauge import jobs
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import PathLike
from warpgauge.io.inside import Inside, file_name
from warpgauge.study import store
from warpgauge.study.description import Study, read_study
from warpgauge.study.pairs import PairOutcome, compute_pair
from warpgauge.study.result import StudyResult, summarise


def results_folder(study: Path) -> Path:
    """Return where the results of a study go unless a person says otherwise: a folder beside its file."""
    return Inside(study.parent, f"{study.stem}-results", "folder of results").path


def run_study(
    study: Study | PathLike,
    out: PathLike,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    fresh: bool = False,
) -> StudyResult:
    """Evaluate every method on every pair and compare them.

    Results of pairs are kept in the folder ``out``, and used again as long as the settings and the content of all files
    behind them are the same, unless ``fresh``. ``workers`` and ``scheduler`` say where pairs are computed, as
    `warpgauge.jobs.run` takes them; workers of a scheduler need the same paths. ``progress`` is called after each pair
    with the number of pairs that are done, and of all.

    Raises
    ------
    WarpgaugeError
        When no pair could be computed, or one failed or lacks a method and the rule for missing cases is ``"error"``.
        The others' results are kept for the next run. Otherwise pairs that failed are named in the result, and left out
        for all methods.
    """
    described = (study if isinstance(study, Study) else read_study(study)).with_submissions()
    folder = Inside(Path(out), "pairs", "folder").path
    folder.mkdir(parents=True, exist_ok=True)
    names = [pair.name for pair in described.pairs]
    files: dict[str, Path] = {}
    failures: dict[str, Exception] = {}
    found: dict[str, PairOutcome] = {}
    cached = []
    for pair in described.pairs:
        try:
            key = store.key_of(described, pair)
        except WarpgaugeError as error:
            failures[pair.name] = error
            continue
        files[pair.name] = folder / f"{file_name(pair.name)}-{key}{store.SUFFIX}"
        stored = None if fresh else store.load(files[pair.name])
        if stored is not None:
            found[pair.name] = stored
            cached.append(pair.name)
            if progress is not None:
                progress(len(found), len(names))
    left = {name: name for name in files if name not in found}
    for done in jobs.run(_compute, left, described, workers=workers, scheduler=scheduler):
        if isinstance(done.problem, WarpgaugeError):
            failures[done.name] = done.problem
            continue
        found[done.name] = done.result()
        store.save(found[done.name], files[done.name])
        if progress is not None:
            progress(len(found), len(names))
    if described.settings.missing == "error":
        failures = {**_absences(found), **failures}
    if failures and (not found or described.settings.missing == "error"):
        name, failure = next(iter(failures.items()))
        more = f" ({len(failures)} pairs failed; the others are kept in {folder.parent.name!r})"
        raise type(failure)(f"Pair {name!r}: {failure}{more if len(failures) > 1 else ''}") from failure
    return summarise(
        described,
        [found[name] for name in names if name in found],
        computed=[name for name in names if name in found and name not in cached],
        cached=cached,
        failed={name: str(failures[name]) for name in names if name in failures},
    )


def _compute(study: Study, name: str) -> PairOutcome:
    pair = next(pair for pair in study.pairs if pair.name == name)
    return compute_pair(study, pair)


def _absences(found: Mapping[str, PairOutcome]) -> dict[str, Exception]:
    absences: dict[str, Exception] = {}
    for name, outcome in found.items():
        for method, reason in outcome.missing.items():
            absences.setdefault(
                name, InvalidInputError(f"The method {method!r} is missing for the pair {name!r}: {reason}.")
            )
    return absences
