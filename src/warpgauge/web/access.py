"""The person behind a request, as a dependency of the routes, and the rights of each role."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from warpgauge.project import NotAllowedError
from warpgauge.web.tokens import Person


async def _asking(request: Request) -> Person:
    person = request.state.person
    assert isinstance(person, Person)
    return person


async def _writing(request: Request) -> Person:
    person = await _asking(request)
    if not person.writes:
        raise NotAllowedError(f"{person.name} may look at this project but not change it.")
    return person


async def _organising(request: Request) -> Person:
    person = await _asking(request)
    if not person.organises:
        raise NotAllowedError(f"{person.name} is not an organiser of this project; ask the organiser.")
    return person


Asking = Annotated[Person, Depends(_asking)]
"""Anybody with a token."""
Writing = Annotated[Person, Depends(_writing)]
"""A rater or an organiser."""
Organising = Annotated[Person, Depends(_organising)]
"""An organiser."""
