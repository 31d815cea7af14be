"""What each kind of event does to the state, in place; only `warpgauge.project.kinds.advance` calls these."""

from __future__ import annotations

from warpgauge.project.records import (
    AuditRound,
    Cell,
    Event,
    Proposal,
    QueryRecord,
    RaterRecord,
    Skipped,
    Step,
    TransformRecord,
    placement_of,
)
from warpgauge.project.state import State


def act(state: State, event: Event) -> None:
    """Apply an action on an answer."""
    rater, query = event.rater, event.query or 0
    before = state.cell(rater, query)
    after = _after(before, event)
    state.done.setdefault(rater, []).append(Step(event.generation, query, before, after, event.payload.get("batch")))
    _count_batch(state, event.payload.get("batch"), 1)
    state.undone[rater] = []
    state.last_action[rater] = event
    _set_cell(state, rater, query, after, event)


def _after(before: Cell, event: Event) -> Cell:
    """Return what an action makes of a cell."""
    if event.kind in ("place", "edit"):
        return Cell(placement_of(event), before.disabled and event.kind == "edit")
    if event.kind == "skip":
        p = event.payload
        return Cell(Skipped(p["reason"], p["text"], event.generation, event.time, event.duration))
    if event.kind == "restore":
        return Cell()
    return Cell(before.answer, event.kind == "disable")


def _set_cell(state: State, rater: str, query: int, cell: Cell, event: Event) -> None:
    before = _in_force(state.cell(rater, query))
    after = None if (rater, query) in state.excluded else _in_force(cell)
    if before != after:
        if before is not None:
            state.removed[before] = event.generation
        state.removed.pop(after or 0, None)
    if (rater, query) not in state.cells:
        state.cells_at.setdefault(state.queries[query].location, []).append((rater, query))
    state.cells[rater, query] = cell
    state.changed_at[state.queries[query].location] = event.generation
    state.touched[rater, query] = event
    state.deferred.pop((rater, query), None)
    trail = state.trails.setdefault(rater, [])
    if query not in trail:
        trail.append(query)
    state.model_generation = event.generation


def _in_force(cell: Cell) -> int | None:
    """Return the generation of an answer that counts, or None."""
    return None if cell.answer is None or cell.disabled else cell.answer.generation


def undo(state: State, event: Event) -> None:
    """Take the rater's last action back."""
    step = state.done[event.rater].pop()
    state.undone.setdefault(event.rater, []).append(step)
    state.last_action[event.rater] = event
    _count_batch(state, step.batch, -1)
    _set_cell(state, event.rater, step.query, step.before, event)


def redo(state: State, event: Event) -> None:
    """Do again what was undone last."""
    step = state.undone[event.rater].pop()
    state.done.setdefault(event.rater, []).append(step)
    state.last_action[event.rater] = event
    _count_batch(state, step.batch, 1)
    _set_cell(state, event.rater, step.query, step.after, event)


def _count_batch(state: State, batch: str | None, change: int) -> None:
    if batch is not None:
        state.batches[batch] = state.batches.get(batch, 0) + change


def query(state: State, event: Event) -> None:
    """Add a location to the list."""
    p = event.payload
    record = QueryRecord(
        len(state.queries),
        tuple(p["point"]),
        p["candidate"],
        p["origin"],
        p["same_as"],
        p["for_rater"],
        p["gain"],
        p.get("name", ""),
        event.generation,
        p.get("batch"),
        (p["audit"]["round"], p["audit"]["place"]) if "audit" in p else None,
        tuple(p["known"]) if "known" in p else None,
    )
    state.queries.append(record)


def defer(state: State, event: Event) -> None:
    """Put a query aside."""
    query = event.query or 0
    state.deferred[event.rater, query] = event.generation
    trail = state.trails.setdefault(event.rater, [])
    if query not in trail:
        trail.append(query)


def snap(state: State, event: Event) -> None:
    """Note that a proposal from the images was asked for; no answer changes."""
    p = event.payload
    proposed = None if p["proposed"] is None else tuple(p["proposed"])
    found = Proposal(tuple(p["fixed"]), tuple(p["mark"]), proposed, event.generation)
    state.proposals.setdefault((event.rater, event.query), []).append(found)


def withdraw(state: State, event: Event) -> None:
    """Take a suggestion from the list."""
    state.withdrawn[event.query or 0] = event


def start(state: State, event: Event) -> None:
    """Note that the guided start was skipped."""
    state.starts_skipped[event.rater] = event


def exclude(state: State, event: Event) -> None:
    """Take a mark out of the model."""
    key = event.payload["of"], event.query or 0
    state.excluded[key] = event
    state.changed_at[state.queries[key[1]].location] = event.generation
    given = _in_force(state.cell(*key))
    if given is not None:
        state.removed[given] = event.generation
    state.model_generation = event.generation


def include(state: State, event: Event) -> None:
    """Put a mark back into the model."""
    key = event.payload["of"], event.query or 0
    del state.excluded[key]
    state.changed_at[state.queries[key[1]].location] = event.generation
    state.removed.pop(_in_force(state.cell(*key)) or 0, None)
    state.model_generation = event.generation


def resolve(state: State, event: Event) -> None:
    """Settle a location."""
    state.resolved[state.queries[event.query or 0].location] = event


def rater(state: State, event: Event) -> None:
    """Register a person, or change their role or token."""
    p = event.payload
    state.raters[p["name"]] = RaterRecord(p["name"], p["role"], p["token_hash"], p["revoked"], event.generation)


def transform(state: State, event: Event) -> None:
    """Add a registration result, or remove it."""
    p = event.payload
    if not p.get("files"):
        del state.transforms[p["name"]]
        return
    state.transforms[p["name"]] = TransformRecord(
        p["name"], tuple(p["files"]), tuple(p["hashes"]), dict(p.get("options", {})), event.generation
    )


def fit(state: State, event: Event) -> None:
    """Take over learned weights."""
    state.fits.append(event)
    if event.payload.get("source") == "projects":
        state.fit_marks[event.generation] = frozenset()
        return
    known = event.payload.get("rests_on")
    if known is None:  # fits of earlier versions say only when they looked
        seen = event.payload.get("at_generation", event.generation)
        known = [
            cell.answer.generation
            for (rater, query), cell in state.cells.items()
            if cell.answer is not None and cell.answer.generation <= seen and state.in_model(rater, query)
        ]
    state.fit_marks[event.generation] = frozenset(known)


def align(state: State, event: Event) -> None:
    """Take over a rough alignment, or the answer to one."""
    state.alignment = event
    state.model_generation = event.generation


def audit(state: State, event: Event) -> None:
    """Enter a round of audit questions."""
    p = event.payload
    state.audits.append(
        AuditRound(
            p["round"],
            p["design"],
            p["sealed"],
            p["population"],
            p["drawn_before"],
            p["seed"],
            tuple(p["targets"]),
            tuple(tuple(point) for point in p["points"]),
            tuple(p["candidates"]),
            tuple(p["probabilities"]),
            dict(p["transforms"]),
            event.generation,
        )
    )


def controls(state: State, event: Event) -> None:
    """Use these control questions from now on."""
    state.controls = event


def unseal(state: State, event: Event) -> None:
    """Open sealed answers."""
    state.unsealed.append(event)
    state.model_generation = event.generation


def note(state: State, event: Event) -> None:
    """Change nothing: a note is for people."""


def settings(state: State, event: Event) -> None:
    """Change settings."""
    state.settings.update(event.payload["changes"])
    state.settings_generation = event.generation


def relink(state: State, event: Event) -> None:
    """Note that ``project.json`` names other images."""
    state.images_generation = event.generation
