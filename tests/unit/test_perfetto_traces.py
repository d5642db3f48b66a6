"""Traces in Perfetto's format, as torch exports them, are read as the same trace in JSON.

The engine of Perfetto's user interface reads them here; the package `perfetto` would download its program.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from etq.errors import FormatError
from etq.ingest.trace import perfetto as product
from etq.warehouse.ephemeral import open_ephemeral
from tests.conftest import CAPTURES, shared_file
from tests.parity.readers import perfetto

TRACE = json.loads(gzip.decompress((CAPTURES / "torch_gpu/rank0.pt.trace.json.gz").read_bytes()))["traceEvents"]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def processor(data: bytes, _: str) -> Iterator[Any]:
        from perfetto.common.query_result_iterator import QueryResultIterator

        with perfetto(data) as opened:

            def query(sql: str) -> Any:
                answer = opened._rpc.execute_query(sql)
                assert not answer.error, answer.error
                return QueryResultIterator(answer.column_names, answer.batch)

            yield query

    monkeypatch.setattr(product, "_processor", processor)


def packed(events: list[dict[str, Any]]) -> bytes:
    """Slices in the layout of torch's monitor_pftrace.cpp: a track of each thread, interned names, arguments as debug
    annotations, and no categories.
    """
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = protos.Trace()
    slices = [each for each in events if each["ph"] == "X"]
    tracks = {
        thread: number
        for number, thread in enumerate(dict.fromkeys((e["pid"], e["tid"], "stream" in e["args"]) for e in slices), 10)
    }
    for (pid, tid, is_stream), uuid in tracks.items():
        descriptor = trace.packet.add().track_descriptor
        descriptor.uuid = uuid
        descriptor.thread.pid, descriptor.thread.tid = pid + 1, tid
        descriptor.thread.thread_name = f"stream {tid} " if is_stream else f"thread {tid}"
    names = {name: number for number, name in enumerate(dict.fromkeys(each["name"] for each in slices), 1)}
    packet = trace.packet.add()
    packet.trusted_packet_sequence_id, packet.sequence_flags = 1, 1
    for name, number in names.items():
        interned = packet.interned_data.event_names.add()
        interned.iid, interned.name = number, name
    ends = []
    for each in slices:
        uuid = tracks[each["pid"], each["tid"], "stream" in each["args"]]
        start, end = (round(1000 * time) for time in (each["ts"], each["ts"] + each["dur"]))
        packet = trace.packet.add()
        packet.timestamp, packet.trusted_packet_sequence_id, packet.sequence_flags = start, 1, 2
        packet.track_event.type, packet.track_event.track_uuid = 1, uuid
        packet.track_event.name_iid = names[each["name"]]
        for key, value in each["args"].items():
            annotate(packet.track_event.debug_annotations.add(), key, value)
        ends.append((end, uuid))
    for end, uuid in ends:
        packet = trace.packet.add()
        packet.timestamp, packet.trusted_packet_sequence_id = end, 1
        packet.track_event.type, packet.track_event.track_uuid = 2, uuid
    return bytes(trace.SerializeToString())


def annotate(annotation: Any, key: str | None, value: Any) -> None:
    if key is not None:
        annotation.name = key
    if isinstance(value, list):
        for each in value:
            annotate(annotation.array_values.add(), None, each)
    elif isinstance(value, str):
        annotation.string_value = value
    elif isinstance(value, float):
        annotation.double_value = value
    else:
        annotation.int_value = value


@pytest.mark.long
@pytest.mark.usefixtures("engine")
def test_a_trace_is_read_as_its_json() -> None:
    plain = json.dumps({"traceEvents": [each for each in TRACE if each["ph"] == "X"]}).encode()
    with open_ephemeral(plain)[0] as one, open_ephemeral(gzip.compress(packed(TRACE)))[0] as other:
        for view in ("kernel_table", "collectives", "copies", "kernel_launches"):
            expected, found = (each.rows(f"FROM {view}('bytes') ORDER BY ALL")[1] for each in (one, other))
            assert expected and found == expected, view


@pytest.mark.long
@pytest.mark.usefixtures("engine")
def test_slices_on_a_stream_are_kernels() -> None:
    """By hand: five of 50 ns, on a track that has only a name."""
    with open_ephemeral(shared_file("captures/reports/40_trace.pftrace"))[0] as warehouse:
        query = "SELECT kernel, family, calls, total FROM kernel_table($c, unit := 'ns')"
        assert warehouse.rows(query, c=warehouse.only)[1] == [("gemm", "GEMM", 5, 250)]
        assert warehouse.rows("SELECT DISTINCT stream FROM device_events")[1] == [(7,)]


@pytest.mark.long
@pytest.mark.usefixtures("engine")
def test_shapes_are_known_if_all_are_written() -> None:
    """Empty lists are lost in the engine."""
    at = {"ph": "X", "pid": 1, "tid": 2, "dur": 1}
    whole = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "est. achieved occupancy %": 9}
    partly = {"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"]}
    events = [at | {"name": "aten::mm", "ts": ts, "args": args} for ts, args in enumerate((whole, partly))]
    *_, first, second = json.loads(product.json_of(packed(events), "t"))["traceEvents"]
    assert (first["cat"], first["args"]) == ("cpu_op", whole)
    assert second["args"] == {"Input type": ["float", "Scalar"]}


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETQ_TRACE_PROCESSOR", "/nowhere/trace_processor_shell")
    with pytest.raises(
        FormatError, match=r"trace processor failed: .*name the program in ETQ_TRACE_PROCESSOR, or give"
    ):
        open_ephemeral(packed(TRACE))
    monkeypatch.setitem(sys.modules, "perfetto.trace_processor", None)
    with pytest.raises(FormatError, match=r"install its reader, pip install 'etq\[perfetto\]', or give the JSON"):
        open_ephemeral(packed(TRACE))


def test_what_the_package_prints_is_no_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints that it downloads the trace processor."""
    monkeypatch.setattr("perfetto.trace_processor.TraceProcessor", lambda **_: print("Downloading"))
    with pytest.raises(FormatError, match="trace processor failed"):
        product.json_of(packed(TRACE), "t")
    assert capsys.readouterr() == ("", "Downloading\n")
