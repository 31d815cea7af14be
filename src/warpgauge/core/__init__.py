"""The mathematics of the paper: numbers only, no image, file, web or command line.

The public names of the package, beside those that ``warpgauge`` itself has, are loaded when they are first used: a
command that needs one part need not wait for the compiler of the others. Modules inside warpgauge import each other
directly.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpgauge.core.error_scores import win_probabilities
    from warpgauge.core.process import Posterior
    from warpgauge.core.slips import Screening, screen

_HOMES = {
    "error_scores": "win_probabilities",
    "process": "Posterior",
    "slips": "Screening screen",
}
_HOME_OF = {name: f"warpgauge.core.{module}" for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Posterior",
    "Screening",
    "screen",
    "win_probabilities",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value
