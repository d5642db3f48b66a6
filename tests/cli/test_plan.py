"""`etq plan`: the order in which two builds are measured, and measuring them, with commands that really run."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq.analysis import ab_plan as plan
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sampling import whole

MLP = CAPTURES / "mlp"
RECORD = str(MLP / "mlp.etrecord")
# A command that "measures": it copies another capture for each number, as the same content is the same capture.
BENCH = f"""
import shutil, sys
side, out, number = sys.argv[1:4]
names = "mlp_1run mlp mlp_100runs mlp_alloc mlp_block mlp_static mlp_noload mlp_step mlp_method_only".split()
print("measuring", side, number)
shutil.copy("{MLP}/" + names[int(number)] + ".etdp", out)
"""


def command(folder: Path, before: str = "", after: str = "") -> str:
    """A command for `--run`, with Python code before and after the measurement."""
    script = folder / "bench.py"
    script.write_text(before + BENCH + after)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{side}} {{out}} {{number}}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def etq_plans(*arguments: str, run: str | None = None) -> Result:
    ran = () if run is None else ("--run", run, "--db", "lab.duckdb")
    return run_etq("plan", "--plan", "p", "--captures", "2", *ran, *arguments)


def stored(query: str) -> list[tuple[Any, ...]]:
    with etq.open("lab.duckdb", read_only=True) as warehouse:
        return warehouse.rows(query)[1]


def labels() -> list[dict[str, str]]:
    query = "SELECT map_from_entries(list((l.key, l.value) ORDER BY l.key)) FROM labels AS l GROUP BY l.capture_id ORDER BY l.capture_id"
    return [row[0] for row in stored(query)]


# The order


def test_the_order_that_the_default_seed_gives() -> None:
    assert "".join("A" if side == "base" else "B" for side in plan.order(10)) == "ABBAABBABAABBAABABBA"


@given(captures=st.integers(1, 60), seed=st.integers(0, 2**64))
def test_the_order_interleaves(captures: int, seed: int) -> None:
    sides = plan.order(captures, seed)
    assert sides.count("base") == sides.count("new") == captures
    assert all(set(sides[at : at + 2]) == {"base", "new"} for at in range(0, len(sides), 2))
    assert sides == plan.order(captures, seed) == plan.order(captures + 1, seed)[:-2]
    for at in range(0, len(sides) - 3, 4):  # a steady drift affects both sides of each four equally
        assert sides[at : at + 4] == sides[at : at + 4][::-1]


def test_seeds_give_different_orders() -> None:
    assert len({tuple(plan.order(10, seed)) for seed in range(100)}) > 20


def test_no_captures_have_no_order() -> None:
    with pytest.raises(etq.EtqError, match="at least 1 is needed"):
        plan.order(0)


def test_without_a_command_the_order_is_printed() -> None:
    result = run_etq("plan", "--base", "v1", "--new", "v/2", "--captures", "2", "--plan", "p", "--out-dir", "d")
    assert result.exit_code == 0
    assert result.stdout == (
        "number  side  file\n"
        "------  ----  ---------------\n"
        "     1  v1    d/p-01-v1.etdp\n"
        "     2  v/2   d/p-02-v_2.etdp\n"
        "     3  v/2   d/p-03-v_2.etdp\n"
        "     4  v1    d/p-04-v1.etdp\n"
    )
    assert "--label plan_position=NUMBER --captured-at TIME" in result.stderr
    assert list(Path().iterdir()) == []


def test_the_order_in_other_formats() -> None:
    rows = json.loads(etq_plans("--format", "json", "--seed", "1").stdout)
    assert [row["side"] for row in rows] == ["B", "A", "A", "B"]
    assert rows[0] == {"number": 1, "side": "B", "file": "plan-p/p-01-B.etdp"}
    assert etq_plans("-o", "order.csv", "--suffix", ".json.gz").exit_code == 0
    with Path("order.csv").open() as file:
        assert [row["file"] for row in csv.DictReader(file)][-1] == "plan-p/p-04-A.json.gz"


def test_a_plan_without_a_name_is_named_by_the_time() -> None:
    [row, *_] = json.loads(run_etq("plan", "--format", "json").stdout)
    assert row["file"].startswith(f"plan-{datetime.now(UTC):%Y}") and row["file"].endswith("-01-A.etdp")


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("--run", "bench {side}"), "the command has no {out}"),
        (("--run", "bench '{out}"), "the command can't be split into words: "),
        (("--run", ""), "the command has no {out}"),
        (("--new", "A"), "base and new are both 'A'"),
        (("--new", "a,b"), "the name 'a,b' of a side: expected a text without commas"),
        (("--plan", ""), "the name '' of a plan"),
        (("--captures", "0"), "0 is not in the range"),
        (("--run", "x {out}", "--label", "side=A"), "--label side=… is the plan's own"),
        (("--run", "x {out}", "--resume"), "--resume needs --plan"),
        (("--warm-up", "1"), "--warm-up goes with --run"),
        (("--label", "a=b"), "--label goes with --run"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], output: str) -> None:
    result = run_etq("plan", *arguments)
    assert result.exit_code == 2
    assert output in result.stderr
    assert list(Path().iterdir()) == []


# Measuring


@pytest.mark.long
def test_captures_flow_in(here: Path) -> None:
    before = datetime.now(UTC).replace(tzinfo=None)
    result = etq_plans("--base", "v1", "--new", "v2", "--label", "device=pc", run=command(here))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[2].split() == ["1", "v1", "plan-p/p-01-v1.etdp"]
    output = result.stderr.splitlines()
    assert [line.rsplit(", ", 1)[0] for line in output[:-1] if not line.startswith("Note")] == [
        "1/4 v1: p-01-v1 ingested",
        "2/4 v2: p-02-v2 ingested",
        "3/4 v2: p-03-v2 ingested",
        "4/4 v1: p-04-v1 ingested",
    ]
    assert output[-1] == "Compare: etq compare side=v1,plan=p side=v2,plan=p --db lab.duckdb"
    expected = {"device": "pc", "plan": "p"}
    assert labels() == [
        {**expected, "plan_position": str(at), "side": side} for at, side in enumerate(["v1", "v2", "v2", "v1"], 1)
    ]
    [times] = stored("SELECT list(c.captured_at ORDER BY c.capture_id) FROM captures AS c")
    assert (
        times[0] == sorted(times[0]) and before < times[0][0] and times[0][-1] < datetime.now(UTC).replace(tzinfo=None)
    )
    with etq.open("lab.duckdb", read_only=True) as warehouse:
        assert [row[0] for row in warehouse.rows("SELECT _capture_id('side=v1,plan=p,plan_position=4')")[1]] == [4]


@pytest.mark.long
def test_from_python(here: Path) -> None:
    reported: list[tuple[int, str]] = []
    planned = plan.Plan("p", captures=1, folder="files")
    plan.run(
        planned,
        command(here),
        "lab.duckdb",
        labels={"device": "pc"},
        on_capture=lambda _, measured: reported.append((measured.step.number, measured.capture.name)),
    )
    assert reported == [(1, "p-01-A"), (2, "p-02-B")]
    assert [step.path for step in planned.steps] == ["files/p-01-A.etdp", "files/p-02-B.etdp"]
    with pytest.raises(etq.EtqError, match="the label plan is the plan's own"):
        plan.run(plan.Plan("q"), command(here), "lab.duckdb", labels={"plan": "q"})
    with pytest.raises(etq.EtqError, match="an ETRecord of 'v1'; the sides are 'A' and 'B'"):
        plan.run(plan.Plan("q"), command(here), "lab.duckdb", etrecords={"v1": RECORD})


@pytest.mark.long
def test_words_are_replaced_after_splitting(here: Path) -> None:
    """The name of a side can't become several words, and braces in it are not replaced."""
    before = "import json, sys; open('seen', 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
    run = command(here, before) + " '{side}-{number} {other}'"
    assert etq_plans("--base", "a b; {out}", "--captures", "1", run=run).exit_code == 0
    [first, _] = [json.loads(line) for line in Path("seen").read_text().splitlines()]
    assert first == ["a b; {out}", str(here / "plan-p/p-01-a_b_out_.etdp"), "1", "a b; {out}-1 {other}"]


