"""Beside references a method is computed once: what is kept is used to the last bit, and nothing else is."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from study_tools import make_study, shift
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.error_model import ErrorModel
from warpgauge.geometry import Grid
from warpgauge.io.transforms import AffineTransform, DisplacementField, write_transform
from warpgauge.study import Study, pair_files, pairs, read_study, run_study, runner
from warpgauge.study.kept import keep_reference, kept_reference
from warpgauge.study.pairs import Job

REFERENCES = "".join(
    f'[[method]]\nname = "{name}"\ntransform = "{{method}}/{{pair}}.tfm"\nreference = true\n\n'
    for name in ("ref", "other")
)
SHORT = '[[method]]\nname = "short"\ntransform = "{method}/{pair}.nrrd"\n\n'


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Three methods, two references, a field that ends early, and one that is missing, on one pair."""
    path = make_study(tmp_path, pairs=1, settings="tolerance = 5.0")
    shift(tmp_path, "ref", "case0", 3.0)
    shift(tmp_path, "other", "case0", -6.0)
    (tmp_path / "short").mkdir()
    moves = np.full((2, 171, 201), 2.0)
    write_transform(DisplacementField(moves, Grid((201, 171))), tmp_path / "short" / "case0.nrrd")
    absent = '[[method]]\nname = "absent"\ntransform = "absent/{pair}.tfm"\n\n'
    path.write_text(path.read_text() + REFERENCES + SHORT + absent)
    return read_study(path)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str] | None]:
    """The methods of each pair that were really computed; None for all."""
    made: list[frozenset[str] | None] = []
    original = runner.compute_pair

    def counting(job: Job) -> object:
        made.append(job.wanted)
        return original(job)

    monkeypatch.setattr(runner, "compute_pair", counting)
    return made


def without(study: Study, *names: str) -> Study:
    return replace(study, methods=tuple(one for one in study.methods if one.name not in names))


def no_fit(*_: object) -> ErrorModel:
    raise AssertionError("a model was fitted again")


