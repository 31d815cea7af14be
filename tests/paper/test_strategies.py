"""The strategies study against the oracle: orders, errors, learned weights and the numbers that are reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oracle
import paper_tools as tools
from paper import default_setting
from paper.curves import difference, sentences, spoken, summary
from paper.default_setting import plan, setting
from paper.experiment import Run
from paper.paper_studies import STRATEGIES


def check_curves(data: Path, run: Run, radius: float, first: int | None = None) -> None:
    """Recompute a run: farthest and greedy orders by the oracle, every posterior from scratch."""
    result = STRATEGIES.compute(data, run)
    (curves,) = result["curves"]
    parts = setting(data, run).halves
    k = tools.oracle_kernel(result["scales"], result["weights"])
    Sigma = np.broadcast_to(tools.disc(parts.fixed.shape[1], radius), (len(parts.fixed), *[parts.fixed.shape[1]] * 2))
    known = (parts.fixed, parts.moving, Sigma, parts.held_fixed, parts.held_moving)
    first = tools.first_asked(curves["entropy"], k, *known) if first is None else first
    count = len(curves["entropy"])
    greedy = oracle.greedy_sequence(k, parts.fixed, None, Sigma, count, first=first)
    farthest = oracle.farthest_sequence(parts.fixed, first, count)
    assert curves["entropy"] == pytest.approx(tools.oracle_errors(k, greedy, *known), rel=1e-8)
    assert curves["farthest"] == pytest.approx(tools.oracle_errors(k, farthest, *known), rel=1e-8)
    assert curves["random"][0] == curves["entropy"][0]
    assert curves["random"][-1] == pytest.approx(curves["entropy"][-1], rel=1e-8)  # all are annotated in the end
    assert curves["random"][1:-1] != pytest.approx(curves["entropy"][1:-1])


def test_a_cima_run_is_what_the_oracle_computes(tmp_path: Path) -> None:
    """With a 1 px disc at 10 % scale, and weights that minimise the loss on the same stains of the other region."""
    tools.write_cima(tmp_path)
    run = plan(tmp_path, ("cima",), 2, 0, quick=True)[1]
    check_curves(tmp_path, run, 1.0)
    teacher = setting(tmp_path, run).teacher
    result = STRATEGIES.compute(tmp_path, run)
    Sigma = np.broadcast_to(tools.disc(2, 1.0), (len(teacher), 2, 2))
    tools.assert_learned(result["scales"], result["weights"], teacher.fixed, teacher.moving, Sigma)


def test_a_copdgene_run_is_what_the_oracle_computes(tmp_path: Path) -> None:
    """In 3D, with the ball of one pixel: the cube root of 2.5 mm^3."""
    tools.write_copdgene(tmp_path)
    check_curves(tmp_path, plan(tmp_path, ("copdgene",), 1, 0, quick=True)[0], 2.5 ** (1 / 3))


def test_a_real_cima_run_is_what_the_oracle_computes(data_dir: Path) -> None:
    """The first errors of a real pair: 5 annotations by each strategy."""
    run = plan(data_dir, ("cima",), 1, 0, quick=True)[0]
    short = Run(run.key, {**run.parameters, "count": 4})
    (curves,) = STRATEGIES.compute(data_dir, short)["curves"]
    result = STRATEGIES.compute(data_dir, short)
    parts = setting(data_dir, short).halves
    k = tools.oracle_kernel(result["scales"], result["weights"])
    Sigma = np.broadcast_to(tools.disc(2, 1.0), (len(parts.fixed), 2, 2))
    known = (parts.fixed, parts.moving, Sigma, parts.held_fixed, parts.held_moving)
    first = tools.first_asked(curves["farthest"], k, *known)
    order = oracle.farthest_sequence(parts.fixed, first, 4)
    assert curves["farthest"] == pytest.approx(tools.oracle_errors(k, order, *known), rel=1e-8)


def test_all_strategies_share_the_first_ten_of_the_dense_set() -> None:
    pytest.importorskip("skimage", reason="the dense set is an image inside scikit-image")
    run = plan(Path(), ("dense",), 1, 0, quick=True)[0]
    (curves,) = STRATEGIES.compute(Path(), Run(run.key, {**run.parameters, "count": 12}))["curves"]
    assert curves["random"][:10] == curves["farthest"][:10] == curves["entropy"][:10]
    assert len({curve[11] for curve in curves.values()}) > 1


def test_numbers_and_sentences_follow_from_the_curves() -> None:
    """Hand calculation on three curves of two annotations; the report cuts all to the shortest."""
    rows = {
        "random": [[9.0, 8.0], [9.0, 8.0, 7.0], [9.0, 8.0]],
        "farthest": [[4.0, 2.0], [4.0, 4.0, 1.0], [4.0, 3.0]],
        "entropy": [[4.0, 1.0], [4.0, 3.5, 1.0], [4.0, 3.0 * (1 + 1e-12)]],
    }
    results = [
        (Run(str(i), {"dataset": "cima"}), {"curves": [{key: values[i] for key, values in rows.items()}]})
        for i in range(3)
    ]
    found = STRATEGIES.report(results)
    numbers = found.numbers["cima"]
    assert numbers["annotations"] == [1, 2]
    assert numbers["mean"]["Heuristic"] == pytest.approx([4.0, 3.0])
    gained = numbers["differences"]["Heuristic - Entropy"]
    assert gained["median"] == pytest.approx([0.0, 0.5])
    assert gained["first decile"] == pytest.approx([0.0, 0.1])  # between 0 and 0.5, a fifth of the way
    assert gained["ninth decile"] == pytest.approx([0.0, 0.9])
    assert gained["share of curves better"] == pytest.approx([0.0, 2 / 3])  # 1e-12 is rounding, not a loss
    assert gained["share of curves worse"] == pytest.approx([0.0, 0.0])
    assert gained["median percent"] == pytest.approx([0.0, 12.5])
    assert found.sentences == [
        "CIMA, 2 annotations, 3 curves: mean N_2 error in px: Random 8, Heuristic 3, Entropy 2.5; with Entropy it is "
        "smaller than with Heuristic by 0.5 px or 12.5 % in the median (deciles of the difference 0.1 and 0.9), "
        "smaller in 2 and larger in 0 curves."
    ]
    assert set(found.figures) == {"curves"}


def test_sentences_say_larger_and_equal() -> None:
    curves = {"A": np.array([[1.0, 2.0]]), "B": np.array([[2.0, 2.0]])}
    (told,) = sentences("Set", {label: values[:, :1] for label, values in curves.items()}, "mm", [("A", "B")])
    assert "with B it is larger than with A by 1 mm or 100.0 % in the median" in told
    (told,) = sentences("Set", {label: values[:, 1:] for label, values in curves.items()}, "mm", [("A", "B")], start=7)
    assert "Set, 7 annotations" in told
    assert "with B it is as large as with A in the median" in told
    assert spoken(10, 35) == [10, 20, 35]
    assert summary(curves, [("A", "B")])["differences"]["A - B"]["standard error"] is None
    assert difference(np.array([1.0]), np.array([1.0 + 1e-13])).tolist() == [0.0]


def test_splits_differ_between_runs_and_seeds(tmp_path: Path) -> None:
    tools.write_cima(tmp_path)
    splits = [
        run.parameters["split"] for seed in (0, 1) for run in default_setting.plan(tmp_path, ("cima",), 6, seed, False)
    ]
    assert len(set(splits)) == 12
