"""``warpgauge annotate``: the page for the experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import FILE, NEW_FOLDER, project_argument
from warpgauge.cli.new import audit_settings, seal_option
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import read_text

_SERVER_OPTIONS = (
    click.option("--port", type=int, default=0, help="Port; a free one by default."),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address; any but 127.0.0.1 needs --raters."),
    click.option("--rater", help="Your name in the log; organiser by default."),
    click.option("--raters", help="Names of raters, separated by commas; each gets a personal link."),
    click.option(
        "--new-links",
        is_flag=True,
        help="Make new links for the named raters and yourself; the old ones expire at once.",
    ),
    click.option("--certfile", type=FILE, help="Certificate with its chain, in PEM format; the server then uses TLS."),
    click.option("--keyfile", type=FILE, help="Private key of the certificate, if it is in a separate file."),
    click.option(
        "--public-url", help="Address at which a proxy serves the page, such as https://annotate.example.org/lesion."
    ),
    click.option("--mirror", type=NEW_FOLDER, help="Folder for a second copy of the log."),
    click.option("--token-file", type=FILE, help="File with the secret of your own link, the same on several hosts."),
    click.option("--no-browser", is_flag=True, help="Do not open a browser."),
    click.option(
        "--no-links",
        "show_links",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Do not print links: their secrets would stay in the log of a container.",
    ),
)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a server: address, people, certificate and proxy."""
    for option in reversed(_SERVER_OPTIONS):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  warpgauge annotate lesion
  warpgauge annotate lesion --raters ann,bob
  warpgauge annotate lesion --host 0.0.0.0 --port 8765 --raters ann,bob --no-browser --certfile site.pem
  warpgauge annotate lesion --mirror /backup/warpgauge
  warpgauge annotate lesion --context fixed=CD31.tif --context moving=tumour-mask.png
  warpgauge annotate lesion --raters ann,bob --controls known.csv"""
)
@project_argument
@server_options
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="SIDE=FILE",
    help="Further image of the same frame to look at, such as fixed=CD31.tif: a stain, a channel, a segmentation.",
)
@click.option(
    "--controls",
    type=FILE,
    help="Landmark file with known matches: one question in 8 is one of these, and raters cannot tell which.",
)
@click.option("--audit", type=float, help="From now on, share of the questions drawn at random; see warpgauge new.")
@seal_option("From now on: ")
def annotate(
    project: Path,
    raters: str | None,
    no_browser: bool,
    audit: float | None,
    seal: bool | None,
    controls: Path | None,
    token_file: Path | None,
    **options: Any,
) -> None:
    """Annotate PROJECT in the browser.

    Starts a server for the annotator's page and opens the page. With --mirror, every answer is also written to another
    folder before it is acknowledged; see warpgauge recover. Ctrl-C stops the server with exit code 0, and nothing is
    lost. /healthz and /readyz report whether the server runs and whether the log can be read and written. Needs the
    extra "web".
    """
    with suppress(KeyboardInterrupt):  # one that comes while the project is being opened
        from warpgauge.web import serve

        changes = audit_settings(audit, seal)
        if changes:
            _set_audit(project, changes, options["rater"])
        if controls is not None:
            click.echo(_add_controls(project, controls, options["rater"]))
        people = people_of(raters, token_file)
        serve(project, **people, open_browser=not no_browser, echo=click.echo, **options)


def people_of(raters: str | None, token_file: Path | None) -> dict[str, Any]:
    """Return the raters and the secret of a server, as its settings take them."""
    names = [name.strip() for name in (raters or "").split(",") if name.strip()]
    token = None if token_file is None else read_text(token_file, "token file", 1000).strip()
    return {"raters": tuple(names), "token": token}


def _add_controls(project: Path, file: Path, rater: str | None) -> str:
    """Add the pairs of a file as control questions, and return what to say about it."""
    from warpgauge.io.landmarks import read_landmarks
    from warpgauge.project import ORGANISER, Project
    from warpgauge.session.control_questions import EVERY, add_controls

    with Project.open(project) as opened:
        found = read_landmarks(file, fixed_grid=opened.fixed_grid, moving_grid=opened.moving_grid)
        if found.moving_points is None:
            raise InvalidInputError(
                f"{file.name!r} has points of one image only; controls are pairs with known matches."
            )
        add_controls(opened, found.fixed_points, found.moving_points, rater or ORGANISER)
    return f"{len(found)} control questions: one question in {EVERY} is one of them."


def _set_audit(project: Path, changes: Mapping[str, Any], rater: str | None) -> None:
    """Change the project's settings of the audit."""
    from warpgauge.project import ORGANISER, Project

    with Project.open(project) as opened:
        opened.change_settings(rater or ORGANISER, **changes)
