"""Whether a warehouse goes on as it began: events and captures by the million and thousand, memory and file over time.

    python -m tests.benchmarks.soak                                 # 10 million events, then 10,000 captures
    python -m tests.benchmarks.soak --events 100000 --captures 200
    python -m tests.benchmarks.soak --svg soak.svg                  # and a picture, with matplotlib

One process puts files of a million events each (or fewer) into a warehouse, then small captures one by one, and closes and
opens the warehouse every 1000. What it holds in memory is by the system's accounting, the file with its log.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import etq
from tests.benchmarks import make_dump
from tests.sharing.captures import ingest_one

COLUMNS: Final = 60
HEIGHT: Final = 10


@dataclass(frozen=True)
class Sample:
    """What there was at a moment: seconds since the start, events and captures stored, megabytes."""

    seconds: float
    events: int
    captures: int
    memory: float
    file: float


def soak(folder: Path, events: int, captures: int) -> list[Sample]:
    """Fill a warehouse, and take samples: one behind each large file, and a hundred among the captures."""
    path, start = folder / "lab.duckdb", time.perf_counter()
    samples: list[Sample] = []
    stored, count = 0, 0

    def sample() -> None:
        size = sum(each.stat().st_size for each in folder.glob("lab.duckdb*"))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        samples.append(Sample(time.perf_counter() - start, stored, count, memory, size / 2**20))

    each_file = min(events, 1_000_000)
    for number in range(-(-events // each_file)):
        source = folder / f"large{number}.etdp"
        # Each a little larger than the one before: the same content would be the same capture.
        stored += make_dump.write(source, each_file + 1000 * number)
        with etq.open(path) as warehouse:
            warehouse.ingest(source)
        source.unlink()
        sample()
    for first in range(0, captures, 1000):
        with etq.open(path) as warehouse:
            for count in range(first + 1, min(first + 1000, captures) + 1):
                ingest_one(warehouse, 2000 + count)
                if count % max(1, captures // 100) == 0:
                    sample()
    return samples


def drawn(title: str, samples: list[Sample], values: list[float]) -> str:
    """A plot in text: a column for each part of the time, as high as the largest value within."""
    end, most = samples[-1].seconds, max(values)
    columns = [0.0] * COLUMNS
    for sample, value in zip(samples, values, strict=True):
        at = min(COLUMNS - 1, int(sample.seconds / end * COLUMNS))
        columns[at] = max(columns[at], value)
    for at in range(1, COLUMNS):
        columns[at] = columns[at] or columns[at - 1]
    lines = [
        f"{most * row / HEIGHT:10.0f} |"
        + "".join("#" if value > most * (row - 0.5) / HEIGHT else " " for value in columns)
        for row in range(HEIGHT, 0, -1)
    ]
    return "\n".join([title, *lines, f"{0:10} +{'-' * COLUMNS}", f"{'':12}0 s{f'{end:.0f} s':>{COLUMNS - 3}}"])


def write_svg(samples: list[Sample], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots(2, sharex=True)
    seconds = [each.seconds for each in samples]
    axes[0].plot(seconds, [each.memory for each in samples])
    axes[0].set_ylabel("resident memory, MB")
    axes[1].plot(seconds, [each.file for each in samples])
    axes[1].set_ylabel("file, MB")
    axes[1].set_xlabel("seconds")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--captures", type=int, default=10_000)
    parser.add_argument("--svg", metavar="FILE")
    given = parser.parse_args()
    if given.svg and find_spec("matplotlib") is None:
        parser.error("--svg needs matplotlib")  # rather now than in a quarter of an hour
    with tempfile.TemporaryDirectory() as folder:
        samples = soak(Path(folder), given.events, given.captures)
    print(drawn("resident memory, MB", samples, [each.memory for each in samples]))
    print(drawn("file, MB", samples, [each.file for each in samples]))
    large = [each for each in samples if each.captures == 0]
    small = [each for each in samples if each.captures > 0]
    if large:
        print(f"{large[-1].events:,} events: {large[-1].file * 2**20 / large[-1].events:.1f} bytes each")
    if len(small) > 1:
        began, ended = small[0], small[-1]
        per_capture = (ended.file - began.file) * 1024 / (ended.captures - began.captures)
        print(
            f"{ended.captures:,} captures: {per_capture:.1f} kB each, {ended.memory - began.memory:+.0f} MB of memory"
        )
    if given.svg:
        write_svg(samples, given.svg)


if __name__ == "__main__":
    main()
