"""The locks: every pinned version has its hashes, and no lock names an index."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_hashes_fit_the_locks():
    """If this fails: python requirements/lock.py."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "requirements" / "lock.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_locks_name_no_index():
    """A lock holds names, versions and hashes, and leaves it to the installer where they come from."""
    for file in (ROOT / "requirements").glob("*.txt"):
        text = file.read_text()
        assert "://" not in text
        assert "index-url" not in text


def test_every_hashed_pin_has_a_hash():
    """With hashes pip refuses the whole file where a single pin has none."""
    for file in (ROOT / "requirements").glob("*.hashes.txt"):
        entries = [entry for entry in re.split(r"\n(?=\S)", file.read_text()) if "==" in entry]
        assert len(entries) > 10
        assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
