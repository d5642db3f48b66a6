"""The data in `formulas.toml`: the formulas of ops, names of their arguments, and the tensors that they write into."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

# Kernels written by Inductor that select elements by index read only part of their tensors.
_CHOOSING: Final = re.compile("triton_.*(?:embedding|gather|index|scatter)")
_KERNELS: Final = (
    (re.compile("triton_tem_fused_.*flex_attention_backward"), "inductor.flex_attention_backward"),
    (re.compile("triton_tem_fused_.*flex_attention"), "inductor.flex_attention"),
    (re.compile("triton_poi_fused"), "inductor.pointwise"),
    (re.compile("triton_(?:red|per)_fused"), "inductor.reduction"),
    # Functions of Triton and of SGLang are recorded with a number.
    (re.compile(r"sage_fwd_\d+$"), "aiter.sage_fwd"),
    (re.compile(r"sage_quant_kernel_\d+$"), "aiter.sage_quant"),
    (re.compile(r"sglang_profiler::attention_paged_attention_ragged_\d+$"), "aiter.paged_attention_ragged"),
    (
        re.compile("torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<"),
        "fbgemm.permute_pooled_embs_backward",
    ),
    (
        re.compile(r"torch::autograd::CppNode<(?:\(anonymous namespace\)::)?SplitLookupFunction_"),
        "fbgemm.split_lookup_backward",
    ),
)
_OP: Final = re.compile(r"(\w+)::(\w+?)_*")


class Formula(NamedTuple):
    """How an op's cost is counted: the columns of the view `cost_formulas`."""

    op: str
    family: str
    counts: str
    per_input: int
    per_output: int
    moves: str
    sizes: str
    writes: str
    text: str


class Equal(NamedTuple):
    """The op that stands for a backend's op when devices are compared.

    label    its name in traces: the op that dispatches to the backends' ops, or one op that stands for all of these
    inputs   positions of the tensors that all of these ops have, in one order
    has_all  whether all work launched within a call of the op belongs to that call
    """

    label: str
    inputs: Sequence[int]
    has_all: bool


class Formulas(NamedTuple):
    """The content of `formulas.toml`.

    of_ops     the formula of each op
    arguments  the names of each op's arguments by position
    outs       the number of tensors that an op writes into, by the op and its number of arguments
    equal      by an op of a backend, the op for which it stands in comparisons
    """

    of_ops: Mapping[str, Formula]
    arguments: Mapping[str, Sequence[str]]
    outs: Mapping[tuple[str, int], int]
    equal: Mapping[str, Equal]

    def of(self, label: str) -> Formula | None:
        """Return the formula of an op by its name in a trace; None if there is none. An in-place op without a formula
        of its own has the formula of the op.
        """
        found = self.of_ops.get(label.replace("::", "."))
        return found or self.of_ops.get(traced_op(label) or "")


def traced_op(label: str) -> str | None:
    """Return the name of a trace's op as in `cost_formulas`; None for kernels that have no formula."""
    if _CHOOSING.match(label):
        return None
    for pattern, op in _KERNELS:
        if pattern.match(label):
            return op
    match = _OP.fullmatch(label)
    return label if match is None else f"{match[1]}.{match[2]}"


@cache
def formulas() -> Formulas:
    """Return the formulas."""
    known = tomllib.loads(resources.files(__package__).joinpath("formulas.toml").read_text(encoding="utf-8"))
    of_ops = {
        op: Formula(op, **{"per_input": 0, "per_output": 0} | each["is"], text=" ".join(each["text"].split()))
        for each in known["formula"]
        for op in each["ops"].split()
    }
    arguments = {op: names.split() for ops, names in known["arguments"] for op in ops.split()}
    outs = {(op, given): number for given, number, ops in known["outs"] for op in ops.split()}
    equal = {op: Equal(*each) for ops, *each in known["equal"] for op in ops.split()}
    return Formulas(of_ops, arguments, outs, equal)
