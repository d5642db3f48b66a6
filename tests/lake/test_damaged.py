"""What is damaged in a lake, was tampered with, or is not a lake, is refused."""

from __future__ import annotations

import base64
import os
import sys
import zlib
from pathlib import Path

import pytest

import etq
from etq.errors import WarehouseError
from etq.lake import check, export
from tests.lake.test_lake import FLEET, one_of


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(WarehouseError, match=r"a lake needs deltalake: pip install 'etq\[lake\]'"):
        one_of(FLEET[:1], tmp_path / "lake")


def test_damaged_lakes_are_reported(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:2], lake)
    [ticks] = (lake / "event_ticks").glob("load_id=*/*.parquet")
    [runs] = (lake / "runs").glob("load_id=*/*.parquet")
    whole = ticks.read_bytes()
    ticks.write_bytes(whole[: len(whole) // 2])
    runs.unlink()
    faults = {(fault.file, fault.what.split(":")[0]) for fault in check(lake)}
    assert faults == {(str(ticks), "damaged"), (str(runs), "missing")}
    with pytest.raises(WarehouseError, match=r"lake: .*"):
        etq.open(lake)
    [signatures] = (lake / "signatures").glob("load_id=*/*.parquet")
    ticks.write_bytes(signatures.read_bytes())
    assert any("has the columns" in fault.what for fault in check(lake))


def test_a_log_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in FLEET[:2]:
        one_of([path], lake)
    _, first, second = sorted((lake / "captures" / "_delta_log").glob("*.json"))
    whole = second.read_bytes()
    noted = whole.split(b'"etq":"')[1].split(b'"')[0]

    def noting(before: bytes, after: bytes) -> bytes:
        content = zlib.decompress(base64.b64decode(noted))
        assert before in content
        return whole.replace(noted, base64.b64encode(zlib.compress(content.replace(before, after))))

    for content, message in (
        (b"{", "lake: "),
        (noting(b'"schema":', b'"schema":9'), "made by another version of etq"),
        (whole.replace(noted, b"{" + noted), "damaged"),
        (whole.replace(noted, noted[:-8]), "damaged"),
        (noting(b'"files":{', b'"files":['), "damaged"),
        (noting(b'.parquet"', b'/../x.parquet"'), "damaged: a file is called"),
        (noting(b'"runs":', b'"../runs":'), "damaged: a file is called"),
        (noting(b'"files":{"', b'"files":{"../'), "damaged: a file is called"),
    ):
        assert content != whole
        second.write_bytes(content)
        with pytest.raises(WarehouseError, match=message):
            etq.open(lake)
    for prefix in (b"../", b"/etc/"):
        second.write_bytes(whole.replace(b'"path":"load_id=', b'"path":"' + prefix + b"load_id="))
        with pytest.raises(WarehouseError, match="damaged: a file is called"):
            check(lake)
    second.write_bytes(whole)
    first.unlink()
    with pytest.raises(WarehouseError, match="lake: "):
        check(lake)


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    """By a link, somebody else's lake would have a file of its reader as rows."""
    lake, aside = tmp_path / "lake", tmp_path / "aside"
    one_of(FLEET[:1], lake)
    [file] = (lake / "runs").glob("load_id=*/*.parquet")
    for place in (file, file.parent, lake / "runs"):
        place.rename(aside)
        place.symlink_to(aside)
        with pytest.raises(WarehouseError, match=f"^{place}: .*; a lake's folders and files must be in it$"):
            etq.open(lake)
        place.unlink()
        aside.rename(place)
    file.rename(aside)
    os.mkfifo(file)
    with pytest.raises(WarehouseError, match="not a plain file"):
        etq.open(lake)
    file.unlink()
    aside.rename(file)
    # A lake itself may be anywhere.
    (tmp_path / "link").symlink_to(lake)
    with etq.open(tmp_path / "link") as opened:
        assert opened.rows("SELECT count(*) FROM runs")[1][0][0] > 0


def test_folders_that_are_not_lakes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/other").write_text("x")
    with etq.open() as warehouse:
        with pytest.raises(WarehouseError, match="a file; a lake is a folder"):
            export(tmp_path / "file", warehouse)
        with pytest.raises(WarehouseError, match="a folder with other things in it"):
            export(tmp_path / "folder", warehouse)
    for path in (tmp_path / "folder", tmp_path / "none"):
        with pytest.raises(WarehouseError, match="not a lake"):
            check(path)
    with pytest.raises(WarehouseError, match="a folder; a warehouse is a file, or a lake"):
        etq.open(tmp_path / "folder")
