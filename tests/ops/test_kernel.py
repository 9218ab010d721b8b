"""The Triton kernels, called by name: in Triton's interpreter here, and compiled where there is a GPU."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from unroll_cases import Case, outputs, worst

from pag.layers import GRUCell
from pag.ops.unroll import reference
from pag.ops.unroll.packing import describe, pack

triton = pytest.importorskip("triton", reason="Triton is not installed")
tl = pytest.importorskip("triton.language")

from pag.ops.unroll import backward_kernels, forward_kernels, kernel, machine  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = 1e-4  # float32 against float64
SMALL = {
    "rows": 2, "positions": 19, "steps": 3, "units": 20, "annotations": 24, "token": 10, "size": 28, "read_size": 12,
    "k": 5,
}  # fmt: skip
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: CUDA graphs, bfloat16 products")


@pytest.fixture(autouse=True)
def short_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes its time over steps that only return."""
    if DEVICE == "cpu":
        monkeypatch.setattr(machine, "CHUNK", 2)


def decided(name: str, layer_norm: bool = False, **changes: Any) -> Case:
    """A case whose noise is strong, so that rounding flips no choice."""
    case = Case(name, layer_norm, **(SMALL | changes))
    case.noise *= 4
    return case


def assert_near(case: Case, near: float = NEAR, **how: Any) -> None:
    expected = case.run(reference.unroll, **how)
    name, distance = worst(case.to(DEVICE, torch.float32).run(kernel.unroll, **how), expected)
    assert distance < near, f"{name} is off by {distance:.1e}"


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_the_kernels_are_the_reference_in_everything(name: str, layer_norm: bool) -> None:
    assert_near(decided(name, layer_norm))


@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_the_lower_state_may_plan(name: str) -> None:
    assert_near(decided(name, layer_norm=True, plans_from="lower"))


@pytest.mark.parametrize("name", ["pag", "rpag"])
def test_a_held_switch_is_the_reference_s(name: str) -> None:
    assert_near(decided(name), held=True)


@pytest.mark.parametrize("settings", [{"estimator": "reinforce"}, {"temperature": 0.7}, {"gate_context": False}])
def test_every_setting_is_the_reference_s(settings: dict[str, Any]) -> None:
    assert_near(decided("pag", **settings))


@pytest.mark.parametrize("name", ["pag", "rpag"])
def test_the_price_on_re_planning_is_the_reference_s(name: str) -> None:
    case = decided(name)
    expected = case.price(reference.unroll)
    assert worst(case.to(DEVICE, torch.float32).price(kernel.unroll), expected)[1] < NEAR


def test_without_noise_the_kernels_are_the_reference() -> None:
    assert_near(decided("rpag"), noisy=False)


def test_sources_longer_than_a_tile_and_more_steps_than_a_graph_are_the_reference_s() -> None:
    assert_near(decided("pag", positions=machine.BLOCK_S + 3, steps=machine.CHUNK + 1))


def test_more_energy_units_than_a_tile_are_the_reference_s() -> None:
    assert_near(decided("pag", steps=2, size=machine.BLOCK_A + 5, annotations=machine.BLOCK_N + 7))


def test_without_gradients_the_outputs_are_the_same() -> None:
    case = decided("pag")
    with torch.no_grad():
        expected = dict(outputs(reference.unroll(case.decoder, case.tokens, case.memory(), case.noise)))
        case = case.to(DEVICE, torch.float32)
        found = dict(outputs(kernel.unroll(case.decoder, case.tokens, case.memory(), case.noise)))
    assert worst(found, expected)[1] < NEAR


def test_a_pass_of_another_decoder_between_a_pass_s_ways_out_and_back_disturbs_nothing() -> None:
    case, other = decided("pag").to(DEVICE, torch.float32), decided("pag", seed=1).to(DEVICE, torch.float32)
    alone = case.run(kernel.unroll)

    def interrupted(*arguments: Any) -> Any:
        trace = kernel.unroll(*arguments)
        kernel.unroll(other.decoder, arguments[1] + 1, *arguments[2:])
        return trace

    again = case.run(interrupted)
    assert all(torch.equal(alone[name], again[name]) for name in alone)


def test_gradients_that_begin_between_two_wide_words_are_read_all_the_same() -> None:
    case = decided("baseline", rows=1, steps=2).to(DEVICE, torch.float32)
    trace = kernel.unroll(case.decoder, case.tokens, case.memory())
    given = torch.randn(1 + trace.upper.numel(), device=DEVICE)[1:].view(trace.upper.shape)
    (odd,) = torch.autograd.grad(trace.upper, case.tokens, given, retain_graph=True)
    (even,) = torch.autograd.grad(trace.upper, case.tokens, given.clone())
    assert torch.equal(odd, even)


def test_a_recorded_pass_carries_the_plan() -> None:
    case = decided("pag", steps=2).to(DEVICE, torch.float32)
    assert kernel.unroll(case.decoder, case.tokens, case.memory(), case.noise, record=True).glimpses.plan is not None


def test_machines_are_kept_for_only_so_many_sizes_and_the_one_unused_for_longest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "GRAPHS", 2)
    for rows in (1, 2, 1, 3):
        case = decided("baseline", rows=rows).to(DEVICE, torch.float32)
        packed = pack(case.decoder, case.tokens, case.memory())
        machine.machine(describe(case.decoder, case.tokens, case.memory(), False), packed, False, torch.float32)
    assert [layout.rows for layout, *_ in machine.MACHINES] == [1, 3]


@pytest.mark.parametrize("name", ["baseline", "pag"])
def test_a_source_too_long_for_the_kernels_is_passed_without_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(kernel, "Pass")
    assert_near(decided(name, positions=kernel.LONGEST + 1))


