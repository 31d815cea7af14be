"""The demonstration step by step: a pair, a project, an expert, registrations, the ranking beside the true one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge import maps
from warpgauge.core.error_scores import displacement_norm
from warpgauge.demo.image_pairs import DemoPair, make_pair
from warpgauge.demo.simulated_expert import answer_queries
from warpgauge.display import rounded, text_table
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation import Evaluation, evaluate_project
from warpgauge.evaluation.result import PRIMARY
from warpgauge.io.transforms import Transform
from warpgauge.maps.pictures import Picture, displayable, map_picture, save_picture
from warpgauge.project import Project
from warpgauge.registration import NAMES, PREFIX, RegistrationResult, run_standard, write_reduced
from warpgauge.report import write_report
from warpgauge.session import Session

# Size of the expert's ellipses, as a share of those that the paper's user drew on histology, in pixels: about 2 px off
# in 2D, and in 3D, where a pixel is 2 mm, about as many mm as people are when they place points in a brain.
EXPERTISE = {2: 0.4, 3: 0.1}
MARK = "made by warpgauge demo; running it again removes this folder\n"
TIME_LIMIT = 600.0

Say = Callable[[str], None]
Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demonstration found, with the true RMS error of each transform, and the paths of its files."""

    folder: Path
    pair: DemoPair
    registrations: list[RegistrationResult]
    evaluation: Evaluation
    true_scores: dict[str, float]
    files: dict[str, Path]

    @property
    def true_ranking(self) -> list[str]:
        """Names from best to worst by the known truth."""
        return sorted(self.true_scores, key=lambda name: self.true_scores[name])

    def mean_gap(self, estimates: Mapping[str, float | None]) -> float:
        """Return the mean distance of some estimates of the RMS errors from the true ones."""
        gaps = [abs(value - self.true_scores[name]) for name, value in estimates.items() if value is not None]
        return float(np.mean(gaps))

    @property
    def landmark_error(self) -> float:
        """Mean distance of the classical landmark errors from the true RMS errors."""
        return self.mean_gap({name: one.landmark[PRIMARY] for name, one in self.evaluation.scores.items()})

    @property
    def posterior_error(self) -> float:
        """Mean distance of the estimated RMS errors from the true ones."""
        return self.mean_gap({name: one.score[PRIMARY] for name, one in self.evaluation.scores.items()})

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values."""
        return {
            **self.evaluation.to_dict(),
            "true_rms": self.true_scores,
            "true_ranking": self.true_ranking,
            "error_of_landmark_score": self.landmark_error,
            "error_of_posterior_score": self.posterior_error,
            "files": {name: str(path) for name, path in self.files.items()},
        }

    def __str__(self) -> str:
        """Return the table of the evaluation with the truth beside it, the verdict, and what was written."""
        seconds = {one.name.removeprefix(PREFIX): f"{one.seconds:.0f} s" for one in self.registrations}
        columns, rows = self.evaluation.table()
        for row in rows:
            name = row[0]
            row += [rounded(self.true_scores[name]), 1 + self.true_ranking.index(name), seconds.get(name, "-")]
        units = self.pair.grid.units
        count = self.evaluation.verdict.annotations
        title = f"5. RMS error in {units}, estimated from {count} annotations, and the true one"
        table = text_table([*columns, "TRUE", "rank", "took"], rows, title)
        gaps = (
            f"Mean distance from the true RMS error: {self.posterior_error:.2f} {units} for the estimate, "
            f"{self.landmark_error:.2f} {units} for the classical landmark error."
        )
        written = [f"  {path}  ({name})" for name, path in self.files.items()]
        return "\n".join([table, "", str(self.evaluation.verdict), gaps, "", "Written:", *written])


def start_clean(folder: Path) -> None:
    """Remove what an earlier demonstration left; refuse a folder that holds anything else."""
    if folder.exists() and any(folder.iterdir()):
        mark = folder / ".warpgauge-demo"
        if not (mark.is_file() and mark.read_text() == MARK):
            raise InvalidInputError(f"{str(folder)!r} holds files that no demonstration made; name another folder.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".warpgauge-demo").write_text(MARK)


def run_demo(
    d: int, folder: Path, *, queries: int = 40, seed: int = 1, jobs: int | None = None, say: Say, bar: Bar
) -> DemoResult:
    """Run the whole demonstration, in 2 or 3 dimensions, in a folder, which is cleared first.

    The simulated expert answers so many ``queries``; ``seed`` is that of the deformation and of the expert. ``say`` is
    told what goes on, a sentence at a time, and ``bar`` how far a step is.
    """
    start_clean(folder)
    pair = make_pair(d, folder / "images", seed)
    say(f"1. The pair: {pair.about}.")
    with bar("looking for candidates") as show:
        project = Project.create(
            folder / "project",
            fixed=pair.fixed,
            moving=pair.moving,
            fixed_mask=pair.mask,
            copy=True,
            progress=show,
        )
    say(f"2. A project with {len(project.candidates)} candidate locations and {len(project.targets)} targets.")
    with project:
        session = Session(project, "simulated expert")
        with bar("annotating") as show:
            answers = answer_queries(session, pair.truth, queries, EXPERTISE[d], seed, show)
        say(
            f"3. A simulated expert answered {answers['placed']} suggestions with uncertain ellipses, on average "
            f"{answers['mean distance from the truth']:.2f} {project.units} off; the model's standard deviation is now "
            f"{session.progress().mean_sd:.2f} {project.units} on average over the targets."
        )
        results, transforms = _register(project, folder / "registration", jobs, say, bar)
        found = evaluate_project(project, transforms)
        with bar("maps and report") as show:
            files = _write_maps(folder, project, found)
            show(1, 2)
            files["report"] = write_report(
                folder / "report.html",
                found,
                fixed=project.image("fixed"),
                moving=project.image("moving"),
                title="warpgauge demo",
                settings=project.settings.to_dict(),
            )
            show(2, 2)
        true_scores = _true_scores(pair, found.transforms, project)
    return DemoResult(folder, pair, results, found, true_scores, files)


def _register(
    project: Project, folder: Path, jobs: int | None, say: Say, bar: Bar
) -> tuple[list[RegistrationResult], dict[str, Transform]]:
    """Run the standard registrations, the fine B-splines in 2D alone, and add the finished results to the project."""
    names = [name for name in NAMES if project.d == 2 or name not in (f"{PREFIX}bspline", f"{PREFIX}bspline-fine")]
    say(f"4. Registering in {len(names)} ways with SimpleITK ...")
    folder.mkdir(parents=True)
    fixed = write_reduced(project.image("fixed"), folder / "fixed.nrrd")
    moving = write_reduced(project.image("moving"), folder / "moving.nrrd")
    finished: list[RegistrationResult] = []
    with bar("registering") as show:

        def count(result: RegistrationResult) -> None:
            finished.append(result)
            show(len(finished), len(names))

        results = run_standard(fixed, moving, folder, names=names, jobs=jobs, time_limit=TIME_LIMIT, finished=count)
    transforms: dict[str, Transform] = {}
    for result in results:
        name = result.name.removeprefix(PREFIX)
        if result.path is None:
            say(f"   {name} failed: {result.problem}")
            continue
        project.add_transform(name, result.path)
        transforms[name] = project.transform(name)
    if not transforms:
        raise WarpgaugeError(f"No registration finished: {results[0].problem}.")
    return results, transforms


def _true_scores(pair: DemoPair, transforms: Mapping[str, Transform], project: Project) -> dict[str, float]:
    """RMS errors against the known deformation, over the targets where everything is defined."""
    truth = pair.truth.map(project.targets)
    mapped = {name: one.map(project.targets) for name, one in transforms.items()}
    defined = np.isfinite(truth).all(axis=1)
    for values in mapped.values():
        defined &= np.isfinite(values).all(axis=1)
    return {name: displacement_norm(values[defined] - truth[defined], 2) for name, values in mapped.items()}


def _write_maps(folder: Path, project: Project, found: Evaluation) -> dict[str, Path]:
    """Write maps of the uncertainty, and of the errors of the best and the worst registration."""
    posterior = found.posterior
    grid = project.fixed_grid.coarsened(max(1.0, max(project.fixed_grid.size) / (256 if project.d == 2 else 96)))
    ranking = [name for name in found.ranking() if name != found.verdict.baseline]
    out = folder / "maps"
    out.mkdir()
    below = displayable(maps.warped_image(project.image("fixed"), lambda points: points, grid))
    points = posterior.annotations.fixed_points
    blended = Picture(
        {name: maps.error_map(posterior, found.transforms[name], grid) for name in {ranking[0]: 0, ranking[-1]: 0}},
        grid,
        "error",
        image=below,
        entropy=maps.entropy_map(posterior, grid),
        limits=maps.entropy_limits(posterior, pixel=project.fixed_grid.pixel),
        points=points,
    )
    title = "Where the best and the worst registration contradict the annotations"
    deviations = {"posterior": maps.standard_deviation_map(posterior, grid)}
    deviation = Picture(deviations, grid, "standard deviation", image=below, points=points)
    return {
        "blended map": save_picture(map_picture(blended, title=title), out / "blended.png"),
        "uncertainty map": save_picture(map_picture(deviation, width=6.0), out / "uncertainty.png"),
    }
