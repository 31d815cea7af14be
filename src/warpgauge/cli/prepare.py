"""``warpgauge prepare``: compile the inner loops now."""

from __future__ import annotations

import time

import click


@click.command(epilog="\b\nExample:\n  warpgauge prepare")
def prepare() -> None:
    """Compile the inner loops now, once per installation, so that no later command waits for it.

    Without it, the first command that needs a loop compiles it, which takes some seconds, and keeps it on disk.
    """
    import numpy as np

    from warpgauge.core.annotations import Annotations
    from warpgauge.core.kernels import KernelBundle
    from warpgauge.core.process import TransformationPrior
    from warpgauge.core.warm_up import compile_loops
    from warpgauge.maps.exceedance import exceedance_probability

    start = time.perf_counter()
    compile_loops()
    point = np.zeros((1, 2))
    annotations = Annotations(point, point, np.diag([1.0, 2.0])[None])
    posterior = TransformationPrior(KernelBundle("wendland", [1.0], [1.0])).condition(annotations)
    exceedance_probability(posterior, point, point, 1.0)
    click.echo(f"The inner loops are compiled and on disk ({time.perf_counter() - start:.1f} s).")
