"""Files that are given as what they aren't: errors say what they are, and what to give."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, Final

import pytest

from etq.errors import EtqError, FormatError
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.graph_traces import capture, launches, layers
from tests.trace_builders import event, trace

TRACE: Final = trace(event("cpu_op", "aten::add", 0, 10))
FOLDER: Final = CAPTURES / "mlp"
FILES: Final = {
    "a PyTorch trace": gzip.compress(TRACE),
    "an ETDump": (FOLDER / "mlp.etdp").read_bytes(),
    "an ExecuTorch program (.pte)": (FOLDER / "mlp.pte").read_bytes(),
    "a zip, perhaps an ETRecord": (FOLDER / "mlp.etrecord").read_bytes(),
}
# Of options what they take, and what a file of another kind is told.
OPTIONS: Final = {
    "etrecord": ("a zip, perhaps an ETRecord", "not an ETRecord; give the .etrecord of the program"),
    "pte": ("an ExecuTorch program (.pte)", "not a program; give the .pte that was run"),
    "debug_buffer": (None, "not a debug buffer; give the file of values that the runtime wrote with the ETDump"),
    "metrics": (None, "not a file of metrics; give a log of the runner, or JSON"),
}


def readers(warehouse: Warehouse) -> tuple[Callable[..., Any], ...]:
    return warehouse.ingest, open_ephemeral


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", FILES)
def test_what_is_given_with_a_dump(warehouse: Warehouse, option: str, kind: str) -> None:
    fitting, message = OPTIONS[option]
    given: dict[str, Any] = {option: [FILES[kind]] if option == "metrics" else FILES[kind]}
    if kind == fitting:
        assert warehouse.ingest(FILES["an ETDump"], **given).is_new
        return
    if (option, kind) == ("metrics", "an ETDump"):
        message = "bytes"  # as for any file without metrics: the log of a device may have a dump, too
    with pytest.raises(FormatError) as raised:
        warehouse.ingest(FILES["an ETDump"], **given)
    assert message in str(raised.value)
    assert kind in str(raised.value) or option == "metrics"
    assert warehouse.rows("FROM captures")[1] == []


@pytest.mark.parametrize("kind", [each for each in FILES if each != "a PyTorch trace"])
def test_what_is_given_as_a_graph_capture(warehouse: Warehouse, kind: str) -> None:
    message = "not a graph capture; give the trace that torch's profiler wrote while the graphs were captured"
    for read in readers(warehouse):
        with pytest.raises(FormatError) as raised:
            read(TRACE, graph_captures=[FILES[kind]])
        assert f"this is {kind}, {message}" in str(raised.value)


def test_a_trace_is_not_its_own_capture(warehouse: Warehouse) -> None:
    nodes = layers(2)
    for read in readers(warehouse):
        with pytest.raises(FormatError, match="is the trace itself; give the trace that was recorded while its graphs"):
            read(launches([nodes]), graph_captures=[capture([nodes]), launches([nodes])])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"etrecord": FOLDER / "mlp.etrecord"}, "a PyTorch trace has no ETRecord: leave it out, or give an ETDump"),
        ({"debug_buffer": FOLDER / "mlp_debug.bin"}, "a PyTorch trace has no debug buffer: leave it out"),
    ],
)
def test_what_a_trace_does_not_have(warehouse: Warehouse, given: dict[str, Any], message: str) -> None:
    for each in given.values():
        assert each.exists()
    for read in readers(warehouse):
        with pytest.raises(FormatError, match=message):
            read(TRACE, **given)
    assert warehouse.rows("FROM captures")[1] == []


def test_a_trace_is_not_linked(warehouse: Warehouse) -> None:
    """Among other captures that are ingested with a record, it stays without."""
    record = warehouse.ingest_record(FOLDER / "mlp.etrecord", name="record")
    found = warehouse.ingest_many([TRACE, FILES["an ETDump"]], link_to=[record])
    assert not any(isinstance(each, EtqError) for each in found)
    query = "SELECT format, record_id IS NOT NULL FROM captures ORDER BY format"
    assert warehouse.rows(query)[1] == [("etdump", True), ("torch_trace", False)]
    [name] = [each.name for each in found if not isinstance(each, EtqError) and each.format == "torch_trace"]
    with pytest.raises(EtqError, match="is a PyTorch trace, which has no record or program: link an ETDump"):
        warehouse.link(name, "record")
