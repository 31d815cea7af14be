"""Distinctiveness against its definition; which places a session offers near a query."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.candidates.distinctive import distinctiveness
from warpgauge.project import Project
from warpgauge.session.nearby import nearby_places
from web.page_tools import make_tissue_project, make_volume_project


def slow(gray: np.ndarray, place: tuple[int, ...], half: int) -> float:
    """The definition, place by place."""
    spans = [range(half, n - half) for n in gray.shape]
    patch = {at: gray[tuple(slice(k - half, k + half + 1) for k in at)] for at in np.ndindex(*gray.shape)
             if all(k in span for k, span in zip(at, spans, strict=True))}  # fmt: skip
    others = [
        np.mean((found - patch[place]) ** 2)
        for at, found in patch.items()
        if max(abs(a - b) for a, b in zip(at, place, strict=True)) > half
    ]
    return min(others) / gray.var()


@pytest.mark.parametrize(("shape", "half"), [((31, 26), 3), ((13, 15, 14), 2)])
def test_distinctiveness_is_the_difference_to_what_is_most_alike(shape: tuple[int, ...], half: int) -> None:
    """In 2D and 3D, also at the border; exactly as the definition says."""
    rng = np.random.default_rng(3)
    gray = rng.normal(100, 20, shape)
    places = np.array([[half] * len(shape), [n - half - 1 for n in shape], [n // 2 for n in shape]])
    wanted = [slow(gray, tuple(place), half) for place in places.tolist()]
    np.testing.assert_allclose(distinctiveness(gray, places, half), wanted, rtol=1e-9)


def test_a_copy_and_an_empty_patch_are_not_distinctive_and_a_single_thing_is() -> None:
    """One of many equal spots and faint noise give nearly 0; the one cross gives much more."""
    gray = np.random.default_rng(1).normal(0, 0.5, (120, 120))
    for row in range(12, 110, 18):
        for column in range(12, 110, 18):
            gray[row - 2 : row + 3, column - 2 : column + 3] += 100
    gray[64:82, 72], gray[72, 64:82] = 100, 100
    spot, empty, cross = distinctiveness(gray, np.array([[30, 30], [21, 21], [72, 72]]), 8)
    assert max(spot, empty) < 0.01
    assert cross > 0.3
    assert distinctiveness(np.ones((20, 20)), np.array([[10, 10]]), 3)[0] == 0


@pytest.mark.parametrize("make", [make_tissue_project, make_volume_project])
def test_what_is_offered_lies_near_stands_out_and_does_not_follow_answers(make: object, tmp_path: Path) -> None:
    """At most three, within reach, apart; the same after answers, whose worth alone follows the model."""
    folder = make(tmp_path / "p", move_within=0.15)  # type: ignore[operator]
    with Project.open(folder) as project:
        session = wg.Session(project, rater="me")
        query, covariance = session.next_query(), session.blindness.model.default_covariance
        assert query is not None
        at, found = np.array(query.point), []
        for _ in range(2):
            view = session.blindness.view(project.state, "me")
            found.append(nearby_places(project, view.posterior, covariance, at))
            session.place(query, at + 3, radius=2.0, confirmed=True)
        assert 1 <= len(found[0]) <= 3
        reach = 0.15 * project.fixed_grid.diagonal
        points = [place.point for place in found[0]]
        assert all(0 < np.linalg.norm(point - at) < reach for point in points)
        assert all(np.linalg.norm(a - b) > reach / 3 for k, a in enumerate(points) for b in points[:k])
        np.testing.assert_array_equal(points, [place.point for place in found[1]])
        # Once the place itself is answered, what is left to learn is around it.
        assert all(place.keeps == pytest.approx(1, abs=0.3) for place in found[0])
        assert all(after.keeps > before.keeps for before, after in zip(*found, strict=True))
