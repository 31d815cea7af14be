"""The eight orientations of EXIF and TIFF: an image is shown as a viewer shows it."""

from __future__ import annotations

from warpgauge.io.images.stored import Array, Region, RegionReader

ORIENTATION_TAG = 274  # of EXIF and TIFF
# Orientation -> (swap rows and columns, then reverse the rows, then reverse the columns).
_STEPS = {
    1: (False, False, False), 2: (False, False, True), 3: (False, True, True), 4: (False, True, False),
    5: (True, False, False), 6: (True, False, True), 7: (True, True, True), 8: (True, True, False),
}  # fmt: skip


def orientation_note(source: str, orientation: int) -> str:
    """Note that an orientation other than 1 was applied."""
    return (
        f"The {source} orientation {orientation} is applied, as image viewers do; programs that ignore it see other "
        f"pixel positions."
    )


def oriented_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Return width and height as shown, from those that are stored."""
    return (size[1], size[0]) if _STEPS[orientation][0] else size


def oriented(array: Array, orientation: int) -> Array:
    """Return a stored array ``[y, x(, c)]`` as it is shown."""
    swap, rows, columns = _STEPS[orientation]
    shown = array.swapaxes(0, 1) if swap else array
    return shown[:: -1 if rows else 1, :: -1 if columns else 1]


def oriented_reader(read: RegionReader, shown_size: tuple[int, int], orientation: int) -> RegionReader:
    """Return a reader of regions as shown from one of regions as stored; ``shown_size`` is (width, height)."""
    if orientation == 1:
        return read
    swap, reverse_rows, reverse_columns = _STEPS[orientation]
    width, height = shown_size

    def read_shown(region: Region) -> Array:
        rows, columns = region
        rows = slice(height - rows.stop, height - rows.start) if reverse_rows else rows
        columns = slice(width - columns.stop, width - columns.start) if reverse_columns else columns
        return oriented(read((columns, rows) if swap else (rows, columns)), orientation)

    return read_shown
