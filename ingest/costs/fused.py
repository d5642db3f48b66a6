"""Kernels that Inductor wrote: how many operations they compute and which tensors they overwrite, as far as their names
and tensors show it.

The arguments begin with the tensors that a kernel reads and writes, followed by those that it only reads, then those
that it only writes. The last one or two arguments are the sizes of the kernel's loops; other numbers may come before
them. In a reduction, the last is the size of the inner loop.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from etq.ingest.costs.call import Call
from etq.ingest.costs.numbers import UNKNOWN, known, number_in, rank

# Matches the names of kernels whose ops all copy or compute element by element. Names of other ops don't show how much
# they compute.
_COUNTED: Final = re.compile(
    r"triton_\w{3}_fused(?:_(?:_to_copy|_unsafe_view|clone|copy|permute|transpose|t|view|expand|unsqueeze|squeeze|repeat"
    r"|slice|detach|alias|add|sub|rsub|mul|div|neg|abs|exp|exp2|expm1|log|log2|log1p|sqrt|rsqrt|reciprocal|pow|sin|cos"
    r"|tan|tanh|erf|relu|maximum|minimum|where|floor|ceil|round|eq|ne|lt|le|gt|ge"
    r"|(?:bitwise|logical)_(?:and|or|xor|not)))+_\d+"
)
_NO_WORDS: Final = re.compile(r"(?:bitwise|logical)_|^triton_..._fused|_\d+$")
# Words of ops that copy.
_COPIES: Final = frozenset(
    (
        *("", "to", "copy", "unsafe", "view", "clone", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze"),
        *("repeat", "slice", "detach", "alias"),
    )
)
# Matches the names of kernels in which each op takes one tensor of full size.
_OF_ONE: Final = re.compile(
    r"triton_(?:poi|red|per)_fused(?:_(?:_to_copy|_unsafe_view|clone|permute|transpose|view|expand|unsqueeze|squeeze"
    r"|slice|gelu|silu|relu|sigmoid|tanh|exp|log|neg|abs|sin|cos|sqrt|rsqrt|_softmax|_log_softmax|mean|sum|amax|amin"
    r"|argmax|argmin|var_mean|native_layer_norm|_fused_rms_norm))+_\d+"
)
# Inductor shortens longer names.
_MOST_WORDS: Final = 12
_POINTWISE: Final = "triton_poi"


class Fused(NamedTuple):
    """The operations of a kernel, if all of them are known, and their least number; NaN if unknown."""

    operations: float
    at_least: float


def fused_operations(call: Call) -> Fused:
    """Return the operations of a kernel, as far as its name shows them.

    The name contains the kernel's ops, each once, at most ten. There are no operations if all ops copy; otherwise,
    there is at least one for each arithmetic op and each element of the loops. A kernel that reduces has at least one
    operation for each element. The number is unknown if the name has other ops, because a part of such an op may be in
    another kernel. It is also unknown if the sizes of the loops are.
    """
    if call.formula.counts != "unwritten operations":
        return Fused(UNKNOWN, UNKNOWN)
    is_reduction = not call.label.startswith(_POINTWISE)
    loops = _turns(call, is_reduction)
    words = None
    if _COUNTED.fullmatch(call.label):
        words = [word for word in _NO_WORDS.sub("", call.label).split("_") if word not in _COPIES]
    is_long = call.label.count("_") + 1 > _MOST_WORDS
    only_copies = not is_reduction and not is_long and words == []
    at_least = loops if is_reduction else len(words) * loops if words else UNKNOWN
    return Fused(0 if only_copies else UNKNOWN, at_least)


def overwrites(call: Call) -> bool | None:
    """Return whether a kernel reads and writes its first tensor; None if that is unknown.

    A tensor that is written has an element for each turn of the outer loops, or of all loops: if the last tensor has
    another number of elements, the first is overwritten. The result of a matrix product has two dimensions; a kernel
    that views it with more dimensions only reads it. If each op takes one tensor of full size and there are two such
    tensors, the other one is written.
    """
    before, last = _loops(call)
    if not known(last) or not call.tensors:
        return None
    both = before * last
    if call.op == "inductor.reduction":
        written = [before, both]
    else:
        written = [both if any(each.elements == both for each in call.tensors) else last]
    first, other = call.tensors[0], call.tensors[-1]
    if first.elements not in written:
        return False
    if other.elements not in written:
        return True
    if "view" in call.label and rank(first.sizes) > 2 and rank(other.sizes) == 2 and first.elements == other.elements:
        return True
    return len(call.tensors) == 1 if _OF_ONE.fullmatch(call.label) else None


def _loops(call: Call) -> tuple[float, float]:
    """Return the sizes of the last two loops."""
    given = call.arguments.given
    before, last = (number_in(call.value(str(place))) for place in (given - 1, given))
    return before, last


def _turns(call: Call, is_reduction: bool) -> float:
    """Return the total number of turns of the loops."""
    before, last = _loops(call)
    elements = [each.elements for each in call.tensors]
    if is_reduction or before * last in elements:
        return before * last
    return last if last in elements else UNKNOWN
