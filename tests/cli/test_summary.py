"""`etq FILE...` without a command, and `etq` alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import etq
from etq import cli
from etq.cli.commands import FIRST
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.cli.test_terminal import on_terminal, plain
from tests.command_line import run_etq
from tests.conftest import CAPTURES

RUN = str(CAPTURES / "transformer/transformer_100runs.etdp")
MLP = str(CAPTURES / "mlp/mlp_alloc.etdp")
RECORD = str(CAPTURES / "mlp/mlp.etrecord")
TRACE = str(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz")
CPU_TRACE = str(CAPTURES / "torch/steps_12.pt.trace.json.gz")


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("files", [(RUN,), (TRACE,), (CPU_TRACE,), (MLP, RECORD), (MLP, RUN), (str(CAPTURES / "mlp"),)])
def test_a_summary_is_one_screen(files: tuple[str, ...], width: int) -> None:
    lines = plain(on_terminal(*files, width=width)).splitlines()
    assert len(lines) <= 30
    # A path that is longer than a line is not cut.
    assert [line for line in lines if len(line) > width and "/" not in line] == []


def test_numbers_are_those_of_the_views() -> None:
    text = run_etq(RUN).stdout
    [execute] = [
        row
        for row in csv_rows(run_etq("show", "headline", RUN, "--format", "csv").stdout)
        if row["number"] == "execute"
    ]
    value, low, high = (f"{float(execute[name]):.1f} us" for name in ("value", "low", "high"))
    assert re.search(rf"execute +{value} +median of {execute['runs']} typical runs; p10 {low[:-3]}, p90 {high}\n", text)
    ops = csv_rows(run_etq("ops", RUN, "--format", "csv", "--limit", "5").stdout)
    assert bars(text) == [
        (row["op"], f"{float(row['per_execute']):.2f} us", f"{float(row['share_percent']):.1f}") for row in ops
    ]
    for row in csv_rows(run_etq("advice", RUN, "--format", "csv", "--limit", "2").stdout):
        assert f"{row['severity']} {row['rule']}: {row['finding']}" in re.sub(r"\s+", " ", text)


def test_each_total_is_the_statistic_that_its_line_names() -> None:
    """Of the durations of Method::execute by numpy: typical runs' median and mean, all runs' 25th percentile."""
    base, new = (str(CAPTURES / f"fleet/mlp/{name}.etdp") for name in ("01", "02"))
    with etq.open() as warehouse:
        warehouse.ingest(base, name="base")
        rows = warehouse.rows(
            "SELECT e.duration_ticks, r.is_typical FROM events AS e JOIN runs AS r USING (capture_id, run_index) "
            "WHERE e.name = 'Method::execute'"
        )[1]
    times = np.array([time for time, _ in rows]) / 1000
    typical = times[[is_typical for _, is_typical in rows]]
    text = run_etq(base).stdout
    assert f"{np.median(typical):.1f} us  median of {len(typical)} typical runs;" in text
    assert re.search(rf"  mean +{typical.mean():.1f} us  of these runs", text)
    ops = csv_rows(run_etq("ops", base, "--format", "csv").stdout)
    assert sum(float(row["per_execute"]) for row in ops) == pytest.approx(typical.mean())
    assert re.search(rf"mean per execute us.*\ntotal +{typical.mean():.1f} ", run_etq("flame", base).stdout)
    p25 = f"p25 {np.quantile(times, 0.25):.1f} to "
    for command in ((base, new), ("gate", base, new), ("compare", base, new)):
        assert p25 in run_etq(*command).stdout


def bars(text: str) -> list[tuple[str, str, str]]:
    """Names, times and shares of the lines with bars."""
    return re.findall(r"^  (\S.*\S) +([\d.]+ [mun]?s) +([\d.]+) %  [█▏▎▍▌▋▊▉]+$", text, re.MULTILINE)


def test_times_are_by_module_if_a_record_has_them() -> None:
    """Each module has its self time, so that none is counted twice. A record that is half-written has no modules."""
    net = str(CAPTURES / "transformer/transformer.etrecord")
    text = run_etq(RUN, net).stdout
    modules = csv_rows(run_etq("modules", RUN, "--etrecord", net, "--format", "csv").stdout)
    most = sorted(modules, key=lambda row: -float(row["self_per_execute"]))[:5]
    whole = sum(float(row["self_time"]) for row in modules)
    assert "\nMean time in an execute by module\n" in text and bars(text) == [
        (
            row["module"],
            f"{float(row['self_per_execute']):.2f} us",
            f"{100 * float(row['self_time']) / whole:.1f}",
        )
        for row in most
    ]
    cond = str(CAPTURES / "cond/cond")
    assert "\nMean time in an execute by op\n" in run_etq(f"{cond}.etdp", f"{cond}.etrecord").stdout


def test_times_of_several_methods_name_them(tmp_path: Path) -> None:
    """By hand: encode takes 30 of its 50 in add, and decode 40 of its 50 in mul, in each execute."""
    path = tmp_path / "two.etdp"
    runs = [run("decode", kernel("add", 0, 10_000), kernel("mul", 10_000, 50_000), execute(0, 50_000))] * 3
    runs += [run("encode", kernel("add", 0, 30_000), kernel("mul", 30_000, 50_000), execute(0, 50_000))] * 2
    path.write_bytes(dump(*runs))
    assert bars(run_etq(str(path)).stdout) == [
        ("mul of decode", "40 us", "48.0"),
        ("add of encode", "30 us", "24.0"),
        ("mul of encode", "20 us", "16.0"),
        ("add of decode", "10 us", "12.0"),
    ]


def test_a_step_of_a_trace_and_its_devices() -> None:
    text = run_etq(TRACE).stdout
    totals = sorted(
        float(row["total"]) for row in csv_rows(run_etq("steps", TRACE, "--wide", "--format", "csv").stdout)
    )
    mean, median = sum(totals) / 4, (totals[1] + totals[2]) / 2
    assert f"step   {median:.0f} us  median of 4 steps; p10 " in text and len(totals) == 4
    assert f"  mean   {mean:.0f} us  of these steps, as the times below" in text
    families = csv_rows(run_etq("kernels", TRACE, "--by", "family", "--format", "csv", "--limit", "5").stdout)
    # There are four steps.
    assert "Time of devices in a step by family of kernels" in text and bars(text) == [
        (row["family"], f"{float(row['total']) / 4:.1f} us", f"{float(row['share_percent']):.1f}") for row in families
    ]
    assert "Self time of the CPU in a step by op" in run_etq(CPU_TRACE).stdout
    assert "Self time of the CPU by op" in run_etq(str(CAPTURES / "torch/mlp_train.pt.trace.json.gz")).stdout


def test_memory_is_of_one_run_at_most() -> None:
    rows = csv_rows(run_etq("memory", MLP, "--format", "csv").stdout)
    text = run_etq(MLP).stdout
    [line] = [line for line in text.splitlines() if line.startswith("Memory of one run at most: ")]
    for row in rows:
        if int(row["largest_run_bytes"] or 0):
            assert f"{row['allocator']} {int(row['largest_run_bytes']) / 1024:.4g} KiB" in line


def test_the_next_commands_can_be_typed(tmp_path: Path) -> None:
    """Each is parsed, with names that a shell would split."""
    file = tmp_path / "a run.etdp"
    shutil.copy(MLP, file)
    for arguments in (
        [str(file)],
        [str(file), RECORD],
        [str(file), RUN],
        [RECORD],
        [str(tmp_path)],
        [str(file), RUN, MLP],
    ):
        text = run_etq(*arguments).stdout
        commands = re.findall(r"^  (etq .*?)(?:  +#.*)?$", text, re.MULTILINE)
        assert len(commands) == 2
        for command in commands:
            import shlex

            _, name, *words = shlex.split(command)
            if name in cli.main.list_commands(cli.main.make_context("etq", ["demo"])):
                known = cli.main.get_command(cli.main.make_context("etq", ["demo"]), name)
                assert known is not None
                known.make_context(name, words)
            else:
                assert Path(name).exists()


def test_a_capture_of_a_warehouse_and_the_warehouse(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        warehouse.ingest(RUN, name="run", labels={"device": "pixel8"})
        warehouse.ingest(TRACE)
    text = run_etq("summary", "run", "--db", db).stdout
    assert text.startswith("run: ETDump, ") and "device=pixel8" in text
    assert f"  etq advice run --db {db}" in text
    assert run_etq(db).stdout.startswith(f"{db}: warehouse of 1 ETDump, 1 PyTorch trace\n")


def test_two_files_are_compared_in_short() -> None:
    text = run_etq(MLP, RUN).stdout
    whole = run_etq("compare", MLP, RUN).stdout
    assert re.sub(r"\s+", " ", text)[:40] == re.sub(r"\s+", " ", whole)[:40]
    assert "Next" in text and "instruction_id" not in text


def test_a_folder_and_a_pattern(tmp_path: Path) -> None:
    for number in range(3):
        shutil.copy(MLP, tmp_path / f"{number}.etdp")
    shutil.copy(RECORD, tmp_path)
    assert run_etq(str(tmp_path)).stdout.startswith(f"{tmp_path}: 3 ETDumps, 1 ETRecord\n")
    assert run_etq(str(tmp_path / "*.etdp")).stdout.startswith(f"{tmp_path}/*.etdp: 3 ETDumps\n")


def test_what_is_no_file_is_an_error() -> None:
    assert run_etq("no/such.etdp").stderr == "Error: no/such.etdp: no such file\n"
    assert run_etq("no/*.etdp").stderr == "Error: no/*.etdp: no such files\n"


def test_etq_alone_prints_the_first_commands() -> None:
    result = run_etq()
    assert result.exit_code == 0 and len(FIRST) == 8
    assert all(f"  {command}  " in result.stdout and text in result.stdout for command, text in FIRST.items())
    assert "etq --help" in result.stdout and all(len(line) <= 100 for line in result.stdout.splitlines())


@pytest.mark.parametrize(("alias", "command"), [("list", "captures"), ("ls", "captures"), ("diff", "compare")])
def test_other_words_for_commands(alias: str, command: str) -> None:
    assert run_etq(alias, "--help").stdout.split("\n", 1)[1] == run_etq(command, "--help").stdout.split("\n", 1)[1]


@pytest.mark.parametrize("word", ["remov", "remve", "rmove", "prun", "pruen", "prunes"])
def test_a_mistyped_command_never_becomes_one_that_deletes(word: str) -> None:
    assert not re.search("'(remove|prune)'", run_etq(word).stderr)


def test_files_that_are_not_there() -> None:
    result = run_etq("summary", "a.etdp", "b.etdp", "c.etdp")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: no such file: a.etdp, b.etdp, c.etdp; of captures of a warehouse, name one\n",
    )
