"""What events of devices waited for, on arrays: cases by hand, searches by plain Python, and times at the ends of 64 bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from etq.ingest.trace import waits
from etq.ingest.trace.classes import Class, classified
from etq.ingest.trace.launches import calls_of
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import KINDS, OfDevices, Waits, waits_of

US = 1000
GREATEST = 4_600_000_000_000_000_000
LAUNCH = ("cuda_runtime", "cudaLaunchKernel")
WAIT = ("cuda_runtime", "cudaStreamWaitEvent")
KERNEL = ("kernel", "k")
RECORD = ("cuda_sync", "Stream Wait Event")


def called(made: Made) -> npt.NDArray[np.int64]:
    """The call of each slice; all processes are of one rank."""
    places = (made.kind, made.start, made.elapsed, made.correlation, made.process, np.zeros_like(made.process))
    return calls_of(made.classes, *places)


@dataclass
class Made:
    """A trace's slices, written one by one; times in nanoseconds."""

    kinds: list[tuple[str, str]] = field(
        default_factory=lambda: [LAUNCH, WAIT, KERNEL, RECORD, ("cuda_sync", "Event Sync")]
    )
    rows: list[tuple[int, ...]] = field(default_factory=list)

    def write(
        self, kind: tuple[str, str], start: int, end: int, correlation: int = 0, *of_device: int, process: int = 0
    ) -> int:
        """`of_device` are the device, the stream, and the stream and id of the record that it waits for."""
        given = (*of_device, *[NONE] * (4 - len(of_device)))
        self.rows.append((self.kinds.index(kind), start, end - start, correlation, process, *given))
        return len(self.rows) - 1

    def launch(self, call: int, start: int, end: int, stream: int, device: int = 0) -> int:
        """Write a kernel with its call, which takes 2 us; return the kernel's row."""
        number = len(self.rows) + 1
        self.write(LAUNCH, call, call + 2 * US, number)
        return self.write(KERNEL, start, end, number, device, stream)

    @property
    def classes(self) -> list[Class]:
        return classified(self.kinds)

    def __getattr__(self, name: str) -> Any:
        columns = ("kind", "start", "elapsed", "correlation", "process", "device", "stream", "wait_stream", "wait_id")
        if name == "at":
            return np.arange(len(self.rows))
        return np.array(self.rows, np.int64).reshape(-1, len(columns))[:, columns.index(name)]

    def waits(self) -> Waits:
        """What each slice waited for; -1 for those of the host."""
        call = called(self)
        row = np.flatnonzero(np.array([each.on_device for each in self.classes])[self.kind])
        given = (self.device, self.stream, self.wait_stream, self.wait_id)
        found = waits_of(self, call, OfDevices(row, *(each[row] for each in given)))
        every = Waits(*(np.full(len(self.rows), NONE) for _ in found))
        for one, values in zip(every, found, strict=True):
            one[row] = values
        return every

    def kind_of(self, row: int) -> tuple[str, int]:
        found = self.waits()
        return KINDS[found.kind[row]], found.event[row]


def test_launch_and_stream() -> None:
    made = Made()
    first = made.launch(0, 5 * US, 50 * US, 7)
    second = made.launch(10 * US, 51 * US, 60 * US, 7)
    late = made.launch(100 * US, 200 * US, 210 * US, 7)
    queued = made.launch(110 * US, 400 * US, 410 * US, 7)
    assert made.kind_of(first) == ("launch_delay", NONE)
    assert made.kind_of(second) == ("stream_delay", first)
    assert made.kind_of(late) == ("unknown_wait", NONE)
    assert made.kind_of(queued) == ("unknown_wait", late)
    assert set(made.waits().latency[[first, second, late]]) == {10_000}


@pytest.mark.parametrize(("delay", "latency"), [(3, 10_000), (20, 42_000), (500, 100_000)])
def test_latency_is_twice_the_median(delay: int, latency: int) -> None:
    """Of five kernels that find their device idle, after `delay` us or one more; 10 us at least, 100 at most."""
    made = Made()
    for number in range(6):
        at = 1000 * US * number
        made.launch(at, at + (delay + number % 2) * US, at + 900 * US, 7)
    other = made.launch(0, 1, 2, 7, device=1)
    found = made.waits().latency
    assert (found[1], found[other]) == (latency, 10_000)


