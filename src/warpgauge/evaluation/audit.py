"""The audit: random answers, and what they prove about transforms by the draw alone, without any model.

The population are the places at which the targets are asked. What is compared is the mean error, the distance from the
experts' answers with their scatter. Two errors at a place differ by at most the distance of the two transforms there
(triangle inequality), which is known everywhere before any answer: nothing has to be capped or assumed. Where a
transform is not defined it counts as no registration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import permutations
from typing import Any

import numpy as np

from warpgauge.audit import answers_left, mean_weights, proven, tickets
from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.display import counted, joined, length, lines_text, percent
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.evaluation.comparison import Comparison, mapped
from warpgauge.io.files import plain
from warpgauge.project import Project, State
from warpgauge.session.audit_questions import audit_places
from warpgauge.session.fused_annotations import located_annotations
from warpgauge.session.prior import default_covariance

CONFIDENCE = 0.95
# At most so many pairs that are open are named; a forecast of more answers than this is none.
MOST_NAMED, FAR = 3, 1000


@dataclass(frozen=True, eq=False)
class Asked:
    """The N places of an audit, and its n questions that raters reached or passed over, in the order of the draw."""

    places: Floats
    rows: Ints
    """Which of the places each question is."""
    probabilities: Floats
    """Of each draw, among the places that were left."""
    marked: Floats
    """Points (n, d) as marked, or else as asked; fixed world."""
    matches: Floats
    """Answers (n, d) in the moving world, raters fused; NaN where nobody placed one."""
    pending: Bools
    """Whether nobody has reached a question although a later one is answered."""
    sealed: Bools
    known_from: Floats
    """Generation from which an answer could be known: when it was opened, or, never sealed, when it was drawn."""

    @property
    def points(self) -> Floats:
        """All points at which transforms are needed: the places of the population, then those of the questions."""
        return np.concatenate([self.places, self.marked])


def asked_questions(project: Project) -> Asked | None:
    """Return the audit of a project from its log, sealed answers included; None before the first answer."""
    with project.lock:
        state = project.state
        drawn = [query for query in state.queries if query.audit is not None]
        reached = {query.number for query in drawn if state.is_taken(query.number)}
        if not reached:
            return None
        default = default_covariance(project.fixed_grid, project.settings)
        located = located_annotations(state, project.d, default, sealed=True)
        answers = located.annotations
        asked = [query for query in drawn if query.number <= max(reached)]
        marked = np.array([query.point for query in asked], dtype=np.float64)
        matches = np.full(marked.shape, np.nan)
        rows = []
        probabilities = []
        known_from = []
        for at, query in enumerate(asked):
            assert query.audit is not None
            number, place = query.audit
            design = state.audits[number]
            rows.append(design.targets[place])
            probabilities.append(design.probabilities[place])
            opened = state.opened_at(query.number) or np.inf
            known_from.append(opened if state.was_sealed(query.number) else design.generation)
            row = located.row_at(query.number)
            if row is not None:
                marked[at] = answers.fixed_points[row]
                matches[at] = answers.moving_points[row]
        return Asked(
            audit_places(project)[0],
            np.array(rows, dtype=np.int64),
            np.array(probabilities),
            marked,
            matches,
            np.array([query.number not in reached for query in asked]),
            np.array([state.is_sealed(query.number) for query in asked]),
            np.array(known_from, dtype=np.float64),
        )


def audited_points(project: Project) -> Floats | None:
    """Return the points at which an audit needs transforms; None before the first answer."""
    asked = asked_questions(project)
    return None if asked is None else asked.points


def family_of(state: State, names: Collection[str]) -> int:
    """Return among how many transforms some were chosen: all that the project ever had, and others from elsewhere."""
    return len(state.first_added) + len([name for name in names if name not in state.transforms])


@dataclass(frozen=True, eq=False)
class AuditData:
    """K transforms at the n questions of an audit: all that its verdict rests on, as a certificate holds it."""

    names: tuple[str, ...]
    population: int
    """Number of places N."""
    rows: Ints
    """Place of each question (n,), in the order of the draws."""
    probabilities: Floats
    """Of each draw (n,), among the places left."""
    matches: Floats
    """Answers (n, d) in the moving world; NaN where there is none."""
    mapped: Floats
    """Transforms (K, n, d) at the points that were marked."""
    asked: Floats
    """Transforms (K, n, d) at the places that were asked."""
    distances: Floats
    """Sums (K, K) of the distances of every two transforms over the population."""
    pending: Bools
    """Questions (n,) that were passed over: they count against every claim."""
    bets: Bools
    """Draws (K, n) that may prove something about a transform: it was added before the answer could be known."""
    sealed: Bools
    undefined: Floats
    """Share of the places (K,) at which a transform is not defined."""

    def __post_init__(self) -> None:
        K, n, d = self.mapped.shape
        shapes = {
            "rows": (n,), "probabilities": (n,), "matches": (n, d), "asked": (K, n, d), "distances": (K, K),
            "pending": (n,), "bets": (K, n), "sealed": (n,), "undefined": (K,),
        }  # fmt: skip
        wrong = [name for name, shape in shapes.items() if getattr(self, name).shape != shape]
        if wrong or len(self.names) != K:
            raise InvalidInputError(f"The arrays of an audit do not fit together: {', '.join(wrong) or 'names'}.")
        if len(set(self.rows.tolist())) < n or not all(0 <= row < self.population for row in self.rows):
            raise InvalidInputError("An audit draws each place of its population at most once.")
        if not ((self.probabilities > 0) & (self.probabilities <= 1 + 1e-9)).all():
            raise InvalidInputError("Probabilities of draws must lie above 0 and not above 1.")

    @property
    def answered(self) -> Bools:
        """Questions (n,) that at least one rater placed; the others were skipped, put aside or taken out."""
        return np.asarray(np.isfinite(self.matches).all(axis=1))

    @property
    def errors(self) -> Floats:
        """Distances (K, n) of the transforms from the answers; 0 where there is none."""
        known = np.where(self.answered[:, None], self.matches, self.mapped)
        return np.asarray(np.linalg.norm(self.mapped - known, axis=2))

    @property
    def mean_errors(self) -> Floats:
        """Estimated mean errors (K,) over the population; NaN without an answer."""
        weights = mean_weights(self.probabilities[self.answered], self.population)
        total = weights.sum()
        return self.errors[:, self.answered] @ weights / (total if total > 0 else np.nan)

    def claim(
        self, new: int, baseline: int, *, share: float = 0.0, length: float = 0.0, skips_count: bool = False
    ) -> Floats:
        """Return tickets (n,) for "the mean error of new is below (1 + share) times the baseline's, plus length".

        If that is false, ``v = |delta| + (1 + share) e_baseline - e_new`` adds up over all places to at most the sum of
        ``|delta|`` less N lengths, delta the difference of the two transforms; no v is below 0, as e_new is at most
        ``e_baseline + |delta|``. A skipped question shows no difference (with ``skips_count``: the largest), one that
        was passed over the largest. Where a rater marked another point, the bound is that of the place that was asked.
        """
        apart = np.linalg.norm(self.asked[new] - self.asked[baseline], axis=1)
        gained = np.clip(self.errors[baseline] - self.errors[new], -apart, apart)
        values = apart + gained + share * self.errors[baseline]
        against = ~self.answered if skips_count else self.pending
        limit = float(self.distances[new, baseline]) - self.population * length
        bets = self.bets[new] & self.bets[baseline]
        return tickets(np.where(against, 0.0, values), self.probabilities, limit, bets)

    def proves(self, new: int, baseline: int, alpha: float, **claim: Any) -> bool:
        """Return whether a claim has been proven at any look, with an error of at most alpha."""
        drawn = self.claim(new, baseline, **claim)
        return bool(len(drawn) and proven(drawn, alpha)[-1])

    def forecast(self, new: int, baseline: int, alpha: float, **claim: Any) -> float:
        """Return about how many further answers like those so far prove a claim; infinite where they would not."""
        bets = self.bets[new] & self.bets[baseline]
        return answers_left(self.claim(new, baseline, **claim)[bets], alpha)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values; None for NaN."""
        content: dict[str, Any] = plain({field.name: getattr(self, field.name) for field in fields(self)})
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> AuditData:
        """Read it back."""
        kinds = {"rows": np.int64, "pending": bool, "bets": bool, "sealed": bool}
        try:
            values: dict[str, Any] = {
                "names": tuple(map(str, content["names"])),
                "population": int(content["population"]),
            }
            for field in fields(cls):
                if field.name not in values:
                    values[field.name] = np.array(content[field.name], dtype=kinds.get(field.name, np.float64))
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"The audit in the certificate cannot be read: {error}.") from error


