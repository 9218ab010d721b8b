"""One decoder step in Triton, backward, and what waits until after the loop.

As in `forward_kernels.py`; steps run from the last to the first. Gradients of the three products
go to work rows, which the next product reads, and to one slice per step, from which the weights'
gradients are computed after the loop. (`d_seen` keeps no slice of the upper GRU's part, which `d_low`
has: KEPT columns instead of SEEN.)
"""

# ruff: noqa: N803, I001, E501
# mypy: ignore-errors

import triton
import triton.language as tl

from pag.ops.unroll.forward_kernels import (
    ALIGNMENT, ANNOTATIONS, BASELINE, CANDIDATE, CHOICE, COMMITMENT_NORM, COMMITMENT_RAW, D_CANDIDATE,
    D_COMMITMENT_NORM, D_CONTEXT, D_GATE_KEYS, D_GATE_NORM, D_HEAD, D_KEYS, D_LOW, D_LOWER_INPUT_NORM,
    D_LOWER_STATE_NORM, D_MOVING, D_READ, D_READ_BIAS, D_READ_NORM, D_SEEN, D_STATE_NORM, D_SUMMARY, D_UP,
    D_UPPER_INPUT_NORM, D_UPPER_STATE_NORM, FRESH, GATE, GATE_NORM, GATE_RAW, GIVEN_ALIGNMENT, GIVEN_CONTEXT,
    GIVEN_LOWER, GIVEN_SWITCH, GIVEN_UPPER, KEYS, LOWER, LOWER_GATES, LOWER_INPUT_NORM, LOWER_INPUT_SCALE,
    LOWER_INPUT_UNIT, LOWER_STATE_NORM, LOWER_STATE_SCALE, LOWER_STATE_UNIT, MOVING, PAG, PLAN, PULL_LOGITS,
    PULL_LOGITS_THROUGH, PULL_TEMPERATURE, PULL_TEMPERATURE_THROUGH, READ, READ_NORM, RPAG, STATE_NORM,
    STATE_SCALE, STATE_UNIT, SWITCH, UPPER, UPPER_GATES, UPPER_INPUT_NORM, UPPER_INPUT_SCALE,
    UPPER_INPUT_UNIT, UPPER_STATE_NORM, UPPER_STATE_SCALE, UPPER_STATE_UNIT, at, floats, hide_weights, normalise, read_plan,
    tanh, write_beta,
)  # fmt: skip


@triton.jit
def product(
    given, weight, shares, rows, COLUMNS: tl.constexpr, N: tl.constexpr, PART: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """given [B, COLUMNS] · weight [COLUMNS, N], one share for each PART of the columns.

    Grid: blocks of N × parts × blocks of rows. Whoever reads the product adds the shares up, which
    saves the launch that would.
    """
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, PART, BLOCK_K):
        c = tl.program_id(1) * PART + start + tl.arange(0, BLOCK_K)
        left = tl.load(given + m[:, None] * COLUMNS + c[None], (m[:, None] < rows) & (c[None] < COLUMNS), 0.0)
        right = tl.load(weight + c[:, None] * N + n[None], (c[:, None] < COLUMNS) & (n[None] < N), 0.0)
        total = tl.dot(left, right, total)
    place = (tl.program_id(1) * rows + m)[:, None] * N + n[None]
    tl.store(shares + place, total, (m[:, None] < rows) & (n[None] < N))


@triton.jit
def added(shares, rows, b, N: tl.constexpr, n, SPLIT: tl.constexpr):
    """The product's entries `n` of row b."""
    total = tl.load(shares + b * N + n, n < N, 0.0)
    for part in tl.static_range(1, SPLIT):
        total += tl.load(shares + (part * rows + b) * N + n, n < N, 0.0)
    return total


@triton.jit
def add_to(pointer, value, mask):
    """This row's sum over the steps: no other program touches it."""
    tl.store(pointer, tl.load(pointer, mask, 0.0) + value, mask)


