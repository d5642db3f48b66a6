"""Files that would take more memory than there is are refused, in one line, before the memory is taken."""

from __future__ import annotations

import base64
import gzip
import io
import itertools
import json
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from etq.errors import FormatError
from etq.ingest import memory
from etq.ingest.trace import text
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run

MANY = 50_000
JSONS = {
    "lists": b"[" + b"[]," * MANY + b"[]]", "objects": b"[" + b"{}," * MANY + b"{}]",
    "objects of one key": b"[" + b'{"a":0},' * MANY + b"{}]", "nested": b"[" + b'[{"a":[]}],' * MANY + b"0]",
    "numbers": b"[" + b"1000," * MANY + b"0]", "digits": b"[" + b"1," * MANY + b"0]",
    "fractions": b"[" + b"1.5," * MANY + b"0]", "texts": b"[" + b'"ab",' * MANY + b"0]",
    "keys": b"{" + b",".join(b'"%x":0' % each for each in range(MANY)) + b"}",
    "a wide text": json.dumps("a" * MANY * 10 + "\U0001f600", ensure_ascii=False).encode(),
    "an escaped wide text": json.dumps("a" * MANY * 10 + "\U0001f600").encode(),
    "wide texts": json.dumps(["\u20ac" * 3] * MANY, ensure_ascii=False).encode(),
}  # fmt: skip
DECODERS: dict[str, Callable[[bytes], object]] = {
    "json": json.loads,
    "msgspec": msgspec.json.decode,
    "raw": lambda content: msgspec.json.decode(content, type=list[msgspec.Raw] | dict[str, msgspec.Raw] | str | None),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "decoder"), [*((what, "json") for what in JSONS), ("nested", "msgspec"), ("texts", "raw")]
)
def test_json_takes_no_more_memory_than_is_assumed(what: str, decoder: str) -> None:
    """Python's own count of what was allocated is the oracle."""
    content = JSONS[what]
    tracemalloc.start()
    try:
        decoded = DECODERS[decoder](content)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded is not None
    assert taken <= memory.json_size(content) <= 62 * len(content) + taken


def record(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ETRECORD_V0", "")
        archive.writestr("debug_handle_map", content)
    return file.getvalue()


def many_members() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ETRECORD_V0", "")
        for number in range(20_000):
            archive.writestr(str(number), b"")
    return file.getvalue()


def trace_of_many_events(*, is_packed: bool) -> bytes:
    events = b'{"ph":"X","name":"a","ts":1,"dur":1},' * 10_000
    parts = [b'{"traceEvents": [', *[events] * 20, b"{}]}"]
    return b"".join(map(gzip.compress, parts) if is_packed else parts)


def log_of_dumps() -> bytes:
    content = dump(run("Execute", kernel("add", 10, 30), execute(0, 60)))
    lines = base64.encodebytes(content).replace(b"\n", b"")
    return b"\n".join([lines] * 20_000)


OBSERVED = b'PyTorchObserver {"a": [' + b"0," * 30_000 + b"0]}\n"
MEASURED = (
    b"Test Case '-[Tests test_load_a_pte]' measured [Clock Monotonic Time, s] average: 1, values: ["
    + b"1," * 100_000 + b"1]\n"
)  # fmt: skip
LARGE: dict[str, tuple[Callable[[Warehouse, bytes], object], Callable[[], bytes]]] = {
    "a packed trace": (Warehouse.ingest, lambda: trace_of_many_events(is_packed=True)),
    "a trace": (Warehouse.ingest, lambda: trace_of_many_events(is_packed=False)),
    "dumps in a log": (Warehouse.ingest, log_of_dumps),
    "a record's member": (Warehouse.ingest_record, lambda: record(JSONS["lists"] * 8)),
    "a record's members": (Warehouse.ingest_record, many_members),
    "metrics": (lambda to, file: to.ingest_metrics("run", file), lambda: JSONS["lists"] * 8),
    "metrics in a log": (lambda to, file: to.ingest_metrics("run", file), lambda: OBSERVED * 20),
    "metrics of tests": (lambda to, file: to.ingest_metrics("run", file), lambda: MEASURED),
}


@pytest.mark.long
@pytest.mark.parametrize("what", LARGE)
def test_what_is_larger_than_the_memory_is_refused(
    what: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.ingest(dump(run("Execute", kernel("add", 10, 30), execute(0, 60))), name="run")
    read, make = LARGE[what]
    content = make()
    monkeypatch.setattr(text, "LARGEST_RATIO", 500)
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    # Memory that tests before have freed is taken without being counted.
    monkeypatch.setattr(memory, "taken", itertools.count(0, 10**8).__next__)
    with pytest.raises(FormatError, match=r"^bytes: .* would take (?:about )?[\d.]+ [MG]B of memory, and [\d.]+ [MG]B"):
        read(warehouse, content)
    assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(1,)]


def test_a_limit_of_a_control_group_counts(tmp_path: Path) -> None:
    """The files as the kernel documents them: cgroup-v2.rst, and cgroup-v1/memory.rst."""
    new, old, free = (tmp_path / each for each in ("new", "old", "free"))
    for folder in (new, old, free):
        folder.mkdir()
    (new / "memory.max").write_text("1000000\n")
    (new / "memory.current").write_text("600000\n")
    (new / "memory.stat").write_text("anon 500000\nfile 90000\ninactive_file 60000\nactive_file 20000\n")
    assert [*memory._of_group(new, "memory.max", "memory.current")] == [480_000]
    (old / "memory.limit_in_bytes").write_text("1000000\n")
    (old / "memory.usage_in_bytes").write_text("700000\n")
    (old / "memory.stat").write_text("cache 9\ninactive_file 7\ntotal_inactive_file 50000\n")
    assert [*memory._of_group(old, "memory.limit_in_bytes", "memory.usage_in_bytes")] == [350_000]
    (free / "memory.max").write_text("max\n")
    (free / "memory.current").write_text("600000\n")
    assert [*memory._of_group(free, "memory.max", "memory.current")] == []


@pytest.mark.long
@pytest.mark.parametrize(("megabytes", "is_stored"), [(256, False), (4096, True)])
def test_an_ingest_is_limited(megabytes: int, is_stored: bool, tmp_path: Path) -> None:
    """150,000 events of a hundred bytes need 30 MB more than the database's 134 MB, in a process that takes 100 MB."""
    path, db = tmp_path / "a.pt.trace.json", tmp_path / "a.duckdb"
    event = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"x":"' + b"a" * 40 + b'"}}'
    path.write_bytes(b"[" + (event + b",") * 150_000 + event + b"]")
    arguments = ["ingest", str(path), "--db", str(db), f"--megabytes={megabytes}"]
    done = subprocess.run([sys.executable, "-m", "etq", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == is_stored
    assert is_stored or "MB were left; allow more with --megabytes" in done.stderr
