"""All sentences of a verdict, kept in one module so that they cannot contradict each other.

The table, the page, the report and the JSON show these sentences and write none of their own. A verdict has at most two
sentences. It names the two or three methods that matter, and the error before registration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.core.calibration import Coverage
from warpgauge.display import counted, joined, length, percent, probability, shown_units

if TYPE_CHECKING:
    from warpgauge.evaluation.columns import Row
    from warpgauge.evaluation.flags import Flag
    from warpgauge.evaluation.verdict import Verdict

# At most this many tied methods are named, and only those with at least this probability of being the best.
_MOST_NAMED = 3
_WORTH_NAMING = 0.05
# Where the annotations inform a smaller share of the targets, the verdict warns.
HALF = 0.5
# Where the probabilities of being best add up to less, most of it depends on whether an unvetted method is honest.
_MOSTLY_OPEN = 0.5


REGIONS = {
    "domain": "the whole fixed image",
    "foreground": "the foreground of the fixed image",
    "mask": "the mask of the fixed image",
    "labels": "the labelled regions of the fixed image",
    "file": "a file of points",
    "given": "a set of given points",
}


def region_words(region: str) -> str:
    """Return the words for the code of a region; what is not a code are words of the caller's own."""
    return REGIONS.get(region, region)


def numbered(rows: Sequence[int]) -> str:
    """Name the annotations of some rows, counted from 1: ``annotation 3``, ``annotations 3 and 7``."""
    return f"annotation{'' if len(rows) == 1 else 's'} {joined([str(row + 1) for row in rows])}"


def verdict(found: Verdict) -> str:
    """Return at most two sentences: which transform is best, how large its error is, and how certain that is."""
    return _VERDICTS[found.outcome](found)


def caveats(found: Verdict) -> list[str]:
    """Return what belongs to a verdict: what its figures are over, what is wrong with the best, what is assumed."""
    return [*_over(found), *_flagged_first(found), *assumptions(found)]


def _over(found: Verdict) -> list[str]:
    """Return which share of the targets the annotations inform, where it is not all of them."""
    if found.known is None or found.known == 1 or not found.counts["annotations"]:
        return []
    if found.known == 0:
        return ["The annotations inform none of the targets, so all figures are extrapolated."]
    share = percent(found.known)
    if found.known < HALF:
        return [f"The annotations inform only {share} of the targets: most of the figures are extrapolated."]
    return [f"The annotations inform {share} of the targets; on the others the figures are extrapolated."]


# Flags of a transform that may be the best which belong to the verdict itself.
_ALSO_FIRST = ("undefined", "untested", "late", "misread", "worse", "outside", "normalised", "still")


def _flagged_first(found: Verdict) -> list[str]:
    """Return what is wrong with the transforms that may be the best, or with all."""
    first = set(found.groups[0]) if found.groups else set()
    return [
        flag.sentence
        for flag in found.flags
        if flag.code == "excluded" or (flag.transform in first and flag.code in _ALSO_FIRST)
    ]


def assumptions(found: Verdict) -> list[str]:
    """Return what a verdict takes for granted, one sentence each."""
    unseen, company = ("unseen_annotations" in found.assumptions, "company" in found.assumptions)
    told = []
    if unseen and company:
        told.append(
            "Without a panel of references, sizes depend on which methods are compared, and a registration that has "
            "seen the annotations cannot be excluded; warpgauge register makes a panel."
        )
    elif company:
        told.append("Without a panel of references, sizes depend on which methods are compared.")
    elif unseen:
        told.append("This assumes that no registration has seen the annotations: no sealed answer has tested it.")
    if found.missed is not None:
        told.append(f"A failure of up to {percent(found.missed)} of the targets could have been missed.")
    return told


def progress(found: Verdict) -> str:
    """Return what more annotations would change: nothing where it is known which transform is best."""
    return "Further points are unlikely to change which is best." if found.decided else found.whole


