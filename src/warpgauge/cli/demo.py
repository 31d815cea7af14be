"""``warpgauge demo``: the whole workflow on a real image that is part of an installed package."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.arguments import NEW
from warpgauge.cli.output import json_option, print_json, print_table, progress


@click.command(
    epilog="""\b
Examples:
  warpgauge demo
  warpgauge demo --dim 3 --out demo-3d"""
)
@click.option("--dim", type=click.Choice(["2", "3"]), default="2", show_default=True, help="2: histology. 3: brain.")
@click.option("--out", type=NEW, default=Path("demo-output"), show_default=True)
@click.option("--queries", type=int, default=40, show_default=True, help="Suggestions that the expert answers.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Random seed of the deformation and of the expert."
)
@click.option("--jobs", type=int, help="Registrations that run in parallel; by default one per core.")
@json_option
def demo(dim: str, out: Path, queries: int, seed: int, jobs: int | None, as_json: bool) -> None:
    """Run a complete example, from images to a ranking.

    Deforms a real image, annotates it by a simulated expert, registers it with several settings, and ranks them. The
    true deformation is known here, so the ranking from 40 uncertain annotations is compared with the true one. Needs no
    server and no download. Running it again clears the output folder.
    """
    from warpgauge.demo.run import run_demo
    from warpgauge.evaluation.columns import PRIMARY

    def say(sentence: str) -> None:
        click.echo(sentence, err=as_json)

    result = run_demo(int(dim), out, queries=queries, seed=seed, jobs=jobs, say=say, bar=progress)
    evaluation, units = result.evaluation, result.pair.grid.units
    if as_json:
        print_json(
            {
                **evaluation.to_dict(),
                "true_rms": result.true_scores,
                "true_ranking": result.true_ranking,
                "error_of_landmark_score": result.landmark_error,
                "error_of_posterior_score": result.posterior_error,
                "trust": result.trust,
                "files": {name: str(path) for name, path in result.files.items()},
                "seconds": result.seconds,
            }
        )
        return
    seconds = {one.name: one.seconds for one in result.registrations}
    rows = []
    for rank, name in enumerate(evaluation.ranking(), 1):
        one = evaluation.scores[name]
        low, high = one.interval[PRIMARY]
        rows.append(
            [
                str(rank),
                name,
                f"{one.score[PRIMARY]:.2f}",
                f"{low:.2f} to {high:.2f}",
                f"{one.probability_best[PRIMARY]:.2f}",
                f"{one.landmark[PRIMARY]:.2f}" if one.landmark[PRIMARY] is not None else "-",
                f"{result.true_scores[name]:.2f}",
                str(1 + result.true_ranking.index(name)),
                f"{seconds[name]:.0f} s" if name in seconds else "-",
            ]
        )
    click.echo()
    columns = ["rank", "registration", "error", "90 % interval", "P(best)", "landmarks", "TRUE", "true rank", "took"]
    print_table(
        columns, rows, f"5. RMS error in {units}, estimated from {result.annotations} annotations, and the true one"
    )
    click.echo(f"\n{evaluation.verdict.whole}")
    click.echo(result.trust)
    click.echo(
        f"Mean distance from the true RMS error: {result.posterior_error:.2f} {units} for the estimate, "
        f"{result.landmark_error:.2f} {units} for the classical landmark error."
    )
    click.echo("\nWritten:")
    for name, path in result.files.items():
        click.echo(f"  {path}  ({name})")
    click.echo(
        f"""
Now with your own images:
  warpgauge new my-project --fixed FIXED --moving MOVING
  warpgauge annotate my-project           (or, from a script: warpgauge suggest, place, skip, import)
  warpgauge add-transform my-project NAME FILE
  warpgauge evaluate my-project
Or look around in the project that was just made: warpgauge info {result.folder / "project"}"""
    )
