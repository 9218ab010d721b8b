"""`python -m pag.bench`: the command without the rest of the command line."""

import typer

from pag.bench.command import bench

typer.run(bench)
