"""The real files that are damaged, by kind. The kind determines how etq reads them."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from etq.ingest.program.reader import read_program
from etq.ingest.program.xnnpack_schema import BACKEND
from tests import launch_traces, program_builders
from tests.conftest import CAPTURES
from tests.program_builders import method
from tests.trace_builders import memory
from tests.unit.test_metrics_reader import APP, GENERATION, RECORDS, log
from tests.unit.test_snapshots import SMALL

# Larger files find nothing that smaller ones don't, and take longer.
LARGEST: Final = 260_000
# Traces that are read in parts of a few hundred bytes.
LARGEST_IN_PARTS: Final = 100_000
CORPUS: Final = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Original:
    """A good file. `beside` is the file that belongs to it: the debug buffer of an ETDump."""

    kind: str
    name: str
    content: bytes
    beside: bytes | None = None


@cache
def originals(kind: str) -> list[Original]:
    """The good files of a kind, always in the same order."""
    return list(_READERS[kind](kind))


def corpus() -> list[Original]:
    """Files that once failed, made small: KIND-WHAT.ending; the file that belongs to one has .beside appended."""
    found = []
    for path in sorted(CORPUS.iterdir()):
        if path.suffix != ".beside":
            beside = path.with_name(f"{path.name}.beside")
            with_it = beside.read_bytes() if beside.exists() else None
            found.append(Original(path.name.partition("-")[0], path.name, path.read_bytes(), with_it))
    return found


def kinds() -> list[str]:
    return list(_READERS)


def _files(kind: str, pattern: str, largest: int = LARGEST) -> Iterator[tuple[str, Path]]:
    for path in sorted(CAPTURES.glob(pattern)):
        if path.parent.name not in ("malformed", "fleet", "expected") and path.stat().st_size <= largest:
            yield str(path.relative_to(CAPTURES)), path


def _plain(pattern: str, largest: int = LARGEST) -> Callable[[str], Iterator[Original]]:
    def read(kind: str) -> Iterator[Original]:
        for name, path in _files(kind, pattern, largest):
            yield Original(kind, name, path.read_bytes())

    return read


def _prof_results(kind: str) -> Iterator[Original]:
    for name, path in _files(kind, "prof_result/*.bin"):
        if not any(word in name for word in ("bad_", "truncated", "empty", "unknown", "zero_entries")):
            yield Original(kind, name, path.read_bytes())


def _logs(kind: str) -> Iterator[Original]:
    for name in ("bf16/bf16.etdp", "mlp/mlp_1run.etdp"):
        text = base64.b64encode((CAPTURES / name).read_bytes()).decode()
        lines = [f"12:00:{at % 60:02} I {text[at : at + 80]}\r\n" for at in range(0, len(text), 80)]
        yield Original(kind, name, ("boot\n" + "".join(lines) + "done\n").encode())


def _traces(kind: str) -> Iterator[Original]:
    for name, path in _files(kind, "torch/*.json.gz"):
        if ".trace." in name:
            yield Original(kind, name, gzip.decompress(path.read_bytes()))
    for rank in range(3):
        made = launch_traces.training(rank, rank=rank, world_size=2)
        for at in range(6):
            size = -512 if at % 3 == 2 else 256 << at
            made.events.append(memory(1500 + 700 * at, size, 1024 * at, type=rank % 2, device=rank % 2 - 1))
        yield Original(kind, f"rank_{rank}.json", made.trace())


def _small_traces(kind: str) -> Iterator[Original]:
    for each in originals("trace"):
        if len(each.content) <= LARGEST_IN_PARTS:
            yield Original(kind, each.name, each.content)


@cache
def xnnpack_blobs(program: bytes) -> list[tuple[int, int]]:
    """The position and size of each blob of XNNPACK in a program."""
    tables = dict(read_program(program, "file"))
    return sorted(
        {
            (row["byte_offset"], row["blob_bytes"])
            for row in tables["program_delegates"].to_pylist()
            if row["backend"] == BACKEND
        }
    )


def _with_xnnpack(kind: str) -> Iterator[Original]:
    for name, path in _files(kind, "**/*.pte"):
        content = path.read_bytes()
        if xnnpack_blobs(content):
            yield Original(kind, name, content)
    graphs = json.loads(gzip.decompress((CAPTURES / "expected/xnnpack_graphs.json.gz").read_bytes()))
    blob = base64.b64decode(graphs["every op"]["binary"])
    delegates = [program_builders.delegate(BACKEND, 0, in_segment=True)]
    yield Original(
        kind, "every op", program_builders.program(method("forward", [], delegates=delegates), segments=[blob])
    )


def _debug(kind: str) -> Iterator[Original]:
    for name, path in _files(kind, "*/*_debug*.etdp"):
        buffer = path.with_suffix(".bin")
        if buffer.exists() and buffer.stat().st_size <= LARGEST:
            yield Original(kind, name, path.read_bytes(), buffer.read_bytes())


def _metrics(kind: str) -> Iterator[Original]:
    tested = (
        "/b/Tests.mm:9: Test Case '-[GenericTests test_load_mv2_xnnpack_q8_pte_iOS_17_2_1_iPhone15_4]' measured "
        "[Memory Peak Physical, kB] average: 0.004, relative standard deviation: 17.201%, values: [1, 2.5], "
        "performanceMetricID:com.apple.dt.XCTMetric\r\n"
    )
    yield Original(kind, "runner.log", log(GENERATION, {**GENERATION, "gpu_peak_usage_mb": 1.5}))
    yield Original(kind, "stats.json", json.dumps(GENERATION).encode())
    yield Original(kind, "benchmark_results.json", json.dumps(APP).encode())
    yield Original(kind, "records.json", json.dumps(RECORDS).encode())
    yield Original(kind, "xctest.log", tested.encode() * 2)
    yield Original(kind, "numbers.json", b'{"a b": 1, "c": {"value": -2.5e3, "unit": "mW", "better": "lower"}}')


def _sidecars(kind: str) -> Iterator[Original]:
    output = {
        "device": "pixel8", "governor": "performance", "captured_at": "2026-05-01T12:00:00Z", "threads": 4, "on": True,
        "labels": {"model": "mlp", "build": 1.5},
        "metrics": {"temperature": 41, "peak_memory": {"value": 12.5, "unit": "MB", "better": "lower"}},
    }  # fmt: skip
    yield Original(kind, "run.etdp.json", json.dumps(output).encode())
    toml = 'device = "pixel8"\ncaptured_at = 2026-05-01T12:00:00Z\nday = 2026-05-01\n[labels]\nbuild = 1.5\n'
    yield Original(kind, "run.etdp.toml", (toml + "[metrics]\nheat = 41\npeak = {value = 1e3, unit = 'MB'}\n").encode())


def _snapshots(kind: str) -> Iterator[Original]:
    for protocol in (2, 5):
        yield Original(kind, f"protocol {protocol}", pickle.dumps(pickle.loads(SMALL), protocol))


def _timelines(kind: str) -> Iterator[Original]:
    for path in sorted((CAPTURES / "torch_timeline").glob("*.json.gz")):
        written = json.loads(gzip.decompress(path.read_bytes()))
        part = written[:60] if "raw" in path.name else [each[:30] for each in written]
        yield Original(kind, path.name, json.dumps(part).encode())


_READERS: Final[dict[str, Callable[[str], Iterator[Original]]]] = {
    "etdump": _plain("*/*.etdp", 140_000), "log": _logs, "prof_result": _prof_results, "trace": _traces,
    "record": _plain("*/*.etrecord"), "program": _plain("*/*.pte"), "xnnpack": _with_xnnpack, "parts": _small_traces,
    "debug": _debug, "metrics": _metrics, "sidecar": _sidecars,
    "snapshot": _snapshots, "timeline": _timelines,
}  # fmt: skip
