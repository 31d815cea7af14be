"""No secret field of a record reaches a rater: by the models of the wire, and by what a server answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import BaseModel

from warpgauge.project import Ask, Place, Project
from warpgauge.project.values import secrets_of
from warpgauge.session.control_questions import add_controls
from warpgauge.web import answering, reviewing
from web.server_tools import answer, make_flat, served

SECRETS = secrets_of(Ask) | secrets_of(Place)
# What a rater may ask for, with the model of each answer; the organiser's are not among them, nor the project's, which
# says where the images have their origin.
FOR_RATERS: dict[str, type[BaseModel]] = {
    "/api/query": answering.QueryAnswer,
    "/api/query/0": answering.QueryAnswer,
    "/api/previous": answering.QueryAnswer,
    "/api/list": reviewing.ListAnswer,
    "/api/progress": reviewing.ProgressAnswer,
}
WRITTEN = (
    answering.WriteAnswer,
    answering.ConfirmAnswer,
    answering.ConflictAnswer,
)


def fields_of(model: type[BaseModel]) -> Iterator[str]:
    """All field names of a model and of the models in it."""
    for name, one in model.model_fields.items():
        yield name
        waiting = [one.annotation]
        while waiting:
            part = waiting.pop()
            waiting += get_args(part)
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from fields_of(part)


def keys_of(answer: Any) -> Iterator[str]:
    """All keys of a JSON answer."""
    if isinstance(answer, dict):
        yield from answer
        for value in answer.values():
            yield from keys_of(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from keys_of(value)


def test_the_secrets_are_marked() -> None:
    """What tells a check question from a suggestion, and how far a placement is from a hidden prediction."""
    assert {"origin", "same_as", "audit", "known", "doubt"} == SECRETS


@pytest.mark.parametrize("model", [*FOR_RATERS.values(), *WRITTEN], ids=lambda model: model.__name__)
def test_no_model_for_raters_has_a_secret_field(model: type[BaseModel]) -> None:
    assert SECRETS.isdisjoint(fields_of(model))


def test_a_rater_is_sent_no_secret(tmp_path: Path) -> None:
    """Repeats, controls and audit questions among suggestions, predictions hidden: nothing in any answer names one."""
    folder = make_flat(
        tmp_path / "p",
        repeat_fraction=0.3,
        repeat_lag=1,
        audit=0.2,
        audit_seed=2,
        hide_prediction=True,
        refit="never",
    )
    with Project.open(folder) as project:
        pairs = np.array([[30.0, 40.0], [60.0, 80.0], [90.0, 120.0]])
        add_controls(project, pairs, pairs + 2.0, "organiser")
    with served(folder, raters="ada") as server:
        ada = server.client("ada")
        sent = []
        for step in range(24):
            query = ada.get("/api/query").json()
            reply = answer(ada, query, [-60.0, 10.0] if step == 8 else query["location"])
            sent.append(reply.json())
            if reply.status_code == 409:
                sent.append(answer(ada, query, [-60.0, 10.0], confirmed=True).json())
        sent += [ada.get(path).json() for path in FOR_RATERS]
        with Project.open(folder) as project:
            origins = {query.origin for query in project.state.queries}
    assert {"suggested", "repeat", "audit", "control"} <= origins, "the list has every kind of question"
    assert SECRETS.isdisjoint(keys_of(sent))
    words = {value for told in sent for value in _texts(told)}
    assert not any(word in ("repeat", "audit", "control") for word in words)


def _texts(told: Any) -> Iterator[str]:
    if isinstance(told, str):
        yield told
    for value in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from _texts(value)
