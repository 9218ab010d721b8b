"""Translation scores: BLEU on tokens as `multi-bleu.perl` computes it, sacreBLEU and chrF on plain text."""

from collections.abc import Sequence
from functools import cache

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@cache
def _tokenised() -> BLEU:
    """multi-bleu splits at blanks, does not smooth, and gives 0 where an n-gram order has no match."""
    return BLEU(tokenize="none", smooth_method="none", force=True)


@cache
def _plain() -> BLEU:
    return BLEU()


@cache
def _characters() -> CHRF:
    return CHRF()


def multi_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Of tokenised text, 0 to 100."""
    return float(_tokenised().corpus_score(list(outputs), [list(references)]).score)


def sacre_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Of plain text, 0 to 100."""
    return float(_plain().corpus_score(list(outputs), [list(references)]).score)


def chrf(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Of plain text, 0 to 100."""
    return float(_characters().corpus_score(list(outputs), [list(references)]).score)


def signatures() -> dict[str, str]:
    """What a number needs beside it to be compared: metric → sacreBLEU's signature."""
    for metric in (_tokenised(), _plain(), _characters()):
        metric.corpus_score(["a"], [["a"]])  # a signature is complete once something was scored
    return {
        "bleu": str(_tokenised().get_signature()),
        "sacrebleu": str(_plain().get_signature()),
        "chrf": str(_characters().get_signature()),
    }
