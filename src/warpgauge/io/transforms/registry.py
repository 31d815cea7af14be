"""All formats of transform files, and the detection of a file's format from its content.

The name of a file decides only if its content cannot. A new format is a module with a `Format`, listed here.
"""

from __future__ import annotations

from pathlib import Path

from warpgauge.errors import FileFormatError, say
from warpgauge.io.files import existing_file, foreign_decoder, read_head
from warpgauge.io.images.samples import gzip_head
from warpgauge.io.transforms import (
    afni,
    array_fields,
    bigwarp,
    deeperhistreg,
    elastix,
    freesurfer,
    freesurfer_warps,
    fsl,
    image_fields,
    itk,
    learn2reg,
    linear,
    mapped_points,
    mni_xfm,
    niftyreg,
    spm,
    warpy,
)
from warpgauge.io.transforms.base import NO, Format

READERS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        elastix.FORMAT,
        *itk.FORMATS,
        niftyreg.FORMAT,
        spm.FORMAT,
        deeperhistreg.FORMAT,
        *image_fields.FORMATS,  # after the programs whose files are NIfTI or MetaImage of a special kind
        array_fields.FORMAT,
        learn2reg.FORMAT,
        fsl.FORMAT,
        linear.FORMAT,
        mapped_points.FORMAT,
        warpy.FORMAT,
        bigwarp.FORMAT,
        freesurfer.FORMAT,
        freesurfer_warps.FORMAT,
        afni.FORMAT,
        mni_xfm.FORMAT,
    )
}
CALLABLE = "callable"
FORMATS: tuple[str, ...] = (*READERS, CALLABLE)
_HEAD = 4096
# Files in the folders of elastix, transformix and DeeperHistReg.
_RESULTS = ("TransformParameters*.txt", "deformationField.*", "outputpoints.txt", "displacement_field.mha")
_GZIP = b"\x1f\x8b"


def detect_format(path: Path) -> str:
    """Return the format of a file by its content; raise where it is none of them."""
    if path.is_dir():
        inside = sorted(file.name for pattern in _RESULTS for file in path.glob(pattern))
        advice = f"; of what it holds, give {' or '.join(map(repr, inside[-3:]))}" if inside else ""
        raise FileFormatError(f"{path.name!r} is a folder, but a transform is a file{advice}.")
    file = existing_file(path, "transform")
    head = read_head(file, _HEAD)
    possible = list(READERS.values())
    if head.startswith(_GZIP):
        with foreign_decoder(file, "gzip"):
            head = gzip_head(file, _HEAD)
        possible = [entry for entry in possible if entry.packed]
    suffix = file.suffix.lower()
    best = max(possible, key=lambda entry: entry.recognise(head, suffix))  # the first of equals
    if best.recognise(head, suffix) == NO:
        raise FileFormatError(
            f"{file.name!r} is not a transform that warpgauge knows: its content is not of elastix, ITK, ANTs, NIfTI, "
            f"NRRD, MetaImage, NumPy, Warpy, FreeSurfer, AFNI, MNI, a matrix or mapped points; give "
            f"{say('format')} if it is."
        )
    return best.name


def companion_files(path: Path) -> list[Path]:
    """Return the other files that a transform file, and those in turn, cannot be read without."""
    found: dict[Path, Path] = {}
    waiting = [path]
    while waiting:
        try:
            file = waiting.pop()
            others = READERS[detect_format(file)].companions(file)
        except FileFormatError:
            continue  # of a format that has to be named, or the data that a header names
        for one in others:
            if (place := one.resolve()) not in found and place != path.resolve():
                found[place] = one
                waiting.append(one)
    return list(found.values())
