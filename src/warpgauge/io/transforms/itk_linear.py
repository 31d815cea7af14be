"""The linear transforms of ITK: from parameters and fixed parameters to matrix and offset."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.transforms.linear import centred, rotation_2d, rotation_3d, rotation_of_quaternion, rotation_of_versor

_MatrixAndOffset = tuple[Floats, Floats]
_Linear = Callable[[Floats, Floats, int], _MatrixAndOffset]


def take(values: Floats, count: int, what: str) -> Floats:
    """Return the values after checking how many there are."""
    if values.size != count:
        raise InvalidInputError(f"it needs {count} {what}, but has {values.size}")
    return values


def _centre(fixed: Floats, d: int) -> Floats:
    """Return the centre of rotation, which old files leave out where it is the origin."""
    return np.zeros(d) if fixed.size == 0 else take(fixed, d, "fixed parameters (the centre)")


def _identity(_p: Floats, _fixed: Floats, d: int) -> _MatrixAndOffset:
    return np.eye(d), np.zeros(d)


def _translation(p: Floats, _fixed: Floats, d: int) -> _MatrixAndOffset:
    return np.eye(d), take(p, d, "parameters")


def _scale(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    return centred(np.diag(take(p, d, "parameters")), _centre(fixed, d), np.zeros(d))


def _log_scale(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    with np.errstate(over="ignore"):
        return _scale(np.exp(p), fixed, d)


def _affine(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    take(p, d * d + d, "parameters")
    return centred(p[: d * d].reshape(d, d), _centre(fixed, d), p[d * d :])


def _centred_affine(p: Floats, _fixed: Floats, d: int) -> _MatrixAndOffset:
    take(p, d * d + 2 * d, "parameters")
    return centred(p[: d * d].reshape(d, d), p[d * d : d * d + d], p[d * d + d :])


def _only(d: int, wanted: int) -> None:
    if d != wanted:
        raise InvalidInputError(f"this kind exists in {wanted}D only, but the file says {d}D")


def _rigid_2d(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 2)
    take(p, 3, "parameters")
    return centred(rotation_2d(p[0]), _centre(fixed, 2), p[1:])


def _centred_rigid_2d(p: Floats, _fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 2)
    take(p, 5, "parameters")
    return centred(rotation_2d(p[0]), p[1:3], p[3:])


def _similarity_2d(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 2)
    take(p, 4, "parameters")
    return centred(p[0] * rotation_2d(p[1]), _centre(fixed, 2), p[2:])


def _centred_similarity_2d(p: Floats, _fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 2)
    take(p, 6, "parameters")
    return centred(p[0] * rotation_2d(p[1]), p[2:4], p[4:])


def _zyx(fixed: Floats) -> bool:
    """Return whether the fourth fixed parameter, after the centre, asks for the order Z Y X."""
    if fixed.size > 4:
        raise InvalidInputError(f"it needs 3 or 4 fixed parameters (centre, ComputeZYX), but has {fixed.size}")
    return fixed.size == 4 and bool(fixed[3] != 0)


def _euler_3d(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 6, "parameters")
    return centred(rotation_3d(p[:3], _zyx(fixed)), _centre(fixed[:3], 3), p[3:])


def _centred_euler_3d(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 9, "parameters")
    return centred(rotation_3d(p[:3], _zyx(fixed)), p[3:6], p[6:])


def _versor(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    return centred(rotation_of_versor(take(p, 3, "parameters")), _centre(fixed, 3), np.zeros(3))


def _versor_rigid(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 6, "parameters")
    return centred(rotation_of_versor(p[:3]), _centre(fixed, 3), p[3:])


def _similarity_3d(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 7, "parameters")
    return centred(p[6] * rotation_of_versor(p[:3]), _centre(fixed, 3), p[3:6])


def _scale_versor(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 9, "parameters")
    # ITK adds (scale - 1) to the diagonal of the rotation; it does not multiply.
    return centred(rotation_of_versor(p[:3]) + np.diag(p[6:] - 1), _centre(fixed, 3), p[3:6])


def _scale_skew_versor(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 15, "parameters")
    matrix = rotation_of_versor(p[:3]) + np.diag(p[6:9] - 1)
    matrix[[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]] += p[9:]
    return centred(matrix, _centre(fixed, 3), p[3:6])


def _compose_scale_skew_versor(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 12, "parameters")
    skew = np.eye(3)
    skew[[0, 0, 1], [1, 2, 2]] = p[9:]
    return centred(rotation_of_versor(p[:3]) @ np.diag(p[6:9]) @ skew, _centre(fixed, 3), p[3:6])


def _quaternion_rigid(p: Floats, fixed: Floats, d: int) -> _MatrixAndOffset:
    _only(d, 3)
    take(p, 7, "parameters")
    # ITK does not scale the quaternion to length 1: a longer one also scales the points.
    matrix = float(p[:4] @ p[:4]) * rotation_of_quaternion(p[:4])
    return centred(matrix, _centre(fixed, 3), p[4:])


LINEAR: dict[str, _Linear] = {
    "IdentityTransform": _identity,
    "TranslationTransform": _translation,
    "ScaleTransform": _scale,
    "ScaleLogarithmicTransform": _log_scale,
    "AffineTransform": _affine,
    "MatrixOffsetTransformBase": _affine,
    "FixedCenterOfRotationAffineTransform": _affine,
    "ScalableAffineTransform": _affine,
    "CenteredAffineTransform": _centred_affine,
    "Rigid2DTransform": _rigid_2d,
    "Euler2DTransform": _rigid_2d,
    "CenteredRigid2DTransform": _centred_rigid_2d,
    "Similarity2DTransform": _similarity_2d,
    "CenteredSimilarity2DTransform": _centred_similarity_2d,
    "Euler3DTransform": _euler_3d,
    "CenteredEuler3DTransform": _centred_euler_3d,
    "VersorTransform": _versor,
    "VersorRigid3DTransform": _versor_rigid,
    "Similarity3DTransform": _similarity_3d,
    "ScaleVersor3DTransform": _scale_versor,
    "ScaleSkewVersor3DTransform": _scale_skew_versor,
    "ComposeScaleSkewVersor3DTransform": _compose_scale_skew_versor,
    "QuaternionRigidTransform": _quaternion_rigid,
}
