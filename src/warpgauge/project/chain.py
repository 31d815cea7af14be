"""Rows of the log and the chain of their digests."""

from __future__ import annotations

import hashlib
import json
from typing import Any

Row = tuple[Any, ...]


def chained(previous: str, row: Row) -> str:
    """Digest of a row of the log and of all rows before it, through the digest of the row before."""
    text = json.dumps([previous, *row], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
