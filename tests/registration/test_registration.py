from __future__ import annotations

import csv
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy import ndimage

import warpgauge as wg
from odd_registrations import Odd
from transform_tools import need
from warpgauge.errors import InvalidInputError
from warpgauge.maps import write_map
from warpgauge.registration import (
    DEFAULT_SETTINGS,
    ElastixSetting,
    PipelineSetting,
    SimpleItkSetting,
    paper_grid,
    reduced_gray,
    run_registrations,
    write_input,
)


def test_one_that_crashes_raises_or_hangs_takes_nothing_with_it(tmp_path: Path) -> None:
    """Each failure is reported as a sentence in its own row, and the others finish."""
    settings = [Odd("crashes"), Odd("works"), Odd("raises"), Odd("hangs")]
    seen: list[tuple[int, int]] = []
    results = run_registrations(
        tmp_path / "a", tmp_path / "b", settings, tmp_path, jobs=2, time_limit=12, progress=lambda *n: seen.append(n)
    )
    assert [one.name for one in results] == ["crashes", "works", "raises", "hangs"]
    crashed, worked, raised, hung = results
    assert crashed.path is None
    assert "code 3" in str(crashed.problem)
    assert worked.problem is None
    np.testing.assert_allclose(wg.read_transform(worked.path).map([[1.0, 1.0]]), [[3.0, 4.0]])
    assert raised.problem == "ValueError: no overlap"
    assert "no overlap" in (tmp_path / "raises" / "error.log").read_text()
    assert "not finished within 12 s" in str(hung.problem)
    assert seen[-1] == (4, 4)


def test_one_process_runs_the_settings_until_it_crashes_or_hangs(tmp_path: Path) -> None:
    """An exception leaves the worker in use; a crash or a hang replaces it, and what waits is still run."""
    names = ["works", "raises", "second", "crashes", "third", "hangs", "fourth"]
    results = run_registrations(tmp_path, tmp_path, [Odd(name) for name in names], tmp_path / "out", time_limit=12)
    assert [one.name for one in results if one.problem is None] == ["works", "second", "third", "fourth"]
    processes = [(tmp_path / "out" / name / "process").read_text() for name in names]
    first, replaced, last = processes[0], processes[4], processes[6]
    assert processes == [first, first, first, first, replaced, replaced, last]
    assert len({first, replaced, last, str(os.getpid())}) == 4


_INTERRUPTED = """
import importlib, sys
from odd_registrations import Odd
if __name__ == "__main__":
    importlib.import_module("warpgauge.cli.register")._settings = lambda *_: [Odd("works"), Odd("hangs")]
    sys.exit(importlib.import_module("warpgauge.cli.app").run(["register", sys.argv[1], "--jobs", "1"]))
"""


def test_what_is_finished_is_kept_when_the_rest_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C while the second hangs: the first is a transform of the project, the second is not, no stage is left."""
    write_map(np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32), wg.Grid((40, 40)), tmp_path / "a.nrrd")
    folder = tmp_path / "project"
    wg.Project.create(folder, fixed=tmp_path / "a.nrrd", moving=tmp_path / "a.nrrd").close()
    script = tmp_path / "interrupted.py"
    script.write_text(_INTERRUPTED)
    search = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )
    while process.poll() is None and not (folder / "registration" / "hangs" / "process").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 1, told
    assert "everything that was already saved is kept" in told
    with wg.Project.open(folder) as project:
        assert project.transform_names() == ["works"]
        np.testing.assert_allclose(project.transform("works").map([[1.0, 1.0]]), [[3.0, 4.0]])
    assert not (folder / "registration" / "stages").exists()


class _Timed(NamedTuple):
    """Takes so long after a start of two seconds that all share."""

    name: str
    own: float
    stages: tuple[str, ...] = ("start",)

    def seconds(self, size: object, stage: str | None = None) -> float:
        return self.own if stage is None else 2.0


def test_the_forecast_is_by_the_speed_of_this_machine_and_the_bar_by_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three times slower than where the estimates were made: 3 (2 + 10) s; a start of 8 s then says 8 / 2 x 10 s."""
    register = importlib.import_module("warpgauge.cli.register")
    monkeypatch.setattr(register, "_pace", lambda: 3.0)
    shown: list[tuple[int, int]] = []
    project = SimpleNamespace(fixed_grid=wg.Grid((8, 8)))
    settings = [_Timed("short", 4.0), _Timed("long", 10.0), _Timed("other", 4.0)]
    forecast = register._Forecast(settings, project, 2, lambda *n: shown.append(n))
    assert [one.name for one in forecast.longest_first] == ["long", "short", "other"]
    forecast.tell()
    assert "3 registrations, 2 at a time; about 36 s if" in capsys.readouterr().err
    forecast.watch("start", 0.5)
    forecast.tell_again("start", 8.0)
    assert "The start took 8 s: about 40 s more." in capsys.readouterr().err
    forecast.watch("long", 0.5)
    forecast.watch("long", 0.2)  # never backwards
    for name in ("long", "short", "other"):
        forecast.watch(name, 1.0)
    assert shown == [(50, 1000), (100, 1000), (350, 1000), (350, 1000), (600, 1000), (800, 1000), (1000, 1000)]