@triton.jit
def unnormalise(given, weight, unit, scale, inside, size):
    """Back through layer normalisation, to its input."""
    inner = tl.where(inside, given * weight, 0.0)
    return tl.where(inside, inner - tl.sum(inner, 0) / size - unit * (tl.sum(inner * unit, 0) / size), 0.0) * scale


@triton.jit
def small_unnorm(
    table, norm: tl.constexpr, raw: tl.constexpr, d_norm: tl.constexpr, row, b, given, kk, K: tl.constexpr
):
    inside = kk < K
    unit, scale = normalise(tl.load(at(table, raw, tl.float32) + row * K + kk, inside, 0.0), inside, K)
    sums = at(table, d_norm, tl.float32) + b * 2 * K + kk
    add_to(sums, given * unit, inside)
    add_to(sums + K, given, inside)
    return unnormalise(given, tl.load(at(table, norm, tl.float32) + kk, inside, 0.0), unit, scale, inside, K)


@triton.jit
def gate_unnorm(
    table, norm: tl.constexpr, unit_slot: tl.constexpr, scale_slot: tl.constexpr, d_norm: tl.constexpr, row, b,
    given, j, PART: tl.constexpr, D: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside = j < D
    unit = floats(at(table, unit_slot, C) + row * 3 * D + PART * D + j, inside)
    scale = tl.load(at(table, scale_slot, tl.float32) + row * 3 + PART)
    sums = at(table, d_norm, tl.float32) + b * 6 * D + PART * D + j
    add_to(sums, given * unit, inside)
    add_to(sums + 3 * D, given, inside)
    weight = tl.load(at(table, norm, tl.float32) + PART * D + j, inside, 0.0)
    return unnormalise(given, weight, unit, scale, inside, D)


@triton.jit
def d_gru_input(
    table, row, rows, b, g_low, g_seen, given, j, PART: tl.constexpr, D: tl.constexpr, LOW: tl.constexpr,
    SEEN: tl.constexpr, KEPT: tl.constexpr, FIRST: tl.constexpr, NORM: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside, after = j < D, (row + rows).to(tl.int64)
    if FIRST:
        if NORM:
            given = gate_unnorm(
                table, LOWER_INPUT_NORM, LOWER_INPUT_UNIT, LOWER_INPUT_SCALE, D_LOWER_INPUT_NORM, row, b, given, j,
                PART, D, C,
            )  # fmt: skip
        tl.store(g_seen + b * SEEN + PART * D + j, given.to(C), inside)
        tl.store(at(table, D_SEEN, C) + after * KEPT + PART * D + j, given.to(C), inside)
    else:
        if NORM:
            given = gate_unnorm(
                table, UPPER_INPUT_NORM, UPPER_INPUT_UNIT, UPPER_INPUT_SCALE, D_UPPER_INPUT_NORM, row, b, given, j,
                PART, D, C,
            )  # fmt: skip
        tl.store(g_low + b * LOW + PART * D + j, given.to(C), inside)
        tl.store(at(table, D_LOW, C) + after * LOW + PART * D + j, given.to(C), inside)
        tl.store(g_seen + b * SEEN + 3 * D + PART * D + j, given.to(C), inside)


@triton.jit
def d_gru_state(
    table, row, b, g_up, g_low, given, j, PART: tl.constexpr, D: tl.constexpr, UP: tl.constexpr,
    LOW: tl.constexpr, FIRST: tl.constexpr, NORM: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside, now = j < D, row.to(tl.int64)
    if FIRST:
        if NORM:
            given = gate_unnorm(
                table, LOWER_STATE_NORM, LOWER_STATE_UNIT, LOWER_STATE_SCALE, D_LOWER_STATE_NORM, row, b, given, j,
                PART, D, C,
            )  # fmt: skip
        tl.store(g_low + b * LOW + 3 * D + PART * D + j, given.to(C), inside)
        tl.store(at(table, D_LOW, C) + now * LOW + 3 * D + PART * D + j, given.to(C), inside)
    else:
        if NORM:
            given = gate_unnorm(
                table, UPPER_STATE_NORM, UPPER_STATE_UNIT, UPPER_STATE_SCALE, D_UPPER_STATE_NORM, row, b, given, j,
                PART, D, C,
            )  # fmt: skip
        tl.store(g_up + b * UP + PART * D + j, given.to(C), inside)
        tl.store(at(table, D_UP, C) + now * UP + PART * D + j, given.to(C), inside)


@triton.jit(do_not_specialize=["i"])
def gru_back(
    table, clock, i, rows, shares, direct, g_up, g_low, g_seen, SPLIT: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    UP: tl.constexpr, LOW: tl.constexpr, SEEN: tl.constexpr, KEPT: tl.constexpr, FIRST: tl.constexpr,
    NORM: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Back through a GRU's pointwise part. Grid: as `gru`. The state's gradient is what the caller gave,
    plus a product (from the projections), plus `direct` (from the next step's update gate)."""
    t = tl.load(clock + 1) - 1 - tl.load(clock) - i
    if t < 0:
        return
    b, j = tl.program_id(0), tl.program_id(1) * DP + tl.arange(0, DP)
    row, inside = t * rows + b, j < D
    there = (b * tl.load(clock + 1) + t).to(tl.int64)
    given = tl.load(at(table, GIVEN_LOWER if FIRST else GIVEN_UPPER, tl.float32) + there * D + j, inside, 0.0)
    given += added(shares, rows, b, D, j, SPLIT) + tl.load(direct + b * D + j, inside, 0.0)
    gates = at(table, LOWER_GATES if FIRST else UPPER_GATES, C) + row.to(tl.int64) * 4 * D + j
    reset, update = floats(gates, inside), floats(gates + D, inside)
    candidate, projected = floats(gates + 2 * D, inside), floats(gates + 3 * D, inside)
    before = tl.load(at(table, LOWER if FIRST else UPPER, tl.float32) + row * D + j, inside, 0.0)
    to_update = given * (before - candidate) * update * (1 - update)
    to_candidate = given * (1 - update) * (1 - candidate * candidate)
    to_reset = to_candidate * projected * reset * (1 - reset)
    tl.store(direct + b * D + j, given * update, inside)
    d_gru_input(table, row, rows, b, g_low, g_seen, to_reset, j, 0, D, LOW, SEEN, KEPT, FIRST, NORM, C)
    d_gru_input(table, row, rows, b, g_low, g_seen, to_update, j, 1, D, LOW, SEEN, KEPT, FIRST, NORM, C)
    d_gru_input(table, row, rows, b, g_low, g_seen, to_candidate, j, 2, D, LOW, SEEN, KEPT, FIRST, NORM, C)
    d_gru_state(table, row, b, g_up, g_low, to_reset, j, 0, D, UP, LOW, FIRST, NORM, C)
    d_gru_state(table, row, b, g_up, g_low, to_update, j, 1, D, UP, LOW, FIRST, NORM, C)
    d_gru_state(table, row, b, g_up, g_low, to_candidate * reset, j, 2, D, UP, LOW, FIRST, NORM, C)


@triton.jit
def to_planner(
    table, g_planner, row, b, value, column, mask, COLUMNS: tl.constexpr, UPWARD: tl.constexpr, C: tl.constexpr
):
    """Into the work row of the state that plans, and into this step's slice."""
    tl.store(g_planner + b * COLUMNS + column, value.to(C), mask)
    tl.store(at(table, D_UP if UPWARD else D_LOW, C) + row.to(tl.int64) * COLUMNS + column, value.to(C), mask)


@triton.jit
def commit_back(
    table, t, rows, b, kk, d_switch, g_planner, g_seen, carry, COLUMNS: tl.constexpr, OFFSET: tl.constexpr,
    UPWARD: tl.constexpr, SEEN: tl.constexpr, LAST: tl.constexpr, K: tl.constexpr, KIND: tl.constexpr,
    NORM: tl.constexpr, LEARNED: tl.constexpr, KEPT: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside, row = kk < K, t * rows + b
    d_switch += tl.load(at(table, GIVEN_SWITCH, tl.float32) + row)
    given = tl.load(at(table, PULL_LOGITS, tl.float32) + row * K + kk, inside, 0.0)
    given += d_switch * tl.load(at(table, PULL_LOGITS_THROUGH, tl.float32) + row * K + kk, inside, 0.0)
    given += tl.load(carry + b * K + kk, inside, 0.0)
    again = tl.load(at(table, CHOICE, tl.int32) + row - rows, t > 0, 0) == 0
    tl.debug_barrier()
    # A shifted step's gradient goes to the slot it came from, one further on.
    tl.store(carry + b * K + kk + 1, tl.where(again, 0.0, given), kk + 1 < K)
    tl.store(carry + b * K + kk, 0.0, kk == 0)
    given = tl.where(again & inside, given, 0.0)
    if KIND == RPAG:
        tl.store(g_seen + b * SEEN + LAST + kk, given.to(C), inside)
        tl.store(at(table, D_SEEN, C) + row.to(tl.int64) * KEPT + LAST // 2 + kk, given.to(C), inside)
    if NORM:
        given = small_unnorm(table, COMMITMENT_NORM, COMMITMENT_RAW, D_COMMITMENT_NORM, row, b, given, kk, K)
    to_planner(table, g_planner, row, b, given, OFFSET + kk, inside, COLUMNS, UPWARD, C)
    if LEARNED:
        value = tl.load(at(table, PULL_TEMPERATURE, tl.float32) + row)
        value += d_switch * tl.load(at(table, PULL_TEMPERATURE_THROUGH, tl.float32) + row)
        to_planner(table, g_planner, row, b, value, OFFSET + K, True, COLUMNS, UPWARD, C)


@triton.jit(do_not_specialize=["i"])
def context_back(
    table, clock, i, rows, S, shares, partial, SPLIT: tl.constexpr, N: tl.constexpr, WHOLE: tl.constexpr,
    BLOCK_N: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The context's gradient, and this block's share of the alignment's [blocks, B, S].

    Grid: rows × blocks of annotation units.
    """
    t = tl.load(clock + 1) - 1 - tl.load(clock) - i
    if t < 0:
        return
    b, s = tl.program_id(0), tl.arange(0, WHOLE)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    there = (b * tl.load(clock + 1) + t).to(tl.int64)
    tile = at(table, ANNOTATIONS, C) + (b * S + s)[:, None] * N + n[None]
    annotations = floats(tile, (s[:, None] < S) & (n[None] < N))
    d_context = added(shares, rows, b, N, n, SPLIT) + floats(at(table, GIVEN_CONTEXT, C) + there * N + n, n < N)
    tl.store(at(table, D_CONTEXT, C) + (t * rows + b) * N + n, d_context.to(C), n < N)
    share = tl.sum(annotations * d_context[None], 1)
    tl.store(partial + (tl.program_id(1) * rows + b) * S + s, share, s < S)


@triton.jit(do_not_specialize=["i"])
def attend_back(
    table, clock, i, rows, S, partial, carry, d_plan, beta, g_planner, g_seen, COLUMNS: tl.constexpr,
    OFFSET: tl.constexpr, UPWARD: tl.constexpr, SEEN: tl.constexpr, LAST: tl.constexpr, GATED: tl.constexpr,
    A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, WHOLE: tl.constexpr,
    SHARES: tl.constexpr, BLOCK_S: tl.constexpr, BLOCKS: tl.constexpr, KIND: tl.constexpr, NORM: tl.constexpr,
    LEARNED: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr, KEPT: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Back through softmax, plan update, gate and commitment. Grid: rows. `partial`: from `context_back`.

    `d_plan` is the gradient of A_t [B, S, k] (PAG) or of the repeated α_t [B, S] (rPAG) that later
    steps sent, replaced by what this step sends on; `carry` [B, k] the same for the logits; `beta` is
    filled with the read of A_{t-1} once more.
    """
    t = tl.load(clock + 1) - 1 - tl.load(clock) - i
    if t < 0:
        return
    b, s, kk = tl.program_id(0), tl.arange(0, WHOLE), tl.arange(0, KP)
    row, here = t * rows + b, s < S
    there = (b * tl.load(clock + 1) + t).to(tl.int64)
    # Loads before the first store: the compiler may not move them past one.
    given = tl.load(at(table, GIVEN_ALIGNMENT, tl.float32) + there * S + s, here, 0.0)
    if KIND == PAG:
        both, wide = here[:, None] & (kk[None] < K), s[:, None] * K + kk[None]
        now = row.to(tl.int64) * S * K
        plan = at(table, PLAN, tl.float32) + now
        before = tl.load(plan + wide, both, 0.0)
        followed = tl.load(plan + wide + 1, both & (kk[None] + 1 < K), 0.0)
        gate = floats(at(table, GATE, C) + now + wide, both)
        difference = floats(at(table, CANDIDATE, C) + now + wide, both) - before
        d_after = tl.load(d_plan + b * S * K + wide, both, 0.0)
    for block in tl.static_range(SHARES):
        given += tl.load(partial + (block * rows + b) * S + s, here, 0.0)
    alignment = at(table, ALIGNMENT, tl.float32)
    commitment: tl.constexpr = OFFSET + A + (K if KIND == PAG else 0)
    if KIND == RPAG:
        on = tl.load(at(table, SWITCH, tl.float32) + row) > 0
        given += tl.load(d_plan + b * S + s, here, 0.0)
        tl.store(d_plan + b * S + s, tl.where(on, 0.0, given), here)
        weights = tl.load(at(table, FRESH, tl.float32) + row * S + s, here, 0.0)
        before = tl.load(alignment + (row - rows) * S + s, here & (t > 0), 0.0)
        d_switch = tl.sum(tl.where(here, given * (weights - before), 0.0), 0)
        given = tl.where(on, given, 0.0)
        commit_back(
            table, t, rows, b, kk, d_switch, g_planner, g_seen, carry, COLUMNS, commitment, UPWARD, SEEN, LAST, K,
            KIND, NORM, LEARNED, KEPT, C,
        )  # fmt: skip
    else:
        weights = tl.load(alignment + row * S + s, here, 0.0)
    given = weights * (given - tl.sum(weights * given, 0))
    if KIND == PAG:
        on = tl.load(at(table, SWITCH, tl.float32) + row) > 0
        d_after = tl.where(both, d_after + tl.where(kk[None] == 0, given[:, None], 0.0), 0.0)
        d_switch = tl.sum(tl.sum(d_after * (before + gate * difference - followed), 1), 0)
        renewed = tl.where(on, d_after, 0.0)
        tl.store(at(table, D_CANDIDATE, C) + now + wide, (renewed * gate).to(C), both)
        d_gate = renewed * difference * gate * (1 - gate)
        add_to(at(table, D_GATE_KEYS, tl.float32) + b * S * K + wide, d_gate, both)
        tl.debug_barrier()
        # A step that follows the plan sends each row's gradient to the row it came from, one further on.
        further = tl.where(on, 0, 1)
        sent = tl.where(on, d_after * (1 - gate), d_after)
        tl.store(d_plan + b * S * K + wide + further, sent, both & (kk[None] + further < K))
        tl.store(d_plan + b * S * K + wide, tl.zeros_like(sent), both & (kk[None] < further))
        d_moving = tl.sum(d_gate, 0)
        if GATED:
            tl.store(g_seen + b * SEEN + LAST + kk, d_moving.to(C), kk < K)
            tl.store(at(table, D_SEEN, C) + row.to(tl.int64) * KEPT + LAST // 2 + kk, d_moving.to(C), kk < K)
        if NORM:
            d_moving = small_unnorm(table, GATE_NORM, GATE_RAW, D_GATE_NORM, row, b, d_moving, kk, K)
        to_planner(table, g_planner, row, b, d_moving, OFFSET + A + kk, kk < K, COLUMNS, UPWARD, C)
        commit_back(
            table, t, rows, b, kk, d_switch, g_planner, g_seen, carry, COLUMNS, commitment, UPWARD, SEEN, LAST, K,
            KIND, NORM, LEARNED, KEPT, C,
        )  # fmt: skip
        if on:
            write_beta(table, plan, beta, b, S, K, KP, R, RP, BLOCK_S, BLOCKS, NORM, FAST, PRECISION, C)
    else:
        tl.store(at(table, D_CANDIDATE, C) + row * S + s, given.to(C), here)


@triton.jit
def hidden_back(
    table, row, b, s, a, S, moving, head, summary, beta, A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,
    PLANS: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The tanh of `hide` once more, and the gradient before it; the head's gradient beside them."""
    kk, inside, here = tl.arange(0, KP), a < A, s < S
    both = here[:, None] & inside[None]
    energy = floats(at(table, KEYS, C) + (b * S + s)[:, None] * A + a[None], both) + moving[None]
    now = row.to(tl.int64) * S
    if PLANS:
        hidden = tanh(energy + tl.dot(beta, tl.trans(summary), input_precision=PRECISION), FAST)
        candidate = at(table, D_CANDIDATE, C) + now * K
        given = tl.load(candidate + s[:, None] * K + kk[None], here[:, None] & (kk[None] < K), 0.0)
        d_hidden = tl.dot(given, head, input_precision=PRECISION)
    else:
        hidden = tanh(energy, FAST)
        given = floats(at(table, D_CANDIDATE, C) + now + s, here)
        d_hidden = given[:, None] * head[None]
    d_energy = tl.where(both, d_hidden * (1 - hidden * hidden), 0.0)
    return hidden, d_energy, given


@triton.jit(do_not_specialize=["i"])
def hide_back(
    table, clock, i, rows, S, beta, partial, d_moving, g_planner, COLUMNS: tl.constexpr, OFFSET: tl.constexpr,
    UPWARD: tl.constexpr, A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCKS: tl.constexpr, BLOCK_A: tl.constexpr, KIND: tl.constexpr, NORM: tl.constexpr, FAST: tl.constexpr,
    PRECISION: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """What the loop needs of the way back through `hide`: the gradient of what moves, and this block's
    share of β's [blocks, B, S, RP]. Grid: blocks of the energy's units × rows."""
    t = tl.load(clock + 1) - 1 - tl.load(clock) - i
    if t < 0:
        return
    b = tl.program_id(1)
    a = tl.program_id(0) * BLOCK_A + tl.arange(0, BLOCK_A)
    inside, row, r = a < A, t * rows + b, tl.arange(0, RP)
    total = tl.zeros([BLOCK_A], tl.float32)
    head, summary = hide_weights(table, a, A, K, KP, R, RP, KIND == PAG, C)
    on = t >= 0
    if KIND != BASELINE:
        on = tl.load(at(table, SWITCH, tl.float32) + row) > 0
    if on:
        moving = floats(at(table, MOVING, C) + row * A + a, inside)
        for block in range(BLOCKS):
            s = block * BLOCK_S + tl.arange(0, BLOCK_S)
            read = summary
            if KIND == PAG:
                read = tl.load(beta + (b * S + s)[:, None] * RP + r[None], (s[:, None] < S) & (r[None] < RP), 0.0)
            _, d_energy, _ = hidden_back(
                table, row, b, s, a, S, moving, head, summary, read, A, K, KP, KIND == PAG, FAST, PRECISION, C
            )
            total += tl.sum(d_energy, 0)
            if KIND == PAG:
                share = tl.dot(d_energy.to(C), summary, input_precision=PRECISION)
                place = ((tl.program_id(0) * rows + b) * S + s)[:, None] * RP + r[None]
                tl.store(partial + place, share.to(C), (s[:, None] < S) & (r[None] < RP))
    if NORM:
        tl.store(d_moving + b * A + a, total, inside)
    else:
        to_planner(table, g_planner, row, b, total, OFFSET + a, inside, COLUMNS, UPWARD, C)


@triton.jit(do_not_specialize=["i"])
def move_back(
    table, clock, i, rows, d_moving, g_planner, COLUMNS: tl.constexpr, OFFSET: tl.constexpr, UPWARD: tl.constexpr,
    A: tl.constexpr, AP: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Back through the layer normalisation of W_s s_{t-1}. Grid: rows."""
    t = tl.load(clock + 1) - 1 - tl.load(clock) - i
    if t < 0:
        return
    b, a = tl.program_id(0), tl.arange(0, AP)
    row, inside = t * rows + b, a < A
    given = tl.load(d_moving + b * A + a, inside, 0.0)
    tl.store(at(table, D_MOVING, C) + row * A + a, given.to(C), inside)
    unit = floats(at(table, STATE_UNIT, C) + row * A + a, inside)
    sums = at(table, D_STATE_NORM, tl.float32) + b * 2 * A + a
    add_to(sums, given * unit, inside)
    add_to(sums + A, given, inside)
    weight = tl.load(at(table, STATE_NORM, tl.float32) + a, inside, 0.0)
    scale = tl.load(at(table, STATE_SCALE, tl.float32) + row)
    given = unnormalise(given, weight, unit, scale, inside, A)
    to_planner(table, g_planner, row, b, given, OFFSET + a, inside, COLUMNS, UPWARD, C)


@triton.jit(do_not_specialize=["i"])
def read_back(
    table, clock, i, rows, S, partial, d_plan, CHUNKS: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,
    R: tl.constexpr, RP: tl.constexpr, BLOCK_S: tl.constexpr, BLOCKS: tl.constexpr, NORM: tl.constexpr, FAST: tl.constexpr,
    PRECISION: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Back through the read, into the gradient of A_{t-1} and this row's sums of the read's. Grid: rows."""
    t = tl.load(clock + 1) - 1 - tl.load(clock) - i
    if t < 0:
        return
    b, kk, r = tl.program_id(0), tl.arange(0, KP), tl.arange(0, RP)
    row, known = t * rows + b, (r < R)[None]
    if tl.load(at(table, SWITCH, tl.float32) + row) > 0:
        for block in range(BLOCKS):
            s = block * BLOCK_S + tl.arange(0, BLOCK_S)
            given = tl.zeros([BLOCK_S, RP], tl.float32)
            for c in range(CHUNKS):
                place = ((c * rows + b) * S + s)[:, None] * RP + r[None]
                given += floats(partial + place, (s[:, None] < S) & known)
            plan = at(table, PLAN, tl.float32) + row.to(tl.int64) * S * K
            beta, unit, scale, values = read_plan(table, plan, s, S, K, KP, R, RP, NORM, FAST, PRECISION)
            given = tl.where(known, given * (1 - beta * beta), 0.0)
            if NORM:
                sums = at(table, D_READ_NORM, tl.float32) + b * 2 * R + r
                add_to(sums, tl.sum(given * unit, 0), r < R)
                add_to(sums + R, tl.sum(given, 0), r < R)
                inner = given * tl.load(at(table, READ_NORM, tl.float32) + r, r < R, 0.0)[None]
                along = tl.sum(inner * unit, 1) / R
                given = inner - (tl.sum(inner, 1) / R)[:, None] - unit * along[:, None]
                given = tl.where(known, given * scale[:, None], 0.0)
            add_to(at(table, D_READ_BIAS, tl.float32) + b * R + r, tl.sum(given, 0), r < R)
            weight_mask = (r[:, None] < R) & (kk[None] < K)
            d_weight = tl.dot(tl.trans(given), values, input_precision=PRECISION)
            add_to(at(table, D_READ, tl.float32) + b * R * K + r[:, None] * K + kk[None], d_weight, weight_mask)
            weight = tl.load(at(table, READ, tl.float32) + r[:, None] * K + kk[None], weight_mask, 0.0)
            sent = tl.dot(given, weight, input_precision=PRECISION)
            both = (s[:, None] < S) & (kk[None] < K)
            add_to(d_plan + b * S * K + s[:, None] * K + kk[None], sent, both)


@triton.jit
def hide_sums(
    table, rows, S, T, A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr,
    RP: tl.constexpr, BLOCK_S: tl.constexpr, BLOCKS: tl.constexpr, BLOCK_A: tl.constexpr, KIND: tl.constexpr, NORM: tl.constexpr,
    FAST: tl.constexpr, PRECISION: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """What can wait until after the loop of the way back through `hide`: the gradients of the keys, of
    W_β and of the head, each summed over all steps in registers.

    Grid: blocks of the energy's units × rows × blocks of positions. The weights' come as one share
    per row and block of positions.
    """
    b, block = tl.program_id(1), tl.program_id(2)
    a = tl.program_id(0) * BLOCK_A + tl.arange(0, BLOCK_A)
    s = block * BLOCK_S + tl.arange(0, BLOCK_S)
    inside, kk, r = a < A, tl.arange(0, KP), tl.arange(0, RP)
    d_keys = tl.zeros([BLOCK_S, BLOCK_A], tl.float32)
    head, summary = hide_weights(table, a, A, K, KP, R, RP, KIND == PAG, C)
    if KIND == PAG:
        d_summary = tl.zeros([RP, BLOCK_A], tl.float32)
        d_head = tl.zeros([KP, BLOCK_A], tl.float32)
    else:
        d_summary = tl.zeros([BLOCK_A], tl.float32)
        d_head = tl.zeros([BLOCK_A], tl.float32)
    row = b
    while row < T * rows:
        on = row >= 0
        if KIND != BASELINE:
            on = tl.load(at(table, SWITCH, tl.float32) + row) > 0
        if on:
            moving = floats(at(table, MOVING, C) + row * A + a, inside)
            beta = summary
            if KIND == PAG:
                plan = at(table, PLAN, tl.float32) + row.to(tl.int64) * S * K
                beta, _, _, _ = read_plan(table, plan, s, S, K, KP, R, RP, NORM, FAST, PRECISION)
                beta = beta.to(C)
            hidden, d_energy, given = hidden_back(
                table, row, b, s, a, S, moving, head, summary, beta, A, K, KP, KIND == PAG, FAST, PRECISION, C
            )
            d_keys += d_energy
            if KIND == PAG:
                d_summary += tl.dot(tl.trans(beta), d_energy.to(C), input_precision=PRECISION)
                d_head += tl.dot(tl.trans(given), hidden.to(C), input_precision=PRECISION)
            else:
                d_head += tl.sum(hidden * given[:, None], 0)
        row += rows
    both = (s[:, None] < S) & inside[None]
    tl.store(at(table, D_KEYS, tl.float32) + (b * S + s)[:, None] * A + a[None], d_keys, both)
    share = (b * BLOCKS + block).to(tl.int64)
    if KIND == PAG:
        place = share * A * R + a[None] * R + r[:, None]
        tl.store(at(table, D_SUMMARY, tl.float32) + place, d_summary, inside[None] & (r[:, None] < R))
        place = share * A * K + kk[:, None] * A + a[None]
        tl.store(at(table, D_HEAD, tl.float32) + place, d_head, inside[None] & (kk[:, None] < K))
    else:
        tl.store(at(table, D_HEAD, tl.float32) + share * A + a, d_head, inside)
