"""Profiling files in an object store, S3 as moto's server speaks it, are read as those of a folder are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import FormatError, StoreError
from etq.ingest import stores
from etq.storage import sources
from tests.command_line import run_etq as run
from tests.conftest import CAPTURES
from tests.lake.moto_server import client, made, serving
from tests.lake.test_changing import rows_of_file, rows_of_lake

pytestmark = pytest.mark.long

pytest.importorskip("deltalake", reason="stores need deltalake: pip install 'etq[lake]'")
FLEET = CAPTURES / "fleet/mlp"
TRACE = CAPTURES / "torch/mlp_train.pt.trace.json.gz"
# Two of a name, two of the same content, one whose name says nothing, one with letters that addresses encode, a damaged
# one, a sidecar, files that are left out.
FILES: dict[str, Path | bytes] = {
    "raw/a/run.etdp": FLEET / "00.etdp",
    "raw/a/run.etdp.json": b'{"device": "pixel8"}',
    "raw/b/run.etdp": FLEET / "01.etdp",
    "raw/c/copy.etdp": FLEET / "01.etdp",
    "raw/c/unnamed": FLEET / "02.etdp",
    "raw/c/50%20 \u00e9+#.etdp": FLEET / "03.etdp",
    "raw/damaged.etdp": b"junk",
    "raw/notes.txt": b"of the lab",
    "raw/.trash/04.etdp": FLEET / "04.etdp",
    "mlp/run_1.etdp": CAPTURES / "mlp/mlp_1run.etdp",
    "mlp/net.etrecord": CAPTURES / "mlp/mlp.etrecord",
    "raw/t/train.pt.trace.json.gz": TRACE,
}


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """The options of a store that has the files in a bucket, beside a folder that its pages made."""
    with serving() as endpoint:
        found = made(endpoint, "lab")
        for name, content in FILES.items():
            body = content if isinstance(content, bytes) else content.read_bytes()
            client(endpoint).put_object(Bucket="lab", Key=name, Body=body)
        client(endpoint).put_object(Bucket="lab", Key="raw/empty/", Body=b"")
        client(endpoint).put_object(Bucket="lab", Key="texts/notes.txt", Body=b"of the lab")
        yield found


@pytest.fixture
def lab(options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The same options in the environment, and the same files in the present folder."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    (tmp_path / "raw/empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    stores._files_of.cache_clear()
    yield options
    stores._files_of.cache_clear()


def test_a_prefix_is_read_as_a_folder(lab: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files, too, which are copied; the copies are gone then."""
    given = ("--label-from", "{place}/{}")
    of_folder = run("ingest", "raw/", "--db", "folder.duckdb", *given)
    monkeypatch.setattr(sources, "SMALL", 10_000)
    Path("copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", "copies")
    of_store = run("lake", "add", "fleet", "s3://lab/raw/", *given)
    assert of_store.exit_code == of_folder.exit_code == 1, "for the damaged one"
    added = "fleet: captures: 5 new, 0 known\n"
    assert of_store.output.replace("s3://lab/raw", "raw") == of_folder.output + added
    assert os.listdir("copies") == []
    with etq.open("fleet") as warehouse:
        found = dict(warehouse.rows("SELECT uri, name FROM captures")[1])
    assert found == {
        "s3://lab/raw/a/run.etdp": "run", "s3://lab/raw/b/run.etdp": "b/run", "s3://lab/raw/c/unnamed": "unnamed",
        "s3://lab/raw/c/50%20 \u00e9+#.etdp": "50%20 \u00e9+#", "s3://lab/raw/t/train.pt.trace.json.gz": "train",
    }  # fmt: skip
    expected = rows_of_file(Path("folder.duckdb"), without=("uri", "ingested_at"))
    assert rows_of_lake(Path("fleet"), without=("uri", "ingested_at")) == expected
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(FormatError, match="train.pt.trace.json.gz: needs 0 MB in copies; free some, or set TMPDIR"):
        sources.source_of("s3://lab/raw/t/train.pt.trace.json.gz")


