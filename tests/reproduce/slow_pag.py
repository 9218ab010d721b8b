"""Stands in for `pag`: fails at once for k = 3, and takes its time for any other."""

import sys
import time
from pathlib import Path

if "attention.k=3" in sys.argv:
    sys.exit("error: this one cannot be trained")
(Path(sys.argv[sys.argv.index("--out") + 1]) / "began").touch()
time.sleep(60)
