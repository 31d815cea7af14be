"""Watches the audit of a project while it is being annotated, until it decides which transform is best."""

from __future__ import annotations

from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation.assessment import project_posterior
from warpgauge.evaluation.audit import audit_data
from warpgauge.evaluation.design_verdict import DesignVerdict, design_verdict
from warpgauge.project import Project
from warpgauge.session import Session


class AuditWatch:
    """The audit's verdict, computed again when an audit answer or a transform has changed.

    It may be looked at after every answer: decisions keep their error rate.

    Parameters
    ----------
    project : Project
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._known: tuple[object, DesignVerdict | None] | None = None

    def verdict(self) -> DesignVerdict | None:
        """Return the verdict; None with fewer than two transforms or too few audit answers."""
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

    def _made(self) -> DesignVerdict | None:
        try:
            transforms = {name: self.project.transform(name) for name in self.project.transform_names()}
            posterior = project_posterior(self.project) if len(Session(self.project).annotations()) else None
            return design_verdict(audit_data(self.project, transforms, posterior))
        except WarpgaugeError:  # too few answers, or a transform that cannot be read, which is shown elsewhere
            return None

    def decided(self) -> str | None:
        """Return the verdict in a sentence where it is decided which transform is best, else None."""
        found = self.verdict()
        return found.sentence if found is not None and found.best is not None else None
