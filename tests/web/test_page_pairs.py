"""The page of all pairs in a real browser: sign-in, list, opening a pair and coming back, assignment, links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from warpgauge.project import Project
from web.page_tools import PATIENCE, SETTLED
from web.server_tools import Served, lattice, served, write_pictures
from web.test_page_access import AXE, RULES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("pairs")
    fixed, moving = write_pictures(folder.parent / "pictures", (120, 110))
    points = lattice((10, 10), (110, 100), (6, 5))
    for number in range(1, 7):
        aim = folder / f"lung {number}"
        settings = {"guided_start": False, "budget": 2}
        Project.create(aim, fixed=fixed, moving=moving, candidates=points, targets=points, copy=True,
                       settings=settings).close()  # fmt: skip
    (folder / "lung 6" / "project.json").write_text("{}")
    with served(folder, "ada,ben") as running:
        yield running


def opened(browser: Any, address: str, **options: Any) -> Any:
    context = browser.new_context(viewport={"width": 1280, "height": 720}, **options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return page


def test_from_sign_in_to_what_is_left(browser: Any, server: Served) -> None:
    """The organiser invites and assigns; a rater finds their pairs, answers one, and comes back to what is left."""
    organiser = opened(browser, server.links["launcher"])
    organiser.wait_for_selector("tr[data-pair]")
    organiser.wait_for_function("() => !document.querySelector('#totals').textContent.includes('counted')")
    assert "6 pairs" in organiser.text_content("#totals")
    assert "does not describe" in organiser.text_content("tr[data-pair^=lung-6] .problem")
    organiser.get_by_label("Name of a person").fill("cy")
    organiser.locator("[data-act=invite]").click()
    link = organiser.get_by_label("Link of cy").input_value()
    for number in range(1, 6):
        organiser.get_by_label(f"Choose lung {number}", exact=True).check()
    organiser.locator("#raters").select_option(["cy"])
    organiser.locator("[data-act=assign]").click()
    organiser.wait_for_selector("tr[data-pair^=lung-1]:has-text('cy 0/2')")
    if AXE.exists():
        organiser.evaluate(AXE.read_text())
        assert organiser.evaluate(RULES) == []

    rater = opened(browser, link)
    assert "0 of 5 pairs are done" in rater.text_content("#left")
    assert rater.locator("#all").is_hidden()
    rater.locator("tr[data-pair^=lung-1] a").click()
    rater.wait_for_function("() => globalThis.warpgauge?.opened")
    assert "/pair/lung-1" in rater.url
    rater.wait_for_function(SETTLED)
    rater.locator("#moving canvas").first.click()
    rater.keyboard.press("Enter")
    rater.wait_for_function("() => /saved/.test(document.querySelector('#saved').textContent)")
    rater.locator("#home").click()
    rater.wait_for_selector("tr[data-pair^=lung-1] td:nth-child(3):has-text('1')")
    assert "Go on with lung 1" in rater.text_content("#next")
    with Project.open(server.folder / "lung 1") as project:
        assert project.state.who_answered() == ["cy"]


@pytest.mark.parametrize(("width", "height"), [(834, 1112), (1112, 834)])
def test_on_a_tablet(browser: Any, server: Served, width: int, height: int) -> None:
    """Nothing is wider than the window, in light and dark."""
    for scheme in ("light", "dark"):
        page = opened(browser, server.links["launcher"], color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_selector("tr[data-pair]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
