"""Maps as pictures: image below, map above, faded and hatched where unknown, with legend, scale bar and units."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.display import shown_units
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.geometry import Grid
from warpgauge.io.files import check_folder, replace_file
from warpgauge.maps.blending import known_share
from warpgauge.maps.planes import Plane, orthogonal_planes, scale_bar_length

# One scale for each kind of map, so that two kinds are never taken for one another.
ERROR_COLOURS = "plasma"  # none of its colours is grey, so that it shows on any grey image
ENTROPY_COLOURS = "viridis"
PROBABILITY_COLOURS = "magma"

# Okabe and Ito's colours, for methods and marks.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7F00")


def matplotlib() -> Any:
    """Import matplotlib's object-oriented part; raise an error that names the extra where it is missing."""
    try:
        import matplotlib as library
        import matplotlib.backends.backend_agg
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError(
            f"Pictures need the library matplotlib, which is not installed; {install_advice('report')}."
        ) from error
    return library


# From this opacity on, a point counts as near annotations.
HALF_KNOWN = 0.5
UNKNOWN = "not enough annotations"
INSIDE = "inside the line, annotations are near"
OUTSIDE = "outside the transform's domain"
BOUNDARY = "boundary of a region"
_BACKGROUND = "#808080"  # neutral, as images are judged by eye
_OPACITY = 0.8  # of a known element over an image
_DIMMED = (0.15, 0.7)  # range of an image below a map: less contrast, so that the map's colours can be read
_OUTSIDE_COLOUR = "#D9D9D9"
_HALO = "#000000"
_BOUNDARY_COLOUR = "#56B4E9"


@dataclass(frozen=True)
class Kind:
    """How a kind of map is drawn: its colour scale, its ends (None: those of the numbers), and words for them."""

    label: str
    colours: str
    low: float | None = None
    high: float | None = None
    words: tuple[str, str] = ("", "")


KINDS: Mapping[str, Kind] = {
    "error": Kind("error score e(x)", ERROR_COLOURS, 0.0, 1.0, ("agrees", "contradicts")),
    "expected error": Kind("expected error ({units})", ERROR_COLOURS, 0.0, None, ("small", "large")),
    "exceedance": Kind(
        "probability of an error above {tolerance}", PROBABILITY_COLOURS, 0.0, 1.0, ("unlikely", "certain")
    ),
    "significance": Kind(
        "adjusted p-value (Benjamini-Hochberg)", f"{ERROR_COLOURS}_r", 0.0, 0.2, ("contradicts", "not significant")
    ),
    "standard deviation": Kind("standard deviation ({units})", ENTROPY_COLOURS, 0.0, None, ("sure", "unsure")),
    "entropy": Kind("entropy (nats)", ENTROPY_COLOURS, None, None, ("sure", "unsure")),
    "displacement": Kind("length of the displacement ({units})", ENTROPY_COLOURS, 0.0, None),
    "image": Kind("", "gray", 0.0, 1.0),
}


@dataclass(frozen=True, eq=False)
class Picture:
    """Description of a picture for `map_picture`.

    Parameters
    ----------
    panels : mapping of str to array
        Titles and maps on the grid, all with one colour scale; of kind ``"image"`` grey in [0, 1] or colour.
    image : array, optional
        Drawn below: grey or colour in [0, 1] on the grid, as `displayable` gives it.
    entropy, limits : array and (float, float), optional
        Fades and hatches where the entropy is high, see `entropy_limits`.
    points : (n, d) array, optional
        Annotated points, drawn as small open circles.
    outline : bool
        Draw a line around what lies near annotations, instead of fading and hatching the rest.
    high : float, optional
        Upper end of the colour scale; larger values have its colour.
    labels : int array, optional
        Regions on the grid, see `region_labels`; their boundaries are drawn as dashed lines.
    """

    panels: Mapping[str, NDArray[Any]]
    grid: Grid
    kind: str = "error"
    image: NDArray[Any] | None = None
    entropy: Floats | None = None
    limits: tuple[float, float] | None = None
    points: Floats | None = None
    tolerance: float | None = None
    outline: bool = False
    high: float | None = None
    labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(f"The kind of a picture must be one of {', '.join(KINDS)}, got {self.kind!r}.")
        if not self.panels:
            raise InvalidInputError("A picture needs at least one map.")
        for name, array in {
            **self.panels, "image": self.image, "entropy": self.entropy, "labels": self.labels,
        }.items():  # fmt: skip
            if array is not None and np.shape(array)[: self.grid.d] != self.grid.shape:
                raise InvalidInputError(
                    f"{name!r} has shape {np.shape(array)}, which does not lie on the grid {self.grid.shape}."
                )
        if (self.entropy is None) != (self.limits is None):
            raise InvalidInputError("A picture fades by entropy and limits; give both or neither.")


