"""The reader of `prof_result.bin` on random, damaged and odd files."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etq import FormatError
from etq.ingest.prof_result import reader as prof_result
from etq.ingest.registry import Given, read_capture
from tests.prof_result_builders import NO_INSTRUCTION, Entry, block, execute, kernel
from tests.sampling import examples

Tables = dict[str, list[dict[str, Any]]]

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NAME = st.one_of(
    st.sampled_from(
        ["Method::execute", "native_call_add.out", "OPERATOR_CALL", "DELEGATE_CALL", "delegate_execute", ""]
    ),
    st.text(max_size=8),
)
entries = st.builds(
    Entry, NAME, st.sampled_from([-1, 0, 1]) | st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 1, NO_INSTRUCTION]) | U32, U64 | st.integers(0, 100), U64 | st.integers(0, 100),
)  # fmt: skip
blocks = st.tuples(
    st.sampled_from(["load", "run"]),
    st.lists(entries, max_size=6),
    st.lists(st.tuples(st.integers(0, 2) | U64, NAME), max_size=3),
    st.lists(st.tuples(st.integers(0, 3) | U32, U32), max_size=3),
    st.tuples(*[st.integers(0, 2)] * 3),
)
Block = tuple[str, list[Entry], list[tuple[int, str]], list[tuple[int, int]], tuple[int, int, int]]


def read(data: Any, path: str = "test.prof_result.bin", **options: Any) -> Tables:
    """All rows of all tables."""
    tables: Tables = defaultdict(list)
    for table, batch in read_capture(data, path, Given(**options)):
        tables[table] += batch.to_pylist()
    return tables


def written(made: list[Block]) -> bytes:
    return b"".join(
        block(name, *entries, allocators=allocators, allocations=allocations, spare=spare)
        for name, entries, allocators, allocations, spare in made
    )


def events(tables: Tables) -> list[dict[str, Any]]:
    """The rows of event_ticks with their signatures'."""
    found = {row["signature_index"]: row for row in tables["signatures"]}
    return [{**found[row["signature_index"]], **row} for row in tables["event_ticks"]]


@examples(150)
@given(st.lists(blocks, min_size=1, max_size=5), st.sampled_from([1, 4, 65536]))
def test_every_field_of_random_files(made: list[Block], group: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prof_result, "GROUP", group)
        patch.setattr(prof_result, "SEQUENCES", 1)
        tables = read(written(made))
    names = [name for name, *_ in made]
    assert [(row["run_index"], row["name"], row["iteration"], row["dump_index"]) for row in tables["runs"]] == [
        (at, name, names[:at].count(name), 0) for at, name in enumerate(names)
    ]
    assert [
        (
            *(row[column] for column in ("run_index", "event_index", "name", "chain_index", "instruction_id")),
            row["start_ticks"] % 2**64,
            (row["start_ticks"] + row["elapsed_ticks"]) % 2**64,
            row["delegate_debug_id"],
            row["clock"],
        )
        for row in events(tables)
    ] == [
        (
            *(at, index, str(entry.name).replace("\0", ""), entry.chain),
            # As in all other files, an instruction is an i32, and -1 means none.
            None if entry.instruction == NO_INSTRUCTION else (entry.instruction + 2**31) % 2**32 - 2**31, entry.start,
            entry.end, None, "host",
        )
        for at, (_, found, *_) in enumerate(made)
        for index, entry in enumerate(found)
    ]  # fmt: skip
    assert [tuple(row.values()) for row in tables["allocations"]] == [
        (at, len(found) + index, id, size)
        for at, (_, found, _, allocations, _) in enumerate(made)
        for index, (id, size) in enumerate(allocations)
    ]
    of_file = {id: name.replace("\0", "") for _, _, allocators, _, _ in made for id, name in allocators}
    expected = []
    for at, (_, _, allocators, allocations, _) in enumerate(made):
        used = {id: of_file[id] for id, _ in allocations if id in of_file}
        own = {id: name.replace("\0", "") for id, name in allocators}
        expected += [(at, id, name) for id, name in {**used, **own}.items()]
    assert sorted((r["run_index"], r["allocator_id"] % 2**64, r["name"]) for r in tables["allocators"]) == sorted(
        expected
    )


def test_runs_of_one_name_and_another_shape_are_other_blocks() -> None:
    first, other = (kernel("add", 1, 2), kernel("mul", 3, 4, 1)), (kernel("mul", 1, 2), kernel("add", 3, 4, 1))
    tables = read(block("a", *first) + block("b", *first) + block("a", *other) + block("a", *first))
    rows = [(r["name"], r["iteration"], r["block_index"], r["block_run"]) for r in tables["runs"]]
    assert rows == [("a", 0, 0, 0), ("b", 0, 1, 0), ("a", 1, 2, 0), ("a", 2, 0, 1)]


