"""Events of an ETDump as arrays: a slice of a dump's events, decoded independently of every other slice.

Slices don't depend on each other, so they can be decoded in parallel: numpy releases the interpreter's lock.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import blobs
from etq.ingest.dictionary import encode_rows, encode_strings
from etq.ingest.etdump.debug_values import read_debug_values
from etq.ingest.etdump.schema import ALLOCATION_EVENT, DEBUG_EVENT, EVENT, PROFILE_EVENT
from etq.ingest.events.event import ALLOCATION, DEBUG, OUTPUT, PROFILE, DebugValues, EventKey, EventSlice
from etq.ingest.flatbuffers.reader import Positions, Spans, Tables


def read_slice(runs: Tables, spans: Spans, first: int, last: int) -> EventSlice:
    """Decode events [first, last) of a dump. The events of all runs are numbered together, in the order of `spans`, the
    runs' event vectors.

    Raises `FormatError` for positions outside of the file, text that is not UTF-8, and events that do not have exactly
    one of the three kinds profile, allocation and debug event.
    """
    events = runs.elements(spans, EVENT, first, last)
    profile, profile_at = events.tables("profile_event", PROFILE_EVENT)
    debug, debug_at = events.tables("debug_event", DEBUG_EVENT)
    allocation, allocation_at = events.tables("allocation_event", ALLOCATION_EVENT)
    _check_one_each(events, profile_at, debug_at, allocation_at)

    codes = np.zeros(len(events), np.int64)
    start, elapsed = np.zeros(len(events), np.int64), np.zeros(len(events), np.int64)
    keys: list[EventKey] = []
    if len(profile):
        profile_codes, keys = _profile_keys(profile)
        begin, end = profile.scalar("start_time"), profile.scalar("end_time")
        if len(profile) == len(events):
            codes, start, elapsed = profile_codes, begin.view(np.int64), (end - begin).view(np.int64)
        else:
            codes[profile_at] = profile_codes
            start[profile_at], elapsed[profile_at] = begin.view(np.int64), (end - begin).view(np.int64)
    values = None
    if len(debug):
        values = read_debug_values(debug, debug_at)
        debug_codes, debug_keys = _debug_keys(debug, values)
        codes[debug_at] = debug_codes + len(keys)
        keys += debug_keys
    if len(allocation):
        codes[allocation_at] = len(keys)
        keys.append(EventKey(ALLOCATION))
    sizes = allocation.scalar("allocation_size").view(np.int64)
    return EventSlice(
        codes,
        keys,
        start,
        elapsed,
        _columns(profile),
        (allocation_at, allocation.scalar("allocator_id"), sizes),
        values,
    )


def _check_one_each(events: Tables, *owners: Positions) -> None:
    if len(owners[0]) == len(events) and not len(owners[1]) and not len(owners[2]):
        return
    count = np.bincount(np.concatenate(owners), minlength=len(events))
    wrong = np.flatnonzero(count != 1)
    if len(wrong):
        raise FormatError(
            events.buffer.path,
            "an event must be exactly one of profile_event, allocation_event and debug_event; "
            f"{'none' if count[wrong[0]] == 0 else count[wrong[0]]} of them is set",
            int(events.positions[wrong[0]]),
        )


def _profile_keys(profile: Tables) -> tuple[npt.NDArray[np.int64], list[EventKey]]:
    names, name_of = encode_strings(profile.buffer, profile.spans("name", 1), "ProfileEvent.name")
    ids, id_of = encode_strings(
        profile.buffer, profile.spans("delegate_debug_id_str", 1), "ProfileEvent.delegate_debug_id_str"
    )
    chain, instruction = profile.scalar("chain_index"), profile.scalar("instruction_id")
    delegate = profile.scalar("delegate_debug_id_int")
    codes, first = encode_rows([names, chain, instruction, delegate, ids])
    return codes, [
        EventKey(PROFILE, name_of[names[at]], int(chain[at]), int(instruction[at]), int(delegate[at]), id_of[ids[at]])
        for at in first
    ]


def _debug_keys(debug: Tables, values: DebugValues) -> tuple[npt.NDArray[np.int64], list[EventKey]]:
    names, name_of = encode_strings(debug.buffer, debug.spans("name", 1), "DebugEvent.name")
    ids, id_of = encode_strings(
        debug.buffer, debug.spans("delegate_debug_id_str", 1), "DebugEvent.delegate_debug_id_str"
    )
    chain, instruction = debug.scalar("chain_index"), debug.scalar("instruction_id")
    delegate = debug.scalar("delegate_debug_id_int")
    codes, first = encode_rows([names, chain, instruction, delegate, ids, values.is_output])
    return codes, [
        EventKey(
            OUTPUT if values.is_output[at] else DEBUG,
            name_of[names[at]],
            int(chain[at]),
            int(instruction[at]),
            int(delegate[at]),
            id_of[ids[at]],
        )
        for at in first
    ]


def _columns(profile: Tables) -> dict[str, pa.Array]:
    """Return the columns of `event_ticks` that only few dumps fill, with a value for each profile event."""
    spans = profile.spans("delegate_debug_metadata", 1)
    filled = np.flatnonzero(spans.count)
    if not len(filled):
        return {}
    profile.buffer.claim(spans.total(), "ProfileEvent.delegate_debug_metadata")
    metadata: list[bytes | None] = [None] * len(profile)
    for at in filled:
        begin = int(spans.start[at])
        metadata[at] = profile.buffer.bytes[begin : begin + int(spans.count[at])].tobytes()
    return {"delegate_metadata": blobs(metadata)}
