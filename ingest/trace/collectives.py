"""The collectives that gloo ran on the host: their messages and process groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, integers, numbers, texts
from etq.ingest.costs.arguments import bytes_of
from etq.ingest.trace.launches import Whole, are
from etq.ingest.trace.waits import Trace

_GLOO: Final = "gloo:"
HOST_COLLECTIVES: Final = pa.schema(
    [
        *(("run_index", pa.int32()), ("event_index", pa.int32()), ("start_ticks", pa.int64())),
        *(("elapsed_ticks", pa.int64()), ("collective", pa.string()), ("group_description", pa.string())),
        *(("group_size", pa.int32()), ("message_type", pa.string()), ("elements", pa.int64())),
        ("message_bytes", pa.int64()),
    ]
)
# torch's names for types of elements in kernels of collectives, by the names that C++ gives the types of inputs.
_TYPES: Final[Mapping[str, str]] = {
    "float": "Float", "double": "Double", "int": "Int", "long int": "Long", "short int": "Short", "signed char": "Char",
    "unsigned char": "Byte", "bool": "Bool", "c10::Half": "Half", "c10::BFloat16": "BFloat16",
    "c10::complex<float>": "ComplexFloat", "c10::complex<double>": "ComplexDouble",
}  # fmt: skip
# Collectives whose message is the tensor of the event. The message of an all-gather has one from each process.
_WHOLE: Final = ("all_reduce", "all_to_all", "broadcast", "reduce", "reduce_scatter", "send", "recv")
_GATHERED: Final = "all_gather"


class Inputs(Protocol):
    """The inputs of ops, as in `inputs.py`."""

    def at(self, events: Whole) -> tuple[Sequence[tuple[bytes, ...]], Whole]: ...


def host_collectives(slices: Trace, run: Whole, inputs: Inputs, groups: str) -> LazyBatch | None:
    """Return the table `host_collectives` of a trace without kernels; None if it has no such collectives.

    `run` [n] is the run of each slice; `groups` are the process groups of the process, each as name:size, with spaces
    between them.
    """
    named = zip(slices.kinds, slices.classes, strict=True)
    is_one = are(slices.kind, [name.startswith(_GLOO) and not each.on_device for (_, name), each in named])
    rows = np.flatnonzero(is_one & (slices.elapsed >= 0))
    is_kernel = are(slices.kind, [each.activity == "kernel" for each in slices.classes])
    if not len(rows) or is_kernel.any():
        return None
    rows = rows[np.lexsort((slices.at[rows], run[rows]))]
    return LazyBatch(HOST_COLLECTIVES, lambda: _rows(slices, run[rows], rows, inputs, groups))


def _rows(slices: Trace, run: Whole, rows: Whole, inputs: Inputs, groups: str) -> pa.RecordBatch:
    # The events don't name their group: it is known if the process is in a single one.
    name, _, size = groups.rpartition(":") if " " not in groups else ("", "", "")
    processes = int(size) if name else None
    distinct, codes = inputs.at(slices.at[rows])
    messages = [_message(*given[:2]) for given in distinct] + [(None, None, None)]
    names = [slices.kinds[kind][1].removeprefix(_GLOO) for kind in slices.kind[rows].tolist()]
    sent = [messages[code] for code in codes.tolist()]
    sizes = [_bytes(name, size, processes) for name, (_, _, size) in zip(names, sent, strict=True)]
    return batch(
        {
            "run_index": numbers(run.astype(np.int32)),
            "event_index": numbers(slices.at[rows].astype(np.int32)),
            "start_ticks": numbers(slices.start[rows]),
            "elapsed_ticks": numbers(slices.elapsed[rows]),
            "collective": texts(names),
            "group_description": texts([name or None] * len(rows)),
            "group_size": integers([processes] * len(rows)),
            "message_type": texts([type for type, _, _ in sent]),
            "elements": integers([elements for _, elements, _ in sent], np.int64),
            "message_bytes": integers(sizes, np.int64),
        }
    )


def _message(shapes: bytes, dtypes: bytes) -> tuple[str | None, int | None, int | None]:
    """Return the type, the number of elements and the bytes of the one tensor among an event's inputs, from JSON; None
    for what is unknown.
    """
    dtype = _only(dtypes)
    dtype = dtype if isinstance(dtype, str) else None
    elements = None
    if isinstance(sizes := _only(shapes), list) and all(isinstance(each, int) and each >= 0 for each in sizes):
        elements = _bounded(math.prod(sizes))
    size = bytes_of(dtype)
    return _TYPES.get(dtype or ""), elements, None if elements is None or math.isnan(size) else elements * int(size)


def _only(written: bytes) -> Any:
    """Return the one entry of a JSON list; None for other JSON."""
    with suppress(msgspec.DecodeError, ValueError):
        [entry] = msgspec.json.decode(written, type=list[Any])
        return entry
    return None


def _bytes(collective: str, size: int | None, processes: int | None) -> int | None:
    """Return the bytes of a collective's message, from the bytes of the event's tensor."""
    if size is None or collective in _WHOLE:
        return size if size is None else _bounded(size)
    return _bounded(size * processes) if collective == _GATHERED and processes is not None else None


def _bounded(number: int) -> int | None:
    """Return a number if it fits 64 bits; a file may contain any sizes."""
    return number if number < 2**63 else None
