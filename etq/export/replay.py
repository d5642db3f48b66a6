"""A Python script that measures one op of a trace with torch alone: with its shapes, types, strides and values.

The trace's arguments are written into the script as JSON, so that nothing in them is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError, QueryError, printable

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

# The calls of an op by their arguments, with their times, the longest first.
_CALLS: Final = """
    SELECT e.inputs, e.shapes, e.types, e.strides, e.calls, e.total, e.flops, e.bytes, e.device
    FROM op_efficiency($capture, unit := 'us') AS e
    WHERE e.op = $op AND e.shapes IS NOT NULL
    ORDER BY e.total DESC, e.inputs
"""
# The most frequent values of such a call.
_VALUES: Final = """
    SELECT mode(o.inputs ORDER BY o.inputs)
    FROM op_arguments AS o
    JOIN event_ticks AS e USING (capture_id, run_index, event_index)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE o.capture_id = _capture_id($capture) AND s.label = $op AND o.shapes = $shapes
        AND o.dtypes IS NOT DISTINCT FROM $types AND o.strides IS NOT DISTINCT FROM $strides
"""
_OPS: Final = "SELECT e.op FROM op_efficiency($capture, \"by\" := 'op') AS e WHERE e.op IS NOT NULL"


def replay(warehouse: Answers, capture: Capture, options: dict[str, Any]) -> Iterator[str]:
    """Yield the script for the call of an op with the most time, or for the call with the given inputs.

    op      name of the op, such as aten::mm
    shapes  types and sizes as in the column `inputs` of `op_efficiency`, or sizes as a JSON list

    Raises `QueryError` for other captures than traces, and without an op; `EtqError` if no such call is in the trace,
    or if it has no shapes.
    """
    if capture.format != "torch_trace":
        raise QueryError(f"{capture.name}: replay is for PyTorch traces, and this is of format {capture.format}")
    op, shapes = options.get("op"), options.get("shapes")
    if op is None:
        raise QueryError("replay needs an op; name one, such as aten::mm (on the command line --op)")
    calls = warehouse.rows(_CALLS, capture=capture, op=op)[1]
    if not calls:
        raise EtqError(_unknown(warehouse, capture, op))
    chosen = [call for call in calls if shapes is None or shapes in (call[0], *_sizes(call[1]))]
    if not chosen:
        known = "; ".join(printable(call[0]) for call in calls[:5])
        raise EtqError(f"{op} was not called with {shapes}; it was with: {known}")
    inputs, *written, count, total, flops, moved, device = chosen[0]
    [(values,)] = warehouse.rows(
        _VALUES, capture=capture, op=op, shapes=written[0], types=written[1], strides=written[2]
    )[1]
    call = {
        "op": op,
        "trace": capture.name,
        "inputs": inputs,
        "shapes": _parsed(written[0]),
        "types": _parsed(written[1]),
        "strides": _parsed(written[2]),
        "values": _parsed(values),
        "calls": count,
        "microseconds": total / count,
        "flops": flops,
        "bytes": moved,
        "device": device,
    }
    text = json.dumps(call, indent=4, ensure_ascii=True)
    yield _SCRIPT.replace("@CALL@", text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"'))


def _sizes(shapes: str) -> list[str]:
    return [shapes, json.dumps(_parsed(shapes)), json.dumps(_parsed(shapes), separators=(",", ":"))]


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        raise EtqError("the arguments of the op in the trace are not JSON; record the trace again") from None


def _unknown(warehouse: Answers, capture: Capture, op: str) -> str:
    named = [name for (name,) in warehouse.rows(_OPS, capture=capture)[1]]
    if op in named:
        return f"{op} was recorded without shapes; record the trace with profile(record_shapes=True)"
    known = ", ".join(printable(name) for name in named[:8])
    return f"no op {op!r} has time of its own in {capture.name}; the ops with most time are {known}"


_SCRIPT: Final = '''"""Measures one op with torch alone, called as in a trace of PyTorch's profiler."""

import argparse
import ast
import json
import time

import torch

CALL = json.loads("""@CALL@""")

