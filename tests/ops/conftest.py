"""Without a GPU, Triton kernels run in Triton's interpreter; it must be asked for before they are imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
