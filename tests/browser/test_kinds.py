"""Reports of other kinds of captures in a browser: delegates, traces, and captures without record and program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from etq.render.kernel_names import short_names
from etq.warehouse.warehouse import Warehouse
from tests.browser.pages import cells, complaints, drawn, near, number, opened, written
from tests.builders import delegate_call, delegated, dump, execute, run
from tests.conftest import CAPTURES
from tests.pass_traces import Training
from tests.trace_builders import event, trace

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

Show = Callable[[str], WebDriver]


@pytest.fixture
def show(browser: WebDriver, warehouse: Warehouse, tmp_path: Path) -> Iterator[Show]:
    """Opens the report of a capture of the warehouse; nothing may be complained of by the test's end."""

    def shown(capture: str) -> WebDriver:
        opened(browser, written(warehouse, capture, tmp_path))
        return browser

    yield shown
    assert complaints(browser) == []


def test_a_delegated_model(show: Show, warehouse: Warehouse) -> None:
    folder = CAPTURES / "convnet_xnn"
    capture = warehouse.ingest(folder / "convnet_xnn_100runs.etdp", name="run")
    warehouse.link(capture, warehouse.ingest_record(folder / "convnet_xnn.etrecord"))
    page = show("run")
    card = page.find_element(By.CSS_SELECTOR, '[data-number="delegate coverage"] .value')
    assert card.text == "15 of 15"
    query = """
        SELECT instruction_id, total / 98, avg, share_percent, ops / 98, copies / 98, layout / 98, unaccounted / 98,
            calls, block_index
        FROM delegate_totals('run')
    """
    [row] = cells(page, "delegates")
    assert row[0] == "XnnpackBackend"
    assert [number(text) for text in row[1:]] == [near(value) for value in warehouse.sql(query).fetchall()[0]]
    # Nothing is left to kernels, so that no share of them is drawn.
    assert page.find_element(By.CSS_SELECTOR, "#coverage .split").text == "15 in delegates"
    assert "without its program" in page.find_element(By.CSS_SELECTOR, "#memory .missing").text.lower()


def test_a_capture_without_a_record_says_so_once(show: Show, warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="run")
    page = show("run")
    missing = [each.get_dom_attribute("id") for each in page.find_elements(By.CSS_SELECTOR, "section:has(.missing)")]
    assert missing == ["memory"] and "etq link run PROGRAM.pte" in page.find_element(By.ID, "memory").text
    assert page.find_element(By.TAG_NAME, "body").text.count("etq link run RECORD") == 1
    assert "etq link run RECORD" in page.find_element(By.ID, "headline").text
    sections = {each.get_dom_attribute("id") for each in page.find_elements(By.CSS_SELECTOR, "section[id]")}
    assert {"breakdown", "ops"} <= sections and not sections & {"graph", "modules", "sources", "coverage"}
    assert page.find_elements(By.CSS_SELECTOR, '[data-number="delegate coverage"]') == []


def test_a_capture_in_which_nothing_ran(show: Show, warehouse: Warehouse) -> None:
    """It has a load, and neither an execute of zero nor a tax."""
    warehouse.ingest(CAPTURES / "mlp/mlp_0runs.etdp", name="run")
    page = show("run")
    cards = page.find_elements(By.CLASS_NAME, "card")
    assert [each.get_dom_attribute("data-number") for each in cards] == ["load"]
    assert "Nothing was executed" in page.find_element(By.ID, "breakdown").text


