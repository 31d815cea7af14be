from __future__ import annotations

import json
import shutil
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from command_tools import ask
from study_tools import make_pair, make_study, shift, truth
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import AffineTransform, DisplacementField, write_transform
from warpgauge.report import write_leaderboard
from warpgauge.study import Study, read_study, run_study


def with_methods(study: Study, **references: bool) -> Study:
    """Return a study with some of its methods, as references or not."""
    chosen = [one for one in study.methods if one.name in references]
    return study.with_methods([one.model_copy(update={"reference": references[one.name]}) for one in chosen])


def test_a_small_study_end_to_end(tmp_path: Path) -> None:
    """The shift by 0.5 beats those by 30 and 60 in every pair; scores are near the true errors."""
    result = run_study(make_study(tmp_path, settings="tolerance = 5.0"), tmp_path / "out")
    assert [one.name for one in result.methods] == ["near", "far", "farther"]
    assert [one.mean_rank for one in result.methods] == [1, 2, 3]
    assert [one.probability_first for one in result.methods] == [1, 0, 0]
    assert result.methods[0].rank_probabilities == [1, 0, 0]
    # The true displacement has a root mean square of 4 (two sines of amplitude 4), so the scores follow by hand.
    assert result.methods[0].mean_score == pytest.approx(4, rel=0.15)
    assert result.methods[1].mean_score == pytest.approx(np.hypot(30, 4), rel=0.05)
    assert len(result.tests) == 3
    assert all(test.cases == 3 and test.median_difference < 0 for test in result.tests)
    assert "near is first over 3 pairs with probability over 0.99" in result.verdict
    data = json.loads(result.to_json())
    assert data["methods"][0]["name"] == "near"
    assert {row["method"] for row in result.rows()} == {"near", "far", "farther"}
    row = next(row for row in result.case_rows() if row["pair"] == "case1" and row["method"] == "far")
    assert row["low"] < row["score"] < row["high"]
    assert row["rank"] == 2
    # Doing nothing leaves the whole displacement; it is a baseline and has no rank.
    assert result.baseline is not None
    assert result.baseline["mean_score"] == pytest.approx(4, rel=0.15)
    assert [row["rank"] for row in result.case_rows() if row["method"] == "identity"] == [None] * 3


def test_a_second_run_computes_nothing_and_a_changed_file_only_its_pair(tmp_path: Path) -> None:
    path = make_study(tmp_path)
    names = ("case0", "case1", "case2")
    first = run_study(path, tmp_path / "out")
    assert first.computed == names
    seen: list[tuple[int, int]] = []
    second = run_study(path, tmp_path / "out", progress=lambda *at: seen.append(at))
    assert (second.computed, second.cached) == ((), names)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert second.to_json() == first.to_json()
    shift(tmp_path, "far", "case1", 31.0)
    assert run_study(path, tmp_path / "out").computed == ("case1",)
    assert run_study(path, tmp_path / "out", fresh=True).computed == names


def test_other_settings_are_computed_anew_but_bootstrap_rounds_are_not(tmp_path: Path) -> None:
    path = make_study(tmp_path, pairs=1)
    run_study(path, tmp_path / "out")
    path.write_text(path.read_text().replace("bootstrap = 300", "bootstrap = 400"))
    assert run_study(path, tmp_path / "out").computed == ()
    path.write_text(path.read_text().replace("samples = 100", "samples = 50"))
    assert run_study(path, tmp_path / "out").computed == ("case0",)


def test_a_damaged_result_is_computed_anew(tmp_path: Path) -> None:
    """Cut, one bit changed, empty, and of another kind: the figures are those of a fresh run."""
    path = make_study(tmp_path, pairs=1)
    fresh = run_study(path, tmp_path / "out").to_json()
    (stored,) = (tmp_path / "out" / "pairs").iterdir()
    whole = stored.read_bytes()
    at = len(whole) // 2
    for content in (whole[:100], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], b"", b"[]"):
        stored.write_bytes(content)
        again = run_study(path, tmp_path / "out")
        assert again.computed == ("case0",)
        assert again.to_json() == fresh


def test_processes_give_the_same_numbers(tmp_path: Path) -> None:
    path = make_study(tmp_path, pairs=2)
    alone = run_study(path, tmp_path / "alone")
    together = run_study(path, tmp_path / "together", workers=2)
    assert together.to_json() == alone.to_json()


