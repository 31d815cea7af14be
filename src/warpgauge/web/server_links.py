"""People and their links at the start of a server: who organises, who gets a new token, who keeps theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpgauge.errors import InvalidInputError
from warpgauge.project import Project, State
from warpgauge.project.kinds import ORGANISER
from warpgauge.web.auth import has_ended, new_token, token_hash


@dataclass(frozen=True)
class Link:
    """A link for one person; the secret in it is shown this once."""

    name: str
    role: str
    url: str


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names without blanks around them; two that are the same are an error."""
    clean = [name.strip() for name in names]
    if len(set(clean)) < len(clean) or not all(clean):
        raise InvalidInputError(f"The raters must be different names, got {', '.join(clean)!r}.")
    return clean


def make_organiser(project: Project, launcher: str) -> None:
    """Register whoever launches as an organiser where nobody is registered, or where they are not known yet.

    Whoever can start the server can write the project's files; a registered rater stays what they are.
    """
    state = project.state
    if launcher not in state.raters:
        by = launcher if not state.raters else _an_organiser(state)
        if by is not None:
            project.add_rater(launcher, "organiser", by=by)


def _an_organiser(state: State) -> str | None:
    return next((r.name for r in state.raters.values() if r.role == ORGANISER and not r.revoked), None)


def has_tokens(project: Project) -> bool:
    """Return whether anybody has a link that is still valid."""
    return any(
        record.token_hash and not record.revoked and not has_ended(record.token_hash)
        for record in project.state.raters.values()
    )


def register(
    project: Project, names: Sequence[str], days: float | None, new_links: bool
) -> tuple[dict[str, str], list[str]]:
    """Return each name a token, unless they have one; give the new tokens by name, and who had one."""
    fresh: dict[str, str] = {}
    kept: list[str] = []
    for name in names:
        known = project.state.raters.get(name)
        valid = known is not None and known.token_hash and not known.revoked and not has_ended(known.token_hash)
        if valid and not new_links:
            kept.append(name)
            continue
        secret = new_token()
        role = known.role if known is not None else "rater"
        by = _an_organiser(project.state) or ORGANISER
        project.add_rater(name, role, token_hash=token_hash(secret, days), by=by)  # type: ignore[arg-type]
        fresh[name] = secret
    return fresh, kept
