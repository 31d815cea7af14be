"""Compile the inner loops ahead of time: once per installation, and when an interactive program starts."""

from __future__ import annotations

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.process import TransformationPrior
from warpgauge.core.suggestion import Suggester
from warpgauge.core.tiles import TILE


def compile_loops() -> None:
    """Have every loop of the core compiled, or read from the disk where it was compiled before.

    A compiled loop serves both dimensions, all kernels and any number of points, so that one small piece of each kind
    of work is enough. Nothing that is called afterwards waits for the compiler.
    """
    points = np.random.default_rng(0).uniform(0, 1, (TILE + 1, 2))
    kernel = KernelBundle.pyramid("wendland", smallest=0.1, levels=2)
    annotations = Annotations(points[:2], points[:2], np.stack([np.eye(2), np.diag([1.0, 2.0])]))
    for strategy in ("entropy", "farthest"):
        suggester = Suggester(TransformationPrior(kernel), points[:4], strategy=strategy)
        suggester.record(0, np.eye(2))
        suggester.suggest()
        suggester.gains()
    kernel(np.zeros(1))
    posterior = TransformationPrior(kernel, mean="affine").condition(annotations)
    posterior.mean_and_covariance(points)
    posterior.mean_and_deviation(points[:1])
    posterior.entropy(points[:1])
    posterior.squared_lengths(points[:1], points[:1])