def title(found: Verdict) -> str:
    """Return the title of a table: what the errors are, over how many targets and from how many annotations."""
    unit = f" in {found.units}" if found.units else ""
    over = counted(found.counts["targets"], "target") + (f" in {found.region.words}" if found.region else "")
    return f"RMS error{unit} over {over}, from {counted(found.counts['annotations'], 'annotation')}"


def targets(found: Verdict) -> str:
    """Return what errors are averaged over."""
    return f"Errors are over {found.counts['targets']} targets{f' in {found.region.words}' if found.region else ''}."


def _row(found: Verdict, name: str | None) -> Row | None:
    return next((row for row in found.rows if row.name == name), None)


def _first(found: Verdict) -> list[Row]:
    """Return the tied transforms that may be the best."""
    return [row for name in found.groups[0] for row in found.rows if row.name == name]


def _error(one: Row, units: str | None) -> str:
    low, high = length(one.rms.low, None), length(one.rms.high, units)
    return f"about {length(one.rms.median, units)} (90 % interval {low} to {high})"


def _against(found: Verdict) -> str:
    before = _row(found, found.baseline)
    return "" if before is None else f", against {length(before.rms.median, found.units)} before registration"


def _no_annotations(_: Verdict) -> str:
    return "There are no annotations yet, so the transforms cannot be compared."


def _only_baseline(found: Verdict) -> str:
    return f"Without registration the root mean square error is {_error(found.rows[0], found.units)}."


def _alone(found: Verdict) -> str:
    one = found.methods[0]
    text = f"{one.name} has a root mean square error of {_error(one, found.units)}{_against(found)}."
    if found.baseline is None:
        return f"{text} There is no other method to compare it with."
    return f"{text} It is better than doing nothing with probability {probability(one.best)}."


def _beside_nothing(found: Verdict) -> str:
    """Return the error before registration and that of the best method."""
    before, best = _row(found, found.baseline) or found.rows[0], found.methods[0]
    return (
        f"without registration the root mean square error is {_error(before, found.units)}. The best method, "
        f"{best.name}, has {_error(best, found.units)}."
    )


def _none_better(found: Verdict) -> str:
    return f"No method is better than doing nothing: {_beside_nothing(found)}"


def _not_shown_better(found: Verdict) -> str:
    return f"{_fail_to(found)} show whether any method is better than doing nothing: {_beside_nothing(found)}"


def _decided(found: Verdict) -> str:
    best, second = found.methods[:2]
    text = (
        f"{best.name} is the best of {len(found.methods)} methods with probability {probability(best.best)}: its root "
        f"mean square error is {_error(best, found.units)}{_against(found)}. Next is {second.name} with "
        f"{_error(second, found.units)}"
    )
    others = len([name for name in found.groups[1] if name != found.baseline]) - 1
    return f"{text}, tied with {counted(others, 'other method')}." if others > 0 else f"{text}."


def _tied_by_margin(found: Verdict) -> str:
    margin, first = length(found.margin, found.units), _first(found)
    if found.baseline in found.groups[0]:
        return f"No method is better than doing nothing by more than the margin of {margin}: {_beside_nothing(found)}"
    some = f"{len(first)} of the {len(found.methods)} methods are"
    if len(first) == len(found.methods):
        some = "Both methods are" if len(first) == 2 else f"All {len(first)} methods are"
    best, second = first[:2]
    return (
        f"{some} equally good: their errors differ by less than the margin of {margin}. {best.name} has the smallest "
        f"root mean square error (probability {probability(best.best)}), {_error(best, found.units)}{_against(found)}; "
        f"next is {second.name} with about {length(second.rms.median, found.units)}."
    )


