"""All formats of transform files: one row per format, in the order in which a file is compared with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpgauge.errors import FileFormatError, say
from warpgauge.io import formats as tables
from warpgauge.io.files import existing_file, foreign_decoder, read_head
from warpgauge.io.formats import Files
from warpgauge.io.images import metaimage, nifti
from warpgauge.io.images.samples import GZIP, gzip_head
from warpgauge.io.transforms import elastix, fsl, histology, itk, mapped_points, matrices, volumes
from warpgauge.io.transforms.arrays import CONVENTIONS, read_numpy
from warpgauge.io.transforms.meaning import DISPLACEMENT, FRAMES, POSITION, Options
from warpgauge.io.transforms.transform import Transform

_HEAD = 4096
# Files in the folders of elastix, transformix and DeeperHistReg.
_RESULTS = ("TransformParameters*.txt", "deformationField.*", "outputpoints.txt", "displacement_field.mha")
_WORLD = (DISPLACEMENT, POSITION)
_TO_MOVING, _TO_FIXED = "fixed to moving", "moving to fixed, inverted"
_ITK = "ITK 5.4 (SimpleITK 2.5)"
_SPEC = "public description"


@dataclass(frozen=True, kw_only=True)
class Format(tables.Format):
    """One format of transform files; one that fits no first bytes and lower-case suffix has to be named."""

    read: Callable[[Path, Options], Transform]
    fits: Callable[[bytes, str], bool] = lambda head, suffix: False
    # Options that apply beside the grids, with their values (none: the reader checks); any other is an error.
    takes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    on_reference: bool = False  # its vectors stand on the reference grid, so that their scale is that of the project
    packed: bool = False  # its files may be packed by gzip as a whole
    beside: Callable[[Path], Sequence[Path]] = lambda path: ()  # the other files that a file cannot be read without


TABLE: tuple[Format, ...] = (
    Format(
        name="itk", title="ITK", read=itk.read_itk, fits=itk.is_itk,
        written=(
            Files("ITK, Slicer", ".tfm, .txt, .h5", _ITK, _TO_MOVING, "LPS", "mm", "ITK itself, 1e-6"),
            Files("uniGradICON", "--transform_out, .hdf5 or .tfm", "icon_registration 1.1", _TO_MOVING, "LPS", "mm",
                  "its create_itk_transform against ITK, of a map of our own: 1e-9"),
        ),
    ),
    Format(
        name="ants", title="ANTs .mat", read=itk.read_itk, fits=itk.is_mat4,
        written=(
            Files("ANTs", "0GenericAffine.mat; warps are nifti", "ANTsPy 0.5", _TO_MOVING, "LPS", "mm",
                  "ANTsPy itself, 1e-6"),
        ),
    ),
    Format(
        name="deeperhistreg", title="DeeperHistReg", read=histology.read_deeperhistreg,
        fits=histology.is_deeperhistreg, beside=histology.record_file,
        written=(
            Files("DeeperHistReg", "displacement_field.mha with postprocessing_params.json", "1.0", _TO_MOVING,
                  "pixels of the padded images", "px", "its own saver and warp: 5e-5 px", "both grids"),
        ),
    ),
    Format(
        name="nifti", title="NIfTI", read=volumes.read_volume,
        fits=lambda head, suffix: suffix == ".img" or nifti.nifti_header(head) is not None,
        takes={"convention": CONVENTIONS, "frame": FRAMES}, packed=True, beside=volumes.data_files,
        written=(
            Files("ANTs, ITK", "*Warp.nii.gz, intent 1006 or 1007", _ITK, _TO_MOVING, "intent 1007: LPS, 1006: RAS",
                  "mm", "ITK itself, 1e-6", "refused where the values fit positions, too"),
            Files("FireANTs", "save_as_ants_transforms, .nii.gz", "1.5", _TO_MOVING, "LPS", "mm",
                  "its greedy registration and its own coordinates: 1e-5 mm"),
            Files("SPM", "y_*.nii, iy_*.nii (name 'Mapping')", "12", _TO_MOVING, "RAS positions", "mm",
                  f"{_SPEC}; files made by nibabel"),
            Files("NiftyReg", "deformation, displacement (reg_transform)", "2018 (4e4525b)", _TO_MOVING, "RAS", "mm",
                  "reg_f3d and reg_transform: 6e-6 mm"),
            Files("NiftyReg", "control points (reg_f3d -cpp)", "2018 (4e4525b)", _TO_MOVING, "RAS positions", "mm",
                  "against reg_transform -def: 2e-5 mm"),
            Files("voxelmorph", "save_volfile, .nii.gz or .npz", "0.3.4", _TO_MOVING, "displacements in voxels",
                  "voxels", "its own warped coordinates, 2e-6 mm", "convention voxelmorph"),
            Files("FireANTs", "save_as_scipy_transforms, .npz or .nii.gz", "1.5", _TO_MOVING,
                  "displacements in voxels", "voxels",
                  "its own coordinates: 1e-5 mm; .npz has half precision, 1e-3 mm", "convention learn2reg"),
            Files("Learn2Reg", ".npz, .nii.gz", "2020 to 2024", _TO_MOVING, "displacements in voxels", "voxels",
                  "the evaluation of Learn2Reg, 1e-9", "convention learn2reg or learn2reg-2020"),
        ),
    ),
    Format(
        name="nrrd", title="NRRD", read=volumes.read_volume, fits=lambda head, suffix: head.startswith(b"NRRD"),
        takes={"convention": _WORLD, "frame": FRAMES}, beside=volumes.data_files,
        written=(Files("ITK, Slicer, elastix", ".nrrd, .nhdr", _ITK, _TO_MOVING, "LPS", "mm", "ITK itself, 1e-6"),),
    ),
    Format(
        name="metaimage", title="MetaImage", read=volumes.read_volume,
        fits=lambda head, suffix: metaimage.looks_like_metaimage(head), takes={"convention": _WORLD, "frame": FRAMES},
        beside=volumes.data_files,
        written=(Files("ITK, elastix", ".mha, .mhd", _ITK, _TO_MOVING, "LPS or pixels", "mm or px",
                       "ITK itself, 1e-6"),),
    ),
    Format(
        name="numpy", title="NumPy", read=read_numpy,
        fits=lambda head, suffix: head.startswith((b"\x93NUMPY", b"PK\x03\x04")),
        takes={"convention": CONVENTIONS, "frame": ("LPS", "world", "RAS"), "axes": ()}, on_reference=True,
        written=(Files("any network", ".npy, .npz", "NumPy 2", _TO_MOVING, "given", "given", "against the definition",
                       "convention; axes where two fit"),),
    ),
    Format(
        name="fsl", title="FSL", read=fsl.read_fsl, takes={"convention": _WORLD}, on_reference=True,
        written=(Files("FSL", "warp .nii.gz, flirt .mat", "6", "fixed to moving; flirt inverted", "FSL's", "mm",
                       "one affine of four programs (NiTransforms), 1e-4 mm",
                       "format, moving; convention for warps"),),
    ),
    Format(
        name="warpy", title="Warpy", read=histology.read_warpy, fits=histology.is_warpy,
        written=(Files("QuPath Warpy", "transform_*.json", "0.3", _TO_MOVING, "pixels from the corner", "px", _SPEC),),
    ),
    Format(
        name="lta", title="FreeSurfer LTA", read=matrices.read_lta,
        fits=lambda head, suffix: b"\0" not in head and matrices.LTA.search(head) is not None,
        written=(
            Files("FreeSurfer", ".lta (RAS or voxels)", "6 and 7", _TO_FIXED, "RAS or voxels", "mm",
                  "files of mri_robust_register and bbregister against lta_convert: 2e-5 mm"),
            Files("NiTransforms", ".lta", "25.1", _TO_MOVING, "RAS", "mm",
                  "its own file against its ITK file: 5e-5 mm"),
        ),
    ),
    Format(
        name="freesurfer-warp", title="FreeSurfer warp", read=volumes.read_mgz,
        # Morphs, which are refused with advice, by their name: their first number is the version 1.0.
        fits=lambda head, suffix: head[:4] == volumes.MGZ_WARP or suffix in (".m3z", ".m3d"), packed=True,
        written=(Files("FreeSurfer", "warp .mgz, .mgh", "surfa 0.6", _TO_MOVING, "RAS or voxels", "mm or voxels",
                       "files of surfa in all four kinds, against surfa: 5e-6 mm"),),
    ),
    Format(
        name="afni", title="AFNI", read=matrices.read_afni, fits=matrices.is_afni, beside=matrices.afni_files,
        written=(
            Files("AFNI", ".aff12.1D", "NiTransforms 25.1", _TO_MOVING, "LPS", "mm",
                  "NiTransforms' file against its ITK file: 1e-9"),
            Files("AFNI", "warp .HEAD with .BRIK or .BRIK.gz", "nibabel 5", _TO_MOVING, "LPS displacements", "mm",
                  f"{_SPEC}; a file of AFNI with new values, read by nibabel: 1e-4 mm"),
        ),
    ),
    Format(
        name="xfm", title="MNI", read=matrices.read_xfm,
        fits=lambda head, suffix: head.startswith(b"MNI Transform File"),
        written=(Files("MNI (MINC)", ".xfm, linear", "VTK 9", _TO_FIXED, "RAS", "mm", "VTK's reader, 1e-9"),),
    ),
    Format(
        name="elastix", title="elastix", read=elastix.read_elastix, fits=elastix.is_elastix,
        beside=elastix.initial_files,
        written=(Files("elastix", "TransformParameters.*.txt, .toml", "5.x", _TO_MOVING, "LPS", "mm",
                       "14 real results against their published errors; itk-elastix, 1e-6"),),
    ),
    Format(
        name="matrix", title="matrix", read=matrices.read_matrix, fits=matrices.is_matrix,
        takes={"frame": ("LPS", "RAS")},
        written=(Files("any", "text of a matrix", "-", _TO_MOVING, "LPS, or RAS by option", "mm",
                       "against the definition"),),
    ),
    Format(
        name="bigwarp", title="BigWarp", read=histology.read_bigwarp, takes={"frame": ()},
        written=(Files("BigWarp (Fiji)", "landmarks .csv", "9", _TO_MOVING, "world of BigWarp", "its unit",
                       "scipy's thin-plate spline of the same landmarks, 1e-6", "format"),),
    ),
    Format(
        name="points", title="CSV of mapped points", read=mapped_points.read_mapped_points,
        fits=mapped_points.is_mapped_points,
        written=(Files("transformix, any", "outputpoints.txt, CSV of pairs", "elastix 5", _TO_MOVING, "world", "mm",
                       "transformix' own points"),),
    ),
)  # fmt: skip
BY_NAME: dict[str, Format] = {entry.name: entry for entry in TABLE}
FORMATS: tuple[str, ...] = tuple(BY_NAME)
NOT_READ: dict[str, str] = {
    "morphs of FreeSurfer (.m3z, .m3d)": "write a warp in .mgz with mri_warp_convert",
    "DICOM registration objects": "write a field or a matrix with SlicerRT or another reader of DICOM",
    "FNIRT coefficients": "turn them into a field with fnirtfileutils",
    "SPM flow fields (u_*, v_*)": "write a deformation with Batch > SPM > Util > Deformations",
    "NiftyReg velocities": "turn them into a deformation field with reg_transform -def",
    "MINC grids and thin-plate splines (.xfm)": "write a field with ITK (.nrrd, .nii.gz)",
}


def detect_format(path: Path) -> str:
    """Return the format of a file by its content, and by its name only where that cannot say; raise if none fits."""
    if path.is_dir():
        inside = sorted(file.name for pattern in _RESULTS for file in path.glob(pattern))
        advice = f"; of what it holds, give {' or '.join(map(repr, inside[-3:]))}" if inside else ""
        raise FileFormatError(f"{path.name!r} is a folder, but a transform is a file{advice}.")
    file = existing_file(path, "transform")
    head = read_head(file, _HEAD)
    packed = head.startswith(GZIP)
    if packed:
        with foreign_decoder(file, "gzip"):
            head = gzip_head(file, _HEAD)
    for entry in TABLE:
        if (entry.packed or not packed) and entry.fits(head, file.suffix.lower()):
            return entry.name
    raise FileFormatError(
        f"{file.name!r} is not a transform that warpgauge knows: its content is none of "
        f"{', '.join(dict.fromkeys(entry.title for entry in TABLE))}; give {say('format')} if it is."
    )


def companion_files(path: Path) -> list[Path]:
    """Return the other files that a transform file, and those in turn, cannot be read without."""
    companions: dict[Path, Path] = {}
    waiting = [path]
    while waiting:
        try:
            file = waiting.pop()
            others = BY_NAME[detect_format(file)].beside(file)
        except FileFormatError:
            continue  # of a format that has to be named, or the data that a header names
        for other in others:
            place = other.resolve()
            if place not in companions and place != path.resolve():
                companions[place] = other
                waiting.append(other)
    return list(companions.values())
