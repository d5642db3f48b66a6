"""Memory timelines of torch.profiler: what is held at the peak by category, as plain Python adds it up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import FormatError
from etq.ingest.registry import read_capture
from etq.ingest.snapshot.timeline import CATEGORIES
from tests.command_line import run_etq
from tests.conftest import CAPTURES

NOW = 1_700_000_000_000_000
REAL = CAPTURES / "torch_timeline"
# Parameters of 100 and 60 bytes from before; an activation, which becomes a gradient; what was allocated before is released.
RAW = [
    [-1, 1, 100, 0], [-1, 1, 60, 0], [1000 * NOW, 2, 512, 4], [1000 * NOW + 500, 3, -512, 4], [1000 * NOW + 500, 3, 512, 5],
    [1000 * NOW + 9000, 4, -40, 7], [1000 * NOW + 12_000, 2, 30, 3], [1000 * NOW + 15_000, 4, -512, 5],
]  # fmt: skip
SIZES = [
    [NOW, NOW, NOW + 9, NOW + 12, NOW + 15],
    [[0, 160, 0, 0, 0, 0, 0, 0, 40], [0, 160, 0, 0, 0, 512, 0, 0, 40], [0, 160, 0, 0, 0, 0, 512, 0, 0],
     [0, 160, 0, 0, 30, 0, 512, 0, 0], [0, 160, 0, 0, 30, 0, 12, 0, 0]],
]  # fmt: skip
HELD = "SELECT device, peak_bytes, peak_time, op, held_bytes FROM peak_memory('@latest', unit := 'us')"
LINE = "SELECT time, allocated_bytes FROM memory_timeline('@latest', unit := 'us') ORDER BY ALL"


def written(folder: Path, content: Any) -> Path:
    path = folder / "mine.json"
    path.write_bytes(json.dumps(content).encode())
    return path


def test_changes_by_hand(tmp_path: Path) -> None:
    """40 bytes are released whose allocation the file lacks: they are held before. The peak is the activation, before it
    becomes a gradient."""
    with etq.read(written(tmp_path, RAW)) as warehouse:
        assert warehouse.rows(HELD)[1] == [
            ("(unnamed)", 712, pytest.approx(0.008), "activation", 512), ("(unnamed)", 712, pytest.approx(0.008), "parameter", 160),
            ("(unnamed)", 712, pytest.approx(0.008), "(before the recording)", 40),
        ]  # fmt: skip
        assert warehouse.rows("SELECT f.rule, f.detail FROM findings AS f")[1] == [
            ("memory timeline", "the memory of one device by category, which the file doesn't name; ops have no times")
        ]
        last = warehouse.rows(LINE)[1][-3:]
        assert last == [(9, 672), (12, 702), (15, 190)]


@pytest.mark.long
def test_sizes_by_hand(tmp_path: Path) -> None:
    """Releases of a time come before its allocations; of a gradient a part remains, which is allocated 4 ns later."""
    with etq.read(written(tmp_path, SIZES)) as warehouse:
        assert [row[1:2] + row[3:] for row in warehouse.rows(HELD)[1]] == [
            (712, "activation", 512), (712, "parameter", 160), (712, "unknown", 40)
        ]  # fmt: skip
        assert warehouse.rows(LINE)[1][-3:] == [(12, 702), (15, 190), (15.004, 202)]
    told = " ".join(run_etq(str(tmp_path / "mine.json")).stdout.split())
    assert "memory timeline of torch.profiler, " in told and "(unnamed) 712 B" in told
    assert "activation" in run_etq("memory", str(tmp_path / "mine.json")).stdout


def _of_changes(rows: list[list[int]]) -> tuple[int, dict[str, int]]:
    """The peak of a raw timeline, and what each category has then."""
    sizes = [0] * len(CATEGORIES)
    most, held = 0, list(sizes)
    for _, _, size, category in rows:
        sizes[category] += size
        if sum(sizes) > most:
            most, held = sum(sizes), list(sizes)
    return most, {name: size for name, size in zip(CATEGORIES, held, strict=True) if size}


def test_real_timelines() -> None:
    """Of two steps of training by PyTorch 2.13: the peak and its categories, and that both forms agree on the parameters."""
    changes = json.loads(gzip.decompress((REAL / "memory.raw.json.gz").read_bytes()))
    times, sizes = json.loads(gzip.decompress((REAL / "memory.json.gz").read_bytes()))
    most = max(map(sum, sizes))
    at = next(row for row in sizes if sum(row) == most)
    expected = {
        "memory.raw.json.gz": _of_changes(changes),
        "memory.json.gz": (most, {name: size for name, size in zip(CATEGORIES, at[1:], strict=True) if size}),
    }
    assert len(times) > 100 and len(expected["memory.json.gz"][1]) >= 4
    for name, (peak, parts) in expected.items():
        with etq.read(REAL / name) as warehouse:
            rows = warehouse.rows(HELD)[1]
        assert {row[1] for row in rows} == {peak}
        assert {op: held for *_, op, held in rows} == parts


REFUSED: list[Any] = [
    [[NOW], []], [[NOW], [[0, 1]]], [[NOW], [[1, *[0] * 8]]], [[NOW], [[0, -5, *[0] * 7]]], [[NOW, 1.5], [[0] * 9] * 2],
    [[NOW], [[0] * 9], []], [[1, 2, 3]], [[1, 5, 3, 0]], [[1, 2, 3, 8]], [[1, 2, 3, -1]], [[1, 2, 2**62, 0]], [[1, 2, 2**70, 0]],
    [[1, 2, 2**60, 0]] * 3, [[2**61, 2, 3, 0]], [[1, 2, "3", 0]], [[1, 2, 3, 0], None], [[]], [[], {}],
]  # fmt: skip


def test_other_lists_are_refused() -> None:
    """Sizes below zero or beyond any memory, unknown categories and actions, lists of other lengths."""
    for content in REFUSED:
        with pytest.raises(FormatError, match=r"^mine: "):
            list(read_capture(json.dumps(content).encode(), "mine"))
    real = (REAL / "memory.raw.json.gz").read_bytes()
    for length in range(20, len(real) - 1, 41):
        with pytest.raises(FormatError, match=r"^mine: "):
            list(read_capture(real[:length], "mine"))
    bomb = gzip.compress(b"[[" + b" " * 40_000_000 + b"1, 2, 3, 0]]", mtime=0)
    with pytest.raises(FormatError, match="would unpack to more than"):
        list(read_capture(bomb, "mine"))
    deep = b"[" * 100_000
    with pytest.raises(FormatError, match=r"^mine: "):
        list(read_capture(b"[[1, 2, 3, " + deep, "mine"))


def test_nothing_happened(tmp_path: Path) -> None:
    with etq.read(written(tmp_path, [[NOW], [[0] * 9]])) as warehouse:
        assert warehouse.rows(HELD)[1] == []
