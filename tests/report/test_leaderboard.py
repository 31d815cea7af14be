"""The leaderboard of a study in a real browser: complete without a script, sortable with it, and silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_tools import call
from study_tools import make_study, shift
from warpgauge.study import run_study
from web.page_tools import launched


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods on three pairs, one of them with a name that is markup, and incomplete."""
    folder = tmp_path_factory.mktemp("board")
    study = make_study(folder, 3)
    (folder / "far" / "case2.tfm").unlink()
    for pair in range(3):
        shift(folder, "bold", f"case{pair}", 10.0)
    text = study.read_text() + '[[method]]\nname = "<b>bold</b>"\ntransform = "bold/{pair}.tfm"\n'
    study.write_text(text.replace("samples = 100", "samples = 40"))
    said = call("benchmark", study, "--leaderboard", folder / "board.html")
    assert f"Leaderboard: {folder / 'board.html'}" in said
    return folder / "board.html"


def names(page: object) -> list[str]:
    return page.locator("#leaderboard tbody th").all_inner_texts()  # type: ignore[attr-defined]


def test_a_click_on_a_heading_sorts_by_numbers(board: Path) -> None:
    """Ascending, then descending; what has no number stays last; nothing is fetched and nothing is said."""
    with launched() as browser:
        page = browser.new_context(offline=True).new_page()
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto(board.as_uri())
        assert names(page)[0] == "near"
        assert "<b>bold</b>" in names(page)
        assert names(page)[-1] == "identity"
        score = page.locator("#leaderboard thead th", has_text="RMS error").first
        score.get_by_role("button").click()
        assert score.get_attribute("aria-sort") == "ascending"
        ordered = names(page)
        heads = page.locator("#leaderboard thead th").all_inner_texts()
        place = next(at for at, head in enumerate(heads, 1) if head.startswith("RMS error"))
        cells = page.locator(f"#leaderboard tbody td:nth-child({place})")
        values = [float(cells.nth(at).get_attribute("data-value") or "nan") for at in range(cells.count())]
        assert len(values) == 5
        assert values == sorted(values)
        score.get_by_role("button").press("Enter")
        assert score.get_attribute("aria-sort") == "descending"
        assert names(page) == ordered[::-1]
        page.get_by_role("button", name="rank", exact=True).click()
        page.get_by_role("button", name="rank", exact=True).click()
        assert names(page)[-1] == "identity"  # the baseline has no rank
        assert asked == [board.as_uri()]
        assert said == []
        missing = page.locator("#leaderboard tr", has_text="far").last.locator("td").last
        assert missing.inner_text() in ("0", "1")


def test_the_page_is_whole_without_a_script(board: Path) -> None:
    with launched() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(board.as_uri())
        assert names(page)[0] == "near"
        assert page.locator("#leaderboard thead").inner_text().count("from") == 2


def test_the_range_of_ranks_holds_nine_of_ten_rounds(tmp_path: Path) -> None:
    """Of a method that is always first it is 1 to 1; of every method it holds at least 90 % of the rounds."""
    result = run_study(make_study(tmp_path, 2), tmp_path / "out")
    assert result.methods[0].rank_range == (1, 1)
    for one in result.methods:
        low, high = one.rank_range
        assert sum(one.rank_probabilities[low - 1 : high]) >= 0.9 - 1e-9


def test_a_leaderboard_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    study = make_study(tmp_path, 1)
    error = call("benchmark", study, "--leaderboard", tmp_path / "board.txt", code=1)
    assert "must end in .html" in error
    assert not (tmp_path / "STUDY-results").exists()


# The smallest contrast of any text with what is behind it, by the formula of WCAG.
_CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3).map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, n) => sum + one * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (node) => {
    const own = rgb(getComputedStyle(node).backgroundColor);
    return own.length === 4 && own[3] === 0 ? (node.parentElement ? behind(node.parentElement) : [255, 255, 255]) : own;
  };
  return Math.min(...[...document.querySelectorAll("h1, h2, p, caption, th, td, a, button")].map((node) => {
    const pair = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  }));
}"""


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 25, 29)")])
def test_the_page_is_readable_by_day_and_by_night(board: Path, scheme: str, ground: str) -> None:
    """The background follows the reader's choice, and every text has a contrast of at least 4.5."""
    with launched() as browser:
        page = browser.new_context(color_scheme=scheme).new_page()
        page.goto(board.as_uri())
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        assert page.evaluate(_CONTRAST) >= 4.5
