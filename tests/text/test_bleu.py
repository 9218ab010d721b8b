"""BLEU as multi-bleu.perl computes it: its own numbers, and the published formula written down afresh."""

import math
import random
from collections import Counter

import pytest

from pag.text.bleu import chrf, multi_bleu, sacre_bleu, signatures

WORDS = ["der", "die", "das", "Hund", "Katze", "läuft", "schläft", "im", "Garten", "und", ",", ".", "nicht", "sehr"]


def by_the_formula(outputs: list[str], references: list[str]) -> float:
    """Papineni et al. 2002: clipped n-gram precision to four, geometric mean, brevity penalty; no smoothing."""
    right, made, length, wanted = [0] * 4, [0] * 4, 0, 0
    for output, reference in zip(outputs, references, strict=True):
        ours, theirs = output.split(), reference.split()
        length, wanted = length + len(ours), wanted + len(theirs)
        for n in range(1, 5):
            grams = Counter(tuple(ours[i : i + n]) for i in range(len(ours) - n + 1))
            there = Counter(tuple(theirs[i : i + n]) for i in range(len(theirs) - n + 1))
            made[n - 1] += sum(grams.values())
            right[n - 1] += sum(min(count, there[gram]) for gram, count in grams.items())
    if not all(right):
        return 0.0
    brevity = 1.0 if length >= wanted else math.exp(1 - wanted / length)
    return 100 * brevity * math.exp(sum(math.log(r / m) for r, m in zip(right, made, strict=True)) / 4)


def corpus(seed: int, lines: int = 40) -> tuple[list[str], list[str]]:
    """References, and outputs that have words of them replaced, left out or moved."""
    chance = random.Random(seed)
    references = [" ".join(chance.choices(WORDS, k=chance.randint(3, 25))) for _ in range(lines)]
    outputs = []
    for reference in references:
        words = [w if chance.random() < 0.8 else chance.choice(WORDS) for w in reference.split()]
        outputs.append(" ".join(words[: chance.randint(1, len(words))] if chance.random() < 0.5 else words))
    return outputs, references


# by Moses' script, for the corpora of these seeds
PRINTED = ["41.72", "44.60", "50.97", "40.90", "49.02", "49.76", "40.52", "44.27"]


@pytest.mark.parametrize("seed", range(len(PRINTED)))
def test_tokenised_bleu_is_multi_bleu_to_two_decimals(seed: int) -> None:
    outputs, references = corpus(seed)
    assert f"{multi_bleu(outputs, references):.2f}" == f"{by_the_formula(outputs, references):.2f}" == PRINTED[seed]


def test_a_case_worked_by_hand() -> None:
    """Precisions 4/5, 3/4, 2/3, 1/2; lengths agree."""
    assert multi_bleu(["a b c d e"], ["a b c d f"]) == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_a_short_output_is_penalised() -> None:
    assert multi_bleu(["a b c d"], ["a b c d e"]) == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_no_four_in_a_row_gives_nothing_without_smoothing() -> None:
    assert multi_bleu(["a b c x"], ["a b c d"]) == 0.0 == multi_bleu([""], ["a b c d"])


def test_signatures_name_the_tokenisation_and_the_version() -> None:
    found = signatures()
    assert "tok:none|smooth:none" in found["bleu"]
    assert "tok:13a|smooth:exp" in found["sacrebleu"]
    assert "nc:6" in found["chrf"] and all("version:" in one for one in found.values())


def test_perfect_outputs_score_a_hundred() -> None:
    _, references = corpus(0)
    assert [round(f(references, references), 6) for f in (multi_bleu, sacre_bleu, chrf)] == [100, 100, 100]
