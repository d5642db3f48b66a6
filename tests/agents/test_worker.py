"""The process that answers calls, without a server."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from etq.processes import Worker, environment, search_path


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process in this way")
def test_a_file_that_unpacks_to_more_than_the_memory(tmp_path: Path) -> None:
    """The call fails; the process goes on."""
    with gzip.open(tmp_path / "large.pt.trace.json.gz", "wb", 1) as file:
        file.writelines([b'{"traceEvents": [', *[b" " * 10_000_000] * 90, b"]}"])
    (tmp_path / "small.pt.trace.json").write_text('{"traceEvents": []}')
    requests = [
        {"tool": "inspect_file", "settings": {"db": "none", "allowed": [str(tmp_path)]}, "arguments": {"path": path}}
        for path in ("large.pt.trace.json.gz", "small.pt.trace.json")
    ]
    (tmp_path / "limited.py").write_text("from etq.mcp.worker import main; main(most_memory=800_000_000)")
    worker = Worker("limited", variables=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), search_path()])))
    large, small = (json.loads(worker.ask(json.dumps(request).encode(), 60, 2**20)) for request in requests)
    worker.end()
    assert large == {"error": "not enough memory"} and "result" in small
