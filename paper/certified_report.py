"""What the study of certified verdicts found, in numbers and sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.experiment import Findings, Result


def report(results: Sequence[Result]) -> Findings:
    """Sum up by dataset and question."""
    numbers: dict[str, Any] = {}
    sentences: list[str] = []
    for dataset in dict.fromkeys(str(run.parameters["dataset"]) for run, _ in results):
        own = [(str(run.parameters["kind"]), found) for run, found in results if run.parameters["dataset"] == dataset]
        by_kind = {
            kind: [found for one, found in own if one == kind] for kind in dict.fromkeys(kind for kind, _ in own)
        }
        numbers[dataset] = part = {}
        for kind, summary in _SUMMARIES.items():
            if by_kind.get(kind):
                part[kind], told = summary(by_kind[kind])
                sentences += [f"{dataset}: {one}" for one in told]
    return Findings(numbers, {}, sentences)


def _intervals(found: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    rows: dict[tuple[str, str], list[list[Any]]] = defaultdict(list)
    audits = [one for part in found for one in part["audits"]]
    for one in audits:
        for design, compared in one.items():
            for row in compared:
                rows[design, row[0]].append(row)
    numbers, sentences = {}, []
    for (design, kind), own in rows.items():
        held, width, error, decided, wrong, square = np.array([row[1:] for row in own], dtype=np.float64).T
        numbers[f"{kind}, {design}"] = one = {
            "audits": len(audits),
            "intervals": len(own),
            "held": float(held.mean()),
            "median_width": float(np.median(width)),
            "bias": float(error.mean()),
            "bias_of_mean_square": float(square.mean()),
            "error_of_that": float(square.std() / np.sqrt(len(audits))),
            "decided": float(decided.mean()),
            "wrong": float(wrong.mean()),
        }
        sentences.append(
            f"{kind}, {design} answers: 95 % intervals hold in {one['held']:.1%} of {len(own)} "
            f"(median width {one['median_width']:.2f}, bias {one['bias']:+.1%}, of the mean square "
            f"{one['bias_of_mean_square']:+.1%})"
            + (f", decided {one['decided']:.0%}, wrongly {one['wrong']:.2%}." if "difference" in kind else ".")
        )
    return numbers, sentences


def _decisions(found: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    audits = [one for part in found for one in part["audits"]]
    looks: dict[str, list[list[Any]]] = defaultdict(list)
    for one in audits:
        for name, (first, wrong) in one.items():
            looks[name].append([first, wrong])
    pairs = [pair for part in found for pair in part.get("entropy", [])]
    if pairs:
        looks["pair, Entropy with the judge"] = pairs
    numbers, sentences = {}, []
    for name, own in looks.items():
        known = [first for first, _ in own if first is not None]
        cap = 96 if "Entropy" not in name else 60
        numbers[name] = one = {
            "runs": len(own),
            "decided": len(known) / len(own),
            "wrong": sum(wrong for _, wrong in own) / len(own),
            "median": float(np.median([cap if first is None else first for first, _ in own])),
            "mean": float(np.mean([cap if first is None else first for first, _ in own])),
        }
        sentences.append(
            f"{name}: decided in {one['decided']:.0%} of {one['runs']}, after {one['median']:.0f} answers in the "
            f"median, {one['mean']:.1f} on average (never counts as {cap}); wrongly in {one['wrong']:.1%}."
        )
    return numbers, sentences


def _gates(found: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    audits = [one for part in found for one in part["audits"]]
    numbers, sentences = {}, []
    for case in audits[0]:
        codes = np.array([one[case] for one in audits])
        numbers[case] = one = {"runs": len(codes), **{str(code): float(np.mean(codes == code)) for code in (0, 1, 2)}}
        sentences.append(
            f"gate, {case} answers: not worse {one['0']:.1%}, worse {one['1']:.1%}, undecided {one['2']:.1%} of "
            f"{len(codes)}."
        )
    return numbers, sentences


def _cost(found: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    numbers = {}
    for name in ("audit", "sealed"):
        ratios = np.concatenate([np.array(one[name]) / np.array(one["without"]) for one in found])
        numbers[name] = {
            "audits": len(ratios),
            "geometric_mean": float(np.exp(np.log(ratios).mean())),
            "worst": float(ratios.max()),
        }
    used, sealed = numbers["audit"]["geometric_mean"], numbers["sealed"]["geometric_mean"]
    return numbers, [
        f"the posterior mean's error from 40 annotations is {used - 1:+.1%} with a 30 % audit that is used, "
        f"{sealed - 1:+.1%} while it is sealed, against none ({numbers['audit']['audits']} audits of {len(found)} "
        f"pairs)."
    ]


def _model(found: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    held = np.concatenate([one["held"] for one in found])
    width = float(np.median(np.concatenate([one["width"] for one in found])))
    numbers = {"intervals": len(held), "held": float(held.mean()), "median_width": width}
    return numbers, [
        f"the judge's 90 % intervals of the RMS error, from the open annotations alone, hold in {held.mean():.1%} of "
        f"{len(held)} (median width {width:.2f})."
    ]


_SUMMARIES = {"intervals": _intervals, "model": _model, "decisions": _decisions, "gate": _gates, "cost": _cost}
