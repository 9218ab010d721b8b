"""Chance as a function of where we are: every draw follows from a seed and some whole numbers.

Nothing random hides in a generator that lives on, so a resumed run draws what the uninterrupted one would.
"""

import numpy as np
import torch
from torch import Tensor

from pag.attention.commitment import gumbel


def seed_of(*numbers: int) -> int:
    """One well-mixed 63-bit seed from several whole numbers."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def commitment_noise(rows: int, steps: int, k: int, device: torch.device, *where: int) -> Tensor:
    """Gumbel noise [rows, steps, k] for the commitments of one batch."""
    generator = torch.Generator(device).manual_seed(seed_of(*where))
    return gumbel(torch.rand(rows, steps, k, generator=generator, device=device))
