"""Without a GPU, Triton kernels run in Triton's interpreter.

It must be asked for before Triton is imported, and `torch.optim` imports Triton: so what Triton has
already built for a GPU (all but its binary part) is forgotten and imported anew.
"""

import os
import sys

import torch

if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    os.environ["TRITON_INTERPRET"] = "1"
    for name in list(sys.modules):
        if name.split(".")[0] == "triton" and not name.startswith("triton._C"):
            del sys.modules[name]