def displayable(samples: NDArray[Any]) -> Floats:
    """Stretch samples, NaN aside, to [0, 1] between their first and last percentile, for drawing."""
    finite = samples[np.isfinite(samples)]
    if finite.size == 0:
        return np.full(samples.shape, np.nan)
    low, high = np.percentile(finite, (1, 99))
    return np.asarray(np.clip((samples - low) / (high - low if high > low else 1.0), 0.0, 1.0), dtype=np.float64)


def map_picture(picture: Picture, *, title: str = "", width: float = 10.0) -> Any:
    """Draw maps side by side with one colour scale, and return matplotlib's Figure, ``width`` inches wide."""
    library = matplotlib()
    planes = orthogonal_planes(picture.grid)
    columns = _columns(len(picture.panels), len(planes))
    cells = [(name, plane) for name in picture.panels for plane in planes]
    rows = math.ceil(len(cells) / columns)
    shape = max(abs(plane.extent[3] - plane.extent[2]) / plane.extent[1] for plane in planes)
    height = (
        rows * (min(shape, 1.6) * width / columns * 0.95 + 0.45)
        + (0.3 if title else 0.0)
        + (0.1 if picture.kind == "image" else 0.9)
    )
    figure = library.figure.Figure(figsize=(width, height), layout="constrained", facecolor="white")
    if title:
        figure.suptitle(plain_text(title, 120), fontsize=12)
    axes = figure.subplots(rows, columns, squeeze=False)
    drawn = None
    for cell, place in zip(cells, axes.flat, strict=False):
        drawn = _draw(library, place, picture, *cell, size=9 if columns < 4 else 7.5)
    for place in list(axes.flat)[len(cells) :]:
        place.set_axis_off()
    _scale_bar(axes.flat[0], cells[0][1])
    if picture.kind != "image" and drawn is not None:
        _legend(library, figure, axes, picture, drawn)
    return figure


def _columns(panels: int, planes: int) -> int:
    """Return the number of columns that leaves few places empty; many volumes stand two in a row."""
    if planes > 1:
        return 3 if panels <= 3 else 6
    if panels <= 4:
        return panels
    return 3 if panels in (5, 6, 9) else 4


def save_picture(figure: Any, path: str | os.PathLike[str], *, dpi: float = 150) -> Path:
    """Write a figure as ``.png`` or ``.svg``; the same figure gives the same bytes."""
    file = Path(path)
    if file.suffix.lower() not in (".png", ".svg"):
        raise InvalidInputError(f"{file.name!r} must end in .png or .svg to be written as a picture.")
    check_folder(file)
    replace_file(file, picture_bytes(figure, file.suffix[1:].lower(), dpi=dpi))
    return file


def picture_bytes(figure: Any, kind: str, *, dpi: float = 150) -> bytes:
    """Return a figure as the bytes of a ``"png"``, ``"svg"`` or ``"pdf"`` file."""
    unnamed = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}.get(kind, ("Software",))
    metadata = dict.fromkeys(unnamed)  # the same figure gives the same bytes, wherever and whenever
    stream = io.BytesIO()
    with matplotlib().rc_context({"svg.hashsalt": "warpgauge"}), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the text beside the picture has it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        layout = figure.get_layout_engine()
        before = figure.dpi
        if layout is not None:
            # Laid out here once: savefig would draw the whole figure for it, and then again.
            figure.set_dpi(dpi if kind == "png" else 72)
            layout.execute(figure)
            figure.set_layout_engine("none")
        figure.savefig(stream, format=kind, dpi=dpi, metadata=metadata)
        figure.set_layout_engine(layout)
        figure.set_dpi(before)
    return stream.getvalue()


