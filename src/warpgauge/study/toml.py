"""Values as TOML text; Python reads TOML but does not write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def toml_value(value: Any) -> str:
    """Return a string, number, truth value, list or mapping as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    # A JSON string is a TOML string as long as nothing outside ASCII is escaped.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else f"{value!r}"
