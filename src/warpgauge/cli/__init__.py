"""The command line: ``warpgauge COMMAND``, a table for people, ``--json`` for programs."""

from warpgauge.cli.app import app, main

__all__ = ["app", "main"]