def test_single_files_patterns_and_what_is_not_there(lab: dict[str, str]) -> None:
    assert "run: ingested" in run("ingest", "s3://lab/raw/a/run.etdp").output
    assert "run: known already" in run("ingest", f"file://{Path('raw/a/run.etdp').absolute()}").output
    matched = run("ingest", "s3://lab/raw/*/run.etdp", "-v").output
    assert "run: known already" in matched and "b/run: ingested" in matched
    linked = run("ingest", "s3://lab/mlp/run_1.etdp", "--etrecord", "s3://lab/mlp/net.etrecord", "-q")
    assert linked.output == ""
    with etq.open("etq.duckdb") as warehouse:
        linked_to = warehouse.rows("SELECT r.name, r.uri FROM captures AS c JOIN records AS r USING (record_id)")[1]
    assert linked_to == [("net", "s3://lab/mlp/net.etrecord")]
    again = run("ingest", "--again", "s3://lab/mlp/").stderr
    assert "run_1: read anew\n" in again
    assert "Note: run: stays as it is: s3://lab/raw/a/run.etdp: not read unless its folder is named: " in again
    assert "already" not in (output := run("link", "run", "s3://lab/mlp/net.etrecord").output), output
    errors = {
        "s3://lab/none/": "s3://lab/none/: no such files; check the address",
        "s3://lab/raw/run.etdp": "s3://lab/raw/run.etdp: no such files; check the address",
        "s3://lab/raw/*.pt": "s3://lab/raw/*.pt: no such files; check the address",
        "s3://lab/texts": "s3://lab/texts: a folder without profiling files; it has 1 other file (notes.txt)",
        "s3://other/raw": "s3://other/raw: can't be read: Generic S3 error: 404 Not Found; check the address, the "
        "credentials and the network",
        "https://lab/raw": "https://lab/raw: not the address of a store, as s3://lab/raw/; download the file",
        "s3://a b/raw": "s3://a b/raw: can't be read: Could not parse s3://a b/ as a URL: invalid domain character; "
        "check the address, the credentials and the network",
        "s3:///raw": "s3:///raw: not the address of a store, as s3://lab/raw/; download the file",
        "s3://me:secret@lab/raw": "s3://...: an address with a password; give it by the environment "
        "variables of the store's own tools",
    }
    found = {address: run("ingest", address).output for address in errors}
    assert found == {address: f"Error: {error}\n" for address, error in errors.items()}


def test_a_file_that_changes_and_a_store_that_goes_away(lab: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a file is of one moment. A store that is gone is an error once, and not for each of its files."""
    read, store = stores.opened, client(lab["AWS_ENDPOINT_URL"])

    class Changing:
        """A file that becomes longer after the first read."""

        def __init__(self, file: Any) -> None:
            self.file, self.size = file, file.size

        def read(self, most: int) -> bytes:
            content = bytes(self.file.read(most))
            store.put_object(Bucket="lab", Key="changing", Body=b"[longer than it was before]")
            return content

    @contextmanager
    def changing(address: str) -> Iterator[Any]:
        with read(address) as file:
            yield Changing(file)

    with monkeypatch.context() as patched:
        patched.setattr(stores, "opened", changing)
        for small, part in ((sources.SMALL, sources._PART), (sources.SMALL, 3), (1, 3)):
            patched.setattr(sources, "SMALL", small)
            patched.setattr(sources, "_PART", part)
            store.put_object(Bucket="lab", Key="changing", Body=b"[short]")
            with pytest.raises(FormatError, match="changing: changed while it was read; repeat when it is complete"):
                sources.source_of("s3://lab/changing")

    @contextmanager
    def then_gone(address: str) -> Iterator[Any]:
        with read(address) as file:
            yield file
        if "/b/" in address:
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            stores._files_of.cache_clear()

    monkeypatch.setattr(stores, "opened", then_gone)
    with etq.open() as warehouse, pytest.raises(StoreError) as raised:
        warehouse.ingest_many(
            [f"s3://lab/{name}" for name in FILES if name.startswith("raw/") and name.endswith(".etdp")]
        )
    assert str(raised.value).startswith("s3://lab/raw/b/run.etdp: can't be read: Generic S3 error: Connection refused")
    assert str(raised.value).endswith("; check the address, the credentials and the network; 0 of 6 files are stored")


def test_a_store_without_credentials(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in lab:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    output = run("ingest", "s3://lab/raw/").output
    assert output.startswith("Error: s3://lab/raw/: can't be read: the store needs credentials: set them as")
