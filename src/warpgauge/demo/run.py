"""The demonstration step by step: a pair, a project, an expert, registrations, the ranking beside the true one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge import maps
from warpgauge.core.arrays import Floats
from warpgauge.core.error_scores import displacement_norm
from warpgauge.demo.image_pairs import DemoPair, make_pair
from warpgauge.demo.simulated_expert import answer_queries
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation import Evaluation, evaluate_project
from warpgauge.evaluation.columns import PRIMARY
from warpgauge.io.transforms import Transform
from warpgauge.maps.pictures import Picture, displayable, map_picture, save_picture
from warpgauge.project import Project
from warpgauge.registration import DEMO_SETTINGS, RegistrationResult, SimpleItkSetting, run_registrations
from warpgauge.report import write_report
from warpgauge.session import Session

# Size of the expert's ellipses, as a share of those that the paper's user drew on histology, in pixels: about 2 px off
# in 2D, and in 3D, where a pixel is 2 mm, about as many mm as people are when they place points in a brain.
EXPERTISE = {2: 0.4, 3: 0.1}
MARK = "made by warpgauge demo; running it again removes this folder\n"

# A volume has fifty times the pixels of the picture: fewer of them are sampled, and the meshes are coarser.
_SETTINGS_3D: tuple[SimpleItkSetting, ...] = (
    SimpleItkSetting("affine", "affine", share=0.01),
    SimpleItkSetting("bspline-mattes-coarse", "bspline", "mattes", mesh=3, iterations=10, share=0.01),
    SimpleItkSetting("bspline-mattes-fine", "bspline", "mattes", mesh=6, iterations=10, share=0.01),
    SimpleItkSetting("bspline-correlation-coarse", "bspline", "correlation", mesh=3, iterations=10, share=0.01),
    SimpleItkSetting("bspline-correlation-fine", "bspline", "correlation", mesh=6, iterations=10, share=0.01),
    SimpleItkSetting("demons", "demons", iterations=15, share=0.01),
)

Say = Callable[[str], None]
Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Results of the demonstration, and the paths of its files.

    Attributes
    ----------
    folder : Path
    pair : DemoPair
    annotations : int
    registrations : list of RegistrationResult
    evaluation : Evaluation
        From the annotations alone.
    true_scores : dict
        True RMS error of each transform over the same targets, by the known deformation.
    landmark_error, posterior_error : float
        Mean absolute difference between the true RMS errors and the two estimates of them.
    trust : str
        What calibration says.
    files : dict of str to Path
        Maps, report and the rest that was written.
    seconds : dict of str to float
        Time of each step.
    """

    folder: Path
    pair: DemoPair
    annotations: int
    registrations: list[RegistrationResult]
    evaluation: Evaluation
    true_scores: dict[str, float]
    landmark_error: float
    posterior_error: float
    trust: str
    files: dict[str, Path]
    seconds: dict[str, float]

    @property
    def true_ranking(self) -> list[str]:
        """Names from best to worst by the known truth."""
        return sorted(self.true_scores, key=lambda name: self.true_scores[name])


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
    """Run the whole demonstration in a folder, which is cleared first.

    Parameters
    ----------
    d : {2, 3}
    folder : Path
    queries : int
        Suggestions that the simulated expert answers.
    seed : int
        Of the deformation and of the expert.
    jobs : int, optional
        Registrations at a time; all cores by default.
    say, bar : callable
        Told what goes on, a sentence at a time, and how far a step is.
    """
    clock = _Clock()
    start_clean(folder)
    with clock.step("making the pair"):
        pair = make_pair(d, folder / "images", seed)
    say(f"1. The pair: {pair.about}.")
    with clock.step("starting the project"), bar("looking for candidates") as show:
        project = Project.create(
            folder / "project",
            fixed=pair.fixed,
            moving=pair.moving,
            fixed_mask=pair.mask,
            copy=True,
            progress=show,
            settings={"seal": False},  # every registration here is made without the annotations: nothing can leak
        )
    say(f"2. A project with {len(project.candidates)} candidate locations and {len(project.targets)} targets.")
    with project:
        session = Session(project, "simulated expert")
        with clock.step("annotating"), bar("annotating") as show:
            told = answer_queries(session, pair.truth, queries, "ellipses", EXPERTISE[d], seed, show)
        say(
            f"3. A simulated expert answered {told['placed']} suggestions with uncertain ellipses, on average "
            f"{told['mean distance from the truth']:.2f} {project.units} off; the model's standard deviation is now "
            f"{session.progress().mean_sd:.2f} {project.units} on average over the targets."
        )
        with clock.step("registering"):
            results, transforms = _register(pair, project, folder / "registration", jobs, say, bar)
        with clock.step("scoring"):
            found = evaluate_project(project, transforms)
        with clock.step("maps and report"), bar("maps and report") as show:
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
        evaluation, believed = found, found.trust
        true_scores = _true_scores(pair, found.transforms, project.targets)
    scores = evaluation.scores
    return DemoResult(
        folder=folder,
        pair=pair,
        annotations=int(told["placed"]),
        registrations=results,
        evaluation=evaluation,
        true_scores=true_scores,
        landmark_error=_mean_gap({name: one.landmark[PRIMARY] for name, one in scores.items()}, true_scores),
        posterior_error=_mean_gap({name: one.score[PRIMARY] for name, one in scores.items()}, true_scores),
        trust="" if believed is None else believed.sentence,
        files=files,
        seconds=clock.seconds,
    )


