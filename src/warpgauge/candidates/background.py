"""Rules that recognise the background of an image: glass, dark field, air or padding.

A picture's background is flat (it has no texture) and lies at the bright or the dark end of the brightness; glass is
also without colour. A volume's background lies at the border. Each rule returns a `Found`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.candidates.structure import to_gray

Mask = NDArray[np.bool_]
Values = NDArray[np.float32]
_WINDOW = 5  # pixels along each side of the place whose texture is measured
_FLAT = 0.02  # local standard deviation, as a share of the brightness range, up to which a place has no texture
_END = 0.25  # share of the brightness range at either end in which a background lies
_FEWEST_FLAT = 0.003  # share of the image that must be flat and at one end for a background to be there
# Difference from the background, as a share of the range, from which on there is something in a picture or a volume.
_SIGNAL = 0.06
_BODY = 0.1
_UNEVEN = 0.2  # a background whose differences from a smooth one reach this share of the range is not a background
_BRIDGE = 0.008  # gaps in tissue up to twice this share of the diagonal are closed
_SPECK = 0.0005
_HOLE = 0.002  # smaller parts and smaller holes, as shares of the image, are dust and lumens
_LARGE_PART = 0.1  # parts of a body below this share of the largest one are something beside it
_RECORDED = 27  # at least this many connected voxels of exactly the background value are padding, not a dark structure


class Found(NamedTuple):
    """A mask of what is not background (None if there is no background), and a phrase on how it was found."""

    foreground: Mask | None
    method: str


def picture_background(values: Values) -> Found:
    """Separate a picture, ``[y, x]`` or ``[y, x, channel]``, from its background.

    The background is the flat part at the bright end (glass, without colour) or at the dark end (dark field), whichever
    is larger. Its colour may change slowly across the picture.
    """
    colours = values if values.ndim == 3 else values[..., None]
    smooth = np.stack([ndimage.gaussian_filter(c, 0.7) for c in np.moveaxis(colours, -1, 0)], axis=-1)
    luma = np.asarray(to_gray(smooth, 2)[0], dtype=np.float32)
    low, high = (float(v) for v in np.percentile(luma, (0.5, 99.5)))
    if not high > low:
        return Found(None, "it has one brightness only")
    mean = ndimage.uniform_filter(luma, _WINDOW)
    deviation = np.sqrt(np.maximum(ndimage.uniform_filter(luma * luma, _WINDOW) - mean * mean, 0))
    flat = deviation <= _FLAT * (high - low)
    bars = _bars(luma, high - low)
    ends = {"bright": luma >= high - _END * (high - low), "dark": luma <= low + _END * (high - low)}
    # Tissue may be flat and dark, but glass has no colour: saturated places are not the bright background.
    ends["bright"] &= np.ptp(smooth, axis=-1) <= 0.5 * (high - low)
    # Bars are left out unless the only flat places are bars: then they are the background itself.
    for plain in (flat & ~bars, flat):
        shares = {name: float(np.mean(plain & end)) for name, end in ends.items()}
        name = max(shares, key=lambda one: shares[one])
        if shares[name] >= _FEWEST_FLAT:
            break
    else:
        return Found(None, f"no flat {' or '.join(ends)} background was found")
    ground = _smooth_colour(smooth, plain & ends[name])
    signal = np.sqrt(np.mean((smooth - ground) ** 2, axis=-1))
    noise = float(np.median(signal[plain & ends[name]]))
    if 4 * noise > _UNEVEN * (high - low):
        return Found(None, f"the {name} part is too uneven to be a background")
    threshold = max(_SIGNAL * (high - low), 4 * noise)
    tissue = (signal > threshold) & ~bars
    radius = max(1, round(_BRIDGE * float(np.hypot(*luma.shape))))
    region = _closed(tissue, radius)
    if name == "dark":
        region = np.asarray(ndimage.binary_fill_holes(region))
    neighbours = np.ones((3, 3), dtype=bool)
    region = ~_parts(~region, max(1, int(_HOLE * region.size)), neighbours)
    region = _parts(region & ~bars, max(1, int(_SPECK * region.size)), neighbours)
    return Found(
        region,
        f"what differs from the {'bright, colourless' if name == 'bright' else 'dark'} background by more than "
        f"{threshold:.3g} grey values, gaps up to {2 * radius} reduced pixels closed",
    )


def _bars(luma: Values, span: float) -> Mask:
    """Return which rows and columns at the border have a single value: padding added by a scanner or a program."""
    bars = np.zeros(luma.shape, dtype=bool)
    for axis in (0, 1):
        even = np.ptp(luma, axis=1 - axis) <= 0.02 * span
        first = int(np.argmin(even)) if not even.all() else len(even)
        last = int(np.argmin(even[::-1])) if not even.all() else len(even)
        rows = np.zeros(len(even), dtype=bool)
        # Two more where there is a bar: its blurred edge is not tissue.
        rows[: first + 2 * (first > 0)] = True
        rows[len(even) - last - 2 * (last > 0) :] = True
        bars |= rows[:, None] if axis == 0 else rows[None, :]
    return bars


def _smooth_colour(colours: NDArray[Any], where: Mask) -> NDArray[Any]:
    """Fit a quadratic of the position to each channel of the background to allow for uneven light."""
    rows, columns = np.nonzero(where)
    keep = slice(None, None, max(1, len(rows) // 20_000))
    rows = rows[keep]
    columns = columns[keep]

    def terms(y: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        v = 2 * y / where.shape[0] - 1
        u = 2 * x / where.shape[1] - 1
        return np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], axis=-1)

    design = terms(rows, columns)
    seen = colours[rows, columns]
    middle = np.median(seen, axis=0)
    kept = np.ones(len(rows), dtype=bool)
    coefficients = np.zeros((6, colours.shape[-1]))
    coefficients[0] = middle
    for _ in range(3):
        if kept.sum() < 60:
            break
        # Pulled towards an even background where the flat places do not say otherwise.
        pull = np.diag([0.0, *[0.01 * kept.sum()] * 5])
        inner = design[kept]
        coefficients = np.linalg.solve(inner.T @ inner + pull, inner.T @ seen[kept])
        error = np.abs(seen - design @ coefficients).max(axis=-1)
        kept = error <= 2.5 * np.median(error) + 1e-6
    y, x = np.indices(where.shape)
    return np.asarray(terms(y, x) @ coefficients)


def _closed(mask: Mask, radius: int) -> Mask:
    """Close gaps up to twice the radius, by distances, as if the picture went on beyond its border."""
    padded = np.pad(mask, radius + 1, mode="edge")
    near = ndimage.distance_transform_edt(~padded) <= radius
    # Padded by True: the border of the picture does not eat into what was grown.
    grown = np.pad(near, 1, constant_values=True)
    kept = ndimage.distance_transform_edt(grown)[1:-1, 1:-1] > radius
    inner = slice(radius + 1, -radius - 1)
    return np.asarray(kept[inner, inner] | mask)


def _parts(mask: Mask, least: float, neighbours: Mask | None = None) -> Mask:
    """Return the connected parts of at least so many elements; below 1, that share of the largest one."""
    labels, _ = ndimage.label(mask, neighbours)
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    limit = least * sizes.max() if least < 1 else least
    return np.asarray((sizes >= max(1, limit))[labels])


def volume_background(values: Values, spacing: NDArray[Any]) -> Found:
    """Separate a volume, ``[z, y, x]``, from its background; ``spacing`` in array order.

    The background is the value that the border has most, where that lies at an end of the intensities.
    """
    low, high = (float(v) for v in np.percentile(values, (0.5, 99.5)))
    if not high > low:
        return Found(None, "it has one intensity only")
    border = np.concatenate([np.take(values, end, axis).ravel() for axis in range(values.ndim) for end in (0, -1)])
    ground, spread = _mode(border, low, high)
    place = (ground - low) / (high - low)
    if _END < place < 1 - _END:
        return Found(None, "the border shows no background of low or high intensity")
    sign = 1.0 if place <= _END else -1.0
    signal = ndimage.gaussian_filter(sign * (values - ground), 0.5)
    threshold = max(_BODY * (high - low), 5 * spread)
    body = ndimage.binary_opening(signal > threshold, iterations=1)
    if not body.any():
        return Found(body, f"nothing differs from the background value {ground:.3g} of the border")
    body = _parts(body, _LARGE_PART)
    body = _filled(np.asarray(ndimage.binary_closing(np.pad(body, 3), iterations=2)[3:-3, 3:-3, 3:-3] | body))
    empty = _parts(values == ground, _RECORDED)
    return Found(
        body & ~empty,
        f"what is {'above' if sign > 0 else 'below'} the background value {ground:.3g} of the border by more than "
        f"{threshold:.3g}, its largest parts, holes filled",
    )


def _mode(sample: Values, low: float, high: float) -> tuple[float, float]:
    """Return the most frequent value of a sample and the spread (standard deviation) about it."""
    counts, edges = np.histogram(np.clip(sample, low, high), bins=200, range=(low, high))
    smooth = ndimage.gaussian_filter1d(counts.astype(np.float64), 1.5, mode="constant")
    best = int(np.argmax(smooth))
    near = sample[np.abs(sample - (edges[best] + edges[best + 1]) / 2) <= 0.05 * (high - low)]
    ground = float(np.median(near)) if len(near) else float((edges[best] + edges[best + 1]) / 2)
    spread = 1.4826 * float(np.median(np.abs(near - ground))) if len(near) else 0.0
    return ground, spread


def _filled(mask: Mask) -> Mask:
    """Fill what is enclosed, in space or within a plane along any axis, so that lungs open to the border are inside."""
    axes = range(mask.ndim)
    filled = _without_holes(mask, axes)
    for normal in axes:
        filled = _without_holes(filled, [axis for axis in axes if axis != normal])
    return filled


def _without_holes(mask: Mask, along: Sequence[int]) -> Mask:
    """Fill what is enclosed along some axes: all of them, or those of the planes of a volume, all planes at once.

    The same as `ndimage.binary_fill_holes`, which takes several times as long.
    """
    neighbours = ndimage.generate_binary_structure(mask.ndim, 1)
    for axis in set(range(mask.ndim)).difference(along):
        np.moveaxis(neighbours, axis, 0)[[0, 2]] = False
    labels, count = ndimage.label(~mask, neighbours)
    outside = np.zeros(count + 1, dtype=np.bool_)
    for axis in along:
        for end in (0, -1):
            outside[np.take(labels, end, axis)] = True
    outside[0] = False  # the mask itself
    return np.asarray(~outside[labels])