def test_a_failed_pair_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    path = make_study(tmp_path)
    good = (tmp_path / "case1.csv").read_text()
    (tmp_path / "case1.csv").write_text("{ broken")
    result = run_study(path, tmp_path / "out")
    assert list(result.failed) == ["case1"]
    assert [one.name for one in result.outcomes] == ["case0", "case2"]
    assert result.verdict.startswith("1 pair could not be computed and is left out (case1: 'case1.csv', ")
    strict = tmp_path / "strict.toml"
    strict.write_text(path.read_text().replace("[settings]", '[settings]\nmissing = "error"'))
    with pytest.raises(FileFormatError, match="'case1'"):
        run_study(strict, tmp_path / "strict")
    (tmp_path / "case1.csv").write_text(good)
    assert run_study(path, tmp_path / "out").cached == ("case0", "case2")


def test_each_group_of_pairs_has_its_own_table(tmp_path: Path) -> None:
    """Two tissues, with the methods in opposite order: over each group the figures are those of its pairs alone."""
    path = make_study(tmp_path, pairs=4)
    text = path.read_text()
    for n, group in enumerate("aabb"):
        text = text.replace(f'name = "case{n}"\n', f'name = "case{n}"\ngroup = "{group}"\n')
    path.write_text(text)
    for n in (2, 3):
        shutil.copyfile(tmp_path / "far" / f"case{n}.tfm", tmp_path / "near" / f"case{n}.tfm")
        shift(tmp_path, "far", f"case{n}", 0.5)
    result = run_study(path, tmp_path / "out")
    groups = result.groups
    assert {name: part.methods[0].name for name, part in groups.items()} == {"a": "near", "b": "far"}
    scores = [
        row["score"] for row in result.case_rows() if row["method"] == "near" and row["pair"] in ("case0", "case1")
    ]
    assert groups["a"].methods[0].mean_score == pytest.approx(np.mean(scores))
    write_leaderboard(tmp_path / "board.html", result)
    assert "a: 3 methods over 2 pairs" in (tmp_path / "board.html").read_text()


