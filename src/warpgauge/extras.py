"""Which packages an optional part of warpgauge needs, for messages that tell how to install them."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[([^\]]*)\])?([^;]*);.*extra\s*==\s*['\"]([\w-]+)['\"]")


def packages(extra: str) -> list[str]:
    """Return the requirements of an extra (``"images"``), those of extras that it includes among them."""
    try:
        lines = requires("warpgauge") or []
    except PackageNotFoundError:
        lines = []
    found: list[str] = []
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is None or match[4] != extra:
            continue
        if match[1].lower() == "warpgauge":
            for inner in (match[2] or "").split(","):
                found += packages(inner.strip())
        else:
            found.append(f"{match[1]}{match[3].strip()}")
    return list(dict.fromkeys(found))


def install_advice(extra: str) -> str:
    """Return the command that installs what an extra needs; it works whether or not warpgauge itself is published."""
    named = packages(extra)
    if not named:
        return f'run: pip install ".[{extra}]" in a clone of warpgauge'
    return "run: pip install " + " ".join(f'"{one}"' for one in named)
