"""`python -m pag.bench`: the same as `pag bench`."""

import sys

from pag.cli import main

sys.argv.insert(1, "bench")
main()
