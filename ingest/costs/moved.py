"""The bytes that a call of an op reads and writes, by `moves` and `writes` of its formula. NaN is unknown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from etq.ingest.costs.arguments import Argument, of_sizes
from etq.ingest.costs.call import Call
from etq.ingest.costs.fused import overwrites
from etq.ingest.costs.numbers import UNKNOWN, counted, first_known, known, product, ratio, size, total
from etq.ingest.costs.operations import is_complex

# Bytes of an element by the number of its type in c10's ScalarType. An argument dtype is written as this number.
_OF_NUMBERS: Final = {
    **dict.fromkeys(("0", "1", "11", "23", "24", "25", "26"), 1),
    **dict.fromkeys(("2", "5", "15"), 2),
    **dict.fromkeys(("3", "6", "8"), 4),
    **dict.fromkeys(("4", "7", "9"), 8),
    "10": 16,
}
# Values of `Argument.rank`: the smallest of floats, a double, and a float.
_FLOATS, _DOUBLE, _FLOAT = 200, 208, 204
_SUMS: Final = ("aten.sum", "aten.mean", "aten.prod")
# Ops that return floats for integers.
_OF_INTEGERS: Final = re.compile(
    r"aten\.(a?(cos|sin|tan)h?|atan2|copysign|digamma|div|erf(c|inv)?|exp(2|m1)?|lgamma|log(10|1p|2)?|logit|logsumexp"
    "|reciprocal|r?sqrt|sigmoid|true_divide|xlogy)"
)
# Ops that return real numbers for complex ones, or a real and a complex number, and the part of the bytes that is left.
_REAL: Final = {
    **dict.fromkeys(("aten.abs", "aten.linalg_vector_norm", "aten.norm", "aten.std", "aten.var"), 0.5),
    **dict.fromkeys(("aten.std_mean", "aten.var_mean"), 0.75),
}
_ATTENTION: Final = ("attention", "attention by position")
# What calls of batched tables of embeddings read whole, apart from lists of the tables.
_OF_TABLES: Final = ("gradient", "D_offsets", "cumsum", "indices", "offsets", "sample_weights")
# Rows of batched tables on GPUs have a multiple of 4 elements.
_LEAST_WIDTH: Final = 4


class Moved:
    """The bytes that a call reads and writes."""

    def __init__(self, call: Call) -> None:
        self.call = call

    @cached_property
    def input_bytes(self) -> float:
        """The bytes of the tensors that it reads, each read once. A summand that is multiplied by zero isn't read."""
        is_unread = self.call.number("beta") == 0
        read = [each for each in self.call.tensors if each.is_read]
        return of_sizes([each for each in read if not (is_unread and each.name == "bias")])

    @cached_property
    def output_bytes(self) -> float:
        """The bytes of its output, from the output's size."""
        call, outs = self.call, self.call.outs
        if call.is_sized_by_outs:
            more = call.output_elements * call.first.bytes if call.formula.writes == "out, first" else 0
            return total(each.elements * each.bytes for each in outs) + more
        return call.output_elements * self._element_bytes

    @property
    def _element_bytes(self) -> float:
        """The bytes that are written for each element of its output."""
        call = self.call
        if len(call.outs) == 1:
            return call.outs[0].bytes
        # To sum all elements takes the type as the second argument.
        name = "dim" if call.arguments.given == 2 and call.op in _SUMS else "dtype"
        if (number := call.value(name)) is not None:
            return _OF_NUMBERS.get(number, UNKNOWN)
        is_rounded = call.op == "aten.div" and call.arguments.given > 2
        if call.value("half_to_float") == "True" or (
            _OF_INTEGERS.fullmatch(call.op) and not is_rounded and _highest(call.tensors) < _FLOATS
        ):
            return 4
        rule = _WRITES.get(call.formula.writes)
        return UNKNOWN if rule is None else rule(call) * (_REAL.get(call.op, 1) if is_complex(call) else 1)

    @cached_property
    def slots(self) -> float:
        """How many slots of a cache are written.

        Unknown for a cache of keys and values whose rows also hold other data, such as scales.
        """
        call = self.call
        key, value, cache = (size(call[name].sizes, -1) for name in ("key", "value", "key_cache"))
        has_both = "value_cache" in call.arguments.named or cache == key + value
        return call["slots"].elements if has_both else UNKNOWN

    @cached_property
    def overwrites(self) -> bool | None:
        """Whether a kernel of Inductor overwrites its first tensor."""
        return overwrites(self.call) if self.call.formula.moves == "named" else None

    @cached_property
    def read(self) -> float:
        """Bytes that it reads."""
        rule = _READS.get(self.call.formula.moves)
        return UNKNOWN if rule is None else counted(rule(self.call, self))

    @cached_property
    def written(self) -> float:
        """Bytes that it writes."""
        call = self.call
        moves = call.formula.moves
        if moves == "nothing":
            return 0
        if (rule := _WRITTEN.get(moves)) is not None:
            found = rule(call, self)
        else:
            found = _gradients(call) if call.formula.sizes == "gradients" else self.output_bytes
        found += _bags(call) + _statistics(call) + _sums(call)
        return counted(found) if moves != "least" or known(found) else 0

    @property
    def most(self) -> float:
        """An upper bound of its bytes if values of tensors decide what it reads; otherwise unknown."""
        call = self.call
        moves = call.formula.moves
        if moves == "masked":
            return self.input_bytes
        if moves == "experts":
            return self.input_bytes + self.output_bytes
        if moves == "assumed experts":
            return self.input_bytes + self.output_bytes + _assumed_weights(call) * call.assume("experts")
        return UNKNOWN

    @property
    def is_least(self) -> bool:
        """Whether its bytes are only a lower bound."""
        moves = self.call.formula.moves
        return moves in ("least", "products", "rows") or (moves == "named" and self.overwrites is None)


