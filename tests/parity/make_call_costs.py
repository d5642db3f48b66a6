"""Make `tests/captures/torch_costs` again: a trace of calls of ops, and what each call computes and moves.

    ENV/bin/python -m tests.parity.make_call_costs tests/captures/torch_costs    # in an environment with torch

The tensors have no data (device meta), so that ops of GPUs can be called. `calls.trace.json.gz` is what torch's profiler
writes of them. `costs.json` has for each call its op and arguments as in the trace, `flops` as torch's FlopCounterMode
counts them (null for ops that it doesn't know), and `read` and `written`: bytes of the distinct elements of its inputs and
of its outputs, from the tensors themselves.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from tests.parity.making import trace_of, write_json

ATEN = torch.ops.aten
HALF, FLOAT, DOUBLE = torch.bfloat16, torch.float32, torch.float64
INT, LONG, BOOL = torch.int32, torch.int64, torch.bool


def tensor(*sizes: int, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    return torch.empty(sizes, device="meta", dtype=dtype)


def layouts(*sizes: int, dtype: torch.dtype = FLOAT) -> list[torch.Tensor]:
    """Tensors of these sizes: contiguous, transposed, each second element, one row repeated."""
    found = [tensor(*sizes, dtype=dtype), tensor(*sizes[:-1], 2 * sizes[-1], dtype=dtype)[..., ::2]]
    if len(sizes) > 1:
        found += [
            tensor(*sizes[::-1], dtype=dtype).permute(*range(len(sizes))[::-1]),
            tensor(1, *sizes[1:], dtype=dtype).expand(sizes),
        ]
    return found


LOOKUPS = (ATEN.embedding.default, ATEN.gather.default, ATEN.index_select.default)

# What a call is: the op, its arguments, those with names, and the places of those whose values it doesn't read.
Call = tuple[Any, list[Any], dict[str, Any], tuple[int, ...]]


def call(op: Any, *arguments: Any, unread: tuple[int, ...] = (), **keywords: Any) -> Call:
    return op, list(arguments), keywords, unread


def products() -> Iterator[Call]:
    for m, k, n in ((1, 1, 1), (2, 3, 5), (7, 64, 10), (128, 256, 512), (3, 1, 2)):
        for a, b in itertools.product(layouts(m, k, dtype=HALF)[:3], layouts(k, n, dtype=HALF)[:3]):
            yield call(ATEN.mm.default, a, b)
        yield call(ATEN.addmm.default, tensor(n), tensor(m, k), tensor(n, k).t())
        yield call(ATEN.addmm.default, tensor(1, n).expand(m, n), tensor(m, k), tensor(k, n))
        yield call(ATEN._addmm_activation.default, tensor(n), tensor(m, k), tensor(k, n))
        yield call(ATEN.bmm.default, tensor(4, m, k), tensor(4, n, k).mT)
        yield call(ATEN.bmm.default, tensor(1, m, k).expand(4, m, k), tensor(4, k, n))
        yield call(ATEN.baddbmm.default, tensor(4, m, n), tensor(4, m, k), tensor(4, k, n))
        yield call(ATEN.mv.default, tensor(m, k), tensor(k))
        yield call(ATEN.dot.default, tensor(k), tensor(k))
    yield call(ATEN._int_mm.default, tensor(32, 64, dtype=torch.int8), tensor(64, 16, dtype=torch.int8))
    fp8 = torch.float8_e4m3fn
    scales = [tensor(1), tensor(1)]
    scaled = [tensor(32, 64, dtype=fp8), tensor(16, 64, dtype=fp8).t(), *scales, None, None, HALF]
    yield call(ATEN._scaled_mm.default, *scaled)
    offsets = tensor(3, dtype=INT)
    for a, b in (
        (tensor(48, 32, dtype=HALF), tensor(3, 64, 32, dtype=HALF).mT),
        (tensor(64, 48, dtype=HALF), tensor(32, 48, dtype=HALF).t()),
    ):
        yield call(ATEN._grouped_mm.default, a, b, offsets)


def convolutions() -> Iterator[Call]:
    for sizes, weights, *rest in convolved():
        size, weight = tensor(*sizes), tensor(*weights)
        yield call(ATEN.convolution.default, size, weight, None, *rest)
        made = ATEN.convolution.default(size, weight, None, *rest)
        for asked in ([True, True, False], [False, True, True]):
            yield call(ATEN.convolution_backward.default, made, size, weight, [made.shape[1]], *rest, asked)


def convolved() -> Iterator[list[Any]]:
    """Sizes of inputs and weights, strides, padding, dilations and the other arguments of convolutions of each rank."""
    for rank, groups, transposed, kernel in itertools.product((1, 2, 3), (1, 2, 6), (False, True), (1, 3)):
        weight = (6, {1: 4, 2: 2, 6: 1}[groups]) if transposed else (12, 6 // groups)
        for each in ((1, 0, 1), (2, 1, 1), (1, 2, 2)):
            sizes = [(2, 6, *range(9, 9 + rank)), (*weight, *[kernel] * rank)]
            yield [*sizes, *([one] * rank for one in each), transposed, [0] * rank, groups]


def attentions() -> Iterator[Call]:
    for batch, heads, queries, keys, size, causal in (
        (1, 1, 1, 1, 8, False), (2, 4, 16, 16, 8, False), (2, 4, 16, 24, 64, False), (2, 4, 16, 16, 64, True),
    ):  # fmt: skip
        q, k, v = (tensor(batch, heads, each, size, dtype=HALF) for each in (queries, keys, keys))
        yield call(ATEN._scaled_dot_product_flash_attention.default, q, k, v, 0.0, causal, False)
        out, lse, cum_q, cum_k, most_q, most_k, seed, offset, _ = ATEN._scaled_dot_product_flash_attention.default(
            q, k, v, 0.0, causal
        )
        given = [out, q, k, v, out, lse, cum_q, cum_k, most_q, most_k, 0.0, causal, seed, offset]
        yield call(ATEN._scaled_dot_product_flash_attention_backward.default, *given)
        for logs in (True, False):
            yield call(ATEN._scaled_dot_product_efficient_attention.default, q, k, v, None, logs, 0.0, causal)


def elementwise() -> Iterator[Call]:
    shapes = [
        ((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 4), ()), ((2, 1, 4), (3, 1)), ((5,), (5,)), ((0, 4), (1, 4)), ((), ()),
    ]  # fmt: skip
    types = [(FLOAT, FLOAT), (HALF, HALF), (HALF, FLOAT), (INT, FLOAT), (LONG, INT), (FLOAT, DOUBLE), (BOOL, LONG)]
    types.append((torch.complex64, FLOAT))
    for (one, other), (first, second) in itertools.product(shapes, types):
        a, b = tensor(*one, dtype=first), tensor(*other, dtype=second)
        ordered = () if first.is_complex else (ATEN.gt.Tensor, ATEN.maximum.default)
        for op in (ATEN.add.Tensor, ATEN.mul.Tensor, *ordered):
            yield call(op, a, b)
        if first == second:
            yield call(ATEN.where.self, tensor(*one, dtype=BOOL), a, b)
    for a in layouts(6, 5, 4, dtype=HALF):
        for op in (ATEN.silu, ATEN.exp, ATEN.rsqrt, ATEN.neg, ATEN.relu, ATEN.sigmoid, ATEN.tanh, ATEN.gelu):
            yield call(op.default, a)
        yield call(ATEN.gelu.default, a, approximate="tanh")
        yield call(ATEN.pow.Tensor_Scalar, a, 2)
        yield call(ATEN.clamp.default, a, 0, 6)
        yield call(ATEN.threshold_backward.default, a, a, 0)
        yield call(ATEN.addcmul.default, a, a, tensor(4, dtype=HALF))
        yield call(ATEN.native_dropout.default, a, 0.5, True)
        for op in (ATEN.add_.Tensor, ATEN.mul_.Tensor):
            yield call(op, tensor(6, 5, 4, dtype=HALF), a)
        for other in (a, tensor(4, dtype=HALF)):
            yield call(ATEN.copy_.default, tensor(6, 5, 4), other, unread=(0,))
        yield call(ATEN.fill_.Scalar, tensor(6, 5, 4), 1.0, unread=(0,))


def reductions() -> Iterator[Call]:
    for a in layouts(6, 5, 4):
        for dims, keeps in (([0], False), ([-1], True), ([0, 2], False), ([], False)):
            for op in (ATEN.sum.dim_IntList, ATEN.mean.dim, ATEN.amax.default):
                yield call(op, a, dims, keeps)
            yield call(ATEN.linalg_vector_norm.default, a, 2, dims, keeps)
            yield call(ATEN.var_mean.correction, a, dims or None, correction=1, keepdim=keeps)
        for op, *rest in (
            *((ATEN.sum.default,), (ATEN.max.default,), (ATEN.max.dim, 1), (ATEN.argmax.default, -1)),
            *((ATEN.cumsum.default, 1), (ATEN.logsumexp.default, [1]), (ATEN._softmax.default, -1, False)),
            *((ATEN._log_softmax.default, 1, False), (ATEN._softmax_backward_data.default, a, -1, FLOAT)),
        ):
            yield call(op, a, *rest)
    yield call(ATEN._softmax.default, tensor(6, 5, dtype=torch.float16), -1, True)
    yield call(ATEN.sum.dim_IntList, tensor(6, 5, dtype=BOOL), [1])
    yield call(ATEN.sum.default, tensor(6, 5, dtype=INT))


def pools() -> Iterator[Call]:
    for size, kernel, stride, padding, dilation, up in (
        (9, 3, 2, 1, 1, False), (9, 2, 2, 0, 1, True), (10, 3, 1, 1, 2, False), (8, 2, [], 0, 1, False),
    ):  # fmt: skip
        a = tensor(2, 3, size, size + 1)
        strides: list[Any] = [stride] * 2 if stride else []
        rest = [[kernel] * 2, strides, [padding] * 2, [dilation] * 2, up]
        yield call(ATEN.max_pool2d_with_indices.default, a, *rest)
        out, indices = ATEN.max_pool2d_with_indices.default(a, *rest)
        yield call(ATEN.max_pool2d_with_indices_backward.default, out, a, *rest, indices, unread=(1,))
        if dilation == 1:
            yield call(ATEN.avg_pool2d.default, a, [kernel] * 2, strides, [padding] * 2, up)
    yield call(ATEN._adaptive_avg_pool2d.default, tensor(2, 3, 7, 9), [3, 4])


def normalizations() -> Iterator[Call]:
    for size in (8, 64):
        for a in layouts(6, 5, size, dtype=HALF)[:3]:
            weight = tensor(size, dtype=HALF)
            yield call(ATEN.native_layer_norm.default, a, [size], weight, weight, 1e-5)
            yield call(ATEN.native_layer_norm.default, a, [5, size], None, None, 1e-5)
            yield call(ATEN._fused_rms_norm.default, a, [size], weight, 1e-5)
    a, weight = tensor(8, 16, 12, 12), tensor(16)
    yield call(ATEN._native_batch_norm_legit_no_training.default, a, weight, weight, weight, weight, 0.1, 1e-5)
    yield call(ATEN.native_batch_norm.default, a, weight, weight, weight, weight, True, 0.1, 1e-5)
    yield call(ATEN.native_batch_norm.default, a, None, None, weight, weight, False, 0.1, 1e-5)
    yield call(ATEN.native_group_norm.default, a, weight, weight, 8, 16, 144, 4, 1e-5)


def lookups() -> Iterator[Call]:
    rows, chosen = tensor(100, 24, dtype=HALF), tensor(5, 6, dtype=LONG)
    # Of what they look up they read as much as they write.
    yield call(ATEN.embedding.default, rows, chosen, unread=(0,))
    yield call(ATEN.gather.default, rows, 0, chosen, unread=(0,))
    yield call(ATEN.index_select.default, rows, 0, tensor(7, dtype=LONG), unread=(0,))
    yield call(ATEN.index_select.default, rows, 1, tensor(7, dtype=INT), unread=(0,))


def calls() -> list[Call]:
    kinds = (
        *(products, convolutions, attentions, elementwise, reductions, pools, normalizations, lookups),
        *(packed_attentions, choices, gates, transforms, images, types, ranks),
    )
    return [each for kind in kinds for each in kind()]


def packed_attentions() -> Iterator[Call]:
    """Sequences of the same length in one tensor: FlopCounterMode takes the greatest length where it has no values."""
    for number, queries, keys, heads, size in ((1, 7, 9, 2, 8), (3, 16, 16, 4, 32), (2, 10, 14, 6, 64)):
        q = tensor(number * queries, heads, size, dtype=HALF)
        k, v = (tensor(number * keys, heads, size, dtype=HALF) for _ in range(2))
        starts = tensor(number + 1, dtype=INT)
        packed = [q, k, v, starts, starts, queries, keys, 0.0, False, False]
        yield call(ATEN._flash_attention_forward.default, *packed)
        sums = tensor(heads, number * queries)
        given = [q, q, k, v, q, sums, starts, starts, queries, keys, 0.0, False, tensor(0), tensor(0)]
        yield call(ATEN._flash_attention_backward.default, *given)


def choices() -> Iterator[Call]:
    for a in layouts(6, 5, 8):
        for dim in (0, -1):
            yield call(ATEN.topk.default, a, 3, dim, True, True)
            yield call(ATEN.sort.default, a, dim, False)
            yield call(ATEN.sort.stable, a, stable=True, dim=dim, descending=False)
            yield call(ATEN.cummax.default, a, dim)
            yield call(ATEN.kthvalue.default, a, 2, dim, False)
            yield call(ATEN.glu.default, tensor(6, 5, 8), -1)
        yield call(ATEN.tril.default, a, 0)
        yield call(ATEN.std_mean.correction, a, [1], correction=1, keepdim=False)


def gates() -> Iterator[Call]:
    for a in layouts(6, 5, 8, dtype=HALF):
        for op in (ATEN.mish, ATEN.erfc, ATEN.isfinite, ATEN.signbit):
            yield call(op.default, a)
        for op in (ATEN.mish_backward, ATEN.hardswish_backward, ATEN.hardsigmoid_backward, ATEN.copysign.Tensor):
            yield call(getattr(op, "default", op), a, a)
        yield call(ATEN.softplus_backward.default, a, a, 1, 20)
        yield call(ATEN.elu_backward.default, a, 1, 1, 1, False, a)
        yield call(ATEN.glu_backward.default, tensor(6, 5, 4, dtype=HALF), a, -1)
        yield call(ATEN.huber_loss_backward.default, tensor(dtype=HALF), a, a, 1, 1.0)
        for reduction in (0, 1):
            yield call(ATEN.huber_loss.default, a, a, reduction)
            yield call(ATEN.smooth_l1_loss.default, a, a, reduction)


def transforms() -> Iterator[Call]:
    for dims in ([2], [1, 2], [0, 1, 2]):
        yield call(ATEN._fft_c2c.default, tensor(3, 6, 16, dtype=torch.complex64), dims, 0, True)
        yield call(ATEN._fft_r2c.default, tensor(3, 6, 16), dims, 0, True)
        yield call(ATEN._fft_r2c.default, tensor(3, 6, 15, dtype=DOUBLE), dims, 0, False)
        yield call(ATEN._fft_c2r.default, tensor(3, 6, 9, dtype=torch.complex64), dims, 2, 16)


def images() -> Iterator[Call]:
    image, small = tensor(2, 3, 8, 6), tensor(2, 3, 4, 3)
    yield call(ATEN.upsample_bicubic2d.default, small, [8, 6], False)
    yield call(ATEN.upsample_trilinear3d.default, tensor(1, 2, 3, 3, 3), [6, 6, 6], False)
    yield call(ATEN.upsample_linear1d.default, tensor(1, 2, 3), [6], False)
    yield call(ATEN._upsample_nearest_exact2d.default, small, [8, 6])
    yield call(ATEN.upsample_bilinear2d_backward.default, image, [8, 6], [2, 3, 4, 3], False)
    yield call(ATEN.upsample_nearest2d_backward.default, image, [8, 6], [2, 3, 4, 3])
    yield call(ATEN._adaptive_avg_pool2d_backward.default, small, image, unread=(1,))
    yield call(ATEN.adaptive_max_pool2d.default, image, [4, 3])
    indices = tensor(2, 3, 4, 3, dtype=LONG)
    yield call(ATEN.adaptive_max_pool2d_backward.default, small, image, indices, unread=(1,))
    pooled = [[2, 2], [2, 2], [0, 0], False, True, None]
    yield call(ATEN.avg_pool2d_backward.default, small, image, *pooled, unread=(1,))
    yield call(ATEN.pixel_unshuffle.default, image, 2)


def types() -> Iterator[Call]:
    """Calls whose output has another type than their first tensor, or keeps it beside a wider one."""
    for a in (tensor(8, 4, dtype=HALF), tensor(8, 4, dtype=torch.float16)):
        for other in (tensor(8, 4), tensor(4, dtype=DOUBLE), tensor(1, 4), tensor()):
            yield call(ATEN.add_.Tensor, a, other)
            yield call(ATEN.mul_.Tensor, a, other)
        yield call(ATEN._to_copy.default, a, dtype=FLOAT)
        yield call(ATEN.sum.default, a, dtype=FLOAT)
        yield call(ATEN.mean.default, a, dtype=DOUBLE)
        yield call(ATEN.sum.dim_IntList, a, [1], dtype=FLOAT)
        yield call(ATEN.mean.dim, a, [0], True, dtype=FLOAT)
        yield call(ATEN.prod.dim_int, a, 1, dtype=FLOAT)
        yield call(ATEN.cumsum.default, a, 0, dtype=FLOAT)
        yield call(ATEN.linalg_vector_norm.default, a, 2, [1], False, dtype=FLOAT)
    for whole in (tensor(8, 4, dtype=LONG), tensor(8, 4, dtype=INT), tensor(8, 4, dtype=BOOL)):
        for op in (ATEN.exp, ATEN.sqrt, ATEN.rsqrt, ATEN.reciprocal, ATEN.log, ATEN.sin, ATEN.sigmoid, ATEN.erf):
            yield call(op.default, whole)
        yield call(ATEN.div.Tensor, whole, whole)
        yield call(ATEN.atan2.default, whole, whole)
        yield call(ATEN.logsumexp.default, whole, [1])
    yield call(ATEN.div.Tensor_mode, tensor(8, 4, dtype=LONG), tensor(4, dtype=LONG), rounding_mode="floor")
    yield call(ATEN.div.Tensor, tensor(8, 4, dtype=LONG), tensor(4, dtype=HALF))
    for pairs in (tensor(8, 4, dtype=torch.complex64), tensor(8, 4, dtype=torch.complex128)):
        yield call(ATEN.abs.default, pairs)
        yield call(ATEN.linalg_vector_norm.default, pairs)
        for op in (ATEN.var, ATEN.std, ATEN.var_mean, ATEN.std_mean):
            yield call(op.correction, pairs, [1], correction=1)


def ranks() -> Iterator[Call]:
    """Calls whose tensors have fewer dimensions than usual, dimensions that are broadcast, or count from the end."""
    for one, other in (
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((7, 1, 3, 4), (2, 4, 5)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
    ):
        yield call(ATEN.matmul.default, tensor(*one), tensor(*other))
    for sizes in ((8,), (2, 8), (2, 3, 8)):
        yield call(ATEN.linear.default, tensor(*sizes), tensor(5, 8), tensor(5))
        yield call(ATEN.linear.default, tensor(*sizes), tensor(8))
    yield call(ATEN.conv1d.default, tensor(6, 9), tensor(12, 6, 3), None, [1], [1], [1], 1)
    yield call(ATEN.conv2d.default, tensor(6, 9, 8), tensor(12, 3, 3, 3), None, [2, 1], [1, 1], [1, 1], 2)
    yield call(
        ATEN.conv_transpose2d.input, tensor(6, 9, 8), tensor(6, 4, 3, 3), None, [2, 1], [1, 1], [1, 0], 1, [1, 1]
    )
    yield call(ATEN.index_select.default, tensor(6, 5), -1, tensor(3, dtype=LONG), unread=(0,))
    for dim in (0, 1, -1):
        yield call(ATEN.aminmax.default, tensor(6, 5, 4), dim=dim)
    yield call(ATEN.aminmax.default, tensor(6, 5, 4))


def stored_bytes(given: torch.Tensor) -> int:
    """Bytes of the distinct elements, each at its place in the storage."""
    places = {0}
    for size, stride in zip(given.shape, given.stride(), strict=True):
        places = {place + step * stride for place in places for step in range(size)}
    return len(places) * given.element_size() if given.numel() else 0


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [each for part in value for each in tensors_of(part)] if isinstance(value, tuple | list) else []


def counted(op: Any, arguments: list[Any], keywords: dict[str, Any]) -> int | None:
    """Operations by FlopCounterMode, but for two things that it counts too high by its own rule of what is computed.

    The gradient of a weight of several groups has 1 / groups of the products of each channel with each other; attention
    that is causal has half of the products.
    """
    if op.overloadpacket not in flop_registry:
        return None
    if op == ATEN.convolution_backward.default and arguments[9] > 1 and arguments[10][1]:
        *rest, groups, (of_input, _, of_bias) = arguments
        weight = flops_of(op, [*rest, groups, [False, True, of_bias]], keywords)
        inputs = flops_of(op, [*rest, groups, [True, False, of_bias]], keywords) if of_input else 0
        return inputs + weight // int(groups)
    names = [each.name for each in op._schema.arguments]
    causal = "is_causal" in names and names.index("is_causal") < len(arguments) and arguments[names.index("is_causal")]
    return flops_of(op, arguments, keywords) // (1 + bool(causal))


def flops_of(op: Any, arguments: list[Any], keywords: dict[str, Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        op(*arguments, **keywords)
    return int(counter.get_total_flops())


def cost(op: Any, arguments: list[Any], keywords: dict[str, Any], unread: tuple[int, ...]) -> dict[str, Any]:
    read = [each for at, each in enumerate(arguments) if at not in unread]
    # The state of random numbers doesn't count: scalars and two numbers of 64 bits beside the output.
    written = [
        each
        for at, each in enumerate(tensors_of(op(*arguments, **keywords)))
        if not at or each.is_floating_point() or (each.dim() and each.dtype != torch.uint64)
    ]
    return {
        "op": f"aten::{op._schema.name.split('::')[1]}",
        "flops": counted(op, arguments, keywords),
        "read": sum(map(stored_bytes, tensors_of(read)))
        + (sum(each.nbytes for each in written) if op in LOOKUPS else 0),
        "written": sum(each.nbytes for each in written),
    }


def called(events: list[dict[str, Any]], number: int, op: str) -> dict[str, Any]:
    """The event of the op that was called within an annotation, without those of the ops that it called."""
    [around] = [each for each in events if each.get("name") == f"call {number}"]
    inner = (each for each in events if each.get("cat") == "cpu_op" and each["name"] == op)
    return next(each for each in inner if around["ts"] <= each["ts"] <= around["ts"] + around["dur"])


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    made = calls()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        for at, (op, arguments, keywords, _) in enumerate(made):
            with torch.profiler.record_function(f"call {at}"):
                op(*arguments, **keywords)
    trace = json.loads(trace_of(profiled, folder / "trace.json"))
    costs = [{"call": at} | cost(*each) for at, each in enumerate(made)]
    events = [called(trace["traceEvents"], number, cost["op"]) for number, cost in enumerate(costs)]
    write_json(folder / "calls.trace.json.gz", {"schemaVersion": trace["schemaVersion"], "traceEvents": events})
    (folder / "costs.json").write_text(json.dumps(costs))
    print(len(costs), "calls", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