def _undecided(found: Verdict) -> str:
    first, units = _first(found), found.units
    likeliest = sorted(first, key=lambda one: -one.best)
    leader = likeliest[0]
    named = [one for one in likeliest[1:_MOST_NAMED] if one.best >= _WORTH_NAMING] or likeliest[1:2]
    some = f"{len(first)} of the {len(found.methods)} methods could each be the best"
    if len(first) == len(found.methods):
        some = f"{'Either' if len(first) == 2 else 'Any'} of the {len(first)} methods could be the best"
    if sum(one.best for one in found.rows) < _MOSTLY_OPEN and not all(one.scores.vetted for one in found.methods):
        return f"{some}: {_depends_on_a_leak(found)}"
    more = "" if found.further is None else f", and {_more(found.further)}"
    close = joined([
        f"{one.name} (about {length(one.rms.median, units)}, probability {probability(one.best)})" for one in named
    ])  # fmt: skip
    return (
        f"{some}: {_fail_to(found)} separate them{more}. {leader.name} is the most likely (probability "
        f"{probability(leader.best)}), with a root mean square error of {_error(leader, units)}"
        f"{_against(found)}; next {'is' if len(named) == 1 else 'are'} {close}."
    )


def _depends_on_a_leak(found: Verdict) -> str:
    """Return that it depends on an unvetted method's honesty which is best.

    An unvetted method is the best only where it is so unheard, and any other only where that one is so heard too: what
    is left of the probability depends on which of the two is right.
    """
    unvetted = min((row for row in found.methods if not row.scores.vetted), key=lambda row: row.rms.median)
    vetted = [row for row in found.methods if row.scores.vetted]
    text = (
        f"it depends on whether {unvetted.name} has seen the annotations. It fits them best, and if it has not it is "
        f"probably the best, with a root mean square error of {_error(unvetted, found.units)}{_against(found)}"
    )
    if not vetted:
        return f"{text}."
    other = min(vetted, key=lambda row: row.rms.median)
    least = f"{other.name} has the smallest: {_error(other, found.units)}"
    return f"{text}; of the methods that cannot have seen them, {least}."


_VERDICTS: dict[str, Callable[[Verdict], str]] = {
    "no_annotations": _no_annotations,
    "only_baseline": _only_baseline,
    "alone": _alone,
    "none_better": _none_better,
    "not_shown_better": _not_shown_better,
    "decided": _decided,
    "tied_by_margin": _tied_by_margin,
    "undecided": _undecided,
}


def _fail_to(found: Verdict) -> str:
    annotations = found.counts["annotations"]
    return f"{counted(annotations, 'annotation')} {'does' if annotations == 1 else 'do'} not"


def _more(further: FurtherAnnotations) -> str:
    if further.best is not None and further.best > 0:
        return f"about {further.best} more would probably decide"
    return f"more than {further.cap} more would be needed to decide"


def calibration(verdict_: str, coverage: Sequence[Coverage], fewest: int, outliers: Sequence[int]) -> str:
    """Return a sentence on the model's calibration and on annotations that contradict the others.

    Parameters
    ----------
    verdict_ : {"calibrated", "overconfident", "underconfident", "undetermined"}
    coverage : sequence of Coverage
    fewest : int
        Annotations needed for the test.
    outliers : sequence of int
        Rows of the annotations that the others contradict.
    """
    total = coverage[0].count
    regions = joined([f"{one.inside} in the {100 * one.level:.0f} % region" for one in coverage])
    found = f"when each of the {counted(total, 'annotation')} is predicted from the others, there are {regions}"
    few = f"{counted(total, 'annotation')} {'is' if total == 1 else 'are'} too few to test the model"
    words = {
        "calibrated": f"The model is well calibrated: {found}",
        "overconfident": f"The model is overconfident, so do not rely on the ranking: {found}",
        "underconfident": f"The model is underconfident, so differences may be overlooked: {found}",
        "undetermined": f"{few} ({fewest} are needed)",
    }[verdict_]
    if outliers:
        words += f"; {numbered(outliers)} contradict{'' if len(outliers) > 1 else 's'} the others"
    return words + "."


def without(rows: Sequence[int], verdict_: str) -> str:
    """Return the verdict without the annotations of some rows, as a sentence."""
    return f"Without {numbered(rows)}: {verdict_}"


