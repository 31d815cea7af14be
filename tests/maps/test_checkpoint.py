"""Large maps are kept on disk and continued; memory is bounded by the block."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from models import make
from warpgauge import maps
from warpgauge.core.process import Posterior
from warpgauge.errors import FileFormatError, InvalidInputError

GRID = wg.Grid((61, 37))


class InterruptionError(Exception):
    """Stands for a killed process."""


class Counting:
    """A transform that counts the points it maps, and may break off."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.mapped, self.stop_after = 0, stop_after

    def map(self, points: np.ndarray) -> np.ndarray:
        if len(points) > 64:  # the probes of the key are not counted
            if self.mapped >= self.stop_after:
                raise InterruptionError
            self.mapped += len(points)
        return points * 1.1


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpgauge.maps.dense.POINTS", 500)


def posterior(seed: int = 0) -> Posterior:
    model = make(2, "wendland", False, "affine", seed=seed)
    return model.prior.condition(model.annotations)


@pytest.mark.usefixtures("small_blocks")
def test_resuming_gives_the_same_bytes_and_maps_only_what_was_missing(tmp_path: Path) -> None:
    whole = maps.error_map(posterior(), Counting(), GRID, checkpoint=tmp_path / "whole.npy")
    np.testing.assert_array_equal(whole, wg.error_map(posterior(), Counting(), GRID))
    with pytest.raises(InterruptionError):
        maps.error_map(posterior(), Counting(1000), GRID, checkpoint=tmp_path / "parts.npy")
    rest = Counting()
    seen: list[int] = []
    maps.error_map(
        posterior(), rest, GRID, checkpoint=tmp_path / "parts.npy", progress=lambda done, _: seen.append(done)
    )
    assert rest.mapped == GRID.count - 1000
    assert seen[-1] == GRID.count
    assert (tmp_path / "parts.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert (tmp_path / "parts.npy.json").read_bytes() == (tmp_path / "whole.npy.json").read_bytes()
    again = Counting()
    maps.error_map(posterior(), again, GRID, checkpoint=tmp_path / "parts.npy")
    assert again.mapped == 0


@pytest.mark.usefixtures("small_blocks")
def test_blocks_side_by_side_give_the_same_bytes_and_never_call_a_transform_twice_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any number of threads gives one map; a user's function and the progress never meet themselves."""
    inside, reports = threading.Lock(), []

    def alone(points: np.ndarray) -> np.ndarray:
        assert inside.acquire(blocking=False)
        time.sleep(0.001)
        inside.release()
        return points * 1.1

    def report(done: int, _: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        reports.append(done)

    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("WARPGAUGE_THREADS", threads)
        found.append(wg.error_map(posterior(), alone, wg.Grid((73, 61)), progress=report))
        assert reports[-1] == 73 * 61
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.usefixtures("small_blocks")
def test_a_checkpoint_of_another_map_is_refused(tmp_path: Path) -> None:
    """Another posterior, transform, grid, tolerance or kind: never continued into a mixture of two maps."""
    path = tmp_path / "map.npy"
    maps.exceedance_map(posterior(), Counting(), GRID, 2.0, checkpoint=path)
    others = (
        lambda: maps.exceedance_map(posterior(1), Counting(), GRID, 2.0, checkpoint=path),
        lambda: maps.exceedance_map(posterior(), lambda x: x * 1.1000001, GRID, 2.0, checkpoint=path),
        lambda: maps.exceedance_map(posterior(), Counting(), wg.Grid((61, 37), [1, 1.01]), 2.0, checkpoint=path),
        lambda: maps.exceedance_map(posterior(), Counting(), GRID, 2.1, checkpoint=path),
        lambda: maps.error_map(posterior(), Counting(), GRID, checkpoint=path),
        lambda: maps.entropy_map(posterior(), GRID, checkpoint=path),
    )
    for other in others:
        with pytest.raises(InvalidInputError, match="belongs to a map of another"):
            other()


@pytest.mark.usefixtures("small_blocks")
def test_a_damaged_note_or_array_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "map.npy"
    maps.entropy_map(posterior(), GRID, checkpoint=path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FileFormatError, match="is damaged"):
        maps.entropy_map(posterior(), GRID, checkpoint=path)
    (tmp_path / "map.npy.json").write_text("{}")
    with pytest.raises(FileFormatError, match="is not the note"):
        maps.entropy_map(posterior(), GRID, checkpoint=path)
    with pytest.raises(InvalidInputError, match=r"ends in \.npy"):
        maps.entropy_map(posterior(), GRID, checkpoint=tmp_path / "map.bin")


@pytest.mark.parametrize("name", ["error", "exceedance", "sd"])
def test_memory_above_the_result_is_that_of_a_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the elements need no more than the same few megabytes beside the result itself."""
    monkeypatch.setattr("warpgauge.maps.dense.POINTS", 1 << 13)
    make_map = {
        "error": lambda grid: maps.error_map(posterior(), lambda x: x + 1, grid),
        "exceedance": lambda grid: maps.exceedance_map(posterior(), lambda x: x + 1e6, grid, 2.0),
        "sd": lambda grid: maps.standard_deviation_map(posterior(), grid),
    }[name]
    make_map(wg.Grid((20, 20)))

    def peak(side: int) -> int:
        tracemalloc.start()
        result = make_map(wg.Grid((side, side), [60 / side, 60 / side]))
        found = tracemalloc.get_traced_memory()[1] - result.nbytes
        tracemalloc.stop()
        return found

    assert peak(512) < 8 * 2**20
    # Whether two threads hold their arrays at the same moment is up to the machine: growth is measured with one.
    monkeypatch.setenv("WARPGAUGE_THREADS", "1")
    assert peak(512) < 1.2 * peak(256) + 2**18
