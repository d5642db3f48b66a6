"""Blobs of many shapes, in all time scales, against the answers of ExecuTorch's own parser; and its faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from etq import FormatError
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.prof_result_builders import NO_INSTRUCTION, Entry, block, execute, kernel
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

FOLDER = CAPTURES / "prof_result"
NAMES = sorted(path.name.split(".")[0] for path in FOLDER.glob("*.bin"))
SCALES = {"TIME_IN_NS": "ns", "TIME_IN_US": "us", "TIME_IN_MS": "ms", "CPU_CYCLES": "cycles"}
VIEWS = ["prof_result_profile", "prof_result_tax", "prof_result_memory", "runs"]

# Both refuse files that can't be read.
REFUSED = {
    "bad_version": "at byte 32: a prof_result of version 2; expected version 1",
    "truncated_in_entries": "at byte 0: block 'b' is truncated, or its header is damaged: it has room for "
    "5 profile entries, 2 allocators, 3 allocations, 384 bytes, of which the file has 56; it breaks off at byte 120",
    "truncated_in_header": "at byte 448: the prof_result is truncated: expected a block's header of 64 bytes, found 3",
}
# etq reads inconsistent files and reports a finding; the old parser raises an error.
FOUND = {
    "bad_lengths": (
        "Profiling blocks corresponding to the same name shouldn't be of different lengths.",
        "iterations of other lengths",
        "block 'b', iteration 1: 3 entries, 5 in the iteration before; entry 3 is in one of them only",
    ),
    "bad_names": (
        "Corresponding entries in different iterations of the profiling block do not match",
        "iterations of other entries",
        "block 'b', iteration 1: entry 1 is 'native_call_linear.out', in the iteration before 'native_call_conv.out'",
    ),
    "bad_allocator_id": (
        "Corresponding entries in different iterations of the memory profiling blocks do not have the same allocator id",
        "iterations of other allocators",
        "block 'b', iteration 1: allocation 0 is from allocator 1, in the iteration before 0",
    ),
    "bad_allocation_size": (
        "Corresponding entries in different iterations of the memory profiling blocks do not have the same allocation "
        "size.",
        "iterations of other allocation sizes",
        "block 'b', iteration 1: allocation 2 is of size 33, in the iteration before 32",
    ),
    "unknown_allocator": (
        "KeyError: 9",
        "unknown allocator",
        "block 'b', iteration 0: allocation 0 is from allocator 9, which no block names",
    ),
}


def old_answer(name: str, scale: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((FOLDER / f"{name}.expected.json").read_text())
    found: dict[str, Any] = answers[scale]
    return found


def blob(name: str) -> str:
    return str(FOLDER / f"{name}.prof_result.bin")


def profile(warehouse: Warehouse, scale: str) -> dict[str, list[dict[str, Any]]]:
    """The old parser's profile, made from `prof_result_profile`."""
    blocks: dict[str, list[dict[str, Any]]] = {
        name: [] for (name,) in warehouse.rows("SELECT name FROM runs WHERE iteration = 0 ORDER BY run_index")[1]
    }
    rows = warehouse.rows("FROM prof_result_profile('@latest', time_scale := $scale)", scale=scale)[1]
    for (name, _), found in groupby(rows, key=lambda row: row[:2]):
        iterations = list(found)
        _, _, event_name, chain, instruction, *_ = iterations[0]
        # Whole numbers may be as large as a clock's values, too large for a double.
        is_whole = scale in ("ms", "cycles")
        assert [float(row[9]) for row in iterations if is_whole] == [row[7] for row in iterations if is_whole]
        blocks[name].append(
            {
                "name": event_name,
                "ts": [row[9 if is_whole else 7] for row in iterations],
                "duration": [row[8] for row in iterations],
                "chain_idx": chain,
                "instruction_idx": NO_INSTRUCTION if instruction is None else instruction,
                "stacktrace": None,
            }
        )
    return blocks


def tax(warehouse: Warehouse, scale: str) -> dict[str, dict[str, list[float]]]:
    rows = warehouse.rows(
        "SELECT block, execute, work, tax_percent FROM prof_result_tax('@latest', time_scale := $scale)", scale=scale
    )[1]
    return {
        name: dict(
            zip(
                ("exec_time", "kernel_and_delegate_time", "framework_tax"),
                map(list, list(zip(*found, strict=True))[1:]),
                strict=True,
            )
        )
        for name, found in ((name, list(found)) for name, found in groupby(rows, key=lambda row: row[0]))
    }


def memory(warehouse: Warehouse) -> dict[str, list[dict[str, Any]]]:
    blocks: dict[str, list[dict[str, Any]]] = {
        name: [] for (name,) in warehouse.rows("SELECT name FROM runs WHERE iteration = 0 ORDER BY run_index")[1]
    }
    rows = warehouse.rows("SELECT block, allocator, total_bytes FROM prof_result_memory('@latest')")[1]
    for name, allocator, total in rows:
        blocks[name].append({"allocator_name": allocator, "total_allocations_done": total})
    return blocks


def test_all_blobs_are_here() -> None:
    assert len(NAMES) == 23
    assert {*REFUSED, *FOUND} < {*NAMES}


