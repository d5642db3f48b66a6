"""`etq bench` with a runner that works, fails in each way, is interrupted and goes on."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import Result

from etq.bench.machine import CommandError
from tests.bench.conftest import OPS, Lab
from tests.cli.test_interrupts import IS_INTERRUPTED, RUN
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.processes import process


def etq_bench(*arguments: str) -> Result:
    """Measure both programs in a benchmark b, in one short round unless more is asked for."""
    return run_etq("bench", "base.pte", "new.pte", "--name", "b", "--runs", "3", *arguments)


@pytest.mark.long
def test_captures_are_in_turns_and_know_what_they_are(lab: Lab) -> None:
    result = etq_bench("--rounds", "2", "--label", "device=pc")
    assert result.exit_code == 0, result.stderr
    query = """
        SELECT c.name, c.captured_at, map_from_entries(list((l.key, l.value)))
        FROM captures AS c JOIN labels AS l USING (capture_id) GROUP BY ALL ORDER BY c.captured_at
    """
    rows = lab.rows(query)
    # The order of the default seed: A B B A, and its mirror.
    assert [name for name, _, _ in rows] == [
        *("01-1-base", "01-2-new", "01-3-new", "01-4-base"),
        *("02-1-base", "02-2-new", "02-3-new", "02-4-base"),
    ]
    assert [(labels["position"], labels["round"], labels["side"]) for _, _, labels in rows] == [
        (str(at + 1), str(at // 4 + 1), ("base", "new", "new", "base")[at % 4]) for at in range(8)
    ]
    assert {(labels["bench"], labels["device"], labels["program"]) for _, _, labels in rows} == {
        ("b", "pc", "base.pte"),
        ("b", "pc", "new.pte"),
    }
    assert {call["num_executions"] for call in lab.calls("new")} == {"8"}
    assert lab.rows("SELECT count(*) FROM runs") == [(8 * 8,)]
    assert lab.rows("SELECT count(*), min(value) > 1 FROM metrics WHERE name = 'peak_memory'") == [(8, True)]
    # The folder has all of it: another warehouse is made of it.
    assert run_etq("ingest", "bench-b", "--db", "again.duckdb").exit_code == 0
    same = "SELECT c.name, c.sha256, list((l.key, l.value) ORDER BY l.key) FROM captures AS c JOIN labels AS l USING (capture_id) GROUP BY ALL ORDER BY c.name"
    assert lab.rows(same, "again.duckdb") == lab.rows(same)


@pytest.mark.long
def test_a_slower_program_is_decided_in_two_rounds_and_its_op_is_named(lab: Lab) -> None:
    lab.does("new", {**OPS, "add": 20 * OPS["add"]})
    result = etq_bench("--runs", "20")
    assert result.exit_code == 3, result.stderr
    assert "Round 2: decided after 2 rounds" in result.stderr and len(lab.calls("new")) == 4
    assert "total: slower, +" in result.stdout
    assert "add @2" in result.stdout and "Regression: add @2" in result.stderr


@pytest.mark.long
def test_one_program_alone(lab: Lab) -> None:
    result = run_etq("bench", "base.pte", "--name", "b", "--rounds", "3", "--runs", "20")
    assert result.exit_code == 0, result.stderr
    first = result.stdout.splitlines()[0]
    assert first.startswith("base: ") and first.endswith(" us); 6 captures, the median of 20 runs in each"), first
    assert lab.rows("SELECT count(*) FROM captures") == [(6,)]
    medians = """
        SELECT median(e.duration_ticks) / 1000 FROM events AS e JOIN runs AS r USING (capture_id, run_index)
        WHERE e.name = 'Method::execute' GROUP BY e.capture_id
    """
    values = [math.log(median) for (median,) in lab.rows(medians)]
    # Hodges and Lehmann's estimate: the median of the means of all pairs.
    pairs = [(one + other) / 2 for at, one in enumerate(values) for other in values[at:]]
    assert first.split()[1] == f"{math.exp(statistics.median(pairs)):.4g}"
    assert "Mean time in an execute by op" in result.stdout
    again = run_etq("bench", "base.pte", "--name", "b", "--rounds", "3", "--runs", "20", "--resume", "--format", "json")
    answer = json.loads(again.stdout)
    assert (answer["name"], answer["captures"], answer["unit"]) == ("base", 6, "us")
    assert answer["low"] <= answer["latency"] <= answer["high"]
    assert f"{answer['latency']:.4g}" == first.split()[1]


def test_the_same_file_again_is_no_measurement(lab: Lab) -> None:
    command = f"cp {CAPTURES}/mlp/mlp.etdp {{out}}"
    result = run_etq("bench", "--base", command, "--name", "b", "--rounds", "1")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "Error: round 1, capture 2 of base: the same bytes as bench-b/01-1-base.etdp; the command measured nothing new"
    )
    assert lab.rows("SELECT c.name FROM captures AS c") == [("01-1-base",)]


WRONG = [
    ("a.pte --base 'x {out}'", 2, "give programs, or --base and --new, not both"),
    ("--base './none {out}' --runs 5", 2, "--runs is for programs; write it into the commands of --base and --new"),
    ("base.pte --method decode", 1, "Error: base.pte: no method 'decode'; it has forward"),
    ("base.pte --runner ./none", 1, "Error: ./none: no such file; --runner takes the path of an executor_runner"),
    ("--base './none {out}'", 1, "Error: ./none: no such program; give its path"),
    ("--base './none {out}' --etrecord none.etrecord", 1, "Error: none.etrecord: no such file"),
    ("base.pte --name ''", 1, "Error: the name '' of a bench: expected a text without commas"),
]


def test_wrong_arguments(lab: Lab) -> None:
    before = sorted(lab.folder.iterdir())
    for command, status, message in WRONG:
        result = run_etq("bench", *shlex.split(command))
        assert (result.exit_code, message in result.stderr) == (status, True), (command, result.stderr)
        if status == 2:
            assert sorted(lab.folder.iterdir()) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("crash", "executor_runner was ended by SIGSEGV"), ("status", "executor_runner failed with exit status 1"),
        ("nothing", "wrote no "), ("half", "01-3-new.etdp: "),
    ],
)  # fmt: skip
def test_a_runner_that_fails(lab: Lab, how: str, message: str) -> None:
    lab.does("new", fail=how, at=2)
    result = etq_bench("--rounds", "1")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("Error: ") and message in lines[-1], lines
    assert lines[-2] == "Kept: 2 captures in bench-b. The same command with --name b --resume continues"
    if how in ("status", "nothing"):
        assert "| running new.pte for the 2" in lines
    assert sorted(path.name for path in Path("bench-b").glob("*.etdp*")) == [
        *("01-1-base.etdp", "01-1-base.etdp.json", "01-2-new.etdp", "01-2-new.etdp.json")
    ]
    if how != "half":
        return
    lab.does("new")
    result = etq_bench("--rounds", "1", "--resume")
    assert result.exit_code == 0, result.stderr
    assert lab.rows("SELECT c.name FROM captures AS c ORDER BY 1") == [
        (name,) for name in ("01-1-base", "01-2-new", "01-3-new", "01-4-base")
    ]
    assert (len(lab.calls("base")), len(lab.calls("new"))) == (2, 3)


def test_each_run_has_the_time_limit(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def ended(_: object, seconds: float | None) -> None:
        limits.append(seconds)
        raise CommandError("took too long", [])

    monkeypatch.setattr("etq.bench.bench.run", ended)
    assert etq_bench("--timeout", "10s").exit_code == 1 and limits == [10]


@pytest.mark.long
def test_resuming_more_rounds_and_what_is_another_benchmark(lab: Lab) -> None:
    assert etq_bench("--resume").stderr == "Error: bench-b: has no benchmark to resume\n"
    assert etq_bench("--rounds", "1").exit_code == 0
    more = etq_bench("--rounds", "2", "--resume").stderr.splitlines()
    assert [line[:9] for line in more if line.startswith("Round")] == ["Round 2: "]
    assert (len(lab.calls("base")), len(lab.calls("new"))) == (4, 4)
    assert etq_bench().stderr == (
        "Error: bench-b: has a benchmark already: --resume goes on with it, or name another with --name\n"
    )
    assert etq_bench("--resume", "--runs", "4").stderr.startswith("Error: bench-b: was begun with runs 3, not 4; ")
    (lab.folder / "new.pte").write_bytes((CAPTURES / "convnet/convnet.pte").read_bytes())
    assert etq_bench("--resume").stderr.startswith(
        "Error: bench-b: was begun with other programs, inputs or commands; "
    )
    Path("bench-b/bench.json").write_text("[")
    assert etq_bench("--resume").stderr.startswith("Error: bench-b/bench.json: can't be read: ")


def test_what_is_no_warehouse_is_refused_before_a_measurement(lab: Lab) -> None:
    Path("t.txt").write_text("precious")
    before = sorted(lab.folder.iterdir())
    for db, what in (("t.txt", "not a DuckDB database"), ("nix/lab.duckdb", "its folder does not exist")):
        result = etq_bench("--rounds", "1", "--db", db)
        assert (result.exit_code, result.stderr.startswith(f"Error: {db}: {what}; ")) == (1, True), result.stderr
    assert sorted(lab.folder.iterdir()) == before and Path("t.txt").read_text() == "precious"


def test_files_in_the_way_are_left_alone(lab: Lab) -> None:
    Path("bench-b").mkdir()
    Path("bench-b/01-1-base.etdp").write_text("precious")
    result = etq_bench("--rounds", "1")
    assert result.stderr == ("Error: bench-b/01-1-base.etdp: exists; move it away, or name another with --name\n")
    assert Path("bench-b/01-1-base.etdp").read_text() == "precious"


@pytest.mark.long
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_benchmark_goes_on(lab: Lab, ended_by: signal.Signals) -> None:
    lab.does("new", fail="hang", at=2)
    # However busy the machine is, the command has the time to say what it kept.
    patient = "from etq.cli import interrupts; interrupts.allow = lambda _: setattr(interrupts, '_grace', 300)"
    command = f"{IS_INTERRUPTED}; {patient}; {RUN}", *shlex.split("bench base.pte new.pte --name b --runs 3 --rounds 1")
    with process([sys.executable, "-c", *command], stderr=subprocess.PIPE, text=True) as begun:
        while not (found := [path for path in lab.folder.rglob("*.pid") if path.read_text()]):
            assert begun.poll() is None, begun.communicate()
            time.sleep(0.05)
        runner = int(found[0].read_text())
        begun.send_signal(ended_by)
        output = begun.communicate()[1]
    if ended_by == signal.SIGINT:
        assert begun.returncode == 130, output
        assert "Kept: 2 captures in bench-b. The same command with --name b --resume continues" in output
        with pytest.raises(ProcessLookupError):
            os.kill(runner, 0)
        assert lab.rows("SELECT count(*) FROM captures") == [(2,)]
    else:
        os.kill(runner, signal.SIGKILL)
    lab.does("new")
    result = etq_bench("--rounds", "1", "--resume")
    assert result.exit_code == 0, result.stderr
    assert lab.rows("SELECT count(*) FROM captures") == [(4,)]
    assert not [path for path in Path("bench-b").iterdir() if path.name.endswith((".part", ".old"))]
