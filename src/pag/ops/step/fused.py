"""One step of a search with its weights packed once per search.

The same equations as `Decoder.step` and `DeepOutput`, in fewer and larger operations: what the last token is
multiplied by is looked up in a table, every product of a state is one, and on a CPU the annotations are
multiplied by everything that a context would be, so that a weighted sum of S rows takes the place of products
with all their columns.
"""

import copy
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pag.attention.base import Glimpse, Memory, Products
from pag.attention.pag import PlanningAttention
from pag.data.batch import Pointing
from pag.decoder import DecoderState
from pag.ops.unroll.packing import KINDS, committed, context_rows, joined, planner_rows, rows_of, tempered
from pag.readout import DeepOutput, PointerSoftmax
from pag.state import State, exact

if TYPE_CHECKING:
    from pag.model import Seq2Seq

TABLE = 1024  # so many different tokens, or fewer, have their products looked up
WORTH = 2  # annotations with at least so many columns per position are multiplied beforehand, on a CPU


@dataclass(frozen=True)
class Prepared(Memory):
    """A memory for the fused step: on a CPU its annotations come behind their products."""

    of_answer: Tensor | None = None  # the answer's products for the readout [N, ·]
    fused: "FusedStep | None" = None  # no State: it stays as it is when sentences leave


def choose(model: "Seq2Seq") -> tuple[bool, str]:
    """Is there a fused step for this model, and one line that says so."""
    for part, known in ((model.decoder.attention, KINDS), (model.readout, (DeepOutput, PointerSoftmax))):
        if type(part) not in known:
            return False, f"plain step, since there is no fused one for {type(part).__name__}"
    return True, "fused step: weights packed once per search"


def begin(model: "Seq2Seq", memory: Memory, state: DecoderState) -> tuple[Memory, DecoderState]:
    """Memory and state for the fused step, from those of the plain one."""
    fused = FusedStep(model, memory)
    annotations = memory.annotations.to(fused.products)
    if fused.projected:
        annotations = torch.cat([annotations @ fused.from_context + fused.context_bias, annotations], -1)
    kept = {f.name: getattr(memory, f.name) for f in fields(memory)}
    of_answer = None if memory.answer is None else memory.answer.to(fused.products) @ fused.from_answer
    prepared = Prepared(**{**kept, "annotations": annotations}, of_answer=of_answer, fused=fused)
    return prepared, replace(state, attention=fused.keep(state.attention, None))


