"""What the tests of the report ask of a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "wbr", "link"}


class Page(HTMLParser):
    """Collects what the tests ask: tags, headings, images, tables, text; refuses tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.tables: dict[str, list[list[tuple[dict[str, str | None], str]]]] = {}
        self.text = ""
        self._open: list[str] = []
        self._table = ""
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag == "table":
            self._table = given.get("id") or f"table {len(self.tables)}"
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("td", "th"):
            self.tables[self._table][-1].append((given, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            return
        self.text += data
        if self._open and re.fullmatch("h[1-6]", self._open[-1]):
            level, said = self.headings[-1]
            self.headings[-1] = (level, said + data)
        if {"td", "th"} & set(self._open[-2:]):  # also within the span of a heading
            given, said = self.tables[self._table][-1][-1]
            self.tables[self._table][-1][-1] = (given, said + data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.tags if name == tag]
