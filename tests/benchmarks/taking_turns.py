"""How long commands wait for a warehouse that others read and write all the time.

    python -m tests.benchmarks.taking_turns                             # four readers and two writers, for 20 seconds
    python -m tests.benchmarks.taking_turns --readers 8 --seconds 60

Each reader opens the warehouse, asks for its captures and closes it, again and again with 50 ms between; each writer does
so with a label. What is measured is the time to open it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import etq

CAPTURE: Final = Path(__file__).parents[1] / "captures" / "mlp" / "mlp.etdp"
PAUSE: Final = 0.05
COMMAND: Final = """
import json, sys, time
import etq
path, is_reader, seconds, pause = sys.argv[1], sys.argv[2] == "reader", float(sys.argv[3]), float(sys.argv[4])
end = time.monotonic() + seconds
times, failed = [], []
while time.monotonic() < end:
    start = time.monotonic()
    try:
        with etq.open(path, read_only=is_reader) as warehouse:
            times.append(time.monotonic() - start)
            if is_reader:
                warehouse.rows("FROM capture_summary")
            else:
                warehouse.label("mlp", turn=str(len(times)))
    except etq.EtqError as error:
        failed.append(str(error))
    time.sleep(pause)
print(json.dumps([times, failed]))
"""


@dataclass(frozen=True)
class Turns:
    """Times to open a warehouse, in seconds, and errors."""

    times: list[float]
    failed: list[str]

    @property
    def median(self) -> float:
        """The median time; that of a command that never got in is infinite."""
        return statistics.median(self.times or [float("inf")])


def measured(path: Path, readers: int, writers: int, seconds: float) -> tuple[Turns, Turns]:
    """The times of readers and of writers of a warehouse."""
    kinds = ["reader"] * readers + ["writer"] * writers
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(path), kind, str(seconds), str(PAUSE)], stdout=subprocess.PIPE
        )
        for kind in kinds
    ]
    results = [json.loads(process.communicate()[0]) for process in processes]
    reading, writing = (
        Turns(
            [time for result, of in zip(results, kinds, strict=True) if of == kind for time in result[0]],
            [text for result, of in zip(results, kinds, strict=True) if of == kind for text in result[1]],
        )
        for kind in ("reader", "writer")
    )
    return reading, writing


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.duckdb"
        with etq.open(path) as warehouse:
            warehouse.ingest(CAPTURE)
        both = measured(path, options.readers, options.writers, options.seconds)
    for kind, turns in zip(("readers", "writers"), both, strict=True):
        longest = max(turns.times, default=float("inf"))
        print(f"{kind}: {len(turns.times)} times, median {turns.median:.2f} s, longest {longest:.2f} s")
        for text in turns.failed:
            print(f"  failed: {text}")


if __name__ == "__main__":
    main()
