"""The cost of a call of an op, with the reason where it isn't known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from etq.ingest.costs.arguments import Arguments, Inputs
from etq.ingest.costs.assumptions import used
from etq.ingest.costs.call import Call, Lengths
from etq.ingest.costs.formulas import Formula
from etq.ingest.costs.fused import fused_operations
from etq.ingest.costs.moved import Moved
from etq.ingest.costs.numbers import MOST_OPERATIONS, counted, known, whole
from etq.ingest.costs.operations import at_most, is_complex, operations_of
from etq.ingest.costs.sizes import output_sizes

# Assumed sizes of experts, in the order in which they are shown; and the sizes that operations need, and that bytes
# need.
_OF_EXPERTS: Final = ("top_k", "experts", "used_experts", "expert_width", "matrices", "weight_bytes")
_FOR_OPERATIONS: Final = ("top_k", "expert_width", "matrices")
_FOR_BYTES: Final = ("used_experts", "weight_bytes")


class Cost(NamedTuple):
    """The cost of a call: columns of `call_costs`, which has their meaning. None is unknown."""

    inputs: str | None = None
    type: str | None = None
    flops: int | None = None
    bytes: int | None = None
    most_bytes: int | None = None
    flops_at_most: int | None = None
    flops_at_least: int | None = None
    is_bytes_alone: bool = False
    is_least: bool = False
    assumed: str | None = None
    reason: str | None = None


def cost_of(
    label: str,
    formula: Formula,
    inputs: Inputs,
    listed: Sequence[str] | None = None,
    lengths: Lengths | None = None,
    assumed: Mapping[str, str] | None = None,
    products: int = 0,
) -> Cost:
    """Return the cost of a call of an op, by its name in the trace, its formula and its inputs.

    `listed` are the types of lists of tensors; `lengths`, `assumed` and `products` are as in `Call`.
    """
    given = assumed or {}
    numbers = {name: float(number) for name, number in given.items()}
    call = Call(label, formula, Arguments(formula.op, inputs, listed), lengths, numbers, products)
    call.output_sizes = output_sizes(call)
    moved = Moved(call)
    operations, read, written = counted(operations_of(call)), moved.read, moved.written
    flops, both = whole(operations), _stored(read, written)
    is_known = known(operations) or known(read)
    return Cost(
        call.arguments.text,
        call.main.type,
        flops,
        both,
        whole(moved.most),
        whole(at_most(call)) if not known(operations) else None,
        whole(fused_operations(call).at_least),
        formula.moves == "named",
        moved.is_least,
        used(given, _assumable(call, moved)) if is_known else None,
        next((reason for is_why, reason in _reasons(call, moved, operations, both) if is_why), "") or None,
    )


def _stored(*parts: float) -> int | None:
    """Return the sum of parts as whole numbers; None if one is unknown."""
    numbers = [whole(part) for part in parts]
    return whole(float(sum(each for each in numbers if each is not None))) if None not in numbers else None


def _assumable(call: Call, moved: Moved) -> Sequence[str]:
    """Return the names of the assumed sizes that its cost depends on."""
    counts = call.formula.counts
    if counts == "assumed experts":
        # The number of experts only bounds the bytes that are read.
        return [name for name in _OF_EXPERTS if name != "experts" or not known(moved.read)]
    if counts == "experts":
        return [
            *([] if known(call.written_chosen) else ["top_k"]), *([] if call.is_of_one_token else ["used_experts"])
        ]  # fmt: skip
    is_told = call.lengths is not None and (
        counts == "paged attention" or (counts == "latent attention" and call.heads.rows == call.lengths.generated)
    )
    is_cached = counts in ("paged attention", "latent attention", "masked attention")
    return ["seen_keys"] if is_cached and not is_told else []


def _reasons(call: Call, moved: Moved, operations: float, both: int | None) -> Iterator[tuple[bool, str]]:
    """Yield reasons why a cost is unknown or only a lower bound, each with whether it applies; the first that applies
    is used.
    """
    counts, moves, is_read = call.formula.counts, call.formula.moves, known(moved.read)
    yield moves == "named" and is_read and not moved.is_least, ""
    yield moves == "named" and is_read, "bytes: at least; whether it overwrites a tensor is not written"
    yield moves == "named", "bytes: an argument is not written"
    yield counts == "unwritten lengths", "the lengths of its sequences are not written"
    yield counts == "unwritten weights", "the weights of its experts are not written"
    if not known(operations):
        yield from _unknown_operations(call)
    yield operations > MOST_OPERATIONS, "too many to be true"
    yield moved.is_least and is_read, "bytes: at least; not all that it moves follows from sizes"
    if moves != "nothing" and both is None:
        yield from _unknown_bytes(call)


def _unknown_operations(call: Call) -> Iterator[tuple[bool, str]]:
    counts, by_position = call.formula.counts, call.formula.counts.startswith("attention by position")
    unwritten = "the lengths of its sequences are not written"
    yield counts in ("paged attention", "latent attention"), f"{unwritten}: assume seen_keys"
    yield (
        counts == "masked attention" and known(at_most(call)),
        "what its mask leaves out is not written: assume seen_keys",
    )
    yield (
        counts == "weight product backward",
        "its forward call, which has its weight, or how many products it computes, is not known",
    )
    yield (
        counts == "assumed experts",
        f"the weights of its experts are not written: {_to_assume(call, _FOR_OPERATIONS)}",
    )
    has_length = call.query_length + call.key_length
    yield by_position and not (known(has_length) and has_length), unwritten
    yield by_position, "it has a window, or how its mask is aligned is not known"
    yield counts == "labels", unwritten
    yield counts == "tables", "the widths of its tables, or how many rows each of them is read for, are not written"
    yield is_complex(call), "its operations on complex numbers are not counted"
    yield call.formula.moves == "experts", "how its experts are packed, or their number, is not written"
    yield True, "an argument that its formula needs is not written"


def _to_assume(call: Call, names: Sequence[str]) -> str:
    """Return the text that states which of these sizes to assume."""
    missing = [name for name in names if name not in call.assumed] or [*names]
    others = f"{', '.join(missing[:-1])} and " if len(missing) > 1 else ""
    return f"assume {others}{missing[-1]}"


def _unknown_bytes(call: Call) -> Iterator[tuple[bool, str]]:
    moves, arguments = call.formula.moves, call.arguments
    yield moves == "slots" and arguments.has_types, "bytes: what is in a row of the cache is not written"
    yield moves == "experts", "bytes: which experts are used is not written: assume used_experts"
    yield moves == "products", "bytes: which of its products it computes is not known"
    yield moves == "masked", "bytes: what its mask leaves out is not written"
    yield moves in ("paged", "latent"), "bytes: the lengths of its sequences are not written"
    yield (
        moves == "assumed experts",
        f"bytes: which experts are used is not written: {_to_assume(call, _FOR_BYTES)}",
    )
    yield not arguments.has_types, "bytes: types are not written"
    yield any(not known(each.bytes) for each in arguments.listed), "bytes: types of lists of tensors are not written"
    yield call.op == "aten.index", "bytes: sizes of its indices are not written"
    yield True, "bytes: an argument that the size of its output needs is not written"
