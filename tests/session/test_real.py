"""The loop on a real pair: histology sections of the CIMA set with known landmarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import special

from warpgauge.io.landmarks import read_landmarks
from warpgauge.project import Project
from warpgauge.session import Session


def test_thirty_placements_on_a_cima_pair(data_dir: Path, tmp_path: Path) -> None:
    """Thirty answers from the known landmarks predict the other 48 better than an affine fit, with honest regions."""
    folder = data_dir / "cima" / "lung-lesion_1"
    names = [folder / f"29-041-Izd2-w35-{stain}-les1" for stain in ("He", "Ki67-7")]
    pairs = read_landmarks(*(f"{name}.csv" for name in names), units="px")
    project = Project.create(
        tmp_path / "p",
        fixed=f"{names[0]}.jpg",
        moving=f"{names[1]}.jpg",
        candidates=pairs.fixed_points,
        units="px",
        settings={"budget": 30},
    )
    session = Session(project, "ps")
    while (query := session.next_query()) is not None:
        row = project.state.queries[query.number].candidate
        session.place(query, pairs.moving_points[row], base_generation=query.generation)
    asked = [query.candidate for query in project.state.queries]
    assert len(asked) == len(set(asked)) == 30
    assert [fit.annotations for fit in project.state.fits] == [3, 5, 8, 12, 18, 27]
    rest = np.setdiff1d(np.arange(len(pairs)), asked)
    fixed, moving = pairs.fixed_points[rest], pairs.moving_points[rest]
    posterior = session.posterior()
    error = np.linalg.norm(posterior.mean(fixed) - moving, axis=1)

    def with_one(points: np.ndarray) -> np.ndarray:
        return np.column_stack([points, np.ones(len(points))])

    affine = np.linalg.lstsq(with_one(pairs.fixed_points[asked]), pairs.moving_points[asked], rcond=None)[0]
    affine_error = np.linalg.norm(with_one(fixed) @ affine - moving, axis=1)
    initial = np.linalg.norm(moving - fixed, axis=1)
    assert np.median(error) < np.median(affine_error) < np.median(initial)
    click = np.eye(2) / special.chdtri(2, 0.01)
    covariance = posterior.annotation_covariance(fixed, click)
    offset = posterior.mean(fixed) - moving
    squares = np.einsum("na,nab,nb->n", offset, np.linalg.inv(covariance), offset)
    # 95 % regions; 75 % is what the paper's settings were measured to cover on such data.
    assert np.mean(squares < special.chdtri(2, 0.05)) > 0.8
    assert project.verify().ok
