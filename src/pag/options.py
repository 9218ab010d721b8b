"""Options that several commands share."""

from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Beam width; default: the recipe's.")]
Split = Annotated[str, typer.Option(help="train, valid, test, or a further set of prepared data.")]
