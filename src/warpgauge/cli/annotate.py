"""``warpgauge annotate``: the page for the experts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from warpgauge.cli.options import (
    EXISTING,
    FILE,
    NEW_FILE,
    NEW_FOLDER,
    set_option,
    settings_from,
    trust_option,
)
from warpgauge.errors import InvalidInputError


@click.command(
    epilog="""\b
Examples:
  warpgauge annotate lesion
  warpgauge annotate lesion --raters ann,bob
  warpgauge annotate lungs --raters ann,bob,cy      (all projects of a folder)
  warpgauge annotate study.toml --raters ann,bob
  warpgauge annotate lesion --port 8765 --public-url https://example.org
  warpgauge annotate lesion --mirror /backup/warpgauge
  warpgauge annotate lesion --raters ann,bob --controls known.csv"""
)
@trust_option
@click.argument("path", type=EXISTING)
@click.option("--port", type=int, default=0, help="Port; a free one by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; any but 127.0.0.1 needs --public-url.")
@click.option("--rater", help="Your name in the log; organiser by default.")
@click.option("--raters", help="Names of raters, separated by commas; each gets a personal link.")
@click.option("--new-links", is_flag=True, help="Make new links for the named raters and you; the old ones expire.")
@click.option("--certfile", type=FILE, help="Certificate with its chain and key, in PEM format; the server uses TLS.")
@click.option("--public-url", help="Address at which people reach it, as https://annotate.example.org/lesion.")
@click.option("--mirror", type=NEW_FOLDER, help="Folder for a second copy of the log.")
@click.option("--controls", type=FILE, help="Known matches: one question in 8 is one of these, unknown to the raters.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option(
    "--links-file", type=NEW_FILE, help="Write the links, with their secrets, to this file: do not print them."
)
@set_option
def annotate(
    path: Path,
    port: int,
    host: str,
    rater: str | None,
    raters: str | None,
    new_links: bool,
    certfile: Path | None,
    public_url: str | None,
    mirror: Path | None,
    controls: Path | None,
    no_browser: bool,
    links_file: Path | None,
    pairs: tuple[str, ...],
) -> None:
    """Annotate in the browser: a project, the projects of a folder, or those of a study.

    Starts a server for the annotators' page and opens the page. With --mirror, every answer is also written to another
    folder before it is acknowledged; see warpgauge verify --mend. Ctrl-C stops the server with exit code 0, and nothing
    is lost. /healthz and /readyz report whether the server runs and whether the log can be read and written.

    Everybody signs in once by a personal link. Of a folder or a study, raters see the pairs that are assigned to them.
    Projects are found up to three folders deep, also while the server runs; one that cannot be opened is named, and the
    others go on. People and assignments are kept in PATH/people.json. Needs the extra "web".
    """
    if not (path / "project.json").is_file() and (controls is not None or pairs):
        raise click.UsageError(f"--controls and --set belong to one project, and {str(path)!r} is none.")
    with suppress(KeyboardInterrupt):  # one that comes while the project is being opened
        from warpgauge.web import serve

        if pairs:
            _change_settings(path, settings_from(pairs), rater)
        if controls is not None:
            click.echo(_add_controls(path, controls, rater))
        serve(
            path,
            port=port,
            host=host,
            rater=rater,
            raters=[name for name in (raters or "").split(",") if name.strip()],
            new_links=new_links,
            certfile=certfile,
            public_url=public_url,
            mirror=mirror,
            links_file=links_file,
            open_browser=not no_browser,
            echo=click.echo,
        )


def _change_settings(project: Path, changes: dict[str, Any], rater: str | None) -> None:
    from warpgauge.project import ORGANISER, Project

    with Project.open(project) as opened:
        opened.change_settings(rater or ORGANISER, **changes)


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
