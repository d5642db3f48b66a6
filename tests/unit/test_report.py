"""A page as a file: its parts, without a browser."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import re
from pathlib import Path

import pytest

import etq
import etq.report
from etq.report import columns, traces
from etq.report.kit import Section
from etq.report.page import Report
from etq.report.single import OF_TRACES
from etq.report.timeline import timeline_section
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, framework, kernel, run
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

ROOT = Path(etq.report.__file__).parent


class Tags(html.parser.HTMLParser):
    """The tags of a page with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style", "title"):
            self.texts.append(data)


def an_assembled(title: str = "run", **facts: object) -> str:
    return Report("capture", title, [Section("headline", "Overview", {}, dict(facts))]).page()


def test_the_policy_names_this_script_and_this_style() -> None:
    """The policy's hashes are those of the page's script and style, and it allows nothing else."""
    parsed = Tags(an_assembled())
    [policy] = [
        attributes["content"] for tag, attributes in parsed.tags if tag == "meta" and "http-equiv" in attributes
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))
    assert rules.keys() == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    text = an_assembled()
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{hashed}'"


def test_nothing_is_asked_of_a_network() -> None:
    parsed = Tags(an_assembled())
    assert not [tag for tag, attributes in parsed.tags if {"src", "href", "action", "style"} & attributes.keys()]
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]


def test_scripts_never_turn_text_into_markup() -> None:
    """Names from files are added only as text nodes. uPlot is not checked, because it gets only numbers as data."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|DOMParser|srcdoc"
    )
    for path in (ROOT / "assets").glob("*.js"):
        assert forbidden.search(path.read_text()) is None, path.name


def test_a_title_is_text() -> None:
    text = an_assembled('</title><script>alert(1)</script>"\x1b[31m{{data}}')
    parsed = Tags(text)
    assert [tag for tag, _ in parsed.tags].count("script") == 2
    assert text.count("</title>") == 1 and "\x1b" not in text


def test_runs_that_do_not_fit_are_left_out_and_reported(warehouse: Warehouse) -> None:
    """Of 9 runs of 2 events and one of one, 9 events are 5 runs: each block's first, the slowest, the fastest, and one of the two next to the median of 14.5."""
    lengths = [50, 11, 30, 12, 13, 14, 15, 16, 99]
    runs = [run("Execute", kernel("add", 1, length - 1), execute(0, length)) for length in lengths]
    capture = warehouse.ingest(dump(run("Default", framework("Method::init", 0, 5)), *runs), name="run")

    def ask(query: str, **parameters: object) -> columns.Table:
        given = {"capture": capture, **({"unit": "ns"} if "$unit" in query else {}), **parameters}
        return columns.ask(warehouse, query, **given)

    section = timeline_section(ask, False, most=9)
    assert section is not None
    assert section.tables["runs"].columns[0] == [0, 1, 2, 6, 9]
    assert section.note is not None and section.note.startswith("The page has 5 of 10 runs: of equal runs")
    events = section.tables["events"]
    assert set(events.columns[events.names.index("run_index")]) == {0, 1, 2, 6, 9}
    whole = timeline_section(ask, False, most=19)
    assert whole is not None and whole.note is None and whole.tables["runs"].columns[0] == list(range(10))


def test_a_pruned_capture_is_named() -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="old")
        warehouse.prune(0, keep_rollups=True)
        with pytest.raises(etq.QueryError, match="^the events of old were pruned; "):
            etq.report.report_of(warehouse, ["old"]).page()
        with pytest.raises(etq.QueryError, match="^the events of old were pruned; "):
            warehouse.rows("FROM op_totals($capture)", capture=warehouse.capture("old"))


@pytest.mark.long
def test_a_record_of_another_program_covers_nothing(warehouse: Warehouse) -> None:
    """Such a section had a table without columns, which no page can draw."""
    capture = warehouse.ingest(dump(run("Execute", execute(0, 99), kernel("add", 10, 30, 1))), name="run")
    warehouse.link(capture, warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
    report = etq.report.report_of(warehouse, ["run"])
    assert "coverage" not in [section.kind for section in report.sections]


def test_reports_have_each_declared_section_of_traces() -> None:
    made = {name: each for name, each in vars(traces).items() if getattr(each, "__name__", "") == "made"}
    assert len(made) > 8
    assert [name for name, each in made.items() if each not in OF_TRACES] == []
