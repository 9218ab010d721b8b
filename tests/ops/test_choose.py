"""Which pass is chosen, and that it is said."""

import pytest
import torch
from unroll_cases import Case

from pag.attention.baseline import BaselineAttention
from pag.decoder import Decoder
from pag.errors import PagError
from pag.ops import unroll
from pag.ops.unroll import choose, fused, reference


@pytest.fixture
def decoder() -> Decoder:
    return Case("pag", steps=1).decoder


@pytest.mark.parametrize("backend", ["auto", "fused"])
def test_on_a_cpu_the_fused_pass_is_chosen(backend: str, decoder: Decoder) -> None:
    chosen, why = choose(backend, "cpu", decoder)
    assert chosen is fused.unroll and why.startswith("fused")


def test_the_reference_can_be_forced(decoder: Decoder) -> None:
    assert choose("reference", "cuda", decoder)[0] is reference.unroll


def test_an_unknown_backend_names_the_known_ones(decoder: Decoder) -> None:
    with pytest.raises(PagError, match=r"'fuse' .did you mean 'fused'"):
        choose("fuse", "cpu", decoder)


def test_a_gpu_with_triton_gets_the_kernels(decoder: Decoder) -> None:
    kernel = pytest.importorskip("pag.ops.unroll.kernel", reason="Triton is not installed")
    assert choose("auto", torch.device("cuda"), decoder)[0] is kernel.unroll


def test_without_triton_auto_says_what_it_does_instead(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unroll, "find_spec", lambda name: None)
    chosen, why = choose("auto", "cuda", decoder)
    assert chosen is fused.unroll and "not installed" in why


def test_without_triton_a_forced_fused_pass_is_an_error(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unroll, "find_spec", lambda name: None)
    with pytest.raises(PagError, match="needs Triton"):
        choose("fused", "cuda", decoder)


def test_an_attention_of_one_s_own_runs_in_the_plain_loop(decoder: Decoder) -> None:
    class Own(BaselineAttention):
        pass

    decoder.attention = Own(44, 60, 30)
    chosen, why = choose("auto", "cpu", decoder)
    assert chosen is reference.unroll and "Own" in why
    with pytest.raises(PagError, match="no fused pass for Own"):
        choose("fused", "cpu", decoder)
