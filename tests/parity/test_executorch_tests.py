"""What executorch's own tests of its Inspector assert of public names, of the drop-in, with their expected values.

Of `devtools/inspector/tests` in August 2026. Their tests patch and call private names; here, files have the events that
those are given. Left out is what only private names show: which parser is called, how handles are merged and looked up.
Where the drop-in differs on purpose, the test has the line of docs/compatibility.md that says so.
"""

from __future__ import annotations

import io
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq.inspector import Event, EventBlock, Inspector, PerfData, comparators
from tests.builders import DebugEvent, ProfileEvent, Run, Tensor, dump, run

pytestmark = pytest.mark.long
PAGE = (Path(__file__).parents[2] / "docs/compatibility.md").read_text()


def profile(name: str, instruction: int, times: tuple[int, int], identifier: int | str | None = 100) -> ProfileEvent:
    number, text = (identifier, None) if isinstance(identifier, int) else (-1, identifier)
    return ProfileEvent(name, 0, instruction, number, text, None, *times)


def debug(
    identifier: int | str | None = 100, sizes: tuple[int, ...] = (1,), name: str = "test_debug_event"
) -> DebugEvent:
    number, text = (identifier, None) if isinstance(identifier, int) else (-1, identifier)
    return DebugEvent(Tensor(3, sizes, (1,), 0), 0, 1, number, text, name)


def inspected(*runs: Run, **options: Any) -> Inspector:
    return Inspector(etdump_data=dump(*runs), **options)


def logging(*runs: Run, folder: Path, **options: Any) -> Inspector:
    """An Inspector with a debug buffer of two integers."""
    buffer = folder / "debug.bin"
    buffer.write_bytes(np.array([5, 6], np.int32).tobytes())
    return inspected(*runs, debug_buffer_path=buffer, **options)


def made_events() -> list[Event]:
    return [Event(f"op_{at}", PerfData([float(at + each) for each in range(10)]), ["aten::add"]) for at in range(10)]


def test_perf_data() -> None:
    for count in (1, 2, 9, 10):
        raw = np.random.default_rng(count).random(count).tolist()
        assert PerfData(raw).p50 == pytest.approx(statistics.median(raw))


def test_event_block_to_dataframe() -> None:
    frame = EventBlock(name="block_0", events=made_events()).to_dataframe()
    assert len(frame) == 10 and "op_0" in frame["event_name"].values
    assert len(frame["raw"].values[0]) == 10 and frame["op_types"].values[0][0] == "aten::add"


def test_print_data_tabular_of_given_blocks() -> None:
    made, printed = inspected(run("Execute")), io.StringIO()
    made.event_blocks = [EventBlock(name="block_0", events=made_events())]
    made.print_data_tabular(printed)
    assert "op_9" in printed.getvalue()


@pytest.mark.parametrize("compat", [False, True])
def test_times_and_values_of_an_event_are_one_event(tmp_path: Path, compat: bool) -> None:
    made = logging(
        run("signature_a", profile("profile_1", 1, (0, 1)), debug()),
        run("signature_a", profile("profile_1", 1, (2, 4)), debug()),
        run("signature_b", debug(), profile("profile_3", 1, (5, 6)), profile("profile_4", 2, (7, 8))),
        folder=tmp_path,
        compat=compat,
    )
    counted = [
        [(len(event.perf_data.raw), len(event.debug_data)) for event in block.events if event.perf_data is not None]
        for block in made.event_blocks
    ]
    assert counted == [[(2, 1)], [(1, 1), (1, 0)]]


def test_values_that_differ_between_runs(tmp_path: Path) -> None:
    """There, it is an AssertionError."""
    assert "| raises at allocations, and at values that differ between runs | tables for both, and a finding |" in PAGE
    made = logging(run("signature_a", debug()), run("signature_a", debug(sizes=(2,))), folder=tmp_path)
    with pytest.warns(UserWarning, match="values differ between runs; those of the first run are given"):
        [block] = made.event_blocks
    assert [np.asarray(each).tolist() for each in block.events[0].debug_data] == [[5]]


