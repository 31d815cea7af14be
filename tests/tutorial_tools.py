"""Runs a page of the documentation as its reader would: every command and every example, in order, in one folder.

- A ``console`` block holds commands after ``$``, each followed by what it prints to standard output. White space counts
  as one blank (so long lines may be folded), ``...`` stands for anything.
- A ``python`` block is run as it stands, or as a doctest where it has prompts; all blocks of a page share their names.
- ``<!-- numbers may vary by 20 % -->`` before a block allows each number to differ by so much (and by 0.05): real
  registrations do not give the same last digits on every machine.
- ``<!-- file: study.toml -->`` before a block says that the reader saves it under this name.
- ``warpgauge annotate`` is started, compared, visited where the caller asks for it, and ended as Ctrl-C would.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import URLError

from warpgauge.cli.app import run

PAGES = Path(__file__).parent.parent / "docs" / "tutorials"
_BLOCK = re.compile(
    r"(?:<!-- numbers may vary by (?P<vary>\d+) % -->\n)?(?:<!-- file: (?P<file>[\w.]+) -->\n)?"
    r"```(?P<kind>console|python|toml)\n(?P<text>.*?)^```$",
    re.S | re.M,
)
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_SLACK = 0.05  # so that 0.00 and 0.03 agree where numbers may vary
_SHELL = set("|&;<>$*()`\n")

Visit = Callable[[list[str]], None]


@dataclass(frozen=True)
class Block:
    """A fenced block: what is in it, in which line, by which share its numbers may vary, which file it is."""

    kind: str
    text: str
    line: int
    vary: float
    file: str | None


@dataclass
class Page:
    """A page in the making: where it runs, and the names that its Python blocks share."""

    path: Path
    folder: Path
    visit: Visit = lambda links: None
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self) -> int:
        """Run all blocks (in the current folder, which must be this page's) and give their number."""
        found = blocks(self.path)
        for block in found:
            where = f"{self.path.name}, line {block.line}"
            if block.file:
                (self.folder / block.file).write_text(block.text, "utf-8")
            elif block.kind == "python":
                self._python(block, where)
            else:
                for command, expected in commands(block.text):
                    printed = self._command(command, where)
                    check(printed, expected, block.vary, f"{where}: {command}")
        return len(found)

    def _python(self, block: Block, where: str) -> None:
        if ">>>" not in block.text:
            exec(compile(block.text, where, "exec"), self.names)
            return
        test = doctest.DocTestParser().get_doctest(block.text, self.names, where, str(self.path), block.line)
        told = io.StringIO()
        runner = doctest.DocTestRunner(_Checker(block.vary), False, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        failed, _ = runner.run(test, out=told.write, clear_globs=False)
        self.names.update(test.globs)
        assert not failed, told.getvalue()

    def _command(self, command: str, where: str) -> str:
        if command.startswith("warpgauge annotate"):
            return self._annotate(command)
        if command.startswith("warpgauge ") and not _SHELL & set(command):
            return _inside(shlex.split(command)[1:], where)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], check=False, capture_output=True, text=True, env=_shell()
        )
        assert done.returncode == 0, f"{where}: {command} ended with {done.returncode}: {done.stderr}"
        return done.stdout

    def _annotate(self, command: str) -> str:
        """Serve until the links are printed and visited; then end it as Ctrl-C would."""
        process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True, env=_shell())
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Press Ctrl-C"):
                    break
            links = re.findall(r"http://\S+", "".join(lines))
            for link in links:
                assert "<title>" in _opened(link), f"{command}: no page is at the link"
            self.visit(links)
        finally:
            process.send_signal(signal.SIGINT)
            lines.append(process.stdout.read())
            code = process.wait(60)
            process.stdout.close()
        assert code == 0, f"{command} ended with {code}"
        return "".join(lines)


class _Checker(doctest.OutputChecker):
    def __init__(self, vary: float) -> None:
        self.vary = vary

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if not want.strip():
            return not got.strip()
        try:
            check(got, want, self.vary, "")
        except AssertionError:
            return super().check_output(want, got, optionflags)
        return True


def _opened(link: str) -> str:
    """Follow a link as a browser does, with its cookie; the server may need a moment to begin."""
    follow = request.build_opener(request.ProxyHandler({}), request.HTTPCookieProcessor())
    for _ in range(100):
        try:
            with follow.open(link, timeout=30) as page:
                return str(page.read().decode())
        except URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise AssertionError(f"nothing answers at {link}")


def _shell() -> dict[str, str]:
    """Return an environment in which the installed command is found and no browser opens."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "BROWSER": "true"}


def _inside(arguments: list[str], where: str) -> str:
    """Run the command in this process, by its entry point: starting Python each time would take most of the time."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("default")  # notes are printed, as for a user
        code = run(arguments)
    assert code == 0, f"{where}: warpgauge {shlex.join(arguments)} ended with {code}: {err.getvalue()}"
    return out.getvalue()


def blocks(path: Path) -> list[Block]:
    """Find the blocks of a page that are to be run."""
    text = path.read_text("utf-8")
    return [
        Block(one["kind"], one["text"], text[: one.start()].count("\n") + 1, float(one["vary"] or 0) / 100, one["file"])
        for one in _BLOCK.finditer(text)
        if one["kind"] != "toml" or one["file"]
    ]


def commands(text: str) -> list[tuple[str, str]]:
    """Split a console block into commands (continued after a backslash) and what each is said to print."""
    parts = re.split(r"^\$ ", text, flags=re.M)
    assert not parts[0].strip(), "a console block begins with a command"
    found = []
    for part in parts[1:]:
        lines = part.splitlines()
        last = next(n for n, line in enumerate(lines) if not line.endswith("\\"))
        command = " ".join(line.removesuffix("\\").strip() for line in lines[: last + 1])
        found.append((command, "\n".join(lines[last + 1 :])))
    return found


def check(printed: str, expected: str, vary: float, where: str) -> None:
    """Compare what was printed with the page; an empty output on the page says nothing."""
    if not expected.strip():
        return
    wanted: list[float] = []
    pattern = r"\s+".join(_token(token, vary, wanted) for token in expected.split())
    found = re.fullmatch(rf"\s*{pattern}\s*", printed, re.S)
    assert found, f"{where} printed\n{printed}\nand not\n{expected}"
    for one, given in zip(wanted, found.groups(), strict=True):
        near = abs(float(given) - one) <= vary * max(abs(one), abs(float(given))) + _SLACK
        assert near, f"{where} printed {given}, the page says {one:g} within {vary:.0%}:\n{printed}"


def _token(token: str, vary: float, wanted: list[float]) -> str:
    """Turn a word of the page into a pattern; where numbers may vary they are caught, to be compared."""
    pattern = ""
    for part in re.split(rf"(\.\.\.|{_NUMBER})" if vary else r"(\.\.\.)", token):
        if part == "...":
            pattern += ".*?"
        elif vary and re.fullmatch(_NUMBER, part):
            wanted.append(float(part))
            pattern += f"({_NUMBER})"
        else:
            pattern += re.escape(part)
    return pattern
