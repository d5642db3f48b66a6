"""The sizes of an op's output. Traces don't contain them; they follow from the arguments by `sizes` of the op's
formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from etq.ingest.costs.call import Call
from etq.ingest.costs.numbers import UNKNOWN, Sizes, first_known, joined, known, quotient, rank, size, total


def output_sizes(call: Call) -> Sizes:
    """Return the sizes of the output of a call; None if they don't follow from its arguments."""
    if call.is_sized_by_outs:
        return call.outs[0].sizes
    rule = _RULES.get(call.formula.sizes)
    return None if rule is None else rule(call)


def broadcast(call: Call) -> Sizes:
    """Return the sizes that result from broadcasting the tensors: for each dimension, from the last, the size that
    isn't 1.
    """
    return _broadcast(each.sizes for each in call.tensors if each.sizes is not None)


def _broadcast(given: Iterable[Sequence[float]]) -> Sequence[float]:
    shapes = [*given]
    found = []
    for back in range(max(map(len, shapes), default=0), 0, -1):
        sizes = [each[-back] for each in shapes if len(each) >= back]
        found.append(next((each for each in sizes if each != 1), 1.0))
    return found


def windows(
    sizes: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, *, rounds_up: bool = False
) -> Sizes:
    """Return the sizes of the output of a convolution or pooling in its last dimensions. `sizes` has the sizes of the
    input in these dimensions, `kernel` the sizes of the window. A list of one value gives the value of each dimension.
    """
    if sizes is None:
        return None
    found = []
    for at, each in enumerate(sizes):
        step, width = _of(stride, at), _of(kernel, at)
        span = each + 2 * _of(padding, at) - _of(dilation, at) * (width - 1) - 1
        found.append(quotient(span + (step - 1 if rounds_up else 0), step) + 1)
    return found


def _of(values: Sizes, at: int) -> float:
    return values[min(at, len(values) - 1)] if values else UNKNOWN


def _convolution(call: Call) -> Sizes:
    sizes, weight = call.sizes, call["weight"].sizes
    stride, padding = call.wholes("stride"), call.wholes("padding")
    dilation, more = call.wholes("dilation") or [1], call.wholes("output_padding") or [0]
    if sizes is None or weight is None or not 2 < len(weight) <= len(sizes) + 1:
        return None
    # An input may have no dimension of samples.
    samples, inner = sizes[: 1 - len(weight)], sizes[2 - len(weight) :]
    if not call.is_transposed:
        return joined(samples, weight[:1], windows(inner, weight[2:], stride, padding, dilation))
    found = [*samples, weight[1] * first_known(call.whole("groups"), 1)]
    for at, each in enumerate(inner):
        wide = _of(dilation, at) * (size(weight, at + 3) - 1)
        found.append((each - 1) * _of(stride, at) - 2 * _of(padding, at) + wide + _of(more, at) + 1)
    return found


def _product(call: Call) -> Sizes:
    """The sizes of a product. A factor of one dimension adds none; dimensions before the last two are broadcast."""
    sizes, other, weight = call.sizes, call["mat2"].sizes, call["weight"].sizes
    if other is None:
        return joined(_but_last(sizes), None if weight is None else weight[:-1])
    if sizes is None:
        return None
    return [*_broadcast((sizes[:-2], other[:-2])), *sizes[-2:-1], *(other[-1:] if len(other) > 1 else [])]


def _but_last(sizes: Sizes, count: int = 1) -> Sizes:
    return None if sizes is None else sizes[: max(len(sizes) - count, 0)]


def _column(call: Call) -> float:
    """The columns of the second factor of a product whose factors may be transposed."""
    return size(call["mat2"].sizes, {"True": -2, "False": -1}.get(call.value("transposes_mat2") or "", 0))


def _transposed_product(call: Call) -> Sizes:
    row = {"True": -1, "False": -2}.get(call.value("transposes_self") or "", 0)
    return [size(call.sizes, row), _column(call)]


def _transposed_grouped_product(call: Call) -> Sizes:
    sizes = call.sizes
    if sizes is None:
        return None
    rows = joined(call["lengths"].sizes, sizes[-1:]) if "variable_k" in call.op else sizes[:1]
    return joined(rows, [_column(call)])


def _grouped_product(call: Call) -> Sizes:
    sizes, other = call.sizes, call["mat2"].sizes
    if rank(sizes) == rank(other) == 2:
        return joined(call["offs"].sizes, [size(sizes, 1), size(other, 2)])
    if rank(sizes) == 3 and rank(other) == 2:
        return [size(sizes, 2), size(other, 2)]
    return joined(_but_last(sizes), None if other is None else other[-1:])


def _packed(place: int) -> Callable[[Call], Sizes]:
    """The sizes of a product with a packed weight: in the dimension at `place`, one number of the weight holds 8 rows
    or columns.
    """
    return lambda call: joined(_but_last(call.sizes), [8 * size(call["mat2"].sizes, place)])


def _attention(call: Call) -> Sizes:
    value = call["value"].sizes
    return joined(_but_last(call.sizes), None if value is None else value[-1:])


def _window(call: Call) -> Sizes:
    sizes, kernel, stride = call.sizes, call.wholes("kernel_size"), call.wholes("stride")
    if sizes is None:
        return None
    own = windows(
        sizes[-call.dimensions :], kernel, kernel if stride == [] else stride, call.wholes("padding"),
        call.wholes("dilation") or [1], rounds_up=call.truth("ceil_mode") is True,
    )  # fmt: skip
    return joined(_but_last(sizes, call.dimensions), own)


