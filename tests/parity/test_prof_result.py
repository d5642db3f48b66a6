"""Blobs of many shapes, in all time scales, against the answers of ExecuTorch's own parser; and its faults."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest

from etq import FormatError
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.prof_result_builders import NO_INSTRUCTION, block, execute, kernel
from tests.sampling import thinned

FOLDER = CAPTURES / "prof_result"
NAMES = sorted(path.name.split(".")[0] for path in FOLDER.glob("*.bin"))
SCALES = {"TIME_IN_NS": "ns", "TIME_IN_US": "us", "TIME_IN_MS": "ms", "CPU_CYCLES": "cycles"}

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


def of_blocks(warehouse: Warehouse) -> dict[str, list[dict[str, Any]]]:
    """An empty list for each block, in order."""
    names = warehouse.rows("SELECT name FROM runs WHERE iteration = 0 ORDER BY run_index")[1]
    return {name: [] for (name,) in names}


def profile(warehouse: Warehouse, scale: str) -> dict[str, list[dict[str, Any]]]:
    """The old parser's profile, made from `prof_result_profile`."""
    blocks = of_blocks(warehouse)
    rows = warehouse.rows("FROM prof_result_profile('@latest', time_scale := $scale)", scale=scale)[1]
    # Whole numbers may be as large as a clock's values, too large for a double.
    is_whole = scale in ("ms", "cycles")
    assert not is_whole or [float(row[9]) for row in rows] == [row[7] for row in rows]
    for (name, _), found in groupby(rows, key=lambda row: row[:2]):
        iterations = list(found)
        _, _, event_name, chain, instruction, *_ = iterations[0]
        blocks[name].append(
            {
                "name": event_name, "ts": [row[9 if is_whole else 7] for row in iterations],
                "duration": [row[8] for row in iterations], "chain_idx": chain,
                "instruction_idx": NO_INSTRUCTION if instruction is None else instruction, "stacktrace": None,
            }
        )  # fmt: skip
    return blocks


def tax(warehouse: Warehouse, scale: str) -> dict[str, dict[str, list[float]]]:
    query = "SELECT block, execute, work, tax_percent FROM prof_result_tax('@latest', time_scale := $scale)"
    names = ("exec_time", "kernel_and_delegate_time", "framework_tax")
    found: dict[str, dict[str, list[float]]] = {}
    for name_of, *row in warehouse.rows(query, scale=scale)[1]:
        for name, value in zip(names, row, strict=True):
            found.setdefault(name_of, {}).setdefault(name, []).append(value)
    return found


def memory(warehouse: Warehouse) -> dict[str, list[dict[str, Any]]]:
    blocks = of_blocks(warehouse)
    for name, allocator, total in warehouse.rows(
        "SELECT block, allocator, total_bytes FROM prof_result_memory('@latest')"
    )[1]:
        blocks[name].append({"allocator_name": allocator, "total_allocations_done": total})
    return blocks


FEW_BLOBS = ("iterations", "two_blocks_interleaved", "execute_of_zero_length", "empty", *REFUSED, *FOUND)


@pytest.mark.parametrize("name", thinned(NAMES, FEW_BLOBS))
def test_the_old_parsers_answers(name: str) -> None:
    if name in REFUSED or name == "empty":
        # The old parser returns no blocks of an empty file, which was probably never written.
        nothing: dict[str, Any] = {"profile": {}, "memory": {}, "framework_tax": {}, "tables": []}
        old = old_answer(name, "TIME_IN_NS")
        assert old == nothing if name == "empty" else "error" in old
        with pytest.raises(FormatError) as refused:
            open_ephemeral(blob(name))
        assert str(refused.value).startswith(f"{blob(name)}: {REFUSED.get(name, 'the file is empty')}")
        return
    warehouse, capture = open_ephemeral(blob(name))
    with warehouse:
        assert (capture.name, capture.format) == (name, "prof_result")
        findings = warehouse.rows("SELECT rule, detail FROM findings")[1]
        if name in FOUND:
            error, *finding = FOUND[name]
            assert old_answer(name, "TIME_IN_NS")["error"].endswith(error)
            assert findings == [tuple(finding)]
            return
        assert findings == []
        if name == "execute_of_zero_length":
            # The old parser divides by zero, and has no answer for the whole file.
            assert old_answer(name, "TIME_IN_NS") == {"error": "ZeroDivisionError: float division by zero"}
            empty = {"exec_time": [0.0], "kernel_and_delegate_time": [0.0], "framework_tax": [None]}
            assert tax(warehouse, "ns") == {"b": empty}
            return
        for scale, unit in SCALES.items():
            expected = old_answer(name, scale)
            assert list(profile(warehouse, unit).items()) == list(expected["profile"].items())
            assert list(tax(warehouse, unit).items()) == list(expected["framework_tax"].items())
            assert list(memory(warehouse).items()) == list(expected["memory"].items())


# Deliberate differences, with both answers.


def test_the_longest_execute_is_each_iterations_own(warehouse: Warehouse) -> None:
    """Of two lists of durations, Python's max is the one whose first element is greater, and not the maxima."""
    durations = [[900, 100], [800, 700]]
    warehouse.ingest(
        b"".join(
            block("b", execute(0, durations[0][i]), execute(0, durations[1][i]), kernel("add", 0, 50)) for i in (0, 1)
        )
    )
    assert max(durations) == [900, 100]
    assert tax(warehouse, "cycles")["b"]["exec_time"] == [900.0, 700.0]
    assert tax(warehouse, "cycles")["b"]["framework_tax"] == [94.44, 92.86]


def test_a_block_has_its_own_allocators_names(warehouse: Warehouse) -> None:
    """The old parser keeps one table for the file, where the last block's names are those of all."""
    warehouse.ingest(
        block("load", allocators=[(0, "method"), (1, "planned")], allocations=[(0, 8), (1, 16)])
        + block("run", allocators=[(0, "temporary")], allocations=[(0, 4), (1, 2)])
    )
    old = {"load": ["temporary", "planned"], "run": ["temporary", "planned"]}
    ours = {name: [row["allocator_name"] for row in rows] for name, rows in memory(warehouse).items()}
    assert ours == {**old, "load": ["method", "planned"]}


def test_files_that_the_old_parser_takes_and_that_are_refused(warehouse: Warehouse) -> None:
    """It doesn't check that unused slots are there; of too many slots in use, it takes allocators for entries."""
    short = block("b", execute(0, 9), spare=(1, 0, 0))
    full = bytearray(block("b", execute(0, 9), allocators=[(0, "a"), (1, "b")]))
    full[40:44] = (2).to_bytes(4, "little")
    for data, message in (
        (short[:-1], f"block 'b' is truncated.* it breaks off at byte {len(short) - 1}"),
        (bytes(full), "at byte 40: block 'b' has 2 profile entries in use of 1"),
    ):
        with pytest.raises(FormatError, match=message):
            warehouse.ingest(data)
