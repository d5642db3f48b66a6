"""Metadata that delegates log with times: in the formats of the common backends, and by a user's decoder."""

from __future__ import annotations

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.asserts import TWO_OPERATORS, assert_csv, assert_query
from tests.builders import ProfileEvent, delegate_call, delegated, dump, execute, run
from tests.conftest import shared_file


def test_delegate_metadata() -> None:
    """Metadata by the backends' documentation, as there are no real captures: Core ML's JSON, VGF's base64,
    Neutron's byte, QNN's units, Vulkan's names; the last one has no known form.
    """
    import base64
    from dataclasses import replace

    vgf = base64.b64encode(b'{"layer": "conv", "cycles": 70}')

    def event(name: str, metadata: bytes | None) -> ProfileEvent:
        return replace(delegated(name, 10, 20), delegate_debug_metadata=metadata)

    assert_query(
        "SELECT event_name, source, field, value, runs FROM delegate_metadata('test')",
        """
        event_name,source,field,value,runs
        coreml,metadata,estimatedCost,0.25,2
        coreml,metadata,preferredComputeUnit,NE,2
        vgf,metadata,cycles,70,2
        vgf,metadata,layer,conv,2
        neutron,metadata,function_code,200,2
        Graph time (us),name,unit,us,2
        "{""kernel_name"": ""conv2d"", ""dispatch_id"": 7}",name,dispatch_id,7,2
        "{""kernel_name"": ""conv2d"", ""dispatch_id"": 7}",name,kernel_name,conv2d,2
        plain,metadata,,hello,2
        other,metadata,,00ff10,2
        long,metadata,,786e6e5f610039393939393939393939393939,2
        """,
        *[
            run(
                "Execute", event("coreml", b'{"estimatedCost": 0.25, "preferredComputeUnit": "NE"}'), event("vgf", vgf),
                event("neutron", bytes([200])), event("Graph time (us)", None),
                event('{"kernel_name": "conv2d", "dispatch_id": 7}', None), event("plain", b"hello"),
                event("other", b"\x00\xff\x10"), event("long", b"xnn_a\x009999999999999"), delegate_call(5, 30), execute(0, 40),
            )
        ]
        * 2,
    )  # fmt: skip
    assert_query(
        "SELECT * FROM delegate_metadata('test')",
        "block_index,slot,event_name,source,field,value,runs\n",
        TWO_OPERATORS,
    )


def test_microkernels_of_xnnpack(warehouse: Warehouse) -> None:
    """By hand: in 5 runs the GEMM of 400 us logs its microkernel and 390 to 394 us, the softmax of 100 us no symbol and
    90 to 94 us.
    """
    warehouse.ingest(shared_file("captures/reports/52_xnn_meta.etdp"), name="xnn")
    assert_csv(
        warehouse,
        "SELECT slot, field, value, runs FROM delegate_metadata('xnn')",
        """
        slot,field,value,runs
        0,microkernel,xnn_f32_gemm_ukernel,5
        0,microkernel_percent,98.0,5
        0,microkernel_us,392.0,5
        1,microkernel_percent,92.0,5
        1,microkernel_us,92.0,5
        """,
    )
    assert_csv(
        warehouse,
        "SELECT calls, ops, microkernels, unit FROM delegate_totals('xnn', unit := 'ms')",
        "calls,ops,microkernels,unit\n5,2.5,2.42,ms\n",
    )


def test_metadata_by_a_custom_decoder(warehouse: Warehouse) -> None:
    from dataclasses import replace

    def decoder(name: str, logged: bytes) -> dict[str, object] | None:
        if name == "bad":
            raise ValueError("no such layer")
        return {"layer": logged[0], "tile": [logged[1], 2]} if name == "conv" else None

    def ran(*names: str) -> bytes:
        events = [replace(delegated(name, 10, 20), delegate_debug_metadata=b"\x07\x01") for name in names]
        return dump(*[run("Execute", *events, delegate_call(5, 30), execute(0, 40))] * 2)

    capture = warehouse.ingest(ran("conv", "other"), name="good")
    assert warehouse.decoded_metadata(capture, decoder).fetchall() == [
        (0, 0, "conv", "layer", "7", 2),
        (0, 0, "conv", "tile", "[1, 2]", 2),
        (0, 1, "other", None, "0701", 2),
    ]
    assert warehouse.decoded_metadata(warehouse.ingest(dump(TWO_OPERATORS), name="none"), decoder).fetchall() == []
    warehouse.ingest(ran("bad"), name="bad")
    with pytest.raises(QueryError, match=r"the decoder raised ValueError at b'.*' of bad: no such layer"):
        warehouse.decoded_metadata("bad", decoder)
    with pytest.raises(QueryError, match="the decoder gave 3 for conv; expected a mapping"):
        warehouse.decoded_metadata("good", lambda name, logged: 3)  # type: ignore[arg-type, return-value]
