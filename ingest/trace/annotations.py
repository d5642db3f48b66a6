"""Modules of the kernels of CUDA graphs, as torch.cuda's `mark_kernels` noted them while a graph was captured.

PyTorch writes the name of a kernel's module into the kernel's arguments. Or it writes the names of all modules into a
file beside the trace, `kernel_annotations_rank0_*.json`; its keys are the numbers of the graphs' nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count, groupby
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from etq.errors import FormatError, json_error
from etq.ingest.trace.classes import Class
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.slices import Template

# The number of a node, of at most 64 bits.
_NODE: Final = re.compile(r"[0-9]{1,20}")
_BEGINNING: Final = re.compile(rb'\s*\{\s*"\d+"\s*:\s*\[')
_MODULE: Final = Class("module")
# The keys under which a name is written; older files have the second.
_KEYS: Final = ("name", "str")


class Annotated(NamedTuple):
    """The names of modules, in the form of slices for `Added`."""

    kinds: Sequence[tuple[str, str]]
    kind: npt.NDArray[np.int64]
    classes: Sequence[Class]


def annotations_in(data: Any, path: str) -> Mapping[int, str] | None:
    """Return the module of each node of graphs in a file of annotations; None for other files.

    Raises `FormatError` for a file that begins like a file of annotations, but isn't JSON.
    """
    if _BEGINNING.match(bytes(data[:256])) is None:
        return None
    try:
        written = msgspec.json.decode(bytes(data), type=dict[str, list[Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(path, f"not a file of kernel annotations: {json_error(error)}") from error
    named = ((node, [*filter(None, map(_name_of, scopes))]) for node, scopes in written.items())
    # Of nested scopes, the last is the innermost.
    return {int(node): names[-1] for node, names in named if names and _NODE.fullmatch(node)}


def _name_of(scope: Any) -> str:
    if isinstance(scope, dict):
        return next((scope[key] for key in _KEYS if isinstance(scope.get(key), str)), "")
    return scope if isinstance(scope, str) else ""


def template_of(modules: Sequence[str | None]) -> tuple[Annotated, Template]:
    """Return the slices that a launch of a graph adds for the modules of its kernels, in order. Consecutive kernels of
    one module share a slice.
    """
    runs = [(name, len([*run])) for name, run in groupby(modules)]
    names = [name for name, _ in runs if name is not None]
    place = count()
    owners = [owner for name, length in runs for owner in [NONE if name is None else next(place)] * length]
    kinds = [("python_function", f"nn.Module: {name}") for name in names]
    none = np.full(len(names), NONE)
    template = Template(
        np.arange(len(names)), none, np.zeros(len(names), np.int64), np.full(len(owners), NONE), np.array(owners)
    )
    return Annotated(kinds, np.arange(len(names)), [_MODULE] * len(kinds)), template
