"""One decoder step in Triton, forward. Five kernels around three matrix products.

A CUDA graph fixes every argument of a launch, so the long tensors (one slice per step) are not
arguments: their addresses stand in a table on the device, and the step is read from a clock.
One captured graph then serves every target length, and no input or output is copied.

`clock` holds the first step of this replay and how many steps there are; `i` counts from the
former. Products come as float32 work rows `up`, `low` and `seen` (see `packing.py`), biases apart.
"""

# ruff: noqa: N803
# mypy: ignore-errors

import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-5)
FREED = tl.constexpr(-10.0)
BASELINE, PAG, RPAG = (tl.constexpr(i) for i in range(3))

SLOTS = [
    "keys", "annotations", "mask", "token_energy", "token_lower", "up_bias", "low_bias", "lower", "upper",
    "context", "alignment", "fresh", "moving", "lower_gates", "upper_gates", "head", "head_bias", "gate_keys",
    "read", "read_bias", "summary", "plan", "candidate", "gate", "noise", "logits", "choice", "temperature",
    "lower_input_norm", "lower_state_norm", "upper_input_norm", "upper_state_norm", "state_norm", "gate_norm",
    "commitment_norm", "read_norm", "lower_input_unit", "lower_state_unit", "upper_input_unit",
    "upper_state_unit", "state_unit", "lower_input_scale", "lower_state_scale", "upper_input_scale",
    "upper_state_scale", "state_scale", "gate_raw", "commitment_raw",
    "given_lower", "given_upper", "given_context", "given_alignment", "given_switch", "switch", "pull_logits",
    "pull_logits_through", "pull_temperature", "pull_temperature_through", "d_up", "d_low", "d_seen", "d_context",
    "d_candidate", "d_gate_keys", "d_keys", "d_head", "d_summary", "d_read", "d_read_bias", "d_moving",
    "d_lower_input_norm", "d_lower_state_norm", "d_upper_input_norm", "d_upper_state_norm", "d_state_norm",
    "d_gate_norm", "d_commitment_norm", "d_read_norm",
]  # fmt: skip
(
    KEYS, ANNOTATIONS, MASK, TOKEN_ENERGY, TOKEN_LOWER, UP_BIAS, LOW_BIAS, LOWER, UPPER,
    CONTEXT, ALIGNMENT, FRESH, MOVING, LOWER_GATES, UPPER_GATES, HEAD, HEAD_BIAS, GATE_KEYS,
    READ, READ_BIAS, SUMMARY, PLAN, CANDIDATE, GATE, NOISE, LOGITS, CHOICE, TEMPERATURE,
    LOWER_INPUT_NORM, LOWER_STATE_NORM, UPPER_INPUT_NORM, UPPER_STATE_NORM, STATE_NORM, GATE_NORM,
    COMMITMENT_NORM, READ_NORM, LOWER_INPUT_UNIT, LOWER_STATE_UNIT, UPPER_INPUT_UNIT,
    UPPER_STATE_UNIT, STATE_UNIT, LOWER_INPUT_SCALE, LOWER_STATE_SCALE, UPPER_INPUT_SCALE,
    UPPER_STATE_SCALE, STATE_SCALE, GATE_RAW, COMMITMENT_RAW,
    GIVEN_LOWER, GIVEN_UPPER, GIVEN_CONTEXT, GIVEN_ALIGNMENT, GIVEN_SWITCH, SWITCH, PULL_LOGITS,
    PULL_LOGITS_THROUGH, PULL_TEMPERATURE, PULL_TEMPERATURE_THROUGH, D_UP, D_LOW, D_SEEN, D_CONTEXT,
    D_CANDIDATE, D_GATE_KEYS, D_KEYS, D_HEAD, D_SUMMARY, D_READ, D_READ_BIAS, D_MOVING,
    D_LOWER_INPUT_NORM, D_LOWER_STATE_NORM, D_UPPER_INPUT_NORM, D_UPPER_STATE_NORM, D_STATE_NORM,
    D_GATE_NORM, D_COMMITMENT_NORM, D_READ_NORM,
) = (tl.constexpr(i) for i in range(len(SLOTS)))  # fmt: skip


