"""Populations of errors for the study of certified verdicts: two transforms at N targets whose truth is the origin.

The first four are those on which the former verdict was seen to fail. The others were made for this study: skewed,
heavy-tailed, bimodal and clumped errors, failures of 0.5 to 10 % of the targets, and two-point nulls. None was used to
choose a constant; those were chosen on other populations (normal errors of 2 against 4 and 2 against 3, t errors with 3
degrees of freedom, and failures of 2 and 3 %, with other seeds).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from paper.datasets import Floats

N = 800
Maker = Callable[[np.random.Generator], Floats]


def normal(first: float, second: float, shared: float = 0.0) -> Maker:
    """Make normal errors of these RMS, sharing a part."""

    def made(rng: np.random.Generator) -> Floats:
        own = rng.normal(size=(2, N, 2)) / np.sqrt(2)
        both = rng.normal(size=(N, 2)) / np.sqrt(2)
        return np.stack([
            size * (np.sqrt(1 - shared) * one + np.sqrt(shared) * both)
            for size, one in zip((first, second), own, strict=True)
        ])  # fmt: skip

    return made


def failing(share: float, size: float, ratio: float = 0.9, clumped: bool = True, who: int = 0) -> Maker:
    """Make normal errors, the first ``ratio`` times the second; one fails by ``size`` in a share of the targets."""

    def made(rng: np.random.Generator) -> Floats:
        errors = np.array([2 * ratio, 2.0])[:, None, None] * rng.normal(size=(2, N, 2)) / np.sqrt(2)
        rows = np.arange(round(share * N))
        turn = np.zeros(len(rows)) if clumped else rng.uniform(0, 2 * np.pi, len(rows))
        errors[who, rows] += size * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        return np.asarray(errors)

    return made


def both_fail(share: float, size: float, apart: float) -> Maker:
    """Both fail in the same places by about ``size``, the first one ``apart`` farther off; elsewhere it is better."""

    def made(rng: np.random.Generator) -> Floats:
        errors = np.array([1.6, 2.0])[:, None, None] * rng.normal(size=(2, N, 2)) / np.sqrt(2)
        rows = np.arange(round(share * N))
        errors[:, rows, 0] += np.array([size + apart, size])[:, None]
        return np.asarray(errors)

    return made


def heavy(freedom: float, ratio: float) -> Maker:
    """Student's t errors."""
    return lambda rng: np.array([ratio, 1.0])[:, None, None] * rng.standard_t(freedom, size=(2, N, 2))


def skewed(sigma: float, ratio: float) -> Maker:
    """Lengths are lognormal, directions even."""

    def made(rng: np.random.Generator) -> Floats:
        lengths = np.array([ratio, 1.0])[:, None] * rng.lognormal(0, sigma, (2, N))
        turn = rng.uniform(0, 2 * np.pi, (2, N))
        return np.asarray(lengths[..., None] * np.stack([np.cos(turn), np.sin(turn)], axis=2))

    return made


def bimodal(low: float, high: float, share: float, second: float) -> Maker:
    """Let the first err by ``low`` or, in a share of the targets, by ``high``; the second evenly by ``second``."""

    def made(rng: np.random.Generator) -> Floats:
        lengths = np.stack([np.where(np.arange(N) < share * N, high, low), np.full(N, second)])
        turn = rng.uniform(0, 2 * np.pi, (2, N))
        return np.asarray(lengths[..., None] * np.stack([np.cos(turn), np.sin(turn)], axis=2))

    return made


def two_points(share: float) -> Maker:
    """Both err along one axis: the first by 1 and rarely by 8, the second always by 1.2 to the other side."""

    def made(rng: np.random.Generator) -> Floats:
        first = np.where(np.arange(N) < share * N, 8.0, 1.0)
        return np.stack([np.stack([first, np.zeros(N)], 1), np.stack([np.full(N, -1.2), np.zeros(N)], 1)])

    return made


def equal(maker: Maker, measure: str) -> Maker:
    """Scale the second until both have the same mean error ("mean") or mean squared error ("squared")."""

    def made(rng: np.random.Generator) -> Floats:
        first, second = maker(rng)
        lengths = [np.linalg.norm(one, axis=1) for one in (first, second)]
        if measure == "mean":
            return np.stack([first, second * lengths[0].sum() / lengths[1].sum()])
        return np.stack([first, second * np.sqrt(np.square(lengths[0]).sum() / np.square(lengths[1]).sum())])

    return made


POPULATIONS: dict[str, Maker] = {
    "10 % better, wild in 3 %": failing(0.03, 9.0),
    "failure of 3 % at 9": failing(0.03, 9.0, 0.95),
    "failure of 2 % at 12": failing(0.02, 12.0, 0.95),
    "failure of 1 % at 16": failing(0.01, 16.0, 0.95),
    "normal, 1.5 against 3.5": normal(1.5, 3.5),
    "normal, 2 against 2.6": normal(2.0, 2.6),
    "normal, correlated": normal(2.0, 2.4, 0.7),
    "normal, equal": equal(normal(2.0, 2.0), "squared"),
    "failure of 0.5 % at 30": failing(0.005, 30.0),
    "failure of 1 % at 40": failing(0.01, 40.0, 0.8),
    "failure of 5 % at 8, scattered": failing(0.05, 8.0, 0.85, clumped=False),
    "failure of 10 % at 6": failing(0.1, 6.0, 0.85),
    "failure of 4 % of the worse": failing(0.04, 10.0, 0.9, who=1),
    "failure of 0.5 %, equal squares": equal(failing(0.005, 25.0, 0.8), "squared"),
    "failure of 3 %, equal squares": equal(failing(0.03, 12.0, 0.8), "squared"),
    "failure of 10 %, equal means": equal(failing(0.1, 9.0, 0.8), "mean"),
    "both fail in 4 %": both_fail(0.04, 10.0, 3.0),
    "both fail in 2 %, far": both_fail(0.02, 30.0, 4.0),
    "t with 2.5, 0.7": heavy(2.5, 0.7),
    "t with 2.2, equal squares": equal(heavy(2.2, 1.0), "squared"),
    "Cauchy-like t with 1.5, 0.8": heavy(1.5, 0.8),
    "lognormal 1.0, 0.75": skewed(1.0, 0.75),
    "lognormal 1.5, equal means": equal(skewed(1.5, 1.0), "mean"),
    "lognormal 1.2, equal squares": equal(skewed(1.2, 1.0), "squared"),
    "bimodal, 7 in 6 %": bimodal(1.0, 7.0, 0.06, 1.8),
    "bimodal, 20 in 1 %": bimodal(1.0, 20.0, 0.01, 1.6),
    "bimodal, equal means": equal(bimodal(1.0, 9.0, 0.08, 1.5), "mean"),
    "two points, 2 %, equal squares": equal(two_points(0.02), "squared"),
    "two points, 0.5 %, equal squares": equal(two_points(0.005), "squared"),
    "two points, 5 %, equal means": equal(two_points(0.05), "mean"),
}
