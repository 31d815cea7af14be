"""What a project's answers say, read without a session: annotations, posterior, offsets of raters."""

from __future__ import annotations

from warpgauge.core.process import Posterior
from warpgauge.project import Project
from warpgauge.session.agreement import FarMark, RaterOffset, far_marks, offsets_of
from warpgauge.session.model import Model, View


def view_of(project: Project, rater: str | None = None) -> View:
    """Return the annotations of all raters, fused, or of one, with the posterior given them."""
    with project.lock:
        return Model(project).view(project.state, rater)


def posterior_of(project: Project, rater: str | None = None) -> Posterior:
    """Return the posterior given all annotations, raters fused, or given one rater's own."""
    return view_of(project, rater).posterior


def rater_offsets(project: Project) -> list[RaterOffset]:
    """Return the raters whose placements are offset from the others' by a constant, with size and error."""
    fused = view_of(project).located.fused
    return [] if fused is None else offsets_of(fused)


def marks_far_from_others(project: Project) -> list[FarMark]:
    """Return the marks that lie far from what the other raters marked at the same landmark, farthest first."""
    return far_marks(view_of(project).located)
