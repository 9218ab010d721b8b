"""Scores and re-planned plans of the rows whose switch is on; the other rows cost one load.

The same functions as `RepeatAttention.look` and `PlanningAttention.replan`, for inference: each
program takes one row and a block of source positions and runs over the units of the tanh layer.
"""

# ruff: noqa: N803
# mypy: ignore-errors

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

EPSILON = tl.constexpr(1e-5)
FLOAT32 = "tf32x3"  # three products of a float32's parts: exact to about 1e-6, on the tensor cores


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def score_rows(
    keys, moving, weight, mask, active, scores, S, W, A: tl.constexpr, BLOCK: tl.constexpr, UNITS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    sentence = (row // W).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = tl.load(mask + sentence * S + j, j < S, 0).to(tl.int32)
    if (tl.load(active + row) == 0) | (tl.max(real, 0) == 0):
        return
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, A, UNITS):
        a = start + tl.arange(0, UNITS)
        moved = tl.load(moving + row * A + a, a < A, 0.0).to(tl.float32)
        w = tl.load(weight + a, a < A, 0.0).to(tl.float32)
        place = (sentence * S + j[:, None]) * A + a[None]
        key = tl.load(keys + place, (j[:, None] < S) & (a[None] < A), 0.0).to(tl.float32)
        total += tl.sum(tanh(key + moved[None]) * w[None], 1)
    tl.store(scores + row * S + j, total, j < S)


def score(keys: Tensor, moving: Tensor, weight: Tensor, mask: Tensor, active: Tensor) -> Tensor:
    """w·tanh(keys_j + moving) of the active rows [B, S], float32; zeros elsewhere. Rows may share a sentence's keys.

    Padding counts for nothing: a block of positions that has nothing else is passed over.
    """
    rows, (sentences, positions, units) = len(moving), keys.shape
    scores = torch.zeros(rows, positions, device=keys.device)
    block = 16
    score_rows[(rows, triton.cdiv(positions, block))](
        keys.contiguous(),
        moving.contiguous(),
        weight.contiguous(),
        mask.contiguous(),
        active,
        scores,
        positions,
        rows // sentences,
        units,
        block,
        128,
    )
    return scores


@triton.jit
def plan_rows(
    plan, keys, moving, gate_keys, gate_moving, mask, active, read, read_bias, norm_weight, norm_bias, summary,
    candidate, candidate_bias, renewed, gate, S, W, A: tl.constexpr,
    K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, NORM: tl.constexpr,
    BLOCK: tl.constexpr, UNITS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    sentence = (row // W).to(tl.int64)
    j, k, r = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, KP), tl.arange(0, RP)
    here = (j[:, None] < S) & (k[None] < K)
    place = (row.to(tl.int64) * K + k[None]) * S + j[:, None]  # plans are [B, k, S]
    real = tl.load(mask + sentence * S + j, j < S, 0).to(tl.int32)
    if tl.max(real, 0) == 0:  # padding is never attended to, whatever is planned there
        tl.store(renewed + place, tl.zeros([BLOCK, KP], tl.float32), here)
        tl.store(gate + place, tl.zeros([BLOCK, KP], tl.float32), here)
        return
    if tl.load(active + row) == 0:  # follow: every row of the plan moves one step forward
        ahead = tl.load(plan + place + S, here & (k[None] + 1 < K), 0.0)
        tl.store(renewed + place, ahead, here)
        tl.store(gate + place, tl.zeros([BLOCK, KP], tl.float32), here)
        return
    before = tl.load(plan + place, here, 0.0)
    weights = tl.load(read + r[None] * K + k[:, None], (r[None] < R) & (k[:, None] < K), 0.0).to(tl.float32)
    x = tl.dot(before, weights, input_precision=PRECISION)
    x += tl.load(read_bias + r, r < R, 0.0).to(tl.float32)[None]
    if NORM:
        inside = (r < R)[None]
        centred = tl.where(inside, x - (tl.sum(tl.where(inside, x, 0.0), 1) / R)[:, None], 0.0)
        x = centred / tl.sqrt(tl.sum(centred * centred, 1) / R + EPSILON)[:, None]
        x = x * tl.load(norm_weight + r, r < R, 0.0)[None] + tl.load(norm_bias + r, r < R, 0.0)[None]
    beta = tl.where((r < R)[None], tanh(x), 0.0)
    total = tl.zeros([BLOCK, KP], tl.float32)
    for start in range(0, A, UNITS):
        a = start + tl.arange(0, UNITS)
        moved = tl.load(moving + row * A + a, a < A, 0.0).to(tl.float32)
        of_plan = tl.load(summary + a[None] * R + r[:, None], (a[None] < A) & (r[:, None] < R), 0.0)
        of_hidden = tl.load(candidate + k[None] * A + a[:, None], (k[None] < K) & (a[:, None] < A), 0.0)
        spot = (sentence * S + j[:, None]) * A + a[None]
        hidden = tl.load(keys + spot, (j[:, None] < S) & (a[None] < A), 0.0).to(tl.float32) + moved[None]
        hidden += tl.dot(beta.to(of_plan.dtype), of_plan, input_precision=PRECISION)
        total += tl.dot(tanh(hidden).to(of_hidden.dtype), of_hidden, input_precision=PRECISION)
    total += tl.load(candidate_bias + k, k < K, 0.0).to(tl.float32)[None]
    opening = tl.load(gate_keys + (sentence * S + j[:, None]) * K + k[None], here, 0.0).to(tl.float32)
    opening = tl.sigmoid(opening + tl.load(gate_moving + row * K + k, k < K, 0.0).to(tl.float32)[None])
    tl.store(renewed + place, before + opening * (total - before), here)
    tl.store(gate + place, opening, here)


def replan(
    plan: Tensor, keys: Tensor, moving: Tensor, gate_keys: Tensor, gate_moving: Tensor, mask: Tensor, active: Tensor,
    read: nn.Linear, read_norm: nn.Module, summary: Tensor, candidate: nn.Linear,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A_t and u_t [B, k, S]: (1 − u) ⊙ A + u ⊙ Ā where active, the shifted plan (and no gate) elsewhere.

    Blocks of nothing but padding get zeros."""
    rows, k, positions = plan.shape
    units, size = keys.shape[2], summary.shape[1]
    renewed, gate, block = torch.empty_like(plan), torch.empty_like(plan), 16
    normal = isinstance(read_norm, nn.LayerNorm)
    weights = (read_norm.weight, read_norm.bias) if normal else (read.bias, read.bias)
    products = keys.dtype  # bfloat16 products where the keys are
    plan_rows[(rows, triton.cdiv(positions, block))](
        plan.contiguous(), keys.contiguous(), moving.contiguous(), gate_keys.contiguous(), gate_moving.contiguous(),
        mask.contiguous(), active, read.weight, read.bias, *weights, summary.to(products).contiguous(),
        candidate.weight.to(products).contiguous(), candidate.bias, renewed, gate, positions,
        rows // len(keys), units,
        k, max(16, triton.next_power_of_2(k)), size, max(16, triton.next_power_of_2(size)), normal, block, 64, FLOAT32,
    )  # fmt: skip
    return renewed, gate
