"""Tables for people: times of an execute or a step, sums with --total, in a unit that suits them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from etq.cli import main
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.trace_builders import trace, two_steps

TRANSFORMER = str(CAPTURES / "transformer/transformer_100runs.etdp")
RECORD = ("--etrecord", str(CAPTURES / "transformer/transformer.etrecord"))


def output(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def columns(*arguments: str) -> list[str]:
    return output(*arguments).splitlines()[0].split()


@pytest.fixture
def two(tmp_path: Path) -> str:
    """Two executes, of 20 and 40 ms, all of it in a kernel."""
    path = tmp_path / "two.etdp"
    path.write_bytes(
        dump(*(run("Execute", kernel("add", 0, end), execute(0, end)) for end in (20_000_000, 40_000_000)))
    )
    return str(path)


def test_a_unit_suits_the_numbers_unless_one_is_given(two: str) -> None:
    lines = [line.split() for line in output("ops", two).splitlines()]
    assert lines[0] == ["op", "kind", "per_execute", "per_call", "share_percent", "calls", "min", "max", "unit"]
    assert lines[2] == ["add", "kernel", "30", "30", "100", "2", "20", "40", "ms"]
    [add] = [line.split() for line in output("ops", two, "--unit", "us").splitlines() if line.startswith("add")]
    assert (add[2], add[-1]) == ("30000", "us")
    rows = csv_rows(output("ops", two, "--format", "csv"))
    assert (rows[0]["total"], rows[0]["per_execute"], rows[0]["unit"]) == ("60000.0", "30000.0", "us")


def test_sums_are_shown_if_asked_for(two: str) -> None:
    assert columns("ops", two, "--total")[-3:] == ["total", "executes", "unit"]
    assert columns("ops", two, "--sort-by", "total")[-2:] == ["total", "unit"]
    assert "total" not in columns("breakdown", two)
    assert columns("breakdown", two, "--total")[-3:] == ["total", "executes", "unit"]


@pytest.mark.parametrize("command", ["modules", "sources", "coverage", "roofline"])
def test_sums_of_modules_and_lines(command: str) -> None:
    shown = columns(command, TRANSFORMER, *RECORD)
    assert shown.index("per_execute") < shown.index("share_percent")
    assert not {"total", "executes"} & {*shown}
    assert {"total", "executes"} <= {*columns(command, TRANSFORMER, *RECORD, "--total")}
    assert "total" in columns(command, TRANSFORMER, *RECORD, "--sort-by", "total")


def test_traces_have_times_of_a_step_if_they_have_steps(tmp_path: Path) -> None:
    path = tmp_path / "steps.pt.trace.json"
    path.write_bytes(trace(*two_steps()))
    shown = columns("ops", str(path))
    assert "self_cpu_per_step" in shown and "self_cpu_time" not in shown
    assert {"self_cpu_per_step", "self_cpu_time", "steps"} <= {*columns("ops", str(path), "--total")}
    kernels = columns("kernels", str(path))
    assert "per_step" in kernels and not {"total", "steps"} & {*kernels}
    assert {"per_step", "total", "steps"} <= {*columns("kernels", str(path), "--by", "family", "--total")}
    copies = columns("copies", str(path))
    assert {"per_step", "bytes_per_step"} <= {*copies} and not {"total", "bytes", "steps"} & {*copies}
    assert {"per_step", "total", "bytes", "steps"} <= {*columns("copies", str(path), "--total")}
    path.write_bytes(trace(*(event for event in two_steps() if not event["name"].startswith("ProfilerStep"))))
    for command in ("ops", "kernels", "copies"):
        shown = columns(command, str(path))
        assert not {"per_step", "self_cpu_per_step", "bytes_per_step", "steps"} & {*shown}
        assert {"total", "self_cpu_time"} & {*shown}
