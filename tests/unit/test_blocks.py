"""Slots, occurrences and parents against a plain, slow implementation of the same rules; encoding and repeated runs, too."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.errors import FormatError
from etq.ingest.etdump import repeated_runs
from etq.ingest.etdump.reader import read_etdump
from tests.builders import (
    DebugEvent,
    Event,
    ProfileEvent,
    Run,
    delegate_call,
    delegated,
    dump,
    framework,
    kernel,
    operator_call,
)
from tests.conftest import CAPTURES
from tests.sampling import examples
from tests.unit.test_etdump_reader import read

FRAMEWORK = ("Method::execute", "Method::init", "Program::load_method", "mine")


def profile_rows(data: bytes, **options: Any) -> list[dict[str, Any]]:
    """The rows of event_ticks with their signatures'."""
    tables = read(data, **options)
    signatures = {row["signature_index"]: row for row in tables["signatures"]}
    return [{**signatures[row["signature_index"]], **row} for row in tables["event_ticks"]]


times = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)
nested_events = st.lists(
    st.one_of(
        st.builds(lambda t, i: kernel("add", t[0], t[1], i), times, st.integers(0, 2)),
        st.builds(lambda t, i: operator_call(t[0], t[1], i), times, st.integers(0, 2)),
        st.builds(lambda t, i: delegate_call(t[0], t[1], i), times, st.integers(0, 2)),
        st.builds(lambda t, i: delegated("x", t[0], t[1], i), times, st.integers(0, 2)),
        st.builds(lambda t, n: framework(n, t[0], t[1]), times, st.sampled_from(FRAMEWORK)),
    ),
    max_size=14,
)


def slow_parents(events: list[ProfileEvent]) -> list[int | None]:
    """The rules of `find_parents`, event by event."""

    def is_container(event: ProfileEvent) -> bool:
        return event.chain_index == -1

    def call(places: range, event: ProfileEvent, names: tuple[str, ...]) -> int | None:
        found = (i for i in places if events[i].name in names and events[i].instruction_id == event.instruction_id)
        return next(found, None)

    parents: list[int | None] = []
    for at, event in enumerate(events):
        later, earlier = range(at + 1, len(events)), range(at - 1, -1, -1)
        containing = (i for i in later if is_container(events[i]) and events[i].start_time <= event.start_time)
        nearest = next(containing, None)
        if event.delegate_debug_id_str is not None:
            following, before = (call(places, event, ("DELEGATE_CALL",)) for places in (later, earlier))
            if following is not None:
                parents.append(following)
            elif before is not None and events[before].start_time <= event.start_time:
                parents.append(before)
            else:
                parents.append(nearest)
        elif is_container(event):
            operators = (i for i in later if not is_container(events[i]) and events[i].delegate_debug_id_str is None)
            operator = next(operators, None)
            is_nearer = operator is not None and (nearest is None or operator < nearest)
            is_within = is_nearer and operator is not None and events[operator].start_time <= event.start_time
            parents.append(operator if is_within else nearest)
        else:
            own = None
            if event.name == "native_call_add.out":
                own = call(later, event, ("OPERATOR_CALL", "DELEGATE_CALL"))
            is_own = own is not None and events[own].start_time <= event.start_time
            parents.append(own if is_own else nearest)
    return parents


def without_nesting(parents: list[int | None], events: list[ProfileEvent]) -> list[int | None]:
    """Parents, of events of a delegate within another of its events those of the outermost: how these nest depends on
    all times of their call, and has tests of its own.
    """
    found = []
    for outer in parents:
        above = outer
        while above is not None and events[above].delegate_debug_id_str is not None:
            above = parents[above]
        found.append(above)
    return found


def slow_executes(events: list[ProfileEvent], parents: list[int | None]) -> list[int | None]:
    """The outermost Method::execute on the way up."""
    found: list[int | None] = []
    for at in range(len(events)):
        here: int | None = at
        outermost = None
        while here is not None:
            outermost = here if events[here].name == "Method::execute" else outermost
            here = parents[here]
        found.append(outermost)
    return found


