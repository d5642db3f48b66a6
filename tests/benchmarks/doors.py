"""What each command and view that reads captures takes, from a file and from a warehouse; and what grows too fast.

    python -m tests.benchmarks.doors                              # dumps, GPU traces and a fleet, up to 1 million events
    python -m tests.benchmarks.doors --short                      # small inputs: status 1 if anything grows too fast
    python -m tests.benchmarks.doors --kinds dump --doors warehouse ops op_totals
    python -m tests.benchmarks.doors --kinds fleet --captures 10000

Each call is a process of its own; with --short, views are asked in this process, and a process of its own decides on
those that seem to grow. Growth is judged by CPU time, as machines are shared, and between two sizes of the same run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.door_calls import Call, command_calls, view_calls
from tests.benchmarks.door_inputs import KINDS, Cost, Input, Runner, asked, make

# How many times as much CPU time an event may take in the large input as in the small one; linear is 1.
GROWTH: Final = 2.2
# How many times as much CPU time as the cheapest call of its group a call may take until it is marked.
DEAR: Final = 3.0
# Error of CPU times: seconds, and a share of what the least input takes. That of the small input counts as often as the
# large one is larger.
NOISE: Final = 0.025
SHARE_OF_NOISE: Final = 0.06
ROUNDS: Final = 5
# CPU seconds: calls that take longer are not repeated, as noise is small against that.
REPEATED: Final = 60.0
# Sizes by kind: one that shows what a call takes without events, a small and a large one.
LONG: Final = {"dump": (100, 10_000, 1_000_000), "trace": (100, 120_000, 1_000_000), "fleet": (20, 1_000, 10_000)}
SHORT: Final = {"dump": (100, 5_000, 20_000), "trace": (100, 5_000, 20_000), "fleet": (20, 50, 140)}
DOORS: Final = ("file", "warehouse")
# A view that needs a record has no rows or raises an error without one, depending on the number of captures.
NO_RECORD: Final = "has no record"

Three = tuple[Cost, Cost, Cost]


@dataclass(frozen=True)
class Line:
    """A call on inputs of one kind: what it took on the least, the small and the large one."""

    call: Call
    kind: str
    door: str
    sizes: tuple[int, int, int]
    costs: Three

    @property
    def growth(self) -> float | None:
        """How many times as long an event takes in the large input; None if too little was measured."""
        if self.costs[1] is self.costs[2]:
            return None
        work = [each.cpu - self.costs[0].cpu for each in self.costs[1:]]
        return None if min(work) < noise(self.costs[0].cpu) else work[1] / work[0] / ratio(self.sizes)

    @property
    def failure(self) -> str | None:
        return next((each.failure for each in self.costs if each.failure is not None), None)

    @property
    def is_too_fast(self) -> bool:
        return self.failure is None and _is_suspect(self.sizes, self.costs)


def ratio(sizes: Sequence[int]) -> float:
    """How many times as much there is to do in the large input as in the small one, without what the least has."""
    least, small, large = sizes
    return (large - least) / (small - least)


def noise(least: float) -> float:
    return NOISE + SHARE_OF_NOISE * least


def grows_too_fast(sizes: Sequence[int], seconds: Sequence[float]) -> bool:
    """Whether an event takes more than `GROWTH` times as long in the large input: CPU times at least, small, large."""
    least, small, large = seconds
    return large - least > ratio(sizes) * (GROWTH * max(small - least, 0) + noise(least))


def measured(
    sizes: tuple[int, int, int], take: Callable[[int], Cost], start: float | None = None, rounds: int = ROUNDS
) -> Three | None:
    """The costs of the least, the small and the large input, by `take`.

    None if the call has no answer for the least, or for the same reason none for the small and the large one.
    What grows too fast is measured again, until it doesn't in one round: of all rounds, the least CPU time counts. With
    `start`, the CPU seconds that all calls take at least, the large input alone is measured where that leaves too
    little to judge.
    """
    large = take(2)
    if start is not None and large.failure is None and is_little(sizes, start, large.cpu):
        return large, large, large
    least = take(0)
    if least.failure is not None:
        return None
    if start is not None and large.failure is None and is_little(sizes, least.cpu, large.cpu):
        return least, large, large
    costs: Three = (least, take(1), large)
    if large.failure is not None and (costs[1].failure == large.failure or NO_RECORD in large.failure):
        return None
    for _ in range(rounds - 1):
        if any(each.failure is not None or each.cpu > REPEATED for each in costs) or not _is_suspect(sizes, costs):
            break
        again = take(0), take(1), take(2)
        if all(each.failure is None for each in again) and not _is_suspect(sizes, again):
            # Measured one after the other: a machine whose speed changes makes the least times of rounds differ.
            return again
        first, second, third = (
            min(each, other, key=lambda cost: cost.cpu) if other.failure is None else each
            for each, other in zip(costs, again, strict=True)
        )
        costs = first, second, third
    return costs


def _is_suspect(sizes: Sequence[int], costs: Three) -> bool:
    return grows_too_fast(sizes, [each.cpu for each in costs])


def is_little(sizes: Sequence[int], least: float, large: float) -> bool:
    """Whether the additional time of the large input can't be distinguished from noise."""
    return large - least <= ratio(sizes) * noise(least)


