"""Runs an exported program on its representative inputs, for the reference side of a numeric gap. Needs torch."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any, Final

from etq.errors import EtqError, FormatError, displayed
from etq.ingest.memory import read_member
from etq.torch.operators import register_operators

EXPORTED: Final = "exported_program"
EDGE: Final = "edge_dialect_exported_program"
# The method of a graph whose name has none.
_FORWARD: Final = "forward"
# Characters of an error of torch that are shown.
MOST_SHOWN: Final = 300
NO_TORCH: Final = "running a reference needs torch; install it with: pip install 'etq[torch]'"
NO_EXECUTORCH: Final = (
    "running an edge program needs executorch; install it with: pip install executorch, or use the exported program"
)


def reference_values(path: str | os.PathLike[str], graph: str = EXPORTED) -> dict[str, list[Any]]:
    """Compute the values of each node of an ETRecord's graph for the record's representative inputs.

    Returns the outputs of each node, by node name and in the order of execution: numpy arrays (bfloat16 and float8 as
    float32), ints, floats and bools; None for outputs of other types. Of pickled members, only tensors are read.

    graph  `exported_program`, which torch alone runs, or another graph of the record by its name, as
           `edge_dialect_exported_program` or `edge_after_transform/forward`, which needs executorch

    Raises `EtqError` if torch or executorch is missing or can't run the program, and `FormatError` if the record lacks
    the graph or representative inputs.
    """
    try:
        import torch
    except ImportError as error:
        raise EtqError(NO_TORCH) from error
    name = os.fspath(path)
    with _archive(name) as archive:
        inputs = _tensors(archive, name, "representative_inputs")
        module = _exported(archive, name) if graph == EXPORTED else _other(archive, name, graph)
    try:
        with torch.no_grad():
            return dict(_run(module, inputs))
    except Exception as error:
        raise EtqError(
            f"{displayed(name)}: {graph} can't be run by torch {torch.__version__}: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    """The first line of an error's text: torch's go on with whole nodes and programs."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= MOST_SHOWN else line[:MOST_SHOWN] + " …"


def _archive(path: str) -> zipfile.ZipFile:
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH113 - opening a pipe may wait forever
        raise FormatError(displayed(path), "can't be read: not a regular file")
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise FormatError(displayed(path), f"not an ETRecord: {error}") from error


def _member(archive: zipfile.ZipFile, path: str, name: str) -> bytes:
    try:
        return read_member(archive, name, displayed(path))
    except KeyError as error:
        raise FormatError(displayed(path), f"the ETRecord has no {name}, which a reference needs") from error
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise FormatError(displayed(path), f"member {name} is damaged: {error}") from error


def _tensors(archive: zipfile.ZipFile, path: str, name: str) -> Any:
    """Return the content of a member that torch.save wrote: tensors and plain values; other objects are refused,
    never run.
    """
    import torch

    try:
        return torch.load(io.BytesIO(_member(archive, path, name)), weights_only=True)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(displayed(path), f"member {name} can't be read as tensors: {error}") from error


def _exported(archive: zipfile.ZipFile, path: str) -> Any:
    from torch._export.serde.schema import SCHEMA_VERSION
    from torch._export.serde.serialize import SerializedArtifact, deserialize

    written = _member(archive, path, EXPORTED)
    try:
        program = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise FormatError(displayed(path), f"member {EXPORTED}: {error}") from error
    # executorch writes an older version of the same schema; torch would reject its version number.
    program["schema_version"] = {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]}
    register_operators(written, path, EXPORTED)
    # Tensors are read here, as torch would unpickle members that it can't read as tensors.
    saved = [_tensors(archive, path, f"{EXPORTED}_{part}") for part in ("state_dict", "constants", "example_inputs")]
    try:
        return deserialize(SerializedArtifact(json.dumps(program).encode(), *saved)).module()
    except Exception as error:
        raise EtqError(f"{displayed(path)}: torch can't build {EXPORTED}: {_first_line(error)}") from error


def _other(archive: zipfile.ZipFile, path: str, graph: str) -> Any:
    """Return a graph of any name, which executorch reads: that of the edge program, or one of its `graph_map`."""
    try:
        from executorch.devtools.etrecord import parse_etrecord
    except ImportError as error:
        raise EtqError(NO_EXECUTORCH) from error
    written = graph if "/" in graph else f"{graph}/{_FORWARD}"
    members = [each for each in (graph, written) if each in archive.namelist()]
    if not members:
        raise FormatError(displayed(path), f"the ETRecord has no {graph}, which a reference needs")
    for member in members:
        register_operators(_member(archive, path, member), path, graph)
    try:
        record = parse_etrecord(path)
        program = record.edge_dialect_program if graph in (EDGE, f"{EDGE}/{_FORWARD}") else record.graph_map[written]
        return program.module()
    except Exception as error:
        raise EtqError(f"{displayed(path)}: executorch can't build {graph}: {_first_line(error)}") from error


def _run(module: Any, inputs: Any) -> Iterator[tuple[str, list[Any]]]:
    """Run a graph module node by node; yield the name and the outputs of each call."""
    import torch

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                values = result if isinstance(result, tuple | list) else [result]
                # Later nodes may write into a tensor, so its present values are copied.
                outputs.append((n.name, [_plain(value) for value in values]))
            return result

    outputs: list[tuple[str, list[Any]]] = []
    Recorder(module).run(inputs)
    yield from outputs


def _plain(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, bool | int | float) else None
    tensor = value.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16 or (tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point):
        tensor = tensor.float()
    return tensor.numpy().copy()
