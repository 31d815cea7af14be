"""The kinds of events: one table of what each holds, when it may follow, what it does, who may write it.

A new kind is one line here, with its check in `payloads`, its rule in `rules` and its effect in `effects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.project import effects, payloads, rules
from warpgauge.project.errors import NotAllowedError, ProjectError
from warpgauge.project.records import Draft, Event, canonical, checked_name
from warpgauge.project.state import State

ORGANISER = "organiser"
_LARGEST_PAYLOAD = 1_000_000


def _never(draft: Draft) -> bool:
    return False


def _always(draft: Draft) -> bool:
    return True


def _asked_again(draft: Draft) -> bool:
    return bool(draft.payload["origin"] == "again")


@dataclass(frozen=True)
class Kind:
    """A kind of event.

    Attributes
    ----------
    check : callable
        Checks a payload alone and returns it with plain values only.
    effect : callable
        Applies an event to a state.
    rule : callable
        Raises where a draft may not follow a state.
    about_query : bool or None
        Whether it names a query; None where it may.
    organisers_only : callable
        Whether only organisers may write this draft; all others are for everybody but viewers.
    undoable : bool
        Whether it is an action of a rater on an answer of their own, which undo and redo go over.
    words : str
        What a person does by it, after "may not"; the name of the kind by default.
    """

    check: Callable[[Mapping[str, Any], int], dict[str, Any]]
    effect: Callable[[State, Event], None]
    rule: Callable[[State, Draft], None] = rules.anything
    about_query: bool | None = True
    organisers_only: Callable[[Draft], bool] = _never
    undoable: bool = False
    words: str = ""


KINDS: dict[str, Kind] = {
    "query": Kind(payloads.query, effects.query, rules.query, organisers_only=_asked_again, words="ask again"),
    "withdraw": Kind(payloads.nothing, effects.withdraw, rules.withdrawal),
    "place": Kind(payloads.placement, effects.act, rules.action, undoable=True),
    "edit": Kind(payloads.placement, effects.act, rules.action, undoable=True),
    "skip": Kind(payloads.skip, effects.act, rules.action, undoable=True),
    "restore": Kind(payloads.nothing, effects.act, rules.action, undoable=True),
    "defer": Kind(payloads.nothing, effects.defer, rules.action),
    "snap": Kind(payloads.snap, effects.snap, rules.asked, about_query=None),
    "undo": Kind(payloads.target, effects.undo, rules.step, about_query=False),
    "redo": Kind(payloads.target, effects.redo, rules.step, about_query=False),
    "disable": Kind(payloads.note, effects.act, rules.action, undoable=True),
    "enable": Kind(payloads.note, effects.act, rules.action, undoable=True),
    "exclude": Kind(payloads.mark, effects.exclude, rules.mark, organisers_only=_always),
    "include": Kind(payloads.mark, effects.include, rules.mark, organisers_only=_always),
    "resolve": Kind(payloads.note, effects.resolve, organisers_only=_always),
    "rater": Kind(
        payloads.rater, effects.rater, about_query=False, organisers_only=_always, words="register or revoke people"
    ),
    "start": Kind(payloads.start, effects.start, about_query=False),
    "align": Kind(payloads.align, effects.align, about_query=False),
    "fit": Kind(payloads.fit, effects.fit, rules.fit, about_query=False),
    "transform": Kind(payloads.transform, effects.transform, rules.transform, about_query=False),
    "settings": Kind(
        payloads.settings, effects.settings, about_query=False, organisers_only=_always, words="change the settings"
    ),
    "audit": Kind(payloads.audit, effects.audit, rules.audit, about_query=False),
    "controls": Kind(
        payloads.controls,
        effects.controls,
        about_query=False,
        organisers_only=_always,
        words="add control questions",
    ),
    "unseal": Kind(
        payloads.unseal,
        effects.unseal,
        rules.unseal,
        about_query=False,
        organisers_only=_always,
        words="open sealed answers",
    ),
    "relink": Kind(payloads.relink, effects.relink, about_query=False, organisers_only=_always, words="link images"),
    "note": Kind(payloads.note, effects.note, about_query=False),
}


def checked(draft: Draft, d: int) -> Draft:
    """Check a draft alone, without regard to the state, and return it with a payload of plain values only."""
    kind = KINDS.get(draft.kind)
    if kind is None:
        raise InvalidInputError(f"An event must be one of {', '.join(KINDS)}, got {draft.kind!r}.")
    rater = checked_name(draft.rater)
    if kind.about_query is not None and kind.about_query != (draft.query is not None):
        raise InvalidInputError(f"An event {draft.kind!r} {'needs' if draft.query is None else 'has no'} query.")
    if draft.duration is not None and not payloads.number(draft.duration, "The duration") >= 0:
        raise InvalidInputError(f"The duration must be seconds, at least 0, got {draft.duration!r}.")
    payload = kind.check(draft.payload, d)
    if (kind.undoable or draft.kind == "query") and draft.payload.get("batch") is not None:
        payload["batch"] = checked_name(draft.payload["batch"], "The name of a batch")
    try:
        size = len(canonical(payload))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The payload of an event {draft.kind!r} is not plain JSON: {error}.") from error
    if size > _LARGEST_PAYLOAD:
        raise InvalidInputError(f"The payload of an event {draft.kind!r} has {size} characters, more than a million.")
    return Draft(
        draft.kind,
        rater,
        None if draft.query is None else int(draft.query),
        payload,
        None if draft.duration is None else float(draft.duration),
        None if draft.base_generation is None else int(draft.base_generation),
    )


def sound_events(events: Iterable[Event], d: int) -> Iterator[Event]:
    """Check events that were read as strictly as new ones: the log may come from anywhere."""
    for event in events:
        try:
            checked(event, d)
        except InvalidInputError as error:
            raise ProjectError(
                f"Event {event.generation} of the log ({event.kind!s:.20}) is damaged: {one_line(error)}."
            ) from error
        yield event


def authorise(state: State, draft: Draft) -> None:
    """Raise when the role of who acts does not allow it."""
    role, kind = state.role(draft.rater), KINDS[draft.kind]
    if role == "viewer" or (kind.organisers_only(draft) and role != ORGANISER):
        article = "an" if role[0] in "aeiou" else "a"
        words = draft.kind if role == "viewer" else kind.words or draft.kind
        raise NotAllowedError(f"{draft.rater} is {article} {role} of this project and may not {words}.")


def check(state: State, draft: Draft) -> None:
    """Raise when this may not be written after this state."""
    if draft.kind != "query":
        rules.known_query(state, draft)
    rules.no_conflict(state, draft)
    KINDS[draft.kind].rule(state, draft)


def advance(state: State, event: Event) -> None:
    """Apply one event to the state, in place; an event that cannot follow it says that the log is damaged."""
    try:
        if event.generation != state.generation + 1:
            raise ProjectError(f"generation {state.generation + 1} was expected")
        check(state, event)
        KINDS[event.kind].effect(state, event)
    except (WarpgaugeError, KeyError, TypeError, IndexError) as error:
        raise ProjectError(f"Event {event.generation} of the log cannot be applied: {error}") from error
    state.generation = event.generation


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """Apply events to a state (an empty one by default), in place, and return it."""
    result = State() if state is None else state
    for event in events:
        advance(result, event)
    return result