def test_a_method_that_breaks_the_evaluation_is_missing_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises, and wherever: the pair stays in the comparison, and only that method lacks it."""
    path = make_study(tmp_path, pairs=2)
    whole = run_study(path, tmp_path / "whole")
    original = AffineTransform.map

    def breaking(self: AffineTransform, points: np.ndarray) -> np.ndarray:
        if self.offset[0] == 60:
            raise ZeroDivisionError
        return original(self, points)

    monkeypatch.setattr(AffineTransform, "map", breaking)
    found = run_study(path, tmp_path / "broken")
    assert not found.failed
    by_name = {one.name: one for one in found.methods}
    assert (by_name["farther"].cases, by_name["farther"].missing) == (0, 2)
    assert "cannot be evaluated (ZeroDivisionError)" in found.outcomes[0].missing["farther"]
    assert by_name["near"].missing == by_name["far"].missing == 0
    assert by_name["near"].mean_score == pytest.approx(whole.methods[0].mean_score, rel=0.2)


class TestMissing:
    """The method "near" has no transform for case1."""

    def study(self, folder: Path, rule: str) -> Path:
        path = make_study(folder, settings=f'missing = "{rule}"')
        (folder / "near" / "case1.tfm").unlink()
        return path

    def test_worst_rank(self, tmp_path: Path) -> None:
        """Ranks 1, 3, 1 for near, 2, 1, 2 for far: both have the mean 5/3; near's score there is that of the worst."""
        result = run_study(self.study(tmp_path, "worst"), tmp_path / "out")
        by_name = {one.name: one for one in result.methods}
        assert by_name["near"].mean_rank == pytest.approx(5 / 3)
        assert by_name["far"].mean_rank == pytest.approx(5 / 3)
        assert by_name["farther"].mean_rank == pytest.approx((3 + 2 + 3) / 3)
        assert (by_name["near"].cases, by_name["near"].missing) == (2, 1)
        rows = {row["method"]: row for row in result.case_rows() if row["pair"] == "case1"}
        assert rows["near"]["score"] == max(rows[name]["score"] for name in ("far", "farther", "identity"))
        assert rows["near"]["rank"] == 3
        assert "no file 'near/case1.tfm'" in rows["near"]["missing"]
        assert (
            "1 case of near is missing (a missing case has the last rank of its pair and the score of no"
            in result.verdict
        )
        assert result.tests[0].cases == 3

    def test_leaving_out_pairs_never_gains(self, tmp_path: Path) -> None:
        """Every choice of pairs that a good, a middling or a bad method could leave out: no figure is better for it."""
        path, more = make_study(tmp_path, pairs=3), ""
        chosen = [keep for n in (1, 2) for keep in combinations(range(3), n)]
        for method, keep in product(("near", "far", "farther"), chosen):
            name = f"{method}-{''.join(map(str, keep))}"
            (tmp_path / name).mkdir()
            for n in keep:
                shutil.copyfile(tmp_path / method / f"case{n}.tfm", tmp_path / name / f"case{n}.tfm")
            more += f'[[method]]\nname = "{name}"\ntransform = "{{method}}/{{pair}}.tfm"\n'
        path.write_text(path.read_text() + more)
        result = run_study(path, tmp_path / "out")
        by_name = {one.name: one for one in result.methods}
        for name, one in by_name.items():
            whole = by_name[name.split("-")[0]]
            for figure in ("mean_score", "mean_rank", "rank"):
                assert getattr(one, figure) >= getattr(whole, figure) - 1e-12, (name, figure)
            assert one.score_interval.low >= whole.score_interval.low - 1e-12
            assert one.probability_first <= whole.probability_first
        assert not result.methods[0].missing

    def test_beside_references_random_submissions_never_gain_by_omission(self, tmp_path: Path) -> None:
        """Good and awful ones that leave out random pairs: never a better rank or chance, nor a better score.

        One that is worse than no registration and every reference gains no more than by submitting the identity there.
        """
        path, rng = make_study(tmp_path, pairs=3), np.random.default_rng(11)
        text = path.read_text()[: path.read_text().index("[[method]]")]
        entry = '[[method]]\nname = "{}"\ntransform = "{{method}}/{{pair}}.tfm"\n'
        for name, by in (("ref", 3.0), ("other", -6.0)):
            text += f"{entry.format(name)}reference = true\n"
            for n in range(3):
                shift(tmp_path, name, f"case{n}", by)
        for number in range(4):
            left_out = rng.permutation(3)[: rng.integers(1, 3)]
            for kind in ("whole", "part", "still"):
                text += entry.format(f"{kind}{number}")
                (tmp_path / f"{kind}{number}").mkdir()
            for n, by in enumerate(rng.exponential(8.0, 3)):
                shift(tmp_path, f"whole{number}", f"case{n}", by)
                shift(tmp_path, f"still{number}", f"case{n}", 0.0 if n in left_out else by)
                if n not in left_out:
                    shift(tmp_path, f"part{number}", f"case{n}", by)
        path.write_text(text)
        found = {one.name: one for one in run_study(path, tmp_path / "out").methods}
        for number in range(4):
            whole, part, still = (found[f"{kind}{number}"] for kind in ("whole", "part", "still"))
            assert part.missing
            assert part.mean_rank >= whole.mean_rank
            assert part.rank >= whole.rank
            assert part.probability_first <= whole.probability_first
            assert part.mean_score >= min(whole.mean_score, still.mean_score) - 1e-12, number

    def test_an_incomplete_method_is_not_first_without_a_word(self, tmp_path: Path) -> None:
        """Best on the pairs that it has, by far: where it is first all the same, the verdict says what it lacks."""
        path = make_study(tmp_path, pairs=3)
        text = path.read_text()
        path.write_text(text[: text.index("[[method]]")] + '[[method]]\nname = "near"\ntransform = "near/{pair}.tfm"\n')
        (tmp_path / "near" / "case1.tfm").unlink()
        verdict = run_study(path, tmp_path / "out").verdict
        assert "near is incomplete: it has 2 of 3 pairs." in verdict

    def test_error(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="'near' is missing for the pair 'case1'"):
            run_study(self.study(tmp_path, "error"), tmp_path / "out")

    def test_an_unreadable_transform_is_missing_with_its_reason(self, tmp_path: Path) -> None:
        path = make_study(tmp_path, pairs=1)
        (tmp_path / "far" / "case0.tfm").write_text("#Insight Transform File V1.0\nnonsense\n")
        result = run_study(path, tmp_path / "out")
        assert "case0.tfm" in result.outcomes[0].missing["far"]