def test_records() -> None:
    """A stream waits by a record before the next launch in it; the host, for what was launched before the record."""
    made = Made()
    before = made.launch(0, 10 * US, 100 * US, 20)
    made.write(LAUNCH, 5 * US, 6 * US, 900)
    after = made.launch(7 * US, 100 * US, 300 * US, 20)
    made.write(WAIT, 20 * US, 21 * US, 901)
    made.write(RECORD, 21 * US, 21 * US, 901, 0, 7, 20, 900)
    waiting = made.launch(30 * US, 101 * US, 120 * US, 7)
    made.launch(32 * US, 121 * US, 130 * US, 7)
    made.write(LAUNCH, 140 * US, 350 * US, 902)
    host = made.write(("cuda_sync", "Event Sync"), 141 * US, 349 * US, 902, 0, 7, 20, 900)
    found = made.waits()
    assert made.kind_of(waiting) == ("dependency", before)
    assert made.kind_of(host) == ("synchronization", before)
    assert [*np.flatnonzero(found.recorded != NONE)] == [waiting] and found.recorded[waiting] == before
    assert made.kind_of(after) == ("stream_delay", before)
    assert not found.is_inferred[waiting]


@pytest.mark.parametrize("seed", range(8))
def test_last_below_by_plain_python(seed: int) -> None:
    random = Random(seed)
    count = random.choice([1, 2, 3, 5, 8, 33])
    values = [random.randrange(count) for _ in range(count)]
    owner = [random.randrange(3) for _ in range(count)]
    asked = [(random.randrange(count + 1), random.randrange(count + 1), random.randrange(4)) for _ in range(50)]
    expected = [
        max((at for at in range(before) if values[at] < limit and owner[at] != without), default=NONE)
        for before, limit, without in asked
    ]
    found = waits._last_below(np.array(values), np.array(owner), *np.array(asked).T)
    assert found.tolist() == expected


@pytest.mark.parametrize("seed", range(8))
def test_last_of_other_streams_by_plain_python(seed: int) -> None:
    """As `_last_of_others` is documented: of each other stream the last that was launched until a time, or had ended."""
    random = Random(seed)
    made = Made()
    for _ in range(random.randrange(1, 40)):
        launch, start = sorted(random.sample(range(60), 2))
        made.launch(launch, start, start + random.randrange(1, 30), random.randrange(4))
    call = called(made)
    rows = np.flatnonzero(made.kind == 2)
    given = (made.device, made.stream, made.wait_stream, made.wait_id)
    work, _ = waits._work_and_records(made, call, OfDevices(rows, *(each[rows] for each in given)))
    held = [*zip(work.stream.tolist(), work.called.tolist(), work.end.tolist(), range(len(rows)), strict=True)]
    asked = [(random.randrange(4), random.randrange(60), random.randrange(90)) for _ in range(40)]
    expected = []
    for stream, launched, until in asked:
        found = []
        for other in {each[0] for each in held} - {stream}:
            reached = [end for of, at, end, _ in held if of == other and at <= launched]
            ended = [end for of, _, end, _ in held if of == other and end <= until]
            if reached and ended:
                end = min(max(reached), max(ended))
                found.append((end, max(place for of, _, at, place in held if (of, at) == (other, end))))
        expected.append(max(found)[1] if found else NONE)
    assert waits._last_of_others(work, *np.array(asked).T).tolist() == expected


def test_times_at_the_ends_of_64_bits() -> None:
    """Differences of such times fit 64 bits, twice these don't."""
    made = Made()
    made.write(LAUNCH, -GREATEST, GREATEST, 1)
    first = made.write(KERNEL, GREATEST - 10, GREATEST, 1, 2**31 - 1, 2**63 - 1)
    made.write(LAUNCH, -GREATEST, -GREATEST, 2)
    second = made.write(KERNEL, GREATEST - 1, GREATEST, 2, 0, 0)
    made.write(WAIT, -GREATEST, GREATEST, 2**63 - 1)
    made.write(RECORD, GREATEST, GREATEST, 2**63 - 1, 0, -(2**63), 2**63 - 1, 2**63 - 1)
    with np.errstate(all="raise"):
        assert made.kind_of(first) == ("launch_delay", NONE)  # the call took longer
        assert made.kind_of(second) == ("unknown_wait", NONE)
        assert made.waits().latency[second] == 10_000
