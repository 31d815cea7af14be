"""What an answer costs on the server's request path after thousands of answers, against the first ones.

Twenty raters answer in turn, through what the routes call. Processor time is compared, which other work changes less;
what the next answer is compared with counts, although a server works it out beside the requests; refits happen between
the rounds and are not counted. A few answers of another project come first, so that the compiler is not counted either.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from timing import Row

RATERS, FIRST, ALL = 20, 200, 5000


def _waits(folder: Path, count: int, settings: dict[str, object]) -> np.ndarray:
    """Processor seconds of each answer, its next question included."""
    from session.tools import lattice, make, true_map
    from warpgauge.project.events import Register
    from warpgauge.web.answers import Answering
    from warpgauge.web.app_state import Desk
    from warpgauge.web.auth import Person
    from warpgauge.web.wire import PlaceRequest

    project = make(folder, {"guided_start": False, **settings}, candidates=lattice(40, 30, 10.0))
    project.append(Register(rater="organiser", name="organiser", role="organiser", token_hash="-"))
    people = [Person(f"rater {k}", "rater") for k in range(RATERS)]
    project.append(*(Register(rater="organiser", name=one.name, role="rater", token_hash="-") for one in people))
    desk, rng = Desk(project, None), np.random.default_rng(0)
    desk.changed = lambda: None  # type: ignore[method-assign]  # nothing runs beside: what counts is called below
    answering, waits = Answering(desk), np.empty(count)
    asked = {one.name: answering.current(one) for one in people}
    for number in range(count):
        person = people[number % RATERS]
        query = asked[person.name]
        where = true_map(np.array(query["location"])) + rng.normal(0, 0.3, 2)
        told = {"point": where.tolist(), "covariance": [[0.1, 0.0], [0.0, 0.1]], "alpha": 0.01, "confirmed": True}
        request = PlaceRequest.model_validate({**told, "generation": query["generation"]})
        start = time.process_time()
        asked[person.name] = answering.place(query["query"], request, person)["next"]
        desk.session.look_ahead()
        waits[number] = time.process_time() - start
        if number % RATERS == RATERS - 1:
            desk.session.refit_if_due()
    project.close()
    return waits


def run() -> list[Row]:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    rows = []
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _waits(Path(name) / "cold", 3 * RATERS * 7, {})
        for words, settings in {"blind raters": {}, "raters who see all answers": {"blind": False}}.items():
            waits = _waits(Path(name) / words.replace(" ", "-"), ALL, settings)
            first, last = float(waits[:FIRST].mean()), float(waits[-FIRST:].mean())
            note = (
                f"processor time; 99 % within {1000 * np.quantile(waits, 0.99):.0f} ms; {1 / last:.0f} answers a second"
            )
            work = f"an answer and the next question after {ALL:,} answers of {RATERS} {words}"
            rows.append(Row(work, f"the same within the first {FIRST}", last, first, last / first, 1 / 0.95, note))
    return rows
