"""Names of raters and transforms: what can be stored and shown, and what people can distinguish.

Whether a new name can be taken for a known one is asked of new events only.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import text_problem

LARGEST_NAME = 100
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


def checked_name(name: object, what: str = "The name of a rater") -> str:
    """Refuse a name that could not be shown, stored or distinguished."""
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > LARGEST_NAME:
        raise InvalidInputError(
            f"{what} must be 1 to {LARGEST_NAME} characters without blanks at the ends, got {name!r}."
        )
    if "\n" in name or "\t" in name or text_problem(name):
        raise InvalidInputError(f"{what} {text_problem(name) or 'has a line break or tab'}; use plain characters.")
    return name


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