def _highest(tensors: Sequence[Argument]) -> float:
    return max((each.rank for each in tensors if known(each.rank)), default=UNKNOWN)


def _promoted(call: Call) -> float:
    """The bytes of the type that an elementwise op returns, by torch's rules of promotion.

    The result has the type of the op's tensors with dimensions, unless a tensor without dimensions is of a higher kind.
    A number in Python is written as a double without dimensions, and is treated as a float. An op in place keeps the
    type of its tensor.
    """
    if call.label.endswith("_"):
        return call.first.bytes
    every, wide = _highest(call.tensors), _highest([each for each in call.tensors if each.has_dimensions])
    if every // 100 == wide // 100:
        return wide % 100
    if every == _DOUBLE and any(each.has_dimensions for each in call.tensors):
        return _FLOAT % 100
    return every % 100


def _of_first(factor: float, more: float = 0) -> Callable[[Call], float]:
    return lambda call: factor * call.first.bytes + more


def _of_lists(fewer: int) -> Callable[[Call], float]:
    def found(call: Call) -> float:
        listed, first = call.arguments.listed, call.arguments.first_list
        return (ratio(len(listed), len(first)) - fewer) * call.first.bytes if first else UNKNOWN

    return found


def _with_indices(call: Call) -> float:
    return call.first.bytes + (8 if call.arguments.given > 1 and len(call.tensors) == 1 else 0)


def _transformed(call: Call) -> float:
    return call.first.bytes * {"aten._fft_r2c": 2, "aten._fft_c2r": 0.5}.get(call.op, 1)


def _dequantized(call: Call) -> float:
    """The bytes of the type that FBGEMM's argument output_dtype numbers; without this argument, it is float."""
    return {None: 4, "0": 4, "1": 2, "5": 2}.get(call.value("output_dtype"), UNKNOWN)


def _summed(call: Call) -> float:
    return 8 if call.first.rank < _FLOATS else call.first.bytes


_WRITES: Final[Mapping[str, Callable[[Call], float]]] = {
    "first": _of_first(1),
    "first, statistics": _of_first(1),
    "bags": _of_first(1),
    "first, mask": _of_first(1, 1),
    "first, first": _of_first(2),
    "five": _of_first(5),
    "six": _of_first(6),
    "seven": _of_first(7),
    "promoted": _promoted,
    "bool": lambda _: 1,
    "byte": lambda _: 1,
    "dequantized": _dequantized,
    "indices": lambda _: 8,
    "int32": lambda _: 4,
    "two floats": lambda _: 8,
    "four floats": lambda _: 16,
    "first, indices": _with_indices,
    "lists but 1": _of_lists(1),
    "lists but 2": _of_lists(2),
    "transformed": _transformed,
    "sums": _summed,
}


def _looked_up(call: Call, moved: Moved) -> float:
    weight = call["weight"]
    return moved.input_bytes + call["indices"].elements * size(weight.sizes, 2) * weight.bytes


