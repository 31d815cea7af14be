"""Commands that keep an installation and its projects in order: verify, recover, relink, copy."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.arguments import FOLDER, ImagePath, project_argument
from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.io.stores import Place


@click.command(epilog="\b\nExample:\n  warpgauge verify lesion")
@project_argument
@json_option
def verify(project: Path, as_json: bool) -> None:
    """Check that a PROJECT is intact.

    Checks the hashes of images and transforms, the log's file and its chain of digests, and that the log can be
    replayed, and that it ends where your state folder says (XDG_STATE_HOME). Lines "not checked" name what could not be
    checked here. Nothing is repaired. The exit code is 1 if there is a problem.
    """
    from warpgauge.project.integrity import verify_project

    report = verify_project(project)
    if as_json:
        print_json({"ok": report.ok, **{name: list(told) for name, told in vars(report).items()}})
    else:
        for line in report.checked:
            click.echo(f"ok       {line}")
        for line in report.unchecked:
            click.echo(f"not checked  {line}")
        for line in report.problems:
            click.echo(f"PROBLEM  {line}")
        click.echo("The project is intact." if report.ok else f"Found {counted(len(report.problems), 'problem')}.")
    if not report.ok:
        raise click.exceptions.Exit(1)


@click.command(
    epilog="""\b
Examples:
  warpgauge recover lesion --mirror /backup/warpgauge
  warpgauge recover lesion --accept-loss"""
)
@project_argument
@click.option("--mirror", type=FOLDER, help="Folder of the mirror.")
@click.option("--accept-loss", is_flag=True, help="Continue although acknowledged events are lost.")
@json_option
def recover(project: Path, mirror: Path | None, accept_loss: bool, as_json: bool) -> None:
    """Rebuild a damaged annotation log of PROJECT.

    The new log is made from what can be read of the old one and from a mirror (see annotate --mirror). Stop the server
    first. The old log is kept beside the new one. If saved events are in neither, nothing is changed unless you accept
    the loss. A log in a database gets the events that it lacks; an empty database gets all of them. Repeat this with
    the mirror of every host.
    """
    from warpgauge.project.integrity import recover_project

    done = recover_project(project, mirror, accept_loss=accept_loss)
    if as_json:
        print_json(vars(done))
    elif not done.kept and not done.from_mirror:
        click.echo(f"The log is intact: {counted(done.events, 'event')}; nothing was changed.")
    elif done.database:
        click.echo(
            f"The database {done.database} now holds {counted(done.events, 'event')}: {done.from_log} were there, "
            f"{done.from_mirror} came from the mirror."
        )
    else:
        lost = f"; lost: {counted(done.lost, 'acknowledged event')}" if done.lost else "; no acknowledged event is lost"
        click.echo(
            f"The log was rebuilt with {counted(done.events, 'event')} ({done.from_log} from the log, "
            f"{done.from_mirror} from the mirror){lost}. The old log is kept as {done.kept}."
        )


_IMAGE = ImagePath()


@click.command(
    epilog="""\b
Examples:
  warpgauge relink lesion --moving /new/place/ki67.png
  warpgauge relink lesion --fixed he.tif --moving ki67.tif --accept-changed"""
)
@project_argument
@click.option("--fixed", type=_IMAGE, help="Where the fixed image is now.")
@click.option("--moving", type=_IMAGE, help="Where the moving image is now.")
@click.option("--fixed-mask", type=_IMAGE, help="Where the fixed image's mask is now.")
@click.option("--moving-mask", type=_IMAGE, help="Where the moving image's mask is now.")
@click.option(
    "--accept-changed", is_flag=True, help="Accept a file with different content; its frame must be the same."
)
@json_option
def relink(project: Path, accept_changed: bool, as_json: bool, **images: Place | None) -> None:
    """Update the paths of moved or renamed images.

    The log of PROJECT records the change.
    """
    from warpgauge.project import Project

    if not any(images.values()):
        raise InvalidInputError("relink needs at least one of --fixed, --moving, --fixed-mask and --moving-mask.")
    with Project.open(project, check_images=False) as opened:
        opened.relink(accept_changed=accept_changed, **images)  # type: ignore[arg-type]  # options of that name only
        facts = {role: record.path for role, record in opened.document.images.items()}
        problems = opened.image_problems()
    print_json({"images": facts, "problems": problems}) if as_json else print_facts(facts)
    for problem in problems:
        click.echo(f"note: {problem}", err=True)


@click.command(
    epilog="""\b
Examples:
  warpgauge copy lesion postgresql://warpgauge@db.example.org/studies
  warpgauge copy lesion sqlite"""
)
@project_argument
@click.argument("target")
@json_option
def copy(project: Path, target: str, as_json: bool) -> None:
    """Move the annotation log to PostgreSQL, or back.

    Copies the log of PROJECT to TARGET, which is used from then on. TARGET is the address of a PostgreSQL database, for
    servers on several hosts, or "sqlite" for a file in the project's folder. Every event is copied unchanged, and
    project.json then names the database. The old log is kept but accepts no more events. A password is never stored:
    set PGPASSWORD, use a passfile (~/.pgpass), or put the whole address into WARPGAUGE_DATABASE. Needs the extra
    "postgres".
    """
    from warpgauge.project.log_copy import copy_log

    done = copy_log(project, target)
    if as_json:
        print_json(vars(done))
        return
    copied = f"{counted(done.events, 'event')} {'was' if done.events == 1 else 'were'} copied"
    click.echo(f"{copied} from {done.source} to {done.target}, which is used from now on.")
    click.echo(f"The old log is kept as {done.kept}.")