@pytest.mark.parametrize("scale", thinned(SCALES, ["TIME_IN_US"]))
@pytest.mark.parametrize("name", NAMES)
def test_the_old_parsers_answers(name: str, scale: str) -> None:
    expected = old_answer(name, scale)
    if name in REFUSED or name == "empty":
        with pytest.raises(FormatError) as refused:
            open_ephemeral(blob(name), VIEWS)
        if name in REFUSED:
            assert "error" in expected
            assert str(refused.value) == f"{blob(name)}: {REFUSED[name]}"
        return
    warehouse, capture = open_ephemeral(blob(name), VIEWS)
    with warehouse:
        assert (capture.name, capture.format) == (name, "prof_result")
        findings = warehouse.rows("SELECT rule, detail FROM findings")[1]
        if name in FOUND:
            error, *finding = FOUND[name]
            assert expected["error"].endswith(error)
            assert findings == [tuple(finding)]
            return
        assert findings == []
        if name == "execute_of_zero_length":
            return
        assert list(profile(warehouse, SCALES[scale]).items()) == list(expected["profile"].items())
        assert list(tax(warehouse, SCALES[scale]).items()) == list(expected["framework_tax"].items())
        assert list(memory(warehouse).items()) == list(expected["memory"].items())


# --- deliberate differences, with both answers -------------------------------------------------------------------------


@pytest.fixture
def opened() -> Iterator[Warehouse]:
    with empty_warehouse() as warehouse:
        yield warehouse


def test_an_empty_file_is_refused() -> None:
    """The old parser returns no blocks. An empty file was probably never written."""
    assert old_answer("empty", "TIME_IN_NS") == {"profile": {}, "memory": {}, "framework_tax": {}, "tables": []}
    with pytest.raises(FormatError, match="the file is empty"):
        open_ephemeral(blob("empty"), VIEWS)


def test_an_execute_of_no_time_has_no_tax() -> None:
    """The old parser divides by zero, and has no answer for the whole file."""
    assert old_answer("execute_of_zero_length", "TIME_IN_NS") == {"error": "ZeroDivisionError: float division by zero"}
    warehouse, _ = open_ephemeral(blob("execute_of_zero_length"), VIEWS)
    with warehouse:
        assert tax(warehouse, "ns") == {
            "b": {"exec_time": [0.0], "kernel_and_delegate_time": [0.0], "framework_tax": [None]}
        }


def test_the_longest_execute_is_each_iterations_own(opened: Warehouse) -> None:
    """Of two lists of durations, Python's max is the one whose first element is greater, and not the maxima."""
    durations = [[900, 100], [800, 700]]
    opened.ingest(
        b"".join(
            block("b", execute(0, durations[0][i]), execute(0, durations[1][i]), kernel("add", 0, 50)) for i in (0, 1)
        )
    )
    assert max(durations) == [900, 100]
    assert tax(opened, "cycles")["b"]["exec_time"] == [900.0, 700.0]
    assert tax(opened, "cycles")["b"]["framework_tax"] == [94.44, 92.86]


def test_a_block_has_its_own_allocators_names(opened: Warehouse) -> None:
    """The old parser keeps one table for the file, where the last block's names are those of all."""
    opened.ingest(
        block("load", allocators=[(0, "method"), (1, "planned")], allocations=[(0, 8), (1, 16)])
        + block("run", allocators=[(0, "temporary")], allocations=[(0, 4), (1, 2)])
    )
    old = {"load": ["temporary", "planned"], "run": ["temporary", "planned"]}
    ours = {name: [row["allocator_name"] for row in rows] for name, rows in memory(opened).items()}
    assert ours == {**old, "load": ["method", "planned"]}


def test_a_file_that_breaks_off_in_unused_slots_is_refused() -> None:
    """The old parser doesn't check that unused slots are there; but without them, the file is truncated."""
    data = block("b", execute(0, 9), spare=(1, 0, 0))
    with (
        pytest.raises(FormatError, match=f"block 'b' is truncated.* it breaks off at byte {len(data) - 1}"),
        empty_warehouse() as w,
    ):
        w.ingest(data[:-1])


def test_more_slots_used_than_there_are_is_refused() -> None:
    """The old parser then takes allocators for entries."""
    data = bytearray(block("b", execute(0, 9), allocators=[(0, "a"), (1, "b")]))
    data[40:44] = (2).to_bytes(4, "little")
    with (
        pytest.raises(FormatError, match="at byte 40: block 'b' has 2 profile entries in use of 1"),
        empty_warehouse() as w,
    ):
        w.ingest(bytes(data))


def test_other_views_answer_for_what_overlaps(opened: Warehouse) -> None:
    """The old parser adds entries by name, so a call's children count twice. `framework_tax` uses self times."""
    opened.ingest(
        block(
            "b",
            execute(0, 100),
            Entry("DELEGATE_CALL", 0, 0, 10, 40),
            Entry("delegate_execute", 0, 0, 12, 38),
            Entry("OPERATOR_CALL", 0, 1, 50, 90),
            Entry("native_call_add.out", 0, 1, 51, 89),
        )
    )
    assert tax(opened, "cycles")["b"] == {
        "exec_time": [100.0],
        "kernel_and_delegate_time": [64.0],
        "framework_tax": [36.0],
    }
    rows = opened.framework_tax("@latest", unit="ns").fetchall()
    assert [row[2:6] for row in rows] == [(100.0, 38.0, 30.0, 0.0)]