@triton.jit
def at(table, slot: tl.constexpr, dtype: tl.constexpr):
    """The tensor whose address stands in this slot."""
    return tl.multiple_of(tl.load(table + slot).to(tl.pointer_type(dtype)), 16)


@triton.jit
def floats(pointer, mask):
    return tl.load(pointer, mask, 0.0).to(tl.float32)


@triton.jit
def tanh(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:
        return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def normalise(x, inside, size):
    """Mean zero and deviation one over the entries inside; also 1/deviation."""
    centred = tl.where(inside, x - tl.sum(tl.where(inside, x, 0.0), 0) / size, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / size + EPSILON)
    return centred * scale, scale


@triton.jit
def small_norm(table, norm: tl.constexpr, raw: tl.constexpr, row, x, kk, K: tl.constexpr):
    """Layer normalisation of k values; they are kept as they were."""
    inside = kk < K
    tl.store(at(table, raw, tl.float32) + row * K + kk, x, inside)
    unit, _ = normalise(x, inside, K)
    weights = at(table, norm, tl.float32)
    return unit * tl.load(weights + kk, inside, 0.0) + tl.load(weights + K + kk, inside, 0.0)


@triton.jit
def read_plan(
    table, plan, s, S, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr,
    NORM: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """β_j = tanh(W_r A[:, j] + b_r) of the positions `s` of one row's plan [S, k]. With layer
    normalisation also the normalised values and 1/deviation."""
    kk, r = tl.arange(0, KP), tl.arange(0, RP)
    values = tl.load(plan + s[:, None] * K + kk[None], (s[:, None] < S) & (kk[None] < K), 0.0)
    weight = tl.load(
        at(table, READ, tl.float32) + r[None] * K + kk[:, None], (r[None] < R) & (kk[:, None] < K), 0.0
    )  # [KP, RP]
    x = tl.dot(values, weight, input_precision=PRECISION)
    x += tl.load(at(table, READ_BIAS, tl.float32) + r, r < R, 0.0)[None]
    unit, scale = x, tl.sum(x, 1)
    if NORM:
        inside = (r < R)[None]
        centred = tl.where(inside, x - (tl.sum(tl.where(inside, x, 0.0), 1) / R)[:, None], 0.0)
        scale = 1 / tl.sqrt(tl.sum(centred * centred, 1) / R + EPSILON)
        unit = centred * scale[:, None]
        weights = at(table, READ_NORM, tl.float32)
        x = unit * tl.load(weights + r, r < R, 0.0)[None] + tl.load(weights + R + r, r < R, 0.0)[None]
    return tanh(x, FAST), unit, scale, values


@triton.jit(do_not_specialize=["i"])
def move(
    table, clock, i, rows, planner, COLUMNS: tl.constexpr, OFFSET: tl.constexpr, BIAS: tl.constexpr,
    A: tl.constexpr, AP: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """W_y y + LayerNorm(W_s s_{t-1}). Grid: rows. Only with layer normalisation; else `hide` adds."""
    t = tl.load(clock) + i
    if t >= tl.load(clock + 1):
        return
    b, a = tl.program_id(0), tl.arange(0, AP)
    inside, row = a < A, t * rows + b
    x = tl.load(planner + b * COLUMNS + OFFSET + a, inside, 0.0)
    x += tl.load(at(table, BIAS, tl.float32) + OFFSET + a, inside, 0.0)
    unit, scale = normalise(x, inside, A)
    tl.store(at(table, STATE_UNIT, C) + row * A + a, unit.to(C), inside)
    tl.store(at(table, STATE_SCALE, tl.float32) + row, scale)
    weights = at(table, STATE_NORM, tl.float32)
    x = unit * tl.load(weights + a, inside, 0.0) + tl.load(weights + A + a, inside, 0.0)
    x += floats(at(table, TOKEN_ENERGY, C) + row * A + a, inside)
    tl.store(at(table, MOVING, C) + row * A + a, x.to(C), inside)


@triton.jit
def hide_weights(
    table, a, A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr,
    PLANS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """This block of W_p [KP, ·] (or of w) and of W_β [·, RP]."""
    kk, r, inside = tl.arange(0, KP), tl.arange(0, RP), a < A
    if PLANS:
        head = tl.load(at(table, HEAD, C) + kk[:, None] * A + a[None], inside[None] & (kk[:, None] < K), 0.0)
        summary = tl.load(at(table, SUMMARY, C) + a[:, None] * R + r[None], inside[:, None] & (r[None] < R), 0.0)
    else:
        head = floats(at(table, HEAD, C) + a, inside)
        summary = head
    return head, summary


@triton.jit(do_not_specialize=["i"])
def hide(
    table, clock, i, rows, S, planner, beta, partial, COLUMNS: tl.constexpr, OFFSET: tl.constexpr, BIAS: tl.constexpr,
    A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCKS: tl.constexpr, BLOCK_A: tl.constexpr, PLANS: tl.constexpr, NORM: tl.constexpr,
    FAST: tl.constexpr, PRECISION: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Head · tanh(W_h h_j + W_y y + W_s s_{t-1} + W_β β_j), summed over this block of the energy's units.

    Grid: blocks of units × rows. `beta` [B, S, RP]; `partial` [blocks, B, S, KP] (PAG) or [blocks, B, S].
    """
    t = tl.load(clock) + i
    if t >= tl.load(clock + 1):
        return
    b = tl.program_id(1)
    a = tl.program_id(0) * BLOCK_A + tl.arange(0, BLOCK_A)
    inside, row, kk, r = a < A, t * rows + b, tl.arange(0, KP), tl.arange(0, RP)
    if NORM:
        moving = floats(at(table, MOVING, C) + row * A + a, inside)
    else:
        moving = tl.load(planner + b * COLUMNS + OFFSET + a, inside, 0.0)
        moving += tl.load(at(table, BIAS, tl.float32) + OFFSET + a, inside, 0.0)
        moving += floats(at(table, TOKEN_ENERGY, C) + row * A + a, inside)
        tl.store(at(table, MOVING, C) + row * A + a, moving.to(C), inside)
    keys = at(table, KEYS, C)
    head, summary = hide_weights(table, a, A, K, KP, R, RP, PLANS, C)
    place = (tl.program_id(0) * rows + b) * S
    for block in range(BLOCKS):
        s = block * BLOCK_S + tl.arange(0, BLOCK_S)
        both = (s[:, None] < S) & inside[None]
        energy = floats(keys + (b * S + s)[:, None] * A + a[None], both) + moving[None]
        if PLANS:
            read = tl.load(beta + (b * S + s)[:, None] * RP + r[None], (s[:, None] < S) & (r[None] < RP), 0.0)
            energy += tl.dot(read, tl.trans(summary), input_precision=PRECISION)
            hidden = tanh(energy, FAST).to(C)
            result = tl.dot(hidden, tl.trans(head), input_precision=PRECISION)
            tl.store(partial + (place + s)[:, None] * KP + kk[None], result, (s[:, None] < S) & (kk[None] < KP))
        else:
            result = tl.sum(tanh(energy, FAST) * head[None], 1)
            tl.store(partial + place + s, result, s < S)


@triton.jit
def commit(
    table, t, rows, b, kk, planner, seen, COLUMNS: tl.constexpr, OFFSET: tl.constexpr, BIAS: tl.constexpr,
    SEEN: tl.constexpr, LAST: tl.constexpr, K: tl.constexpr, KIND: tl.constexpr, NORM: tl.constexpr,
    NOISY: tl.constexpr, LEARNED: tl.constexpr,
):  # fmt: skip
    """Choose a slot; is it slot 0 (or the first step)?"""
    inside, row = kk < K, t * rows + b
    before = row - rows
    fresh = tl.load(planner + b * COLUMNS + OFFSET + kk, inside, 0.0)
    fresh += tl.load(at(table, BIAS, tl.float32) + OFFSET + kk, inside, 0.0)
    if NORM:
        fresh = small_norm(table, COMMITMENT_NORM, COMMITMENT_RAW, row, fresh, kk, K)
    if KIND == RPAG:
        fresh += tl.load(seen + b * SEEN + LAST + kk, inside, 0.0)
    logits, choices = at(table, LOGITS, tl.float32), at(table, CHOICE, tl.int32)
    shifted = tl.load(logits + before * K + kk + 1, (kk + 1 < K) & (t > 0), FREED)
    again = tl.load(choices + before, t > 0, 0) == 0
    chosen = tl.where(again, fresh, shifted)
    tl.store(logits + row * K + kk, chosen, inside)
    if NOISY:
        chosen += tl.load(at(table, NOISE, tl.float32) + row * K + kk, inside, 0.0)
    choice = tl.argmax(tl.where(inside, chosen, float("-inf")), 0)
    tl.store(choices + row, choice.to(tl.int32))
    if LEARNED:
        value = tl.load(planner + b * COLUMNS + OFFSET + K) + tl.load(at(table, BIAS, tl.float32) + OFFSET + K)
        tl.store(at(table, TEMPERATURE, tl.float32) + row, value)
    return (choice == 0) | (t == 0)


@triton.jit
def write_beta(
    table, plan, beta, b, S, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, NORM: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """β of one row's plan, once for all programs of `hide` or `hide_back`."""
    r = tl.arange(0, RP)
    for block in range(BLOCKS):
        s = block * BLOCK + tl.arange(0, BLOCK)
        values, _, _, _ = read_plan(table, plan, s, S, K, KP, R, RP, NORM, FAST, PRECISION)
        tl.store(beta + (b * S + s)[:, None] * RP + r[None], values.to(C), (s[:, None] < S) & (r[None] < RP))


@triton.jit(do_not_specialize=["i"])
def align(
    table, clock, i, rows, S, planner, seen, partial, beta, COLUMNS: tl.constexpr, OFFSET: tl.constexpr,
    BIAS: tl.constexpr, SEEN: tl.constexpr, LAST: tl.constexpr, GATED: tl.constexpr, CHUNKS: tl.constexpr,
    A: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, WHOLE: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCKS: tl.constexpr, KIND: tl.constexpr, NORM: tl.constexpr, NOISY: tl.constexpr,
    HELD: tl.constexpr, LEARNED: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Commitment, gate and plan update, masked softmax. Grid: rows. `planner`, `seen`: work rows; `beta`:
    the read of the new plan, for the next step."""
    t = tl.load(clock) + i
    if t >= tl.load(clock + 1):
        return
    b, s, kk = tl.program_id(0), tl.arange(0, WHOLE), tl.arange(0, KP)
    row, here = t * rows + b, s < S
    now = row.to(tl.int64) * S * K
    # Loads before the first store: the compiler may not move them past one.
    real = tl.load(at(table, MASK, tl.int8) + b * S + s, here, 0) != 0
    alignment = at(table, ALIGNMENT, tl.float32)
    if KIND == PAG:
        both, wide = here[:, None] & (kk[None] < K), s[:, None] * K + kk[None]
        fresh = tl.zeros([WHOLE, KP], tl.float32)
        for c in tl.static_range(CHUNKS):
            fresh += tl.load(partial + ((c * rows + b) * S + s)[:, None] * KP + kk[None], both, 0.0)
        fresh += tl.load(at(table, HEAD_BIAS, tl.float32) + kk, kk < K, 0.0)[None]
        moving = tl.load(planner + b * COLUMNS + OFFSET + A + kk, kk < K, 0.0)
        moving += tl.load(at(table, BIAS, tl.float32) + OFFSET + A + kk, kk < K, 0.0)
        gate = tl.load(at(table, GATE_KEYS, tl.float32) + b * S * K + wide, both, 0.0)
        plan = at(table, PLAN, tl.float32) + now
        before = tl.load(plan + wide, both, 0.0)
        followed = tl.load(plan + wide + 1, both & (kk[None] + 1 < K), 0.0)
    else:
        scores = tl.zeros([WHOLE], tl.float32)
        for c in tl.static_range(CHUNKS):
            scores += tl.load(partial + (c * rows + b) * S + s, here, 0.0)
    on = t >= 0
    if KIND != BASELINE:
        start: tl.constexpr = OFFSET + A + (K if KIND == PAG else 0)
        on = commit(
            table, t, rows, b, kk, planner, seen, COLUMNS, start, BIAS, SEEN, LAST, K, KIND, NORM, NOISY, LEARNED
        )
        if HELD:
            on = t >= 0
    if KIND == PAG:
        if NORM:
            moving = small_norm(table, GATE_NORM, GATE_RAW, row, moving, kk, K)
        if GATED:
            moving += tl.load(seen + b * SEEN + LAST + kk, kk < K, 0.0)
        gate = tl.sigmoid(gate + moving[None])
        after = tl.where(on, before + gate * (fresh - before), followed)
        tl.store(plan + rows * S * K + wide, after, both)
        tl.store(at(table, CANDIDATE, C) + now + wide, fresh.to(C), both)
        tl.store(at(table, GATE, C) + now + wide, gate.to(C), both)
        scores = tl.sum(tl.where(kk[None] == 0, after, 0.0), 1)
    scores = tl.where(real, scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 0))
    weights = weights / tl.sum(weights, 0)
    if KIND == RPAG:
        tl.store(at(table, FRESH, tl.float32) + row * S + s, weights, here)
        weights = tl.where(on, weights, tl.load(alignment + (row - rows) * S + s, here & (t > 0), 0.0))
    tl.store(alignment + row * S + s, weights, here)
    if KIND == PAG:
        tl.debug_barrier()
        write_beta(table, plan + rows * S * K, beta, b, S, K, KP, R, RP, BLOCK_S, BLOCKS, NORM, FAST, PRECISION, C)


@triton.jit(do_not_specialize=["i"])
def attend(
    table, clock, i, rows, S, into, N: tl.constexpr, WHOLE: tl.constexpr, BLOCK_N: tl.constexpr, C: tl.constexpr
):
    """ψ_t = Σ_j α_tj h_j, a block of it. Grid: rows × blocks of annotation units. `into`: the context as
    the next product reads it."""
    t = tl.load(clock) + i
    if t >= tl.load(clock + 1):
        return
    b, s = tl.program_id(0), tl.arange(0, WHOLE)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row, here = t * rows + b, s < S
    tile = at(table, ANNOTATIONS, C) + (b * S + s)[:, None] * N + n[None]
    annotations = floats(tile, here[:, None] & (n[None] < N))
    weights = tl.load(at(table, ALIGNMENT, tl.float32) + row * S + s, here, 0.0)
    context = tl.sum(annotations * weights[:, None], 0).to(C)
    tl.store(at(table, CONTEXT, C) + (row + rows) * N + n, context, n < N)
    tl.store(into + b * N + n, context, n < N)


@triton.jit
def gate_norm(
    table, norm: tl.constexpr, unit_slot: tl.constexpr, scale_slot: tl.constexpr, row, x, j, PART: tl.constexpr,
    D: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Layer normalisation of one of a GRU projection's three parts."""
    inside = j < D
    unit, scale = normalise(x, inside, D)
    tl.store(at(table, unit_slot, C) + row * 3 * D + PART * D + j, unit.to(C), inside)
    tl.store(at(table, scale_slot, tl.float32) + row * 3 + PART, scale)
    weights = at(table, norm, tl.float32) + PART * D
    return unit * tl.load(weights + j, inside, 0.0) + tl.load(weights + 3 * D + j, inside, 0.0)


@triton.jit
def gru_input(
    table, row, b, low, seen, j, PART: tl.constexpr, D: tl.constexpr, LOW: tl.constexpr, SEEN: tl.constexpr,
    FIRST: tl.constexpr, NORM: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside = j < D
    if FIRST:
        x = floats(at(table, TOKEN_LOWER, C) + row * 3 * D + PART * D + j, inside)
        x += tl.load(seen + b * SEEN + PART * D + j, inside, 0.0)
        if NORM:
            x = gate_norm(table, LOWER_INPUT_NORM, LOWER_INPUT_UNIT, LOWER_INPUT_SCALE, row, x, j, PART, D, C)
    else:
        x = tl.load(low + b * LOW + PART * D + j, inside, 0.0)
        x += tl.load(at(table, LOW_BIAS, tl.float32) + PART * D + j, inside, 0.0)
        x += tl.load(seen + b * SEEN + 3 * D + PART * D + j, inside, 0.0)
        if NORM:
            x = gate_norm(table, UPPER_INPUT_NORM, UPPER_INPUT_UNIT, UPPER_INPUT_SCALE, row, x, j, PART, D, C)
    return x


@triton.jit
def gru_state(
    table, row, b, up, low, j, PART: tl.constexpr, D: tl.constexpr, UP: tl.constexpr, LOW: tl.constexpr,
    FIRST: tl.constexpr, NORM: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside = j < D
    if FIRST:
        x = tl.load(low + b * LOW + 3 * D + PART * D + j, inside, 0.0)
        x += tl.load(at(table, LOW_BIAS, tl.float32) + 3 * D + PART * D + j, inside, 0.0)
        if NORM:
            x = gate_norm(table, LOWER_STATE_NORM, LOWER_STATE_UNIT, LOWER_STATE_SCALE, row, x, j, PART, D, C)
    else:
        x = tl.load(up + b * UP + PART * D + j, inside, 0.0)
        x += tl.load(at(table, UP_BIAS, tl.float32) + PART * D + j, inside, 0.0)
        if NORM:
            x = gate_norm(table, UPPER_STATE_NORM, UPPER_STATE_UNIT, UPPER_STATE_SCALE, row, x, j, PART, D, C)
    return x


@triton.jit(do_not_specialize=["i"])
def gru(
    table, clock, i, rows, up, low, seen, into, D: tl.constexpr, DP: tl.constexpr, UP: tl.constexpr,
    LOW: tl.constexpr, SEEN: tl.constexpr, FIRST: tl.constexpr, NORM: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The pointwise part of the lower (FIRST) or upper GRU. Grid: rows × blocks of units (one with
    layer normalisation). `into`: the state as the next product reads it."""
    t = tl.load(clock) + i
    if t >= tl.load(clock + 1):
        return
    b, j = tl.program_id(0), tl.program_id(1) * DP + tl.arange(0, DP)
    row, inside = t * rows + b, j < D
    reset = tl.sigmoid(
        gru_input(table, row, b, low, seen, j, 0, D, LOW, SEEN, FIRST, NORM, C)
        + gru_state(table, row, b, up, low, j, 0, D, UP, LOW, FIRST, NORM, C)
    )
    update = tl.sigmoid(
        gru_input(table, row, b, low, seen, j, 1, D, LOW, SEEN, FIRST, NORM, C)
        + gru_state(table, row, b, up, low, j, 1, D, UP, LOW, FIRST, NORM, C)
    )
    projected = gru_state(table, row, b, up, low, j, 2, D, UP, LOW, FIRST, NORM, C)
    x = gru_input(table, row, b, low, seen, j, 2, D, LOW, SEEN, FIRST, NORM, C)
    candidate = tanh(x + reset * projected, False)
    states = at(table, LOWER if FIRST else UPPER, tl.float32)
    state = candidate + update * (tl.load(states + row * D + j, inside, 0.0) - candidate)
    tl.store(states + (row + rows) * D + j, state, inside)
    tl.store(into + b * D + j, state.to(C), inside)
    gates = at(table, LOWER_GATES if FIRST else UPPER_GATES, C) + row.to(tl.int64) * 4 * D + j
    tl.store(gates, reset.to(C), inside)
    tl.store(gates + D, update.to(C), inside)
    tl.store(gates + 2 * D, candidate.to(C), inside)
    tl.store(gates + 3 * D, projected.to(C), inside)
