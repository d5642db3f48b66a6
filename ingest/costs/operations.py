"""The operations of a call of an op, by `counts` of its formula. A multiplication and an addition are two operations.

NaN is a number that isn't known, see `numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from etq.ingest.costs.call import Call
from etq.ingest.costs.fused import fused_operations
from etq.ingest.costs.numbers import UNKNOWN, Sizes, first_known, known, product, rank, ratio, size, total

# The smallest `Argument.rank` of complex numbers.
_COMPLEX: Final = 300
# Ops that take two real operations for each complex element.
_COMPLEX_SUMS: Final = frozenset(
    ("aten.add", "aten.sub", "aten.rsub", "aten.neg", "aten._foreach_add", "aten._foreach_sub")
)
_COMPLEX_PRODUCTS: Final = frozenset(("aten.mul", "aten._foreach_mul"))
# Packed types of weights: one element holds several elements of the dimension that is summed over.
_PACKED: Final = (None, "unsigned char", "c10::Float4_e2m1fn_x2")


def operations_of(call: Call) -> float:
    """Return the operations of a call. On complex numbers, a sum of products takes four times as many multiplications
    and additions as on real numbers; an elementwise addition takes two operations, and a multiplication six. The
    operations of other ops on complex numbers aren't known.
    """
    rule = _RULES.get(call.formula.counts)
    found = UNKNOWN if rule is None else rule(call)
    if not is_complex(call):
        return found
    if call.formula.family in ("GEMM", "convolution"):
        return 4 * found
    is_without = call.formula.counts == "plain" and call.per_input + call.per_output == 0
    if call.formula.family == "transform" or is_without:
        return found
    return found * (2 if call.op in _COMPLEX_SUMS else 6 if call.op in _COMPLEX_PRODUCTS else UNKNOWN)


def is_complex(call: Call) -> bool:
    """Whether one of the tensors is of complex numbers."""
    return any(each.rank >= _COMPLEX for each in call.tensors)


def at_most(call: Call) -> float:
    """Return an upper bound of the operations of attention whose mask, or whose visible part of a cache, is unknown."""
    return ratio(_of_heads(call), call.heads.rows) * call.heads.most


def _of_heads(call: Call) -> float:
    return call.per_input * call.heads.query_elements + call.per_output * call.heads.value_elements


def _plain(call: Call) -> float:
    found = 0.0
    if call.per_input:
        found += call.per_input * call.input_elements
    if call.per_output:
        found += call.per_output * call.output_elements
    return found


def _product(call: Call) -> float:
    return 2 * call.output_elements * size(call.sizes, -1)


def _kernel(call: Call) -> float:
    weight = call["weight"].sizes
    return product(None if weight is None else weight[1:])


def _convolution(call: Call) -> float:
    return 2 * _kernel(call) * (call.input_elements if call.is_transposed else call.output_elements)


def _convolution_backward(call: Call) -> float:
    moved = call.input_elements if call.is_transposed else call["gradient"].elements
    times = call.is_asked(1) + call.is_asked(2) if call.op == "aten.convolution_backward" else 1
    # For the gradient of the weight alone, cuDNN's op takes the weight's sizes.
    sizes = call.wholes("sizes") if call.op == "aten.cudnn_convolution_backward_weight" else None
    kernel = first_known(call["weight"].row_elements, product(sizes[1:]) if sizes else UNKNOWN)
    return 2 * moved * kernel * times


def causal_part(is_causal: bool | None, queries: float, keys: float) -> float:
    """Return the part of the products of queries and keys that causal attention computes.

    It is half of them, as in FlashAttention's own benchmarks. If the lengths differ, the alignment of the mask isn't
    known.
    """
    if is_causal is not True:
        return 1
    return 0.5 if queries == keys else UNKNOWN


def _attention(call: Call) -> float:
    keys = size(call["key"].sizes, -2)
    part = causal_part(call.is_causal, size(call.sizes, -2), keys)
    return 2 * (call.input_elements + call.output_elements) * keys * part


def _attention_backward(call: Call) -> float:
    keys = size(call["key"].sizes, -2)
    part = causal_part(call.is_causal, size(call.sizes, -2), keys)
    return (6 * call.input_elements + 4 * call["gradient"].elements) * keys * part


def _by_position(call: Call) -> float:
    if not call.has_no_window:
        return UNKNOWN
    keys = call.key_length
    part = causal_part(call.is_causal, call.query_length, keys)
    return 2 * (call.input_elements + call.output_elements) * keys * part


def _by_position_backward(call: Call) -> float:
    if not call.has_no_window:
        return UNKNOWN
    keys = call.key_length
    part = causal_part(call.is_causal, call.query_length, keys)
    return (6 * call.input_elements + 4 * call["gradient"].elements) * keys * part


def _cached_attention(call: Call) -> float:
    """The operations of attention over a cache. With a mask, it computes all positions of the cache; otherwise, the
    positions up to the last query.
    """
    has_mask = "attn_mask" in call.arguments.named
    positions = size(call["key"].sizes, 2) if has_mask else call.whole("start_pos") + size(call.sizes, 2)
    return 4 * call.input_elements * positions


def _latent_attention(call: Call) -> float:
    told, rows = UNKNOWN, call.heads.rows
    if call.lengths is not None and rows == call.lengths.generated:
        told = ratio(call.lengths.generated_seen, rows)
    return _of_heads(call) * first_known(told, call.assume("seen_keys"))


def _masked_attention(call: Call) -> float:
    seen, most = call.assume("seen_keys"), ratio(call.heads.most, call.heads.rows)
    return _of_heads(call) * (min(seen, most) if known(most) and known(seen) else seen)


def _paged_attention(call: Call) -> float:
    if not call.outs and rank(call.sizes) != 3:
        return UNKNOWN
    both = 2 * (call.input_elements + call.output_elements)
    if call.lengths is None:
        return both * call.assume("seen_keys")
    rows = size(call.sizes, 1)
    return ratio(both, rows) * call.lengths.seen if rows >= call.lengths.queries else UNKNOWN


def _grouped_product(call: Call) -> float:
    other = call["mat2"].sizes
    groups = size(call.sizes, 1) if rank(call.sizes) == 3 and rank(other) == 2 else 1
    return ratio(2 * call.input_elements * size(other, -1), groups)


def _transposed_product(call: Call) -> float:
    return 2 * call.output_elements * ratio(call.input_elements, size(call.output_sizes, 1))


def _weight_product(call: Call) -> float:
    """The operations of a product with a weight. Unknown for other arguments: functions of other libraries may have
    this name.
    """
    return _product(call) if call.is_by_weight else UNKNOWN


def _weight_product_backward(call: Call) -> float:
    return _weight_product(call) * call.products if call.products in (1, 2) else UNKNOWN


def _by_elements(call: Call) -> float:
    return 2 * math.sqrt(call.input_elements * call["mat2"].elements * call.output_elements)


def _experts(call: Call) -> float:
    width, up, down = size(call.sizes, -1), call["w1"].sizes, call["w2"].sizes
    if call.main.type in _PACKED or ratio(width, size(up, -1)) % 1:
        return UNKNOWN
    if "w2" in call.arguments.named and size(down, 2) != width:
        return UNKNOWN
    back = ratio(call["w2"].row_elements, size(up, -1))
    return 2 * size(call.sizes, 1) * call.chosen * width * (size(up, 2) + (back if known(back) else 0))


def _assumed_experts(call: Call) -> float:
    return call.input_elements * call.chosen * 2 * call.assume("expert_width") * call.assume("matrices")


def _norm(call: Call) -> float:
    steps = 2 if call.truth("training") is False else call.per_input
    return call.input_elements * (_weights(call) + steps)


def _weights(call: Call) -> int:
    return sum(each.name in ("weight", "bias") for each in call.tensors)


def _clamp(call: Call) -> float:
    bounds = sum(each.value is not None or each.bytes > 0 for each in (call["min"], call["max"]))
    return bounds * call.output_elements


def _gelu(exact: int, by_tanh: int) -> Callable[[Call], float]:
    return lambda call: (by_tanh if call.value("approximate") == "tanh" else exact) * call.output_elements


def _window(call: Call) -> float:
    return call.output_elements * (call.per_output + _window_elements(call))


def _window_elements(call: Call) -> float:
    sizes = call.wholes("kernel_size")
    return product([*sizes] * call.dimensions if sizes is not None and len(sizes) == 1 else sizes)


def _windows_of_gradient(call: Call) -> float:
    return call["gradient"].elements * (call.per_input + _window_elements(call))


def adaptive_windows(inner: Sizes, outer: Sizes, dimensions: int) -> float:
    """Return the number of elements of all windows of an adaptive pooling of the last dimensions: the i-th of m windows
    over n elements goes from floor(i n / m) to ceil((i + 1) n / m), so all have n + m - gcd(n, m).
    """
    if inner is None or outer is None:
        return UNKNOWN
    found = 1.0
    for at, each in enumerate(outer):
        if at < len(outer) - dimensions:
            found *= each
            continue
        other = size(inner, at + 1)
        is_whole = math.isfinite(each) and math.isfinite(other)
        found *= other + each - math.gcd(int(other), int(each)) if is_whole else UNKNOWN
    return found


def _adaptive(call: Call) -> float:
    is_same = rank(call.sizes) == rank(call.output_sizes)
    windows = adaptive_windows(call.sizes, call.output_sizes, call.dimensions) if is_same else UNKNOWN
    return call.per_output * call.output_elements + windows


def _adaptive_of_gradient(call: Call) -> float:
    gradient = call["gradient"]
    return call.per_input * gradient.elements + adaptive_windows(call.sizes, gradient.sizes, call.dimensions)


def _sort(call: Call) -> float:
    along = 1.0 if call.sizes == [] else size(call.sizes, _place(call.dims))
    return call.input_elements * math.log2(max(along, 1)) if known(along) else UNKNOWN


def _place(dims: Sizes) -> int:
    last = size(dims, -1)
    return int(last) + 1 if last >= 0 else 0


def _transform(call: Call) -> float:
    is_back, dims = call.op == "aten._fft_c2r", call.dims
    sizes = call.output_sizes if is_back else call.sizes
    if dims is None:
        return UNKNOWN
    together = product([size(sizes, int(each) + 1) for each in dims])
    elements = (call.output_elements if is_back else call.input_elements) * (1 if call.op == "aten._fft_c2c" else 0.5)
    return call.per_input * elements * math.log2(max(together, 1)) if known(together) else UNKNOWN


def _accumulated(call: Call) -> float:
    adds = call.value("accumulate")
    if adds == "True":
        return call.per_output * call.output_elements
    return 0 if adds == "False" else UNKNOWN


def _targets(call: Call) -> float:
    return call["target"].elements * (call.per_output + bool(call["weight"].sizes))


def _labels(call: Call) -> float:
    lengths, targets = call.wholes("input_lengths"), call.wholes("target_lengths")
    if not lengths:
        return UNKNOWN
    positions = total(each * (2 * size(targets, at) + 1) for at, each in enumerate(lengths, 1))
    return (call.per_input * call.input_elements if call.per_input else 0) + call.per_output * positions


def _bags(call: Call) -> float:
    mode, weight = call.value("mode"), bool(call["sample_weights"].sizes)
    width = first_known(size(call["weight"].sizes, 2), size(call["gradient"].sizes, -1))
    is_mean = mode == "1"
    mean = first_known(call.output_elements, call["gradient"].elements) if is_mean else 0 * call.whole("mode")
    return call["indices"].elements * width * (call.per_input + weight) + mean


def _tables(call: Call) -> float:
    return call["indices"].elements * call.table_width * (call.per_input + bool(call["sample_weights"].sizes))


def _quantized_attention(call: Call) -> float:
    query, key, value = call["query"], call["key"], call["value"]
    if not rank(query.sizes) == rank(key.sizes) == rank(value.sizes):
        return UNKNOWN
    return call.per_input * (query.elements + key.elements) + call.per_output * value.elements


def _recurrence(call: Call) -> float:
    given, sizes = call.recurrence, call.sizes
    steps = 2 if call.per_input == 1 or call.is_asked(4) == 0 else 4
    positions = ratio(call.input_elements, size(sizes, -1))
    within = size(sizes, -1) + given.width + (given.layers - 1) * given.width * (given.directions + 1)
    # The projection of the hidden state.
    projected = given.width if call.whole("proj_size") > 0 else 0
    of_position = given.gates * within + projected * given.layers
    return steps * positions * given.directions * given.hidden * of_position


def _layer(call: Call) -> float:
    weights = call["weight"].elements + call["hidden_weight"].elements
    return call.per_input * ratio(call.input_elements, size(call.sizes, -1)) * weights


def _cell(call: Call) -> float:
    biases = 2 if call["input_bias"].sizes else 0
    return call.output_elements * (call.per_output + biases * call.per_input)


def _sampled(call: Call) -> float:
    """The operations of sampling.

    Each element of the output takes a multiplication for each neighbour, and the sum of the products. In the backward
    pass, each element of the gradient takes a multiplication and an addition for each neighbour, and the gradient of
    the grid takes three operations for each neighbour and dimension.
    """
    # cuDNN's op is always linear.
    kind = "0" if "cudnn" in call.op else call.value("interpolation") or ""
    is_deep, asked = "3d" in call.op or rank(call.sizes) == 5, call.asked
    steps: Mapping[str, float]
    if asked is None:
        steps = {"0": 15 if is_deep else 7, "1": 0, "2": 35}
    else:
        first = call.is_asked(1)
        steps = {"0": 16 * first + 72 if is_deep else 8 * first + 24, "1": first}
    return first_known(call["gradient"].elements, call.output_elements) * steps.get(kind, UNKNOWN)


def _regions(call: Call) -> float:
    samples = call.whole("samples")
    return call.output_elements * (8 * samples**2 + 1) if samples > 0 else UNKNOWN


def _decay(call: Call) -> int:
    decay = call.number("weight_decay")
    return 2 if known(decay) and decay else 0


def _adam(call: Call) -> float:
    return call.input_elements * (call.per_input + _decay(call) + (call.value("amsgrad") == "True"))


def _sgd(call: Call) -> float:
    steps = 0
    if call.number("momentum") != 0:
        steps = (0 if call.value("is_first_step") == "True" else 3) + (2 if call.value("nesterov") == "True" else 0)
    return call.input_elements * (call.per_input + _decay(call) + steps)


_RULES: Final[Mapping[str, Callable[[Call], float]]] = {
    "plain": _plain,
    "product": _product,
    "grouped product": _grouped_product,
    "packed product": _product,
    "weight product": _weight_product,
    "weight product backward": _weight_product_backward,
    "transposed product": _transposed_product,
    "transposed grouped product": lambda call: 2 * call.input_elements * size(call.output_sizes, -1),
    "product by elements": _by_elements,
    "experts": _experts,
    "assumed experts": _assumed_experts,
    "unwritten operations": lambda call: fused_operations(call).operations,
    "gating": lambda call: (call.per_input + size(call.output_sizes, -1)) * call.input_elements,
    "rotation": lambda call: call.per_input * call.rotated,
    "convolution": _convolution,
    "transposed convolution": lambda call: 2 * call.input_elements * _kernel(call),
    "convolution backward": _convolution_backward,
    "attention": _attention,
    "attention backward": _attention_backward,
    "cached attention": _cached_attention,
    "attention by position": _by_position,
    "attention by position backward": _by_position_backward,
    "latent attention": _latent_attention,
    "masked attention": _masked_attention,
    "paged attention": _paged_attention,
    "clamp": _clamp,
    "gelu": _gelu(5, 9),
    "gelu backward": _gelu(11, 18),
    "norm": _norm,
    "window": _window,
    "windows of gradient": _windows_of_gradient,
    "adaptive window": _adaptive,
    "adaptive windows of gradient": _adaptive_of_gradient,
    "gradient": lambda call: call.per_input * call["gradient"].elements,
    "sort": _sort,
    "transform": _transform,
    "accumulated": _accumulated,
    "targets": _targets,
    "labels": _labels,
    "bags": _bags,
    "tables": _tables,
    "quantized attention": _quantized_attention,
    "recurrence": _recurrence,
    "layer": _layer,
    "cell": _cell,
    "sampled": _sampled,
    "regions": _regions,
    "adam": _adam,
    "sgd": _sgd,
}
