"""``python -m warpgauge COMMAND``: the command line where its script is not on the path."""

from warpgauge.cli import main

main()
