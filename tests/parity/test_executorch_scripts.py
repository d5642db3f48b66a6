"""What the scripts in executorch's tree ask of the Inspector, of the drop-in, with values by hand.

In August 2026: Arm's Chrome trace, the printers of NXP and of Cadence, the inspectors of Core ML, and the command line,
tests and debugger of QNN. Vulkan and the shell
scripts of Arm and Android call the Inspector's command line. docs/compatibility.md says where their outputs differ.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq.inspector import Event, EventBlock, Inspector, PerfData, TimeScale, compare_results
from tests.builders import DebugEvent, Run, Tensor, delegate_call, delegated, dump, execute, kernel, operator_call, run
from tests.conftest import CAPTURES

pytest.importorskip("pandas", reason="the drop-in Inspector's DataFrames need pandas")
both = pytest.mark.parametrize("compat", [False, True])


def written(folder: Path, *runs: Run) -> str:
    """The path of a dump."""
    path = folder / "etdump.etdp"
    path.write_bytes(dump(*runs))
    return str(path)


def two_runs(*logged: bytes | None) -> list[Run]:
    """Two executes of 10 and 14 us: an add of 2 us, a delegate's call of 5 and 7 us with an op of 3 and 6 us."""
    return [
        run(
            "Execute",
            kernel("add", at + 1_000, at + 3_000, instruction=0),
            operator_call(at + 500, at + 3_500, instruction=0),
            replace(delegated("Add (ND, F32) #1", at + 4_500, at + 4_500 + op, 1), delegate_debug_metadata=metadata),
            delegate_call(at + 4_000, at + 4_000 + call, instruction=1),
            execute(at, at + whole),
        )
        for (at, whole, call, op), metadata in zip(
            ((100_000, 10_000, 5_000, 3_000), (200_000, 14_000, 7_000, 6_000)), logged or (None, None), strict=True
        )
    ]


@both
def test_slices_of_a_trace(tmp_path: Path, compat: bool) -> None:
    """Arm's: a slice for each event of each run, in microseconds."""
    made = Inspector(
        etdump_path=written(tmp_path, *two_runs()),
        etrecord=None,
        source_time_scale=TimeScale("ns"),
        target_time_scale=TimeScale.US,
        compat=compat,
    )
    [block] = made.event_blocks
    slices = {
        event.name: [*zip(event.start_time, event.perf_data.raw, strict=True)]
        for event in block.events
        if event.perf_data is not None and event.start_time is not None
    }
    assert slices == {
        "native_call_add.out": [(101_000, 2), (201_000, 2)],
        "OPERATOR_CALL": [(100_500, 3), (200_500, 3)],
        "Add (ND, F32) #1": [(104_500, 3), (204_500, 6)],
        "DELEGATE_CALL": [(104_000, 5), (204_000, 7)],
        "Method::execute": [(100_000, 10), (200_000, 14)],
    }
    arguments = [(event.is_delegated_op, event.delegate_backend_name, event.op_types) for event in block.events]
    assert arguments == [(False, None, []), (False, None, []), (True, None, []), (False, None, []), (False, None, [])]
    json.dumps([slices, arguments])


@both
def test_metadata_of_a_list(tmp_path: Path, compat: bool) -> None:
    """NXP's: the parser gets what each run logged, op types can be replaced, and all is printed."""
    path = written(tmp_path, *two_runs(b"\x02", b"\x00"))
    made = Inspector(
        path, delegate_metadata_parser=lambda logged: [f"kernel {each[0]}" for each in logged], compat=compat
    )
    [event] = [event for block in made.event_blocks for event in block.events if event.is_delegated_op]
    assert event.delegate_debug_metadatas == ["kernel 2", "kernel 0"]
    for block in made.event_blocks:
        for each in block.events:
            each.op_types = ["aten.add.Tensor"] if isinstance(each.op_types, list) else each.op_types
    printed = io.StringIO()
    made.print_data_tabular(printed, include_delegate_debug_data=True)
    assert "kernel 2" in printed.getvalue() and "aten.add.Tensor" in printed.getvalue()


