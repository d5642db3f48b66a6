"""The columnar reader against the slow one on random dumps, and on damaged files."""

from __future__ import annotations

import base64
from collections import defaultdict
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etq import FormatError
from etq.ingest.etdump import run_groups
from etq.ingest.etdump.reader import read_etdump
from etq.ingest.etdump.schema import PROFILE_EVENT, VALUE_KINDS
from tests import reference_reader
from tests.builders import AllocationEvent, DebugEvent, ProfileEvent, Run, Tensor, dump, execute, kernel
from tests.builders import run as a_run
from tests.conftest import CAPTURES
from tests.sampling import examples
from tests.warehouses import empty_warehouse

U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.one_of(st.sampled_from(["OPERATOR_CALL", "native_call_add.out", "Method::execute", ""]), st.text(max_size=40))
SMALL = st.integers(-1, 2)

profile_events = st.builds(
    ProfileEvent, st.none() | TEXT, SMALL | I32, SMALL | I32, SMALL | I32, st.none() | TEXT,
    st.none() | st.binary(max_size=8), U64 | st.integers(0, 100), U64 | st.integers(0, 100),
)  # fmt: skip
tensors = st.builds(Tensor, st.integers(0, 29), st.tuples(I64, I64), st.lists(I64, max_size=3).map(tuple), I64)
debug_events = st.builds(
    DebugEvent, st.none() | st.booleans() | I64 | st.floats() | tensors | st.lists(tensors, max_size=3).map(tuple),
    U64 | st.integers(0, 2), SMALL | I32, SMALL | I32, st.none() | TEXT, st.none() | TEXT, st.none() | st.booleans(),
)  # fmt: skip
allocation_events = st.builds(AllocationEvent, I32, U64)
events = profile_events | profile_events | debug_events | allocation_events
runs = st.builds(
    Run, TEXT, st.lists(events, max_size=12).map(tuple), st.lists(TEXT, max_size=3).map(tuple), SMALL | I32
)


