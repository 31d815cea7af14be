"""The recorded figures: what each holds, and how new ones are compared with them.

``python -m golden.figures [item ...]`` in the folder ``tests`` records them anew. Do this only where a figure is meant
to change, and say why in the commit.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from command_tools import ask
from golden.projects import add_part, make_cima, make_lung, make_small, write_pairs
from warpgauge import maps
from warpgauge.evaluation import evaluate_project, project_posterior
from warpgauge.io.files import plain

HERE = Path(__file__).parent
# One comparison for every processor. Between OpenBLAS for Haswell, SkylakeX and Nehalem, and numba for any x86-64,
# sums are rounded in another order; what is computed then changed by at most 6e-11; a millionth leaves
# room for other versions.
COMPUTED = 1e-6
# Numbers below this are rounding errors about 0, such as the spread of the Jacobians of an affine map.
NOTHING = 1e-9
# Draws change one by one, because the factor of a covariance may be another of equal right. What is read from n of them
# has a Monte Carlo error of about 1 / sqrt(n) of itself (the end of an interval as wide as the figure: the largest
# change seen between two processors was 1.3 of these), a probability the binomial one of two sets of draws (2.6 seen).
# Four errors leave the largest of some thousand figures within.
ERRORS = 4
SAMPLES = 1000  # where an item does not say how many draws it has
DRAWN = frozenset({
    "score", "interval", "statistics", "expected_squared_error",
    "root_expected_squared_error", "expected_rank", "rank_probabilities", "probability_best",
    "win_probability", "best", "all_ranks", "needed", "chance", "model_based", "lead",
    "mean_score", "score_interval", "cases", "median_difference",
})  # fmt: skip
# By the paper's own judge these have a closed form.
CLOSED = frozenset({"score", "expected_squared_error", "root_expected_squared_error"})
# What repeats other figures (a table of them, an order by them, a hash over them, a number that follows from them).
REPEATED = frozenset({"rows", "ranking", "commitment", "further_annotations"})


def differences(before: Any, after: Any, drawn_keys: frozenset[str] = DRAWN) -> Iterator[str]:
    """Name every figure that changed by more than its tolerance; keys may be added."""
    yield from _differences(before, after, drawn_keys, "", False, SAMPLES)


def _differences(
    before: Any, after: Any, drawn_keys: frozenset[str], path: str, drawn: bool, samples: int
) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        samples = before.get("samples", samples)
        for key, value in before.items():
            if key not in after:
                yield f"{path}.{key} is gone"
            else:
                is_drawn = drawn or key in drawn_keys
                yield from _differences(value, after[key], drawn_keys, f"{path}.{key}", is_drawn, samples)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, drawn_keys, f"{path}[{number}]", drawn, samples)
    elif _is_number(before) and _is_number(after):
        tolerance = _monte_carlo(path, before, after, samples) if drawn else COMPUTED * abs(before)
        if abs(after - before) > max(tolerance, NOTHING):
            yield f"{path}: {before!r} became {after!r}"
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _monte_carlo(path: str, before: float, after: float, samples: int) -> float:
    """Return how far two figures from draws may lie apart."""
    if "probabilit" not in path:
        return float(ERRORS * abs(before) / np.sqrt(samples))
    share = np.clip((before + after) / 2, 1 / samples, 1 - 1 / samples)
    return float(ERRORS * np.sqrt(2 * share * (1 - share) / samples))


def recorded(name: str) -> dict[str, Any]:
    """Read the figures of an item."""
    content: dict[str, Any] = json.loads((HERE / "figures" / f"{name}.json").read_text(encoding="utf-8"))
    return content


def numbers(value: Any) -> Any:
    """Leave out prose and what repeats other figures; names that tie are in alphabetical order."""
    if isinstance(value, dict):
        kept = {key: numbers(one) for key, one in value.items() if key not in REPEATED and not _is_prose(one)}
        if "tied" in kept:
            kept["tied"] = [sorted(names) for names in kept["tied"]]
        return kept
    return [numbers(one) for one in value if not _is_prose(one)] if isinstance(value, list) else value


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and " " in value


def brief(value: Any) -> Any:
    """Leave out, anywhere in it, what follows from other figures or would be much of the same."""
    if isinstance(value, dict):
        left_out = ("statistics", "rank_probabilities", "win_probability", "landmark_statistics", "program")
        return {key: brief(one) for key, one in value.items() if key not in left_out}
    return [brief(one) for one in value] if isinstance(value, list) else value


# The items, each made from a fresh copy of a project.


def _maps(place: Path, transform: str, factor: float, tolerance: float) -> dict[str, Any]:
    """A few values and the mean of every kind of map, by the library and, in single precision, by the command."""
    with wg.Project.open(place) as project:
        posterior, one = project_posterior(project), project.transform(transform)
        grid = project.fixed_grid.coarsened(factor)
        made = {
            "mean": wg.mean_map(posterior, grid),
            "entropy": wg.entropy_map(posterior, grid),
            "sd": maps.standard_deviation_map(posterior, grid),
            "error": wg.error_map(posterior, one, grid),
            "exceedance": maps.exceedance_map(posterior, one, grid, tolerance),
            "significance": maps.significance_map(posterior, one, grid),
        }
    return {kind: _values(array) for kind, array in made.items()}


def _values(array: np.ndarray) -> dict[str, Any]:
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    chosen = flat[np.linspace(0, flat.size - 1, 31).astype(int)]
    return {
        "shape": list(array.shape),
        "defined": int(np.isfinite(flat).sum()),
        "values": [float(x) if np.isfinite(x) else None for x in chosen],
    }


def _undefined(place: Path) -> dict[str, Any]:
    add_part(place)
    paper = brief(ask("evaluate", place, "--centre", "prior", "--tolerance", 1))
    return {"evaluate": ask("evaluate", place), "prior": paper}


def _study(place: Path) -> dict[str, Any]:
    """A study of three plain pairs and one of the project."""
    folder, rng = place.parent, np.random.default_rng(5)
    text = 'name = "plain"\n[settings]\nsd = 0.3\nsamples = 200\nbootstrap = 300\ntolerance = 4.0\n'
    for n in range(3):
        fixed = rng.uniform(0, 200, (25, 2)).round(6)
        moving = (fixed + 4 * np.sin(fixed[:, ::-1] / 40 + n) + rng.normal(0, 0.3, fixed.shape)).round(6)
        write_pairs(folder / f"case{n}.csv", fixed, moving)
        targets = rng.uniform(10, 190, (60, 2)).round(6)
        write_pairs(folder / f"targets{n}.csv", targets, targets)
        for name, by in (("close", 0.5), ("far", 30.0)):
            (folder / f"{name}-case{n}.txt").write_text(f"1 0 {by}\n0 1 {n}\n0 0 1\n")
        text += f'[[pair]]\nname = "case{n}"\nlandmarks = "case{n}.csv"\ntargets = "targets{n}.csv"\n'
    for name in ("close", "far"):
        text += f'[[method]]\nname = "{name}"\ntransform = "{{method}}-{{pair}}.txt"\n'
    (folder / "plain.toml").write_text(text)
    (folder / "project.toml").write_text(
        f'[settings]\nsamples = 300\nbootstrap = 200\n[[pair]]\nname = "it"\nproject = "{place.name}"\n'
        '[[method]]\nname = "near"\n[[method]]\nname = "shift"\n'
        '[[method]]\nname = "gone"\ntransform = "gone-{pair}.txt"\n'
    )
    told = {name: ask("benchmark", folder / f"{name}.toml", "--out", folder / name) for name in ("plain", "project")}
    return brief(told)  # type: ignore[no-any-return]


def _numbers(place: Path, **options: Any) -> dict[str, Any]:
    """``evaluate`` of a real project, without sentences that quote its landmarks."""
    with wg.Project.open(place) as project:
        found = json.loads(json.dumps(plain(evaluate_project(project, **options).to_dict())))
    found["flags"] = [{key: one[key] for key in ("code", "transform", "row", "p")} for one in found["flags"]]
    if found["without_flagged"] is not None:
        found["without_flagged"] = {key: found["without_flagged"][key] for key in ("annotations", "ranking", "tied")}
    del found["verdict"], found["lines"]
    for one in found["transforms"].values():
        for key in ("flags", "rank_probabilities", "statistics"):
            del one[key]
    del found["win_probability"]
    return found  # type: ignore[no-any-return]


Item = tuple[str, Callable[[Path], dict[str, Any]]]
ITEMS: dict[str, Item] = {
    "small-evaluate": ("small", lambda place: ask("evaluate", place)),
    "small-prior": ("small", lambda place: ask("evaluate", place, "--centre", "prior", "--tolerance", 1.5)),
    "small-undefined": ("small", _undefined),
    "small-maps": ("small", lambda place: _maps(place, "near", 4, 0.5)),
    "small-study": ("small", _study),
    "cima-evaluate": ("cima", lambda place: _numbers(place, samples=300)),
    "lung-evaluate": ("lung", lambda place: _numbers(place, samples=300, tolerance=2)),
    "lung-prior": ("lung", lambda place: _numbers(place, samples=300, centre="prior")),
    "lung-maps": ("lung", lambda place: _maps(place, "NC_bspline_ASGD_003", 4, 2.0)),
}
REAL = ("cima", "lung")


def make_project(kind: str, folder: Path, data: Path | None) -> Path:
    """Make the project of an item."""
    if kind in REAL:
        assert data is not None
        return make_cima(folder, data) if kind == "cima" else make_lung(folder, data)
    return make_small(folder)


def figures(name: str, project: Path, folder: Path) -> dict[str, Any]:
    """Compute the figures of an item from a copy of its project."""
    place = folder / project.name
    shutil.copytree(project, place)
    found: dict[str, Any] = json.loads(json.dumps(ITEMS[name][1](place), allow_nan=False))
    return numbers(found)  # type: ignore[no-any-return]


def record(names: list[str]) -> None:
    """Compute the figures of the items, of all by default, and write them beside this file."""
    data = os.environ.get("WARPGAUGE_DATA")
    made: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder  # where it is recorded which projects are trusted
        for name in names or ITEMS:
            kind = ITEMS[name][0]
            if kind not in made:
                (Path(folder) / kind).mkdir()
                made[kind] = make_project(kind, Path(folder) / kind, data and Path(data))
            with tempfile.TemporaryDirectory() as own:
                found = figures(name, made[kind], Path(own))
            text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
            (HERE / "figures" / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(sys.argv[1:])
