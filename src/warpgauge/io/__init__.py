"""Readers and writers of images, landmark files and transform files.

Each kind of file has a package below this one. Here are helpers for programs that keep results in files.
"""

from warpgauge.io.files import content_hash, plain, replace_text

__all__ = ["content_hash", "plain", "replace_text"]
