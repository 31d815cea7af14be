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


def _kind(
    d: int, count: int, matrix: Callable[[Floats, Floats], Floats], shift: slice, centre: slice | None = None
) -> _Linear:
    """Return the reader of a type that exists in d dimensions and has ``count`` parameters.

    ``matrix`` is made of parameters and fixed parameters. Translation and centre stand at these places among the
    parameters; without ``centre`` it is the first d of the fixed parameters.
    """

    def read(p: Floats, fixed: Floats, d_of_file: int) -> _MatrixAndOffset:
        if d_of_file != d:
            raise InvalidInputError(f"this kind exists in {d}D only, but the file says {d_of_file}D")
        take(p, count, "parameters")
        turned = matrix(p, fixed)
        middle = _centre(fixed[:3] if matrix is _euler else fixed, d) if centre is None else p[centre]
        return centred(turned, middle, p[shift] if shift.stop > shift.start else np.zeros(d))

    return read


def _rigid_2d(p: Floats, _fixed: Floats) -> Floats:
    return rotation_2d(p[0])


def _similarity_2d(p: Floats, _fixed: Floats) -> Floats:
    return np.asarray(p[0] * rotation_2d(p[1]))


def _euler(p: Floats, fixed: Floats) -> Floats:
    """Rotate by three angles; the fourth fixed parameter, after the centre, may ask for the order Z Y X."""
    if fixed.size > 4:
        raise InvalidInputError(f"it needs 3 or 4 fixed parameters (centre, ComputeZYX), but has {fixed.size}")
    return rotation_3d(p[:3], fixed.size == 4 and bool(fixed[3] != 0))


def _versor(p: Floats, _fixed: Floats) -> Floats:
    return rotation_of_versor(p[:3])


def _similarity_3d(p: Floats, _fixed: Floats) -> Floats:
    return np.asarray(p[6] * rotation_of_versor(p[:3]))


def _scale_versor(p: Floats, _fixed: Floats) -> Floats:
    # ITK adds (scale - 1) to the diagonal of the rotation; it does not multiply.
    return rotation_of_versor(p[:3]) + np.diag(p[6:9] - 1)


def _scale_skew_versor(p: Floats, fixed: Floats) -> Floats:
    matrix = _scale_versor(p, fixed)
    matrix[[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]] += p[9:]
    return matrix


def _compose_scale_skew_versor(p: Floats, _fixed: Floats) -> Floats:
    skew = np.eye(3)
    skew[[0, 0, 1], [1, 2, 2]] = p[9:]
    return np.asarray(rotation_of_versor(p[:3]) @ np.diag(p[6:9]) @ skew)


def _quaternion(p: Floats, _fixed: Floats) -> Floats:
    # ITK does not scale the quaternion to length 1: a longer one also scales the points.
    return float(p[:4] @ p[:4]) * rotation_of_quaternion(p[:4])


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
    "Rigid2DTransform": _kind(2, 3, _rigid_2d, slice(1, 3)),
    "Euler2DTransform": _kind(2, 3, _rigid_2d, slice(1, 3)),
    "CenteredRigid2DTransform": _kind(2, 5, _rigid_2d, slice(3, 5), slice(1, 3)),
    "Similarity2DTransform": _kind(2, 4, _similarity_2d, slice(2, 4)),
    "CenteredSimilarity2DTransform": _kind(2, 6, _similarity_2d, slice(4, 6), slice(2, 4)),
    "Euler3DTransform": _kind(3, 6, _euler, slice(3, 6)),
    "CenteredEuler3DTransform": _kind(3, 9, _euler, slice(6, 9), slice(3, 6)),
    "VersorTransform": _kind(3, 3, _versor, slice(3, 3)),
    "VersorRigid3DTransform": _kind(3, 6, _versor, slice(3, 6)),
    "Similarity3DTransform": _kind(3, 7, _similarity_3d, slice(3, 6)),
    "ScaleVersor3DTransform": _kind(3, 9, _scale_versor, slice(3, 6)),
    "ScaleSkewVersor3DTransform": _kind(3, 15, _scale_skew_versor, slice(3, 6)),
    "ComposeScaleSkewVersor3DTransform": _kind(3, 12, _compose_scale_skew_versor, slice(3, 6)),
    "QuaternionRigidTransform": _kind(3, 7, _quaternion, slice(4, 7)),
}
