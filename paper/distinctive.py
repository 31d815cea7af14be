"""Whether raters agree better where a place is distinctive, and what it costs to ask at such places.

Of every image at hand that several raters marked, the distance of a placement from the mean of the raters is compared
with how distinctive the place of the mean is, by rank. Nothing was chosen on these data: patch and reach are those of
the page's Nearby, which were set before.

Then simulated experts, who are told the truth but for a normal error, answer the questions of a project made with
defaults, once with questions that go to recognisable places and once with questions that stay where they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import spearmanr

import warpgauge as wg
from paper.annotation_studies import OPEN, RATER, answer
from paper.answerable_pairs import AnswerablePair, brain_pair, cima_pair
from paper.datasets import Floats, afids_placements
from paper.experiment import Experiment, Findings, Result, Run
from paper.raters import POINTS, cima_placements
from warpgauge.candidates import distinctiveness, to_gray
from warpgauge.core import Posterior
from warpgauge.session import Sight

HALF = {2: 8, 3: 4}  # pixels from the middle of a patch to its side
REACH = 0.05  # of the image's diagonal: what lies within it may be taken for the place
IMAGES = {
    "colin27": ("tpl-MNIColin27", "afids/colin27_T1.nii.gz"),
    "mni152": ("tpl-MNI152NLin6Asym", "afids/mni152_6asym_T1.nii.gz"),
    "He": ("He", "cima/lung-lesion_3/images-5pc/29-041-Izd2-w35-He-les3.jpg"),
    "proSPC": ("proSPC", "cima/lung-lesion_3/images-5pc/29-041-Izd2-w35-proSPC-4-les3.jpg"),
}
PAIRS = {"lung-lesion_3_He_proSPC": "px", "lung-lesion_1_He_Ki67": "px", "colin27_mni152": "mm"}
ARMS = ("where they are", "recognisable")
QUESTIONS = 20
_SHRUNK = 10  # CIMA's marks are at 50 % of the full size, the images at 5 %


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run per image, and of each pair as many with either kind of questions as ``runs`` says."""
    count, repeats = (6, 1) if quick else (QUESTIONS, runs)
    return [Run(name, {"dataset": name}) for name in IMAGES] + [
        Run(f"{pair}-{seed + n}-{ARMS.index(arm)}", {"dataset": pair, "arm": arm, "seed": seed + n, "questions": count})
        for pair in PAIRS
        for n in range(repeats)
        for arm in ARMS
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Compute the figures of an image, or of the questions to one simulated expert."""
    return _scatter(data, run) if run.parameters["dataset"] in IMAGES else _questions(data, run)


def _questions(data: Path, run: Run) -> dict[str, Any]:
    given = run.parameters
    pair = brain_pair(data, given["dataset"]) if "colin" in given["dataset"] else cima_pair(data, given["dataset"])
    # With none to compare, a question stays at the most informative candidate. The product has no switch for that.
    former = mock.patch("warpgauge.session.answer_chances.MOST_COMPARED", 0)
    with (
        tempfile.TemporaryDirectory() as place,
        nullcontext() if given["arm"] == ARMS[1] else former,
        wg.Project.create(Path(place) / "pair", fixed=pair.fixed, moving=pair.moving, settings=OPEN) as project,
    ):
        return _asked(project, pair, given["questions"], given["seed"])


def _asked(project: wg.Project, pair: AnswerablePair, count: int, seed: int) -> dict[str, Any]:
    session, sight = wg.Session(project, rater=RATER), Sight.of(project)
    rng = np.random.default_rng([seed, 78])
    found, kept = [], []
    before = session.posterior().prior
    for _ in range(count):
        posterior, query = session.posterior(), session.next_query()
        if query is None:
            break
        at = np.array(query.point)
        found.append(float("nan") if sight is None else sight.distinctiveness(at))
        gains = _gains(posterior, np.vstack([at, project.candidates]), pair.noise)
        kept.append(float(gains[0] / gains.max()))
        answer(session, query, project, pair, rng)
    last = session.posterior()
    gaps = last.mean(pair.points) - pair.matches
    return {
        "distinctiveness": found,
        "kept": kept,
        "rms": float(np.sqrt(np.square(gaps).sum(axis=1).mean())),
        "stated": _stated(last, project.targets),
        # Without what was learned from the answers: what the places alone are worth.
        "of the places": _stated(before.condition(last.annotations), project.targets),
    }


def _stated(posterior: Posterior, targets: Floats) -> float:
    """Return the mean standard deviation at the targets."""
    variances = np.trace(posterior.covariance(targets), axis1=1, axis2=2) / targets.shape[1]
    return float(np.sqrt(variances).mean())


def _gains(posterior: Posterior, points: Floats, noise: float) -> Floats:
    """Return the information that an answer at each point would bring, up to a constant factor."""
    return np.asarray(np.linalg.slogdet(posterior.covariance(points) / noise**2 + np.eye(points.shape[1]))[1])


def _scatter(data: Path, run: Run) -> dict[str, Any]:
    key, file = IMAGES[run.parameters["dataset"]]
    image = wg.read_image(data / file)
    if image.grid.d == 2:
        placements = np.array(cima_placements(data, "lung-lesion_3", key)) / _SHRUNK
    else:
        by_rater = afids_placements(data)[key]
        placements = np.array([[points[point] for point in POINTS] for points in by_rater.values()])
    gray = np.asarray(to_gray(image.block(tuple(slice(0, n) for n in image.grid.shape)), image.grid.d)[0], dtype=float)
    mean = placements.mean(axis=0)
    places = np.rint(image.grid.array_coordinates(mean)).astype(int).T
    found = seen_from(gray, places, HALF[image.grid.d], int(REACH * image.grid.diagonal / image.grid.pixel))
    return summed(found, np.linalg.norm(placements - mean, axis=2).mean(axis=0))


def seen_from(gray: Floats, places: Any, half: int, reach: int) -> Floats:
    """Return the distinctiveness of each place within its own neighbourhood, NaN where its patch leaves the image."""
    found = np.full(len(places), np.nan)
    for k, place in enumerate(places):
        low = np.clip(place - reach - 2 * half, 0, None)
        part = gray[tuple(map(slice, low, np.minimum(place + reach + 2 * half + 1, gray.shape)))]
        at = place - low
        if np.all((at >= half) & (at < np.array(part.shape) - half)):
            found[k] = distinctiveness(part, at[None], half)[0]
    return found


def summed(found: Floats, scatter: Floats) -> dict[str, Any]:
    """Return the rank correlation, and the mean scatter of the least and the most distinctive third."""
    whole = np.isfinite(found)
    order = np.argsort(found[whole], kind="stable")
    ranked, third = scatter[whole][order], int(whole.sum()) // 3
    correlation = spearmanr(found[whole], scatter[whole])
    return {
        "points": int(whole.sum()),
        "rank correlation": float(correlation.statistic),
        "p": float(correlation.pvalue),
        "least distinctive": float(ranked[:third].mean()),
        "most distinctive": float(ranked[-third:].mean()),
    }


def report(results: Sequence[Result]) -> Findings:
    """Return the figures of each image, and of each pair with both kinds of questions."""
    images = {run.parameters["dataset"]: found for run, found in results if run.parameters["dataset"] in IMAGES}
    told = [
        f"{name}, {one['points']} points: rank correlation of distinctiveness and scatter "
        f"{one['rank correlation']:+.2f} (p = {one['p']:.2g}); mean distance from the raters' mean "
        f"{one['least distinctive']:.2g} in the least, {one['most distinctive']:.2g} in the most distinctive third."
        for name, one in images.items()
    ]
    asked: dict[str, dict[str, Any]] = {}
    for pair in PAIRS:
        for arm in ARMS:
            every = [
                found
                for run, found in results
                if (run.parameters.get("dataset"), run.parameters.get("arm")) == (pair, arm)
            ]
            if every:
                asked.setdefault(pair, {})[arm] = one = together(every)
                told.append(_said(pair, arm, one))
    return Findings({**images, "questions": asked}, {}, told)


def together(every: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of several experts: means over all questions, and over experts with their range."""
    found, kept = (np.concatenate([one[key] for one in every]) for key in ("distinctiveness", "kept"))
    return {
        "experts": len(every),
        "questions": len(found),
        "distinctiveness": float(found.mean()),
        "lowest fifth": float(np.quantile(found, 0.2)),
        "kept": float(kept.mean()),
        "least kept": float(kept.min()),
        **{
            key: {"mean": float(np.mean(values)), "range": [min(values), max(values)]}
            for key in ("rms", "stated", "of the places")
            if (values := [one[key] for one in every])
        },
    }


def _said(pair: str, arm: str, one: dict[str, Any]) -> str:
    errors = [
        f"{one[key]['mean']:.3g} ({one[key]['range'][0]:.3g} to {one[key]['range'][1]:.3g})"
        for key in ("rms", "stated", "of the places")
    ]
    return (
        f"{pair}, questions {arm}, {one['experts']} simulated experts, {one['questions']} questions: mean "
        f"distinctiveness {one['distinctiveness']:.2g}, its lowest fifth below {one['lowest fifth']:.2g}; information "
        f"{100 * one['kept']:.1f} % of the largest, at least {100 * one['least kept']:.1f}; RMS at the landmarks "
        f"{errors[0]}, mean stated SD {errors[1]}, of the "
        f"same places without what was learned {errors[2]} {PAIRS[pair]}."
    )


EXPERIMENT = Experiment(
    "distinctive",
    "do raters agree better where a place is distinctive, and what does asking there cost?",
    5,
    plan,
    compute,
    report,
    ("afids", "cima"),
)
