"""Costs of calls with arguments that no op takes: nothing is raised, and no number is below 0."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from etq.ingest.costs.arguments import Inputs
from etq.ingest.costs.call import Lengths
from etq.ingest.costs.costs import cost_of
from etq.ingest.costs.formulas import formulas
from tests.sampling import examples

FORMULAS = formulas()
SIZES = st.lists(st.sampled_from([0, 1, 2, 3, 8, 64, -1, 2**62, 2**70]), max_size=5)
SHAPES: st.SearchStrategy[Any] = st.one_of(
    SIZES, SIZES, st.lists(SIZES, max_size=3), st.sampled_from(["x", None, 3, 2.5, {}, [None], ["2"]])
)
TYPES = st.sampled_from(
    ["float", "c10::BFloat16", "int", "TensorList", "Scalar", "", "ScalarList", "bool", "OpaqueType<", "c10::complex<float>", 3]
)  # fmt: skip
VALUES = st.sampled_from(
    ["True", "False", "0", "1", "-1", "[0, 1]", "[-1]", "[]", "[True, False]", "0.5", "", "tanh", "1e999", "nan", "[-5, -7]",
     "9223372036854775807", "[[1]]", "{"]
)  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Inputs | None]:
    op = draw(st.sampled_from(sorted(FORMULAS.of_ops)))
    counts = [len(FORMULAS.arguments.get(op, ())), *(given for other, given in FORMULAS.outs if other == op), 3]
    count = draw(st.sampled_from(counts))

    def column(each: st.SearchStrategy[Any]) -> str | None:
        return draw(st.one_of(st.just(None), st.lists(each, min_size=count, max_size=count).map(json.dumps)))

    shapes = json.dumps(draw(st.lists(SHAPES, min_size=count, max_size=count)))
    return op, Inputs.of(shapes, column(TYPES), column(SHAPES), column(VALUES))


@examples(2000)
@given(
    calls(),
    st.sampled_from([None, ("float", "int")]),
    st.sampled_from([None, Lengths(1, 2, 3, 0, 0, 0)]),
    st.sampled_from([None, {"top_k": "2", "seen_keys": "3", "used_experts": "0.5"}]),
    st.integers(0, 3),
)
def test_impossible_arguments(
    call: tuple[str, Inputs | None],
    listed: tuple[str, ...] | None,
    lengths: Lengths | None,
    assumed: dict[str, str] | None,
    products: int,
) -> None:
    op, inputs = call
    assert inputs is not None
    found = cost_of(op.replace(".", "::", 1), FORMULAS.of_ops[op], inputs, listed, lengths, assumed, products)
    for number in (found.flops, found.bytes, found.most_bytes, found.flops_at_most, found.flops_at_least):
        assert number is None or 0 <= number < 2**63