def project_audit(project: Project, comparison: Comparison) -> AuditVerdict | None:
    """Return what the audit proves of the project's own transforms; None with fewer than two or without an answer."""
    names = [name for name in comparison.transforms if name in project.state.transforms]
    if len(names) < 2 or asked_questions(project) is None:
        return None
    data = audit_data(project, comparison.among(names))
    return audit_verdict(data, family=family_of(project.state, names), units=project.units)


def audit_data(project: Project, comparison: Comparison) -> AuditData:
    """Return the audit of a project, sealed answers included, for the transforms of a comparison over its targets."""
    if not comparison.transforms:
        raise InvalidInputError("There is no transform to certify; add some with warpgauge add-transform.")
    asked = asked_questions(project)
    if asked is None:
        todo = "warpgauge annotate PROJECT" if project.settings.audit else "make the project with new --audit 0.25"
        raise InvalidInputError(f"No audit question has been answered, so there is nothing to certify: {todo}.")
    points = asked.points
    names = tuple(comparison.transforms)
    state = project.state
    if comparison.audited is not None and np.array_equal(comparison.audited, points):
        values = comparison.values.audited
    else:
        values = mapped(comparison.transforms.values(), points)
    N = len(asked.places)
    undefined = np.asarray(~np.isfinite(values).all(axis=2))
    filled = np.where(undefined[:, :, None], comparison.posterior.prior.prior_mean(points), values)
    places = filled[:, :N]
    bets = []
    for name in names:
        record = state.transforms.get(name)
        # Of a transform from elsewhere it is not known when it was made; the gate says how many answers were open.
        added = -1 if record is None else state.first_added[record.content]
        bets.append(added < asked.known_from)
    return AuditData(
        names,
        N,
        asked.rows,
        asked.probabilities,
        asked.matches,
        mapped=filled[:, N:],
        asked=places[:, asked.rows],
        distances=np.array([[np.linalg.norm(one - other, axis=1).sum() for other in places] for one in places]),
        pending=asked.pending,
        bets=np.array(bets),
        sealed=asked.sealed,
        undefined=undefined[:, :N].mean(axis=1),
    )