def _of_tables(call: Call, _: Moved) -> float:
    """The bytes that calls of batched tables of embeddings read at least: a lookup also reads a row for each index."""
    read = [call[name] for name in _OF_TABLES if call[name].sizes]
    if "gradient" in call.arguments.named:
        return of_sizes(read) if read else UNKNOWN
    width = first_known(call.table_width, _LEAST_WIDTH)
    return of_sizes(read) + call["indices"].elements * width * call["weight"].bytes


def _of_targets(call: Call, moved: Moved) -> float:
    own = call["self"].bytes if "forward" in call.op else 0
    weight = call["weight"].bytes if call["weight"].sizes else 0
    return moved.input_bytes + call["target"].elements * (own + weight)


def _scattered(call: Call, moved: Moved) -> float:
    source = call["source"]
    taken = source.bytes if source.sizes else 0 if call.arguments.has_types else UNKNOWN
    again = moved.output_bytes if call.per_output else 0 * moved.output_bytes
    return moved.input_bytes + again + call.output_elements * taken


def _of_experts(call: Call, moved: Moved) -> float:
    """The bytes that a call of experts reads. A call for one token reads the weights of each of the token's experts
    once.
    """
    experts = size(call["w1"].sizes, 1)
    part = ratio(call.chosen, experts) if call.is_of_one_token else ratio(call.assume("used_experts"), experts)
    if not known(part):
        return UNKNOWN
    weights = of_sizes([each for each in (call["w1"], call["w2"]) if each.place])
    return moved.input_bytes - (1 - (part if call.is_of_one_token else min(part, 1))) * weights


def _assumed_weights(call: Call) -> float:
    """The assumed bytes of one expert's weights."""
    sizes = [call.assume(name) for name in ("expert_width", "matrices", "weight_bytes")]
    return size(call.sizes, -1) * math.prod(sizes)


def _of_assumed_experts(call: Call, moved: Moved) -> float:
    used = call.assume("used_experts")
    if not known(used) and call.input_elements == size(call.sizes, -1):
        used = call.chosen
    return moved.input_bytes + _assumed_weights(call) * used


def _rotated(call: Call, _: Moved) -> float:
    positions, table = call["positions"], call["table"]
    of_position = positions.bytes + size(table.sizes, -1) * table.bytes
    return call.rotated * call["query"].bytes + positions.elements * of_position


def _paged(call: Call, _: Moved) -> float:
    lengths, key = call.lengths, call["key"]
    if lengths is None or key.sizes is None or len(key.sizes) > 3 or not size(call.sizes, 1) >= lengths.queries:
        return UNKNOWN
    rows = lengths.keys * (key.row_elements + call["value"].row_elements)
    return call["query"].bytes * (call.input_elements + rows)


def _latent(call: Call, _: Moved) -> float:
    heads, seen = call.heads, UNKNOWN
    if call.lengths is not None and heads.rows == call.lengths.generated:
        seen = call.lengths.generated_keys
    elif heads.rows == heads.sequences:
        seen = heads.rows * call.assume("seen_keys")
    return heads.query_elements * call["query"].bytes + heads.row_bytes * seen


def _slots(call: Call, moved: Moved) -> float:
    row = sum(call[name].row_elements * call[name].bytes for name in ("key", "value"))
    return moved.slots * (row + call["slots"].bytes)


def _of_products(call: Call, moved: Moved) -> float:
    return moved.input_bytes + moved.output_bytes if call.products == 2 else UNKNOWN


def _of_inputs(_: Call, moved: Moved) -> float:
    return moved.input_bytes


_READS: Final[Mapping[str, Callable[[Call, Moved], float]]] = {
    "made": lambda *_: 0,
    "nothing": lambda *_: 0,
    "all": _of_inputs,
    "named": _of_inputs,
    "least": _of_inputs,
    "products": _of_products,
    "looked up": _looked_up,
    "rows": _of_tables,
    "targets": _of_targets,
    "scattered": _scattered,
    "experts": _of_experts,
    "assumed experts": _of_assumed_experts,
    "chosen": lambda call, moved: moved.output_bytes + of_sizes(call.tensors[1:]),
    "rotated": _rotated,
    "paged": _paged,
    "latent": _latent,
    "slots": _slots,
}


def _written_slots(call: Call, moved: Moved) -> float:
    key, value, key_cache = call["key"], call["value"], call["key_cache"]
    value_cache = call.arguments.named.get("value_cache", key_cache)
    return moved.slots * (key.row_elements * key_cache.bytes + value.row_elements * value_cache.bytes)


