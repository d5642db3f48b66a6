"""Reports of other kinds of captures in a browser: delegates, traces, and captures without record and program."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import etq
from etq.render.kernel_names import short_names
from etq.warehouse.warehouse import Warehouse
from tests.batches import linked
from tests.browser.driver import By, WebDriver
from tests.browser.pages import cells, near, number, opened, plotted, select, texts, told, written
from tests.conftest import CAPTURES
from tests.sql.test_op_efficiency import ADD, H100, HALF, launched, op
from tests.sql.test_step_efficiency import product
from tests.trace_builders import event, trace

pytestmark = pytest.mark.long

Show = Callable[[str], WebDriver]
LABELS = "return etq[arguments[0]].rows.flatMap((row) => [...row.ids].map((id) => etq[arguments[0]].options.label(id))).sort()"


@pytest.fixture
def show(quiet: WebDriver, warehouse: Warehouse, tmp_path: Path) -> Show:
    """Opens the report of a capture of the warehouse."""

    def shown(capture: str) -> WebDriver:
        opened(quiet, written(warehouse, capture, tmp_path))
        return quiet

    return shown


def check_rows(page: WebDriver, warehouse: Warehouse, table: str, query: str) -> None:
    """Columns of a table are those of a query; names of kernels are shown without their arguments, where that tells them apart."""
    names, rows = warehouse.rows(query)
    assert rows
    shown = told(page, table, *names)
    short = [short_names(value for value in column if isinstance(value, str)) for column in zip(*rows, strict=True)]
    for found, row in zip(shown, rows, strict=True):
        pairs = [*zip(found, row, short, strict=True)]
        texts_of_row = [number(text) if isinstance(value, int | float) else text for text, value, _ in pairs]
        assert texts_of_row == [
            near(value) if isinstance(value, int | float) else of.get(value or "", value or "")
            for _, value, of in pairs
        ], table


def test_a_delegated_model(quiet: WebDriver, tmp_path: Path) -> None:
    with linked("convnet_xnn") as warehouse:
        opened(quiet, written(warehouse, "run", tmp_path))
        check_rows(
            quiet,
            warehouse,
            "delegate_totals",
            """
            SELECT instruction_id, total / 98 AS per_execute, per_call, share_percent, ops / 98 AS ops_per_execute,
                unaccounted / 98 AS unaccounted_per_execute, calls, block_index
            FROM delegate_totals('run')
            """,
        )
    assert told(quiet, "delegate_totals", "backend") == [("XnnpackBackend",)]
    assert texts(quiet, '[data-number="delegate coverage"] .value') == ["15 of 15"]
    # Nothing is left to kernels, so that no share of them is drawn.
    assert texts(quiet, "#coverage .split") == ["15 in delegates"]
    assert "program's file, which the capture lacks" in texts(quiet, "#memory .missing")[0]


def test_a_capture_without_a_record_says_so_once(show: Show, warehouse: Warehouse) -> None:
    """One in which nothing ran has a load, and neither an execute of zero nor a tax."""
    warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="run")
    page = show("run")
    missing = [each.get_dom_attribute("id") for each in page.find_elements(By.CSS_SELECTOR, "section:has(.missing)")]
    assert missing == ["memory"] and "etq link run PROGRAM.pte" in texts(page, "#memory")[0]
    assert texts(page, "body")[0].count("etq link run RECORD") == texts(page, "#headline")[0].count("etq link run") == 1
    sections = {each.get_dom_attribute("id") for each in page.find_elements(By.CSS_SELECTOR, "section[id]")}
    assert {"breakdown", "ops"} <= sections and not sections & {"graph", "modules", "sources", "coverage"}
    assert texts(page, '[data-number="delegate coverage"]') == []
    warehouse.ingest(CAPTURES / "mlp/mlp_0runs.etdp", name="nothing")
    page = show("nothing")
    cards = page.find_elements(By.CLASS_NAME, "card")
    assert [each.get_dom_attribute("data-number") for each in cards] == ["load"]
    assert "Nothing was executed" in texts(page, "#breakdown")[0]


def test_a_trace(show: Show, warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/pair_mlp.pt.trace.json.gz", name="run")
    page = show("run")
    modules = "SELECT module_path AS module, host_total_time FROM module_tree('run') ORDER BY host_total_time DESC"
    check_rows(page, warehouse, "module_tree", modules)
    query = "SELECT name, self_cpu_time FROM key_averages('run', by := 'shape')"
    rows = sorted(warehouse.sql(query).fetchall(), key=lambda row: -row[1])
    shown = told(page, "key_averages", "name", "self_cpu_time")
    assert [(name, number(time)) for name, time in shown] == [(name, near(time)) for name, time in rows]
    [(total,)] = warehouse.sql("SELECT sum(self_cpu_time) FROM key_averages('run', by := 'module')").fetchall()
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(total)
    events = page.execute_script("return etq.timeline.rows.reduce((sum, row) => sum + row.ids.length, 0)")
    assert events == warehouse.sql("SELECT count(*) FROM event_times('run')").fetchall()[0][0] == 868


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
    legend = ["ops", "on devices", "runtime calls", "Python", "annotations and others"]
    assert texts(page, "#timeline .legend span") == legend


def test_devices_of_a_trace(show: Show, warehouse: Warehouse) -> None:
    """Its tables are those of the views; the longest ops come first."""
    warehouse.ingest(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz", name="run")
    page = show("run")
    for table, query in (
        ("device_idle_causes", "device, cause, total, share_percent, gaps, mean FROM device_idle_causes('run')"),
        ("critical_ops", "coalesce(op, '(no op)') AS op, total, share_percent FROM critical_ops('run')"),
        ("launch_totals", "call, calls, call_time, short_events, max_delay FROM launch_totals('run')"),
        ("collectives", "collective, calls, total FROM collectives('run')"),
        ("top_kernels", "event, total / 4 AS per_step, calls FROM work_totals('run') ORDER BY total DESC"),
        ("device_breakdown", "device, idle, idle_percent FROM device_breakdown('run')"),
    ):
        check_rows(page, warehouse, table, f"SELECT {query}")
    assert [row[0] for row in cells(page, "key_averages")][:3] == ["aten::mm", "aten::relu", "aten::add"]
    [(host, device)] = warehouse.rows(
        "SELECT sum(self_cpu_time), sum(self_device_time) FILTER (NOT is_device) FROM key_averages('run')"
    )[1]
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(host)
    assert page.execute_script("return etq.deviceIcicle.extent[1]") == pytest.approx(device)
    # The longest ops and kernels are on the first screen.
    assert page.execute_script("return document.querySelector('.pair').getBoundingClientRect().bottom") < 900


def test_the_share_of_the_peak_of_a_trace(show: Show, warehouse: Warehouse) -> None:
    """2 * 4096 ** 3 operations in a step of a millisecond, of 989.4 * 10 ** 12 a second; and of a device without peaks."""
    events = [event("user_annotation", "ProfilerStep#1", 0, 1000), *product(10, 1, 4096, 4096, 4096)]
    warehouse.ingest(trace(*events, **H100), name="run")
    warehouse.ingest(trace(*events, deviceProperties=[{"id": 0, "name": "Some GPU"}]), name="other")
    [card] = show("run").find_elements(By.CSS_SELECTOR, "[data-number=mfu]")
    known = "of the peak of NVIDIA H100 SXM · costs are known of 100 % of devices' time"
    assert card.text.splitlines() == ["MFU", "13.89 %", known]
    [card] = show("other").find_elements(By.CSS_SELECTOR, "[data-number=mfu]")
    assert card.text.splitlines() == ["MFU", "unknown", "the peaks of its device are not known"]


def test_the_roofs_over_an_op_that_computes_little(show: Show, warehouse: Warehouse) -> None:
    """An addition of bfloat16: an operation for 6 bytes."""
    inputs = ([4096, 4096], HALF), ([4096, 4096], HALF)
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 1000),
        op("aten::add", 10, 15, *inputs),
        *launched(ADD, 11, 10, 1, begin=-889),
    ]
    warehouse.ingest(trace(*events, **H100), name="run")
    axis, lowest = show("run").execute_script(
        "const { plot } = document.querySelector('#efficiency .plot'); return [plot.data[0], plot.scales.x.min]"
    )
    assert axis[1] == pytest.approx(1 / 6) and lowest == axis[0] == 0.1


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
        const { rows, options } = etq[arguments[0]];
        return rows.flatMap((row) => [...row.ids].map((id) => [options.label(id), Object.fromEntries(options.describe(id)).module]));
    """
    host, device = (page.execute_script(script, name) for name in ("icicle", "deviceIcicle"))
    assert ["aten::mm", "Net_0/Block_0/Linear_0"] in host and ["Linear_1", "Net_0/Block_1/Linear_1"] in host
    assert ["aten::relu", "Shared_0"] in host
    assert device == [
        ["(all)", ""], ["Net_0", "Net_0"], ["Block_0", "Net_0/Block_0"], ["Linear_0", "Net_0/Block_0/Linear_0"],
        ["aten::mm", "Net_0/Block_0/Linear_0"],
    ]  # fmt: skip