def test_methods_that_come_one_by_one_give_a_fresh_run_to_the_bit(
    study: Study, tmp_path: Path, wanted: list[frozenset[str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no model is fitted for them."""
    fresh = run_study(study, tmp_path / "fresh").to_json()
    run_study(without(study, "far", "short", "absent"), tmp_path / "out")
    monkeypatch.setattr(ErrorModel, "fit", no_fit)
    run_study(without(study, "absent"), tmp_path / "out")
    found = run_study(study, tmp_path / "out")
    assert wanted[2:] == [{"far", "short"}, {"absent"}]
    assert found.computed == ("case0",)
    assert found.to_json() == fresh
    assert run_study(study, tmp_path / "out").cached == ("case0",)
    assert run_study(without(study, "near"), tmp_path / "out").cached == ("case0",)
    assert len(wanted) == 4
    assert found.outcomes[0].missing == {"absent": "there is no file 'absent/case0.tfm'"}
    flags = [(one["transform"], one["code"]) for one in found.outcomes[0].evaluation["flags"]]
    assert ("short", "undefined") in flags


def test_what_is_said_of_a_method_is_what_the_evaluation_of_all_says(study: Study, tmp_path: Path) -> None:
    """Scores, intervals and statistics are those of one evaluation of all transforms beside the same panel."""
    from warpgauge.evaluation import evaluate_comparison
    from warpgauge.study.pairs import gathered, usable

    whole = without(study, "absent")
    found = run_study(whole, tmp_path / "out").outcomes[0].evaluation["transforms"]
    with gathered(Job(whole, whole.pairs[0])) as given:
        compared, _ = usable(Job(whole, whole.pairs[0]), given)
        expected = evaluate_comparison(compared, further=False, samples=100, seed=0, tolerance=5.0, with_trust=False)
    assert found.keys() == expected.scores.keys()
    for name, one in expected.scores.items():
        plain = json.loads(json.dumps(one.to_dict()))
        for key in ("score", "interval", "statistics", "landmark", "outside"):
            assert json.loads(json.dumps(found[name][key])) == plain[key], (name, key)
        assert found[name]["expected_squared_error"] == pytest.approx(one.expected_squared_error, rel=1e-12)


def test_a_changed_file_is_computed_alone_and_a_changed_reference_with_all(
    study: Study, tmp_path: Path, wanted: list[frozenset[str] | None]
) -> None:
    run_study(study, tmp_path / "out")
    shift(tmp_path, "far", "case0", 31.0)
    run_study(study, tmp_path / "out")
    shift(tmp_path, "ref", "case0", 3.5)
    last = run_study(study, tmp_path / "out")
    assert wanted == [None, {"far"}, None]
    assert last.to_json() == run_study(study, tmp_path / "fresh").to_json()


@pytest.mark.parametrize("damaged", ["model.result", "ground.result", "part-*.result"])
def test_what_is_damaged_is_computed_anew(study: Study, tmp_path: Path, damaged: str) -> None:
    """A lost model is fitted again for the next method, with the same figures."""
    fresh = run_study(study, tmp_path / "fresh").to_json()
    run_study(without(study, "far"), tmp_path / "out")
    (file,) = (tmp_path / "out" / "pairs").glob(f"case0-*/{damaged}")
    whole = file.read_bytes()
    for content in (whole[:200], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        file.write_bytes(content)
        assert run_study(study, tmp_path / "out").to_json() == fresh


def test_a_further_method_is_the_only_file_that_is_read(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the references and the landmarks say is kept."""
    run_study(without(study, "far"), tmp_path / "out")
    files: list[str] = []
    for module, name in ((pairs, "read_method"), (pair_files, "read_landmarks")):
        original = getattr(module, name)

        def noted(given: Any, *rest: Any, original: Any = original, name: str = name, **options: Any) -> Any:
            files.append(f"{name}: {given}")
            return original(given, *rest, **options)

        monkeypatch.setattr(module, name, noted)
    run_study(study, tmp_path / "out")
    assert files == [f"read_method: {[tmp_path / 'far' / 'case0.tfm']}"]


def test_a_kept_reference_is_read_for_points_at_which_it_was_not_asked() -> None:
    kept: dict[str, np.ndarray] = {}
    at, elsewhere = np.array([[1.0, 2.0]]), np.array([[5.0, 5.0]])
    whole = AffineTransform(np.eye(2), [3.0, 0.0])
    reads: list[int] = []

    def read() -> AffineTransform:
        reads.append(1)
        return whole

    assert kept_reference("ref", [at], kept, read) is None
    keep_reference("ref", whole, [at], kept)
    found = kept_reference("ref", [at], kept, read)
    assert found is not None
    assert found.map(at).tolist() == [[4.0, 2.0]]
    assert not reads
    assert found.map(elsewhere).tolist() == found.map(elsewhere).tolist() == [[8.0, 5.0]]
    assert reads == [1]


def test_the_rule_for_missing_cases_is_applied_to_what_is_kept(study: Study, tmp_path: Path) -> None:
    run_study(study, tmp_path / "out")
    strict = replace(study, settings=replace(study.settings, missing="error"))
    with pytest.raises(InvalidInputError, match="'absent' is missing for the pair 'case0'"):
        run_study(strict, tmp_path / "out")


def test_a_late_method_that_breaks_is_missing_and_the_others_are_kept(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from warpgauge.io.transforms import AffineTransform

    before = run_study(without(study, "far", "farther"), tmp_path / "out")
    original = AffineTransform.map

    def breaking(self: AffineTransform, points: np.ndarray) -> np.ndarray:
        if self.offset[0] == 60:
            raise ZeroDivisionError
        return original(self, points)

    monkeypatch.setattr(AffineTransform, "map", breaking)
    found = run_study(study, tmp_path / "out").outcomes[0]
    assert found.missing["farther"] == "it cannot be evaluated (ZeroDivisionError)"
    assert "far" not in found.missing
    assert dict(zip(found.methods, found.scores, strict=True))["near"] == before.outcomes[0].scores[0]


@pytest.mark.parametrize("about", ["7", "null", '{"key": {"missing": null}}', '{"key": {"other": 1}}', '{"key": 3}'])
def test_kept_results_of_another_kind_are_computed_anew(study: Study, tmp_path: Path, about: str) -> None:
    """Each file of a pair's folder is replaced by one with a sound checksum and other content."""
    fresh = run_study(study, tmp_path / "out").to_json()
    (folder,) = (tmp_path / "out" / "pairs").iterdir()
    for file in folder.iterdir():
        content = f'{{"about": {about}, "shapes": {{"draws": [0, 0]}}}}\n'.encode()
        file.write_bytes(zlib.crc32(content).to_bytes(4) + content)
    again = run_study(study, tmp_path / "out")
    assert again.computed == ("case0",)
    assert again.to_json() == fresh
