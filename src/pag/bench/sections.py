"""The races of `pag bench`, one class with a method per section."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pag.bench import joeynmt, ours
from pag.bench.rows import JOEYNMT, Row, compare, row_of
from pag.bench.settings import Settings, Sizes
from pag.bench.timing import Contestant, Timing, nothing, race
from pag.data.loader import Loaded
from pag.data.prepared import Prepared
from pag.errors import InputError

PASS, UPDATE = "forward + backward", "whole update"
TOKENS, SENTENCES = "target tokens", "sentences"
SCALING_ROUNDS = 3
BATCHES = 24  # of real lengths, in one timed run
SENTENCES_READ = 20_000


class Sections:
    """Each method yields the rows of one race after another."""

    def __init__(self, settings: Settings, neighbour: joeynmt.Found) -> None:
        self.settings, self.neighbour = settings, neighbour
        # Missing data should not be found out after an hour of other races.
        self.lengths = real_lengths(settings.data) if "ragged" in settings.sections else None

    def train(self) -> Iterator[list[Row]]:
        """The decoder's teacher-forced pass: every variant, every backend, JoeyNMT."""
        for precision in self.settings.precisions:
            sizes = self.settings.sizes
            contestants = [*self._joeynmt_passes(sizes, precision, True), *self._passes(sizes, precision, True)]
            yield self._race(contestants, "train", PASS, precision, sizes, sizes.batch * sizes.target, TOKENS)

    def update(self) -> Iterator[list[Row]]:
        """What optimiser, clipping and data add to forward + backward of the whole model."""
        sizes = self.settings.sizes
        for precision in self.settings.precisions:
            for variant in self.settings.variants:
                made = ours.Updates(variant, sizes, self.settings.device, precision)
                backend = made.said.partition(":")[0]
                runs = {PASS: made.forward_backward, UPDATE: made.update}
                contestants = [Contestant(variant, backend, run, made.reset) for run in runs.values()]
                timings = self._run(contestants)
                tokens = sizes.batch * sizes.target
                rows = [
                    row_of(contestant, timing, "update", task, precision, asdict(sizes), tokens, TOKENS)
                    for task, contestant, timing in zip(runs, contestants, timings, strict=True)
                ]
                made.loader.close()
                yield [rows[0], with_share(rows[1], rows[0])]

    def decode(self) -> Iterator[list[Row]]:
        """Greedy and beam search beside JoeyNMT's, in the first precision: `pag generate` uses float32."""
        settings, precision = self.settings, self.settings.precisions[0]
        where = (settings.sizes, settings.device, precision, settings.sentences, settings.length)
        models: dict[str, Any] = {variant: ours.Searching(variant, *where) for variant in settings.variants}
        if self.neighbour.there:
            models = {JOEYNMT: joeynmt.Searching(*where), **models}
        for beam in settings.beams:
            contestants = [
                Contestant(name, "search", partial(model.run, beam), note=getattr(model, "said", ""))
                for name, model in models.items()
            ]
            yield self._searches([*self._absent(), *contestants], "decode", beam_name(beam), precision)

    def replan(self) -> Iterator[list[Row]]:
        """What skipping saves: models that re-plan at every step, and less often."""
        settings, sizes = self.settings, self.settings.sizes
        for variant in [v for v in settings.variants if v != "baseline"]:
            precision = settings.precisions[0]
            where = (sizes, settings.device, precision, settings.sentences, settings.length)
            models = [ours.Replanning(variant, *where, every) for every in settings.replan_every if every <= sizes.k]
            rates = [model.rate() for model in models]
            for beam in settings.beams[:2]:
                contestants = [Contestant(variant, "search", partial(model.run, beam)) for model in models]
                rows = self._searches(contestants, "replan", beam_name(beam), precision)
                yield [with_rate(row, rate, rows[0]) for row, rate in zip(rows, rates, strict=True)]

    def scaling(self) -> Iterator[list[Row]]:
        """The fastest pass of each variant, and JoeyNMT's, as one size grows; in the last precision."""
        precision = self.settings.precisions[-1]
        for axis, values in self.settings.scaling.items():
            for value in values:
                sizes = self.settings.sizes.with_(axis, value)
                contestants = list(self._passes(sizes, precision, False))
                if axis != "k":  # the baseline and JoeyNMT have none
                    contestants = [*self._joeynmt_passes(sizes, precision, False), *contestants]
                else:
                    contestants = [c for c in contestants if c.model != "baseline"]
                rows = self._race(
                    contestants, "scaling", PASS, precision, sizes, sizes.batch * sizes.target, TOKENS, SCALING_ROUNDS
                )
                yield [replace(row, facts={"axis": axis, "value": value}) for row in rows]

    def ragged(self) -> Iterator[list[Row]]:
        """Batches of real lengths beside batches of one length: target tokens that count, forward + backward."""
        settings, sizes = self.settings, self.settings.sizes
        assert self.lengths is not None
        data = ours.shaped_as(self.lengths, sizes)
        for variant in settings.variants:
            where = (variant, sizes, settings.device, settings.precisions[-1])
            fixed = ours.Updates(*where)
            rows = self._ragged(variant, "one length", fixed, [fixed.fixed])
            for by in ("sentences", "tokens"):
                made = ours.Updates(*where, data, by)
                rows += self._ragged(
                    variant, f"real lengths, by {by}", made, [next(made.loader) for _ in range(BATCHES)]
                )
                made.loader.close()
            fixed.loader.close()
            yield [rows[0], *(with_throughput(row, rows[0]) for row in rows[1:])]

    def _ragged(self, variant: str, task: str, made: ours.Updates, some: list[Loaded]) -> list[Row]:
        tokens = sum(float(loaded.batch.target_mask.sum()) for loaded in some if loaded.batch is not None)
        run = Contestant(variant, made.said.partition(":")[0], partial(made.forward_backward_of, some), made.reset)
        [timing] = self._run([run])
        sizes = asdict(self.settings.sizes)
        row = row_of(run, timing, "ragged", task, self.settings.precisions[-1], sizes, tokens, TOKENS)
        return [replace(row, facts={"batches": len(some)})]

    # contestants

    def _passes(self, sizes: Sizes, precision: str, every_backend: bool) -> Iterator[Contestant]:
        for variant in self.settings.variants:
            made = ours.DecoderPass(variant, sizes, self.settings.device, precision)
            backends = ours.backends_of(made.model, self.settings.device)
            for name, (unroll, said) in list(backends.items())[0 if every_backend else -1 :]:
                note = said.partition(": ")[2] if every_backend else ""
                yield Contestant(variant, name, partial(made.run, unroll), made.reset, note)

    def _absent(self) -> list[Contestant]:
        """JoeyNMT's place in the table where it is not installed."""
        return [] if self.neighbour.there else [Contestant(JOEYNMT, "", nothing, absent=self.neighbour.said)]

    def _joeynmt_passes(self, sizes: Sizes, precision: str, both: bool) -> Iterator[Contestant]:
        """As it comes; and with an attention as wide as ours where that is another width."""
        if not self.neighbour.there:
            yield from self._absent() if both else []
            return
        made = joeynmt.DecoderPass(sizes, self.settings.device, precision)
        yield Contestant(JOEYNMT, "as it comes", made.run, made.reset, f"attention of {sizes.units} units")
        ours = sizes.attention or 2 * sizes.units
        if both and ours != sizes.units:
            wide = joeynmt.DecoderPass(sizes, self.settings.device, precision, ours)
            yield Contestant(JOEYNMT, "as ours", wide.run, wide.reset, f"attention of {ours} units, as ours")

    # races

    def _run(self, contestants: Sequence[Contestant], rounds: int | None = None) -> list[Timing]:
        settings = self.settings
        least = min(rounds or settings.rounds, settings.rounds)
        return race(contestants, settings.device, least, settings.patience, settings.clock)

    def _race(
        self, contestants: Sequence[Contestant], section: str, task: str, precision: str, sizes: Sizes,
        amount: float, unit: str, rounds: int | None = None,
    ) -> list[Row]:  # fmt: skip
        rows = [
            row_of(contestant, timing, section, task, precision, asdict(sizes), amount, unit)
            for contestant, timing in zip(contestants, self._run(contestants, rounds), strict=True)
        ]
        return compare(rows)

    def _searches(self, contestants: Sequence[Contestant], section: str, task: str, precision: str) -> list[Row]:
        settings = self.settings
        sizes = replace(settings.sizes, batch=settings.sentences, target=settings.length)
        rows = self._race(contestants, section, task, precision, sizes, settings.sentences, SENTENCES)
        return [replace(row, peak_mib=None, reserved_mib=None) for row in rows]  # captured steps share their memory


