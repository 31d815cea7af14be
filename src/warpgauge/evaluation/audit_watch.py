"""`AuditWatch`: the exact verdict of a project's audit while it is being annotated, until it is decided."""

from __future__ import annotations

from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation.audit import audit_data, family_of
from warpgauge.evaluation.exact_verdict import ExactVerdict, exact_verdict
from warpgauge.evaluation.project_evaluation import project_comparison
from warpgauge.project import Project


class AuditWatch:
    """The audit's verdict, recomputed when an audit answer or a transform has changed.

    It may be looked at after every answer: decisions keep their error rate.

    Parameters
    ----------
    project : Project
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._known: tuple[object, ExactVerdict | None] | None = None

    def verdict(self) -> ExactVerdict | None:
        """Return the verdict; None with fewer than two transforms or without an answer that proves anything."""
        with self.project.lock:
            state = self.project.state
            audited = {query.number for query in state.queries if query.audit is not None}
            answers = tuple(
                sorted(
                    (number, who, cell.answer.generation if cell.answer else 0, cell.disabled)
                    for (who, number), cell in state.cells.items()
                    if state.queries[number].location in audited
                )
            )
            transforms = tuple((name, record.generation) for name, record in state.transforms.items())
            key = answers, transforms, len(state.unsealed), len(state.excluded)
        if self._known is None or self._known[0] != key:
            self._known = key, self._made() if len(transforms) > 1 and answers else None
        return self._known[1]

    def _made(self) -> ExactVerdict | None:
        try:
            names = self.project.transform_names()
            data = audit_data(self.project, project_comparison(self.project).among(names))
            if data.bets is None or not data.bets.any():
                return None
            return exact_verdict(data, family=family_of(self.project.state, names), units=self.project.units)
        except WarpgaugeError:  # no answer, or a transform that cannot be read, which is shown elsewhere
            return None

    def excluded(self) -> frozenset[str]:
        """Return the transforms that are proven to be worse than another; none where an answer is sealed.

        Questions that followed sealed answers would tell of them.
        """
        with self.project.lock:
            state = self.project.state
            if any(query.audit is not None and state.is_sealed(query.number) for query in state.queries):
                return frozenset()
        found = self.verdict()
        pairs = () if found is None else (*found.pairs, *found.contest)
        return frozenset(one.other(one.better) for one in pairs if one.better is not None)

    def certified(self) -> str | None:
        """Return the verdict in a sentence where the audit shows which transform is best, else None."""
        found = self.verdict()
        return found.sentence if found is not None and found.certified else None
