"""JoeyNMT 2.3 as a contestant: its recurrent decoder and its search, at our sizes."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional as F

from pag.bench.ours import autocast, examples
from pag.bench.settings import PRECISIONS, Sizes
from pag.data.batch import pad
from pag.errors import InputError

ROOT = Path(__file__).parents[3] / "benchmarks" / "joeynmt"  # in a source tree
FOLDER = "site-{}.{}".format(*sys.version_info)
INSTALL = "python benchmarks/joeynmt/install.py"
PAD, EOS, WORDS = 1, 3, 4  # ids in its vocabulary: unknown, padding, start, end, words


@dataclass(frozen=True)
class Found:
    there: bool
    said: str


def look_for(folder: Path | None) -> Found:
    """Make JoeyNMT importable, from `folder` or from where the benchmark's set-up puts it.

    The folder goes to the end of the path, so that nothing in it can take the place of our own dependencies.
    """
    if folder and not (folder / "joeynmt").is_dir():
        raise InputError(f"--joeynmt: no JoeyNMT in {folder}: {INSTALL} makes {ROOT.parent.name}/{ROOT.name}/{FOLDER}")
    places = [folder] if folder else [Path("benchmarks/joeynmt") / FOLDER, ROOT / FOLDER]
    for place in places:
        if place.is_dir() and str(place) not in sys.path:
            sys.path.append(str(place.resolve()))
    if find_spec("joeynmt") is None:
        return Found(False, f"not installed: {INSTALL}")
    try:
        import_module("joeynmt.search")
    except ImportError as error:
        return Found(False, f"does not import ({error}): {INSTALL}")
    return Found(True, f"JoeyNMT {import_module('joeynmt').__version__}")


def build(sizes: Sizes, device: str, attention: int | None = None) -> Any:
    """Its model with a bidirectional GRU encoder and a GRU decoder of two layers with Bahdanau attention.

    It ties the attention's size to the decoder's; `attention` sets another.
    """
    torch.manual_seed(0)
    units, words = sizes.units, sizes.vocabulary
    names = {"unk": 0, "pad": PAD, "bos": 2, "eos": EOS}
    special = {f"{name}_token": f"<{name}>" for name in names} | {f"{name}_id": at for name, at in names.items()}
    config = SimpleNamespace(**special, lang_tags=[], sep_token=None)
    vocabulary = _of("vocabulary").Vocabulary([str(i) for i in range(words - WORDS)], config)
    encoder = _of("encoders").RecurrentEncoder(hidden_size=units, emb_size=units)
    decoder = _of("decoders").RecurrentDecoder(
        emb_size=units, hidden_size=units, encoder=encoder, num_layers=2, vocab_size=words, init_hidden="bridge"
    )
    if attention:
        bahdanau = _of("attention").BahdanauAttention
        decoder.attention = bahdanau(hidden_size=attention, key_size=encoder.output_size, query_size=units)
    embeddings = [_of("embeddings").Embeddings(units, vocab_size=words, padding_idx=PAD) for _ in range(2)]
    with _quiet():
        return _of("model").Model(encoder, decoder, *embeddings, vocabulary, vocabulary).to(device)


class DecoderPass:
    """As `ours.DecoderPass`: its decoder, its output layer and its loss."""

    def __init__(self, sizes: Sizes, device: str, precision: str, attention: int | None = None) -> None:
        chance = torch.Generator().manual_seed(0)
        self.device, self.precision, self.steps = device, precision, sizes.target
        self.model = build(sizes, device, attention)
        self.loss = _of("loss").XentLoss(pad_index=PAD)
        shape = (sizes.batch, sizes.source, 2 * sizes.units)
        self.annotations = torch.randn(shape, generator=chance).to(device).requires_grad_()
        tokens = torch.randn(sizes.batch, sizes.target, sizes.units, generator=chance)
        self.tokens = tokens.to(device).requires_grad_()
        self.mask = torch.ones(sizes.batch, 1, sizes.source, dtype=torch.bool, device=device)
        words = torch.randint(WORDS, sizes.vocabulary, (sizes.batch, sizes.target), generator=chance)
        self.target = words.to(device)

    def run(self) -> None:
        with autocast(self.device, self.precision):
            logits, *_ = self.model.decoder(
                trg_embed=self.tokens,
                encoder_output=self.annotations,
                encoder_hidden=self.annotations[:, -1],
                src_mask=self.mask,
                unroll_steps=self.steps,
            )
        loss = self.loss(F.log_softmax(logits.float(), -1), trg=self.target)
        (loss / len(self.target)).backward()

    def reset(self) -> None:
        self.model.zero_grad(set_to_none=True)
        self.tokens.grad = self.annotations.grad = None


class Searching:
    """Its greedy and beam search over a batch; outputs may not end before `length`."""

    def __init__(self, sizes: Sizes, device: str, precision: str, sentences: int, length: int) -> None:
        self.length, self.model = length, build(sizes, device).eval()
        self.autocast = {
            "device_type": torch.device(device).type,
            "dtype": PRECISIONS[precision],
            "enabled": precision != "float32",
        }
        source, lengths = pad([example.source for example in examples(sentences, sizes)])
        source = source.clamp_min(WORDS).where(source != 1, torch.tensor(EOS))
        self.batch = _of("batch").Batch(
            source, lengths, None, None, None, torch.arange(sentences), torch.device(device), PAD, EOS, is_train=False
        )

    def run(self, beam: int) -> Any:
        return _of("search").search(
            self.model, self.batch, self.length, beam, 1.0, min_output_length=self.length, autocast=self.autocast
        )


def _of(module: str) -> Any:
    return import_module(f"joeynmt.{module}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines that it prints while it builds a model."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
