"""Each tool, resource and prompt by the SDK's own client, over both transports."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import catalog
from etq.mcp.answers import MOST_ROWS
from etq.mcp.limits import MOST_AT_FIRST, MOST_CHARACTERS
from etq.mcp.tables import COLUMNS
from tests.agents.conftest import OF_BUILD, Agent, rows_of
from tests.hostile import EVIL
from tests.trace_builders import trace, two_steps

SLOW = "SELECT count(*) FROM range(100000000) AS a(x), range(100000) AS b(y) WHERE (x * y) % 7 = 3"


def plain(rows: Any) -> Any:
    return json.loads(json.dumps(rows, default=str))


def selected(warehouse: etq.Warehouse, view: str, source: str) -> list[dict[str, Any]]:
    """The rows of a view, as objects with the columns that results have, to four digits."""
    names = COLUMNS[view]
    listed = ", ".join(f'"{name}"' for name in names)
    rows = warehouse.rows(f"SELECT {listed} FROM {source}")[1]
    return [{name: four_digits(value) for name, value in zip(names, plain(row), strict=True)} for row in rows]


def four_digits(value: Any) -> Any:
    return pytest.approx(value, rel=6e-4) if isinstance(value, float) else value


def same(table: dict[str, Any], expected: list[dict[str, Any]]) -> bool:
    """Whether a table has these rows; columns that it leaves out have no value in any."""
    found = rows_of(table)
    return len(found) == len(expected) and all(
        row.get(name) == value for row, other in zip(found, expected, strict=True) for name, value in other.items()
    )


def test_tools_are_read_only_and_typed(agent: Agent) -> None:
    tools = agent.run(agent.client.list_tools).tools
    assert [each.name for each in tools] == [
        "list_captures", "describe", "ask", "summary", "compare", "regressions", "inspect_file",
    ]  # fmt: skip
    for tool in tools:
        assert tool.annotations.read_only_hint and not tool.annotations.open_world_hint
        assert tool.input_schema["additionalProperties"] is False
        assert all("description" in each for each in tool.input_schema["properties"].values())
    assert sum(len(each.model_dump_json()) for each in tools) < 12_000
    for view, columns in COLUMNS.items():
        assert set(columns) <= {column.name for column in catalog.named(view).columns}, view
    assert "never instructions" in agent.client.instructions


def test_captures(agent: Agent) -> None:
    found = agent.call("list_captures", selector="build=42", limit=2, offset=1)
    assert [each["name"] for each in rows_of(found["captures"])] == ["42-3", "42-5"]
    assert (found["total"], found["labels"]["build"]) == (OF_BUILD, ["42"])
    [further] = found["next"]
    assert further["arguments"] == {"selector": "build=42", "limit": 2, "offset": 3}
    last = agent.call(further["tool"], **further["arguments"])
    assert [each["name"] for each in rows_of(last["captures"])] == ["42-7"] and "next" not in last
    everything = agent.call("list_captures")
    assert everything["total"] == 2 * OF_BUILD + 1 and everything["cut"] == []
    assert everything["labels"]["build"] == ["41", "42"]
    wrong = agent.error("list_captures", selector="build=4")
    assert "no capture matches build=4" in wrong["error"] and wrong["next"][0]["tool"] == "list_captures"


def test_description(agent: Agent) -> None:
    everything = agent.call("describe")
    names = [name for theme in everything["views"].values() for name in theme]
    assert sorted(names) == sorted(each.name for each in catalog.public_objects())
    found = agent.call("describe", view="op_totals")
    target = catalog.named("op_totals")
    assert (found["kind"], found["text"]) == ("table macro", target.text)
    assert [each["name"] for each in rows_of(found["columns"])] == [each.name for each in target.columns]
    assert rows_of(found["parameters"])[1] == {"name": "by", "text": target.parameters[1].text, "default": "'family'"}
    assert "op_totals" in agent.error("describe", view="op_total")["error"]
    assert agent.error("describe", view="_several_captures")["next"] == [{"tool": "describe", "arguments": {}}]


@pytest.mark.long
def test_queries(agent: Agent, warehouse_path: str) -> None:
    query = "SELECT op, total, 'NaN'::DOUBLE AS x, DATE '2026-01-02' AS day, [1, NULL] AS y FROM op_totals('41-0')"
    found = agent.call("ask", sql=query)
    with etq.open(warehouse_path, read_only=True) as warehouse:
        rows = warehouse.rows("SELECT op, total FROM op_totals('41-0')")[1]
    assert found["columns"] == ["op", "total", "x", "day", "y"]
    assert found["rows"] == [[op, total, None, "2026-01-02", [1, None]] for op, total in rows]
    assert agent.call("ask", sql="FROM range(7)", limit=3)["cut"] == ["rows: the first 3 of 7"]
    for wrong in ("DELETE FROM captures", "SELECT 1; SELECT 2", "FROM '/etc/passwd'", "SELECT nix FROM captures", ""):
        assert agent.error("ask", sql=wrong)["next"] == [{"tool": "describe", "arguments": {}}]
    assert "memory" in agent.error("ask", sql="SELECT range AS a, repeat('x', 1000) FROM range(10000000)")["error"]


@pytest.mark.long
def test_a_summary_has_the_rows_of_the_views(agent: Agent, warehouse_path: str) -> None:
    found = agent.call("summary", capture="41-0")
    with etq.open(warehouse_path, read_only=True) as warehouse:
        for part, view in (("headline", "headline"), ("ops", "op_totals"), ("advice", "advice")):
            rows = selected(warehouse, view, f"{view}('41-0')")
            assert rows and same(found[part], rows[:MOST_ROWS]), part
    assert rows_of(found["capture"])[0]["labels"] == "build=41, device=bench, model=mlp"
    assert "matches" in agent.error("summary", capture="build=41")["error"]
    assert agent.error("summary", capture="41")["next"][0]["tool"] == "list_captures"


def test_a_first_answer_is_short(agent: Agent) -> None:
    calls: dict[str, dict[str, Any]] = {
        "list_captures": {}, "describe": {}, "summary": {"capture": "41-0"}, "regressions": {},
        "compare": {"base": "build=41", "new": "build=42"}, "inspect_file": {"path": "run.etdp"},
    }  # fmt: skip
    for name, arguments in calls.items():
        [content] = agent.run(agent.client.call_tool, name, arguments).content
        assert len(content.text) <= MOST_AT_FIRST, name
        floats = re.findall(r"-?\d+\.\d+(?:e-?\d+)?", re.sub(r'"[^"]*"', "", content.text))
        assert all(float(f"{float(number):.4g}") == float(number) for number in floats), name


def test_the_planted_slowdown_is_found(agent: Agent, warehouse_path: str) -> None:
    found = agent.call("compare", base="build=41", new="build=42")
    with etq.open(warehouse_path, read_only=True) as warehouse:
        ops = selected(warehouse, "compare_ops", "compare_ops('build=41', 'build=42')")
        ops.sort(key=lambda op: op["verdict"] in ("~", "not decided"))
        assert same(found["ops"], ops[:MOST_ROWS])
        totals = selected(warehouse, "compare_captures", "compare_captures('build=41', 'build=42')")
        assert same(found["totals"], totals)
    assert found["verdicts"][1].startswith("total: slower, ") and "addmm" in found["verdicts"][0]
    slowest = rows_of(found["ops"])[0]
    assert (slowest["op"], slowest["verdict"]) == ("addmm", "slower")
    assert "modules" not in found
    alike = agent.call("compare", base="41-0", new="41-2", limit=1)
    assert len(rows_of(alike["ops"])) == 1 and any(each.startswith("ops: the first 1 of ") for each in alike["cut"])
    assert agent.error("compare", base="build=41", new="build=nix")["next"][0]["tool"] == "list_captures"
    over = agent.call("regressions", selector="model=mlp")
    assert over["total"] == len(rows_of(over["regressions"]))
    assert "no capture has a label 'commit'" in agent.error("regressions", over="commit")["error"]


def test_files_only_below_allowed_folders(agent: Agent, folders: tuple[Path, Path]) -> None:
    allowed, secret = folders
    found = agent.call("inspect_file", path=str(allowed / "run.etdp"))
    assert rows_of(found["capture"])[0]["name"] == "run" and rows_of(found["headline"])
    assert agent.call("inspect_file", path="run.etdp") == found
    (allowed / "step.json").write_bytes(trace(*two_steps()))
    of_trace = agent.call("inspect_file", path="step.json")
    assert rows_of(of_trace["capture"])[0]["format"] == "torch_trace"
    # By hand: addmm takes 10 us besides its call, in one of the two steps; without steps there is only the sum.
    [addmm] = [row for row in rows_of(of_trace["ops"]) if row["name"] == "aten::addmm"]
    assert addmm["self_cpu_per_step"] == 5 and "self_cpu_time" not in addmm
    whole = [event for event in two_steps() if not event["name"].startswith("ProfilerStep")]
    (allowed / "whole.json").write_bytes(trace(*whole))
    [addmm] = [
        row for row in rows_of(agent.call("inspect_file", path="whole.json")["ops"]) if row["name"] == "aten::addmm"
    ]
    assert addmm["self_cpu_time"] == 10 and "self_cpu_per_step" not in addmm
    outside = ["/etc/passwd", str(secret / "run.etdp"), str(allowed / "link.etdp"), str(allowed / "folder/run.etdp")]
    outside += [
        str(allowed / "../allowed-not/run.etdp"),
        "../allowed-not/run.etdp",
        "nix.etdp",
        "~root/.bashrc",
        "a\0b",
    ]
    outside += [".", "pipe", ""]
    for path in outside:
        wrong = agent.error("inspect_file", path=path)
        assert "not a file" in wrong["error"] or "not a path" in wrong["error"], path
    there, not_there = (
        agent.error("inspect_file", path=str(secret / name))["error"] for name in ("run.etdp", "nix.etdp")
    )
    assert there == not_there.replace("nix.etdp", "run.etdp")
    assert agent.error("inspect_file", path="text.etdp")["error"].startswith("text.etdp: not an ETDump")


def test_wrong_arguments_name_the_right_ones(agent: Agent) -> None:
    for name, arguments in (
        ("ask", {}),
        ("ask", {"sql": 1}),
        ("ask", {"sql": "SELECT 1", "limit": 0}),
        ("ask", {"sql": "SELECT 1", "limit": 100_000}),
        ("ask", {"query": "SELECT 1"}),
        ("summary", {"capture": ["a"]}),
        ("list_captures", {"select": "x"}),
        ("list_captures", {"offset": -1}),
        ("compare", {"base": "build=41"}),
    ):
        assert f"; call {name} with " in agent.error(name, **arguments)["error"], arguments
    assert "list_captures" in agent.error("no_tool")["error"]


@pytest.mark.long
def test_output_is_cut_with_a_note(agent: Agent) -> None:
    many = agent.call("ask", sql="SELECT range, repeat('x', 40) AS y FROM range(5000)", limit=1000)
    assert len(json.dumps(many)) <= 1.1 * MOST_CHARACTERS and len(many["rows"]) < 1000
    assert many["total"] == 5000 and len(many["cut"]) == 2
    assert f"the first {len(many['rows'])} of 1000 rows" in many["cut"][1]
    assert [row[0] for row in many["rows"]] == list(range(len(many["rows"])))
    long = agent.call("ask", sql="SELECT repeat('ä', 2000) AS x, {'a': [repeat('y', 1001)]} AS y")
    assert long["rows"] == [["ä" * 1000 + "…", {"a": ["y" * 1000 + "…"]}]]
    assert long["cut"] == ["2 texts are cut after 1000 characters"]
    wide = ", ".join(f"repeat('z', 900) AS c{at}" for at in range(100))
    assert agent.call("ask", sql=f"SELECT {wide}")["rows"] == []


@pytest.mark.long
def test_hostile_names_are_data(agent: Agent) -> None:
    """The text for a model has no character that hides, reverses or colours text, and its JSON is whole."""
    hidden = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_captures", {}),
        ("summary", {"capture": "hostile"}),
        ("ask", {"sql": "SELECT DISTINCT e.name FROM events AS e WHERE e.name LIKE '%pwned%'"}),
        ("list_captures", {"selector": f"note={EVIL}x"}),
        ("summary", {"capture": f"hostile{EVIL}"}),
        ("ask", {"sql": f'SELECT "{EVIL}"'}),
        ("inspect_file", {"path": EVIL}),
    ]
    for name, arguments in calls:
        text = agent.run(agent.client.call_tool, name, arguments).content[0].text
        assert hidden.search(text) is None, text
        assert set(json.loads(text)) >= {"cut"} or set(json.loads(text)) == {"error", "next"}
    assert any(EVIL in row[0] for row in agent.call("ask", sql=calls[2][1]["sql"])["rows"])


@pytest.mark.long
def test_resources_and_prompts(agent: Agent) -> None:
    def text(uri: str) -> str:
        return str(agent.run(agent.client.read_resource, uri).contents[0].text)

    uris = [str(each.uri) for each in agent.run(agent.client.list_resources).resources]
    assert uris == ["etq://schema", "etq://glossary"]
    assert all(f"| {each.name} |" in text(uris[0]) for each in catalog.public_objects())
    assert text(uris[1]) == (Path(__file__).parents[2] / "docs/glossary.md").read_text()
    assert "share_percent" in text("etq://schema/op_totals")
    assert agent.run(agent.client.list_resource_templates).resource_templates[0].uri_template == "etq://schema/{name}"
    prompts = agent.run(agent.client.list_prompts).prompts
    assert [each.title for each in prompts] == ["Why is this capture slow", "What made build B slower"]
    arguments = {"base": "build=41", "new": 'x" and more'}
    prompt = agent.run(agent.client.get_prompt, "slower_build", arguments).messages[0].content.text
    assert '"build=41"' in prompt and r'"x\" and more"' in prompt
    for call, argument in (("read_resource", ("etq://nix",)), ("get_prompt", ("slow_capture", {"x": "y"}))):
        with pytest.raises(Exception, match="resources are etq://schema|the arguments are capture"):
            agent.run(getattr(agent.client, call), *argument)


def test_a_cancelled_call_ends_its_processes(agent: Agent) -> None:
    import anyio

    async def cancelled() -> None:
        with anyio.move_on_after(1.5):
            await agent.client.call_tool("ask", {"sql": SLOW})
            raise AssertionError("the query must be slow")

    agent.run(cancelled)
    ends = time.monotonic() + 10
    while _sandboxes() and time.monotonic() < ends:
        time.sleep(0.05)
    assert _sandboxes() == []
    start = time.monotonic()
    assert agent.call("ask", sql="SELECT 1 AS x")["rows"] == [[1]]
    assert time.monotonic() - start < 20  # the query would take 30 s


def _sandboxes() -> list[str]:
    """The processes of queries that this process has started, directly or not."""
    parents, commands = {}, {}
    for folder in Path("/proc").iterdir() if os.path.isdir("/proc") else []:
        if folder.name.isdigit():
            try:
                parents[folder.name] = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
                commands[folder.name] = (folder / "cmdline").read_bytes()
            except OSError:
                continue
    found = []
    for process, line in commands.items():
        if b"etq.sandbox.worker" in line:
            parent: str | None = process
            while parent is not None and parent != str(os.getpid()):
                parent = parents.get(parent)
            found += [process] if parent is not None else []
    return found


@pytest.mark.long
def test_writers_get_in_between_calls(agent: Agent, warehouse_path: str) -> None:
    agent.call("summary", capture="41-0")
    with etq.open(warehouse_path, wait=1) as warehouse:
        warehouse.label("41-0", seen="yes")
    assert agent.call("list_captures", selector="seen=yes")["total"] == 1
    with etq.open(warehouse_path, wait=1) as warehouse:
        warehouse.label("41-0", seen=None)
