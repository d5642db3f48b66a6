"""Many captures of different content: real ones, the last end of each moved by some ticks.

python -m tests.benchmarks.make_captures tests/captures/fleet FOLDER NUMBER
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import etq


def make_captures(captures: Path, folder: Path, number: int) -> None:
    """Write `number` files into a new folder, of all captures below `captures` in turn."""
    folder.mkdir()
    with etq.open() as warehouse:
        files = sorted(captures.glob("*/*.etdp"))
        warehouse.ingest_many(files)
        query = "SELECT c.sha256, max(e.end_ticks) FROM captures AS c JOIN events AS e USING (capture_id) GROUP BY 1"
        ends = {sha256: int(end) for sha256, end in warehouse.rows(query)[1]}
    for index in range(number):
        path = files[index % len(files)]
        content = path.read_bytes()
        end = ends[hashlib.sha256(content).hexdigest()]
        before, found, after = content.partition(end.to_bytes(8, "little"))
        if not found:
            raise SystemExit(f"{path}: has no end at {end}")
        later = (end + index // len(files)).to_bytes(8, "little")
        (folder / f"{index:06}.etdp").write_bytes(before + later + after)


if __name__ == "__main__":
    make_captures(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
