"""When things go wrong, and when several people work: nothing is lost, nothing is hidden, nobody sees too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpgauge.project import Placement, Project
from web.page_tools import Sheet, make_tissue_project, open_sheet, ring_radius, says
from web.server_tools import Served, served

ME = "organiser"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tissue_project(tmp_path / "lesion", size=(400, 320))


def answer(folder: Path, query: int, who: str = ME) -> Any:
    with Project.open(folder) as project:
        return project.state.placement(who, query) or project.state.answer(who, query)


def events(folder: Path, kind: str) -> int:
    with Project.open(folder) as project:
        return sum(event.kind == kind for event in project.events())


def test_a_killed_server_loses_nothing_and_the_page_sends_when_it_is_back(browser: Any, folder: Path) -> None:
    """kill -9 mid-session: a quiet bar, the last action is kept and sent, exactly once, when the server is back."""
    server = Served(folder, process=True)
    sheet = open_sheet(browser, server)
    page = sheet.page
    sheet.press_at("moving", 150, 140)
    sheet.accept()
    server.kill()
    sheet.press_at("moving", 260, 210)
    drawn = sheet.state()["mark"]
    page.keyboard.press("Enter")
    page.locator("#offline").wait_for(state="visible")
    says(page.locator("#offline"), "kept here and will be sent")
    bar = page.locator("#offline").bounding_box()
    for tool in page.locator("button:visible, select:visible").all():
        box = tool.bounding_box()
        apart = box["x"] >= bar["x"] + bar["width"] or box["y"] >= bar["y"] + bar["height"]
        assert apart, ("it covers a tool", tool.text_content())
    assert answer(folder, 1) is None
    with served(folder, port=server.port):
        sheet.wait_for_query(3)
        page.locator("#offline").wait_for(state="detached")
        np.testing.assert_allclose(answer(folder, 1).moving, drawn["point"])
        assert events(folder, "place") == 2
    server.stop()
    sheet.close()


def test_an_action_kept_by_a_closed_page_is_sent_by_the_next_one(browser: Any, folder: Path) -> None:
    """Server killed, tab closed: the action waits in the browser and is sent when the page is opened again."""
    server = Served(folder, process=True)
    sheet = open_sheet(browser, server)
    sheet.press_at("moving", 150, 140)
    drawn = sheet.state()["mark"]
    server.kill()
    sheet.page.keyboard.press("Enter")
    sheet.page.locator("#offline").wait_for(state="visible")
    sheet.page.close()
    with served(folder, port=server.port) as again:
        other = sheet.second_tab(again.links["launcher"])
        other.wait_for_query(2)
        np.testing.assert_allclose(answer(folder, 0).moving, drawn["point"])
        assert other.page.evaluate("() => Object.keys(localStorage).filter(k => k.includes('pending'))") == []
    server.stop()
    sheet.close()


def test_a_server_that_cannot_write_says_why_until_it_can(browser: Any, folder: Path, tmp_path: Path) -> None:
    """503 again and again: its sentence stands in the bar, the mark is kept, and goes through when it can be saved."""
    mirror = tmp_path / "mirror"
    with served(folder, mirror=mirror) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        mirror.rename(tmp_path / "away")
        mirror.write_text("not a folder")
        sheet.press_at("moving", 150, 140)
        page.keyboard.press("Enter")
        says(page.locator("#offline"), "mirror")
        says(page.locator("#offline"), "Your last action is kept here and will be sent.")
        mirror.unlink()
        (tmp_path / "away").rename(mirror)
        sheet.wait_for_query(2)
        page.locator("#offline").wait_for(state="detached")
        assert events(folder, "place") == 1
        sheet.close()


def test_a_late_list_does_not_overwrite_a_newer_one(browser: Any, folder: Path) -> None:
    """What the server said after the first mark comes after what it said after the second."""
    with served(folder) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        late: list[tuple[Any, Any]] = []

        def handle(route: Any) -> None:
            reply = route.fetch()
            if late:
                route.fulfill(response=reply)
            else:
                late.append((route, reply))

        page.route("**/api/list", handle)
        for number, at in (("2", (150, 140)), ("3", (260, 210))):
            sheet.press_at("moving", *at)
            page.keyboard.press("Enter")
            page.wait_for_function("n => document.getElementById('query-number')?.dataset.number === n", arg=number)
        listed = "() => globalThis.warpgauge.store.state.rows.length"
        page.wait_for_function(f"() => ({listed})() === 2")
        route, reply = late[0]
        route.fulfill(response=reply)
        sheet.settle()
        assert page.evaluate(listed) == 2
        sheet.close()


def lose_answers(sheet: Sheet, path: str, times: int = 1) -> list[int]:
    """Let requests reach the server and drop its answer so many times; gives the codes that the server answered."""
    codes: list[int] = []

    def handle(route: Any) -> None:
        reply = route.fetch()
        codes.append(reply.status)
        if len(codes) <= times:
            route.abort("connectionreset")
        else:
            route.fulfill(response=reply)

    sheet.page.route(path, handle)
    return codes


def test_a_lost_acknowledgement_is_not_a_conflict_and_nothing_is_doubled(browser: Any, folder: Path) -> None:
    """The server wrote and its answer was lost: the page sends again and is acknowledged; stored once."""
    with served(folder) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        codes = lose_answers(sheet, "**/place")
        sheet.press_at("moving", 150, 140)
        drawn = sheet.state()["mark"]
        sheet.accept()
        assert codes == [200, 200]
        says(page.locator("#saved"), "✓ saved")
        page.locator("#offline").wait_for(state="detached")
        assert events(folder, "place") == 1
        np.testing.assert_allclose(answer(folder, 0).moving, drawn["point"])
        with Project.open(folder) as project:
            assert sheet.state()["saved"]["generation"] == project.state.answer(ME, 0).generation
        assert page.evaluate("() => Object.keys(localStorage).filter(k => k.includes('pending'))") == []
        # A skip in the same way.
        codes = lose_answers(sheet, "**/skip")
        page.keyboard.press("s")
        page.keyboard.press("2")
        sheet.wait_for_query(3)
        assert codes == [200, 200]
        assert events(folder, "skip") == 1
        # A landmark of one's own.
        codes = lose_answers(sheet, "**/volunteer")
        sheet.press_at("fixed", 200, 300)
        sheet.press_at("moving", 210, 300)
        page.keyboard.press("Enter")
        page.wait_for_function("() => globalThis.warpgauge.store.state.own === null")
        sheet.settle()
        assert codes == [200, 200]
        assert events(folder, "place") == 2
        page.keyboard.press("z")
        sheet.settle()
        # An undo whose answer is lost is not done twice: the page shows what it changed.
        codes = lose_answers(sheet, "**/undo")
        page.keyboard.press("z")
        sheet.wait_for_query(2)
        assert codes == [200, 409]
        says(page.locator("#message"), "lost on the way")
        assert answer(folder, 1) is None
        assert isinstance(answer(folder, 0), Placement)
        sheet.close()


@pytest.mark.parametrize("choice", ["mine", "theirs"])
def test_a_conflicting_write_from_another_tab_is_shown_and_the_expert_chooses(
    browser: Any, folder: Path, choice: str
) -> None:
    """Two tabs answer one query: the second is told, sees both versions, and what is chosen is what is stored."""
    with served(folder) as server:
        one = open_sheet(browser, server)
        two = one.second_tab(server.base)
        two.wait_for_query(1)
        one.press_at("moving", 150, 140)
        one.page.keyboard.press("Enter")
        one.wait_for_query(2)
        first = answer(folder, 0)
        two.page.bring_to_front()
        two.press_at("moving", 300, 250)
        mine = two.state()["mark"]["point"]
        two.page.keyboard.press("Enter")
        two.page.locator("button[data-choice=theirs]").wait_for()
        assert (answer(folder, 0), events(folder, "edit")) == (first, 0), (
            "nothing may be written before the expert has chosen"
        )
        # Both marks stand in the image, and the line says which is stored and how far they are apart.
        said = two.page.locator("#message").text_content()
        assert "that is what is stored" in said
        apart = np.linalg.norm(np.subtract(mine, first.moving))
        assert float(said.partition("marks are ")[2].split()[0]) == pytest.approx(apart, rel=0.06)
        assert two.state()["conflict"]["mark"]["point"] == pytest.approx(list(first.moving))
        two.page.locator(f"button[data-choice={choice}]").click()
        moved = "!==" if choice == "mine" else "==="
        two.page.wait_for_function(f"() => document.getElementById('query-number').dataset.number {moved} '1'")
        two.settle()
        np.testing.assert_allclose(answer(folder, 0).moving, mine if choice == "mine" else first.moving)
        one.close()


def test_a_second_tab_resumes_where_the_work_is(browser: Any, folder: Path) -> None:
    """A tab that is opened later shows the query that is open now, not the first one."""
    with served(folder) as server:
        one = open_sheet(browser, server)
        one.press_at("moving", 150, 140)
        one.page.keyboard.press("Enter")
        one.wait_for_query(2)
        two = one.second_tab(server.base)
        two.wait_for_query(2)
        assert two.state()["query"]["query"] == one.state()["query"]["query"]
        one.close()


def test_a_revoked_rater_is_told_what_happened_and_whom_to_ask(browser: Any, folder: Path) -> None:
    """The page says it at the next action and after a reload; what was saved stays."""
    with served(folder, "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        sheet.press_at("moving", 150, 140)
        sheet.accept()
        server.manager().post("/api/people", json={"action": "revoke", "name": "ada"}).raise_for_status()
        sheet.press_at("moving", 160, 150)
        page.keyboard.press("Enter")
        page.locator("#offline", has_text="not valid any more").wait_for()
        says(page.locator("#message"), "ask the organiser")
        page.reload()
        says(page.locator("body"), "organiser")
        assert answer(folder, 0, "ada") is not None
        sheet.close()


def test_two_blind_raters_see_only_their_own_and_the_organiser_sees_both(browser: Any, folder: Path) -> None:
    """Each rater's list, marks and drawer hold nothing of the other; the organiser compares, excludes and settles."""
    with served(folder, "ada,ben") as server:
        sheets: dict[str, Sheet] = {}
        for who, at in (("ada", (150, 140)), ("ben", (170, 150))):
            sheet = sheets[who] = open_sheet(browser, server, who)
            sheet.press_at("moving", *at)
            sheet.accept()
        locations = [sheet.state()["query"]["location"] for sheet in sheets.values()]
        assert locations[0] == locations[1], "the list of locations is shared"
        for sheet in sheets.values():
            sheet.page.locator("#moving .planes canvas").focus()
            sheet.page.keyboard.press("d")
            sheet.page.wait_for_selector("#drawer tbody tr")
            assert sheet.page.locator("#drawer tbody tr").count() == 1
            assert sheet.page.locator("button[data-leaf=compare]").count() == 0
            assert sheet.page.locator("#organiser-button").count() == 0
        # Who organises and has not marked anything begins with the people.
        organiser = open_sheet(browser, server)
        page = organiser.page
        page.wait_for_selector("[data-rater=ada]")
        page.locator("tr[data-place='0']").first.click()
        page.locator("[data-judged='0']").wait_for()
        page.locator("button[data-act=exclude]").first.click()
        page.wait_for_selector("button[data-act=include]")
        with Project.open(folder) as project:
            assert len(project.state.excluded) == 1
        page.locator("button[data-act=include]").click()
        page.wait_for_function("() => document.querySelectorAll('[data-act=include]').length === 0")
        # A new rater gets a link; once revoked, it opens nothing.
        page.get_by_label("Name of a rater").fill("cyd")
        page.locator("button[data-act=invite]").click()
        link = page.locator("input.link").first.input_value()
        server.links["cyd"] = link
        cyd = open_sheet(browser, server, "cyd")
        assert cyd.state()["project"]["rater"] == "cyd"
        page.locator("[data-rater=cyd] button[data-act=revoke]").click()
        page.locator("[data-rater=cyd] button[data-act=revoke]").wait_for(state="detached")
        cyd.press_at("moving", 100, 100)
        cyd.page.keyboard.press("Enter")
        cyd.page.locator("#offline").wait_for(state="visible")
        assert answer(folder, 0, "cyd") is None
        page.bring_to_front()
        page.locator("button[data-act=resolve]").click()
        page.wait_for_selector("button[data-act=resolve]:disabled")
        # The raters find the location settled.
        ada = sheets["ada"]
        ada.page.bring_to_front()
        ada.page.locator("#drawer tr[data-query='0']").click()
        ada.wait_for_query(1)
        before = answer(folder, 0, "ada")
        ada.press_at("moving", 200, 200)
        ada.page.keyboard.press("Enter")
        says(ada.page.locator("#message"), "settled")
        assert answer(folder, 0, "ada") == before
        for sheet in (*sheets.values(), organiser, cyd):
            sheet.close()


