"""Everything that is chosen by name. A new variant is one file and one line here."""

from importlib import import_module
from typing import Any

from pag.errors import RecipeError, nearest

ATTENTIONS = {
    "baseline": "pag.attention.baseline:BaselineAttention",
    "pag": "pag.attention.pag:PlanningAttention",
    "rpag": "pag.attention.rpag:RepeatAttention",
}
READOUTS = {
    "deep": "pag.readout:DeepOutput",
}
TASKS = {
    "euler": "pag.tasks.euler:EulerTask",
    "numbers": "pag.tasks.numbers:NumbersTask",
    "translation": "pag.tasks.translation:TranslationTask",
}


def find(registry: dict[str, str], name: str, kind: str) -> Any:
    """The class registered under `name`, imported only now."""
    if name not in registry:
        raise RecipeError(f"unknown {kind} '{name}'{nearest(name, registry)}")
    module, _, attribute = registry[name].partition(":")
    return getattr(import_module(module), attribute)