@dataclass(frozen=True)
class OpenPair:
    """Two transforms of which either may still be the best, and about how many more answers would decide."""

    first: str
    second: str
    forecast: float


@dataclass(frozen=True)
class AuditVerdict:
    """What an audit proves: which transforms may still be the best, the nearest to the experts' answers on average."""

    level: float
    """Probability, at every look, that the best transform is among those that may be."""
    family: int
    """Number of transforms among which these were chosen: what is proven is proven for so many."""
    reached: int
    answered: int
    counting: int
    """Questions that may prove something about every transform here."""
    mean_errors: Mapping[str, float]
    """Estimates by name, smallest first."""
    possible: tuple[str, ...]
    """May be the best, smallest estimate first."""
    with_skips: bool
    """Whether what is proven holds even if each skipped question counts against it."""
    open: tuple[OpenPair, ...]
    undefined: Mapping[str, float]
    units: str

    @property
    def best(self) -> str | None:
        """The transform that is proven to be the best."""
        return self.possible[0] if len(self.possible) == 1 < len(self.mean_errors) else None

    @property
    def excluded(self) -> tuple[str, ...]:
        """Proven not to be the best."""
        return tuple(name for name in self.mean_errors if name not in self.possible)

    @property
    def sentence(self) -> str:
        """What is proven."""
        names = list(self.mean_errors)
        basis = counted(self.answered, "random answer")
        if not self.excluded:
            what = "one transform alone" if len(names) == 1 else f"which of {joined(names, 'or')} is the best"
            return f"nothing yet of {what} ({basis})"
        sure = f"{basis}, wrong in at most {percent(1 - self.level)} of audits at any look, no model"
        if self.best is not None:
            return f"{self.best} is the best of {joined(names)} ({sure})"
        verb = "is" if len(self.excluded) == 1 else "are"
        return f"{joined(self.excluded)} {verb} not the best; {joined(self.possible, 'or')} is ({sure})"

    @property
    def lines(self) -> dict[str, str]:
        """What is proven, how large errors are, what is open, what was skipped and what to keep in mind, by name."""
        sizes = [f"{name} {length(value, self.units)}" for name, value in self.mean_errors.items()]
        found = {
            "PROVEN": self.sentence,
            "SIZE": f"mean error {', '.join(sizes)} (estimates, the experts' own scatter included)",
        }
        if self.open:
            found["OPEN"] = "; ".join(_open(pair) for pair in self.open[:MOST_NAMED])
        skipped = self.reached - self.answered
        if skipped:
            found["SKIPPED"] = f"{skipped} of {counted(self.reached, 'question')}" + (
                f"; what is proven {'holds even' if self.with_skips else 'does not hold'} if each of them counts "
                "against it"
                if self.excluded
                else ""
            )
        notes = [f"{name} is undefined at {percent(share)}" for name, share in self.undefined.items() if share]
        if self.counting < self.reached:
            late = counted(self.reached - self.counting, "answer")
            notes.append(f"{late} could be known when a transform was added, and prove nothing of it")
        if notes:
            found["MIND"] = "; ".join(notes)
        return found

    def __str__(self) -> str:
        return lines_text(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, None for what is not finite; with its lines."""
        content: dict[str, Any] = plain({**asdict(self), "best": self.best, "lines": self.lines})
        return content


def _open(pair: OpenPair) -> str:
    more = f"about {counted(round(max(1, pair.forecast)), 'more answer')} like these" if pair.forecast <= FAR else ""
    return f"{pair.first} against {pair.second}: {more or 'answers like these would not tell'}"


def audit_verdict(data: AuditData, *, level: float = CONFIDENCE, family: int = 0, units: str = "px") -> AuditVerdict:
    """Return which transforms may be the best after an audit.

    The best is left out only if one of the claims "this one is better" against it is proven although it is false: K - 1
    claims share the error rate, K the number of transforms here or in the ``family``. Of two, either could be the best,
    so that two claims share it.
    """
    if not 0 < level < 1:
        raise InvalidInputError(f"A level must lie between 0 and 1, got {level!r}.")
    K = len(data.names)
    family = max(family, K)
    alpha = (1 - level) / max(2, family - 1)
    sizes = data.mean_errors
    order = [int(row) for row in np.argsort(sizes, kind="stable")]
    worse = set()
    worse_with_skips = set()
    for better, other in permutations(range(K), 2):
        if data.proves(better, other, alpha):
            worse.add(other)
            if data.proves(better, other, alpha, skips_count=True):
                worse_with_skips.add(other)
    if len(worse) == K:  # claims that contradict each other: at least one is false, so none is stated
        worse = set()
        worse_with_skips = set()
    possible = [row for row in order if row not in worse]
    leader = possible[0]
    pairs = [OpenPair(data.names[leader], data.names[k], data.forecast(leader, k, alpha)) for k in possible[1:]]
    return AuditVerdict(
        level=level,
        family=family,
        reached=len(data.rows),
        answered=int(data.answered.sum()),
        counting=int(data.bets.all(axis=0).sum()),
        mean_errors={data.names[row]: float(sizes[row]) for row in order},
        possible=tuple(data.names[row] for row in possible),
        with_skips=worse == worse_with_skips,
        open=tuple(pairs),
        undefined=dict(zip(data.names, data.undefined.tolist(), strict=True)),
        units=units,
    )
