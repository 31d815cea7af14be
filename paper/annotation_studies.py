"""Questions that have an answer (ours): 40 questions of a project on real and simulated pairs.

The project is as it is made by default, or told beforehand which candidates have an answer: a bound.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper.answerable_pairs import (
    REGIONS,
    SIMULATED,
    AnswerablePair,
    brain_labels,
    brain_pair,
    cima_names,
    cima_pair,
    simulated_pair,
)
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.session import Query

QUESTIONS = 40
ARMS = ("default", "told")
TITLES = {
    "cima-1": "CIMA lung-lesion_1",
    "cima-3": "CIMA lung-lesion_3",
    "brains": "brain templates",
    "simulated": "simulated",
}
UNITS = {"cima-1": "px", "cima-3": "px", "brains": "mm", "simulated": "px"}
RATER = "expert"


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan every pair with each arm; simulated pairs as often as ``runs`` says, each with its own deformation."""
    pairs: list[tuple[str, str, int]] = []
    for dataset, region in zip(("cima-1", "cima-3"), REGIONS, strict=True):
        pairs += [(dataset, name, seed) for name in cima_names(region)[:: 10 if quick else 1]]
    pairs += [("brains", name, seed) for name in ("colin27_mni152", "mni152_colin27")[: 1 if quick else 2]]
    conditions = list(SIMULATED)[:: 4 if quick else 1]
    pairs += [("simulated", name, seed + repeat) for name in conditions for repeat in range(1 if quick else runs)]
    count = 8 if quick else QUESTIONS
    return [
        Run(
            f"{name}-{number}-{arm}" if dataset == "simulated" else f"{name}-{arm}",
            {"dataset": dataset, "pair": name, "arm": arm, "seed": number, "questions": count},
        )
        for dataset, name, number in pairs
        for arm in ARMS
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Let an expert who knows the truth answer the questions of one project."""
    given = run.parameters
    with tempfile.TemporaryDirectory() as place:
        pair = _pair(data, given["dataset"], given["pair"], given["seed"], Path(place))
        with _project(pair, given["arm"], Path(place)) as project:
            asked, errors = _loop(project, pair, given["questions"], given["seed"])
    points = np.array(asked).reshape(-1, pair.points.shape[1])
    mapped = pair.truth(points)
    result: dict[str, Any] = {
        "asked": len(points),
        "answered": pair.answers(points, mapped),
        "tissue": pair.tissue(points, mapped),
        "errors": errors,
    }
    if given["dataset"] == "brains":
        result["labels"] = brain_labels(data, given["pair"])(points, mapped)
    return result


def _pair(data: Path, dataset: str, name: str, seed: int, place: Path) -> AnswerablePair:
    if dataset == "brains":
        return brain_pair(data, name)
    return simulated_pair(data, name, seed, place) if dataset == "simulated" else cima_pair(data, name)


def _project(pair: AnswerablePair, arm: str, place: Path) -> wg.Project:
    options: dict[str, Any] = {"fixed": pair.fixed, "moving": pair.moving}
    if arm == "default":
        return wg.Project.create(place / arm, **options)
    with wg.Project.create(place / "all", **options) as everything:
        candidates = everything.candidates
    known = pair.answers(candidates, pair.truth(candidates))
    return wg.Project.create(place / arm, **options, candidates=candidates[known])


def _loop(
    project: wg.Project, pair: AnswerablePair, count: int, seed: int
) -> tuple[list[tuple[float, ...]], list[float]]:
    """Ask ``count`` questions; return where, and the mean error of the posterior mean after each."""
    session = wg.Session(project, rater=RATER)
    rng = np.random.default_rng([seed, 77])
    asked: list[tuple[float, ...]] = []
    errors: list[float] = []
    for _ in range(count):
        query = session.next_query()
        if query is None:
            break
        asked.append(query.point)
        answer(session, query, project, pair, rng)
        gaps = session.posterior().mean(pair.points) - pair.matches
        errors.append(float(np.mean(np.linalg.norm(gaps, axis=1))))
    return asked, errors


def answer(
    session: wg.Session, query: Query, project: wg.Project, pair: AnswerablePair, rng: np.random.Generator
) -> None:
    """Answer a question as somebody would who knows the truth but for a normal error, or skip what has no answer."""
    point = np.array([query.point])
    match = pair.truth(point)
    error = rng.normal(0, pair.noise, match.shape[1])
    if pair.answers(point, match)[0]:
        session.place(query, match[0] + error, confirmed=True)
    else:
        inside = bool(project.moving_grid.contains(match)[0])
        session.skip(query, "not_visible" if inside else "outside_image")


def report(results: Sequence[Result]) -> Findings:
    """Sum up each dataset, and each simulated condition."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for run, result in results:
        given = run.parameters
        groups[given["dataset"]][given["arm"]].append({**result, "pair": given["pair"]})
        if given["dataset"] == "simulated":
            groups[f"simulated {given['pair']}"][given["arm"]].append({**result, "pair": given["pair"]})
    numbers = {name: {arm: _summary(rows) for arm, rows in arms.items()} for name, arms in groups.items()}
    told = [_sentence(name, arms) for name, arms in numbers.items()]
    return Findings(numbers, {}, told)


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    asked = sum(row["asked"] for row in rows)
    return {
        "pairs": len(rows),
        "questions": asked,
        "answered": sum(sum(row["answered"]) for row in rows) / asked,
        "tissue": sum(sum(row["tissue"]) for row in rows) / asked,
        "labels": sum(sum(row["labels"]) for row in rows) / asked if "labels" in rows[0] else None,
        "fewest answered": min(sum(row["answered"]) / row["asked"] for row in rows),
        "error": float(np.mean([row["errors"][-1] for row in rows])),
        "error by pair": {row["pair"]: row["errors"][-1] for row in rows},
        "answered by pair": {row["pair"]: sum(row["answered"]) for row in rows},
    }


def _sentence(name: str, arms: dict[str, dict[str, Any]]) -> str:
    unit = UNITS[name.partition(" ")[0]]
    title = TITLES.get(name, name)
    parts = [
        f"{arm}: {100 * one['answered']:.1f} % with an answer, {100 * one['tissue']:.1f} % on tissue in both images"
        + (f" ({100 * one['labels']:.1f} % near a label)" if one["labels"] is not None else "")
        + f", error {one['error']:.3g} {unit}"
        for arm, one in arms.items()
    ]
    count = next(iter(arms.values()))["pairs"]
    return f"{title} ({count} pairs), after {QUESTIONS} questions: {'; '.join(parts)}."


ANSWERABLE = Experiment(
    "answerable",
    "Questions that have an answer, and the error after 40 of them, in a project made with defaults",
    1,
    plan,
    compute,
    report,
    ("cima", "afids"),
)