def test_an_image_gives_targets_and_the_diagonal(tmp_path: Path) -> None:
    """A 200 x 200 PNG has the diagonal 200 sqrt(2), by which ANHIR's errors are divided."""
    from PIL import Image

    Image.fromarray(np.zeros((200, 200), dtype=np.uint8)).save(tmp_path / "fixed.png")
    make_pair(tmp_path, 0)
    shift(tmp_path, "far", "case0", 30.0)
    (tmp_path / "STUDY.toml").write_text(
        '[settings]\nchallenge = "anhir"\nsd = 0.3\nsamples = 50\nbootstrap = 50\ntargets = 100\n'
        '[[pair]]\nname = "case0"\nlandmarks = "case0.csv"\nfixed = "fixed.png"\n'
        '[[method]]\nname = "far"\ntransform = "far/{pair}.tfm"\n'
    )
    result = run_study(tmp_path / "STUDY.toml", tmp_path / "out")
    pair = wg.read_landmarks(tmp_path / "case0.csv")
    lengths = np.linalg.norm(pair.fixed_points + np.array([30.0, 0.0]) - pair.moving_points, axis=1)
    before = np.linalg.norm(pair.fixed_points - pair.moving_points, axis=1)
    official = result.methods[0].official
    assert official["Average-Median-rTRE"] == pytest.approx(np.median(lengths) / (200 * np.sqrt(2)))
    assert official["Average-Robustness"] == pytest.approx(np.mean(lengths < before))
    assert result.outcomes[0].evaluation["targets"] == 100


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("sd = 0.3", "", "carry no covariance; give sd"),
        ("sd = 0.3", "sd = -1", "sd of [settings] should be greater than 0, got -1"),
        ("sd = 0.3", "sd = nan", "sd of [settings] should be a finite number, got nan"),
        ("samples = 100", "samples = 1.5", "samples of [settings] should be a valid integer, got 1.5"),
        ("samples = 100", 'missing = "ignore"', "missing of [settings] should be 'worst' or 'error', got 'ignore'"),
        ("samples = 100", "sample = 100", "no 'sample' in [settings]"),
        ('landmarks = "case1.csv"', "landmarks = 7", "landmarks of the pair 'case1' must be a path, got 7"),
        ('landmarks = "case1.csv"', 'landmark = "x"', "no 'landmark' in the pair 'case1'"),
        ('name = "case1"', "", "needs name"),
        ('name = "case1"', 'name = "case0"', "'case0' occurs twice"),
        ('name = "case1"', 'name = "a/b"', "may not hold a slash"),
        ('name = "near"', 'name = "identity"', "'identity' stands for no registration"),
        ('landmarks = "case1.csv"', "", "needs project = '...' or landmarks = '...'"),
        ('targets = "targets1.csv"', "", "needs fixed = '...'"),
        ("{method}/{pair}.tfm", "{methods}/{pair}.tfm", "only {pair} and {method}"),
    ],
)
def test_wrong_descriptions_are_refused_with_a_reason(tmp_path: Path, old: str, new: str, word: str) -> None:
    path = make_study(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidInputError) as caught:
        run_study(path, tmp_path / "out")
    assert word in str(caught.value)


def test_a_pattern_that_fits_several_files_costs_its_method_alone(tmp_path: Path) -> None:
    """The method is missing for these pairs; no pair leaves the ranking, and the others' scores are as before."""
    path = make_study(tmp_path)
    before = {one["name"]: one for one in ask("benchmark", path, "--out", tmp_path / "before")["methods"]}
    path.write_text(path.read_text().replace("{method}/{pair}.tfm", "{method}/*.tfm", 1))
    found = ask("benchmark", path, "--out", tmp_path / "out")
    assert found["failed"] == {}
    after = {one["name"]: one for one in found["methods"]}
    assert after["near"]["missing"] == 3
    assert after["far"]["mean_score"] == pytest.approx(before["far"]["mean_score"], rel=0.2)