def _padded(call: Call) -> Sizes:
    """The sizes after padding.

    The padding has pairs of numbers; the first pair is for the last dimension. Dimensions without a pair keep their
    sizes.
    """
    sizes, padding = call.sizes, call.wholes("padding")
    if sizes is None or padding is None or min([*padding, 0]) < 0:
        return None
    return [
        each + total(padding[2 * (len(sizes) - at) : 2 * (len(sizes) - at) + 2]) for at, each in enumerate(sizes, 1)
    ]


def _reduced(call: Call) -> Sizes:
    if len(call.tensors) > 1:
        return broadcast(call)
    if call.sizes is None:
        return None
    written = call.value("dim")
    dims = call.from_start(call.wholes("dim"))
    are_all = (call.arguments.given < 3 and call.op != "aten.count_nonzero") or written in (None, "[]")
    return [1.0 if are_all or (dims is not None and at in dims) else each for at, each in enumerate(call.sizes)]


def _loss(call: Call) -> Sizes:
    return broadcast(call) if call.value("reduction") == "0" else []


def _embedding(call: Call) -> Sizes:
    weight = call["weight"].sizes
    return joined(call["indices"].sizes, None if weight is None else weight[-1:])


def _targets(call: Call) -> Sizes:
    reduction = call.value("reduction")
    if "forward" in call.op and reduction in ("1", "2"):
        return [2]
    return call["target"].sizes if reduction in ("0", "1", "2") else None


def _bags(call: Call) -> Sizes:
    last = {"True": 1, "False": 0}.get(call.value("include_last") or "")
    return None if last is None else [size(call["offsets"].sizes, 1) - last, size(call["weight"].sizes, 2)]


def _sampled(call: Call) -> Sizes:
    grid = call["grid"].sizes
    return None if call.sizes is None else joined(call.sizes[:2], None if grid is None else grid[1:-1])


def _regions(call: Call) -> Sizes:
    regions = call["regions"].sizes
    if call.sizes is None or regions is None:
        return None
    return joined(regions[:1], call.sizes[1:2], [call.whole("height"), call.whole("width")])


def _recurrence(call: Call) -> Sizes:
    given = call.recurrence
    return joined(_but_last(call.sizes), [given.width * (1 if "layer" in call.op else given.directions)])


def _along(change: Callable[[Call, float], float]) -> Callable[[Call], Sizes]:
    """The sizes of the input, except that `change` gives the size of the last dimension that the op works along."""

    def found(call: Call) -> Sizes:
        place = size(call.dims, -1)
        if call.sizes is None or not known(place):
            return None
        return [change(call, each) if at == place else each for at, each in enumerate(call.sizes)]

    return found


def _transformed(call: Call, each: float) -> float:
    if call.value("onesided") == "True":
        return each // 2 + 1
    return first_known(call.whole("last_size"), each)


def _with_scales(sign: int) -> Callable[[Call], Sizes]:
    """The sizes of a tensor whose rows are stored with two floats after a multiple of four elements; or, for a sign of
    -1, without them.
    """

    def found(call: Call) -> Sizes:
        columns = 4 * math.ceil(size(call.sizes, -1) / 4) + sign * 8 if call.sizes else UNKNOWN
        return joined(_but_last(call.sizes), [columns])

    return found


def _selected(call: Call) -> Sizes:
    dim = size(call.from_start(call.wholes("dim")), 1)
    if call.sizes is None or not known(dim):
        return None
    count = first_known(size(call["indices"].sizes, 1), 1)
    return [count if at == dim else each for at, each in enumerate(call.sizes)]


def _sizes_of(name: str) -> Callable[[Call], Sizes]:
    return lambda call: call[name].sizes


def _given(call: Call) -> Sizes:
    return call.wholes("size")


def _adaptive(call: Call) -> Sizes:
    return joined(_but_last(call.sizes, call.dimensions), call.wholes("output_size"))


def _source(call: Call) -> Sizes:
    return call["source"].sizes or None


def _channels(call: Call) -> Sizes:
    return None if call.sizes is None else call.sizes[1:2]


_RULES: Final[Mapping[str, Callable[[Call], Sequence[float] | None]]] = {
    "first": lambda call: call.first.sizes,
    "broadcast": broadcast,
    "reduced": _reduced,
    "loss": _loss,
    "product": _product,
    "self": lambda call: call.sizes,
    "transposed product": _transposed_product,
    "transposed grouped product": _transposed_grouped_product,
    "packed product": _packed(1),
    "packed columns": _packed(2),
    "grouped product": _grouped_product,
    "convolution": _convolution,
    "attention": _attention,
    "window": _window,
    "adaptive window": _adaptive,
    "padded": _padded,
    "embedding": _embedding,
    "index": _sizes_of("indices"),
    "source": _source,
    "targets": _targets,
    "given": _given,
    "channels": _channels,
    "cell": _sizes_of("cx"),
    "bags": _bags,
    "sampled": _sampled,
    "regions": _regions,
    "recurrence": _recurrence,
    "topk": _along(lambda call, _: call.whole("k")),
    "halved": _along(lambda _, each: each // 2),
    "transformed": _along(_transformed),
    "rows with scales": _with_scales(1),
    "rows without scales": _with_scales(-1),
    "selected": _selected,
}
