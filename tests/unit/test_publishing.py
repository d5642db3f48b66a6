"""Files that commands write: either whole, or the previous file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from etq import report
from etq.database.publishing import new_file, publish_new
from etq.errors import EtqError
from etq.render.writers import write, write_rows, write_text
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import thinned

MLP = CAPTURES / "mlp" / "mlp.etdp"
WRITERS: dict[str, Callable[[Warehouse, str], object]] = {
    "table": lambda warehouse, path: write(warehouse, "FROM captures", None, path, force=True),
    "csv": lambda warehouse, path: write(warehouse, "FROM captures", "csv", path, force=True),
    "parquet": lambda warehouse, path: write(warehouse, "FROM captures", "parquet", path, force=True),
    "arrow": lambda warehouse, path: write(warehouse, "FROM captures", "arrow", path, force=True),
    "rows": lambda _, path: write_rows(["a"], [["b"]], "json", path, force=True),
    "text": lambda _, path: write_text("text", path, force=True),
    "report": lambda warehouse, path: report.write(warehouse, ["mlp"], path),
    "export": lambda warehouse, path: warehouse.export("mlp", "chrome", path),
}


@pytest.fixture
def mlp(warehouse: Warehouse) -> Warehouse:
    warehouse.ingest(MLP)
    return warehouse


@pytest.mark.parametrize("writer", thinned(WRITERS, [*WRITERS][:3]))
def test_a_full_disk_leaves_the_old_file(
    mlp: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    path = tmp_path / "out"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(EtqError, match="out: can't be written: no space left on device"):
            WRITERS[writer](mlp, str(path))
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    WRITERS[writer](mlp, str(path))
    assert path.read_bytes() != b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_file_that_is_made_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(EtqError, match="out: exists; overwrite it with --force"):  # noqa: SIM117
        with new_file(str(path), overwrite=False) as written:
            Path(written).write_text("new")
            path.write_text("another's")
    assert path.read_text() == "another's"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_without_hard_links_no_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    written, target = tmp_path / "written", tmp_path / "target"
    written.write_text("new")
    publish_new(written, target)
    assert (target.read_text(), written.exists()) == ("new", False)
    written.write_text("newer")
    with pytest.raises(FileExistsError):
        publish_new(written, target)
    assert target.read_text() == "new"


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    """Only folders that etq made: a folder of the user may have such a name, and a file within."""
    kept = (".etq-lab-data", ".etq-1-12345678", ".etq-1-short", ".etq-2-abcdefgh")
    for name in (*kept, ".etq-1-abcdefgh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out").write_text("half")
    for name in (".etq-lab-data", ".etq-1-short", ".etq-2-abcdefgh", ".etq-1-abcdefgh"):
        (tmp_path / name / ".made-by-etq").touch()
    for name in (".etq-lab-data", ".etq-1-12345678", ".etq-1-short", ".etq-1-abcdefgh"):
        os.utime(tmp_path / name, (0, 0))
    write_text("whole", str(tmp_path / "out"))
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*kept, "out"])
