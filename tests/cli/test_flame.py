"""`etq flame`: the rows of its chart and the messages about them."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from click.testing import Result

from etq.render.flame import Row, flame
from etq.render.terminal import TerminalStyle
from tests.asserts import DELEGATED, csv_rows
from tests.builders import dump, execute, kernel, run
from tests.cli.peaks import ON_LINUX, lines_and_peak
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace

TRANSFORMER = str(CAPTURES / "transformer/transformer_100runs.etdp")
RECORD = ("--etrecord", str(CAPTURES / "transformer/transformer.etrecord"))


def invoke(*arguments: str) -> Result:
    return run_etq("flame", *arguments, env={"COLUMNS": "100"})


@pytest.fixture
def delegated(tmp_path: Path) -> str:
    path = tmp_path / "delegated.etdp"
    path.write_bytes(dump(DELEGATED))
    return str(path)


def chart(*arguments: str) -> list[tuple[int, str, float, float]]:
    """Depth, name, total and share of each row of a chart."""
    found = []
    for line in invoke(*arguments).stdout.splitlines()[1:]:
        matched = re.match(r"^( *)(.*?) +(\d+(?:\.\d+)?) +([\d.]+) %", line)
        assert matched, line
        found.append((len(matched[1]) // 2, matched[2], float(matched[3]), float(matched[4])))
    return found


@pytest.mark.long
def test_a_chart_by_hand(delegated: str, tmp_path: Path) -> None:
    result = invoke(delegated, "--unit", "ns")
    assert (result.exit_code, result.stderr) == (
        0, "Note: delegated has no ETRecord with modules: grouped by method and event; link one with etq link\n"
    )  # fmt: skip
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
    found = csv_rows(invoke(delegated, "--format", "csv", "--unit", "ns", "--min-share", "20%").stdout)
    assert [(row["name"], row["total_ticks"]) for row in found] == [
        ("total", "80"), ("Execute", "80"), ("DELEGATE_CALL @0", "40"), ("Convolution (NHWC, F32) IGEMM", "20"),
        ("(unattributed)", "24"), ("(framework)", "6"),
    ]  # fmt: skip
    target = tmp_path / "flame.txt"
    assert invoke(delegated, "-o", str(target)).exit_code == 0 and "█" in target.read_text(encoding="utf-8")
    target.with_suffix(".etdp").write_bytes(dump(run("Execute", kernel("add", 5, 5), execute(5, 5))))
    still = invoke(str(target.with_suffix(".etdp")))
    assert still.exit_code == 0 and "█" not in still.stdout and still.stdout.splitlines()[1].split() == ["total", "0"]


@pytest.mark.long
def test_charts_add_up_whatever_is_left_out() -> None:
    for options in ([], ["--min-share", "5%", "--depth", "4"]):
        found = chart(TRANSFORMER, *RECORD, "--runs", "all", *options)
        assert found[0][1:] == ("total", 246.8, 100.0)  # 24,684.7 in 100 runs
        for at, (depth, name, total, _) in enumerate(found):
            within = []
            for row in found[at + 1 :]:
                if row[0] <= depth:
                    break
                if row[0] == depth + 1:
                    within.append(row)
            # Modules have no self time; each number is rounded to a tenth.
            if within:
                assert sum(row[2] for row in within) == pytest.approx(total, abs=0.06 * (len(within) + 1)), name
    assert max(row[0] for row in found) == 4


def test_sums_are_an_option(tmp_path: Path) -> None:
    """Of two runs, one of them twice as long, and in a unit that suits the largest."""
    path = tmp_path / "two.etdp"
    path.write_bytes(
        dump(*(run("Execute", kernel("add", 0, end), execute(0, end)) for end in (20_000_003, 40_000_001)))
    )
    for options, total in (((), 30), (("--total",), 60)):
        assert [row[1:3] for row in chart(str(path), *options)] == [
            ("total", total), ("Execute", total), ("add", total), ("(unattributed)", 0),
        ]  # fmt: skip
    assert invoke(str(path), "--total").stdout.split("\n")[0].split()[1:3] == ["total", "ms"]


@pytest.mark.long
@ON_LINUX
def test_deep_nesting_takes_memory_in_proportion(tmp_path: Path) -> None:
    """5,000 levels took 2 GB, as each had the list of all above it. The blanks before 8,000 names would be 64 MB."""
    deep = 3000
    path = tmp_path / "deep.pt.trace.json"
    path.write_bytes(trace(*(event("cpu_op", f"f{at}", at, 2 * deep - at) for at in range(deep))))
    status, lines, kilobytes = lines_and_peak(tmp_path, "flame", path)
    assert (status, lines) == (0, deep + 2) and kilobytes < 400_000

    def peak(deep: int) -> int:
        nested = [
            Row(at, f"f{at}", "event", 1.0, float(deep - at), float(deep - at), 1.0, float(at)) for at in range(deep)
        ]
        tracemalloc.start()
        text = flame(nested, "total", "us", TerminalStyle(100))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(text.splitlines()) == deep + 1
        return found

    assert peak(8000) < 3 * peak(4000)
