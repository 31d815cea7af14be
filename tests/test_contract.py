"""The public names that scripts rely on, used as the design states them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg

NAMES = {
    "Annotations", "Grid", "KernelBundle", "Landmarks", "Project", "Session", "Suggester", "TransformationPrior",
    "annotate", "as_transform", "blended_map", "calibration", "certify_project", "compare", "covariance_from_ellipse",
    "default_posterior",
    "displacement_norm", "ellipse_from_covariance", "entropy_map", "error_map", "error_score", "evaluate",
    "evaluate_project", "fit_kernel", "fuse_raters", "gate_project", "judge", "leave_one_out_loss",
    "leave_one_out_residuals", "mean_map", "plot_map", "read_image", "read_landmarks", "read_transform", "tre",
}  # fmt: skip


@pytest.fixture(scope="module")
def annotations() -> wg.Annotations:
    """Twenty-five noisy matches of a smooth deformation."""
    rng = np.random.default_rng(4)
    fixed = rng.uniform(0, 200, (25, 2))
    moving = fixed + 4 * np.sin(fixed[:, ::-1] / 40) + rng.normal(0, 0.3, fixed.shape)
    return wg.Annotations(fixed, moving, np.broadcast_to(0.09 * np.eye(2), (25, 2, 2)))


def test_the_top_holds_the_names_of_the_design_and_few_others() -> None:
    """A name more or less is a change of what scripts see."""
    assert set(wg.__all__) - {"__version__"} == NAMES


def test_model_and_learning(annotations: wg.Annotations) -> None:
    """Kernel, prior, posterior, leave-one-out, fit and calibration have the shapes that the design states."""
    pyramid = wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=9, weight=1e4)
    assert len(pyramid.scales) == 9
    kernel = wg.KernelBundle("wendland", scales=[20, 40, 80], weights=[1.0, 2.0, 3.0])
    prior = wg.TransformationPrior(kernel, mean="identity", noise=0.0)
    wg.TransformationPrior(kernel, mean="affine")
    wg.TransformationPrior(kernel, mean=lambda points: points + 1)
    post, points = prior.condition(annotations), np.array([[50.0, 60.0], [120.0, 90.0]])
    assert post.mean(points).shape == (2, 2)
    assert post.covariance(points).shape == (2, 2, 2)
    assert post.entropy(points).shape == (2,)
    assert post.sample(points, 3, seed=0).shape == (3, 2, 2)
    own = np.broadcast_to(np.eye(2), (2, 2, 2))
    assert np.allclose(post.annotation_covariance(points, own), post.covariance(points) + np.eye(2))
    empty = prior.condition(wg.Annotations(np.empty((0, 2)), np.empty((0, 2)), np.empty((0, 2, 2))))
    assert np.allclose(empty.append(annotations).mean(points), post.mean(points))
    assert prior.condition(annotations, calibrate=True).scale > 0
    assert np.isfinite(wg.leave_one_out_loss(prior, annotations))
    assert wg.leave_one_out_residuals(prior, annotations).residuals.shape == (25, 2)
    fitted = wg.fit_kernel(prior, [annotations, annotations], noise=False)
    assert wg.leave_one_out_loss(fitted, annotations) < wg.leave_one_out_loss(prior, annotations)
    assert [row.level for row in wg.calibration(fitted, annotations).coverage] == [0.5, 0.8, 0.95]


def test_ellipses_and_raters() -> None:
    """The ellipse of a covariance gives the covariance back, and raters are fused."""
    covariance = wg.covariance_from_ellipse([3.0, 1.0], np.eye(2), alpha=0.01)
    half_lengths, _ = wg.ellipse_from_covariance(covariance, alpha=0.01)
    assert half_lengths == pytest.approx([3.0, 1.0])
    rng = np.random.default_rng(0)
    placed = {name: rng.normal(0, 1, (12, 2)) for name in ("ada", "ben")}
    assert wg.fuse_raters(placed, method="pooled").points.shape == (12, 2)
    third = {**placed, "eve": rng.normal(0, 1, (12, 2))}  # two raters have no covariance of full rank
    assert wg.fuse_raters(third, method="sample").points.shape == (12, 2)


def test_suggestions(annotations: wg.Annotations) -> None:
    """A suggestion is recorded without the location of its correspondence, and has no gain afterwards."""
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [40.0], [4.0]))
    suggester = wg.Suggester(prior, annotations.fixed_points, targets=None, strategy="entropy", seed=0)
    chosen = suggester.suggest()
    suggester.record(chosen, np.eye(2))
    assert suggester.gains()[chosen] == -np.inf


def test_judging_and_maps(annotations: wg.Annotations) -> None:
    """Transforms are evaluated by the judge or the paper's posterior; scores have intervals, ranks and a verdict."""
    post = wg.default_posterior(annotations, (200.0, 200.0), smallest=10.0)
    targets = np.random.default_rng(1).uniform(10, 190, (80, 2))
    transforms = {
        "near": lambda points: points + 4 * np.sin(points[:, ::-1] / 40),
        "far": lambda points: points + 9.0,
    }
    for known in (wg.judge(post, transforms), post):
        found = wg.evaluate(known, transforms, targets, norms=(1, 2, np.inf), samples=200, seed=0)
        near = found.scores["near"]
        low, high = near.interval["2"]
        assert low <= high
        assert near.score["2"] < found.scores["far"].score["2"]
        assert near.probability_best["2"] > 0.5
        assert found.win_probability.shape == (2, 2)
        assert found.ranking()[0] == "near"
        assert found.verdict
        assert len(found.to_dataframe()) == 2
        assert '"near"' in found.to_json()
    mapped = transforms["far"](targets)
    assert wg.displacement_norm(mapped - targets, 2) == pytest.approx(9 * np.sqrt(2))
    scores = wg.error_score(post, targets, mapped)
    assert ((scores >= 0) & (scores <= 1)).all()
    grid = wg.Grid((20, 10), (10.0, 20.0))
    assert wg.entropy_map(post, grid).shape == grid.shape
    assert wg.error_map(post, transforms["far"], grid).shape == grid.shape
    assert wg.mean_map(post, grid).shape == (*grid.shape, 2)


def test_a_project_and_its_session(tmp_path: Path) -> None:
    """The loop: a query is placed, skipped, undone, and a landmark volunteered."""
    from PIL import Image

    rng = np.random.default_rng(3)
    picture = rng.integers(0, 255, (60, 60), dtype=np.uint8)
    for name in ("fixed", "moving"):
        Image.fromarray(picture).resize((240, 240)).save(tmp_path / f"{name}.png")
    wg.Project.create(tmp_path / "p", fixed=tmp_path / "fixed.png", moving=tmp_path / "moving.png").close()
    with wg.Project.open(tmp_path / "p") as project:
        assert project.fixed_grid.size == project.moving_grid.size == (240, 240)
        session = wg.Session(project, rater="me")
        query = session.next_query()
        assert query is not None
        session.place(query, query.point, covariance=None)
        other = session.next_query()
        assert other is not None
        session.skip(other, "outside_image")
        session.undo()
        session.volunteer((30.0, 40.0), (30.0, 40.0))
        assert len(session.posterior().annotations) == 2
    assert wg.read_image(tmp_path / "fixed.png").grid.size == (240, 240)