TYPES = {
    "float": torch.float32, "double": torch.float64, "c10::Half": torch.float16, "c10::BFloat16": torch.bfloat16,
    "long int": torch.int64, "long": torch.int64, "int": torch.int32, "short int": torch.int16, "short": torch.int16,
    "signed char": torch.int8, "unsigned char": torch.uint8, "bool": torch.bool,
    "c10::complex<float>": torch.complex64, "c10::complex<double>": torch.complex128,
    "c10::Float8_e4m3fn": torch.float8_e4m3fn, "c10::Float8_e5m2": torch.float8_e5m2,
}  # fmt: skip


def tensor(sizes, strides, dtype, device, limit):
    """Random values in the layout of the trace; numbers of rows, such as indices, are below `limit`."""
    strides = strides if strides and len(strides) == len(sizes) else torch.empty(sizes, device="meta").stride()
    length = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if 0 not in sizes else 0
    if dtype.is_floating_point or dtype.is_complex:
        kind = dtype if dtype.itemsize > 1 else torch.float16
        values = torch.randn(length, device=device, dtype=kind).to(dtype)
    else:
        values = torch.randint(0, 2 if dtype == torch.bool else limit, (length,), device=device).to(dtype)
    return values.as_strided(sizes, strides)


def value_of(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text or None


def arguments_on(device):
    shapes = CALL["shapes"]
    types = CALL["types"] or ["float"] * len(shapes)
    strides = CALL["strides"] or [[]] * len(shapes)
    values = CALL["values"] or [""] * len(shapes)
    known = [TYPES[kind] for kind in types if kind in TYPES]
    limit = max(1, min((size for sizes in shapes for size in sizes if isinstance(size, int) and size > 0), default=1))
    found = []
    for sizes, kind, layout, value in zip(shapes, types, strides, values):
        if kind in TYPES:
            found.append(tensor(sizes, layout, TYPES[kind], device, limit))
        elif sizes and isinstance(sizes[0], list):  # The trace has no types of lists of tensors.
            layouts = layout or [[]] * len(sizes)
            kind = known[0] if known else torch.float32
            found.append([tensor(each, laid, kind, device, limit) for each, laid in zip(sizes, layouts)])
        else:
            found.append(value_of(value))
    return found


def callable_of(arguments):
    """The op, by the first of its overloads that takes these arguments."""
    space, name = CALL["op"].split("::")
    packet = getattr(getattr(torch.ops, space), name)
    errors = []
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema.arguments
        if len(schema) != len(arguments):
            continue
        given = [
            (argument, argument.default_value if value is None and argument.has_default_value() else value)
            for value, argument in zip(arguments, schema)
        ]
        places = [value for argument, value in given if not argument.kwarg_only]
        names = {argument.name: value for argument, value in given if argument.kwarg_only}
        run = getattr(packet, overload)
        try:
            run(*places, **names)
        except (RuntimeError, TypeError, IndexError, NotImplementedError) as error:
            errors.append(f"{overload}: {error}")
        else:
            return lambda: run(*places, **names)
    raise SystemExit(f"{CALL['op']} can't be called with these arguments here:\\n" + "\\n".join(errors))


def microseconds(run, device, count):
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3 / count
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) * 1e6 / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=20, help="measurements")
    parser.add_argument("--calls", type=int, default=10, help="calls in each measurement")
    given = parser.parse_args()
    with torch.inference_mode():
        run = callable_of(arguments_on(given.device))
        microseconds(run, given.device, given.calls)
        times = sorted(microseconds(run, given.device, given.calls) for _ in range(given.rounds))
    median = times[len(times) // 2]
    where = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    print(f"{CALL['op']} {CALL['inputs']}")
    print(f"{median:.2f} us a call on {where} ({times[0]:.2f} to {times[-1]:.2f} in {given.rounds} measurements)")
    before = CALL["device"] or "a device of unknown name"
    print(f"{CALL['microseconds']:.2f} us in {CALL['trace']} ({CALL['calls']} calls, {before})")
    if CALL["flops"]:
        print(f"{CALL['flops'] / median / 1e6:.4g} TFLOP/s")
    if CALL["bytes"]:
        print(f"{CALL['bytes'] / median / 1e6:.4g} TB/s")


if __name__ == "__main__":
    main()
'''
