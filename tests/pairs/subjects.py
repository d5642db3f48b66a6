"""The captures on which pairs are checked: captures of all kinds, read into one warehouse when first used."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.pairs.asking import Asked
from tests.pairs.of_execute import phase_of

SHARED: Final = Path(os.environ.get("ETQ_SHARED") or Path(__file__).parents[3] / "shared") / "captures"
# Copies of others, byte for byte.
_COPIES: Final = ("mlp_debug_nobin", "mlp_debug_shortbin")
# One capture of each kind, on which all pairs are checked.
FEW: Final = (
    *("mlp", "mlp_alloc", "mlp_step", "mlp_method_only", "mlp_wrap32", "mlp_debug5", "mlp_0runs", "mlp_bundled_idx"),
    *("convnet_xnn", "demo_int", "demo_str", "cond_mixed", "maploop", "multimethod_interleave", "transformer", "twins"),
    *("steps_12", "pair_mlp", "iterations", "two_blocks_interleaved"),
)
# The ones of them that run every time; the others run with -m long.
FEWEST: Final = ("mlp_debug5", "convnet_xnn", "multimethod_interleave", "steps_12", "iterations")


@dataclass(frozen=True)
class Subject:
    """A file, and the name of its capture."""

    path: Path
    kind: str  # dump, trace, prof_result

    @property
    def name(self) -> str:
        return self.path.name.split(".")[0]

    @property
    def record(self) -> Path | None:
        """The record of its model."""
        path = self.path.parent / f"{self.path.parent.name}.etrecord"
        return path if path.exists() else None

    def __str__(self) -> str:
        return self.name


def own() -> list[Subject]:
    """The captures in the repository."""
    dumps = [
        Subject(path, "dump")
        for path in sorted(CAPTURES.glob("*/*.etdp"))
        if path.parent.name != "malformed" and path.stem not in _COPIES
    ]
    traces = [Subject(path, "trace") for path in sorted(CAPTURES.glob("torch/*.pt.trace.json.gz"))]
    blobs = [
        Subject(path, "prof_result")
        for path in sorted(CAPTURES.glob("prof_result/*.bin"))
        if not path.name.startswith(("bad_version", "truncated", "empty"))
    ]
    return [*dumps, *traces, *blobs]


def others() -> list[Subject]:
    """Captures that other people published, if they are available."""
    return [
        *(Subject(path, "dump") for path in sorted(SHARED.glob("upstream/*.etdp"))),
        *(Subject(path, "trace") for path in sorted(SHARED.glob("torch/*/*.pt.trace.json.gz"))),
    ]


@dataclass
class Shelf:
    """A warehouse that reads captures when they are first used."""

    warehouse: Warehouse
    _asked: dict[Path, Asked] = field(default_factory=dict)
    _records: set[Path] = field(default_factory=set)

    def ask(self, subject: Subject) -> Asked:
        if subject.path not in self._asked:
            self._asked[subject.path] = self._read(subject)
        return self._asked[subject.path]

    def _read(self, subject: Subject) -> Asked:
        buffer = subject.path.with_suffix(".bin")
        has_values = subject.kind == "dump" and buffer.exists()
        capture = self.warehouse.ingest(subject.path, debug_buffer=buffer if has_values else None)
        asked = Asked(self.warehouse, capture.name, subject.path.read_bytes(), subject.path)
        if subject.kind == "dump":
            say_phases(asked)
            asked.record = self._link(asked, subject)
        return asked

    def _link(self, asked: Asked, subject: Subject) -> Path | None:
        """Link a capture to its record if the record is whole and its methods are found."""
        path = subject.record
        if path is None:
            return None
        if path not in self._records:
            self.warehouse.ingest_record(path)
            self._records.add(path)
        [(is_complete,)] = self.warehouse.rows("SELECT is_complete FROM records WHERE name = $name", name=path.stem)[1]
        self.warehouse.link(asked.name, path.stem)
        return path if is_complete else None


def say_phases(asked: Asked) -> None:
    """Set the phases of a capture's runs, by `phase_of`."""
    runs = len(asked.dump.runs)
    for phase in ("prefill", "decode"):
        output = [str(run) for run in range(runs) if phase_of(run, runs) == phase]
        if output:
            asked.warehouse.phase(asked.name, phase, runs=",".join(output))
