"""``warpgauge annotate``: the page for the experts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from warpgauge.cli.projects import project_argument


@click.command(
    epilog="""\b
Examples:
  warpgauge annotate lesion
  warpgauge annotate lesion --raters ann,bob
  warpgauge annotate lesion --host 0.0.0.0 --port 8765 --raters ann,bob --no-browser"""
)
@project_argument
@click.option("--port", type=int, default=0, help="Port; a free one by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; any but this machine's needs --raters.")
@click.option("--rater", help="Your name in the log; organiser by default.")
@click.option("--raters", help="People who each get a link of their own, separated by commas.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def annotate(project: Path, port: int, host: str, rater: str | None, raters: str | None, no_browser: bool) -> None:
    """Serve the annotator's page of PROJECT and open it in the browser.

    Ctrl-C ends it with exit code 0, and nothing is lost. Needs "warpgauge[web]".
    """
    people = None if raters is None else [name.strip() for name in raters.split(",") if name.strip()]
    with suppress(KeyboardInterrupt):  # one that comes while the project is being opened
        from warpgauge.web import serve

        serve(project, host=host, port=port, rater=rater, raters=people, open_browser=not no_browser, echo=click.echo)
