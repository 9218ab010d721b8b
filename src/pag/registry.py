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
    "pointer": "pag.readout:PointerSoftmax",
}
ANSWERS = {
    "mean": "pag.answer:MeanAnnotation",
    "encoder": "pag.answer:AnswerEncoder",
}
TASKS = {
    "euler": "pag.tasks.euler:EulerTask",
    "facts": "pag.tasks.facts:FactsTask",
    "numbers": "pag.tasks.numbers:NumbersTask",
    "questions": "pag.tasks.questions:QuestionsTask",
    "translation": "pag.tasks.translation:TranslationTask",
}


def find(registry: dict[str, str], name: str, kind: str) -> Any:
    """The class registered under `name`, imported only now."""
    if name not in registry:
        raise RecipeError(f"unknown {kind} '{name}'{nearest(name, registry)}")
    module, _, attribute = registry[name].partition(":")
    return getattr(import_module(module), attribute)