def beam_name(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"


def with_share(update: Row, alone: Row) -> Row:
    """The update's row with its time as a multiple of forward + backward alone."""
    if update.ms is None or not alone.ms:
        return update
    share = update.ms / alone.ms
    return replace(update, over_pass=share, note=f"{share:.2f} × the time of forward + backward")


def real_lengths(folder: str | None) -> np.ndarray:
    """Source and target lengths of some prepared text [N, 2]."""
    if folder is None:
        raise InputError("--only ragged needs --data, a folder made by `pag prepare translation`")
    return Prepared(Path(folder)).examples("train").lengths[:SENTENCES_READ]


def with_throughput(row: Row, fixed: Row) -> Row:
    """A row with its tokens per second as a share of those at one length."""
    if row.per_second is None or not fixed.per_second:
        return row
    share = row.per_second / fixed.per_second
    facts = {**row.facts, "over_fixed": share}
    return replace(row, note=f"{share:.0%} of the tokens/s at one length", facts=facts)


def with_rate(row: Row, rate: float, always: Row) -> Row:
    """A search's row with how often it re-planned, and how much faster that is than the first one."""
    faster = always.ms / row.ms if always.ms and row.ms else None
    note = f"re-plans at {rate:.2f} of the steps" + (f", {faster:.2f} × as fast" if faster else "")
    return replace(row, note=row.note or note, facts={"replan_rate": rate, "over_always": faster})