def test_names_must_differ(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="different names"):
        run_registrations(tmp_path, tmp_path, [Odd("a"), Odd("a")], tmp_path)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, np.ndarray]:
    """A smooth random texture and itself shifted by (3, -2) world units, on a grid with spacing 0.5 x 0.5."""
    folder = tmp_path_factory.mktemp("pair")
    rng = np.random.default_rng(0)
    texture = ndimage.gaussian_filter(rng.normal(size=(140, 140)), 4)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.float32)
    grid = wg.Grid((100, 100), [0.5, 0.5], units="mm")
    write_map(texture[20:120, 20:120], grid, folder / "fixed.nrrd")
    # What is at x in the fixed image is at x + (3, -2): 6 columns to the right and 4 rows up.
    write_map(texture[24:124, 14:114], grid, folder / "moving.nrrd")
    return folder / "fixed.nrrd", folder / "moving.nrrd", np.array([3.0, -2.0])


@pytest.mark.parametrize(
    "setting",
    [
        SimpleItkSetting("affine", "affine", "squares", share=0.5),
        SimpleItkSetting("bspline", "bspline", "mattes", mesh=2, iterations=15, share=0.5),
        SimpleItkSetting("demons", "demons", iterations=20, share=0.5),
    ],
    ids=lambda one: one.name,
)
def test_simpleitk_recovers_a_known_shift_fixed_to_moving(
    pair: tuple[Path, Path, np.ndarray], tmp_path: Path, setting: SimpleItkSetting
) -> None:
    """Direction and world units: the transform that comes back maps fixed to moving points, to less than a pixel."""
    fixed, moving, shift = pair
    (result,) = run_registrations(fixed, moving, [setting], tmp_path)
    assert result.problem is None
    points = np.array([[20.0, 20.0], [30.0, 25.0], [25.0, 30.0]])
    mapped = wg.read_transform(result.path).map(points)
    assert np.linalg.norm(mapped - points - shift, axis=1).mean() < 0.4


def test_what_settings_start_from_is_made_once_and_changes_no_result(
    pair: tuple[Path, Path, np.ndarray], tmp_path: Path
) -> None:
    """Equal to each setting alone; a start that lies there from before is not believed, and nothing of it is left."""
    pytest.importorskip("SimpleITK")
    settings = [
        PipelineSetting("bspline", "bspline", mesh=4, iterations=8),
        PipelineSetting("affine", "affine", iterations=8),
        PipelineSetting("rigid", "rigid"),
    ]
    alone = {one.name: tmp_path / "alone" / one.name for one in settings}
    for one in settings:
        alone[one.name].mkdir(parents=True)
        one.run(pair[0], pair[1], alone[one.name])
    together = tmp_path / "together"
    (together / "stages").mkdir(parents=True)
    shutil.copy(alone["bspline"] / "transform.h5", together / "stages" / "start.h5")
    made: list[str] = []
    told: dict[str, list[float]] = {}
    results = run_registrations(
        pair[0],
        pair[1],
        settings,
        together,
        jobs=1,
        prepared=lambda stage, seconds: made.append(stage),
        watch=lambda name, share: told.setdefault(name, []).append(share),
    )
    assert made == ["start", "affine-mattes-8"]
    # Progress of every stage that takes time; affine and rigid are read from what was made before.
    assert list(told) == ["start", "affine-mattes-8", "bspline"]
    for shares in told.values():
        assert len(shares) >= 3
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] <= 1
    assert not (together / "stages").exists()
    points = np.random.default_rng(0).uniform(5, 45, (20, 2))
    for one in results:
        assert one.path is not None, one.problem
        expected = wg.read_transform(alone[one.name] / "transform.h5").map(points)
        np.testing.assert_array_equal(wg.read_transform(one.path).map(points), expected)


