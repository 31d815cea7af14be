"""Rules on which event may follow which state, one for each kind that has any, and on new names.

The rules by kind are the same for writing and for replay; those on names hold for new events only.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from warpgauge.errors import InvalidInputError
from warpgauge.project.errors import ConflictError
from warpgauge.project.records import Draft, Placement, Skipped

if TYPE_CHECKING:
    from warpgauge.project.state import State

# What an answer must be for an action on it.
_NEEDS: dict[str, tuple[str, ...]] = {
    "place": ("not answered", "skipped"),
    "edit": ("placed",),
    "skip": ("not answered", "placed"),
    "restore": ("skipped",),
    "defer": ("not answered",),
    "disable": ("placed",),
    "enable": ("placed",),
}


def anything(state: State, draft: Draft) -> None:
    """Allow it after every state."""


def known_query(state: State, draft: Draft) -> None:
    """Refuse what is about a query that is not in the list."""
    if draft.query is not None and not 0 <= draft.query < len(state.queries):
        raise InvalidInputError(f"There is no query {draft.query}; the list has {len(state.queries)}, from 0 on.")


def no_conflict(state: State, draft: Draft) -> None:
    """Refuse what is based on a state after which the same rater changed the same query."""
    if draft.base_generation is None:
        return
    if draft.kind in ("undo", "redo"):
        newer = state.last_action.get(draft.rater)
    else:
        whose = draft.payload.get("of", draft.rater)
        newer = state.touched.get((whose, draft.query or 0))
    if newer is not None and newer.generation > draft.base_generation:
        where = "" if draft.query is None else f" of query {draft.query}"
        raise ConflictError(
            f"{newer.rater} changed the answer{where} at {newer.time} (generation {newer.generation}, {newer.kind}), "
            f"after generation {draft.base_generation} on which this {draft.kind} was based; look at it and decide "
            f"again.",
            newer,
        )


def action(state: State, draft: Draft) -> None:
    """Refuse an action that the answer so far does not allow."""
    rater, query, kind = draft.rater, draft.query or 0, draft.kind
    asked(state, draft)
    cell = state.cell(rater, query)
    has = {Placement: "placed", Skipped: "skipped", type(None): "not answered"}[type(cell.answer)]
    if has not in _NEEDS[kind]:
        raise InvalidInputError(
            f"{rater} cannot {kind} query {query}, which is {has}; it would have to be {' or '.join(_NEEDS[kind])}."
        )
    if kind in ("disable", "enable") and cell.disabled == (kind == "disable"):
        raise InvalidInputError(f"The placement of {rater} at query {query} is {kind}d already.")


def asked(state: State, draft: Draft) -> None:
    """Refuse what is about a query that this rater is not asked."""
    if draft.query is not None and not state.queries[draft.query].asks(draft.rater):
        raise InvalidInputError(
            f"Query {draft.query} is for {state.queries[draft.query].for_rater} only, not for {draft.rater}."
        )


def step(state: State, draft: Draft) -> None:
    """Refuse to undo or redo anything but the rater's next step."""
    steps = (state.done if draft.kind == "undo" else state.undone).get(draft.rater, [])
    if not steps:
        raise InvalidInputError(f"{draft.rater} has nothing to {draft.kind}.")
    if draft.payload["target"] != steps[-1].generation:
        raise InvalidInputError(
            f"The next action to {draft.kind} is not the one of generation {draft.payload['target']}; look again."
        )


def mark(state: State, draft: Draft) -> None:
    """Excluding needs a mark that is not excluded, including one that is."""
    whose, query = draft.payload["of"], draft.query or 0
    excluded = (whose, query) in state.excluded
    if draft.kind == "include" and not excluded:
        raise InvalidInputError(f"The mark of {whose} at query {query} is not excluded.")
    if draft.kind == "exclude" and (excluded or not isinstance(state.answer(whose, query), Placement)):
        raise InvalidInputError(
            f"{whose} has no mark at query {query} that could be excluded"
            f"{': it is excluded already' if excluded else ''}."
        )


def query(state: State, draft: Draft) -> None:
    """Refuse a query that is not the next one of the list."""
    if draft.query != len(state.queries):
        raise InvalidInputError(f"The next query has the number {len(state.queries)}, not {draft.query}.")
    same_as = draft.payload["same_as"]
    if same_as is not None and (not 0 <= same_as < draft.query or state.queries[same_as].same_as is not None):
        raise InvalidInputError(f"Query {draft.query} cannot repeat query {same_as}: that is not a first query.")
    if "audit" in draft.payload:
        _audit_question(state, draft)
    if "known" in draft.payload:
        pairs = (
            []
            if state.controls is None
            else zip(*(state.controls.payload[s] for s in ("fixed", "moving")), strict=True)
        )
        if [draft.payload["point"], draft.payload["known"]] not in [list(pair) for pair in pairs]:
            raise InvalidInputError(f"Query {draft.query} is not one of the control questions of the project.")


