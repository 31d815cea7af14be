"""``warpgauge check-submission``: what a participant runs before submitting, and a site at arrival."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.arguments import FILE, FOLDER
from warpgauge.cli.output import json_option, print_json
from warpgauge.display import counted


@click.command(
    "check-submission",
    epilog="""\b
Examples:
  warpgauge check-submission study.toml submissions/team
  warpgauge check-submission study.toml my-results --json""",
)
@click.argument("study", type=FILE)
@click.argument("submission", type=FOLDER)
@json_option
def check_submission(study: Path, submission: Path, as_json: bool) -> int:
    """Check the files of one submission before they are scored.

    Looks at names, number of files, finite values, the covered part of the image, units and frames (how far targets
    move, and whether they stay in the moving image) and folding. STUDY describes the pairs, and its methods the layout
    of a submission; landmarks are not needed. SUBMISSION is the folder of one team. Ends with code 1 if anything would
    count as missing or be misread.
    """
    from warpgauge.study import check_submission as check

    found = check(study, submission)
    if as_json:
        print_json(found.to_dict())
        return 0 if found.fit else 1
    for one in found.problems:
        click.echo(f"{'problem' if one.serious else 'note'}: {one.sentence}")
    serious = sum(one.serious for one in found.problems)
    result = "all can be scored" if found.fit else f"{counted(serious, 'problem')} to mend before it is submitted"
    click.echo(f"{counted(len(found.pairs), 'pair')} checked: {result}.")
    return 0 if found.fit else 1