def test_elastix_recovers_a_known_shift_fixed_to_moving(pair: tuple[Path, Path, np.ndarray], tmp_path: Path) -> None:
    """As above, by itk-elastix."""
    need("itk")
    fixed, moving, shift = pair
    setting = ElastixSetting("NC", 80, 2, spacing=25.0)
    (result,) = run_registrations(fixed, moving, [setting], tmp_path)
    assert result.problem is None
    points = np.array([[20.0, 20.0], [30.0, 25.0], [25.0, 30.0]])
    mapped = wg.read_transform(result.path).map(points)
    assert np.linalg.norm(mapped - points - shift, axis=1).mean() < 0.4
    assert (tmp_path / setting.name / "elastix.log").is_file()


def test_the_papers_grid_has_30_settings_and_40_for_one_modality() -> None:
    names = [one.name for one in paper_grid()]
    assert len(set(names)) == len(names) == 30
    assert len(paper_grid(one_modality=True)) == 40
    assert {one.resolutions for one in paper_grid()} == {4, 5, 6, 7, 8}
    assert {one.iterations for one in paper_grid()} == {500, 1000}
    assert len(paper_grid(quick=True)) == 6


def test_inputs_keep_the_frame_that_the_user_gave(tmp_path: Path) -> None:
    """A colour PNG with a spacing of 2 um becomes one channel in that frame, as SimpleITK sees it."""
    import SimpleITK as sitk  # noqa: N813
    from PIL import Image

    Image.fromarray(np.full((4, 6, 3), [10, 20, 30], np.uint8)).save(tmp_path / "colour.png")
    image = wg.read_image(tmp_path / "colour.png", spacing=2.0, units="um")
    read = sitk.ReadImage(str(write_input(image, tmp_path / "out.nrrd")))
    assert read.GetSize() == (6, 4)
    assert read.GetSpacing() == (2.0, 2.0)
    assert sitk.GetArrayFromImage(read)[0, 0] == pytest.approx(0.2126 * 10 + 0.7152 * 20 + 0.0722 * 30, abs=1e-4)


def _section(points: np.ndarray) -> np.ndarray:
    """A slice of tissue as a function of world points: an outline that fits upside down too, with a texture inside."""
    texture = ndimage.gaussian_filter(np.random.default_rng(4).normal(size=(260, 260)), 4)
    texture = (texture - texture.mean()) / texture.std()
    inside = ((points[:, 0] - 130) / 95) ** 2 + ((points[:, 1] - 130) / 60) ** 2 < 1
    return np.where(inside, 2.0 + 0.4 * ndimage.map_coordinates(texture, points[:, ::-1].T, order=1), 0.0)


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, np.ndarray, np.ndarray]:
    """A section on white, and the same turned by 150 degrees, bent by 4 px and in another stain."""
    folder = tmp_path_factory.mktemp("turned")
    grid = wg.Grid((260, 260))
    angle = np.deg2rad(150)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def to_moving(points: np.ndarray) -> np.ndarray:
        return (points - 130 + 4 * np.sin(points[:, ::-1] / 30)) @ turn.T + [135.0, 122.0]

    nodes = grid.points()
    bent = np.array(nodes)
    for _ in range(30):  # the inverse, by fixed-point iteration
        bent = bent - (to_moving(bent) - nodes) @ turn
    write_map((240 - 60 * _section(nodes)).reshape(grid.shape).astype(np.float32), grid, folder / "fixed.nrrd")
    write_map((200 - 25 * _section(bent) ** 1.5).reshape(grid.shape).astype(np.float32), grid, folder / "moving.nrrd")
    turns = np.random.default_rng(0).uniform(0, 2 * np.pi, 60)
    radii = np.sqrt(np.random.default_rng(1).uniform(0, 0.8, 60))
    fixed = 130 + np.column_stack([95 * radii * np.cos(turns), 60 * radii * np.sin(turns)])
    return folder / "fixed.nrrd", folder / "moving.nrrd", fixed, to_moving(fixed)


