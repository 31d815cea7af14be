"""Transform parameter files of elastix, against transformix and SimpleITK."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transform_tools import (
    defined,
    elastix_grid,
    elastix_text,
    itk_text,
    map_with_itk,
    need,
    numbers,
    points_within,
    random_grid,
    run_transformix,
)
from warpgauge.errors import FileFormatError, InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import Chain, companion_files, read_transform

sitk = pytest.importorskip("SimpleITK")

Cases = dict[str, tuple[Path, Floats]]
# transformix prints six decimals, so 5e-7 is its own rounding.
PRINTED = 6e-7


def _linear_cases(folder: Path, rng: np.random.Generator) -> Cases:
    cases: Cases = {}
    small = rng.uniform(-0.4, 0.4, 3)
    kinds = {
        "translation2": (2, "TranslationTransform", [3.5, -7.25], ""),
        "translation3": (3, "TranslationTransform", [3.5, -7.25, 11], ""),
        "euler2": (2, "EulerTransform", [0.3, 4, 5], ""),
        "euler3": (3, "EulerTransform", [*small, 4, 5, 6], ""),
        "euler3_zyx": (3, "EulerTransform", [*small, 4, 5, 6], '(ComputeZYX "true")'),
        "similarity2": (2, "SimilarityTransform", [1.2, 0.3, 4, 5], ""),
        "similarity3": (3, "SimilarityTransform", [*small, 4, 5, 6, 1.3], ""),
        "affine2": (2, "AffineTransform", [1.1, 0.2, -0.3, 0.9, 4, 5], ""),
        "affine3": (3, "AffineTransform", [*(np.eye(3) + rng.normal(0, 0.2, (3, 3))).ravel(), 4, 5, 6], ""),
        "affinelog2": (2, "AffineLogTransform", [0.1, 0.2, -0.3, 0.05, 4, 5], ""),
        "affinelog3": (3, "AffineLogTransform", [*rng.normal(0, 0.2, 9), 4, 5, 6], ""),
    }
    for name, (d, kind, parameters, extra) in kinds.items():
        centre = "" if kind == "TranslationTransform" else f"(CenterOfRotationPoint {numbers(rng.normal(0, 50, d))})\n"
        file = folder / f"{name}.txt"
        file.write_text(elastix_text(d, kind, parameters, centre + extra))
        cases[name] = (file, rng.uniform(-90, 90, (20, d)))
    return cases


def _spline_cases(folder: Path, rng: np.random.Generator) -> Cases:
    cases: Cases = {}
    kinds = ("straight", "flipped", "swapped", "oblique")
    for number, (d, order, kind) in enumerate(
        (d, order, kind)
        for d in (2, 3)
        for order in (1, 2, 3)
        for kind in ("BSplineTransform", "RecursiveBSplineTransform")
    ):
        grid = random_grid(rng, d, kinds[number % 4])
        # elastix itself reads outside its memory where a recursive B-spline has another start than 0.
        index = rng.integers(-2, 3, d) if kind == "BSplineTransform" else np.zeros(d, int)
        moved = Grid(grid.size, grid.spacing, grid.index_to_world(index), grid.direction, "mm")
        name = f"{kind}{d}_{order}"
        file = folder / f"{name}.txt"
        coefficients = rng.normal(0, 4, (d, *grid.shape))
        file.write_text(elastix_text(d, kind, coefficients, elastix_grid(grid, order, index)))
        # Away from the border itself, where the last digit decides between inside and outside.
        cases[name] = (file, points_within(rng, moved, 20, (order - 1) / 2 + 1e-4))
    return cases


def _landmark_cases(folder: Path, rng: np.random.Generator) -> Cases:
    cases: Cases = {}
    names = ("ThinPlateSpline", "VolumeSpline")
    for d, kernel, relaxation in ((2, "ThinPlateSpline", 0.0), *((3, name, 0.1) for name in names)):
        source = rng.uniform(0, 40, (9, d))
        target = source + rng.normal(0, 2, source.shape)
        extra = f"""(SplineKernelType "{kernel}")