def study(found: Any) -> str:
    """Return what a StudyResult says: overconfident pairs, the first method and its probability, missing cases."""
    parts = []
    if found.untrusted:
        parts.append(
            f"In {len(found.untrusted)} of {len(found.outcomes)} pairs the model is overconfident "
            f"({_some(found.untrusted)}), so be careful."
        )
    if found.failed:
        name, why = next(iter(found.failed.items()))
        lost = f"{counted(len(found.failed), 'pair')} could not be computed and {_are(len(found.failed))} left out"
        parts.append(f"{lost} ({name}: {why.rstrip('.')}{'; ...' if len(found.failed) > 1 else ''}).")
    best, pairs = found.methods[0], counted(len(found.outcomes) - len(found.excluded), "pair")
    chance = f"{'' if found.decided else ', but only'} with probability {probability(best.probability_first)}"
    parts.append(f"{best.name} is first over {pairs}{chance} (mean rank {best.mean_rank:.2f} of {len(found.methods)}).")
    if best.missing:
        parts.append(f"{best.name} is incomplete: it has {best.cases} of {pairs}.")
    parts += [
        f"{best.name} is flagged in {counted(len(where), 'pair')} ({_some(where)}): {words}."
        for code, words in _DOUBTS.items()
        if (where := found.flagged(best.name, code))
    ]
    missing = sum(len(one.missing) for one in found.outcomes)
    if missing:
        whose = _some(sorted({name for one in found.outcomes for name in one.missing}))
        rule = f"a missing case has the last rank of its pair and the score of {_MISSING_AS[found.has_panel]}"
        if found.study.settings.missing == "exclude":
            count = len(found.excluded)
            rule = f"{counted(count, 'pair')} {_are(count)} left out for all methods"
        parts.append(f"{counted(missing, 'case')} of {whose} {_are(missing)} missing ({rule}).")
    if any("company" in one.evaluation.get("assumptions", ()) for one in found.outcomes):
        parts.append("Without references (reference = true), sizes depend on which methods are compared.")
    return " ".join(parts)


# What an absent case costs, by whether the study has a panel.
_MISSING_AS = {
    True: "no registration or of the worst reference, whichever is worse",
    False: "no registration or of the worst method there, whichever is worse",
}
# Flags with which no method is first without a word.
_DOUBTS = {
    "leak": "it has seen annotations; do not rely on its rank",
    "too_good": "it fits the annotations better than their own uncertainty allows; do not rely on its rank",
    "undefined": "it is not defined at some of the targets, which count against it",
    "untested": "it is not defined where annotations would test it; do not rely on its rank",
    "late": "it was added after sealed answers were opened, or changed, so that nobody knows what it has seen",
    **dict.fromkeys(("misread", "worse", "outside", "normalised", "still"), "it may be misread; see the notices"),
}


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def flag(found: Flag) -> str:
    """Return what a flag is about, and what to do."""
    return _FLAGS[found.code](found)


def _at(found: Flag) -> str:
    return ", ".join(f"{found.numbers[axis]:.5g}" for axis in "xyz" if axis in found.numbers)


def _excluded(found: Flag) -> str:
    return (
        f"At {percent(found.numbers['share'])} of the targets, for example at ({_at(found)}), the annotations exclude "
        f"every method: all lie {length(found.numbers['distance'], found.units)} or more from where the match is "
        "expected, which is more than the figures say. Annotate there."
    )


def _gross_error(found: Flag) -> str:
    distance, usual = (length(found.numbers[key], found.units) for key in ("distance", "usual"))
    return (
        f"Annotation {(found.row or 0) + 1}, at ({_at(found)}) in the fixed image, lies {distance} from every good "
        f"transform, where {usual} is usual: look at it again, it may be a wrong match."
    )


def _leak(found: Flag) -> str:
    numbers = found.numbers
    return (
        f"{found.transform} has seen the open annotations: it fits them better than the {numbers['sealed']:.0f} "
        f"sealed ones (p = {numbers['p']:.1g}), as if it was bent to them by {percent(numbers['share'])}. It is "
        "scored, but not ranked."
    )


def _late(found: Flag) -> str:
    why = "is not what was added" if found.numbers["changed"] else "was added after the sealed answers were opened"
    return f"{found.transform} {why}, so that they cannot show whether it has seen the annotations."