def plain_text(text: str, longest: int = 40) -> str:
    """Make a name safe to draw: one line, not too long, and no dollar sign that would begin a formula."""
    line = " ".join(str(text).split())
    short = line if len(line) <= longest else line[: longest - 1] + "…"
    return short.replace("$", r"\$")


def colour_ends(picture: Picture) -> tuple[float, float]:
    """Return the ends of the colour scale: those of the kind, otherwise those of all panels together."""
    kind = KINDS[picture.kind]
    known = [array[np.isfinite(array)] for array in picture.panels.values()]
    if picture.high is not None and kind.low is not None:
        return kind.low, picture.high if picture.high > kind.low else kind.low + 1.0
    low = kind.low if kind.low is not None else min((float(part.min()) for part in known if part.size), default=0.0)
    high = kind.high if kind.high is not None else max((float(part.max()) for part in known if part.size), default=1.0)
    return low, high if high > low else low + 1.0


def _draw(library: Any, place: Any, picture: Picture, name: str, plane: Plane, size: float) -> Any:
    kind = KINDS[picture.kind]
    place.set_facecolor(_BACKGROUND)
    options = {"extent": plane.extent, "origin": "lower" if plane.upright else "upper", "interpolation": "nearest"}
    if picture.image is not None:
        below = np.nan_to_num(plane.cut(picture.image), nan=0.5)
        place.imshow(_DIMMED[0] + (_DIMMED[1] - _DIMMED[0]) * below, cmap="gray", vmin=0, vmax=1, **options)
    values = plane.cut(picture.panels[name])
    low, high = colour_ends(picture)
    drawn = None
    if picture.kind == "image" and values.ndim == 3:
        place.imshow(np.where(np.isnan(values), 0.5, values), **options)
    else:
        opacity = np.full(values.shape, 1.0 if picture.image is None else _OPACITY)
        if picture.entropy is not None and picture.limits is not None:
            share = known_share(plane.cut(picture.entropy), picture.limits)
            if picture.outline:
                _outline(place, plane, share)
            else:
                opacity *= share
                _hatch(place, plane, np.where(np.isnan(values), 1.0, share))
        opacity[np.isnan(values)] = 1.0
        colours = library.colormaps[kind.colours].with_extremes(bad=_OUTSIDE_COLOUR)
        drawn = place.imshow(values, cmap=colours, vmin=low, vmax=high, alpha=opacity, **options)
    if picture.labels is not None:
        _boundaries(place, plane, plane.cut(picture.labels))
    _marks(library, place, picture, plane)
    place.set_title("\n".join(part for part in (plain_text(name), plane.caption) if part), fontsize=size)
    place.set_xlim(plane.extent[:2])
    place.set_ylim(plane.extent[2:])
    place.set_aspect("equal")
    place.set_xticks([])
    place.set_yticks([])
    return drawn


def _hatch(place: Any, plane: Plane, share: Floats) -> None:
    if min(share.shape) < 2 or not (share < HALF_KNOWN).any():
        return
    x, y = _middles(plane, share)
    hatch = place.contourf(x, y, share, levels=[-1.0, HALF_KNOWN], colors="none", hatches=["///"], zorder=3)
    hatch.set_edgecolor("#FFFFFF99")
    hatch.set_linewidth(0.0)
    if hasattr(hatch, "set_hatch_linewidth"):  # from matplotlib 3.10 on
        hatch.set_hatch_linewidth(0.6)


def _outline(place: Any, plane: Plane, share: Floats) -> None:
    """Draw the line between what lies near annotations and what does not, where there is one."""
    known = share >= HALF_KNOWN
    if min(share.shape) < 2 or known.all() or not known.any():
        return
    x, y = _middles(plane, share)
    place.contour(x, y, share, levels=[HALF_KNOWN], colors=_HALO, linewidths=2.2, zorder=3)
    place.contour(x, y, share, levels=[HALF_KNOWN], colors="white", linewidths=1.0, zorder=3)


