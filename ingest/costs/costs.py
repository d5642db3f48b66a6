"""The cost of a call of an op, with the reason where it isn't known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from etq.ingest.costs.arguments import Arguments, Inputs
from etq.ingest.costs.assumptions import used
from etq.ingest.costs.call import Call, Lengths
from etq.ingest.costs.experts import experts_in
from etq.ingest.costs.formulas import Formula
from etq.ingest.costs.fused import fused_operations
from etq.ingest.costs.moved import Moved
from etq.ingest.costs.numbers import MOST_OPERATIONS, counted, known, whole
from etq.ingest.costs.operations import at_most, is_complex, operations_of
from etq.ingest.costs.sizes import output_sizes

# Assumed sizes of experts: all, in the order in which they are shown; those that operations depend on; and those that
# bytes depend on.
_OF_EXPERTS: Final = ("top_k", "experts", "used_experts", "expert_width", "matrices", "weight_bytes")
_FOR_OPERATIONS: Final = ("top_k", "expert_width", "matrices")
_FOR_BYTES: Final = ("used_experts", "weight_bytes")


class Cost(NamedTuple):
    """The cost of a call: columns of the table `call_costs`, whose comments explain them. None is unknown."""

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
    made: Sequence[Sequence[float]] = (),
) -> Cost:
    """Return the cost of a call of an op, by its name in the trace, its formula and its inputs.

    `listed` are the types of lists of tensors; `lengths`, `assumed` and `products` are as in `Call`; `made` are the
    sizes of the tensors that it allocates, if they show the sizes of experts.
    """
    arguments = Arguments(formula.op, inputs, listed)
    told = experts_in(arguments, made)
    given = {name: number for name, number in (assumed or {}).items() if name not in told}
    numbers = {name: float(number) for name, number in given.items()}
    call = Call(label, formula, arguments, lengths, numbers | told, products)
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
        formula.moves == "named" or (formula.moves == "rows" and not known(operations)),
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
    """Yield reasons why a cost is unknown or only a lower bound. With each comes whether it applies; the first that
    applies is used.
    """
    counts, moves, is_read = call.formula.counts, call.formula.moves, known(moved.read)
    yield moves == "named" and is_read and not moved.is_least, ""
    yield moves == "named" and is_read, "bytes: a lower bound; the trace doesn't show whether it overwrites a tensor"
    yield moves == "named", "bytes: the trace lacks an argument"
    yield counts == "unwritten lengths", "the trace lacks the lengths of its sequences"
    yield counts == "unwritten weights", "the trace lacks the weights of its experts"
    if not known(operations):
        yield from _unknown_operations(call)
    yield operations > MOST_OPERATIONS, "too many to be true"
    yield moved.is_least and is_read, "bytes: a lower bound; it also moves bytes that sizes don't show"
    if moves != "nothing" and both is None:
        yield from _unknown_bytes(call)


def _unknown_operations(call: Call) -> Iterator[tuple[bool, str]]:
    counts, by_position = call.formula.counts, call.formula.counts.startswith("attention by position")
    unwritten = "the trace lacks the lengths of its sequences"
    yield counts in ("paged attention", "latent attention"), f"{unwritten}: assume seen_keys"
    yield (
        counts == "masked attention" and known(at_most(call)),
        "the trace doesn't show what its mask leaves out: assume seen_keys",
    )
    yield (
        counts == "weight product backward",
        "the trace lacks its forward call, which has the weight, or the number of its products",
    )
    yield (
        counts == "assumed experts",
        f"the trace lacks the weights of its experts: {_to_assume(call, _FOR_OPERATIONS)}",
    )
    has_length = call.query_length + call.key_length
    yield by_position and not (known(has_length) and has_length), unwritten
    yield by_position, "it has a window, or the alignment of its mask is unknown"
    yield counts == "labels", unwritten
    yield (
        counts == "tables",
        "the trace lacks the widths of its tables, or the number of rows read from each; bytes are a lower bound",
    )
    yield is_complex(call), "its operations on complex numbers are not counted"
    yield call.formula.moves == "experts", "the trace lacks the packing or the number of its experts"
    yield True, "the trace lacks an argument that its formula needs"


def _to_assume(call: Call, names: Sequence[str]) -> str:
    """Return the text that states which of these sizes to assume."""
    missing = [name for name in names if name not in call.assumed] or [*names]
    others = f"{', '.join(missing[:-1])} and " if len(missing) > 1 else ""
    return f"assume {others}{missing[-1]}"


def _unknown_bytes(call: Call) -> Iterator[tuple[bool, str]]:
    moves, arguments = call.formula.moves, call.arguments
    yield moves == "slots" and arguments.has_types, "bytes: the trace doesn't show what a row of the cache contains"
    yield moves == "experts", "bytes: the trace doesn't show which experts are used: assume used_experts"
    yield moves == "products", "bytes: it is unknown which of its products it computes"
    yield moves == "masked", "bytes: the trace doesn't show what its mask leaves out"
    yield moves in ("paged", "latent"), "bytes: the trace lacks the lengths of its sequences"
    yield (
        moves == "assumed experts",
        f"bytes: the trace doesn't show which experts are used: {_to_assume(call, _FOR_BYTES)}",
    )
    yield not arguments.has_types, "bytes: the trace lacks types"
    yield any(not known(each.bytes) for each in arguments.listed), "bytes: the trace lacks types of lists of tensors"
    yield call.op == "aten.index", "bytes: the trace lacks the sizes of its indices"
    yield True, "bytes: the trace lacks an argument that determines the size of its output"
