"""The one rule of misreadings: right files and bad registrations are left alone, the usual misreadings are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import misreading_worlds as worlds
import warpgauge as wg
from misreading_worlds import Map, Pair
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.misreadings import Fit, judge_reading, landmark_readings
from warpgauge.io.transforms import AffineTransform, Chain, DisplacementField
from warpgauge.io.transforms.transform import scaled

MADE, REAL = 6, 4


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return list(worlds.pairs(7, MADE, REAL))


def judged(pair: Pair, transform: Map, fixed: Floats | None = None, moving: Floats | None = None) -> Fit:
    sides = pair.fixed if fixed is None else fixed, pair.moving if moving is None else moving
    return judge_reading(worlds.transform(transform, pair.d), *sides, pair.fixed_grid, pair.moving_grid)


def test_five_kinds_are_named_where_the_right_reading_leaves_a_third(pairs: list[Pair]) -> None:
    """At least 95 % of those that raise the mean error by half, and none is taken for another kind."""
    found: Counter[str] = Counter()
    for pair in pairs:
        for right, back in worlds.honest(pair).values():
            left = worlds.mean_error(right, pair.fixed, pair.moving)
            if left > pair.before / 3:
                continue
            for wrong in worlds.misread(pair, right, back):
                if worlds.mean_error(wrong.transform, wrong.fixed, wrong.moving) >= 1.5 * left:
                    kinds = judged(pair, wrong.transform, wrong.fixed, wrong.moving).kinds
                    found["named" if kinds == (wrong.kind,) else "silent" if not kinds else "other"] += 1
    print(dict(found))
    assert found["other"] == 0
    assert found["named"] >= 0.95 * sum(found.values()) > 100


def test_no_right_file_is_named(pairs: list[Pair]) -> None:
    """Good, weak, strong, noisy registrations of the pair, and none at all: no other reading fits far better."""
    rng = np.random.default_rng(1)
    for pair in pairs:
        honest = {name: there for name, (there, _) in worlds.honest(pair).items()}
        for name, transform in {**honest, **worlds.bad(pair, honest["spline"], rng)}.items():
            if name != "half of the image":  # 2 of 200 of these are named: it is no registration of the pair
                assert judged(pair, transform).kinds == (), (pair.name, name)


def test_one_landmark_file_alone_in_another_frame_is_named(pairs: list[Pair]) -> None:
    """LPS against RAS, voxels against mm, x and y: where the registration is good, none is taken for another kind."""
    found: Counter[str] = Counter()
    for pair in pairs:
        right, _ = worlds.honest(pair)["spline"]
        if worlds.mean_error(right, pair.fixed, pair.moving) > pair.before / 3:
            continue
        for wrong in worlds.one_side(pair, right):
            kinds = judged(pair, wrong.transform, wrong.fixed, wrong.moving).kinds
            found["named" if kinds == (wrong.kind,) else "silent" if not kinds else "other"] += 1
    print(dict(found))
    assert found["other"] <= 0.02 * sum(found.values())
    assert found["named"] >= 0.8 * sum(found.values()) > 20


def test_two_misreadings_at_once_are_rarely_taken_for_one(pairs: list[Pair]) -> None:
    """No single reading mends both, so that silence is right; of the measured 94 two were named."""
    named = total = 0
    for pair in pairs:
        right, back = worlds.honest(pair)["spline"]
        for wrong in worlds.twice(pair, right, back):
            total += 1
            named += bool(judged(pair, wrong.transform, wrong.fixed, wrong.moving).kinds)
    assert named <= 0.05 * total
    assert total > 30


def _field(pair: Pair, transform: Map, spacing: float) -> tuple[Grid, Floats]:
    """A grid over the fixed image, and the displacements of a map on its nodes, (n, d)."""
    grid = pair.fixed_grid
    size = np.ceil(np.array(grid.size) * grid.spacing / spacing).astype(int) + 1
    nodes = Grid(tuple(size.tolist()), np.full(grid.d, spacing), grid.origin, grid.direction, grid.units)
    points = nodes.points()
    return nodes, transform(points) - points


@pytest.mark.parametrize("suffix", [".mha", ".nii.gz", ".h5"])
def test_fields_that_simpleitk_wrote_are_judged_as_the_maps_are(tmp_path: Path, suffix: str) -> None:
    """Fields of two pairs, one with oblique axes: right, components exchanged, the other direction, in RAS."""
    sitk = pytest.importorskip("SimpleITK")
    oblique = next(pair for pair in worlds.pairs(3, 20, 0) if pair.d == 3 and pair.fixed_grid.direction[0, 1])
    flat = next(pair for pair in worlds.pairs(4, 1, 0) if pair.d == 2)
    for pair in (oblique, flat):
        (right, back), d = worlds.honest(pair)["smooth"], pair.d
        wrong = {
            "": right,
            "xy": lambda x, right=right, d=d: x + (right(x) - x)[:, [1, 0, 2][:d]],
            "inverse": back,
            **({"lps": lambda x, right=right: x + (right(x) - x) * worlds.RAS} if d == 3 else {}),
        }
        for kind, transform in wrong.items():
            nodes, vectors = _field(pair, transform, float(np.max(pair.fixed_grid.extent)) / 30)
            image = sitk.GetImageFromArray(vectors.reshape(*nodes.shape, d), isVector=True)
            image.SetSpacing(nodes.spacing.tolist())
            image.SetOrigin(nodes.origin.tolist())
            image.SetDirection(nodes.direction.ravel().tolist())
            path = tmp_path / f"field{suffix}"
            if suffix == ".h5":
                sitk.WriteTransform(
                    sitk.DisplacementFieldTransform(sitk.Cast(image, sitk.sitkVectorFloat64)), str(path)
                )
            else:
                sitk.WriteImage(image, str(path))
            said = {"convention": "displacement"} if suffix != ".h5" else {}
            options = said | ({"frame": "LPS"} if suffix == ".nii.gz" else {"frame": "world"} if said else {})
            read = wg.read_transform(path, reference=pair.fixed_grid, moving=pair.moving_grid, **options)
            fit = judge_reading(read, pair.fixed, pair.moving, pair.fixed_grid, pair.moving_grid)
            assert fit.kinds == ((kind,) if kind else ()), (pair.name, kind, fit)


def test_vectors_in_voxels_of_a_coarse_field_are_named_with_what_reads_them() -> None:
    """Six pairs: nodes four units apart; where they are two apart, a weak registration looks the same."""
    found: Counter[tuple[float, tuple[str, ...]]] = Counter()
    for pair in list(worlds.pairs(5, 3, 0)):
        right, _ = worlds.honest(pair)["spline"]
        for spacing in (4.0, 2.0):
            nodes, vectors = _field(pair, right, spacing)
            indices = vectors @ np.linalg.inv(nodes.direction * nodes.spacing).T
            field = DisplacementField(indices.T.reshape(pair.d, *nodes.shape), nodes)
            fit = judge_reading(field, pair.fixed, pair.moving, pair.fixed_grid, pair.moving_grid)
            found[spacing, fit.kinds] += 1
    print(dict(found))
    assert found[4.0, ("voxel",)] == 6
    assert found[2.0, ()] == 6


def test_other_scales_and_orders_are_named_with_the_option_that_reads_them() -> None:
    """A transform of images four times as large or as small, in metres, and a chain in the other order."""
    rng = np.random.default_rng(2)
    fixed = rng.uniform(0, 200, (40, 2))
    moving = fixed @ np.array([[0.98, 0.17], [-0.17, 0.98]]) + [12.0, -30.0]
    for scale in (0.25, 4.0, 1000.0):
        other = AffineTransform([[0.98, -0.17], [0.17, 0.98]], np.array([12.0, -30.0]) / scale)
        fit = judge_reading(other, fixed, moving)
        assert fit.kinds == ("scale",)
        assert fit.mend == (("scale", f"{scale:g}"),)
        assert f"--scale {scale:g} --replace" in fit.words
        assert judge_reading(scaled(other, scale), fixed, moving).kinds == ()
    turn, shift = AffineTransform([[0.0, -1.0], [1.0, 0.0]], [0, 0]), AffineTransform(np.eye(2), [150.0, 0.0])
    chain = Chain([turn, shift])
    assert judge_reading(Chain([shift, turn]), fixed, chain.map(fixed)).kinds == ("order",)


def test_grids_of_two_origins_are_no_misreading_of_a_transform_that_does_nothing() -> None:
    """Aligning two images by their indices removes a shift; that is no other reading of the identity."""
    pair = next(pair for pair in worlds.pairs(6, 1, 0) if pair.d == 3)
    away = np.array([80.0, -60.0, 40.0])
    grid = pair.moving_grid
    moved = Grid(grid.size, grid.spacing, grid.origin + away, grid.direction, "mm")
    transform = worlds.transform(lambda x: x, 3)
    assert judge_reading(transform, pair.fixed, pair.moving + away, pair.fixed_grid, moved).kinds == ()


def test_landmarks_that_do_not_fit_are_refused() -> None:
    """Another dimension, another count, none that is finite."""
    transform = AffineTransform(np.eye(3), np.zeros(3))
    points = np.zeros((5, 3))
    for fixed, moving in ((points[:, :2], points[:, :2]), (points, points[:4]), (points * np.nan, points)):
        with pytest.raises(InvalidInputError):
            judge_reading(transform, fixed, moving)


def _nifti(path: Path, nodes: Grid, vectors: Floats, intent: int) -> Path:
    nibabel = pytest.importorskip("nibabel")
    data = vectors.reshape(*nodes.shape, 3).transpose(2, 1, 0, 3)[:, :, :, None]
    image = nibabel.Nifti1Image(data, np.diag([-1.0, -1.0, 1.0, 1.0]) @ nodes.affine)
    image.header.set_intent(intent)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, path)
    return path


# The vectors or matrix of a file, by what is wrong with it; and the options that it was read with.
WRONG_FILES = [
    ("1006 holds LPS", {}),
    ("1007 holds RAS", {}),
    ("1007 holds RAS", {"convention": "displacement", "frame": "LPS"}),
    ("1007 holds LPS", {"frame": "RAS", "convention": "displacement"}),
    ("1007 holds voxels", {"convention": "displacement"}),
    ("1007 holds positions", {"convention": "displacement"}),
    ("1007 holds LPS", {"convention": "position"}),
    ("1007 holds LPS", {"direction": "moving_to_fixed"}),
    ("array holds RAS", {"convention": "displacement", "axes": "zyx"}),
    ("array holds LPS", {"convention": "displacement", "axes": "zyx", "frame": "RAS"}),
    ("matrix of RAS", {}),
    ("matrix of LPS", {"frame": "RAS"}),
    ("matrix of LPS", {"direction": "moving_to_fixed"}),
    ("matrix of another scale", {}),
    ("matrix of another scale", {"scale": 0.25}),
]


@pytest.mark.parametrize(("wrong", "options"), WRONG_FILES)
def test_the_options_of_a_note_read_the_file_as_it_promises(
    tmp_path: Path, wrong: str, options: dict[str, str]
) -> None:
    """Whatever a file was read with, the options that mend it leave the error that the note has."""
    rng = np.random.default_rng(8)
    turn = Rotation.from_euler("xyz", [20, -15, 30], degrees=True).as_matrix()
    nodes = Grid((14, 13, 12), (4.0, 5.0, 6.0), (-30.0, -60.0, -20.0), turn, "mm")
    right = AffineTransform(np.eye(3) + 0.03 * rng.normal(size=(3, 3)), [9.0, -6.0, 4.0])
    fixed = nodes.index_to_world(rng.uniform(2, 9, (40, 3)))
    moving = right.map(fixed)
    places = nodes.points()
    vectors = right.map(places) - places
    steps = np.linalg.inv(nodes.direction * nodes.spacing)
    held = {"LPS": vectors, "RAS": vectors * worlds.RAS, "voxels": vectors @ steps.T, "positions": places + vectors}
    kind, _, what = wrong.partition(" holds ")
    if what and kind == "array":
        path = tmp_path / "field.npy"
        np.save(path, held[what].reshape(*nodes.shape, 3))
    elif what:
        path = _nifti(tmp_path / "field.nii.gz", nodes, held[what], int(kind))
    else:
        path = tmp_path / "matrix.txt"
        ras = np.diag([-1.0, -1.0, 1.0, 1.0])
        rows = np.vstack([np.column_stack([right.matrix, right.offset]), [0, 0, 0, 1]])
        scale = 1.0 if wrong != "matrix of another scale" else 1.0 if options else 0.25
        rows[:3, 3] *= scale
        np.savetxt(path, ras @ rows @ ras if wrong == "matrix of RAS" else rows)
    grids = {"reference": nodes, "moving": nodes}
    fit = judge_reading(wg.read_transform(path, **grids, **options), fixed, moving, nodes, nodes)
    assert fit.mend
    told = {name: float(value) if name == "scale" else value for name, value in fit.mend}
    mended = wg.read_transform(path, **grids, **{**options, **told})
    assert np.linalg.norm(mended.map(fixed) - moving, axis=1).mean() == pytest.approx(fit.better, abs=1e-3)
    assert fit.better < 0.1 * fit.given


def test_readings_have_a_name_each() -> None:
    """What --read-as takes is unique, and every reading of landmarks changes a side."""
    grid = Grid((10, 20, 30), (1.0, 2.0, 3.0), (5.0, 6.0, 7.0), units="mm")
    readings = list(landmark_readings(3, grid, grid))
    assert len({reading.option for reading in readings}) == len(readings)
    fixed, moving = np.random.default_rng(0).uniform(1, 9, (2, 6, 3))
    for reading in readings:
        starts, ends = reading.points(fixed, moving)
        assert not (np.array_equal(starts, fixed) and np.array_equal(ends, moving)), reading.option