def _middles(plane: Plane, values: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return where the middles of the columns and of the rows of a cut lie in the picture."""
    right, down = (float(plane.grid.spacing[axis]) for axis in plane.axes)
    down_to, right_to = values.shape[:2]
    return np.linspace(0.5, right_to - 0.5, right_to) * right, np.linspace(0.5, down_to - 0.5, down_to) * down


def _boundaries(place: Any, plane: Plane, labels: NDArray[np.int64]) -> None:
    """Draw the boundaries of regions; of two neighbours the larger label has the line."""
    present = np.unique(labels)
    if min(labels.shape) < 2:
        return
    x, y = _middles(plane, labels)
    for label in present[1:]:
        inside = (labels == label).astype(np.float64)
        place.contour(x, y, inside, levels=[0.5], colors=_HALO, linewidths=1.8, zorder=3)
        place.contour(x, y, inside, levels=[0.5], colors=_BOUNDARY_COLOUR, linewidths=1.0, linestyles="--", zorder=3)


def _marks(library: Any, place: Any, picture: Picture, plane: Plane) -> None:
    from matplotlib import patheffects

    halo = [patheffects.withStroke(linewidth=2.2, foreground=_HALO)]
    if picture.points is not None and len(picture.points):
        positions, near = plane.positions(picture.points, within=2.0)
        place.plot(
            *positions[near].T, "o", markersize=4, markerfacecolor="none", markeredgecolor="white", markeredgewidth=0.9,
            path_effects=halo, zorder=5,
        )  # fmt: skip


def _scale_bar(place: Any, plane: Plane) -> None:
    from matplotlib import patheffects

    left, right, bottom, top = plane.extent
    length = scale_bar_length(right - left)
    x = left + 0.05 * (right - left)
    y = bottom + 0.06 * (top - bottom)
    halo = [patheffects.withStroke(linewidth=3.5, foreground=_HALO)]
    place.plot([x, x + length], [y, y], color="white", linewidth=2, path_effects=halo, solid_capstyle="butt", zorder=6)
    place.annotate(
        f"{length:g} {shown_units(plane.grid.units)}", (x + length / 2, y), xytext=(0, 4), textcoords="offset points",
        color="white", ha="center", va="bottom", fontsize=9, zorder=6,
        path_effects=[patheffects.withStroke(linewidth=2, foreground=_HALO)],
    )  # fmt: skip


def _legend(library: Any, figure: Any, axes: Any, picture: Picture, drawn: Any) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kind = KINDS[picture.kind]
    (low, high) = colour_ends(picture)
    units = shown_units(picture.grid.units)
    tolerance = "the tolerance" if picture.tolerance is None else f"{picture.tolerance:g} {units}"
    # A mappable of its own: the drawn one has an opacity for each element, which a bar cannot have.
    mappable = ScalarMappable(drawn.norm, library.colormaps[kind.colours])
    bar = figure.colorbar(mappable, ax=axes, orientation="horizontal", shrink=0.6, aspect=40, pad=0.02)
    bar.set_label(kind.label.format(units=units, tolerance=tolerance), fontsize=9)
    bar.ax.tick_params(labelsize=8)
    for x, word, side in ((low, kind.words[0], "right"), (high, kind.words[1], "left")):
        offset = (-8, 0) if side == "right" else (8, 0)
        bar.ax.annotate(
            word, (x, 0.5), xycoords=("data", "axes fraction"), xytext=offset, textcoords="offset points", ha=side,
            va="center", fontsize=9,
        )  # fmt: skip
    handles: list[Any] = []
    if picture.entropy is not None and picture.outline:
        handles.append(Line2D([], [], color="black", linewidth=1.2, label=INSIDE))
    elif picture.entropy is not None:
        handles.append(Patch(facecolor="#808080", edgecolor="white", hatch="///", label=UNKNOWN))
    if any(np.isnan(array).any() for array in picture.panels.values()):
        handles.append(Patch(facecolor=_OUTSIDE_COLOUR, edgecolor="#808080", label=OUTSIDE))
    if picture.points is not None and len(picture.points):
        handles.append(
            Line2D([], [], linestyle="", marker="o", markerfacecolor="none", color="black", label="annotated point")
        )
    if picture.labels is not None:
        handles.append(Line2D([], [], color=_BOUNDARY_COLOUR, linewidth=1.2, linestyle="--", label=BOUNDARY))
    if handles:
        size = 9 if figure.get_figwidth() > 4 else 7.5  # in a column of a paper two entries stand side by side
        figure.legend(
            handles=handles, loc="outside lower center", ncols=3, fontsize=size, columnspacing=1.5, frameon=False
        )  # fmt: skip
