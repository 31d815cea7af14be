"""Runs commands in a process of its own under an audit hook, and says what they opened for writing.

``python -m audit_tools`` reads a list of steps (JSON) from standard input. An audit hook cannot be removed, so that it
must not be set in the process of the tests.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import warpgauge

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Event: which of its arguments are paths that are changed.
_CHANGES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.truncate": (0,), "os.rename": (0, 1), "os.link": (1,),
    "os.symlink": (1,), "os.chmod": (0,), "os.utime": (0,), "os.setxattr": (0,), "shutil.move": (0, 1),
    "shutil.rmtree": (0,),
}  # fmt: skip
_FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.exec", "os.system", "os.posix_spawn", "pickle.find_class")
_OUTSIDE = ("/dev/null", "/proc/", "/dev/shm/")


@dataclass(frozen=True)
class Audit:
    """What steps did: paths written, other events that may not be, and code and text of each step."""

    written: tuple[str, ...]
    forbidden: tuple[str, ...]
    outcomes: tuple[tuple[int, str], ...]

    def outside(self, *roots: Path) -> list[str]:
        """Return what was written outside some folders."""
        return outside(self.written, *roots)


def outside(written: Iterable[str], *roots: Path) -> list[str]:
    """Return the paths outside some folders; compiled loops are kept with the program or in NUMBA_CACHE_DIR."""
    compiled = filter(None, [str(Path(warpgauge.__file__).parent), os.environ.get("NUMBA_CACHE_DIR")])
    allowed = [os.path.realpath(root) for root in (*roots, *compiled)]
    return [one for one in written if not any(_within(one, root) for root in allowed)]


def _within(path: str, root: str) -> bool:
    # The folder is real, the last part may be a link that is replaced, not followed.
    parent, name = os.path.split(path)
    return Path(os.path.realpath(parent), name).is_relative_to(root)


def audited(steps: list[list[str]], folder: Path) -> Audit:
    """Run steps with home, state and temporary folder below ``folder``."""
    home = {name: str(folder / name) for name in ("home", "state", "temporary")}
    for place in home.values():
        Path(place).mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "HOME": home["home"],
        "XDG_STATE_HOME": home["state"],
        "TMPDIR": home["temporary"],
        "MPLCONFIGDIR": home["temporary"],
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("WARPGAUGE_TRUST", None)
    command = [sys.executable, "-m", "audit_tools"]
    done = subprocess.run(
        command, input=json.dumps(steps), env=environment, capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return Audit(tuple(found["written"]), tuple(found["forbidden"]), tuple(map(tuple, found["outcomes"])))


class Hook:
    """Notes what is opened for writing, and what a file may never cause, while it is ``on``."""

    def __init__(self) -> None:
        self.on, self.written, self.forbidden = False, dict[str, None](), dict[str, None]()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open" and arguments[0] is not None:
            path, mode, flags = arguments
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (mode is None and flags & _WRITES):
                self._note(path)
        elif event == "sqlite3.connect":
            self._note(_database(arguments[0]))
        elif event in _CHANGES:
            for at in _CHANGES[event]:
                # Names relative to an open folder: only rmtree works so, which is noted itself.
                if event not in ("os.remove", "os.rmdir") or arguments[1] in (None, -1):
                    self._note(arguments[at])
        elif event in _FORBIDDEN and not _of_compiler():
            self.forbidden[f"{event} {str(arguments)[:200]}"] = None

    def _note(self, path: object) -> None:
        if isinstance(path, int | None):
            return
        text = os.fsdecode(path)  # type: ignore[arg-type]
        if text and not text.startswith(_OUTSIDE) and text != ":memory:":
            self.written[str(Path.cwd() / text)] = None


def _of_compiler() -> bool:
    """Whether numba asks, which keeps its compiled loops as pickles of its own."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba."):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _database(given: object) -> str | None:
    text = os.fsdecode(given)  # type: ignore[arg-type]
    parts = urlsplit(text) if text.startswith("file:") else None
    if parts is None:
        return text
    return None if "mode=ro" in parts.query else unquote(parts.path)


def _mirror(folder: str, mirror: str) -> None:
    from warpgauge.project import Project

    with Project.open(folder) as project:
        project.use_mirror(mirror)


def _serve(folder: str) -> None:
    """Do over HTTP, without a socket, what a rater does first."""
    from starlette.testclient import TestClient

    from warpgauge.web import ServerSettings, Site, create_app
    from warpgauge.web.people import new_token

    token = new_token()
    site = Site(Path(folder), ServerSettings())
    site.people.launch(token, "ada")
    with TestClient(create_app(site), base_url="http://localhost") as client:
        client.get(f"/?token={token}")
        only = site.catalogue.only
        for path in ("", "project", "query", "list", "progress", "transforms", "raters"):
            client.get(f"/{only.address if only else ''}{path and f'api/{path}'}")


def _main() -> None:
    hook, outcomes = Hook(), []
    # Before the hook: what is imported is not what a file causes.
    for name in ("matplotlib.font_manager", "warpgauge.report", "warpgauge.study", "warpgauge.web"):
        import_module(name)
    from warpgauge.cli.app import run

    sys.addaudithook(hook)
    acts = {"mirror": _mirror, "serve": _serve}
    for step in json.load(sys.stdin):
        out, err = io.StringIO(), io.StringIO()
        code = 1
        hook.on = True
        with redirect_stdout(out), redirect_stderr(err):
            try:
                if step[0] in acts:
                    acts[step[0]](*step[1:])
                    code = 0
                else:
                    code = run(step)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
        hook.on = False
        outcomes.append((code, out.getvalue() + err.getvalue()))
    print(json.dumps({"written": list(hook.written), "forbidden": list(hook.forbidden), "outcomes": outcomes}))


if __name__ == "__main__":
    _main()
