"""Scores of generated questions beside their references: BLEU-1 to 4 and ROUGE-L of words, 0 to 100."""

from collections.abc import Sequence
from functools import cache

from sacrebleu.metrics.bleu import BLEU

Words = Sequence[str]
ORDERS = (1, 2, 3, 4)
RECALL_WEIGHT = 1.2  # β of ROUGE-L's F, as in the COCO caption scores that question generation reports


@cache
def _bleu(order: int) -> BLEU:
    return BLEU(tokenize="none", smooth_method="none", force=True, max_ngram_order=order)


def bleu(outputs: Sequence[Words], references: Sequence[Sequence[Words]]) -> dict[str, float]:
    """BLEU-1 … BLEU-4 of the corpus; each output has one reference or more."""
    lines = [" ".join(words) for words in outputs]
    most = max(len(right) for right in references)
    columns = [[" ".join(right[n]) if n < len(right) else None for right in references] for n in range(most)]
    return {f"bleu{order}": float(_bleu(order).corpus_score(lines, columns).score) for order in ORDERS}  # type: ignore[arg-type]


def signature() -> str:
    _bleu(4).corpus_score(["a"], [["a"]])  # a signature is complete once something was scored
    return str(_bleu(4).get_signature())


def rouge_l(outputs: Sequence[Words], references: Sequence[Sequence[Words]]) -> float:
    """The mean over outputs of the F of the longest common subsequence, by the best precision and the best recall."""
    return 100 * sum(_rouge(words, right) for words, right in zip(outputs, references, strict=True)) / len(outputs)


def _rouge(output: Words, references: Sequence[Words]) -> float:
    common = [longest_common(output, right) for right in references]
    precision = max(common) / max(1, len(output))
    recall = max(length / max(1, len(right)) for length, right in zip(common, references, strict=True))
    if not precision or not recall:
        return 0.0
    weight = RECALL_WEIGHT**2
    return (1 + weight) * precision * recall / (recall + weight * precision)


def longest_common(left: Words, right: Words) -> int:
    """Length of the longest sequence that both hold in this order."""
    row = [0] * (len(right) + 1)
    for word in left:
        before = 0
        for place, other in enumerate(right, 1):
            kept = row[place]
            row[place] = before + 1 if word == other else max(kept, row[place - 1])
            before = kept
    return row[-1]