@both
def test_values_by_debug_handle(compat: bool) -> None:
    """Core ML's: kernels have a number as debug handle, delegates' events a list; sizes of values are compared."""
    folder = CAPTURES / "demo_int"
    made = Inspector(
        str(folder / "demo_int_debug.etdp"),
        etrecord=str(folder / "demo_int.etrecord"),
        debug_buffer_path=str(folder / "demo_int_debug.bin"),
        compat=compat,
    )
    found: dict[int, Event] = {}
    for event in made.event_blocks[-1].events:
        if event.name.strip() and event.name not in ("DELEGATE_CALL", "OPERATOR_CALL"):
            handles = [event.debug_handles] if isinstance(event.debug_handles, int) else event.debug_handles
            found |= {handle: event for handle in handles or [] if event.debug_data}
    # As in executorch: two kernels, and the events of two delegate calls, of which the first has two more events.
    names = {1: "native_call_addmm.out", 6: "native_call_addmm.out", 2: "0", 3: "0", 4: "1", 5: "4", 7: "0", 8: "1"}
    assert {handle: event.name for handle, event in found.items()} == names
    assert all(event.debug_data[0].shape for event in found.values())


@both
def test_cycles(tmp_path: Path, compat: bool) -> None:
    """Cadence's and QNN's: times in cycles, and the outputs of the program and of instructions."""
    buffer = tmp_path / "debug.bin"
    buffer.write_bytes(np.array([1.5, 2.5], np.float32).tobytes())
    logged = [
        DebugEvent(Tensor(6, (1,), (1,), 0), 0, 0, name="native_call_add.out"),
        DebugEvent(Tensor(6, (1,), (1,), 4), name="Method::execute", output=True),
    ]
    [first, _] = two_runs()
    made = Inspector(
        etdump_path=written(tmp_path, replace(first, events=(*first.events, *logged))),
        debug_buffer_path=str(buffer),
        etrecord=None,
        source_time_scale=TimeScale.CYCLES,
        target_time_scale=TimeScale.CYCLES,
        compat=compat,
    )
    assert len(made.to_dataframe().index) == 5
    [block] = [each for each in made.event_blocks if each.name == "Execute"]
    assert isinstance(block, EventBlock) and block.run_output is not None
    assert [np.asarray(each).tolist() for each in block.run_output] == [[2.5]]
    averages = {event.name: event.perf_data.avg for event in block.events if isinstance(event.perf_data, PerfData)}
    assert (averages["Method::execute"], averages["native_call_add.out"]) == (10_000, 2_000)
    values: dict[Any, list[str]] = {
        event._instruction_id: [str(value) for value in event.debug_data]
        for event in block.events
        if event.name != "OPERATOR_CALL" and event.debug_data
    }
    assert len(values) == 1 and "1.5" in values[0][0]


@both
def test_the_tsv_in_a_file(tmp_path: Path, compat: bool) -> None:
    """QNN's: without events that only wrap others."""
    path = tmp_path / "etdump.csv"
    Inspector(etdump_path=written(tmp_path, *two_runs()), compat=compat).save_data_to_tsv(str(path))
    with path.open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file, delimiter="\t")]
    assert [(row["event_name"], float(row["avg (ms)"]), row["start_time"]) for row in rows] == [
        ("native_call_add.out", 0.002, "[101000, 201000]"),
        ("Add (ND, F32) #1", pytest.approx(0.0045), "[104500, 204500]"),
        ("DELEGATE_CALL", 0.006, "[104000, 204000]"),
        ("Method::execute", 0.012, "[100000, 200000]"),
    ]


@both
def test_outputs_are_compared(compat: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Core ML's and the Inspector's command line."""
    outputs = [np.array([1.0, 2.0], np.float32)]
    assert compare_results(reference_output=outputs, run_output=outputs, metrics=["mse"], plot=True) == {"mse": [0.0]}
    assert "mse" in capsys.readouterr().out