@pytest.mark.parametrize("compat", [False, True])
def test_values_alone(tmp_path: Path, compat: bool) -> None:
    logged = [debug("debug_id", name="test_debug_event_only"), debug(None, name="test_debug_event_only")]
    [block] = logging(run("signature_a", *logged), folder=tmp_path, compat=compat).event_blocks
    assert [event.name for event in block.events] == ["debug_id", "test_debug_event_only"]


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize(
    ("identifier", "scale"), [(None, "us"), (100, "us"), ("identifier", "us"), ("identifier", "ms")]
)
def test_an_event_of_three_runs(identifier: int | str | None, scale: str, compat: bool) -> None:
    is_delegated = identifier is not None
    logged = [f"metadata_{at}".encode() if is_delegated else None for at in range(3)]
    events = [
        ProfileEvent(**{**vars(profile("an_event", 1, (0, time), identifier)), "delegate_debug_metadata": metadata})
        for time, metadata in zip((10, 20, 30), logged, strict=True)
    ]
    made = inspected(
        *(run("Execute", event) for event in events),
        target_time_scale=scale,
        delegate_metadata_parser=lambda metadatas: {"joined": b"-".join(metadatas)},
        # Events that begin at 0 would else be counters; see the last line of the table of differences.
        delegate_time_scale_converter=lambda name, time: time / {"us": 1e3, "ms": 1e6}[scale],
        compat=compat,
    )
    [block] = made.event_blocks
    [event] = block.events
    assert event.name == (str(identifier) if is_delegated else "an_event")
    assert event.perf_data is not None
    assert event.perf_data.raw == [time / {"us": 1e3, "ms": 1e6}[scale] for time in (10, 20, 30)]
    assert (event.delegate_debug_identifier, event.is_delegated_op) == (identifier, is_delegated)
    assert event.raw_delegate_debug_metadatas == (logged if is_delegated else [])
    assert event.delegate_debug_metadatas == ({"joined": b"metadata_0-metadata_1-metadata_2"} if is_delegated else [])
    assert event.start_time == [0, 0, 0]


NAN = math.nan
SAME = ([[10, 4], [3, 4]], [[10, 4], [3, 4]])
BY_TWO = ([[4, 9], [6, 4]], [[1, 2], [3, 5]])


@pytest.mark.parametrize(
    ("comparator", "one", "other", "expected"),
    [
        (comparators.L1Comparator, *SAME, 0),
        (comparators.L1Comparator, 1, 2, 1),
        (comparators.L1Comparator, [3, 2, -1, NAN], [NAN, 0, -3, 1], 8),
        (comparators.L1Comparator, *BY_TWO, 14),
        (comparators.L1Comparator, [1, 2, 3], [2, 1, 4], 3),
        (comparators.MSEComparator, *SAME, 0),
        (comparators.MSEComparator, 10, 2, 64),
        (comparators.MSEComparator, [3, 1, -3, NAN], [NAN, 0, -3, 2], 14 / 4),
        (comparators.MSEComparator, [[4, 9], [6, 4]], [[1, 2], [3, 10]], 103 / 4),
        (comparators.MSEComparator, [1, 2, 3], [2, 2, 2], 2 / 3),
        (comparators.MSEComparator, [4, 5, 6], [4, 4, 4], 5 / 3),
        (comparators.SNRComparator, *SAME, math.inf),
        (comparators.SNRComparator, 1, 2, 0),
        (comparators.SNRComparator, [NAN, 1], [0, 1], math.inf),
        (comparators.SNRComparator, *BY_TWO, 10 * math.log10(37.25 / 17)),
        (comparators.SNRComparator, [1, 2, 3], [2, 2, 2], 10 * math.log10(7)),
        (comparators.SNRComparator, [4, 5, 6], [4, 4, 4], 10 * math.log10(77 / 5)),
    ],
)
def test_comparators(comparator: Any, one: Any, other: Any, expected: float) -> None:
    given = [np.array(value, np.float32) if isinstance(value, list) else value for value in (one, other)]
    assert comparator().element_compare(*given) == pytest.approx(expected, abs=5e-8)
    for size in ((3,), (4, 1)):
        with pytest.raises(ValueError, match="can't be compared"):
            comparator().element_compare(np.zeros(size), np.zeros(4))
