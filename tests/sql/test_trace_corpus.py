"""Device times of generated traces of all vendors, against the programs from which they were generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etq.warehouse.warehouse import Warehouse
from tests.device_times import DeviceTimes, check
from tests.sampling import examples, thinned
from tests.trace_corpus import IDS, SHAPES, VENDORS, Program, Style, Thread
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
    Style,
    vendor=st.sampled_from(sorted(VENDORS)),
    ids=st.sampled_from(IDS),
    has_text_threads=st.booleans(),
    is_bare=st.booleans(),
    skew=st.sampled_from([0, 3000]),
    names_processes=st.booleans(),
)


def act(thread: Thread, action: Any) -> None:
    if action[0] == "launch":
        _, count, stream = action
        thread.launch(*(f"k{place}" for place in range(count)), stream=stream)
        return
    category, name, inner = action
    with thread.frame(name, category):
        for each in inner:
            act(thread, each)


@examples(25, few=2)
@example(
    Style(vendor="cuda", ids="op", has_text_threads=False, is_bare=False, skew=0, names_processes=False),
    [("cpu_op", "aten::add", [("launch", 1, 7), ("user_annotation", "aten::add", [("launch", 1, 7)])])],
    [],
)
@example(
    Style(vendor="cuda", ids="op", has_text_threads=False, is_bare=False, skew=0, names_processes=False),
    [],
    [("cpu_op", "aten::copy_", [("user_annotation", "aten::copy_", [("launch", 1, 7)])])],
)
@example(
    Style(vendor="cuda", ids="op", has_text_threads=False, is_bare=False, skew=0, names_processes=False),
    [],
    [("cpu_op", "aten::copy_", [("launch", 1, 7), ("python_function", "aten::copy_", [("launch", 1, 7)])])],
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