class Doors:
    """Measures calls, and collects what was found."""

    def __init__(self, runner: Runner, *, is_short: bool) -> None:
        self.runner, self.is_short = runner, is_short
        self.lines: list[Line] = []
        self.answered: set[str] = set()
        self.asked: dict[str, str] = {}
        self.start: float | None = None

    def measure(self, inputs: Sequence[Input], calls: Sequence[Call], doors: Sequence[str]) -> None:
        """Measure calls on three inputs of a kind, and print a table of each group."""
        kind = inputs[0].kind
        for of_views in (False, True):
            for door in doors:
                chosen = [
                    call
                    for call in calls
                    if call.is_view == of_views
                    and (call.takes_many or kind != "fleet")
                    and (call.takes_db if door == "warehouse" else inputs[0].files and not of_views)
                ]
                if self.is_short and door == "file":
                    chosen = chosen[::2]  # in CI, where all are measured from the warehouse
                self.start = None
                lines, rest = self._lines_of_views(inputs, chosen) if of_views and self.is_short else ([], chosen)
                lines += [line for call in rest for line in self._lines(inputs, call, door)]
                self.lines += lines
                if lines and not self.is_short:
                    print_table(lines)

    def _lines_of_views(self, inputs: Sequence[Input], calls: Sequence[Call]) -> tuple[list[Line], list[Call]]:
        """What views take in this process, where there is little to measure besides; and those that seem to grow or fail."""
        lines: list[Line] = []
        rest: list[Line] = []
        with ExitStack() as stack:
            opened = [stack.enter_context(each.opened()) for each in inputs]
            for call in calls:

                def take(place: int, call: Call = call) -> Cost:
                    cost = asked(opened[place], inputs[place].command_line(call, of_file=False)[1])
                    self.asked[call.title] = cost.failure or ""
                    return cost

                costs = measured(sizes_of(inputs), take, start=0, rounds=1)
                if costs is None:
                    continue
                line = Line(call, inputs[0].kind, "warehouse", sizes_of(inputs), costs)
                (rest if line.failure or line.is_too_fast else lines).append(line)
        self.answered |= {line.call.title for line in lines}
        return lines, [line.call for line in rest]

    def _lines(self, inputs: Sequence[Input], call: Call, door: str) -> list[Line]:
        sizes = sizes_of(inputs)
        self.asked.setdefault(call.title, "")
        # With the record only if the call fails without it.
        can_have_record = call.takes_record and door == "file" and inputs[0].kind == "dump"
        for with_record in (False, True) if can_have_record else (False,):
            last: list[str] = []

            def take(place: int, with_record: bool = with_record, last: list[str] = last) -> Cost:
                line = inputs[place].command_line(call, of_file=door == "file", with_record=with_record)
                cost = self.runner.run(line, inputs[place].folder)
                if place == 0 and cost.failure is None and self.is_short:
                    self.start = cost.cpu if self.start is None else min(self.start, cost.cpu)
                last[:] = [cost.failure or ""]
                return cost

            # CPU seconds that each call of a group takes at least: the cheapest so far, of the least input.
            if self.is_short and self.start is None:
                take(0)
            costs = measured(sizes, take, (self.start or 0.0) if self.is_short else None)
            if costs is not None:
                self.answered.add(call.title)
                return [Line(call, inputs[0].kind, door, sizes, costs)]
            self.asked[call.title] = last[0]
        return []

    def measure_ingest(self, inputs: Sequence[Input]) -> None:
        """Measure the ingest of each input's file into a new warehouse."""
        if not inputs[0].ingest:
            return

        def take(place: int) -> Cost:
            inputs[place].ingested.unlink(missing_ok=True)
            return self.runner.run(inputs[place].ingest, inputs[place].folder)

        sizes = sizes_of(inputs)
        costs = measured(sizes, take)
        assert costs is not None, "a file that is in the warehouse can be ingested"
        self.lines.append(Line(Call("ingest", ("ingest",)), inputs[0].kind, "new warehouse", sizes, costs))
        if not self.is_short:
            print_table(self.lines[-1:])