def test_steps_are_stacked_beside_their_average(show: Show, warehouse: Warehouse) -> None:
    starts = [0, 100, 200, 300, 460, 560]
    steps = [
        event("user_annotation", f"ProfilerStep#{place + 4}", start, end)
        for place, (start, end) in enumerate(pairwise(starts))
    ]
    warehouse.ingest(trace(*steps, event("cpu_op", "aten::mm", 1, 2)), name="run")
    page = show("run")
    # Of the time of each, the op takes the first microsecond of the first step.
    labels, (places, *tops) = plotted(page, "#steps .plot")
    assert labels == ["step", "other", "cpu exec"] and places == [*range(6)]
    assert tops == [[100, 100, 100, 160, 100, 112], [1, 0, 0, 0, 0, pytest.approx(0.2)]]
    average = texts(page, "table[data-name='wide_steps'] tfoot td")
    assert average[:2] == ["average", "112"]
    assert "1 of 5 steps is slow: 7." in texts(page, "#steps")[0]


def test_a_run_is_chosen_by_its_name(quiet: WebDriver, tmp_path: Path) -> None:
    """Runs of several methods are distinguished, and each shows its events."""
    with etq.open() as warehouse:
        folder = CAPTURES / "multimethod"
        warehouse.ingest(folder / "multimethod.etdp", name="run", etrecord=folder / "multimethod.etrecord")
        opened(quiet, written(warehouse, "run", tmp_path))
        runs = warehouse.rows("SELECT run_index, method, name FROM runs ORDER BY run_index")[1]
        events = warehouse.rows("SELECT run_index, event_name FROM event_times('run')")[1]
    shown = [option.split(" · ")[:2] for option in texts(quiet, "#timeline select option")]
    assert shown == [["all 12 runs"], *([f"run {run}", method or name] for run, method, name in runs)]
    for chosen, _, _ in runs:
        select(quiet, "#timeline select", chosen)
        assert quiet.execute_script(LABELS, "timeline") == sorted(name for run, name in events if run == chosen)