def _undefined(found: Flag) -> str:
    beside = ", or that of the worst reference of the panel if that is worse" if found.numbers["panel"] else ""
    return (
        f"{found.transform} is not defined at {percent(found.numbers['share'])} of the targets, which count against it "
        f"with the error before registration{beside}."
    )


def _untested(found: Flag) -> str:
    return (
        f"{found.transform} is not defined at {percent(found.numbers['share'])} of the annotations, far more than at "
        f"the targets (p = {found.numbers['p']:.1g}): they cannot show there how good it is, or whether it has seen "
        "them."
    )


def _too_good(found: Flag) -> str:
    numbers = found.numbers
    text = (
        f"{found.transform} fits the annotations better than their stated precision allows (p = {numbers['p']:.1g}): "
        "it has probably seen them, or the stated uncertainty is too large."
    )
    if "used" not in numbers:
        return text
    if numbers["used"]:
        return f"{text} It is still used to estimate the true transformation, because all registrations are flagged."
    return f"{text} It is scored, but not used to estimate the true transformation."


def _doubt(found: Flag) -> str:
    """Return why a transform or an import is doubted, and how to accept it."""
    numbers = found.numbers

    def told(key: str) -> str:
        return length(numbers[key], found.units)

    moved = f", while the annotations move by {told('expected')}" if "expected" in numbers else ""
    given = f"{told('given')} as it is read" if "given" in numbers else "unknown as it is read"
    words = {
        "misread": lambda: (
            f"may be misread: its mean error at the annotations is {given}, {told('other')} read "
            f"{found.text}, and {told('nothing')} without any transform"
        ),
        "worse": lambda: (
            f"makes things worse: its mean error at the annotations is {given}, and {told('nothing')} without any "
            "transform; check that it belongs to these images, and its direction, units and scale"
        ),
        "outside": lambda: (
            f"maps {percent(numbers['share'])} of the targets outside the moving image or not at all; check that it "
            "belongs to these images, and its direction, units and scale"
        ),
        "normalised": lambda: (
            f"moves no target by more than 1 in any direction (RMS {told('rms')}){moved}, as a field does that is "
            "normalised to [-1, 1] and read as displacements"
        ),
        "still": lambda: f"hardly moves anything (RMS {told('rms')}){moved}",
        "forced": lambda: f"were imported in spite of a doubt: {found.text}",
    }[found.code]()
    name = "import" if found.transform is None else f"{found.transform}:{found.code}"
    who = "Landmarks" if found.transform is None else found.transform
    return f"{who} {words}. If that is as it should be: warpgauge evaluate PROJECT --accept-note {name}."


def _masked(found: Flag) -> str:
    return (
        f"{percent(found.numbers['share'])} of the {found.text} is not judged: the mask that the project was made with "
        "(new --missing) says that nothing there has a match."
    )


def _rater_offset(found: Flag) -> str:
    numbers = found.numbers
    return (
        f"{found.text} places {length(numbers['size'], found.units)} from the other raters on average (standard error "
        f"{length(numbers['error'], found.units)}): a constant offset is not in the intervals; look at what this "
        "rater marks."
    )


def _common_offset(found: Flag) -> str:
    unit = f" {shown_units(found.units)}" if found.units else ""
    return (
        f"The annotations have a constant offset of ({_at(found)}){unit} to all good transforms, "
        f"{percent(found.numbers['share'])} of what these miss in common (p = {found.numbers['p']:.1g}): a biased "
        "rater or a wrong origin looks like this, and so does an error that all registrations share. No interval "
        "includes a bias of the annotations, so check some of them."
    )


_PRESENT_DOUBTS = ("misread", "worse", "outside", "normalised", "still", "forced")
_FLAGS = {
    **dict.fromkeys(_PRESENT_DOUBTS, _doubt),
    "excluded": _excluded,
    "gross_error": _gross_error,
    "rater_offset": _rater_offset,
    "masked": _masked,
    "common_offset": _common_offset,
    "leak": _leak,
    "late": _late,
    "undefined": _undefined,
    "untested": _untested,
    "too_good": _too_good,
}