def _written_products(call: Call, _: Moved) -> float:
    weight = call["weight"]
    return call.input_elements * call.first.bytes + weight.elements * weight.bytes


def _written_latent(call: Call, _: Moved) -> float:
    each = call["out"].bytes
    if not known(each) and call["query"].bytes == 2 and "value_size" in call.arguments.named:
        each = 2
    return call.heads.value_elements * each


def _written_named(call: Call, moved: Moved) -> float:
    return call.tensors[0].held_bytes if moved.overwrites else 0


_WRITTEN: Final[Mapping[str, Callable[[Call, Moved], float]]] = {
    "rotated": lambda call, _: call.rotated * call["query"].bytes,
    "slots": _written_slots,
    "products": _written_products,
    "latent": _written_latent,
    "named": _written_named,
    "rows": lambda *_: 0,
}


def _gradients(call: Call) -> float:
    """The bytes of the gradients. A gradient has the size and type of its tensor."""
    each = call.first.bytes
    if call.op == "aten.convolution_backward":
        bias = size(call["gradient"].sizes, 2)
        parts = (call.input_elements, call["weight"].elements, bias)
        return total(call.is_asked(place) * part for place, part in enumerate(parts, 1)) * each
    if call.op.startswith("aten.cudnn_convolution_backward_"):  # the gradient's sizes are one of its arguments
        return product(call.wholes("sizes")) * each
    if call.formula.counts in ("attention backward", "attention by position backward"):
        return (call.input_elements + call["key"].elements + call["value"].elements) * each
    if call.formula.family == "pooling":
        return call.input_elements * each
    return _norm_gradients(call) if call.formula.family == "normalization" else UNKNOWN


def _norm_gradients(call: Call) -> float:
    """The bytes of the requested gradients.

    These are the gradients of the input, the weight and the bias. The latter two have the size of a normalized part, or
    one value for each channel. The ops of cuDNN and MIOpen write all gradients.
    """
    writes_all = "cudnn" in call.op or "miopen" in call.op
    asked = [1.0] * 3 if writes_all else [call.is_asked(place) for place in range(1, len(call.asked or ()) + 1)]
    if not asked:
        return UNKNOWN
    each, weight = call.first.bytes, call["weight"].bytes
    is_by_part = "normalized_shape" in call.arguments.named
    channels = _normalized(call) if is_by_part else size(call.sizes, 2)
    of_weight = (weight if known(weight) else each) * channels
    return total(
        is_asked * (call.input_elements * each if place == 1 else of_weight) for place, is_asked in enumerate(asked, 1)
    )


def _normalized(call: Call) -> float:
    """The elements of a normalized part, which are those of the weight: older traces lack values of arguments."""
    weight = call["weight"]
    return first_known(product(call.wholes("normalized_shape")), weight.elements if weight.sizes else UNKNOWN)


def _bags(call: Call) -> float:
    """The bytes of the bag of each index, and of the sizes of bags."""
    if call.formula.writes != "bags":
        return 0
    indices, offsets = call["indices"], call["offsets"]
    return indices.elements * indices.bytes + size(call.output_sizes, 1) * offsets.bytes


def _statistics(call: Call) -> float:
    """The bytes of the means and deviations that a normalization also writes.

    There is one of each for each part of the normalized shape, each group of channels, or each channel.
    """
    if call.formula.writes != "first, statistics":
        return 0
    named = call.arguments.named
    if "normalized_shape" in named:
        parts = ratio(call.input_elements, _normalized(call))
    elif "group" in named:
        parts = size(call.sizes, 1) * call.whole("group")
    else:
        parts = size(call.sizes, 2)
    return 4 * (0 if call.is_sized_by_outs else 1 if "rms" in call.op else 2) * parts


def _sums(call: Call) -> float:
    """The bytes of the sums of exponentials of attention, one float for each query.

    Efficient attention pads the number of queries to a multiple of 32.
    """
    if call.formula.counts not in _ATTENTION or call.value("compute_log_sumexp") == "False":
        return 0
    sizes, width = call.sizes, 4
    if sizes is None:
        return UNKNOWN
    if "efficient" not in call.op:
        return width * product(sizes[:-1])
    is_by_position = call.op == "aten._efficient_attention_forward"
    before, queries = (sizes[:-3], size(sizes, -3)) if is_by_position else (sizes[:-2], size(sizes, -2))
    if not known(queries):
        return UNKNOWN
    return 32 * width * product(before) * (size(sizes, -2) if is_by_position else 1) * math.ceil(queries / 32)