class _Clock:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - started


def _mean_gap(estimates: Mapping[str, float | None], truth: dict[str, float]) -> float:
    """Mean distance of the estimates from the truth."""
    return float(np.mean([abs(value - truth[name]) for name, value in estimates.items() if value is not None]))


def _register(
    pair: DemoPair, project: Project, folder: Path, jobs: int | None, say: Say, bar: Bar
) -> tuple[list[RegistrationResult], dict[str, Transform]]:
    """Register with every setting, and add the finished results to the project."""
    settings = DEMO_SETTINGS if project.d == 2 else _SETTINGS_3D
    say(f"4. Registering with {len(settings)} settings of SimpleITK ...")
    with bar("registering") as show:
        results = run_registrations(
            pair.fixed,
            pair.moving,
            settings,
            folder,
            jobs=jobs or os.cpu_count() or 1,
            time_limit=600,
            progress=show,
        )
    transforms: dict[str, Transform] = {}
    for one in results:
        if one.path is None:
            say(f"   {one.name} failed: {one.problem}")
            continue
        project.add_transform(one.name, one.path)
        transforms[one.name] = project.transform(one.name)
    if not transforms:
        raise WarpgaugeError("No registration finished; see the error.log files in the registration folder.")
    return results, transforms


def _true_scores(pair: DemoPair, transforms: dict[str, Transform], targets: Floats) -> dict[str, float]:
    """RMS errors against the known deformation, over the targets where everything is defined."""
    truth = pair.truth.map(targets)
    mapped = {name: one.map(targets) for name, one in transforms.items()}
    defined = np.isfinite(truth).all(axis=1)
    for values in mapped.values():
        defined &= np.isfinite(values).all(axis=1)
    return {name: displacement_norm(values[defined] - truth[defined], 2) for name, values in mapped.items()}


def _write_maps(folder: Path, project: Project, found: Evaluation) -> dict[str, Path]:
    """Write maps of the uncertainty, and of the errors of the best and the worst registration."""
    posterior, transforms, evaluation = found.posterior, found.transforms, found
    grid = project.fixed_grid.coarsened(max(1.0, max(project.fixed_grid.size) / (256 if project.d == 2 else 96)))
    ranking = [name for name in evaluation.ranking() if name != evaluation.baseline]
    chosen = [ranking[0], ranking[-1]] if len(ranking) > 1 else ranking
    entropy = maps.entropy_map(posterior, grid)
    below = displayable(maps.warped_image(project.image("fixed"), lambda points: points, grid))
    errors = {name: maps.error_map(posterior, transforms[name], grid) for name in chosen}
    out = folder / "maps"
    out.mkdir()
    points = posterior.annotations.fixed_points
    limits = maps.entropy_limits(posterior, pixel=project.fixed_grid.pixel)
    blended = Picture(errors, grid, "error", image=below, entropy=entropy, limits=limits, points=points)
    title = "Where the best and the worst registration contradict the annotations"
    files = {"blended map": save_picture(map_picture(blended, title=title), out / "blended.png")}
    deviation = Picture(
        {"posterior": maps.standard_deviation_map(posterior, grid)},
        grid,
        "standard deviation",
        image=below,
        points=points,
    )
    files["uncertainty map"] = save_picture(map_picture(deviation, width=6.0), out / "uncertainty.png")
    return files
