"""A trained model to hand on: small weights, a model card, and outputs that tell whether it still works."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pag.checkpoint import (
    CONFIG,
    WEIGHTS,
    Checkpoint,
    check_free,
    locate,
    model_files,
    to_json,
    write_atomically,
    write_folder,
)
from pag.config import Recipe
from pag.errors import DataError, InputError
from pag.generator import EXAMPLES, Generator, read_examples
from pag.squeeze import KINDS, restore, squeeze

CARD = "README.md"
CLOSE = 1e-3  # log-probabilities this near are the same: other versions and machines round otherwise


@dataclass(frozen=True)
class Card:
    """What a reader should know that the weights do not say."""

    about: str = ""  # markdown: the data, what the model is good for, and its limits
    licence: str = ""
    scores: Mapping[str, Any] | None = None  # as `pag evaluate --json` printed them


def export(
    run: str | Path, out: Path, kind: str = "float16", card: Card | None = None, inputs: Sequence[str] = ()
) -> Path:
    """Write the best model of a run as a folder that `pag.load` reads; `inputs` become its stored examples."""
    if kind not in KINDS:
        raise InputError(f"--weights must be one of {', '.join(KINDS)}, not {kind}")
    check_free(out)
    checkpoint = Checkpoint(locate(run))
    weights = squeeze(restore(checkpoint.tensors(WEIGHTS)), kind)
    facts = {key: value for key, value in checkpoint.config.items() if key not in ("format", "recipe")}
    write_folder(out, model_files(public(checkpoint.recipe), checkpoint.task(), weights, {**facts, "weights": kind}))
    model = Generator.load(out, "cpu")
    examples = outputs_of(model, inputs or own_inputs(model))
    write_atomically(out / EXAMPLES, to_json(examples))
    write_atomically(out / CARD, write_card(out, model, card or Card(), examples).encode())
    return out


def read_scores(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no scores: `pag evaluate RUN --json > {path}` writes them")
    return found


def public(recipe: Recipe) -> Recipe:
    """The recipe without where its data lay."""
    data = getattr(recipe.task, "data", None)
    task = recipe.task if data is None else recipe.task.model_copy(update={"data": Path(data).name})
    return recipe.model_copy(update={"task": task})


def own_inputs(model: Generator, number: int = 5) -> Sequence[str]:
    """The first of the test set, where the task makes it or it still lies where it lay; none otherwise."""
    try:
        return model.inputs(number)
    except DataError:  # prepared data is not part of a model
        return []


def outputs_of(model: Generator, inputs: Sequence[str]) -> list[dict[str, Any]]:
    results = model.generate(inputs) if inputs else []
    return [
        {"input": text, "output": result.text, "log_prob": result.outputs[0].log_prob}
        for text, result in zip(inputs, results, strict=True)
        if result.outputs
    ]


def changed(folder: Path) -> list[str]:
    """The stored examples that the model no longer gives, one line each."""
    stored = read_examples(folder)
    now = outputs_of(Generator.load(folder, "cpu"), [example["input"] for example in stored])
    return [
        f"{old['input']}: {old['output']} ({old['log_prob']:.4f}) became {new['output']} ({new['log_prob']:.4f})"
        for old, new in zip(stored, now, strict=True)
        if old["output"] != new["output"] or abs(old["log_prob"] - new["log_prob"]) > CLOSE * max(1, -old["log_prob"])
    ]


def write_card(folder: Path, model: Generator, card: Card, examples: Sequence[Mapping[str, Any]]) -> str:
    """Markdown with the head that model hubs read."""
    recipe, config = model.recipe, json.loads((folder / CONFIG).read_bytes())
    facts = {
        "task": recipe.task.name,
        "attention": f"{recipe.attention.name}, k = {recipe.attention.k}",
        "units": f"encoder {recipe.model.encoder}, decoder {recipe.model.decoder}, embedding {recipe.model.embedding}",
        "parameters": f"{sum(weight.numel() for weight in model.model.parameters()):,}",
        "weights": f"{config['weights']}, {(folder / WEIGHTS).stat().st_size / 1e6:.1f} MB",
        "updates": f"{config.get('update', 'unknown')}",
    }
    head = ["---", "library_name: plan-attend-generate", *([f"license: {card.licence}"] if card.licence else []), "---"]
    parts = ["\n".join(head), f"# {folder.name}", card.about.strip() or recipe.description, _table("model", facts)]
    if card.scores:
        told = {k: v for k, v in card.scores.items() if k != "sentences_per_second"}  # the machine's, not the model's
        parts.append(_table("score", {name: _shown(value) for name, value in told.items()}))
    parts.append(f"## Use\n\n    pag generate {folder.name} < inputs.txt\n    pag serve {folder.name}")
    if examples:
        lines = [f"- `{short(e['input'])}` → `{short(e['output'])}`" for e in examples]
        parts.append("## Examples\n\n" + "\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(value: Any) -> str:
    """A score in four digits; a list of them likewise."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _table(title: str, facts: Mapping[str, str]) -> str:
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return f"| {title} | |\n|---|---|\n{rows}"


def short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
