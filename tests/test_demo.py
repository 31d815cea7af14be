"""The demonstration at a small size: it starts clean, ranks, and everything it names is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from report_tools import assert_consistent
from warpgauge.demo import make_pair, run_demo, start_clean
from warpgauge.errors import InvalidInputError


@contextmanager
def quiet(_: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None


def test_the_whole_demonstration(tmp_path: Path) -> None:
    """The ranking is computed from the annotations; the truth beside it is that of the known deformation."""
    said: list[str] = []
    folder = tmp_path / "out"
    result = run_demo(2, folder, queries=15, say=said.append, bar=quiet)
    assert len(said) == 4
    assert set(result.true_scores) == {"similarity", "affine", "bspline-coarse", "bspline", "bspline-fine", "demons",
                                       "identity"}  # fmt: skip
    targets = wg.Project.open(folder / "project").targets
    for one in result.registrations:
        assert one.path is not None, one.problem
        truth, mapped = result.pair.truth.map(targets), wg.read_transform(one.path).map(targets)
        both = np.isfinite(truth).all(axis=1) & np.isfinite(mapped).all(axis=1)
        rms = np.sqrt(np.mean(np.sum((mapped[both] - truth[both]) ** 2, axis=1)))
        assert result.true_scores[one.name.removeprefix("standard-")] == pytest.approx(rms, rel=0.02)
    assert result.evaluation.verdict.annotations <= 15
    assert all(name in str(result) for name in result.true_scores)
    for path in result.files.values():
        assert path.stat().st_size > 1000
    assert_consistent(result.files["report"])
    report = wg.Project.open(folder / "project").verify()
    assert report.ok, report.problems
    # A second run starts clean; a folder with anything else in it is left alone.
    start_clean(folder)
    assert [one.name for one in folder.iterdir()] == [".warpgauge-demo"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="no demonstration made"):
        start_clean(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "mine"


def test_the_moving_picture_shows_at_phi_of_x_what_the_other_stain_shows_at_x(tmp_path: Path) -> None:
    """Warped back by the true deformation, the moving stain correlates with the fixed one as undeformed stains do."""
    pair = make_pair(2, tmp_path)
    fixed, moving = (wg.read_image(path).read().astype(float) for path in (pair.fixed, pair.moving))
    inner = pair.grid.points().reshape(512, 512, 2)[60:-60, 60:-60].reshape(-1, 2)
    back = np.round(pair.truth.map(inner)).astype(int)
    here = np.round(inner).astype(int)
    straight = np.corrcoef(fixed[here[:, 1], here[:, 0]], moving[here[:, 1], here[:, 0]])[0, 1]
    undone = np.corrcoef(fixed[here[:, 1], here[:, 0]], moving[back[:, 1], back[:, 0]])[0, 1]
    assert undone > 0.65
    assert straight < undone - 0.1


def test_the_3d_pair_lies_in_the_template_frame(tmp_path: Path) -> None:
    """T1 template of nilearn at 2 mm in LPS: the mask's centre of mass is where a brain's is, truth free of folds."""
    pair = make_pair(3, tmp_path)
    assert pair.mask is not None
    mask = wg.read_image(pair.mask)
    assert mask.grid.units == "mm"
    np.testing.assert_allclose(mask.grid.spacing, 2.0)
    centre = pair.grid.points()[mask.read().reshape(-1) > 0].mean(axis=0)
    np.testing.assert_allclose(centre, [0.0, 20.0, 8.0], atol=12.0)
    assert "; 0 % of the pixels are folded" in pair.truth.description.assumptions[0]