def sizes_of(inputs: Sequence[Input]) -> tuple[int, int, int]:
    least, small, large = (each.size for each in inputs)
    return least, small, large


def print_table(lines: Sequence[Line]) -> None:
    """A line per call, the dearest first."""
    first = lines[0]
    sizes = " and ".join(f"{size:,}" for size in first.sizes[1:])
    unit = "captures" if first.kind == "fleet" else "events"
    print(f"\n{first.kind}, {sizes} {unit}, {first.door}, {'views' if first.call.is_view else 'commands'}")
    print(f"{'':36}{'CPU s':>9}{'CPU s':>9}{'wall s':>9}{'MB':>8}{'MB':>8}{'growth':>8}")
    cheapest = min(each.costs[2].cpu for each in lines)
    for line in sorted(lines, key=lambda line: -line.costs[2].cpu):
        print(described(line, cheapest), flush=True)


def described(line: Line, cheapest: float) -> str:
    """A call's line: CPU time, peak memory of small and large input, wall time of the large one, growth, and marks."""
    _, small, large = line.costs
    measured_small = f"{small.cpu:.2f}" if small is not large else ""
    growth = "" if line.growth is None else f"{line.growth:.2f}"
    dear = f"{large.cpu / cheapest:.0f} times the cheapest" if large.cpu > DEAR * cheapest else ""
    marks = ("GROWS TOO FAST" if line.is_too_fast else "", dear, line.failure or "")
    times = f"{measured_small:>9}{large.cpu:9.2f}{large.wall:9.2f}{small.peak_mb:8.0f}{large.peak_mb:8.0f}"
    return f"{line.call.title:36}{times}{growth:>8}  {', '.join(filter(None, marks))}".rstrip()


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these commands and views")
    parser.add_argument("--short", action="store_true", help="small inputs; exit with 1 if anything grows too fast")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of inputs [%(default)s]")
    parser.add_argument("--doors", default=",".join(DOORS), help="from where captures are read [%(default)s]")
    parser.add_argument("--events", type=int, nargs=2, metavar=("SMALL", "LARGE"), help="events of dumps and traces")
    parser.add_argument("--captures", type=int, metavar="LARGE", help="captures of the large fleet; the small: a tenth")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a call is ended [%(default)g]")
    options = parser.parse_args(arguments)
    for name, known in (("kinds", KINDS), ("doors", DOORS)):
        setattr(options, name, getattr(options, name).split(","))
        if unknown := set(getattr(options, name)) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))}: not one of {', '.join(known)}")
    return options


def sizes_asked(kind: str, options: argparse.Namespace) -> tuple[int, int, int]:
    sizes = (SHORT if options.short else LONG)[kind]
    if kind == "fleet":
        return sizes if options.captures is None else (sizes[0], options.captures // 10, options.captures)
    return sizes if options.events is None else (sizes[0], *options.events)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    every = [*command_calls(), *view_calls()]
    calls = [each for each in every if not options.names or each.names & set(options.names)]
    doors = Doors(Runner(forks=options.short, limit=options.limit), is_short=options.short)
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds:
            inputs = [
                make(kind, size, Path(folder) / f"{kind}{size}", doors.runner) for size in sizes_asked(kind, options)
            ]
            doors.measure_ingest(inputs)
            doors.measure(inputs, calls, options.doors)
    return report(doors, is_whole=not options.names and set(options.kinds) == set(KINDS))


def report(doors: Doors, *, is_whole: bool) -> int:
    """Print what grows too fast or fails, and the slowest; the exit status."""
    slowest = sorted(doors.lines, key=lambda line: -line.costs[2].cpu)[:10]
    found = [line for line in doors.lines if line.is_too_fast or line.failure is not None]
    for title, lines in (("The slowest", slowest), ("Growing too fast, or failing", found)):
        print(f"\n{title}: {'' if lines else 'none'}")
        for line in lines:
            print(f"{line.kind:6}{line.door:14}{described(line, float('inf'))}")
    silent = {name: why for name, why in doors.asked.items() if is_whole and name not in doors.answered}
    for name, why in silent.items():
        print(f"no answer on any input: {name}: {why}")
    print(f"\n{len(doors.lines)} calls measured, {sum(os.times()[:4]):.0f} s of CPU time in all")
    return 1 if found or silent else 0


if __name__ == "__main__":
    sys.exit(main())
