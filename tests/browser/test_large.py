"""A trace of more than 100,000 events: the work per frame is bounded by the screen, not by the trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.benchmarks.make_trace import make_trace
from tests.browser.driver import WebDriver
from tests.browser.pages import complaints, opened, written
from tests.conftest import CAPTURES

pytestmark = pytest.mark.long

EVENTS = 120_000


@pytest.fixture(scope="module")
def page(started_once: WebDriver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    folder = tmp_path_factory.mktemp("large")
    make_trace(CAPTURES / "torch/transformer_stack.pt.trace.json.gz", folder / "large.pt.trace.json", EVENTS)
    with etq.open() as warehouse:
        warehouse.ingest(folder / "large.pt.trace.json", name="large")
        path = written(warehouse, "large", folder)
    assert path.stat().st_size < 8e6
    complaints(started_once)
    opened(started_once, path)
    yield started_once
    assert complaints(started_once) == []


def test_no_step_draws_more_than_the_screen_has_pixels(page: WebDriver) -> None:
    """At any zoom a row is drawn with at most two spans a pixel, and something is drawn wherever something lies."""
    assert page.execute_script("return etq.timeline.rows.reduce((sum, row) => sum + row.ids.length, 0)") >= EVENTS
    script = """
        const spans = etq.timeline, found = [];
        const draw = () => { spans.drawNow(); found.push(spans.drawn); };
        spans.reset();
        for (let step = 0; step < 60; step += 1) {
          spans.zoom(1.4, 0.37 * spans.width);
          draw();
        }
        spans.reset();
        draw();
        return [found, spans.width * 2 * Math.ceil(spans.height / 19)];
    """
    counts, most = page.execute_script(script)
    assert max(counts) <= most < EVENTS / 2
    assert min(counts) > 0
    assert counts[-1] > 1000


def test_drawn_events_have_their_times(page: WebDriver) -> None:
    """Each row covers the same pixels as a plain loop over all of its events, including long events after tiny ones."""
    script = """
        const spans = etq.timeline;
        const rows = [spans.rows.reduce((one, other) => (other.ids.length > one.ids.length ? other : one))];
        // Tiny events and long ones in turn, with gaps between some.
        const made = { starts: [], ends: [], ids: [] };
        for (let at = 0, number = 0; at < spans.extent[1]; number += 1) {
          const length = spans.extent[1] * [1e-6, 1e-6, 0.01, 1e-4, 3e-5][(number * 7) % 5];
          made.starts.push(at);
          made.ends.push(at + length);
          made.ids.push(spans.rows[1].ids[0]);
          at += length + (number % 3 ? 0 : length / 2);
        }
        rows.push(made);
        const wrong = [];
        for (const row of rows) {
          for (const zoom of [1, 7, 300]) {
            spans.reset();
            spans.zoom(zoom, 0.6 * spans.width);
            const drawn = new Set();
            spans.pen.fillRect = (x, y, width) => {
              for (let pixel = Math.floor(x); pixel < Math.max(x + width, Math.floor(x) + 1); pixel += 1) drawn.add(pixel);
            };
            spans.drawRow(row, 0, spans.width, true);
            delete spans.pen.fillRect;
            const [from, to] = spans.view;
            const scale = spans.width / (to - from);
            row.starts.forEach((start, at) => {
              const left = Math.max(Math.floor((start - from) * scale), 0);
              const right = Math.min(Math.floor((row.ends[at] - from) * scale), Math.floor(spans.width) - 1);
              if (row.ends[at] <= from || start >= to) return;
              // The last pixel of a wide event is the gap before the next.
              for (let pixel = left; pixel <= Math.max(left, right - 2); pixel += 1) {
                if (!drawn.has(pixel)) wrong.push([zoom, start, pixel]);
              }
            });
          }
        }
        return [wrong.slice(0, 5), made.ids.length];
    """
    wrong, made = page.execute_script(script)
    assert wrong == [] and made > 100


def test_a_page_keeps_a_size(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the cap, the page has only the longest events and states that."""
    from etq.report import timeline

    monkeypatch.setattr(timeline.timeline_section, "__defaults__", (100,))
    warehouse.ingest(CAPTURES / "torch/mlp_train.pt.trace.json.gz")
    from etq.report.single import report_of

    [section] = [each for each in report_of(warehouse, "mlp_train", None).sections if each.kind == "timeline"]
    assert section.tables["events"].length == 100
    assert section.note == "It has the 100 longest of the 691 events of run 0."
    shown = section.tables["events"]
    lengths = sorted(shown.columns[shown.names.index("duration")])
    query = "SELECT total FROM event_times('mlp_train') ORDER BY total DESC LIMIT 100"
    assert lengths == sorted(row[0] for row in warehouse.sql(query).fetchall())
