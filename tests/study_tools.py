"""Small studies on disk: 2D pairs with landmarks, targets and affine methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import warpgauge as wg
from warpgauge.io.landmarks import write_landmarks
from warpgauge.io.transforms import AffineTransform, write_transform


def truth(points: np.ndarray, pair: int) -> np.ndarray:
    return points + 4 * np.sin(points[:, ::-1] / 40 + pair)


def shift(folder: Path, method: str, pair: str, by: float) -> None:
    place = folder / method
    place.mkdir(exist_ok=True)
    write_transform(AffineTransform(np.eye(2), [by, 0.0]), place / f"{pair}.tfm")


def make_pair(folder: Path, number: int, count: int = 25) -> None:
    rng = np.random.default_rng(number)
    fixed = rng.uniform(0, 200, (count, 2))
    moving = truth(fixed, number) + rng.normal(0, 0.3, fixed.shape)
    write_landmarks(wg.Landmarks(fixed, moving), folder / f"case{number}.csv")
    write_landmarks(wg.Landmarks(rng.uniform(10, 190, (60, 2))), folder / f"targets{number}.csv")


def make_study(folder: Path, pairs: int = 3, settings: str = "") -> Path:
    for number in range(pairs):
        make_pair(folder, number)
        for method, by in (("near", 0.5), ("far", 30.0), ("farther", 60.0)):
            shift(folder, method, f"case{number}", by)
    entries = "".join(
        f'[[pair]]\nname = "case{n}"\nlandmarks = "case{n}.csv"\ntargets = "targets{n}.csv"\n\n' for n in range(pairs)
    )
    methods = "".join(
        f'[[method]]\nname = "{name}"\ntransform = "{{method}}/{{pair}}.tfm"\n\n' for name in ("near", "far", "farther")
    )
    text = f'name = "small"\n\n[settings]\nsd = 0.3\nsamples = 100\nbootstrap = 300\n{settings}\n\n{entries}{methods}'
    path = folder / "STUDY.toml"
    path.write_text(text)
    return path
