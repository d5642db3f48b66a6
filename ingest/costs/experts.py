"""The sizes of the experts of a call that doesn't have their weights among its arguments, from what it allocates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from etq.ingest.costs.arguments import Arguments

# The first product of FlashInfer's experts, by TensorRT-LLM. In its name, the type of activations is 8 bits, so that an
# element of the result is a byte, and swiGlu is the gate. Each expert has three matrices then.
_KERNEL: Final = re.compile(r"bmm_[^_]+_[^_]*E4m3_.*_swiGlu_")
_MATRICES: Final = 3.0


def allocates_for_experts(kernel: str | None) -> bool:
    """Whether the kernel with most time of a call shows that the tensors it allocates have the sizes of its experts."""
    return kernel is not None and _KERNEL.match(kernel) is not None


def experts_in(arguments: Arguments, made: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return top_k, expert_width and matrices; none of them if the sizes of the allocated tensors are ambiguous.

    Tokens have one row in the first argument, and a number for each expert in the second. The call allocates the chosen
    experts of each token, and, one after the other, the results of the two products, with a row for each chosen expert
    of each token.
    """
    sizes = [each.sizes for each in arguments.tensors[:2] if each.sizes is not None and len(each.sizes) == 2]
    if len(sizes) < 2:
        return {}
    (tokens, elements), (_, experts) = sizes
    tables = [(each[0], each[1]) for each in made if len(each) == 2]
    chosen = {columns for rows, columns in tables if rows == tokens and columns < min(experts, elements)}
    widths = {
        columns
        for (rows, columns), (others, last) in pairwise(tables)
        if rows == others and last == elements and chosen and rows >= tokens * max(chosen)
    }
    if len(chosen) != 1 or len(widths) != 1:
        return {}
    return {"top_k": chosen.pop(), "expert_width": widths.pop(), "matrices": _MATRICES}
