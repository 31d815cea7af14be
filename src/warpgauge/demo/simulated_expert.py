"""A simulated expert, with the ellipses of the paper's user, who knows the true transform and answers a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpgauge.session import Session
from warpgauge.simulate import EllipseAnnotator

Progress = Callable[[int, int], None]


def answer_queries(
    session: Session,
    truth: Any,
    count: int,
    scale: float = 1.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Answer the next queries with the true match plus noise; a match outside the moving image is skipped.

    Returns
    -------
    dict
        How many were placed and skipped, and the mean distance of the placements from the truth.
    """
    expert = EllipseAnnotator(scale=scale, pixel_size=session.project.fixed_grid.pixel)
    rng = np.random.default_rng(seed)
    placed = 0
    skipped = 0
    distances = []
    for done in range(count):
        query = session.next_query()
        if query is None:
            break
        point = np.asarray(query.point)
        match = truth.map(point[None])[0]
        answer = expert.answer(point, match, rng) if np.isfinite(match).all() else None
        # Nobody can mark a place that is not on the picture.
        if answer is None or not session.project.moving_grid.contains(answer.placement):
            session.skip(query, "outside_image")
            skipped += 1
        else:
            session.place(query, answer.placement, covariance=answer.covariance)
            distances.append(float(np.linalg.norm(answer.placement - match)))
            placed += 1
        if progress is not None:
            progress(done + 1, count)
    return {
        "placed": placed,
        "skipped": skipped,
        "mean distance from the truth": float(np.mean(distances)) if distances else None,
    }
