"""Landmark files: `read_landmarks` turns one, or a pair, into `Landmarks` in the world; `write_landmarks` goes back."""

from warpgauge.io.landmarks.model import Landmarks, Skip
from warpgauge.io.landmarks.reader import read_landmarks
from warpgauge.io.landmarks.registry import FORMATS
from warpgauge.io.landmarks.writer import write_landmarks

FORMAT_NAMES: tuple[str, ...] = tuple(FORMATS)

__all__ = ["FORMAT_NAMES", "Landmarks", "Skip", "read_landmarks", "write_landmarks"]
