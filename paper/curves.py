"""Annotation curves: a strategy suggests locations, the error is measured after each answer, and runs are summed up.

A study groups the curves by dataset and computes statistics over runs, sentences, and figures in the look of the paper:
mean curves above, the median difference with bars from the first to the ninth decile below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

import warpgauge as wg
from paper.datasets import DATASETS, Floats, LandmarkPair
from paper.experiment import Result
from warpgauge.errors import InvalidInputError
from warpgauge.maps import OKABE_ITO

# Number of scales of the bundle: the paper's for CIMA and COPDgene, else until they are about the image's size.
SMALLEST_PX = 10.0


@dataclass(frozen=True, eq=False)
class Halves:
    """What may be annotated (``rows`` of the pair) and what the error is measured on."""

    rows: NDArray[np.int64]
    fixed: Floats
    moving: Floats
    held_fixed: Floats
    held_moving: Floats


def rng_for(seed: int, *stream: int) -> np.random.Generator:
    """Return a generator for one part of one run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


def halves(pair: LandmarkPair, seed: int) -> Halves:
    """Split at random: half of the landmarks may be annotated, the other half (or dense points) is for evaluation."""
    rows = rng_for(seed, 1).permutation(len(pair))
    ask = np.sort(rows[: len(pair) // 2])
    rest = np.sort(rows[len(pair) // 2 :])
    if pair.dense is not None and pair.dense_truth is not None:
        return Halves(ask, pair.fixed[ask], pair.moving[ask], pair.dense, pair.dense_truth)
    return Halves(ask, pair.fixed[ask], pair.moving[ask], pair.fixed[rest], pair.moving[rest])


def disc(pair: LandmarkPair, radius_px: float = 1.0) -> Floats:
    """Covariance of the fixed annotation: the 99 % disc or ball with a radius of (by default) 1 pixel."""
    return wg.covariance_from_ellipse(np.full(pair.d, radius_px * pair.pixel), np.eye(pair.d))


def exact_answers(fixed: Floats, moving: Floats, covariance: Floats) -> wg.Annotations:
    """Annotations at the true matches with one covariance for all."""
    return wg.Annotations(fixed, moving, np.broadcast_to(covariance, (len(fixed), *covariance.shape)))


def paper_scales(pair: LandmarkPair) -> Floats:
    """Scales of the paper's bundle: from 10 pixels, doubling to about the image's size."""
    return np.asarray(SMALLEST_PX * pair.pixel * 2.0 ** np.arange(DATASETS[pair.dataset].levels))


def paper_prior(
    pair: LandmarkPair,
    training: Sequence[wg.Annotations],
    *,
    family: str = "wendland",
    scales: Floats | None = None,
) -> wg.TransformationPrior:
    """Return the paper's model: identity as mean, the bundle's weights by leave-one-out on the training annotations."""
    rho = paper_scales(pair) if scales is None else scales
    start = wg.TransformationPrior(wg.KernelBundle(family, rho, np.full(len(rho), pair.pixel**2)))
    return wg.fit_kernel(start, training)


def annotation_curve(
    prior: wg.TransformationPrior,
    answers: wg.Annotations,
    held_fixed: Floats,
    held_moving: Floats,
    *,
    strategy: str = "entropy",
    count: int | None = None,
    seed: int = 0,
    first: Sequence[int] = (),
    targets: Floats | None = None,
) -> list[float]:
    """Let a strategy ask ``count`` locations; return the N_2 error of the posterior mean after each annotation.

    Parameters
    ----------
    prior : TransformationPrior
        The model; it does not change.
    answers : Annotations
        What the annotator would answer at every candidate: the candidates are its fixed points.
    held_fixed, held_moving : (m, d) arrays
        Points for evaluation and their true matches.
    strategy, seed, targets
        Of the Suggester. The same seed gives the same first question to all strategies of the paper.
    first : sequence of int
        Candidates that are asked before the strategy begins.
    """
    total = len(answers) if count is None else min(count, len(answers))
    if total < 1:
        raise InvalidInputError(f"A curve needs at least one annotation, got count={count!r}.")
    suggester = wg.Suggester(prior, answers.fixed_points, targets, strategy=strategy, seed=seed)
    posterior = prior.condition(wg.Annotations.empty(answers.d))
    errors = []
    for step in range(total):
        row = first[step] if step < len(first) else suggester.suggest()
        suggester.record(row, answers.covariances[row])
        posterior = posterior.append(answers[[row]])
        errors.append(float(wg.displacement_norm(posterior.mean(held_fixed) - held_moving, 2)))
    return errors


# Numbers of annotations that sentences and tables speak of, as far as the curves reach.
SPOKEN = (5, 10, 20, 40, 80)
# Errors that differ by less, relatively, are equal.
_ROUNDING = 1e-9


def gathered(
    results: Sequence[Result], labels: Mapping[str, str], by_parameter: str = "dataset"
) -> dict[str, dict[str, Floats]]:
    """Return, by dataset (or another parameter), each label's curves as an array (curves, n), cut to the shortest.

    A result has ``"curves"``: a list of mappings from the keys of ``labels`` to one curve each.
    """
    by: dict[str, list[Mapping[str, Sequence[float]]]] = {}
    for run, result in results:
        by.setdefault(str(run.parameters[by_parameter]), []).extend(result["curves"])
    return {
        dataset: {
            label: np.array([one[key][: min(len(curve[key]) for curve in curves)] for one in curves])
            for key, label in labels.items()
        }
        for dataset, curves in by.items()
    }


def spoken(start: int, stop: int) -> list[int]:
    """Numbers of annotations to speak of between these; the last one always."""
    return [*(n for n in SPOKEN if start <= n < stop), stop]


def difference(worse: Floats, better: Floats) -> Floats:
    """First minus second; zero where they differ by rounding only, as where two strategies asked the same."""
    gain = worse - better
    return np.where(np.abs(gain) <= _ROUNDING * np.abs(worse), 0.0, gain)


def summary(curves: Mapping[str, Floats], differences: Sequence[tuple[str, str]], start: int = 1) -> dict[str, Any]:
    """Numbers of one dataset: means, and differences (first minus second) with deciles and shares, at every n.

    The first column is that of ``start`` annotations.
    """
    compared = {}
    for worse, better in differences:
        gain = difference(curves[worse], curves[better])
        low, middle, high = deciles(gain)
        compared[f"{worse} - {better}"] = {
            "median": middle,
            "first decile": low,
            "ninth decile": high,
            "mean": gain.mean(axis=0),
            "standard error": gain.std(axis=0, ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else None,
            "median percent": 100 * np.median(gain / curves[worse], axis=0),
            "share of curves better": (gain > 0).mean(axis=0),
            "share of curves worse": (gain < 0).mean(axis=0),
        }
    first = next(iter(curves.values()))
    return {
        "curves": len(first),
        "annotations": list(range(start, start + first.shape[1])),
        "mean": {label: values.mean(axis=0) for label, values in curves.items()},
        "first decile": {label: deciles(values)[0] for label, values in curves.items()},
        "median": {label: deciles(values)[1] for label, values in curves.items()},
        "ninth decile": {label: deciles(values)[2] for label, values in curves.items()},
        "mean over all annotations": {label: values.mean() for label, values in curves.items()},
        "differences": compared,
    }


def sentences(
    title: str, curves: Mapping[str, Floats], unit: str, differences: Sequence[tuple[str, str]], start: int = 1
) -> list[str]:
    """Report the mean errors and each difference at the spoken numbers of annotations."""
    first = next(iter(curves.values()))
    told = []
    for n in spoken(start, start + first.shape[1] - 1):
        column = {label: values[:, n - start] for label, values in curves.items()}
        means = ", ".join(f"{label} {values.mean():.3g}" for label, values in column.items())
        compared = "; ".join(_compared(column, worse, better, unit) for worse, better in differences)
        told.append(f"{title}, {n} annotations, {len(first)} curves: mean N_2 error in {unit}: {means}; {compared}.")
    return told


def _compared(column: Mapping[str, Floats], worse: str, better: str, unit: str) -> str:
    gain = difference(column[worse], column[better])
    low, middle, high = (float(value) for value in deciles(gain))
    percent = 100 * float(np.median(gain / column[worse]))
    size = "as large as" if middle == 0 else f"{'smaller' if middle > 0 else 'larger'} than"
    amount = "" if middle == 0 else f" by {abs(middle):.3g} {unit} or {abs(percent):.1f} %"
    return (
        f"with {better} it is {size} with {worse}{amount} in the median (deciles of the difference {low:.3g} and "
        f"{high:.3g}), smaller in {int((gain > 0).sum())} and larger in {int((gain < 0).sum())} curves"
    )


_MARKS = ("o", "s", "^", "D", "v", "P")
_EARLY = 8  # annotations
_TINY = 1e-12  # where all differences are 0
_BARS = 24  # bars a panel at most, so that they do not touch


@dataclass(frozen=True)
class Panel:
    """One dataset's curves, a column of the figure.

    Of each label an array with a row per run, and a column per number of annotations from ``start`` on. Of each pair of
    labels (worse, better) the difference is drawn, above 0 where the second is better.
    """

    title: str
    curves: Mapping[str, Floats]
    unit: str
    differences: Sequence[tuple[str, str]] = ()
    start: int = 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Numbers of annotations."""
        first = next(iter(self.curves.values()))
        return self.start + np.arange(first.shape[1])


def deciles(values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """First decile, median and ninth decile over the first axis."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [10, 50, 90], axis=0)
    return low, middle, high


def curves_figure(panels: Sequence[Panel]) -> Any:
    """Draw a column for each panel: mean curves on top, a row for each difference below."""
    below = max((len(panel.differences) for panel in panels), default=0)
    figure = Figure(figsize=(3.3 * len(panels) + 0.4, 2.9 + 2.1 * below), layout="constrained", facecolor="white")
    ratios = [1.35] + [1.0] * below
    places = figure.subplots(1 + below, len(panels), squeeze=False, height_ratios=ratios)
    for column, panel in enumerate(panels):
        _means(places[0, column], panel)
        for row in range(below):
            if row < len(panel.differences):
                _difference(places[1 + row, column], panel, *panel.differences[row])
            else:
                places[1 + row, column].set_visible(False)
        places[below, column].set_xlabel("number of annotations", fontsize=9)
    return figure


def plain_axes(axes: Any) -> None:
    """Leave a light grid and the two axes that are read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def _means(axes: Any, panel: Panel) -> None:
    plain_axes(axes)
    step = max(1, len(panel.counts) // 8)
    for at, (label, values) in enumerate(panel.curves.items()):
        axes.plot(
            panel.counts, values.mean(axis=0), color=OKABE_ITO[at],
            marker=_MARKS[at % len(_MARKS)], markevery=(at * step // 4, step), markersize=4, linewidth=1.4, label=label,
        )  # fmt: skip
    axes.set_title(panel.title, fontsize=10)
    axes.set_ylabel(f"$N_2$ error ({panel.unit})", fontsize=9)
    axes.legend(fontsize=8, frameon=False)


def _difference(axes: Any, panel: Panel, worse: str, better: str) -> None:
    plain_axes(axes)
    gain = panel.curves[worse] - panel.curves[better]
    low, middle, high = deciles(gain)
    rows = np.unique(np.linspace(0, len(panel.counts) - 1, min(_BARS, len(panel.counts))).astype(int))
    counts = panel.counts
    axes.axhline(0, color="black", linewidth=1)
    axes.errorbar(
        counts[rows], middle[rows], yerr=[middle[rows] - low[rows], high[rows] - middle[rows]], fmt="none",
        ecolor="#8A8A8A", elinewidth=1, capsize=2,
    )  # fmt: skip
    axes.plot(counts, middle, color=OKABE_ITO[0], linewidth=1.5)
    axes.set_ylabel(f"{worse} −\n{better} ({panel.unit})", fontsize=8)
    # The first few annotations differ by more than all the rest; the view is that of the rest, bars may leave it.
    later = counts >= min(_EARLY, counts[-1])
    bottom = min(float(low[later].min()), 0.0)
    top = max(float(high[later].max()), 0.0)
    margin = 0.1 * max(top - bottom, _TINY)
    axes.set_ylim(bottom - margin, top + margin)
