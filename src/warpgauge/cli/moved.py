"""Commands that went elsewhere: ``warpgauge experiment`` says where the paper's studies are now."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Example, in a clone of the repository:
  warpgauge experiment strategies   is now   python -m paper strategies --data data --out results""",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def experiment(words: tuple[str, ...]) -> None:
    """Show where the paper's studies are now: python -m paper."""
    raise click.ClickException(
        "The paper's studies are no longer installed with warpgauge: run 'python -m paper "
        f"{' '.join(words) or '--help'}' in a clone of its repository."
    )
