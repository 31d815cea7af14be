"""Small projects and the events that the tests write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from warpgauge.project import Draft, Project

SIZE = (64, 48)


def write_images(folder: Path) -> tuple[Path, Path]:
    """Two small grey images that differ."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("fixed", "moving"):
        Image.fromarray(rng.integers(0, 255, SIZE[::-1], dtype=np.uint8)).save(folder / f"{name}.png")
    return folder / "fixed.png", folder / "moving.png"


def grid_points(count_x: int = 8, count_y: int = 6) -> np.ndarray:
    """Candidates on a lattice."""
    x, y = np.meshgrid(np.linspace(4, 60, count_x), np.linspace(4, 44, count_y))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def query(number: int, point: tuple[float, float] = (10.0, 10.0), rater: str = "ada", **more: object) -> Draft:
    return Draft("query", rater, number, {"point": list(point), "origin": "given", **more})


def place(number: int, point: tuple[float, float] = (11.0, 12.0), rater: str = "ada", **more: object) -> Draft:
    payload = {"point": list(point), "covariance": [[1.0, 0.2], [0.2, 2.0]], "alpha": 0.01}
    return Draft("place", rater, number, payload, **more)  # type: ignore[arg-type]


def edit(number: int, point: tuple[float, float], rater: str = "ada", **more: object) -> Draft:
    draft = place(number, point, rater, **more)
    return Draft("edit", rater, number, draft.payload, draft.duration, draft.base_generation)


def skip(number: int, reason: str = "ambiguous", rater: str = "ada", text: str = "", **more: object) -> Draft:
    return Draft("skip", rater, number, {"reason": reason, "text": text}, **more)  # type: ignore[arg-type]


def step(project: Project, kind: str, rater: str = "ada") -> Draft:
    """Undo or redo what is next."""
    steps = (project.state.done if kind == "undo" else project.state.undone)[rater]
    return Draft(kind, rater, payload={"target": steps[-1].generation})
