"""Graphs in delegates' blobs by flatc, which comes with executorch, and the schemas of its backends."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any


def as_json(schema: str, graph: bytes) -> Any:
    """Return a graph as JSON."""
    options = ("--json", "--strict-json", "--defaults-json", "--raw-binary")
    text = _flatc(schema, *options, content=graph, name="schema.bin", made="schema.json").decode()
    return json.loads(re.sub(r": (-?)inf", r": \1Infinity", text))


def as_bytes(schema: str, graph: Any) -> bytes:
    """Return the bytes of a graph that is given as JSON."""
    return _flatc(schema, "-b", content=json.dumps(graph).encode(), name="schema.json", made="schema.bin")


def _flatc(schema: str, *options: str, content: bytes, name: str, made: str) -> bytes:
    """Return the file that flatc makes of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "schema.fbs").write_text(schema)
        (Path(folder) / name).write_bytes(content)
        arguments = ["flatc", *options, "-o", folder, f"{folder}/schema.fbs"]
        subprocess.run([*arguments, *(["--"] if name.endswith("bin") else []), f"{folder}/{name}"], check=True)
        return (Path(folder) / made).read_bytes()
