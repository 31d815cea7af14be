"""A synthetic pair whose true map is known, and raters who answer by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from warpgauge.project import Project
from warpgauge.session import Query, Session

WIDTH, HEIGHT = 300, 240
Map = Callable[[np.ndarray], np.ndarray]


def true_map(points: np.ndarray) -> np.ndarray:
    """A shift, a slight shear and a smooth wave: fixed to moving."""
    x, y = points[..., 0], points[..., 1]
    return np.stack([1.01 * x + 4 + 5 * np.sin(y / 45), 0.02 * x + y - 3 + 4 * np.cos(x / 60)], axis=-1)


def lattice(count_x: int, count_y: int, margin: float = 30.0) -> np.ndarray:
    x, y = np.meshgrid(
        np.linspace(margin, WIDTH - 1 - margin, count_x), np.linspace(margin, HEIGHT - 1 - margin, count_y)
    )
    # A little off the lattice, so that no two candidates are alike for the model.
    jitter = np.random.default_rng(7).uniform(-2, 2, (count_x * count_y, 2))
    return np.stack([x.ravel(), y.ravel()], axis=1) + jitter


def make(folder: Path, settings: dict[str, object] | None = None, **options: object) -> Project:
    """Make a project on two small images; the log and the model matter here, not what is on them."""
    pictures = folder.parent / "pictures"
    if not pictures.exists():
        pictures.mkdir()
        for name in ("fixed", "moving"):
            noise = np.random.default_rng(len(name)).integers(0, 255, (HEIGHT, WIDTH), dtype=np.uint8)
            Image.fromarray(noise).save(pictures / f"{name}.png")
    given = {"candidates": lattice(14, 11), "targets": 400, **options}
    return Project.create(
        folder, fixed=pictures / "fixed.png", moving=pictures / "moving.png", settings=settings, **given
    )


class Rater:
    """Answers every query by the true map with some error, and says how uncertain it is."""

    def __init__(self, session: Session, name: str, seed: int = 0, sd: float = 0.3, anisotropic: bool = False) -> None:
        self.session, self.name, self.sd, self.anisotropic = session, name, sd, anisotropic
        self.rng = np.random.default_rng(seed)
        self.seen: list[Query] = []

    def covariance(self) -> np.ndarray:
        if not self.anisotropic:
            return self.sd**2 * np.eye(2)
        angle = self.rng.uniform(0, np.pi)
        axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        return (axes * (self.sd * self.rng.lognormal(0, 0.7, 2)) ** 2) @ axes.T

    def answer(self, query: Query) -> None:
        covariance = self.covariance()
        truth = true_map(np.array(query.point))
        point = self.rng.multivariate_normal(truth, covariance)
        self.session.place(
            query, point, covariance=covariance, duration=2.0, base_generation=query.generation, rater=self.name
        )

    def work(self, count: int) -> list[Query]:
        """Answer so many queries."""
        for _ in range(count):
            query = self.session.next_query(self.name)
            assert query is not None
            self.seen.append(query)
            self.answer(query)
        return self.seen


def errors(session: Session, points: np.ndarray) -> np.ndarray:
    """Distance of the posterior mean from the truth."""
    return np.linalg.norm(session.posterior().mean(points) - true_map(points), axis=1)