def test_kinds() -> None:
    expected = {
        ("Method::execute", -1): "framework", ("Method::init", -1): "framework",
        ("Program::check_header", -1): "framework", ("OPERATOR_CALL", 0): "operator_call",
        ("native_call_add.out", 0): "kernel", ("DELEGATE_CALL", 0): "delegate_call",
        ("delegate_execute", 0): "delegate_call", ("load my inputs", -1): "user", ("", 0): "user",
    }  # fmt: skip
    found = read(block("b", *(Entry(*each, 0) for each in expected)))["signatures"]
    assert {(row["name"], row["chain_index"]): row["kind"] for row in found} == expected


@examples(150)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted), max_size=10),
    st.sampled_from([0, 2**32 - 12, 2**40]),
)
@example([[1, 12], [0, 0]], 2**32 - 12)  # an entry that ends at zero
def test_parents_of_entries_by_plain_containment(spans: list[list[int]], origin: int) -> None:
    """Also if a 32-bit counter wraps on the way, which the first entry shows, as it spans the whole run."""
    spans = [[0, 20], *spans]
    size = 2**32 if origin < 2**32 else 2**64
    made = [Entry(f"e{at}", start=(origin + s) % size, end=(origin + e) % size) for at, (s, e) in enumerate(spans)]
    expected: list[int | None] = []
    for at, (start, end) in enumerate(spans):
        around = [n for n, (s, e) in enumerate(spans) if s <= start and e >= end and (n < at or [s, e] != [start, end])]
        # The parent ends first; among entries that end together, it is the last that began.
        expected.append(min(around, key=lambda n: (spans[n][1], -spans[n][0], -n), default=None))
    assert [row["parent_index"] for row in events(read(block("b", *made)))] == expected


def test_a_clock_that_wrapped() -> None:
    data = block("b", execute(2**32 - 10, 30), kernel("add", 2**32 - 5, 2), kernel("mul", 5, 9, 1))
    tables = read(data)
    assert [row["parent_index"] for row in events(tables)] == [None, 0, 0]
    assert [row["clock_bits"] for row in tables["captures"]] == [32]
    assert tables["findings"] == [
        {"rule": "wrapped clock", "detail": "2 events end after the 32-bit counter passed zero"}
    ]
    assert read(data, clock_bits=64)["findings"] == [
        {"rule": "impossible times", "detail": "2 events end before the start: the duration is null"}
    ]


ONE, TWO, TABLE = block("b", Entry("one")), block("b", Entry("two")), [(0, "method")]


@pytest.mark.parametrize(
    ("data", "rule", "detail"),
    [
        (
            ONE + TWO + block("c", Entry("two")) + ONE + ONE,
            "iterations of other entries",
            "block 'b', iteration 1: entry 0 is 'two', in the iteration before 'one' (2 such cases in this block)",
        ),
        (
            block("b", allocators=TABLE, allocations=[(0, 8)])
            + block("b", allocators=TABLE, allocations=[(0, 8), (0, 9)]),
            "iterations of other allocations",
            "block 'b', iteration 1: 2 allocations, 1 in the iteration before; allocation 1 is in one of them only",
        ),
        (
            block("b", allocators=[(5, "one"), (5, "two")], allocations=[(5, 8)]),
            "allocators of one id",
            "block 'b', iteration 0: 5 is 'one' and 'two'",
        ),
    ],
)
def test_findings_report_the_first_case_of_each_block(data: bytes, rule: str, detail: str) -> None:
    assert read(data)["findings"] == [{"rule": rule, "detail": detail}]


SAMPLE = block(
    "load", Entry("Method::init", start=5, end=50), allocators=[(0, "method")], allocations=[(0, 64)], spare=(1, 1, 1)
) + block("run", execute(60, 99), kernel("add", 61, 70), allocations=[(0, 64), (0, 32)])


def test_every_truncation_is_refused() -> None:
    """Except a truncation after a whole block, which nothing in the file shows."""
    first = SAMPLE.index(b"run\0")
    for size in range(len(SAMPLE)):
        if size == first:
            assert len(read(SAMPLE[:size])["runs"]) == 1
        else:
            with pytest.raises(FormatError, match="truncated|the file is empty|not a profiling file"):
                read(SAMPLE[:size])


def test_absurd_counts_are_refused() -> None:
    most = (2**32 - 1).to_bytes(4, "little")
    for place in (36, 44, 52):
        data = SAMPLE[:place] + most + SAMPLE[place + 4 :]
        with pytest.raises(FormatError, match=r"^x: at byte 0: block 'load' is truncated, or .* damaged: .*4294967295"):
            read(data, "x")
        with pytest.raises(FormatError, match="it has room for .*4294967295"):
            read(data[: place + 4] + most + data[place + 8 :], "x")