def test_broken_toml_and_missing_parts(tmp_path: Path) -> None:
    path = tmp_path / "STUDY.toml"
    path.write_text("name = ")
    with pytest.raises(FileFormatError, match="not valid TOML"):
        read_study(path)
    path.write_text('name = "empty"')
    with pytest.raises(InvalidInputError, match=r"no \[\[pair\]\]"):
        read_study(path)
    path.write_text('[pair]\nname = "a"')
    with pytest.raises(InvalidInputError, match=r"heading \[\[pair\]\]"):
        read_study(path)
    with pytest.raises(InvalidInputError, match="workers"):
        run_study(make_study(tmp_path), tmp_path / "out", workers=0)


def test_with_references_a_methods_scores_do_not_depend_on_the_other_methods(tmp_path: Path) -> None:
    """To the last bit, and the verdict says which methods are references."""
    path = make_study(tmp_path, pairs=2)
    for n in range(2):
        shift(tmp_path, "ref", f"case{n}", 3.0)
        shift(tmp_path, "other", f"case{n}", -6.0)
    for name in ("ref", "other"):
        path.write_text(
            path.read_text()
            + f'[[method]]\nname = "{name}"\ntransform = "{{method}}/{{pair}}.tfm"\nreference = true\n\n'
        )
    whole = read_study(path)
    assert whole.references == ("ref", "other")
    few = with_methods(whole, near=False, ref=True, other=True)
    many, less = run_study(whole, tmp_path / "a"), run_study(few, tmp_path / "b")
    for one, other in zip(many.outcomes, less.outcomes, strict=True):
        for name in ("near", "ref", "other"):
            here, there = one.methods.index(name), other.methods.index(name)
            np.testing.assert_array_equal(one.draws[:, here], other.draws[:, there])
            assert one.scores[here] == other.scores[there]
        assert one.evaluation["references"] == ["ref", "other"]
    assert "Without references" not in many.verdict
    bare = with_methods(whole, near=False, far=False, farther=False, ref=False, other=False)
    assert "sizes depend on which methods are compared" in run_study(bare, tmp_path / "c").verdict


def test_beside_references_undefined_targets_cost_and_change_nobody_else(tmp_path: Path) -> None:
    """A field that ends early loses to the whole one, is not first without a word, and the others keep every bit."""
    path = make_study(tmp_path, pairs=2)
    x, y = np.meshgrid(np.arange(201.0), np.arange(201.0))
    grid = np.stack([x, y], axis=2)
    for n in range(2):
        shift(tmp_path, "ref", f"case{n}", 3.0)
        moves = (truth(grid.reshape(-1, 2), n) - grid.reshape(-1, 2)).reshape(grid.shape).transpose(2, 0, 1)
        for name, last in (("whole", 201), ("short", 171)):
            (tmp_path / name).mkdir(exist_ok=True)
            field = DisplacementField(moves[:, :last], Grid((201, last)))
            write_transform(field, tmp_path / name / f"case{n}.nrrd")
    path.write_text(
        path.read_text()
        + '[[method]]\nname = "ref"\ntransform = "{method}/{pair}.tfm"\nreference = true\n\n'
        + "".join(
            f'[[method]]\nname = "{name}"\ntransform = "{{method}}/{{pair}}.nrrd"\n\n' for name in ("whole", "short")
        )
    )
    study = read_study(path)
    result = run_study(study, tmp_path / "a")
    names = ("near", "far", "farther", "ref", "whole", "short")
    alone = run_study(with_methods(study, **{n: n == "ref" for n in names if n != "short"}), tmp_path / "b")
    for one, other in zip(result.outcomes, alone.outcomes, strict=True):
        scores = dict(zip(one.methods, one.scores, strict=True))
        assert scores["whole"] < scores["short"] < scores["near"]
        for name in other.methods:
            np.testing.assert_array_equal(
                one.draws[:, one.methods.index(name)], other.draws[:, other.methods.index(name)]
            )
    assert "flagged" not in result.verdict
    first = run_study(with_methods(study, **{n: n == "ref" for n in names if n != "whole"}), tmp_path / "c")
    assert "short is flagged in 2 pairs (case0, case1): it is not defined at some of the targets" in first.verdict


def test_a_reference_is_declared_by_true_or_false(tmp_path: Path) -> None:
    path = make_study(tmp_path, pairs=1)
    path.write_text(path.read_text() + '[[method]]\nname = "x"\ntransform = "x/{pair}.tfm"\nreference = "yes"\n')
    with pytest.raises(InvalidInputError, match="reference of the method 'x' should be a valid boolean, got 'yes'"):
        read_study(path)
