"""The meanings of a program's inputs and outputs, and the debug handles of its nodes."""

from __future__ import annotations

from etq.ingest.etrecord.export_json import Signature


def input_kinds(signature: Signature | None) -> dict[str, str]:
    """Return the meaning of each input of a program by name, except for the user's inputs."""
    kinds: dict[str, str] = {}
    for spec in signature.input_specs if signature else []:
        for kind, named in (("parameter", spec.parameter), ("buffer", spec.buffer), ("constant", spec.tensor_constant)):
            if named is not None and named.arg.name is not None:
                kinds[named.arg.name] = kind
    return kinds


def mutations(signature: Signature | None) -> set[str | None]:
    """Return the names of the values that a program returns as the new content of a buffer or an input."""
    specs = signature.output_specs if signature else []
    return {kind.arg.name for spec in specs for kind in (spec.buffer_mutation, spec.user_input_mutation) if kind}


def debug_handles(written: list[str | int | None]) -> list[int]:
    """Debug handles as numbers, see `_debug_handle`."""
    try:
        handles = [int(each or 0) for each in written]
    except ValueError:
        handles = []
    if handles and min(handles) >= 0 and max(handles) < 2**31:
        return handles
    return [_debug_handle(each) for each in written]


def _debug_handle(written: str | int | None) -> int:
    """A debug handle as a number; 0 (unset) for anything else."""
    try:
        handle = int(written or 0)
    except ValueError:
        return 0
    return handle if 0 < handle < 2**31 else 0