@examples(200)
@given(nested_events, st.lists(st.lists(times, min_size=14, max_size=14), min_size=1, max_size=4))
def test_parents_of_runs_that_log_the_same_events_at_other_times(
    events: list[ProfileEvent], others: list[list[list[int]]]
) -> None:
    """A pattern's parents are those of its first run; other runs are checked, and searched again if they differ."""
    runs = [events]
    for moments in others:
        runs.append(
            [
                ProfileEvent(
                    event.name, event.chain_index, event.instruction_id, -1, event.delegate_debug_id_str, None, *moment
                )
                for event, moment in zip(events, moments, strict=False)
            ]
        )
    rows = profile_rows(dump(*(Run("Execute", tuple(each)) for each in runs)))
    for index, each in enumerate(runs):
        mine = [row for row in rows if row["run_index"] == index]
        expected = slow_parents(each)
        assert without_nesting([row["parent_index"] for row in mine], each) == expected
        assert [row["execute_index"] for row in mine] == slow_executes(each, expected)


def test_parents_where_the_clock_wraps_within_the_run() -> None:
    top = 2**32
    events = [
        kernel("add", top - 20, top - 15, 0), operator_call(top - 30, top - 5, 0), kernel("mul", 3, 8, 1),
        operator_call(top - 2, 9, 1), framework("Method::execute", top - 40, 20),
    ]  # fmt: skip
    runs = [Run("Execute", tuple(events)), Run("Execute", tuple(plain(event, 100) for event in events))]
    rows = profile_rows(dump(*runs))
    assert [row["parent_index"] for row in rows] == [1, 4, 3, 4, None] * 2
    again = profile_rows(dump(*reversed(runs)), clock_bits=32)
    assert [row["parent_index"] for row in again] == [1, 4, 3, 4, None] * 2


def plain(event: ProfileEvent, base: int) -> ProfileEvent:
    """The same event on a clock that doesn't wrap."""
    start, end = ((time + 40 + base) % 2**32 for time in (event.start_time, event.end_time))
    return ProfileEvent(event.name, event.chain_index, event.instruction_id, -1, None, None, start, end)


def test_a_step_contains_its_instructions_call() -> None:
    events: list[Event] = [
        kernel("add", 3, 5, 0), operator_call(2, 6, 0), ProfileEvent("Method::step", 0, 1, start_time=1, end_time=7),
        kernel("add", 13, 15, 1), operator_call(12, 16, 1),
        ProfileEvent("Method::step", 0, 2, start_time=11, end_time=17),
    ]  # fmt: skip
    rows = profile_rows(dump(Run("Step", tuple(events))))
    assert [row["parent_index"] for row in rows] == [1, 2, None, 4, 5, None]
    assert [row["execute_index"] for row in rows] == [2, 2, 2, 5, 5, 5]


NAMES = st.sampled_from([None, "", "a", "b"])
IDS = st.sampled_from([-1, 0, 1])
CHAINS = st.sampled_from([-1, 0])
logged = st.one_of(
    st.builds(ProfileEvent, NAMES, CHAINS, IDS, IDS, st.sampled_from([None, "", "x"])),
    st.builds(
        DebugEvent, st.just(1), st.sampled_from([0, 2**64 - 1]), IDS, IDS, st.sampled_from([None, "", "x"]), NAMES,
        st.sampled_from([None, False, True]),
    ),
)  # fmt: skip


