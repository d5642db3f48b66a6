"""What scripts share that make captures, records and answers of other programs."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any) -> int:
    """Write JSON, packed; the same bytes each time. Returns how many."""
    return path.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def pack(path: Path, into: Path | None = None, *, without: tuple[str, ...] = ()) -> None:
    """Deflate the members of a record but those that end so, and shorten the paths of source files."""
    import torch

    packages, here = str(Path(torch.__file__).parents[2]), str(Path(__file__).resolve().parents[2])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith(without)}
    with zipfile.ZipFile(into or path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            shortened = re.sub(f"{packages}/|{here}/".encode(), b"", content)
            archive.writestr(zipfile.ZipInfo(name), shortened, zipfile.ZIP_DEFLATED)


def trace_of(profiler: Any, path: Path) -> bytes:
    """The trace that torch's profiler exports, which names its file as it will be found."""
    profiler.export_chrome_trace(str(path))
    content = path.read_bytes().replace(f'"{path}"'.encode(), f'"./{path.name}"'.encode())
    path.unlink()
    return content


def call_outputs(program: Any, inputs: Any) -> dict[str, list[Any]]:
    """The outputs of each call of an exported program's graph, run by torch, by its node's name: None if it is no tensor."""
    import torch

    found: dict[str, list[Any]] = {}

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                each = result if isinstance(result, tuple | list) else [result]
                found[n.name] = [value.detach().clone().numpy() if torch.is_tensor(value) else None for value in each]
            return result

    Recorder(program.module()).run(*inputs)
    return found


def programs_of(record: Any) -> dict[str, Any]:
    """The programs of a record that executorch has read, by `STAGE/METHOD`."""
    edges = record.edge_dialect_program
    edges = edges if isinstance(edges, dict) else {"forward": edges}
    found = {"exported_program/forward": record.exported_program}
    found |= {f"edge_dialect_exported_program/{method}": program for method, program in edges.items()}
    return {name: program for name, program in found.items() if program is not None and not isinstance(program, dict)}


def delegates_of(content: bytes, backend: str, header_of: Any) -> Iterator[tuple[str, bytes]]:
    """The graphs in the blobs of a program's delegates of a backend, by `METHOD/DELEGATE`."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    program = deserialize_pte_binary(content).program
    for plan in program.execution_plan:
        for index, delegate in enumerate(plan.delegates):
            if delegate.id == backend:
                data = bytes(program.backend_delegate_data[delegate.processed.index].data)
                header = header_of.from_bytes(data[: header_of.EXPECTED_LENGTH])
                start = header.flatbuffer_offset
                yield f"{plan.name}/{index}", data[start : start + header.flatbuffer_size]
