"""Landmark files: one module per format, all returning one kind of value.

`read_landmarks` turns a file, or a pair of files, into `Landmarks` in world coordinates; `write_landmarks` goes back.
"""

from warpgauge.io.landmarks.model import Landmarks, Pending, Skip
from warpgauge.io.landmarks.reader import read_landmarks
from warpgauge.io.landmarks.registry import FORMATS
from warpgauge.io.landmarks.writer import write_landmarks

FORMAT_NAMES: tuple[str, ...] = tuple(FORMATS)

__all__ = ["FORMAT_NAMES", "Landmarks", "Pending", "Skip", "read_landmarks", "write_landmarks"]