def slow_signatures(events: list[Any]) -> list[tuple[Any, ...]]:
    """The Inspector's grouping (InstructionEvent, EventSignature), with dictionaries, as in its source."""
    groups: dict[tuple[Any, ...], tuple[list[Any], list[Any]]] = {}
    for event in events:
        chain, ids = event.chain_index, (event.delegate_debug_id_int, event.delegate_debug_id_str)
        profiled, valued = groups.setdefault((event.instruction_id, chain, *ids), ([], []))
        if isinstance(event, ProfileEvent):
            profiled.append(event)
        elif not event.output:
            valued.append(event)
    signatures: dict[tuple[Any, ...], None] = {}
    for profiled, valued in groups.values():
        if not profiled and not valued:
            continue
        debug = identity(valued[0]) if valued else None
        for event in profiled or [None]:
            signatures[None if event is None else identity(event), debug] = None
    return list(signatures)


def identity(event: Any) -> tuple[Any, ...]:
    return (event.name or "", event.instruction_id, event.delegate_debug_id_int, event.delegate_debug_id_str or None)


@examples(300)
@given(st.lists(logged, max_size=12))
def test_slots_are_the_inspectors_signatures(events: list[Any]) -> None:
    tables = read(dump(Run("Execute", tuple(events))))
    expected = slow_signatures(events)
    slots = sorted({row["slot"] for row in tables["signatures"]})
    assert slots == list(range(len(expected)))
    by_index = {row["signature_index"]: row for row in tables["signatures"]}
    seen: dict[int, int] = {}
    for row in tables["event_ticks"]:
        event = events[row["event_index"]]
        slot = by_index[row["signature_index"]]["slot"]
        assert expected[slot][0] == identity(event)
        assert row["occurrence"] == seen.setdefault(slot, 0)
        seen[slot] += 1


@examples(100)
@given(st.lists(st.lists(logged, max_size=4), max_size=6))
def test_runs_of_one_block_have_the_same_signatures(runs: list[list[Any]]) -> None:
    tables = read(dump(*(Run("Execute", tuple(events)) for events in runs)))
    blocks: dict[tuple[Any, ...], int] = {}
    expected = [blocks.setdefault(tuple(slow_signatures(events)), len(blocks)) for events in runs]
    assert [row["block_index"] for row in tables["runs"]] == expected
    assert [row["block_run"] for row in tables["runs"]] == [expected[:at].count(b) for at, b in enumerate(expected)]
    assert [row["iteration"] for row in tables["runs"]] == list(range(len(runs)))


I64 = st.integers(-(2**63), 2**63 - 1)


NEVER = 1 << 60
DUMPS = sorted(CAPTURES.glob("*/*.etdp"))
CHANGED = (CAPTURES / "transformer" / "transformer.etdp").read_bytes()


def decoded(data: bytes, fewest_events: int) -> dict[str, pa.Table] | str:
    """The tables of a dump, or the error. Stretches of fewer events are decoded field by field."""
    with patch.object(repeated_runs, "FEWEST_EVENTS", fewest_events):
        batches: dict[str, list[pa.RecordBatch]] = {}
        try:
            for table, rows in read_etdump(data, "x"):
                batches.setdefault(table, []).append(rows)
        except FormatError as error:
            return str(error)
    return {table: pa.Table.from_batches(rows) for table, rows in batches.items()}


@pytest.mark.parametrize("name", ["mlp_wrap32", "demo_int", "cond_mixed", "multimethod_interleave"])
def test_real_captures_are_decoded_as_by_their_fields(name: str) -> None:
    (path,) = (each for each in DUMPS if each.stem == name)
    data = path.read_bytes()
    assert decoded(data, 1) == decoded(data, NEVER)


@examples(300)
@given(st.lists(st.tuples(st.integers(0, len(CHANGED) - 1), st.integers(0, 255)), max_size=3))
def test_changed_bytes_are_found_in_every_run(changes: list[tuple[int, int]]) -> None:
    data = bytearray(CHANGED)
    for at, value in changes:
        data[at] = value
    found, expected = decoded(bytes(data), 1), decoded(bytes(data), NEVER)
    if len(changes) > 1 and isinstance(expected, str):
        # If there are several damages, one of them is named.
        assert isinstance(found, str)
    else:
        assert found == expected
