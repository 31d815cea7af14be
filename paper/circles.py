"""A question is a circle (ours): how far circles reach, what a place in them tells, and answers at corners in them.

Ten real pairs of tissue, brain and lung. A place tells its expected information, 1/2 log det(I + S^-1 C).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper.answerable_pairs import AnswerablePair, brain_pair, cima_names, cima_pair, spline
from paper.datasets import elastix_lung
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.session import Query

COUNTS = (0, 3, 6, 12, 20, 30)
COMPARED = 20  # answers after which errors and intervals are compared
ARMS = ("centre", "corner")


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan six pairs of stained tissue, two of brains and two of lungs, with both arms."""
    pairs = [*cima_names("lung-lesion_1")[::5], *cima_names("lung-lesion_3")[1::10]]
    pairs += ["colin27_mni152", "mni152_colin27", "baseline_followup", "followup_baseline"]
    count = 6 if quick else max(COUNTS)
    return [
        Run(f"{name}-{arm}", {"pair": name, "arm": arm, "seed": seed, "questions": count})
        for name in (pairs[::4] if quick else pairs)
        for arm in ARMS
    ]


def _pair(data: Path, name: str) -> AnswerablePair:
    """Return a pair; of lungs their masks stand for the images, with 51 landmarks."""
    if "followup" in name:
        landmarks = elastix_lung(data)
        points = {"baseline": landmarks.fixed, "followup": landmarks.moving}
        one, other = name.split("_")
        fixed, moving = (data / "elastix-lung" / f"3DCT_lung_{time}_mask.mha" for time in (one, other))
        grid = wg.read_image(moving).grid
        truth = spline(points[one], points[other])
        return AnswerablePair(
            fixed, moving, truth, lambda _, mapped: grid.contains(mapped), lambda _, mapped: grid.contains(mapped),
            points[one], points[other], 1.0
        )  # fmt: skip
    return brain_pair(data, name) if "colin27" in name else cima_pair(data, name)


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Answer questions at their centres, or at the strongest corner of each circle, and look into the circles."""
    given = run.parameters
    pair = _pair(data, given["pair"])
    rng = np.random.default_rng([given["seed"], 5])
    masks: dict[str, Any] = {}
    if pair.fixed.name.endswith("_mask.mha"):
        masks = {"fixed_mask": pair.fixed, "moving_mask": pair.moving}
    result: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        wg.Project.create(Path(folder) / "p", fixed=pair.fixed, moving=pair.moving, **masks) as project,
    ):
        session = wg.Session(project, rater="expert")
        for number in range(given["questions"] + 1):
            query = session.next_query()
            assert query is not None
            if number in COUNTS:
                result[str(number)] = _circle(session, query, rng)
            place = np.array(query.point)
            near = np.linalg.norm(project.candidates - place, axis=1) <= query.radius
            if given["arm"] == "corner" and near.any():
                place = project.candidates[np.argmax(near)]  # candidates are the image's corners, the strongest first
            match = pair.truth(place[None])
            if pair.answers(place[None], match)[0]:
                clicked = match[0] + rng.normal(0, pair.noise, len(place))
                session.place(query, clicked, fixed=place if query.radius else None, confirmed=True)
            else:
                session.skip(query, "outside_image")
            if number + 1 == COMPARED:
                posterior = session.posterior()
                offsets = posterior.mean(pair.points) - pair.matches
                predicted = posterior.covariance(pair.points) + pair.noise**2 * np.eye(project.d)
                squares = np.einsum("na,nab,nb->n", offsets, np.linalg.inv(predicted), offsets)
                result["error"] = float(np.linalg.norm(offsets, axis=1).mean())
                result["covered"] = float(np.mean(squares <= posterior.squared_radius(0.9)))
    return result


def _circle(session: wg.Session, query: Query, rng: np.random.Generator) -> dict[str, float]:
    """Return the radius, in world units, and what random places in the circle lose, as a share."""
    grid = session.project.fixed_grid
    directions = rng.normal(size=(300, grid.d))
    lengths = query.radius * rng.uniform(size=(300, 1)) ** (1 / grid.d)
    places = query.point + lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    at = np.vstack([query.point, places[grid.contains(places)]])
    settings = session.project.settings
    radius = 0.1 * settings.smallest_scale_px * grid.pixel  # of a plain click, where the settings say nothing else
    noise = wg.covariance_from_ellipse(np.full(grid.d, radius), np.eye(grid.d), settings.alpha)
    gains = 0.5 * np.linalg.slogdet(np.eye(grid.d) + np.linalg.solve(noise, session.view().covariance(at)))[1]
    losses = 1 - gains[1:] / gains[0]
    return {"radius": query.radius, "mean": losses.mean(), "worst": losses.max()}


def report(results: Sequence[Result]) -> Findings:
    """Sum up circles by the number of answers, and the two arms."""
    by_arm = {arm: [result for run, result in results if run.parameters["arm"] == arm] for arm in ARMS}
    told = []
    for count in map(str, COUNTS):
        circles = [result[count] for result in by_arm["centre"] if count in result]
        if circles:
            told.append(
                f"After {count} answers: radius {', '.join(format(circle['radius'], '.3g') for circle in circles)}; "
                f"a random place loses {100 * np.mean([circle['mean'] for circle in circles]):.1f} % on average, "
                f"{100 * max(circle['worst'] for circle in circles):.1f} % at worst."
            )
    for arm, rows in by_arm.items():
        errors = np.log([result["error"] for result in rows if "error" in result])
        covered = [result["covered"] for result in rows if "covered" in result]
        if covered:
            told.append(
                f"After {COMPARED} answers at each {arm}: error {np.exp(np.mean(errors)):.4g} (geometric mean of the "
                f"pairs), 90 % regions hold {100 * np.mean(covered):.0f} % of the landmarks."
            )
    return Findings(by_arm, {}, told)


EXPERIMENT = Experiment("circles", "How far circles of questions reach, and what a place in them tells", 1, plan,
                        compute, report, ("cima", "afids", "elastix-lung"))  # fmt: skip