@pytest.mark.long
def test_records_are_linked(here: Path) -> None:
    assert etq_plans("--etrecord", RECORD, "--captures", "1", run=command(here)).exit_code == 0
    linked = "SELECT r.name FROM captures AS c JOIN records AS r ON r.record_id = c.record_id ORDER BY c.capture_id"
    assert stored(linked) == [("mlp",), ("mlp",)]
    other = str(CAPTURES / "convnet/convnet.etrecord")
    Path("lab.duckdb").unlink()
    arguments = ("--etrecord", RECORD, "--new-etrecord", other, "--out-dir", "d", "--captures", "1")
    result = etq_plans(*arguments, run=command(here))
    assert result.exit_code == 0, result.stderr
    assert stored(linked) == [("mlp",), ("convnet",)]
    assert "Warning: foreign " in result.stderr


@pytest.mark.long
def test_warm_ups_and_pauses(here: Path) -> None:
    before = "import sys; open('seen', 'a').write(sys.argv[1] + sys.argv[3] + ' ')\n"
    started = time.monotonic()
    result = etq_plans("--warm-up", "2", "--pause", "0.2", "--captures", "1", run=command(here, before))
    assert result.exit_code == 0
    assert time.monotonic() - started > 5 * 0.2
    assert Path("seen").read_text() == "A0 B0 A0 B0 A1 B2 "
    assert len(labels()) == 2
    assert sorted(path.name for path in Path("plan-p").iterdir()) == ["p-01-A.etdp", "p-02-B.etdp"]


