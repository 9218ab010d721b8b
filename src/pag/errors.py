"""What a user can cause. Each prints as one line and ends the command with exit code 2."""

from collections.abc import Iterable
from difflib import get_close_matches


class PagError(Exception):
    """Something the user can put right; the message says what, where, and what would be right."""


class RecipeError(PagError):
    """A recipe or an override that does not fit."""


class DataError(PagError):
    """Training or test data that cannot be used."""


class CheckpointError(PagError):
    """A run or checkpoint folder that is missing, damaged, or made by another recipe."""


class InputError(PagError):
    """One input that the model cannot take."""


class RunError(PagError):
    """A run that cannot start or go on: folder in use, disk full, loss not finite."""


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'k'?)` when something known is close, else the list of what is known."""
    known = sorted(known)
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return " (did you mean " + " or ".join(f"'{match}'" for match in close) + "?)"
    return f" (known: {', '.join(known)})"
