"""Device times of generated traces of all vendors and layouts, against the programs from which they were generated.

Of torch 1.8 to 2.13, by what changed in Kineto's `output_json.cpp`; of Kineto's daemon (on demand, by dynolog); and of
Perfetto, which converts a trace to pairs of beginnings and ends.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etq.warehouse.warehouse import Warehouse
from tests.device_times import DeviceTimes, check
from tests.sampling import examples, thinned
from tests.trace_corpus import IDS, SHAPES, VENDORS, Program, Style, Thread, training
from tests.warehouses import empty_warehouse


@pytest.fixture(scope="module")
def corpus() -> Iterator[Warehouse]:
    with empty_warehouse() as opened:
        yield opened


def agrees(warehouse: Warehouse, made: tuple[bytes, DeviceTimes]) -> None:
    capture = warehouse.ingest(made[0])
    try:
        check(warehouse, capture.name, made[1])
    finally:
        warehouse.remove(capture)


@pytest.mark.long
@pytest.mark.parametrize(
    ("vendor", "ids"),
    thinned([*((vendor, ids) for vendor in VENDORS for ids in IDS[:2]), *(("cuda", ids) for ids in IDS[2:])], ["cuda"]),
)
def test_vendors(corpus: Warehouse, vendor: str, ids: str) -> None:
    agrees(corpus, SHAPES["training"](Style(vendor, ids)))


@pytest.mark.parametrize("ids", thinned(["op", "correlation"], ["correlation"]))
@pytest.mark.parametrize("shape", thinned(sorted({*SHAPES} - {"training"}), sorted({*SHAPES} - {"training"})[::2]))
def test_shapes(corpus: Warehouse, shape: str, ids: str) -> None:
    agrees(corpus, SHAPES[shape](Style(ids=ids)))


@pytest.mark.parametrize(
    "style",
    thinned(
        [Style(has_text_threads=True), Style(is_bare=True), Style(skew=10_000), Style(names_processes=True)],
        [Style(is_bare=True)],
    ),
    ids=str,
)
def test_a_training_in_each_style(corpus: Warehouse, style: Style) -> None:
    agrees(corpus, SHAPES["training"](style))


NAMES = st.sampled_from(["aten::mm", "aten::add", "aten::copy_"])
LAUNCHES = st.tuples(st.just("launch"), st.integers(1, 3), st.sampled_from([7, 20]))
FRAMES = st.sampled_from(["cpu_op", "user_annotation", "python_function"])
ACTIONS = st.recursive(
    LAUNCHES, lambda inner: st.tuples(FRAMES, NAMES, st.lists(inner, max_size=3)), max_leaves=12
)  # fmt: skip
STYLES = st.builds(
    Style, vendor=st.sampled_from(sorted(VENDORS)), ids=st.sampled_from(IDS), has_text_threads=st.booleans(),
    is_bare=st.booleans(), skew=st.sampled_from([0, 3000]), names_processes=st.booleans(),
)  # fmt: skip


def act(thread: Thread, action: Any) -> None:
    if action[0] == "launch":
        _, count, stream = action
        thread.launch(*(f"k{place}" for place in range(count)), stream=stream)
        return
    category, name, inner = action
    with thread.frame(name, category):
        for each in inner:
            act(thread, each)


@pytest.mark.long
@examples(25, few=2)
@example(
    Style(), [("cpu_op", "aten::add", [("launch", 1, 7), ("user_annotation", "aten::add", [("launch", 1, 7)])])], []
)
@example(Style(), [], [("cpu_op", "aten::copy_", [("user_annotation", "aten::copy_", [("launch", 1, 7)])])])
@example(
    Style(), [], [("cpu_op", "aten::copy_", [("launch", 1, 7), ("python_function", "aten::copy_", [("launch", 1, 7)])])]
)
@given(STYLES, st.lists(ACTIONS, max_size=5), st.lists(ACTIONS, max_size=3))
def test_any_program(corpus: Warehouse, style: Style, first: list[Any], second: list[Any]) -> None:
    program = Program(style)
    for number, actions in enumerate((first, second)):
        thread = program.thread(number + 1)
        for place, each in enumerate(actions):
            step = thread.begin(f"ProfilerStep#{place}", "user_annotation") if number == 0 and place % 2 else None
            act(thread, each)
            if step is not None:
                thread.finish(step)
    agrees(corpus, program.finished())


Entry = dict[str, Any]
STREAMS: Final = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"))


# Programs have hundredths of microseconds, older files whole ones: all times are multiplied by this.
LONGER: Final = 100


def longer(times: DeviceTimes) -> DeviceTimes:
    """The expected times of a trace whose times are all multiplied."""

    def scaled(each: Counter[Any]) -> Counter[Any]:
        return Counter({key: LONGER * ticks for key, ticks in each.items()})

    return DeviceTimes(
        device_total=LONGER * times.device_total, without_op=LONGER * times.without_op, own=scaled(times.own),
        total=scaled(times.total), once=scaled(times.once), own_of_ops=scaled(times.own_of_ops),
        once_of_ops=scaled(times.once_of_ops),
        kernels={name: [LONGER * ticks for ticks in each] for name, each in times.kernels.items()},
        streams=scaled(times.streams),
    )  # fmt: skip


def whole(entry: Entry) -> Entry:
    """An entry in whole microseconds."""
    return entry | {key: round(LONGER * entry[key]) for key in ("ts", "dur") if key in entry}


def written(entries: list[Entry], **top: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": entries}).encode()


def torch_1_8(entries: list[Entry]) -> bytes:
    """Capitalised categories and lower-case ids (the style `older`); streams as texts, whole microseconds."""
    shown = []
    for each in map(whole, entries):
        tid = f"stream {each['tid']}" if each.get("cat") in STREAMS else each["tid"]
        arguments = {"Input dims" if key == "Input Dims" else key: value for key, value in each.get("args", {}).items()}
        shown.append(each | {"tid": tid, "args": arguments})
    return written(shown, deviceProperties=[])


def torch_2_1(entries: list[Entry]) -> bytes:
    """Ids as texts in arguments and threads, as some builds wrote; fractions of microseconds."""
    ids = ("External id", "correlation", "stream", "device")
    shown = [
        each | {"args": {key: str(value) if key in ids else value for key, value in each["args"].items()}}
        if "args" in each
        else each
        for each in entries
    ]
    return gzip.compress(written(shown, record_shapes=1, with_stack=1, with_modules=0), mtime=0)


def perfetto(entries: list[Entry]) -> bytes:
    """Slices as pairs of a begin entry, which has the arguments, and an end entry, in time order."""
    moments: list[tuple[float, int, float, Entry]] = []
    for each in entries:
        if each["ph"] != "X" or each["cat"] == "gpu_user_annotation":
            moments.append((each["ts"], 1, 0, each))
            continue
        common = {key: each[key] for key in ("pid", "tid", "cat", "name")}
        end = each["ts"] + each["dur"]
        # At the same time, ends come before begins, and longer slices begin before shorter ones.
        moments.append(
            (each["ts"], 2, -each["dur"], {"ph": "B", "ts": each["ts"], **common, "args": each.get("args", {})})
        )
        moments.append((end, 0, each["dur"], {"ph": "E", "ts": end, **common}))
    ordered = [entry for *_, entry in sorted(moments, key=lambda moment: moment[:3])]
    return json.dumps({"traceEvents": ordered, "metadata": {"trace-uuid": "1"}}).encode()


LAYOUTS: Final[dict[str, tuple[Callable[[list[Entry]], bytes], Style, bool]]] = {
    "torch 1.8": (torch_1_8, Style("older"), True),
    "torch 2.1": (torch_2_1, Style(), False),
    "Perfetto": (perfetto, Style(), False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_have_the_times_of_the_program(warehouse: Warehouse, tmp_path: Path, layout: str) -> None:
    write, style, is_longer = LAYOUTS[layout]
    content, truth = training(style)
    path = tmp_path / "made.pt.trace.json"
    path.write_bytes(write(json.loads(content)["traceEvents"]))
    assert warehouse.ingest(path).format == "torch_trace"
    check(warehouse, "made", longer(truth) if is_longer else truth)
    assert warehouse.rows("SELECT DISTINCT w.step FROM wide_steps('made') AS w ORDER BY w.step")[1] == [(0,), (1,)]
    shapes = (
        "SELECT count(*) FROM op_arguments AS o WHERE o.shapes = '[[[2,3],[4]],[],[1]]' OR o.shapes LIKE '%[2, 3]%'"
    )
    assert warehouse.rows(shapes)[1][0][0] > 0
    assert warehouse.rows("SELECT f.rule FROM findings AS f WHERE f.rule = 'events left out'")[1] == []
    assert warehouse.rows("SELECT l.key FROM labels AS l")[1] == []
