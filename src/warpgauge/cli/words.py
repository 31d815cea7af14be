"""Messages of the library in the words of the command line: ``match='name'`` becomes ``--match name``."""

from __future__ import annotations

import re
from collections.abc import Collection

# Arguments of the library that messages name, and the options that stand for them, the likelier first.
OPTIONS: dict[str, tuple[str, ...]] = {
    "accept_changed": ("--accept-changed",),
    "components": ("--components",),
    "convention": ("--convention",),
    "dimension": ("--dimension",),
    "direction": ("--direction",),
    "fixed_grid": ("--fixed-image",),
    "format": ("--format", "--from"),
    "frame": ("--frame",),
    "fresh": ("--fresh",),
    "grid": ("--reference", "--fixed-image"),
    "layout": ("--layout",),
    "lossy": ("--lossy",),
    "match": ("--match",),
    "moving": ("--moving-image",),
    "moving_grid": ("--moving-image",),
    "reference": ("--reference",),
    "replace": ("--replace",),
    "scale": ("--scale",),
    "spacing": ("--spacing",),
    "units": ("--units",),
}
_VALUE = r"=(?:'(?P<value>[^']*)'|(?P<number>-?\d+(?:\.\d+)?)(?![\d.]*\w)|True|\.\.\.|(?=[\s,;.)]|$))"
_ARGUMENT = re.compile(rf"(?<![\w.-])(?P<name>{'|'.join(OPTIONS)}){_VALUE}")
_RELINK = re.compile(r"relink\((\w+)=PATH(?P<changed>, accept_changed=True)?\)")


def in_options(message: str, available: Collection[str] = ()) -> str:
    """Return a message with Python arguments written as options of the command line.

    Parameters
    ----------
    message : str
    available : collection of str
        The options of the command at hand; among several that could stand for an argument, the one it has is named.
    """

    def option(found: re.Match[str]) -> str:
        choices = OPTIONS[found["name"]]
        chosen = next((one for one in choices if one in available), choices[0])
        given = found["value"] if found["value"] is not None else found["number"]
        return chosen if given is None else f"{chosen} {given}"

    def command(found: re.Match[str]) -> str:
        accept = " --accept-changed" if found["changed"] else ""
        return f"warpgauge relink PROJECT --{found[1].replace('_', '-')} PATH{accept}"

    return _ARGUMENT.sub(option, _RELINK.sub(command, message))
