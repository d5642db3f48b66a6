"""`etq bench --adb` and `--ssh`, from two programs to a verdict, with stand-ins for the clients and for the runner."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import etq
from tests.bench.lab import Lab, make_lab
from tests.command_line import run_etq
from tests.conftest import CAPTURES

RUNNER = Path(__file__).with_name("device_runner.py")
REPOSITORY = Path(__file__).parents[2]
ARGUMENTS = ("bench", "base.pte", "new.pte", "--runner", "./runner", "--name", "b", "--runs", "10", "--warmup", "1")
OPTIONS = {"adb": ("--adb", "1A2B3C"), "ssh": ("--ssh", "board", "--pin")}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETQ_DB", raising=False)
    for side in ("base", "new"):
        (tmp_path / f"{side}.pte").write_bytes((CAPTURES / "mlp/mlp.pte").read_bytes() + side.encode())
    runner = tmp_path / "runner"
    runner.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} {RUNNER} "$@"\n')
    runner.chmod(0o755)
    return make_lab(tmp_path / "lab", monkeypatch)


def floors(lab: Lab) -> list[str]:
    paths = sorted(lab.root.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_min_freq"))
    return [path.read_text().strip() for path in paths]


@pytest.mark.parametrize("kind", ["adb", pytest.param("ssh", marks=pytest.mark.long)])
def test_from_two_programs_to_a_verdict(lab: Lab, kind: str) -> None:
    result = run_etq(*ARGUMENTS, "--until", "2", "--max-celsius", "60", *OPTIONS[kind])
    assert result.exit_code == 3, result.stderr
    assert "total: slower, +" in result.stdout
    name = {"adb": "adb 1A2B3C", "ssh": "ssh board"}[kind]
    assert f"Measuring base and new on {name} by executor_runner" in result.stderr
    with etq.open("bench-b/bench.duckdb", read_only=True) as warehouse:
        metrics = warehouse.rows("SELECT name, unit, count(*), any_value(value) FROM metrics GROUP BY ALL")[1]
        labels = warehouse.rows("SELECT DISTINCT key, value FROM labels WHERE key IN ('device', 'governor')")[1]
    found = {row[0]: row[1:] for row in metrics}
    assert found["temperature"] == ("degC", 8, 48.312) and found["clock_floor"] == ("MHz", 8, 2914)
    device = {"adb": "Google Pixel 8", "ssh": "Raspberry Pi 5 Model B Rev 1.0"}[kind]
    assert sorted(labels) == [("device", device), ("governor", "schedutil")]
    # The clocks are as before, and what was pushed stays; each of it was pushed once.
    assert floors(lab) == ["300000", "500000"]
    assert [each.partition("-")[2] for each in sorted(lab.pushed(), key=lambda each: each.partition("-")[2])] == [
        "base.pte", "input-0.bin", "new.pte", "runner",
    ]  # fmt: skip
    assert lab.calls({"adb": " push ", "ssh": "; cat >"}[kind]) == 4


def test_a_device_that_is_lost_and_comes_back(lab: Lab) -> None:
    lab.fail("lost", when="etdump_path")
    result = run_etq(*ARGUMENTS, "--until", "1", "--adb")
    assert result.exit_code not in (0, 3)
    assert "adb 1A2B3C: the connection was lost; check its cable or network, and go on with --resume" in result.stderr
    assert floors(lab) == ["300000", "500000"]
    assert [path.name for path in Path("bench-b").iterdir() if "etdp" in path.name] == []
    lab.fail("")
    result = run_etq(*ARGUMENTS, "--until", "1", "--adb", "--resume")
    assert result.exit_code in (0, 3), result.stderr
    assert len([*Path("bench-b").glob("*.etdp")]) == 4