def test_a_trace(show: Show, warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/pair_mlp.pt.trace.json.gz", name="run")
    page = show("run")
    query = "SELECT module_path, host_total_time, calls FROM module_tree('run') ORDER BY host_total_time DESC"
    shown = [(row[0], number(row[1])) for row in cells(page, "module_calls")]
    assert shown == [(path, near(time)) for path, time, _ in warehouse.sql(query).fetchall()]
    query = "SELECT name, self_cpu_time FROM key_averages('run', by := 'shape')"
    rows = sorted(warehouse.sql(query).fetchall(), key=lambda row: -row[1])
    assert [(row[0], number(row[1])) for row in cells(page, "calls")] == [(name, near(time)) for name, time in rows]
    [(total,)] = warehouse.sql("SELECT sum(self_cpu_time) FROM key_averages('run', by := 'module')").fetchall()
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(total)
    events = page.execute_script("return etq.timeline.rows.reduce((sum, row) => sum + row.ids.length, 0)")
    assert events == warehouse.sql("SELECT count(*) FROM event_times('run')").fetchall()[0][0] == 868


def test_a_trace_without_modules_shows_events_within_events(show: Show, warehouse: Warehouse) -> None:
    """Its icicle has the nodes of `time_tree` with their times; with modules it has modules and ops."""
    warehouse.ingest(CAPTURES / "torch/mlp_train.pt.trace.json.gz", name="run")
    nodes = show("run").execute_script("""
        const names = etq.icicle.rows.flatMap((row) => Array.from(row.ids, (id) => etq.icicle.options.label(id)));
        return {extent: etq.icicle.extent, names};
    """)
    [(total,)] = warehouse.rows("SELECT t.total FROM time_tree('run', runs := 'all') AS t WHERE t.depth = 0")[1]
    assert nodes["extent"][1] == pytest.approx(total)
    wide = "SELECT t.name FROM time_tree('run', runs := 'all') AS t WHERE t.depth > 0 AND t.share_percent >= 0.02"
    expected = [name for (name,) in warehouse.rows(wide)[1]]
    assert sorted(nodes["names"]) == sorted(["(all)", *expected])
    assert len(expected) > len(set(expected))


def test_the_timeline_colours_events_by_what_categories_stand_for(
    show: Show, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a category doesn't matter: hpu_op is a kernel, xpu_scope_profiler no op; own classes count, too."""
    expected = {
        "cpu_op": "kernel", "npu_host_op": "kernel",
        "hpu_op": "delegate", "mtia_ccp_events": "delegate", "mtia_workloadd": "delegate", "gpu_memcpy": "delegate",
        "gpu_memset": "delegate", "aicore": "delegate",
        "mtia_runtime": "call", "xpu_driver": "call",
        "python_function": "python", "python": "python",
        "user_annotation": "control", "gpu_user_annotation": "control", "cuda_sync": "control",
        "xpu_scope_profiler": "control", "mtia_insight": "control",
    }  # fmt: skip
    (tmp_path / "own.toml").write_text(
        "[[category]]\nactivity = 'kernel'\non_device = true\nnames = ['aicore']\n"
        "[[category]]\nactivity = 'op'\nnames = ['npu_host_op']\n"
    )
    monkeypatch.setenv("ETQ_CLASSES", str(tmp_path / "own.toml"))
    events = [event(category, f"of {category}", 10 * at, 10 * at + 8) for at, category in enumerate(expected)]
    written_trace = tmp_path / "run.pt.trace.json"
    written_trace.write_bytes(trace(*events))
    warehouse.ingest(written_trace, name="run")
    page = show("run")
    colours = page.execute_script("""
        const { label, colour } = etq.timeline.options;
        return Object.fromEntries(etq.timeline.rows.flatMap((row) => [...row.ids].map((id) => [label(id), colour(id)])));
    """)
    assert {name.removeprefix("of "): colour for name, colour in colours.items()} == expected
    legend = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#timeline .legend span")]
    assert legend == ["ops", "on devices", "runtime calls", "Python", "annotations and others"]


def test_devices_of_a_trace(show: Show, warehouse: Warehouse) -> None:
    """Causes of idle time, work types, launches and collectives are those of the views; the longest ops come first."""
    warehouse.ingest(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz", name="run")
    page = show("run")

    def check(table: str, query: str, *places: int) -> None:
        rows = warehouse.rows(query)[1]
        assert rows
        shown = [[row[place] for place in places] for row in cells(page, table)]
        # Names of kernels are shown without their arguments, where that tells them apart.
        short = [short_names(value for value in column if isinstance(value, str)) for column in zip(*rows, strict=True)]
        for found, row in zip(shown, rows, strict=True):
            assert [
                number(text) if isinstance(value, int | float) else text for text, value in zip(found, row, strict=True)
            ] == [
                near(value) if isinstance(value, int | float) else of.get(value or "", value or "")
                for value, of in zip(row, short, strict=True)
            ]

    check("causes", "SELECT cause, total, share_percent, gaps, mean FROM device_idle_causes('run')", 0, 1, 2, 3, 4)
    gaps = "SELECT cause, duration, step, start, coalesce(host_op, ''), next_event FROM device_idle('run')"
    check("gaps", f"{gaps} ORDER BY duration DESC, device, start", 0, 1, 3, 4, 5, 7)
    ops = "SELECT coalesce(op, '(no op)'), total, share_percent, host, device, delay FROM critical_ops('run')"
    check("critical_ops", ops, *range(6))
    parts = "SELECT kind, coalesce(name, ''), coalesce(op, ''), duration, start FROM critical_path('run')"
    check("critical_parts", f"{parts} ORDER BY duration DESC, start", 0, 1, 2, 3, 5)
    work = "total, idle_percent, compute_percent, non_compute_percent, communication, exposed, overlap_percent"
    check("device_time", f"SELECT device, {work} FROM device_breakdown('run')", *range(8))
    check("step_device_time", f"SELECT step, {work} FROM device_breakdown('run', by := 'step')", *range(8))
    check("launches", "SELECT call, calls, call_time, short_events, max_delay FROM launch_totals('run')", 0, 1, 2, 6, 8)
    check("queues", "SELECT stream, launches, empty_percent, time_mean, max FROM queue_summary('run')", 0, 1, 2, 3, 4)
    bandwidth = "bus_bandwidth_gb_per_s, best_bus_bandwidth_gb_per_s"
    check("collectives", f"SELECT collective, calls, total, {bandwidth} FROM collectives('run')", 0, 5, 6, 9, 10)
    ops = "SELECT name, self_device_per_step, self_cpu_per_step, calls FROM key_averages('run') WHERE NOT is_device"
    check("top_ops", f"{ops} AND self_device_time > 0 ORDER BY self_device_per_step DESC", 0, 1, 2, 3)
    check("top_kernels", "SELECT event, total / 4, calls FROM work_totals('run') ORDER BY total DESC", 0, 1, 2)
    check("copies", "SELECT event, total, calls FROM work_totals('run') WHERE type = 'memory'", 0, 1, 2)
    cores = "op, kernel_time, tensor_time, tensor_percent, missed_time FROM tensor_core_use('run', by := 'op')"
    check("tensor_cores", f"SELECT {cores} WHERE missed_time > 0", 0, 1, 2, 3, 4)
    assert [row[0] for row in cells(page, "calls")][:3] == ["aten::mm", "aten::relu", "aten::add"]
    assert "Device 0 ran nothing for 1,405" in page.find_element(By.ID, "idle").text
    [(host, device)] = warehouse.rows(
        "SELECT sum(self_cpu_time), sum(self_device_time) FILTER (NOT is_device) FROM key_averages('run')"
    )[1]
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(host)
    assert page.execute_script("return etq.deviceIcicle.extent[1]") == pytest.approx(device)
    # The longest ops and kernels are on the first screen.
    assert page.execute_script("return document.querySelector('.pair').getBoundingClientRect().bottom") < 900


def test_the_icicles_of_a_trace_have_the_modules_that_contain_each_other(show: Show, warehouse: Warehouse) -> None:
    """On the host and on devices. A module that two others call has no single path: it stands by its name."""
    modules = (
        ("Net_0", 0, 100), ("Block_0", 5, 45), ("Linear_0", 10, 40), ("Block_1", 50, 95), ("Linear_1", 55, 70),
        ("Shared_0", 12, 15), ("Shared_0", 75, 90),
    )  # fmt: skip
    warehouse.ingest(
        trace(
            *(event("python_function", f"nn.Module: {name}", start, end) for name, start, end in modules),
            event("cpu_op", "aten::mm", 20, 30),
            event("cuda_runtime", "cudaLaunchKernel", 22, 24, correlation=1),
            event("kernel", "gemm", 120, 170, 7, correlation=1, device=0, stream=7),
            event("cpu_op", "aten::relu", 80, 85),
        ),
        name="run",
    )
    page = show("run")
    script = """
        const spans = etq[arguments[0]];
        const ids = spans.rows.flatMap((row) => [...row.ids]);
        return ids.map((id) => [spans.options.label(id), Object.fromEntries(spans.options.describe(id)).module]);
    """
    host, device = (page.execute_script(script, name) for name in ("icicle", "deviceIcicle"))
    assert ["aten::mm", "Net_0/Block_0/Linear_0"] in host and ["Linear_1", "Net_0/Block_1/Linear_1"] in host
    assert ["aten::relu", "Shared_0"] in host
    assert device == [
        ["(all)", ""], ["Net_0", "Net_0"], ["Block_0", "Net_0/Block_0"], ["Linear_0", "Net_0/Block_0/Linear_0"],
        ["aten::mm", "Net_0/Block_0/Linear_0"],
    ]  # fmt: skip


def test_slow_steps_are_marked(show: Show, warehouse: Warehouse) -> None:
    starts = [0, 100, 200, 300, 460, 560]
    steps = [
        event("user_annotation", f"ProfilerStep#{place + 4}", start, end)
        for place, (start, end) in enumerate(pairwise(starts))
    ]
    warehouse.ingest(trace(*steps, event("cpu_op", "aten::mm", 1, 2)), name="run")
    page = show("run")
    chart = page.execute_script("return document.querySelector('#steps .plot').plot.data")
    assert chart == [[0, 1, 2, 3, 4], [100, 100, 100, None, 100], [None, None, None, 160, None]]
    assert "1 of 5 steps is slow: 7." in page.find_element(By.ID, "steps").text


def test_steps_and_passes_of_a_trace(show: Show, warehouse: Warehouse) -> None:
    training = Training(5, steps=3)
    warehouse.ingest(trace(*training.events), name="run")
    page = show("run")
    steps = "SELECT step, total, kernel, runtime, data_loader, cpu_exec, other FROM wide_steps('run')"
    headings = page.execute_script(
        "return [...document.querySelectorAll('table[data-name=steps] th')].map((each) => each.dataset.column)"
    )
    assert headings == ["step", "total", "kernel", "runtime", "data_loader", "cpu_exec", "other"]
    shown = [[number(text) for text in row] for row in cells(page, "steps")]
    assert shown == [[near(value) for value in row] for row in warehouse.rows(steps)[1]]
    chart = page.execute_script("return document.querySelector('#steps .plot').plot.data")
    assert chart == [[0, 1, 2], [near(row[1]) for row in warehouse.rows(steps)[1]], [None] * 3]
    assert "No step is slow." in page.find_element(By.ID, "steps").text
    passes = "SELECT pass, host_time, host_percent, device_time, device_percent, device_events FROM passes('run')"
    shown_passes = [(row[0], *map(number, row[1:])) for row in cells(page, "passes")]
    assert shown_passes == [(row[0], *map(near, row[1:])) for row in warehouse.rows(passes)[1]]
    costs = {(row[0], row[1]): [number(text) for text in row[2:]] for row in cells(page, "backward_op")}
    assert costs == {
        (function, op or "(no op)"): [near(row[place]) for place in (4, 5, 2, 3, 1)]
        for (op, function), row in training.ops.items()
    }
    modules = {row[0]: number(row[2]) for row in cells(page, "backward_module_path")}
    assert modules == {path or "(no module)": near(row[5]) for path, row in training.modules.items() if row[1]}


def test_a_trace_without_devices_has_no_sections_about_them(show: Show, warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/mlp_train.pt.trace.json.gz", name="run")
    page = show("run")
    kinds = {each.get_dom_attribute("id") for each in page.find_elements(By.TAG_NAME, "section")}
    assert not kinds & {"idle", "work", "launches", "collectives", "kernels"}
    assert [row[0] for row in cells(page, "passes")] == ["forward", "backward", "optimizer", "data_loading", "other"]
    rows = warehouse.rows("SELECT op, allocations FROM peak_memory('run') ORDER BY held_bytes DESC")[1]
    assert [(row[0], number(row[3])) for row in cells(page, "peak")] == rows
    assert "at most 61.55 KiB in use" in page.find_element(By.ID, "peak_memory").text
    ops = warehouse.rows(
        "SELECT name FROM key_averages('run') ORDER BY coalesce(self_cpu_per_step, self_cpu_time) DESC LIMIT 8"
    )[1]
    assert [row[:1] for row in cells(page, "top_ops")] == [[name] for (name,) in ops]
    [(host,)] = warehouse.rows("SELECT sum(self_cpu_time) FROM key_averages('run')")[1]
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(host)


def test_memory_of_a_trace_over_time(show: Show, warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/mlp_train.pt.trace.json.gz", name="run")
    page = show("run")
    times, allocated, _ = page.execute_script("return document.querySelector('#memory_timeline .plot').plot.data")
    rows = warehouse.sql("SELECT time, allocated_bytes FROM memory_timeline('run')").fetchall()
    assert list(zip(times, allocated, strict=True)) == [tuple(map(pytest.approx, row)) for row in rows]


def test_events_on_other_clocks_are_marked_as_estimated(show: Show, warehouse: Warehouse) -> None:
    one = run(
        "Execute",
        delegated("conv", start=5000, end=5020),
        delegated("relu", start=5030, end=5040),
        delegate_call(start=10, end=40),
        execute(start=0, end=50),
    )
    warehouse.ingest(dump(one), name="run")
    page = show("run")
    script = """
        const spans = etq.timeline, row = spans.rows[2];
        return [...row.ids].map((id, at) => [spans.options.label(id), row.starts[at], Object.fromEntries(spans.options.describe(id))]);
    """
    (first, start, second), _ = page.execute_script(script)
    assert (first, start) == ("conv", pytest.approx(0.01))
    assert "estimated" in second["place"]


def test_a_run_is_chosen_by_its_name(show: Show, warehouse: Warehouse) -> None:
    """Runs of several methods are distinguished, and each shows its events."""
    folder = CAPTURES / "multimethod"
    capture = warehouse.ingest(folder / "multimethod.etdp", name="run")
    warehouse.link(capture, warehouse.ingest_record(folder / "multimethod.etrecord"))
    page = show("run")
    options = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#timeline select option")]
    rows = warehouse.sql("SELECT run_index, method, name FROM runs ORDER BY run_index").fetchall()
    assert [option.split(" · ")[:2] for option in options] == [
        [f"run {run}", method or name] for run, method, name in rows
    ]
    for number_of, _, _ in rows:
        page.execute_script(
            "const select = document.querySelector('#timeline select'); select.value = arguments[0];"
            "select.dispatchEvent(new Event('change'));",
            number_of,
        )
        drawn(page)
        labels = page.execute_script(
            "return etq.timeline.rows.flatMap((row) => [...row.ids].map((id) => etq.timeline.options.label(id))).sort()"
        )
        query = "SELECT event_name FROM event_times('run') WHERE run_index = $run"
        assert labels == sorted(row[0] for row in warehouse.sql(query, run=number_of).fetchall())
