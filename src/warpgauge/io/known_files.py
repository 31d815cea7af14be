"""The table of files that are read: ``warpgauge formats`` prints it, and docs/formats.md is made from it.

Each row says how its reading was verified: by files that the program itself wrote, by a reader that others keep, or by
the public description of the format.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFile:
    """One kind of file of one program.

    Parameters
    ----------
    program, files : str
        Who writes it, and what the files are called.
    format : str
        Name for ``format=``; a transform or landmark format of the registries.
    version : str
        Of the program or reader that it was tested with.
    direction : str
        What the file maps, or which side it lists first.
    frame, unit : str
        Of its numbers, before they become world points.
    verified : str
        How, and how near.
    options : str
        What has to be given, if anything.
    """

    program: str
    files: str
    format: str
    version: str
    direction: str
    frame: str
    unit: str
    verified: str
    options: str = ""


_TO_MOVING, _TO_FIXED = "fixed to moving", "moving to fixed, inverted"
_ITK = "ITK 5.4 (SimpleITK 2.5)"
_SPEC = "public description"

TRANSFORMS: tuple[KnownFile, ...] = (
    KnownFile("elastix", "TransformParameters.*.txt, .toml", "elastix", "5.x", _TO_MOVING, "LPS", "mm",
              "14 real results against their published errors; itk-elastix, 1e-6"),
    KnownFile("ITK, Slicer", ".tfm, .txt, .h5", "itk", _ITK, _TO_MOVING, "LPS", "mm", "ITK itself, 1e-6"),
    KnownFile("uniGradICON", "--transform_out, .hdf5 or .tfm", "itk", "icon_registration 1.1", _TO_MOVING, "LPS", "mm",
              "its create_itk_transform against ITK, of a map of our own: 1e-9"),
    KnownFile("ANTs", "0GenericAffine.mat; warps are nifti", "ants", "ANTsPy 0.5", _TO_MOVING, "LPS", "mm",
              "ANTsPy itself, 1e-6"),
    KnownFile("ANTs, ITK", "*Warp.nii.gz, intent 1006 or 1007", "nifti", _ITK, _TO_MOVING,
              "intent 1007: LPS, 1006: RAS", "mm", "ITK itself, 1e-6", "refused where the values fit positions, too"),
    KnownFile("FireANTs", "save_as_ants_transforms, .nii.gz", "nifti", "1.5", _TO_MOVING, "LPS", "mm",
              "its greedy registration and its own coordinates: 1e-5 mm"),
    KnownFile("SPM", "y_*.nii, iy_*.nii (name 'Mapping')", "spm", "12", _TO_MOVING, "RAS positions", "mm",
              f"{_SPEC}; files made by nibabel"),
    KnownFile("NiftyReg", "deformation, displacement (reg_transform)", "niftyreg", "2018 (4e4525b)", _TO_MOVING, "RAS",
              "mm", "reg_f3d and reg_transform: 6e-6 mm"),
    KnownFile("NiftyReg", "control points (reg_f3d -cpp)", "niftyreg", "2018 (4e4525b)", _TO_MOVING, "RAS positions",
              "mm", "against reg_transform -def: 2e-5 mm"),
    KnownFile("NiftyReg", "velocity (reg_f3d -vel, reg_transform -flow)", "niftyreg", "2018 (4e4525b)", _TO_MOVING,
              "RAS", "mm", "against reg_transform -def: 4e-4 mm; with -aff refused (0.03 mm was not bettered)",
              "the fixed grid"),
    KnownFile("ITK, Slicer, elastix", ".nrrd, .nhdr", "nrrd", _ITK, _TO_MOVING, "LPS", "mm", "ITK itself, 1e-6"),
    KnownFile("ITK, elastix", ".mha, .mhd", "metaimage", _ITK, _TO_MOVING, "LPS or pixels", "mm or px",
              "ITK itself, 1e-6"),
    KnownFile("DeeperHistReg", "displacement_field.mha with postprocessing_params.json", "deeperhistreg", "1.0",
              _TO_MOVING, "pixels of the padded images", "px", "its own saver and warp: 5e-5 px", "both grids"),
    KnownFile("FSL", "warp .nii.gz, flirt .mat", "fsl", "6", "fixed to moving; flirt inverted", "FSL's", "mm",
              "one affine of four programs (NiTransforms), 1e-4 mm", "format, moving; convention for warps"),
    KnownFile("FreeSurfer", ".lta (RAS or voxels)", "lta", "6 and 7", _TO_FIXED, "RAS or voxels", "mm",
              "files of mri_robust_register and bbregister against lta_convert: 2e-5 mm"),
    KnownFile("FreeSurfer", "warp .mgz, .mgh", "freesurfer-warp", "surfa 0.6", _TO_MOVING, "RAS or voxels",
              "mm or voxels", "files of surfa in all four kinds, against surfa: 5e-6 mm"),
    KnownFile("NiTransforms", ".lta", "lta", "25.1", _TO_MOVING, "RAS", "mm",
              "its own file against its ITK file: 5e-5 mm"),
    KnownFile("AFNI", ".aff12.1D", "afni", "NiTransforms 25.1", _TO_MOVING, "LPS", "mm",
              "NiTransforms' file against its ITK file: 1e-9"),
    KnownFile("AFNI", "warp .HEAD with .BRIK or .BRIK.gz", "afni", "nibabel 5", _TO_MOVING, "LPS displacements", "mm",
              f"{_SPEC}; a file of AFNI with new values, read by nibabel: 1e-4 mm"),
    KnownFile("MNI (MINC)", ".xfm, linear", "xfm", "VTK 9", _TO_FIXED, "RAS", "mm", "VTK's reader, 1e-9"),
    KnownFile("BigWarp (Fiji)", "landmarks .csv", "bigwarp", "9", _TO_MOVING, "world of BigWarp", "its unit",
              "scipy's thin-plate spline of the same landmarks, 1e-6", "format"),
    KnownFile("QuPath Warpy", "transform_*.json", "warpy", "0.3", _TO_MOVING, "pixels from the corner", "px", _SPEC),
    KnownFile("voxelmorph", "save_volfile, .nii.gz or .npz", "learn2reg", "0.3.4", _TO_MOVING,
              "displacements in voxels", "voxels", "its own warped coordinates, 2e-6 mm", "format, layout 2020"),
    KnownFile("FireANTs", "save_as_scipy_transforms, .npz or .nii.gz", "learn2reg", "1.5", _TO_MOVING,
              "displacements in voxels", "voxels", "its own coordinates: 1e-5 mm; .npz has half precision, 1e-3 mm",
              "format, layout current"),
    KnownFile("Learn2Reg", ".npz, .nii.gz", "learn2reg", "2020 to 2024", _TO_MOVING, "displacements in voxels",
              "voxels", "the evaluation of Learn2Reg, 1e-9", "format, layout"),
    KnownFile("any network", ".npy, .npz", "numpy", "NumPy 2", _TO_MOVING, "given", "given", "against the definition",
              "components, frame; layout where two fit"),
    KnownFile("any", "text of a matrix", "matrix", "-", _TO_MOVING, "LPS, or RAS by option", "mm",
              "against the definition"),
    KnownFile("transformix, any", "outputpoints.txt, CSV of pairs", "points", "elastix 5", _TO_MOVING, "world", "mm",
              "transformix' own points"),
)  # fmt: skip

NOT_READ: dict[str, str] = {
    "morphs of FreeSurfer (.m3z, .m3d)": "write a warp in .mgz with mri_warp_convert",
    "DICOM registration objects": "write a field or a matrix with SlicerRT or another reader of DICOM",
    "FNIRT coefficients": "turn them into a field with fnirtfileutils",
    "SPM flow fields (u_*, v_*)": "write a deformation with Batch > SPM > Util > Deformations",
    "MINC grids and thin-plate splines (.xfm)": "write a field with ITK (.nrrd, .nii.gz)",
}
