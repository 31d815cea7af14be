"""Documentation that is executed: names exist, examples run."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import oracle

ROOT = Path(__file__).parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "equations.md").read_text().splitlines()
    if line.startswith("| `eq:") or "(unlabelled)" in line
]


def resolve(dotted: str) -> object:
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"nothing is called {dotted}")


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_equation_has_its_function_and_its_oracle(row: list[str]) -> None:
    for name in re.findall(r"`(warpgauge\.[\w.]+)`", row[2]):
        assert resolve(name) is not None
    assert callable(getattr(oracle, row[3].strip("`")))


def test_all_labelled_equations_are_listed() -> None:
    """The labels of the paper's numbered equations in sections II and III."""
    listed = {label for row in ROWS for label in re.findall(r"eq:(\w+)", row[0])}
    assert listed == {
        "target_set_displacements",
        "p_norms",
        "set_landmark_displacements",
        "covariance_matrix_from_ellipse",
        "gaussian_process_definition",
        "definition_K_TT",
        "gaussian_process_mean_conditioned",
        "gaussian_process_covariance_conditioned",
        "minimisation_problem_general",
        "minimisation_problem_greedy",
        "entropy_gp",
        "definition_K_TT_given_A",
        "fast_optimization",
        "delta_H_in_T",
        "delta_H_not_in_T",
        "conditional_entropy",
        "maximisation_problem_greedy_simplified",
        "conditioned_distribution_on_true_transformation",
        "target_set_displacements_on_annotations",
        "kernel_bundle",
        "gaussian_kernel",
        "inverse_quadratic_kernel",
        "wendland_kernel_1",
        "kernel_integral_normalisation",
        "gpp_loss_simplified",
    }


@pytest.mark.parametrize("page", ["docs/library.md"])
def test_examples_run_as_printed(page: str) -> None:
    results = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0
