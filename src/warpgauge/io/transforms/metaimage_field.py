"""Vector-valued MetaImage files (``.mha``, ``.mhd``), as ITK and elastix write displacement fields."""

from __future__ import annotations

from pathlib import Path

from warpgauge.errors import FileFormatError
from warpgauge.io.files import existing_file, foreign_decoder
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.metaimage import (
    header_fields,
    header_frame,
    header_numbers,
    looks_like_metaimage,
    sample_type,
    stored_samples,
    whole_numbers,
)
from warpgauge.io.transforms.dense_files import StoredField, as_floats, components_first

FORMAT = "MetaImage"
__all__ = ["FORMAT", "load_metaimage", "looks_like_metaimage"]


def load_metaimage(path: Path) -> StoredField:
    """Load vectors and grid of a MetaImage file; ITK's vectors are in the world of the image."""
    existing_file(path, "field")
    with foreign_decoder(path, "a MetaImage field"):
        fields, header_end = header_fields(path)
        d = whole_numbers(path, "NDims", fields.get("NDims", ""))
        channels = whole_numbers(path, "ElementNumberOfChannels", fields.get("ElementNumberOfChannels", "1"))
        if fields.get("ObjectType", "Image") != "Image" or d not in (2, 3) or channels != d:
            raise FileFormatError(
                f"{path.name!r} is a {d}D {fields.get('ObjectType', 'Image')} with {channels} numbers at each node, "
                f"but a displacement field is an Image in 2D with 2 or in 3D with 3."
            )
        numbers = header_numbers(path, "DimSize", fields.get("DimSize", ""), d)
        if (numbers < 1).any() or (numbers % 1 != 0).any() or (numbers > 2**31).any():
            raise FileFormatError(f"{path.name!r} has DimSize = {fields['DimSize']!r}, which are not node counts.")
        size = tuple(int(n) for n in numbers)
        notes: list[str] = []
        grid, more = resolve_grid(header_frame(path, fields, size, notes), path, None, None)
        read, _ = stored_samples(path, fields, header_end, sample_type(path, fields), (*size[::-1], channels))
        values = read(tuple(slice(None) for _ in range(d + 1)))
    vectors = components_first(as_floats(values, path.name))
    placed = "ElementSpacing" in fields or "ElementSize" in fields
    return StoredField(path.name, FORMAT, vectors, grid, "LPS", [*notes, *more], placed=placed)