@pytest.mark.long
def test_a_command_without_sides_is_reported(here: Path) -> None:
    result = etq_plans("--captures", "1", run=command(here).replace("{side}", "x"))
    assert result.exit_code == 0
    assert result.stderr.startswith("Note: the command has no {side}: both sides run the same\n")


# Failing, and going on


def failing_at(number: int, how: str) -> str:
    return f"\nif number == '{number}' and not __import__('os').path.exists('repaired'): {how}\n"


@pytest.mark.long
def test_a_command_that_fails_stops_the_plan(here: Path) -> None:
    run = command(here, after=failing_at(3, "print('x\\x1b' * 3); sys.exit('no device')"))
    result = etq_plans(run=run)
    assert result.exit_code == 1
    output = result.stderr.splitlines()
    assert output[-5:-1] == [
        "| measuring B 3",
        r"| x\x1bx\x1bx\x1b",
        "| no device",
        "Ingested: 2. The same command with --resume --plan p takes the rest",
    ]
    assert output[-1].startswith("Error: capture 3 of B: ") and output[-1].endswith(" failed with exit status 1")
    assert len(labels()) == 2


@pytest.mark.long
@whole
def test_resuming_takes_what_is_missing(here: Path) -> None:
    run = command(here, after=failing_at(3, "sys.exit(1)"))
    assert etq_plans(run=run).exit_code == 1
    again = etq_plans(run=run)
    assert again.exit_code == 1
    assert again.stderr == "Error: lab.duckdb: has 2 captures of plan p; continue it with --resume, or name another\n"
    assert etq_plans("--seed", "1", "--resume", run=run).stderr == (
        "Error: plan p has A at position 1, where this order has B; "
        "resume it with the sides and the seed that it was begun with\n"
    )
    Path("repaired").touch()
    resumed = etq_plans("--resume", run=run)
    assert resumed.exit_code == 0, resumed.stderr
    assert [line[:6] for line in resumed.stderr.splitlines() if "ingested" in line] == ["3/4 B:", "4/4 A:"]
    assert [each["side"] + each["plan_position"] for each in labels()] == ["A1", "B2", "B3", "A4"]
    done = etq_plans("--resume", run=run)
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, "All captures of the plan are there")
    more = etq_plans("--resume", "--captures", "3", run=run)
    assert more.exit_code == 0 and [each["side"] for each in labels()] == ["A", "B", "B", "A", "A", "B"]


def test_nothing_to_resume(here: Path) -> None:
    result = etq_plans("--resume", run=command(here))
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: lab.duckdb: has no captures of plan p to continue\n",
    )


@pytest.mark.long
def test_a_command_that_writes_nothing(here: Path) -> None:
    result = etq_plans(run=command(here, after=failing_at(2, "__import__('os').remove(out)")))
    assert result.exit_code == 1
    assert "| measuring B 2\n" in result.stderr
    assert result.stderr.endswith(" wrote no plan-p/p-02-B.etdp\n")
    # A file that an interrupted run left is not taken for a measurement later.
    Path("plan-p/p-02-B.etdp").write_bytes((MLP / "mlp_tsc.etdp").read_bytes())
    assert etq_plans("--resume", run=command(here, after=failing_at(2, "__import__('os').remove(out)"))).exit_code == 1
    assert Path("plan-p/p-02-B.etdp.old").exists() and len(labels()) == 1


