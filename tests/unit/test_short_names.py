"""Names of kernels as people read them: short, and never the same for two kernels."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.render.kernel_names import cut, full_names, short_names
from etq.render.table import table
from etq.render.terminal import TerminalStyle
from tests import trace_reference
from tests.conftest import shared_file

FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >"
    "(int, at::native::FillFunctor<int>, std::array<char*, 1ul>)"
)
MUL = FILL.replace("FillFunctor<int>", "MulFunctor<float>")
FILL_FLOAT = FILL.replace("FillFunctor<int>", "FillFunctor<float>")
COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::copy_kernel(at::TensorIteratorBase&)::{lambda()#2}"
    "::operator()() const::{lambda(float)#1}>(int, float const*) [clone .kd]"
)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([FILL], ["vectorized_elementwise_kernel<…>"]),
        ([FILL, MUL], [f"vectorized_elementwise_kernel<…, {each}<…>, …>" for each in ("FillFunctor", "MulFunctor")]),
        (
            [FILL, FILL_FLOAT],
            [f"vectorized_elementwise_kernel<…, FillFunctor<{each}>, …>" for each in ("int", "float")],
        ),
        ([COPY], ["elementwise_kernel<…>"]),
        ([COPY, COPY.replace("4, ", "8, ")], ["elementwise_kernel<…, 4, …>", "elementwise_kernel<…, 8, …>"]),
        (
            [COPY, COPY.replace("copy_kernel", "fill_kernel")],
            ["elementwise_kernel<…, copy_kernel>", "elementwise_kernel<…, fill_kernel>"],
        ),
        (["void (anonymous namespace)::softmax_warp<c10::BFloat16, 8>(int)"], ["softmax_warp<…>"]),
        (["std::enable_if<((8)==(8)), void>::type vllm::norm<c10::Half, 8>(int)"], ["norm<…>"]),
        (["void reduce<int>(int)", "void reduce<int, 2>(int)"], ["reduce<int>", "reduce<int, 2>"]),
        (["void k<unsigned long>(int)", "void k<long>(int)"], ["k<unsigned long>", "k<long>"]),
        # What differs is folded: they are shown whole.
        (["void a::k<1>(int)", "void b::k<1>(int)"], ["void a::k<1>(int)", "void b::k<1>(int)"]),
        (["void k<1>(int)", "void k<1>(long)", "k<…>"], ["void k<1>(int)", "void k<1>(long)", "k<…>"]),
        (["void k<1>(int)", "k<…>"], ["k<1>", "k<…>"]),
    ],
)
def test_by_hand(names: list[str], shown: list[str]) -> None:
    assert list(short_names(names).values()) == shown


OTHERS = [
    *("aten::add", "ProfilerStep#4", "Memcpy HtoD (Pageable -> Device)", "Memset (Device)", "volta_sgemm_128x64_nt"),
    *("model.py(3): <module>", "<built-in method add>", "nn.Module: Linear_0", "forward(batch=3)", "a < b", "x->y"),
    *("enumerate(DataLoader)#_Iter.__next__", "", "<", "void <>()", "::", "void k<(>()", "k<" * 30_000, "(" * 500),
    *("void f<" + "a<" * 500 + "b" + ">" * 500 + ">()", "torch::autograd::AccumulateGrad", "_ZN2ck6deviceE"),
]


def test_other_names_stay() -> None:
    assert [name[:60] for name in OTHERS if short_names([name]) != {name: name}] == []


@pytest.mark.parametrize("seed", range(3))
def test_different_names_are_never_the_same(seed: int) -> None:
    source = random.Random(seed)

    def made(depth: int) -> str:
        name = source.choice(("", "a::", "a::b::")) + source.choice(("k", "m", "k…", "int", "4"))
        if depth and source.random() < 0.6:
            name += f"<{', '.join(made(depth - 1) for _ in range(source.randint(1, 3)))}>"
        return name

    names = list(
        {f"{source.choice(('', 'void '))}{made(3)}{source.choice(('', '(int)', '(long)'))}" for _ in range(200)}
    )
    shown = short_names(names)
    assert list(shown) == names and len(set(shown.values())) == len(names)


def test_terminals_have_short_names_and_files_have_full_ones() -> None:
    rows = [(FILL, 1), (MUL, 2), (None, 3)]
    on_terminal = table(["kernel", "calls"], rows, TerminalStyle(120))
    assert "vectorized_elementwise_kernel<…, FillFunctor<…>, …>  " in on_terminal and "at::native" not in on_terminal
    assert FILL in table(["kernel", "calls"], rows)
    token = full_names.set(True)
    try:
        assert FILL in table(["kernel", "calls"], rows, TerminalStyle(400))
    finally:
        full_names.reset(token)


@pytest.mark.parametrize("file", ["b200_eager", "alexnet"])
def test_real_names_differ_and_are_short(file: str) -> None:
    path = shared_file(f"captures/torch/gpu/{file}.pt.trace.json.gz")
    names = {each["name"] for each in trace_reference.load(path) if each.get("cat", "").lower() == "kernel"}
    shown = short_names(sorted(names))
    assert len(set(shown.values())) == len(names)
    written = [name for name in names if "<" in name]
    assert sum(len(shown[name]) for name in written) < 0.3 * sum(map(len, written))


@given(st.lists(st.text("ab.", min_size=1, max_size=60), unique=True, max_size=40), st.integers(8, 30))
def test_texts_that_are_cut_always_differ(texts: list[str], width: int) -> None:
    """Whatever they are, and it ends."""
    shown = cut(texts, width, "~")
    assert shown.keys() == set(texts) and len(set(shown.values())) == len(texts)
    assert all(len(shown[text]) <= width and (len(text) > width or shown[text] == text) for text in texts)


def test_a_name_that_goes_on_shows_that_it_does() -> None:
    """The ends of these names are the same, so that their middles are shown: neither middle looks like an end."""
    names = [f"native_call_{op}_copy_of_something.out" for op in ("permute", "expand")]
    assert [*cut(names, 20, "~").values()] == ["native~_permute_cop~", "native~_expand_copy~"]