def read(data: Any, path: str = "test.etdp", **options: Any) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables."""
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for table, batch in read_etdump(data, path, **options):
        tables[table] += batch.to_pylist()
    return tables


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def known(value: int) -> int | None:
    return None if value == -1 else value


def assert_same(tables: dict[str, list[dict[str, Any]]], expected: list[Run]) -> None:
    """Check that the tables contain exactly the events of the slow reader."""
    assert [(row["name"], row["bundled_input_index"]) for row in tables["runs"]] == [
        (each.name, known(each.bundled_input_index)) for each in expected
    ]
    signatures = {row["signature_index"]: row for row in tables["signatures"]}
    placed = [(r, e, event) for r, each in enumerate(expected) for e, event in enumerate(each.events)]
    ours = [{**signatures[row["signature_index"]], **row} for row in tables["event_ticks"]]
    assert [
        (
            *(row[column] for column in ("run_index", "event_index", "name", "chain_index", "instruction_id")),
            *(row[column] for column in ("delegate_debug_id", "delegate_debug_str", "delegate_metadata")),
            row["start_ticks"] % 2**64,
            (row["start_ticks"] + row["elapsed_ticks"]) % 2**64,
        )
        for row in ours
    ] == [
        (
            *(r, e, name_of(event, expected[r]), event.chain_index, known(event.instruction_id)),
            *(known(event.delegate_debug_id_int), event.delegate_debug_id_str or None),
            event.delegate_debug_metadata or None,
            event.start_time,
            event.end_time,
        )
        for r, e, event in placed
        if isinstance(event, ProfileEvent)
    ]
    assert [tuple(row.values()) for row in tables["allocations"]] == [
        (r, e, event.allocator_id, signed(event.allocation_size))
        for r, e, event in placed
        if isinstance(event, AllocationEvent)
    ]
    assert [tuple(row.values()) for row in tables["allocators"]] == [
        (r, number, name) for r, each in enumerate(expected) for number, name in enumerate(each.allocators, 1)
    ]
    assert repr([tuple(row.values()) for row in tables["debug_values"]]) == repr(
        [row for r, e, event in placed if isinstance(event, DebugEvent) for row in value_rows(r, e, event)]
    )


def name_of(event: ProfileEvent, run: Run) -> str | None:
    """The name of an event: its own, or that of the first value logged for the same part of an instruction."""
    beside = [
        value.name
        for value in run.events
        if isinstance(value, DebugEvent) and not value.output and place_of(value) == place_of(event)
    ]
    return event.name or (beside[0] if beside else None) or event.name


def place_of(event: ProfileEvent | DebugEvent) -> tuple[int | str | None, ...]:
    return event.instruction_id, event.chain_index, event.delegate_debug_id_int, event.delegate_debug_id_str


def value_rows(run_index: int, event_index: int, event: DebugEvent) -> list[tuple[Any, ...]]:
    value = event.value
    kind = {bool: "bool", int: "int", float: "double", Tensor: "tensor", tuple: "tensor_list"}.get(type(value), "null")
    assert kind in VALUE_KINDS
    common = (
        signed(event.chain_index), known(event.instruction_id), known(event.delegate_debug_id_int),
        event.delegate_debug_id_str or None, event.name or None, bool(event.output),
    )  # fmt: skip
    if isinstance(value, tuple | Tensor):
        listed = value if isinstance(value, tuple) else (value,)
        if listed:
            return [
                (
                    *(run_index, event_index, *common, index, kind),
                    *(SCALAR_TYPES[tensor.scalar_type], list(tensor.sizes), list(tensor.strides), tensor.offset, None),
                )
                for index, tensor in enumerate(listed)
            ]
    number = float(value) if isinstance(value, int | float) else None
    return [(run_index, event_index, *common, 0, kind, None, None, None, None, number)]


# c10's names, by number, as torch prints them.
SCALAR_TYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 "
    "bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz "
    "float8_e4m3fnuz uint16 uint32 uint64"
).split()


@pytest.mark.long
@examples(100)
@given(st.lists(runs, max_size=6), st.booleans())
def test_random_dumps(made: list[Run], size_prefixed: bool) -> None:
    data = dump(*made, size_prefixed=size_prefixed)
    expected = reference_reader.read(data)
    # NaN is not equal to itself, but its text is the same.
    assert repr(expected) == repr(made)
    assert_same(read(data), expected)


@examples(40)
@given(st.lists(runs, min_size=2, max_size=6), st.integers(1, 7))
@example(
    [a_run("a"), a_run("a", DebugEvent(None, 0, 0, 0, output=True))], 1
)  # an event without a signature, and no signature
def test_random_dumps_in_small_slices(made: list[Run], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_groups, "SLICE", size)
        assert_same(read(dump(*made)), made)


@examples(25)
@given(st.lists(st.lists(runs, max_size=3), min_size=2, max_size=4))
def test_concatenated_dumps(made: list[list[Run]]) -> None:
    tables = read(b"".join(dump(*each) for each in made))
    assert_same(tables, [each for part in made for each in part])
    assert [row["dump_index"] for row in tables["runs"]] == [at for at, part in enumerate(made) for _ in part]
    assert {
        "rule": "several dumps",
        "detail": f"{len(made)} ETDumps in one file; dump_index distinguishes their runs",
    } in tables["findings"]


@pytest.mark.parametrize(("zeros", "size_prefixed"), [(12, True), (4096, False)])
def test_a_dump_after_zeros(zeros: int, size_prefixed: bool) -> None:
    content = dump(a_run("Execute", execute(0, 100)), size_prefixed=size_prefixed)
    with empty_warehouse() as warehouse:
        warehouse.ingest(bytes(zeros) + content, name="padded")
        assert warehouse.rows("SELECT duration_ticks FROM events")[1] == [(100,)]
        assert warehouse.rows("SELECT rule, detail FROM findings")[1] == [
            ("leading zeros", f"{zeros} zeros before the first dump are ignored")
        ]


def test_fields_of_an_event_distinguish_signatures_or_differ_between_runs() -> None:
    """All fields of the schema; `CONTRIBUTING.md` says where a new one goes."""
    of_runs = {"delegate_debug_metadata", "start_time", "end_time"}
    names = [field.name for field in fields(ProfileEvent)]
    assert names == [*PROFILE_EVENT.fields]
    first = ProfileEvent("op", instruction_id=0)
    for name in names:
        values: dict[str, Any] = {"string": "x", "vector": b"x"}
        other = replace(first, **{name: values.get(PROFILE_EVENT.fields[name].type, 7)})
        data = dump(a_run("Execute", first, other))
        found = [rows for table, rows in read_etdump(data, name, 64) if table == "signatures"]
        assert sum(map(len, found)) == (1 if name in of_runs else 2), name


def test_a_run_without_a_list_of_events_has_no_block() -> None:
    """The Inspector makes a block of an empty list, and none of a list that is not there."""
    value = DebugEvent(3, 0, 1, name="DELEGATE_CALL")
    whole = a_run("Execute", execute(0, 9))
    tables = read(dump(Run("Execute", has_events=False), whole, a_run("Execute"), whole))
    blocks = [(row["block_index"], row["block_run"]) for row in tables["runs"]]
    assert blocks == [(None, None), (0, 0), (1, 0), (0, 1)]
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(Run("Execute", has_events=False), whole), name="absent")
        assert [row[0] for row in warehouse.event_blocks("absent").fetchall()] == [0]
        assert warehouse.rows("SELECT block_index, scope FROM runs")[1] == [(None, "Execute"), (0, "Execute")]
    unnamed = ProfileEvent(None, 0, 1, start_time=2, end_time=5)
    [signature] = read(dump(a_run("Execute", unnamed, value)))["signatures"]
    assert (signature["name"], signature["kind"]) == ("DELEGATE_CALL", "delegate_call")


def test_runs_whose_execute_failed() -> None:
    """The runtime logs an execute when it ends, so that a run in which an op fails has none."""
    whole = a_run("Execute", kernel("add", 2, 5), kernel("mul", 5, 8), execute(1, 9))
    failed = a_run("Execute", kernel("add", 12, 15))
    assert read(dump(whole, failed, whole, failed))["findings"] == [
        {
            "rule": "failed runs",
            "detail": "2 of 4 runs log ops but no Method::execute: their execute failed, and their times are in no total "
            "(run_index 1, 3)",
        }
    ]
    listed = read(dump(whole, *[failed] * 6))["findings"][0]["detail"]
    assert listed.endswith("(run_index 1, 2, 3, 4, 5, ...)")
    # Runs of a name that logs no execute at all are of another runner.
    assert "findings" not in read(dump(whole, a_run("Other", kernel("add", 12, 15))))
    assert "findings" not in read(dump(failed))


@pytest.mark.parametrize("name", ["mlp/mlp_0runs", "scalars/scalars_debug", "mlp/mlp_alloc"])
def test_truncated_at_any_byte(name: str) -> None:
    data = (CAPTURES / f"{name}.etdp").read_bytes()
    for size in range(0, len(data), 1 if len(data) < 2000 else 37):
        with pytest.raises(FormatError, match="truncated|empty|not a profiling file|zeros") as caught:
            read(data[:size])
        assert str(caught.value).startswith("test.etdp: ")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("newline", "prefix"), [(b"\n", b""), (b"\r\n", b"[  12.345] uart: "), (b"\n", b'echo "')])
def test_base64_in_a_log(newline: bytes, prefix: bytes) -> None:
    def printed(data: bytes, width: int = 76) -> list[bytes]:
        text = base64.b64encode(data)
        return [prefix + text[at : at + width] for at in range(0, len(text), width)]

    first = (CAPTURES / "mlp/mlp_0runs.etdp").read_bytes()
    second = (CAPTURES / "scalars/scalars_debug.etdp").read_bytes()
    one, two = printed(first), printed(second, 64)
    lines = [b"boot 1.2.3 AAAAAAAAAAAAAAAAAAAAAAAA", b"#---"]
    lines += [one[0], b"W (1234) wdt: cpu0 alive 0123456789abcdef0123", *one[1:], b"#--- done", *two, b"bye"]
    tables = read(newline.join(lines))
    assert_same(tables, reference_reader.read(first) + reference_reader.read(second))
    assert [row["dump_index"] for row in tables["runs"]] == [0, 1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; copy or record it again"),
        (
            b"just a log with a word " + b"QUJDREVGR0hJSktMTU5P" * 4,
            "test.etdp: not a profiling file; etq reads ETDumps",
        ),
        (bytes(4096), "the file holds zeros"),
        (b"PK\x03\x04" + bytes(60), "this is a zip, perhaps an ETRecord"),
        (b"\x08\x00\x00\x00ET12" + bytes(60), r"this is an ExecuTorch program \(.pte"),
        (b"\x08\x00\x00\x00BP08" + bytes(60), r"this is a bundled program \(.bpte\)"),
    ],
)
def test_files_that_are_not_dumps_are_named_by_kind(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(content)