def test_files_in_the_way_are_left_alone(here: Path) -> None:
    Path("plan-p").mkdir()
    Path("plan-p/p-02-B.etdp").write_text("precious")
    result = etq_plans(run=command(here))
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: plan-p/p-02-B.etdp: exists; move it away, or name another folder with --out-dir\n",
    )
    assert Path("plan-p/p-02-B.etdp").read_text() == "precious"


@pytest.mark.long
def test_the_same_bytes_again_are_no_measurement(here: Path) -> None:
    result = etq_plans(run=command(here).replace("{number}", "1"))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "Error: plan-p/p-02-B.etdp: the same bytes as the capture p-01-A in the warehouse; the command measured nothing new"
    )
    assert labels() == [{"plan": "p", "plan_position": "1", "side": "A"}]


@pytest.mark.long
def test_other_failures_are_reported(here: Path) -> None:
    result = etq_plans(run="./no-such-command {out}")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        1,
        "Error: ./no-such-command: can't be run: no such file or directory",
    )
    killed = command(here, after=failing_at(1, "__import__('os').kill(__import__('os').getpid(), 9)"))
    assert etq_plans("--out-dir", "k", run=killed).stderr.endswith(" was ended by SIGKILL\n")
    damaged = command(here, after="\nopen(out, 'w').write('no dump')\n")
    result = etq_plans("--out-dir", "d", run=damaged)
    assert result.exit_code == 1 and "Error: d/p-01-A.etdp: " in result.stderr
    assert etq_plans("--etrecord", "none.etrecord", run=damaged).stderr.startswith("Error: none.etrecord: no such file")


@pytest.mark.long
def test_a_reader_is_waited_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warehouse is not locked while a command runs; if another process reads it then, etq waits."""
    etq.open("lab.duckdb").close()
    code = (
        "import duckdb, time; reader = duckdb.connect('lab.duckdb', read_only=True); open('held', 'w'); time.sleep(1)"
    )
    reading = (
        f"import subprocess, sys, os, time\nif sys.argv[3] == '1': subprocess.Popen([sys.executable, '-c', {code!r}])\n"
    )
    reading += "while not os.path.exists('held'): time.sleep(0.01)\n"
    result = etq_plans("--captures", "1", run=command(here, reading))
    assert result.exit_code == 0, result.stderr
    assert len(labels()) == 2
    Path("held").unlink()
    monkeypatch.setenv("ETQ_WAIT", "0.1")
    result = etq_plans("--captures", "1", "--plan", "q", run=command(here, reading.replace("sleep(1)", "sleep(2)")))
    assert result.exit_code == 1 and "held by another process" in result.stderr


@pytest.mark.long
def test_ctrl_c_ends_the_command_and_keeps_what_is_there(here: Path) -> None:
    after = (
        "\nif number == '2': open('pid', 'w').write(str(__import__('os').getpid())); __import__('time').sleep(600)\n"
    )
    arguments = ["plan", "--plan", "p", "--captures", "2", "--run", command(here, after=after), "--db", "lab.duckdb"]
    # If the tests run in the background of a shell, Ctrl-C is ignored; child processes inherit that.
    code = (
        "import runpy, signal; signal.signal(2, signal.default_int_handler); runpy.run_module('etq', None, '__main__')"
    )
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True)
    # A hang fails the test in any case; how long the command takes depends on the machine.
    watch = threading.Timer(300, process.kill)
    watch.start()
    while not Path("pid").exists() or not Path("pid").read_text():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output = process.communicate()[1]
    watch.cancel()
    assert process.returncode == 130, output
    assert output.splitlines()[-2:] == ["Ingested: 1. The same command with --resume --plan p takes the rest", ""]
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)
    assert [path.name for path in Path("plan-p").iterdir()] == ["p-01-A.etdp"]
    assert len(labels()) == 1
    duckdb.connect("lab.duckdb").close()


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, etq.analysis.ab_plan; print([name for name in ('duckdb', 'numpy', 'pyarrow', 'click') if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout == "[]\n"