def test_a_hidden_prediction_is_never_drawn_nor_asked_for(browser: Any, tmp_path: Path) -> None:
    """Where the project hides predictions, no key brings them back, and no request asks for what shows them."""
    folder = make_tissue_project(tmp_path / "hidden", size=(400, 320), hide_prediction=True)
    with served(folder, "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        assert sheet.state()["query"]["prediction"] is None
        for key in ("h", "w"):
            sheet.page.keyboard.down(key)
            sheet.settle()
            sheet.page.keyboard.up(key)
        sheet.press_at("fixed", 200, 200)
        sheet.settle()
        sheet.page.keyboard.press("Escape")
        state = sheet.state()
        assert (state["hidden"], state["warped"], state["expected"]) == (True, False, None)
        assert not any(word in url for url in sheet.requests for word in ("warped?", "linked?", "map/"))
        sheet.press_at("moving", 150, 140)
        sheet.accept()
        sheet.page.keyboard.press("d")
        sheet.page.wait_for_selector("#drawer tbody tr")
        heads = sheet.page.locator("#drawer thead th").all_text_contents()
        assert [head for head in heads if "Away" in head] == []
        assert sheet.page.locator("#drawer thead th").count() == sheet.page.locator("#drawer tbody td").count()
        sheet.close()


class Fingers:
    """Fingers on the moving image; one debugging session for a whole touch, as the browser wants it."""

    def __init__(self, sheet: Sheet) -> None:
        self.session = sheet.context.new_cdp_session(sheet.page)
        self.box, self.page, self.down = sheet.box("moving"), sheet.page, 0

    def __call__(self, kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": self.box["x"] + x, "y": self.box["y"] + y, "id": i} for i, (x, y) in enumerate(points)]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        self.down += len(points) if kind == "touchStart" else 0
        # Every finger that went down is known to the page, and after the end of a touch has gone up again.
        wanted = {"pointerdown": self.down, **({"pointerup": self.down} if kind == "touchEnd" else {})}
        self.page.wait_for_function(
            "wanted => Object.entries(wanted).every(([kind, count]) => globalThis.arrived[kind] >= count)", arg=wanted
        )


def test_touch_tap_drag_and_pinch(browser: Any, folder: Path) -> None:
    """A tap puts the ring, a drag pans, two fingers zoom both images; the sentence is one for fingers."""
    with served(folder, "ada,ben") as server:
        sheet = open_sheet(browser, server, "ada", has_touch=True)
        page = sheet.page
        touch = Fingers(sheet)
        says(page.locator("#message"), "Where is this place? Tap it in the other image.")
        touch("touchStart", (200, 150))
        touch("touchEnd")
        page.wait_for_function("() => globalThis.warpgauge.store.state.mark !== null")
        np.testing.assert_allclose(np.array(sheet.state()["mark"]["shape"]), np.eye(2) * ring_radius(sheet) ** 2)
        view = sheet.state()["views"]["moving"]["2"]
        touch("touchStart", (100, 400))
        touch("touchMove", (120, 410))
        touch("touchMove", (160, 430))
        touch("touchEnd")
        panned = sheet.state()["views"]["moving"]["2"]
        np.testing.assert_allclose(
            [(view["centre"][k] - panned["centre"][k]) * view["scale"] for k in (0, 1)], [60, 30], atol=0.1
        )
        touch("touchStart", (200, 300), (300, 300))
        touch("touchMove", (150, 300), (350, 300))
        touch("touchEnd")
        views = sheet.state()["views"]
        assert views["moving"]["2"]["scale"] == pytest.approx(2 * view["scale"], rel=1e-3)
        assert views["fixed"]["2"]["scale"] == views["moving"]["2"]["scale"]
        assert answer(folder, 0, "ada") is None, "nothing is stored before it is accepted"
        sheet.close()
