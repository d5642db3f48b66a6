"""`etq flame`: the rows of its chart and the messages about them."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from etq.cli import main
from etq.render.flame import Row, flame
from etq.render.terminal import TerminalStyle
from tests.asserts import DELEGATED, csv_rows
from tests.builders import dump, execute, kernel, run
from tests.cli.peaks import ON_LINUX, lines_and_peak
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

TRANSFORMER = str(CAPTURES / "transformer/transformer_100runs.etdp")
RECORD = ("--etrecord", str(CAPTURES / "transformer/transformer.etrecord"))


def invoke(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, list(arguments))


@pytest.fixture
def delegated(tmp_path: Path) -> str:
    path = tmp_path / "delegated.etdp"
    path.write_bytes(dump(DELEGATED))
    return str(path)


def rows_of(text: str) -> list[tuple[int, str, float, float]]:
    """Depth, name, total and share of each row of a chart."""
    found = []
    for line in text.splitlines()[1:]:
        matched = re.match(r"^( *)(.*?) +(\d+(?:\.\d+)?) +([\d.]+) %", line)
        assert matched, line
        found.append((len(matched[1]) // 2, matched[2], float(matched[3]), float(matched[4])))
    return found


def test_a_chart_by_hand(delegated: str) -> None:
    result = invoke("flame", delegated, "--unit", "ns")
    assert result.exit_code == 0
    assert result.stderr == (
        "Note: delegated has no ETRecord with modules: grouped by method and event; link one with etq link\n"
    )
    # 80 ns are 24 cells. The call takes the first half, its two events a quarter and a sixteenth of all.
    assert result.stdout == (
        "name                                 mean per execute ns    share  self ns\n"
        "total                                                 80  100.0 %           ████████████████████████\n"
        "  Execute                                             80  100.0 %           ████████████████████████\n"
        "    DELEGATE_CALL @0                                  40   50.0 %       15  ████████████\n"
        "      Convolution (NHWC, F32) IGEMM                   20   25.0 %       20  ██████\n"
        "      Transpose (ND, X32)                              5    6.2 %        5        █▌\n"
        "    mul                                               10   12.5 %       10              ███\n"
        "    (unattributed)                                    24   30.0 %       24                 ███████▎\n"
        "    (framework)                                        6    7.5 %        6                        █▊\n"
    )


@pytest.mark.long
def test_charts_add_up_whatever_is_left_out() -> None:
    for options in ([], ["--min-share", "2%"], ["--depth", "3"], ["--min-share", "5%", "--depth", "4"]):
        result = invoke("flame", TRANSFORMER, *RECORD, "--runs", "all", *options)
        assert result.exit_code == 0 and result.stderr == ""
        rows = rows_of(result.stdout)
        assert rows[0][1:] == ("total", 246.8, 100.0)  # 24,684.7 in 100 runs
        for at, (depth, name, total, _) in enumerate(rows):
            within = []
            for row in rows[at + 1 :]:
                if row[0] <= depth:
                    break
                if row[0] == depth + 1:
                    within.append(row)
            # Modules have no self time; each number is rounded to a tenth.
            if within:
                assert sum(row[2] for row in within) == pytest.approx(total, abs=0.06 * (len(within) + 1)), name
    assert max(row[0] for row in rows_of(invoke("flame", TRANSFORMER, *RECORD, "--depth", "3").stdout)) == 3


def test_sums_are_an_option(tmp_path: Path) -> None:
    """Of two runs, one of them twice as long, and in a unit that suits the largest."""
    path = tmp_path / "two.etdp"
    path.write_bytes(
        dump(*(run("Execute", kernel("add", 0, end), execute(0, end)) for end in (20_000_000, 40_000_000)))
    )
    means = rows_of(invoke("flame", str(path)).stdout)
    assert [row[1:3] for row in means] == [("total", 30), ("Execute", 30), ("add", 30), ("(unattributed)", 0)]
    sums = invoke("flame", str(path), "--total").stdout
    assert sums.split("\n")[0].split()[1:3] == ["total", "ms"]
    assert [row[1:3] for row in rows_of(sums)] == [("total", 60), ("Execute", 60), ("add", 60), ("(unattributed)", 0)]


def test_small_ops_are_one_row() -> None:
    rows = rows_of(invoke("flame", TRANSFORMER, "--runs", "all", "--min-share", "10%").stdout)
    # By hand from `etq ops`: addmm 39.7 and permute_copy 26.8 %; the others without framework and unattributed time.
    assert [row[1] for row in rows] == [
        "total", "Execute", "addmm", "permute_copy", "(9 smaller)", "(framework)", "(unattributed)",
    ]  # fmt: skip
    assert rows[4][3] == pytest.approx(100 - 39.7 - 26.8 - 7.5 - 6.3, abs=0.2)


@pytest.mark.long
def test_one_module() -> None:
    rows = rows_of(invoke("flame", TRANSFORMER, *RECORD, "--module", "layers.1.attn").stdout)
    assert rows[0][:2] == (0, "layers.1.attn")
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(TRANSFORMER)
        warehouse.link(capture, warehouse.ingest_record(RECORD[1]))
        [(total, share)] = warehouse.rows(
            "SELECT total / 94, share_percent FROM module_totals($c) WHERE module_path = 'layers.1.attn'", c=capture
        )[1]
    assert list(rows[0][2:]) == pytest.approx([total, share], abs=0.06)
    near = invoke("flame", TRANSFORMER, *RECORD, "--module", "layers.1.atn")
    assert near.exit_code == 1 and near.stderr.startswith(
        "Error: no module 'layers.1.atn'; the nearest are layers.1.attn"
    )
    without = invoke("flame", TRANSFORMER, "--module", "layers.1.attn")
    assert without.exit_code == 1 and "has no record" in without.stderr
    assert invoke("flame", TRANSFORMER, "--module", "x", "--by", "event").exit_code == 2


def test_other_formats(delegated: str) -> None:
    result = invoke("flame", delegated, "--format", "csv", "--unit", "ns", "--min-share", "20%")
    rows = csv_rows(result.stdout)
    assert [(row["name"], row["total_ticks"]) for row in rows] == [
        ("total", "80"), ("Execute", "80"), ("DELEGATE_CALL @0", "40"), ("Convolution (NHWC, F32) IGEMM", "20"),
        ("(unattributed)", "24"), ("(framework)", "6"),
    ]  # fmt: skip


@pytest.mark.long
def test_runs_phases_and_nothing_to_draw(delegated: str, tmp_path: Path) -> None:
    nothing = invoke("flame", delegated, "--skip-first", "1")
    assert nothing.exit_code == 1
    assert nothing.stderr.endswith("Error: no time to draw: no selected run has an execute (skip_first=1)\n")
    assert invoke("flame", delegated, "--phase", "decode").exit_code == 1
    target = tmp_path / "flame.txt"
    assert invoke("flame", delegated, "-o", str(target)).exit_code == 0
    assert "█" in target.read_text(encoding="utf-8")
    still = tmp_path / "still.etdp"
    still.write_bytes(dump(run("Execute", kernel("add", 5, 5), execute(5, 5))))
    drawn = invoke("flame", str(still))
    assert drawn.exit_code == 0 and "█" not in drawn.stdout
    assert drawn.stdout.splitlines()[1].split() == ["total", "0"]


def test_a_trace_nests_its_events() -> None:
    rows = rows_of(invoke("flame", str(CAPTURES / "torch/mlp_train.pt.trace.json.gz"), "--min-share", "20%").stdout)
    assert [(row[0], row[1]) for row in rows[:4]] == [
        (0, "total"), (1, "train_step"), (2, "aten::linear"), (3, "aten::addmm"),
    ]  # fmt: skip


@pytest.mark.long
@ON_LINUX
def test_deep_nesting_takes_memory_in_proportion(tmp_path: Path) -> None:
    """5,000 levels took 2 GB, as each had the list of all above it."""
    deep = 3000
    path = tmp_path / "deep.pt.trace.json"
    path.write_bytes(trace(*(event("cpu_op", f"f{at}", at, 2 * deep - at) for at in range(deep))))
    status, lines, kilobytes = lines_and_peak(tmp_path, "flame", path)
    assert (status, lines) == (0, deep + 2)
    assert kilobytes < 400_000


def test_text_of_deep_nesting_is_in_proportion() -> None:
    """The blanks before 8,000 names would be 64 MB."""

    def peak(deep: int) -> int:
        rows = [
            Row(at, f"f{at}", "event", 1.0, float(deep - at), float(deep - at), 1.0, float(at)) for at in range(deep)
        ]
        tracemalloc.start()
        text = flame(rows, "total", "us", TerminalStyle(100))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(text.splitlines()) == deep + 1
        return found

    assert peak(8000) < 3 * peak(4000)