(SplineRelaxationFactor {relaxation})
(FixedImageLandmarks {numbers(source)})"""
        file = folder / f"kernel{d}_{kernel}.txt"
        file.write_text(elastix_text(d, "SplineKernelTransform", target, extra))
        cases[file.stem] = (file, np.vstack([rng.uniform(0, 40, (15, d)), source[:2]]))
    return cases


def _chain_cases(folder: Path, rng: np.random.Generator) -> Cases:
    grid = random_grid(rng, 3, low=10, high=14)
    affine = [*(np.eye(3) + rng.normal(0, 0.02, (3, 3))).ravel(), 0.4, -0.5, 0.6]
    centre = f"(CenterOfRotationPoint {numbers(grid.index_to_world(np.asarray(grid.size) / 2))})"
    first = folder / "first.txt"
    first.write_text(elastix_text(3, "AffineTransform", affine, centre))
    points = points_within(rng, grid, 20, 3.5)
    cases: Cases = {}
    for key in ("InitialTransformParameterFileName", "InitialTransformParametersFileName"):
        file = folder / f"{key}.txt"
        coefficients = rng.normal(0, 0.5, (3, *grid.shape))
        # transformix knows the old spelling only from old versions, which looked up relative names from the current
        # folder: the test runs it in the folder of the files.
        file.write_text(elastix_text(3, "BSplineTransform", coefficients, elastix_grid(grid, 3), first.name, key=key))
        cases[file.stem] = (file, points)
    return cases


def _file_cases(folder: Path, rng: np.random.Generator) -> Cases:
    """TOML, and ignored directions."""
    cases: Cases = {}
    (folder / "toml.toml").write_text(_toml(elastix_text(3, "TranslationTransform", [1.5, 2.5, -3.5])))
    cases["toml"] = (folder / "toml.toml", rng.normal(size=(5, 3)))

    grid2 = random_grid(rng, 3)
    coefficients = rng.normal(0, 3, (3, *grid2.shape))
    # GridDirection is used even where UseDirectionCosines is false.
    (folder / "cosines.txt").write_text(
        elastix_text(3, "BSplineTransform", coefficients, elastix_grid(grid2, 3), cosines="false")
    )
    cases["cosines"] = (folder / "cosines.txt", points_within(rng, grid2, 20, 1.01))
    return cases


def _toml(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if line.startswith("("):
            key, *values = line.strip("()").split()
            listed = ", ".join(values)
            lines.append(f"{key} = {listed if len(values) == 1 else f'[{listed}]'}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def transformix(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Floats, Floats]]:
    """All cases through transformix in one process, since starting it takes ten seconds."""
    need("itk")
    folder = tmp_path_factory.mktemp("elastix")
    rng = np.random.default_rng(20240311)
    cases = {
        **_linear_cases(folder, rng),
        **_spline_cases(folder, rng),
        **_landmark_cases(folder, rng),
        **_chain_cases(folder, rng),
        **_file_cases(folder, rng),
    }
    mapped = run_transformix(folder, cases)
    return {name: (*case, mapped[name]) for name, case in cases.items()}


def test_every_kind_maps_as_transformix(transformix: dict[str, tuple[Path, Floats, Floats]]) -> None:
    """Every transform, chain and indirection of elastix maps points as transformix does, to its printed digits."""
    assert len(transformix) >= 30
    worst = {}
    for name, (file, points, expected) in transformix.items():
        mapped = read_transform(file).map(points)
        assert expected.shape == points.shape, name
        worst[name] = float(np.abs(mapped - expected).max())
        # transformix rounds its input to nothing, but a shift of a transform that does nothing would pass unseen.
        assert np.abs(expected - points).max() > 0.1, name
    assert {name: error for name, error in worst.items() if not error < PRINTED} == {}


def test_an_oblique_direction_is_read_by_columns(tmp_path: Path) -> None:
    """The same coefficients on the same grid map as in SimpleITK, whose files name the direction by rows."""
    rng = np.random.default_rng(5)
    grid = random_grid(rng, 3, "oblique")
    coefficients = rng.normal(0, 4, (3, *grid.shape))
    (tmp_path / "t.txt").write_text(elastix_text(3, "BSplineTransform", coefficients, elastix_grid(grid, 3)))
    fixed = [*map(float, grid.size), *grid.origin, *grid.spacing, *grid.direction.ravel()]
    (tmp_path / "t.tfm").write_text(itk_text("BSplineTransform", 3, coefficients.ravel(), fixed))
    points = points_within(rng, grid, 20, 1.01)
    expected = map_with_itk(sitk.ReadTransform(str(tmp_path / "t.tfm")), points)
    np.testing.assert_allclose(read_transform(tmp_path / "t.txt").map(points), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_outside_is_masked_where_elastix_jumps(tmp_path: Path, order: int) -> None:
    """Outside control indices [(order - 1) / 2, n - 1 - (order - 1) / 2] the result is NaN and counted."""
    rng = np.random.default_rng(order)
    grid = random_grid(rng, 3)
    file = tmp_path / "t.txt"
    file.write_text(elastix_text(3, "BSplineTransform", rng.normal(size=(3, *grid.shape)), elastix_grid(grid, order)))
    transform = read_transform(file)
    margin = (order - 1) / 2
    middle = (np.asarray(grid.size) - 1) / 2
    for axis in range(3):
        for place, inside in (
            (margin, True),
            (margin - 1e-3, False),
            (grid.size[axis] - 1 - margin, True),
            (grid.size[axis] - 1 - margin + 1e-3, False),
        ):
            index = middle.copy()
            index[axis] = place
            point = grid.index_to_world(index)[None]
            assert defined(transform, point).tolist() == [inside]
            assert np.isfinite(transform.map(point)).all() == inside
            assert int(np.sum(~defined(transform, point))) == (not inside)


def test_a_recorded_folder_that_is_gone_is_replaced_by_the_file_next_to_it(tmp_path: Path) -> None:
    """An initial file under a folder that does not exist here is found beside the naming file, and that is stated."""
    (tmp_path / "a.txt").write_text(elastix_text(2, "TranslationTransform", [1, 2]))
    for recorded in ("/no/such/folder/a.txt", "gone/a.txt", "C:\\data\\a.txt"):
        (tmp_path / "b.txt").write_text(elastix_text(2, "TranslationTransform", [10, 20], initial=recorded))
        transform = read_transform(tmp_path / "b.txt")
        assert transform.map([[0.0, 0.0]]).tolist() == [[11.0, 22.0]]
        assert any(repr(recorded) in text and "next to" in text for text in transform.description.assumptions)
    (tmp_path / "b.txt").write_text(elastix_text(2, "TranslationTransform", [10, 20], initial="a.txt"))
    assert not any("next to" in text for text in read_transform(tmp_path / "b.txt").description.assumptions)
    (tmp_path / "b.txt").write_text(elastix_text(2, "TranslationTransform", [10, 20], initial="x.txt"))
    with pytest.raises(FileFormatError, match="neither there nor next to it"):
        read_transform(tmp_path / "b.txt")


def test_chains_that_end_in_themselves_are_refused(tmp_path: Path) -> None:
    """A file that draws in itself, directly or through others, is an error and no endless loop."""
    for name, initial in (("a.txt", "b.txt"), ("b.txt", "c.txt"), ("c.txt", "a.txt"), ("own.txt", "own.txt")):
        (tmp_path / name).write_text(elastix_text(2, "TranslationTransform", [1, 2], initial=initial))
    for name in ("a.txt", "own.txt"):
        with pytest.raises(FileFormatError, match="break the circle"):
            read_transform(tmp_path / name)


def test_a_list_with_a_file_and_its_initial_transform_is_refused(tmp_path: Path) -> None:
    """TransformParameters.1 draws in .0 by itself; a list of both would apply .0 twice."""
    (tmp_path / "t.0.txt").write_text(elastix_text(2, "TranslationTransform", [1, 2]))
    (tmp_path / "t.1.txt").write_text(elastix_text(2, "TranslationTransform", [10, 20], initial="t.0.txt"))
    with pytest.raises(InvalidInputError, match="apply it twice"):
        read_transform([tmp_path / "t.0.txt", tmp_path / "t.1.txt"])


def test_compose_applies_the_initial_transform_first(tmp_path: Path) -> None:
    """With a scaling and a shift the order matters: 2 (x + 1), not 2 x + 1."""
    (tmp_path / "shift.txt").write_text(elastix_text(2, "TranslationTransform", [1, 1]))
    scale = "(CenterOfRotationPoint 0 0)"
    (tmp_path / "scale.txt").write_text(
        elastix_text(2, "AffineTransform", [2, 0, 0, 2, 0, 0], scale, initial="shift.txt")
    )
    transform = read_transform(tmp_path / "scale.txt")
    assert isinstance(transform, Chain)
    assert transform.map([[3.0, 5.0]]).tolist() == [[8.0, 12.0]]
    assert Chain(transform.transforms[::-1]).map([[3.0, 5.0]]).tolist() == [[7.0, 11.0]]


def test_ignored_directions_are_stated_and_can_be_put_back(tmp_path: Path) -> None:
    """With UseDirectionCosines false points are origin + spacing * index; given both grids, true points map."""
    rng = np.random.default_rng(3)
    fixed, moving = random_grid(rng, 3), random_grid(rng, 3)
    shift = np.array([1.5, -2.0, 3.0])
    text = elastix_text(3, "TranslationTransform", shift, cosines="false")
    file = tmp_path / "t.txt"
    file.write_text(text.replace(f"(Direction {numbers(np.eye(3))})", f"(Direction {numbers(fixed.direction.T)})"))
    with pytest.warns(SuspiciousDataWarning, match="direction ignored"):
        plain = read_transform(file)
    np.testing.assert_allclose(plain.map(np.zeros((1, 3))), [shift], atol=1e-12)
    assert plain.description.frame == "world without direction cosines"
    index = rng.uniform(0, 5, (10, 3))
    moving_index = (fixed.origin + fixed.spacing * index + shift - moving.origin) / moving.spacing
    mapped = read_transform(file, reference=fixed, moving=moving).map(fixed.index_to_world(index))
    np.testing.assert_allclose(mapped, moving.index_to_world(moving_index), atol=1e-9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (elastix_text(2, "TranslationTransform", [3, 4], '(UseBinaryFormatForTransformationParameters "true")'),
         "parameters in a binary file"),
        (elastix_text(2, "TranslationTransform", [3, 4], initial="a.txt", how="Add"), "must be 'Compose' to be read"),
        (elastix_text(2, "DeformationFieldTransform", [0], '(DeformationFieldFileName "f.mha")'), "give the field"),
        (elastix_text(2, "File", [0], '(TransformFileName "t.tfm")'), "give the ITK file that"),
        (elastix_text(2, "WeightedCombinationTransform", [1]), "holds a 'WeightedCombinationTransform'"),
    ],
)  # fmt: skip
def test_kinds_that_are_not_read_are_refused_with_what_to_give_instead(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t.txt").write_text(text)
    with pytest.raises(FileFormatError, match=said):
        read_transform(tmp_path / "t.txt")


def test_all_files_that_a_file_draws_in_are_listed(tmp_path: Path) -> None:
    """Initial transforms along the chain, so that a change of any of them can be noticed."""
    for name, initial in (("a.txt", "NoInitialTransform"), ("b.txt", "a.txt"), ("c.txt", "b.txt")):
        (tmp_path / name).write_text(elastix_text(2, "TranslationTransform", [1, 2], initial=initial))
    assert read_transform(tmp_path / "c.txt").map([[0.0, 0.0]]).tolist() == [[3.0, 6.0]]
    assert sorted(file.name for file in companion_files(tmp_path / "c.txt")) == ["a.txt", "b.txt"]
