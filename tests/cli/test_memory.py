"""`etq memory` of traces: peaks, a time line, memory that is held and memory that grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import etq
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.trace_builders import event, memory, trace

MLP = CAPTURES / "torch" / "mlp_train.pt.trace.json.gz"


def test_a_leak_on_a_device(tmp_path: Path) -> None:
    """Each of 4 steps holds 1 MiB more and is a quarter of the time line; the last one is the highest."""
    events: list[dict[str, Any]] = []
    for step in range(4):
        middle = 1000 + 100 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", middle - 50, middle + 50),
            event("cpu_op", "aten::mse_loss", middle, middle + 10),
        ]
        grown = memory(middle, 2**20, (step + 1) * 2**20, type=1, device=0)
        grown["args"]["Addr"] = step
        events.append(grown)
    last = memory(1400, 8, 4 * 2**20 + 8, type=1, device=0)
    last["args"]["Addr"] = 99
    path = tmp_path / "leak.pt.trace.json"
    path.write_bytes(trace(*events, last))
    lines = run_etq("memory", str(path)).stdout.splitlines()
    assert lines[0] == "GPU0: at most 4 MiB in use, first at 450 us"
    bars = lines[1]
    assert len(bars) == 72 and len({*bars[:18]}) == len({*bars[18:36]}) == len({*bars[36:54]}) == 1
    assert len({bars[0], bars[18], bars[36], bars[54]}) == 4
    assert lines[3] == "Held at the peak:" and lines[6].split()[:2] == ["GPU0", "aten::mse_loss"]
    grows = lines.index("Grows with every step:")
    assert lines[grows + 3].split() == ["GPU0", "aten::mse_loss", "4", "1048576", "4194304", "1048576", "4"]


def test_other_formats_have_the_rows_at_the_peak(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    assert run_etq("ingest", str(MLP), "--name", "run", "--db", db).exit_code == 0
    with etq.open(db, read_only=True) as warehouse:
        for command, query in (("memory", "peak_memory('run')"), ("show memory_leaks", "memory_leaks('run')")):
            printed = json.loads(run_etq(*command.split(), "run", "--db", db, "--format", "json").stdout)
            columns, rows = warehouse.rows(f"FROM {query}")
            assert rows and [tuple(row.values()) for row in printed] == rows and [*printed[0]] == columns
            assert json.loads(run_etq(*command.split(), str(MLP), "--format", "json").stdout) == printed
    limited = run_etq("memory", "run", "--db", db, "--limit", "1", "--sort-by", "op").stdout
    assert "Held at the peak:" in limited and "Grows" not in limited
    assert [line.split()[1] for line in limited.splitlines()[-1:]] == ["aten::empty"]


def test_without_allocations() -> None:
    device = str(CAPTURES / "torch_steps" / "before.pt.trace.json.gz")
    for command in ("memory", "show memory_leaks"):
        result = run_etq(*command.split(), device)
        assert result.exit_code == 0 and "profile_memory=True" in result.stderr
    assert "for that there is etq memory" in run_etq("show", "memory_leaks", str(CAPTURES / "mlp" / "mlp.etdp")).stderr


def test_a_snapshot_is_never_unpickled(tmp_path: Path) -> None:
    """Its pickle would write a file."""
    path, target = tmp_path / "snapshot.pickle", tmp_path / "written"
    path.write_bytes(b"\x80\x04cbuiltins\nopen\n(V" + str(target).encode() + b"\nVw\ntR.")
    result = run_etq("memory", str(path))
    assert result.exit_code == 1 and "etq never reads pickles" in result.stderr
    assert not target.exists()
