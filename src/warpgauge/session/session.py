"""The loop of suggesting, annotating and refitting, without HTTP or a terminal."""

from __future__ import annotations

from warpgauge.session.answering import Answering
from warpgauge.session.asking import Asking
from warpgauge.session.organising import Organising


class Session(Asking, Answering, Organising):
    """Work on a project, for one rater or for a server that speaks for many.

    One `Session` serves any number of raters and threads of a process. It keeps its model alive between calls and
    follows what other processes write.

    A refit, or another rater's answer, never changes what a rater is looking at: `prediction` and `view` of a rater
    stay those of the moment at which the query was handed out (by `next_query`, `another`, `previous`, `following` or
    `go_to`), until the next one is.

    Parameters
    ----------
    project : Project
    rater : str, optional
        Who acts where a call does not say.
    auto_refit : bool
        Refit the weights within `next_query` when that is due. A server may switch this off and call
        `refit_if_due` from another thread instead, so that nobody waits.

    Attributes
    ----------
    notes : list of str
        What went wrong without harm, as a refit that failed.
    """
