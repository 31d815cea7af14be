"""The examples in the docstrings of the public names of `warpgauge` run, and most names have one."""

from __future__ import annotations

import doctest

import pytest

import warpgauge as wg

NAMES = [name for name in wg.__all__ if name != "__version__"]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def examples(name: str) -> list[doctest.DocTest]:
    """All examples of a public function, or of a class and its methods."""
    return [test for test in doctest.DocTestFinder().find(getattr(wg, name), name, globs={}) if test.examples]


@pytest.mark.parametrize("name", [*NAMES, "core.Posterior"])
def test_examples_run(name: str) -> None:
    found = wg.core.Posterior if name == "core.Posterior" else getattr(wg, name)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for test in doctest.DocTestFinder().find(found, name, globs={}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_the_library_shows_examples_of_its_names() -> None:
    """Nineteen names of the mathematics and the maps each show how they are called."""
    shown = {name for name in NAMES if examples(name)}
    assert {
        "Annotations", "Grid", "KernelBundle", "Suggester", "TransformationPrior", "blended_map", "calibration",
        "covariance_from_ellipse", "default_posterior", "displacement_norm", "ellipse_from_covariance", "entropy_map",
        "error_map", "error_score", "fit_kernel", "fuse_raters", "leave_one_out_loss", "leave_one_out_residuals",
        "mean_map",
    } <= shown  # fmt: skip
