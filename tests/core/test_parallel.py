"""Threads over rows and items, and the threads of the linear algebra libraries."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import warpgauge as wg
from warpgauge.core.parallel import one_blas_thread, over_items, over_rows


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("WARPGAUGE_THREADS", "2")
    with threadpool_limits(2, "blas") as limits:
        yield limits


@pytest.mark.usefixtures("_two_threads")
def test_one_thread_inside_and_the_former_number_afterwards() -> None:
    assert set(blas_threads()) == {2}
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}
    with pytest.raises(ValueError, match="on purpose"), one_blas_thread():
        raise ValueError("on purpose")
    assert set(blas_threads()) == {2}


@pytest.mark.usefixtures("_two_threads")
def test_threads_that_come_and_go_in_any_order_restore_the_number() -> None:
    first_inside, second_inside, first_may_go = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with one_blas_thread():
            first_inside.set()
            assert second_inside.wait(30)
        first_may_go.set()

    def second() -> list[int]:
        assert first_inside.wait(30)
        with one_blas_thread():
            second_inside.set()
            assert first_may_go.wait(30)
            return blas_threads()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        one.result(60)
        assert set(other.result(60)) == {1}
    assert set(blas_threads()) == {2}


@pytest.mark.usefixtures("_two_threads")
def test_conditioning_fits_and_maps_leave_the_number_as_it_was() -> None:
    fixed = np.random.default_rng(0).uniform(0, 100, (12, 2))
    annotations = wg.Annotations.isotropic(fixed, fixed + 1.0, sd=1.0)
    prior = wg.fit_kernel(wg.TransformationPrior(wg.KernelBundle.pyramid(levels=3)), annotations, max_iterations=2)
    wg.error_map(prior.condition(annotations), lambda points: points, wg.Grid((40, 30)))
    assert set(blas_threads()) == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.usefixtures("_two_threads")
def test_a_forked_child_starts_with_the_former_number() -> None:
    reader, writer = os.pipe()
    with one_blas_thread():
        child = os.fork()
        if child == 0:
            with one_blas_thread():
                inside = set(blas_threads())
            os.write(writer, b"y" if inside == {1} and set(blas_threads()) == {2} else b"n")
            os._exit(0)
        os.waitpid(child, 0)
    assert os.read(reader, 1) == b"y"
    os.close(reader)
    os.close(writer)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("items", [0, 1, 2, 7, 100])
def test_every_item_is_worked_on_once_with_the_buffers_of_its_thread(items: int) -> None:
    done, makers = [], []

    def worker() -> object:
        thread = threading.get_ident()
        makers.append(thread)

        def work(number: int) -> None:
            assert threading.get_ident() == thread
            done.append(number)

        return work

    over_items(worker, items)  # type: ignore[arg-type]
    assert sorted(done) == list(range(items))
    assert len(makers) <= max(1, min(2, items))


@pytest.mark.usefixtures("_two_threads")
def test_an_error_in_a_thread_reaches_the_caller() -> None:
    def worker() -> object:
        def work(number: int) -> None:
            if number == 11:
                raise ValueError("on purpose")

        return work

    with pytest.raises(ValueError, match="on purpose"):
        over_items(worker, 40)  # type: ignore[arg-type]

    def rows(start: int, stop: int) -> None:
        if stop == 1000:
            raise ValueError("the last rows")

    with pytest.raises(ValueError, match="the last rows"):
        over_rows(rows, 1000, 1000)


@pytest.mark.usefixtures("_two_threads")
def test_items_may_share_their_own_rows_out() -> None:
    """Work within work ends, in the caller's thread and in those of the pool."""
    done = []

    def work(item: int) -> None:
        over_rows(lambda start, stop: done.append(stop - start), 1000, 1000)

    over_items(lambda: work, 50)
    assert sum(done) == 50_000
