"""``warpgauge serve``: the pages of many projects on one server."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from warpgauge.cli.annotate import people_of, server_options
from warpgauge.cli.arguments import EXISTING


@click.command(
    epilog="""\b
Examples:
  warpgauge serve lungs --raters ann,bob,cy
  warpgauge serve study.toml --raters ann,bob
  warpgauge serve lungs --host 0.0.0.0 --port 8765 --raters ann,bob --no-browser --certfile site.pem
  warpgauge serve lungs --most-open 200 --mirror /backup/warpgauge"""
)
@click.argument("folder", type=EXISTING)
@server_options
@click.option(
    "--most-open",
    type=int,
    default=100,
    show_default=True,
    help="Number of projects that are kept open; the one used least recently makes room.",
)
def serve(folder: Path, raters: str | None, no_browser: bool, token_file: Path | None, **options: Any) -> None:
    """Annotate the projects of FOLDER, or of a study file, on one server.

    Everybody signs in once and sees the pairs that are assigned to them, with what is left in each. The organiser
    assigns pairs, evenly or one by one, sees progress, disagreement and certificates over all pairs, and exports
    everything in one archive. Projects are found up to three folders deep, also while the server runs; each is opened
    when somebody asks for it and closed when nobody has for 15 minutes. One that cannot be opened is named in the
    table, and the others go on. People and assignments are kept in FOLDER/people.jsonl. Needs the extra "web".
    """
    with suppress(KeyboardInterrupt):
        from warpgauge.web import serve_many

        serve_many(folder, **people_of(raters, token_file), open_browser=not no_browser, echo=click.echo, **options)