def addresses(**tensors: Tensor) -> Tensor:
    table = [0] * len(forward_kernels.SLOTS)
    for name, tensor in tensors.items():
        table[forward_kernels.SLOTS.index(name)] = tensor.data_ptr()
    return torch.tensor(table, device=DEVICE)


def clock(step: int, steps: int) -> Tensor:
    return torch.tensor([step, steps], dtype=torch.int32, device=DEVICE)


def test_the_shares_of_a_product_add_up() -> None:
    given, weight = torch.randn(5, 70, device=DEVICE), torch.randn(70, 37, device=DEVICE)
    shares = torch.full((3, 5, 37), float("nan"), device=DEVICE)
    backward_kernels.product[(2, 3, 1)](
        given, weight, shares, 5, COLUMNS=70, N=37, PART=32, BLOCK_M=16, BLOCK_N=32, BLOCK_K=16
    )
    near = 1e-5 if DEVICE == "cpu" else 1e-2  # a compiled dot of float32 rounds to tf32
    torch.testing.assert_close(shares.sum(0), given @ weight, rtol=near, atol=10 * near)


def test_attend_gives_the_mean_annotation_that_the_alignment_weighs() -> None:
    annotations, alignment = torch.randn(2, 16, 24, device=DEVICE), torch.rand(3, 2, 16, device=DEVICE)
    context, into = torch.zeros(4, 2, 24, device=DEVICE), torch.zeros(2, 24, device=DEVICE)
    table = addresses(annotations=annotations, alignment=alignment, context=context)
    forward_kernels.attend[(2, 2)](table, clock(1, 3), 0, 2, 16, into, N=24, WHOLE=16, BLOCK_N=16, C=tl.float32)
    expected = torch.einsum("bs,bsn->bn", alignment[1], annotations)
    torch.testing.assert_close(context[2], expected)
    torch.testing.assert_close(into, expected)
    assert not context[[0, 1, 3]].any()


def test_a_step_past_the_clock_s_end_writes_nothing() -> None:
    context, into = torch.zeros(4, 2, 24, device=DEVICE), torch.zeros(2, 24, device=DEVICE)
    table = addresses(annotations=into, alignment=into, context=context)
    forward_kernels.attend[(2, 2)](table, clock(1, 3), 2, 2, 16, into, N=24, WHOLE=16, BLOCK_N=16, C=tl.float32)
    assert not context.any() and not into.any()


@pytest.mark.parametrize("layer_norm", [False, True])
def test_gru_is_the_cell(layer_norm: bool) -> None:
    """Here the lower cell: token and context parts of the input come apart, the state's bias too."""
    d, cell = 6, GRUCell(4, 6, layer_norm).to(DEVICE)
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter)
    state, inputs = torch.randn(2, d, device=DEVICE), torch.randn(2, 4, device=DEVICE)
    states = torch.stack([state, torch.zeros_like(state)])
    token = F.linear(inputs[:, :1], cell.input.weight[:, :1], cell.input.bias).contiguous()
    seen = torch.cat([F.linear(inputs[:, 1:], cell.input.weight[:, 1:]), torch.zeros(2, 3 * d, device=DEVICE)], 1)
    low = torch.cat([torch.zeros(2, 3 * d, device=DEVICE), F.linear(state, cell.state.weight)], 1)
    tensors = {"lower": states, "token_lower": token, "lower_gates": torch.zeros(1, 2, 4 * d, device=DEVICE)}
    tensors["low_bias"] = torch.cat([torch.zeros(3 * d, device=DEVICE), cell.state.bias]).detach()
    if layer_norm:
        for name, norm in (("lower_input", cell.input_norm), ("lower_state", cell.state_norm)):
            tensors[name + "_norm"] = torch.stack([norm.weight, norm.bias]).detach()
            tensors[name + "_unit"] = torch.zeros(1, 2, 3 * d, device=DEVICE)
            tensors[name + "_scale"] = torch.zeros(1, 2, 3, device=DEVICE)
    into = torch.zeros(2, d, device=DEVICE)
    with torch.no_grad():
        forward_kernels.gru[(2, 1)](
            addresses(**tensors), clock(0, 1), 0, 2, low, low, seen, into, D=d, DP=8, UP=6 * d, LOW=6 * d, SEEN=6 * d,
            FIRST=True, NORM=layer_norm, C=tl.float32,
        )  # fmt: skip
        expected = cell(inputs, state)
    torch.testing.assert_close(states[1], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(into, expected, rtol=1e-4, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_float32_on_a_gpu_is_near_float64(name: str, layer_norm: bool) -> None:
    case = Case(name, layer_norm)
    case.noise *= 4
    assert_near(case, 1e-3)


@needs_gpu
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", ["baseline", "pag", "rpag"])
def test_bfloat16_products_are_as_near_as_the_reference_s(name: str, layer_norm: bool) -> None:
    """Pooled over all gradients, at most half as far again as the reference under autocast; 6 % at most."""
    case = Case(name, layer_norm)
    case.noise *= 4
    expected = case.run(reference.unroll)
    case = case.to("cuda", torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        found, plain = case.run(kernel.unroll), case.run(reference.unroll)
    assert pooled(found, expected) < min(0.06, 1.5 * pooled(plain, expected))


@needs_gpu
def test_one_graph_serves_every_length() -> None:
    machine.MACHINES.clear()
    for steps in (13, 3, 21):
        assert_near(decided("pag", steps=steps), 1e-3)
    assert len(machine.MACHINES) == 1


def pooled(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    names = [name for name in expected if name.startswith("gradient")]
    off = [(found[name].double().cpu() - expected[name]).flatten() for name in names]
    return float(torch.cat(off).norm() / torch.cat([expected[name].flatten() for name in names]).norm())