def _audit_question(state: State, draft: Draft) -> None:
    """Questions of a round are asked in the order drawn, each once, at the point drawn, of all raters."""
    number, place = draft.payload["audit"]["round"], draft.payload["audit"]["place"]
    if not 0 <= number < len(state.audits):
        raise InvalidInputError(f"There is no round {number} of the audit; there are {len(state.audits)}.")
    drawn = state.audits[number]
    asked = sum(query.audit is not None and query.audit[0] == number for query in state.queries)
    if place != asked or place >= len(drawn.targets) or tuple(draft.payload["point"]) != drawn.points[place]:
        raise InvalidInputError(f"Query {draft.query} is not question {asked} of round {number} of the audit.")
    if draft.payload["for_rater"] is not None or draft.payload["same_as"] is not None:
        raise InvalidInputError("An audit question is a new location that all raters are asked.")


def audit(state: State, draft: Draft) -> None:
    """Refuse a round of audit questions that is not the next one."""
    if draft.payload["round"] != len(state.audits):
        raise InvalidInputError(f"The next round of the audit is {len(state.audits)}, not {draft.payload['round']}.")


def unseal(state: State, draft: Draft) -> None:
    """Refuse to open answers where none is sealed."""
    if not any(state.is_sealed_round(drawn) for drawn in state.audits):
        raise InvalidInputError("No answer is sealed, so there is nothing to unseal.")


def withdrawal(state: State, draft: Draft) -> None:
    """Refuse to withdraw anything but a suggestion that nobody has answered or put aside."""
    query = draft.query or 0
    if state.queries[query].origin != "suggested" or query in state.withdrawn or state.is_taken(query):
        raise InvalidInputError(f"Query {query} is not an open suggestion, so it cannot be withdrawn.")


def fit(state: State, draft: Draft) -> None:
    """Refuse a fit that says which one it replaces when that is not the last: of two refits at once one is late."""
    replaces = draft.payload.get("replaces")
    if replaces is not None and state.fits and state.fits[-1].generation != replaces:
        newer = state.fits[-1]
        raise ConflictError(f"The weights were fitted anew at generation {newer.generation}; this fit is late.", newer)


def transform(state: State, draft: Draft) -> None:
    """Refuse to remove a transform that is not there."""
    if not draft.payload.get("files") and draft.payload["name"] not in state.transforms:
        raise InvalidInputError(f"There is no transform {draft.payload['name']!r} to remove.")


# Checks that the names of new raters and transforms can be distinguished by people.
#
# Names that already stand in a log are not checked again, so that older projects open.

_HIDDEN = ("Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp")
_JOINED = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
# Letters of other scripts, and digits, that look like Latin ones.
_TWINS = str.maketrans(
    "авекмнорстухіјѕһԁԛԝүӏ" + "αβεηικμνορτυχγ" + "օսցһոզ" + "01|",
    "abekmhopctyxijshdqwyl" + "abenikmvoptuxy" + "oughnq" + "oll",
)


def appearance(name: str) -> str:
    """Return a name as it looks: the same for names that can be taken for each other."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(c for c in plain if not unicodedata.combining(c))
    return " ".join(letters.translate(_TWINS).replace("rn", "m").split())


def check_new_name(name: str, known: Iterable[str], what: str = "The name of a rater") -> None:
    """Refuse a new name with invisible characters, with letters of several scripts, or that looks like a known one."""
    for character in name:
        if unicodedata.category(character) in _HIDDEN:
            code = f"U+{ord(character):04X}"
            raise InvalidInputError(f"{what} has the invisible or direction-changing character {code}; leave it out.")
    scripts = {unicodedata.name(c, "").partition(" ")[0] for c in name if c.isalpha()} & set(_JOINED)
    if len(scripts) > 1:
        raise InvalidInputError(
            f"{what} mixes letters of {' and '.join(sorted(s.title() for s in scripts))}, which look alike; write it "
            f"in one script."
        )
    twin = next((other for other in known if other != name and appearance(other) == appearance(name)), None)
    if twin is not None:
        raise InvalidInputError(f"{what}, {name!r}, looks like {twin!r}, which is in use; choose another one.")
