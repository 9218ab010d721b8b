"""Word vectors in the usual text format, as the start of the embeddings."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pag.errors import DataError
from pag.prepare.reading import LineFile
from pag.text.vocabulary import SPECIALS, Vocabulary


def fill(tables: list[tuple[nn.Embedding, Vocabulary]], path: Path) -> list[int]:
    """Put the file's vectors in place of the random ones; how many words of each table had one.

    Random rows keep their direction but get the length that the file's vectors have on average.
    """
    wanted = {word for _, vocabulary in tables for word in vocabulary.symbols} - set(SPECIALS)
    found = dict(read(path, wanted, tables[0][0].embedding_dim))
    if not found:
        raise DataError(f"{path} has a vector for none of the {len(wanted):,} words of the vocabularies")
    length = float(np.mean([np.linalg.norm(vector) for vector in found.values()]))
    return [_fill(table, vocabulary, found, length) for table, vocabulary in tables]


@torch.no_grad()
def _fill(table: nn.Embedding, vocabulary: Vocabulary, found: dict[str, np.ndarray], length: float) -> int:
    table.weight.mul_(length / table.weight.norm(dim=1).mean())
    known = [number for number, word in enumerate(vocabulary.symbols) if word in found]
    if known:
        table.weight[known] = torch.from_numpy(np.stack([found[vocabulary.symbols[n]] for n in known])).to(table.weight)
    return len(known)


def read(path: Path, wanted: set[str], size: int) -> Iterator[tuple[str, np.ndarray]]:
    """The wanted words' vectors; a first line with only two numbers (word2vec's) is passed over. Once a line has had as
    many numbers as there should be, a longer one is a word with blanks in it (GloVe has some)."""
    number, fits = 0, False
    with LineFile(path) as file:
        while lines := file.take():
            for number, line in enumerate(lines, number + 1):  # noqa: B020
                word, *numbers = line.decode("utf-8", "replace").rstrip().split(" ")
                if number == 1 and len(numbers) == 1:
                    continue
                if len(numbers) < size or (len(numbers) > size and not fits):
                    raise DataError(f"{path}, line {number}: {len(numbers)} numbers, but model.embedding is {size}")
                fits = True
                if word in wanted and len(numbers) == size:
                    yield word, _vector(numbers, f"{path}, line {number}")


def _vector(numbers: list[str], where: str) -> np.ndarray:
    try:
        vector = np.array(numbers, np.float32)
    except ValueError:
        raise DataError(f"{where}: not a word and its numbers") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: a number is not finite")
    return vector