def test_standard_settings_find_a_turned_section_of_another_stain(
    turned: tuple[Path, Path, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    """Doing nothing is off by 90 px and the bending by 2.8 px; rigid gets near that, and B-splines below it."""
    fixed, moving, points, truth = turned
    settings = [one for one in DEFAULT_SETTINGS if one.name in ("rigid", "affine", "bspline", "demons")]
    errors = {}
    for one in settings:
        folder = tmp_path / one.name
        folder.mkdir()
        mapped = wg.read_transform(one.run(fixed, moving, folder)).map(points)
        errors[one.name] = float(np.nanmean(np.linalg.norm(mapped - truth, axis=1)))
    assert np.linalg.norm(points - truth, axis=1).mean() > 60
    assert errors["rigid"] < 6
    assert errors["affine"] < 5
    assert errors["bspline"] < 2.5
    assert errors["demons"] < 5


def test_the_unit_of_grey_values_does_not_matter(
    turned: tuple[Path, Path, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    """Templates of brains have values up to 133 and 8364: the same pair in other units gives the same affine map."""
    fixed, moving, points, _ = turned
    grid = wg.Grid((260, 260))
    others = []
    for path, unit in ((fixed, 40.0), (moving, 0.005)):
        values = np.asarray(wg.read_image(path).read(), dtype=np.float32)
        others.append(write_map(values * np.float32(unit), grid, tmp_path / path.name))
    affine = next(one for one in DEFAULT_SETTINGS if one.name == "affine")
    mapped = [wg.read_transform(affine.run(*pair, tmp_path)).map(points) for pair in ((fixed, moving), tuple(others))]
    assert np.linalg.norm(mapped[0] - mapped[1], axis=1).max() < 0.5


def test_an_affine_map_of_two_brains_is_no_worse_than_doing_nothing(data_dir: Path, tmp_path: Path) -> None:
    """32 named points of two templates: 4.3 mm apart before, and mutual information alone once ended 30 mm off."""
    with (data_dir / "afids" / "afids_multirater_long.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == "tpl"]
    points, inputs = [], []
    for name, image in (("MNI152NLin6Asym", "mni152_6asym_T1"), ("MNIColin27", "colin27_T1")):
        placed = np.array([[int(row["afid"]), *(float(row[f"{axis}_mm"]) for axis in "xyz")]
                           for row in rows if row["image"] == f"tpl-{name}"])  # fmt: skip
        means = [placed[placed[:, 0] == number, 1:].mean(axis=0) for number in range(1, 33)]
        points.append(np.array(means) * [-1.0, -1.0, 1.0])  # RAS to LPS
        gray, grid = reduced_gray(wg.read_image(data_dir / "afids" / f"{image}.nii.gz"))
        inputs.append(write_map(gray, grid, tmp_path / f"{name}.nrrd"))
    affine = next(one for one in DEFAULT_SETTINGS if one.name == "affine")
    mapped = wg.read_transform(affine.run(inputs[0], inputs[1], tmp_path)).map(points[0])
    before, after = (float(np.linalg.norm(p - points[1], axis=1).mean()) for p in (points[0], mapped))
    np.testing.assert_allclose(before, 4.31, atol=0.01)  # the published figure
    assert after < before
