"""Where do two files stop being translations of each other?"""

import numpy as np


def first_suspicious(source: np.ndarray, target: np.ndarray) -> int:
    """The line, from 1, from which the sides fit better aligned at their ends than at their starts.

    Given the lines' lengths, and that one side misses (or has too many) lines in one place: up to there
    line i belongs to line i, from there on the ends of the files belong together. The best place makes
    the ratios of lengths smallest over both stretches.
    """
    shorter, longer = sorted((np.log1p(source), np.log1p(target)), key=len)
    shift = len(longer) - len(shorter)
    if not len(shorter):
        return 1
    scale = np.median(longer) - np.median(shorter)
    from_start = np.abs(longer[: len(shorter)] - shorter - scale)
    from_end = np.abs(longer[shift:] - shorter - scale)
    upto = np.concatenate([[0.0], np.cumsum(from_start)])
    onward = np.concatenate([np.cumsum(from_end[::-1])[::-1], [0.0]])
    return int(np.argmin(upto + onward)) + 1