class FusedStep:
    """Columns of products: the token's are [energy | lower GRU | readout], a context's [lower GRU | upper GRU |
    readout | planner], those of the state that plans [its GRU | planner]. Of a context the state keeps only the
    planner's columns: they are all that the next step reads."""

    def __init__(self, model: "Seq2Seq", memory: Memory) -> None:
        self.decoder, self.products = model.decoder, memory.keys.dtype
        self.attention: Any = model.decoder.attention  # one of KINDS, which all have `look`
        self.d, self.a, self.e = self.decoder.lower.size, self.attention.size, model.embedding.embedding_dim
        self.pack_readout(model.readout)
        positions, self.size = memory.annotations.shape[1:]
        self.projected = not memory.keys.is_cuda and WORTH * positions <= self.size
        self.pack_tokens(model.embedding.weight, model.encoder.embedding.weight)
        self.pack_states()
        self.pack_contexts()

    def pack(self, rows: Tensor) -> Tensor:
        """Weights [out, in] as products read them [in, out]."""
        return rows.detach().to(self.products).t().contiguous()

    def pack_readout(self, readout: DeepOutput) -> None:
        weight, bias = joined([rows_of(layer) for layer in readout.readers])
        self.read_columns = [layer.out_features for layer in readout.readers]
        self.r, self.read_bias = len(weight), bias
        answer = readout.inputs - 2 * self.d - self.decoder.lower.input.in_features
        parts = weight.split([self.d, self.d, self.e, self.decoder.lower.input.in_features - self.e, answer], 1)
        self.read_lower, self.read_upper, self.read_token, self.read_context, read_answer = parts
        self.from_answer, self.top = self.pack(read_answer), self.pack(self.read_upper)
        self.readout = packed(readout, readout.readers, self.products)

    def pack_tokens(self, embedding: Tensor, of_source: Tensor) -> None:
        lower = self.decoder.lower.input
        rows = [(self.attention.token.weight, None), (lower.weight[:, : self.e], lower.bias)]
        weight, bias = joined([*rows, (self.read_token, self.read_bias)])
        self.token, self.token_bias = self.pack(weight), bias.detach().to(self.products)
        self.embedding = F.pad(embedding.detach().to(self.products), (0, 0, 1, 0))  # row 0: before the first token
        self.of_source, self.known = of_source, len(embedding)
        few = len(embedding) <= TABLE
        self.table = torch.addmm(self.token_bias, self.embedding, self.token) if few else None

    def pack_states(self) -> None:
        decoder, planner = self.decoder, planner_rows(self.attention)
        from_upper = self.attention.settings.plans_from == "upper"
        upper, upper_bias = joined([rows_of(decoder.upper.state), *(planner if from_upper else [])])
        lower, lower_bias = joined([rows_of(decoder.lower.state), *([] if from_upper else planner)])
        self.upper, self.upper_bias = self.pack(upper), upper_bias.detach().to(self.products)
        self.lower, self.lower_bias = self.pack(lower), lower_bias.detach().to(self.products)
        self.middle = self.pack(torch.cat([decoder.upper.input.weight[:, : self.d], self.read_lower]))

    def pack_contexts(self) -> None:
        decoder = self.decoder
        of_grus = [decoder.lower.input.weight[:, self.e :], decoder.upper.input.weight[:, self.d :]]
        rows = [*of_grus, self.read_context, *context_rows(self.attention)]
        self.from_context = self.pack(torch.cat(rows))
        # An alignment sums to one: a bias of the upper GRU's input may as well be the context's.
        self.context_bias = self.from_context.new_zeros(self.from_context.shape[1])
        self.context_bias[3 * self.d : 6 * self.d] = decoder.upper.input.bias.detach()
        self.planner_columns = self.from_context.shape[1] - 6 * self.d - self.r

    def step(
        self, before: Tensor, memory: Memory, state: DecoderState, held: bool
    ) -> tuple[Tensor, Glimpse, DecoderState]:
        """As `Seq2Seq.step`, products without autocast: they are in the memory's type already."""
        with torch.autocast(before.device.type, enabled=False):
            return self._step(before, memory, state, held)

    def _step(
        self, before: Tensor, memory: Memory, state: DecoderState, held: bool
    ) -> tuple[Tensor, Glimpse, DecoderState]:
        d, decoder = self.d, self.decoder
        energy, of_lower, of_token = self.of_token(before, memory.pointing).split([self.a, 3 * d, self.r], -1)
        up = torch.addmm(self.upper_bias, state.upper.to(self.products), self.upper)
        low = torch.addmm(self.lower_bias, state.lower.to(self.products), self.lower)
        planner = (up if self.attention.settings.plans_from == "upper" else low)[:, 3 * d :]
        products = self.of_planner(planner, energy, state.attention)
        glimpse, attention = self.attention.look(products, memory, state.attention, None, held)
        seen = self.of_context(glimpse.context)
        to_lower, to_middle, to_planner = seen.split([3 * d, 3 * d + self.r, self.planner_columns], -1)
        lower = decoder.lower.mix(of_lower + to_lower, low[:, : 3 * d], state.lower)
        to_upper, to_readout = torch.addmm(to_middle, lower.to(self.products), self.middle).split([3 * d, self.r], -1)
        upper = decoder.upper.mix(to_upper, up[:, : 3 * d], state.upper)
        read = torch.addmm(of_token + to_readout, upper.to(self.products), self.top)
        reading = self.readout.read(self.with_answer(read, memory).split(self.read_columns, -1), glimpse, memory)
        glimpse = replace(glimpse, context=glimpse.context[:, -self.size :], copying=reading.copying)
        return reading.log_probs, glimpse, DecoderState(lower, upper, self.keep(attention, to_planner))

    def of_token(self, before: Tensor, pointing: Pointing | None) -> Tensor:
        if pointing is None and self.table is not None:
            return self.table.index_select(0, before + 1)
        vectors = self.embedding.index_select(0, before.clamp_max(self.known - 1) + 1)
        if pointing is not None:  # a word that only the source knows has the source's embedding
            extra = pointing.source_ids((before - self.known).view(len(pointing.extra), -1)).flatten()
            of_source = self.of_source.index_select(0, extra).to(self.products)
            vectors = torch.where((before >= self.known)[:, None], of_source, vectors)
        return torch.addmm(self.token_bias, vectors, self.token)

    def with_answer(self, read: Tensor, memory: Memory) -> Tensor:
        """The readout's products, those of the answer added: rows of one sentence stand together."""
        assert isinstance(memory, Prepared)
        if memory.of_answer is None:
            return read
        return (read.view(len(memory.of_answer), -1, self.r) + memory.of_answer[:, None]).flatten(0, 1)

    def of_context(self, context: Tensor) -> Tensor:
        """The context's products for the GRUs, the readout and the next step's planner."""
        if self.projected:
            return context[:, : -self.size]
        return torch.addmm(self.context_bias, context.to(self.products), self.from_context)

    def keep(self, state: State, of_context: Tensor | None) -> State:
        """The attention's state with the planner's products of its context in place of the context."""
        if not hasattr(state, "context"):
            return state
        if of_context is None:  # before the first step there is none
            of_context = self.from_context.new_zeros(len(state.context), self.planner_columns)
        return replace(state, context=of_context)  # type: ignore[call-arg]

    def of_planner(self, planner: Tensor, energy: Tensor, state: State) -> Products:
        """What `Attention.project` gives, from the columns of the state that plans."""
        attention, a, at = self.attention, self.a, self.a
        k = attention.settings.k
        moved = energy + normed(attention.state_norm, planner[:, :a])
        plan = committed(attention)
        if plan is None:
            return Products(moved)
        gate = None
        if isinstance(attention, PlanningAttention):
            gate, at = normed(attention.gate_norm, planner[:, a : a + k]), a + k
        logits = normed(plan.state_norm, planner[:, at : at + k])
        if self.planner_columns:  # W_uψ ψ_{t-1}, or what rPAG's f_c makes of it
            seen = state.context  # type: ignore[attr-defined]
            gate, logits = (gate, logits + seen) if gate is None else (gate + seen, logits)
        temperature = planner[:, at + k :] if tempered(plan) else None
        return Products(moved, gate, logits.to(exact(logits)), temperature)


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    """Layer normalisation is float32 throughout."""
    return x if isinstance(norm, nn.Identity) else norm(x.to(exact(x)))


class Packed(nn.Module):
    """A linear layer with its weights as products read them [in, out]."""

    def __init__(self, linear: nn.Linear, kind: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight.detach().to(kind).t().contiguous(), linear.bias.detach().to(kind)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


def packed(module: nn.Module, without: list[nn.Linear], kind: torch.dtype) -> Any:
    """A copy of a module with its linear layers packed, but for those that are not used."""
    if isinstance(module, nn.Linear):
        return module if module in without else Packed(module, kind)
    made = copy.copy(module)
    made._modules = {
        name: None if part is None else packed(part, without, kind) for name, part in module._modules.items()
    }
    return made
