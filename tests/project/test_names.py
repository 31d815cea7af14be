"""Names of new raters and transforms: visible, of one script, and not to be taken for another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project.tools import place, query
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project

Make = Callable[..., Project]


@pytest.mark.parametrize(
    "name", ["ada\u202e", "a\u200bda", "\ufeffada", "ad\u0430m", "a\u2066b", "ada\u00ad", "\u03bfrg\u0061"]
)
def test_deceptive_names_are_refused(make_project: Make, name: str):
    """Characters that turn the direction, have no width or mix scripts are refused wherever a name enters."""
    with make_project() as project:
        with pytest.raises(InvalidInputError):
            project.add_rater(name)
        project.append(query(0))
        with pytest.raises(InvalidInputError):
            project.append(place(0, rater=name))
        assert project.state.generation == 1


@pytest.mark.parametrize(("first", "second"), [("ada", "Ada"), ("paul", "раu1"), ("ann", "аnn"), ("bill", "bi11")])
def test_names_that_look_like_a_known_one(make_project: Make, first: str, second: str):
    """A name that looks like one in use is refused, the same name is not."""
    with make_project() as project:
        project.add_rater(first)
        project.add_rater(first, "organiser")
        with pytest.raises(InvalidInputError, match=r"looks|look alike"):
            project.add_rater(second)


@pytest.mark.parametrize("name", ["ада", "Ωmega-less", "山田太郎", "Zoë", "O'Brien", "محمد", "rater 2", "José María"])
def test_honest_names_pass(make_project: Make, name: str):
    """Names in any one script are fine."""
    with make_project() as project:
        if name == "Ωmega-less":
            with pytest.raises(InvalidInputError):
                project.add_rater(name)
        else:
            project.add_rater(name)
            project.add_rater("rater 3")
