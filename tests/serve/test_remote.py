"""Commands that read the warehouse of a server: each gives what it gives of the file, or is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import etq
from etq.cli import main
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.serve.server import Server, serving

# What is asked with each command that has --db.
READ = {
    "advice": ["run"],
    "backward": ["trace"],
    "breakdown": ["run"],
    "captures": ["device=pixel8"],
    "chains": ["trace"],
    "clocks": ["job=one"],
    "collectives": ["rank0"],
    "compare": ["build=1", "build=4", "--min-effect", "1%"],
    "copies": ["rank0"],
    "counters": ["trace"],
    "comment": [],
    "coverage": ["run"],
    "critical-path": ["trace"],
    "decode": ["run"],
    "delegate-ops": ["xnn"],
    "delegates": ["xnn"],
    "events": ["run", "--format", "json"],
    "export": ["run", "--to", "chrome", "-o", "{file}", "--force"],
    "flame": ["run"],
    "flops": ["run"],
    "gap": ["values", "progout"],
    "gaps": ["trace"],
    "gate": ["build=1", "build=4"],
    "graph": ["run", "--format", "json"],
    "graphs": ["run", "run"],
    "idle": ["trace"],
    "kernels": ["rank0"],
    "launches": ["trace"],
    "leaks": ["trace"],
    "load": ["run"],
    "map": ["run", "trace"],
    "memory": ["run"],
    "modules": ["run"],
    "ops": ["run", "--sort-by", "total", "--columns", "op,total", "--format", "csv"],
    "overlap": ["trace"],
    "overview": ["kernels"],
    "passes": ["trace"],
    "peak": ["trace"],
    "percentiles": ["run"],
    "program": ["mlp"],
    "queues": ["trace"],
    "regressions": [],
    "replay": ["trace", "--op", "aten::addmm"],
    "report": ["run", "-o", "{file}", "--force"],
    "roofline": ["run", "--peak-flops", "20G", "--peak-bandwidth", "15G"],
    "sequences": ["trace"],
    "serving": ["trace"],
    "slow": ["run"],
    "sources": ["run"],
    "sql": ["SELECT 1::HUGEINT AS h, c.* FROM captures AS c", "--format", "json"],
    "steps": ["trace"],
    "stragglers": ["job=one"],
    "summary": ["run"],
    "tax": ["run"],
    "tensor-cores": ["trace"],
    "trend": ["--op", "native_call_addmm.out"],
    "values": ["values"],
}
# Those that need the warehouse itself, and what is said of a server.
REFUSED = {
    "backup": (["-o", "{file}"], "this server only reads"),
    "bench": (["{file}"], ""),
    "check": ([], "on the server's machine"),
    "compact": ([], "on the server's machine"),
    "demo": ([], "on the server's machine"),
    "ingest": ([str(CAPTURES / "mlp/mlp.etdp")], "etq push"),
    "label": (["run", "a=b"], "this server only reads"),
    "link": (["run", str(CAPTURES / "mlp/mlp.etrecord")], "on the server's machine"),
    "metric": (["run", "a=1"], "on the server's machine"),
    "open": ([], "open it in a browser"),
    "phase": (["run", "load", "--runs", "1"], "on the server's machine"),
    "prune": (["--keep-last", "1", "-y"], "on the server's machine"),
    "reference": ([str(CAPTURES / "mlp/mlp.etrecord")], "on the server's machine"),
    "remove": (["run", "-y"], "this server only reads"),
    "serve": ([], "open it in a browser"),
    "upgrade": ([], "on the server's machine"),
    "lake export": (["{file}"], "on the server's machine"),
}
# More of what commands ask in other ways.
MORE = [
    ["captures", "--format", "csv"],
    ["compare", "build=1", "build=4", "--format", "json"],
    ["compare", "trace", "slower"],
    ["export", "run", "--to", "speedscope", "-o", "{file}", "--force"],
    ["export", "trace", "--to", "chrome", "-o", "{file}", "--force"],
    ["ops", "run", "--format", "parquet", "-o", "{file}.parquet", "--force"],
    ["ops", "run", "--format", "tsv"],
    ["ops", "trace"],
    ["ops", "nothing"],
    ["ops", "device=pixel7"],
    ["label", "run"],
    ["metric", "run"],
    ["phase", "run"],
    ["prune", "--keep-last", "1", "--dry-run"],
    ["report", "build=1", "build=4", "-o", "{file}", "--force"],
    ["report", "trace", "-o", "{file}", "--force"],
    ["regressions", "device=pixel8", "--over", "build"],
    ["show", "capture_summary"],
    ["show", "op_totals", "run"],
    ["sql", "FROM op_totals('run'); FROM findings"],
    ["sql", "FROM nowhere"],
    ["sql", "--safe", "SELECT count(*) FROM events"],
    ["summary", "trace"],
    ["sql", "SELECT what, change_percent, note FROM compare_captures('trace', 'slower')", "--format", "csv"],
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with dumps, their record and program, values, labels, traces, and an overview."""
    path = tmp_path_factory.mktemp("remote") / "lab.duckdb"
    with etq.open(path) as warehouse:
        fleet = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:12]
        for number, file in enumerate(fleet):
            labels = {"build": str(number // 3 + 1), "device": "pixel8", "model": "mlp"}
            warehouse.ingest(file, name=f"fleet{number}", labels=labels)
        mlp = CAPTURES / "mlp"
        record, program = mlp / "mlp.etrecord", mlp / "mlp.pte"
        warehouse.ingest(mlp / "mlp_100runs.etdp", name="run", etrecord=record, pte=program)
        for name, stem in (("values", "mlp_debug"), ("progout", "mlp_debug5")):
            path_of = mlp / stem
            given: dict[str, Any] = {"debug_buffer": path_of.with_suffix(".bin"), "keep_values": True}
            warehouse.ingest(path_of.with_suffix(".etdp"), name=name, etrecord=record, **given)
        xnn = CAPTURES / "mlp_xnn"
        record, program = xnn / "mlp_xnn.etrecord", xnn / "mlp_xnn.pte"
        warehouse.ingest(xnn / "mlp_xnn_100runs.etdp", name="xnn", etrecord=record, pte=program)
        traces = CAPTURES / "torch_diff"
        warehouse.ingest(traces / "base.pt.trace.json.gz", name="trace")
        warehouse.ingest(traces / "slower.pt.trace.json.gz", name="slower")
        for rank, file in enumerate(sorted((CAPTURES / "torch_gpu").glob("*.json.gz"))):
            warehouse.ingest(file, name=f"rank{rank}", labels={"job": "one"})
        warehouse.phase("run", "decode", runs="1-50")
        warehouse.metric("run", "temperature", 41, "C")
        warehouse.watch("kernels", "device=pixel8")
    return path


@pytest.fixture(scope="module")
def server(lab: Path) -> Iterator[Server]:
    with serving(lab) as started:
        yield started


def commands(group: click.Group = main, before: str = "") -> Iterator[str]:
    """The names of all commands that have an option --db."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group) and name != "show":
            yield from commands(command, f"{before}{name} ")
        elif any(each.name == "db" for each in command.params):
            yield before + name


def test_all_commands_are_read_or_refused() -> None:
    others = {"mcp", "lake check", "lake restore", "lake compact"}
    assert {each for each in commands() if not each.startswith("users ")} == READ.keys() | REFUSED.keys() | others


def outcome(arguments: list[str], db: str, folder: Path) -> tuple[Any, ...]:
    """The status, output and files of a command."""
    folder.mkdir(exist_ok=True)
    given = [each.format(file=folder / "file") for each in arguments]
    found = run_etq(*given, "--db", db)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    # A server's errors have no place in the query.
    shown = (found.stdout, re.sub(r"LINE \d+: .*\n *\^+\n", "", found.stderr))
    texts = [text.replace(db, "DB").replace(str(folder), "FOLDER") for text in shown]
    files = {each.name: each.read_bytes().replace(db.encode(), b"DB") for each in folder.iterdir()}
    return found.exit_code, *texts, files


@pytest.mark.parametrize("arguments", [*([name, *given] for name, given in READ.items()), *MORE], ids=" ".join)
def test_a_command_gives_what_it_gives_of_the_file(
    arguments: list[str], lab: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some texts are aligned by the length of the address.
    monkeypatch.chdir(lab.parent)
    name = "lab".ljust(len(server.url), "_")
    if not Path(name).exists():
        Path(name).hardlink_to(lab)
    expected = outcome(arguments, name, tmp_path / "one")
    found = outcome(arguments, server.url, tmp_path / "two")
    assert found == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_warehouse_itself_is_refused(name: str, server: Server, tmp_path: Path) -> None:
    arguments, text = REFUSED[name]
    found = run_etq(*name.split(), *(each.format(file=tmp_path / "file") for each in arguments), "--db", server.url)
    assert found.exit_code != 0
    assert text in found.stderr
    assert "Traceback" not in found.stderr


def test_errors_point_at_the_place_in_the_query(server: Server) -> None:
    for query, word in (("SELECT op FROMM captures", "captures"), ("SELECT nothing FROM captures", "nothing")):
        wrong = run_etq("sql", query, "--db", server.url)
        line, pointer = wrong.stderr.splitlines()[-2:]
        assert wrong.exit_code == 1 and line == f"LINE 1: {query}"
        assert pointer == " " * line.index(word) + "^" * len(pointer.strip())
    # What is wrong in the SQL of a view is not the user's query.
    assert "LINE" not in run_etq("sql", "FROM op_totals('no run')", "--db", server.url).stderr
