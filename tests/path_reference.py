"""Critical paths by plain Python over a trace's JSON, walked back from the end one wait at a time; slow, without etq."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple

from tests.call_reference import kind, waits
from tests.pairs.json_traces import WORK, Slice
from tests.pass_reference import pass_of
from tests.trace_reference import launches, slices

DELAY: Final = 10_000
LONGEST: Final = 100_000
Thread = tuple[str, str]


class Part(NamedTuple):
    """A part of the path: its kind, its times in nanoseconds, the event's position in the file, and the name of the op."""

    kind: str
    start: int
    end: int
    place: int | None
    op: str | None


@dataclass
class Wait:
    """The event of a device or the thread for which a moment of a thread, or a device event, waited."""

    kind: str
    at: int
    since: int
    event: Slice
    source: Slice | Thread


def last_ended(ends: list[Slice], at: int) -> Slice | None:
    """The last of events, in the order of their ends, that ended until a time."""
    place = bisect_right(ends, at, key=lambda each: each.end)
    return ends[place - 1] if place else None


def without_first_wait(parts: list[Part]) -> list[Part]:
    """Without what is before the first device event, if nothing is known of what that waited for most of the time."""
    kinds = {of.lower() for of in WORK.values()}
    first = next((place for place, each in enumerate(parts) if each.kind in kinds), 0)
    wait = parts[first - 1] if first else None
    if wait is None or not wait.kind.startswith("unknown"):
        return parts
    return parts[first:] if 2 * (wait.end - wait.start) > wait.end - parts[0].start else parts


class Paths:
    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.every = slices(events)
        self.calls = launches(self.every)
        self.work = [each for each in self.calls if each.end > each.start]
        self.asking: dict[Thread, bool] = {}
        self.ends = sorted(self.work, key=lambda each: (each.end, each.place))
        self.in_stream: defaultdict[Any, list[Slice]] = defaultdict(list)
        for each in self.ends:
            self.in_stream[each.stream].append(each)
        self.streams_of: dict[Slice, tuple[Any, Any]] = {}
        self.sources = self.waited_for()
        self.synchronized = dict[Slice, Slice]()
        for call, source in self.recorded("Event Sync"):
            before = self.synchronized.get(call, source)
            self.synchronized[call] = max((source, before), key=lambda one: (one.end, one.place))
        launched = Counter(by for each in self.work if (by := self.calls[each]) is not None)
        self.of_graphs = {each for each in self.work if launched[self.calls[each]] > 1}  # type: ignore[index]
        self.has_records = any(
            each.category == "cuda_sync" and each.arguments.get("wait_on_cuda_event_record_corr_id", -1) > 0
            for each in self.every
        )
        self.first_launches: dict[Any, int] = {}
        for each, by in self.calls.items():
            if by is not None:
                key = each.stream
                self.first_launches[key] = min(by.start, self.first_launches.get(key, by.start))
        self.called = {} if self.has_records else self.after_calls()
        self.latencies = self.measured(launched)
        self.hosts: defaultdict[Thread, list[Slice]] = defaultdict(list)
        for each in self.every:
            if not each.is_device and each.end > each.start:
                self.hosts[each.thread].append(each)
        self.of_ids: dict[int, Slice] = {}
        for each in self.every:
            if each.is_op and each.external > 0:
                self.of_ids.setdefault(each.external, each)

    def recorded(self, name: str) -> list[tuple[Slice, Slice]]:
        """Records of waits for a CUDA event: the call that waits, and the last event launched before that was recorded."""
        called: defaultdict[int, list[Slice]] = defaultdict(list)
        for each in self.every:
            if each.is_call:
                called[each.correlation].append(each)
        found = []
        for each in self.every:
            stream, number = (
                each.arguments.get(key, -1) for key in ("wait_on_stream", "wait_on_cuda_event_record_corr_id")
            )
            if each.category != "cuda_sync" or each.name != name or stream < 0 or number <= 0:
                continue
            held = [one for one in called[each.correlation] if one.start <= each.end]
            call = max(held, key=lambda one: one.start)
            record = max((one for one in called[number] if one.start <= call.start), key=lambda one: one.start)
            before = [
                one for one in self.in_stream[each.arguments.get("device"), stream]
                if (by := self.calls[one]) is not None and by.start <= record.start
            ]  # fmt: skip
            if before:
                last = max(self.calls[one].start for one in before)  # type: ignore[union-attr]
                ended = [one for one in before if self.calls[one].start == last]  # type: ignore[union-attr]
                self.streams_of[call] = each.stream
                found.append((call, ended[-1]))
        return found

    def waited_for(self) -> dict[Slice, Slice]:
        """By device event, the one for which its stream has a recorded wait."""
        found: dict[Slice, Slice] = {}
        for call, source in self.recorded("Stream Wait Event"):
            later = [
                one for one in self.in_stream[self.streams_of[call]]
                if (by := self.calls[one]) is not None and by.start >= call.start
            ]  # fmt: skip
            if later:
                first = min(later, key=lambda one: (self.calls[one].start, one.start, one.place))  # type: ignore[union-attr]
                found[first] = max((source, found.get(first, source)), key=lambda one: (one.end, one.place))
        return found

    def after_calls(self) -> dict[Slice, Slice | None]:
        """By device event launched after a call that lets a stream wait, what it may have waited for, if anything."""
        calls = [each for each in self.every if each.is_call and kind(each.name) == "stream_wait"]
        found: dict[Slice, Slice | None] = {}
        for stream, held in self.in_stream.items():
            groups: defaultdict[tuple[int, str], list[Slice]] = defaultdict(list)
            for each in held:
                if (by := self.calls[each]) is not None:
                    groups[by.start, by.process].append(each)
            previous: int | None = None
            for (at, process), of_call in sorted(groups.items()):
                before = [each.start for each in calls if each.process == process and each.start <= at]
                if before and (previous is None or max(before) >= previous):
                    first = min(of_call, key=lambda one: (one.start, one.place))
                    found[first] = self.last_before(first, max(before), stream)
                previous = at
        return found

    def last_before(self, event: Slice, wait: int, stream: Any) -> Slice | None:
        """Of the other streams' last events that were launched before a wait, or had ended, the last to end."""
        found = []
        for other, held in self.in_stream.items():
            launched = [each for each in held if (by := self.calls[each]) is None or by.start <= wait]
            ended = [each for each in held if each.end <= event.start]
            if other != stream and launched and ended:
                end = min(max(each.end for each in some) for some in (launched, ended))
                found.append(max((each for each in held if each.end == end), key=lambda one: one.place))
        return max(found, key=lambda one: (one.end, one.place), default=None)

    def measured(self, launched: Counter[Slice]) -> dict[Any, int]:
        """Twice the median time that each device needs to start an event that nothing holds back."""
        started: defaultdict[Any, list[int]] = defaultdict(list)
        waited: defaultdict[Any, list[int]] = defaultdict(list)
        idle: dict[Any, int] = {}
        for each in sorted(self.work, key=lambda one: (one.start, one.place)):
            device, stream, call = each.arguments.get("device"), each.stream, self.calls[each]
            if call is not None:
                free, source = idle.get(stream), self.called.get(each)
                if (
                    WORK[each.category] == "Kernel"
                    and launched[call] == 1
                    and device in idle
                    and idle[device] <= call.start <= each.start
                ):
                    started[device].append(each.start - call.start)
                if source is not None and source.end > max(call.start, free or 0):
                    waited[device].append(each.start - source.end)
            for key in (device, stream):
                idle[key] = max(each.end, idle.get(key, each.end))
        found = {}
        for device in {each.arguments.get("device") for each in self.work}:
            medians = [median(held) for held in (started[device], waited[device]) if len(held) >= 5]
            found[device] = max(min(int(2 * max(medians, default=0)), LONGEST), DELAY)
        return found

    def awaited(self, each: Slice) -> tuple[Slice | None, bool]:
        """The event for which a device event's stream has a recorded wait, or a call for one; and whether it is a record."""
        if each in self.sources:
            return self.sources[each], True
        source = self.called.get(each)
        is_near = source is not None and each.start - source.end <= self.latency(each)
        return (source if is_near else None), False

    def latency(self, each: Slice) -> int:
        return self.latencies.get(each.arguments.get("device"), DELAY)

    def can_infer(self, each: Slice) -> bool:
        """Whether what a device event waited for can only be inferred from times."""
        call = self.calls[each]
        is_unknown = call is None or not self.called or call.start == self.first_launches[each.stream]
        if self.awaited(each)[0] is not None and not self.awaited(each)[1]:
            return False
        return each in self.of_graphs or (not self.has_records and is_unknown)

    def recording(self) -> tuple[int, int]:
        counted = [*self.work, *self.activities(), *self.steps()]
        return min(each.start for each in counted), max(each.end for each in counted)

    def step(self, name: str) -> tuple[int, int]:
        """From the start of an annotation to the end of the last event that was launched in it."""
        held = next(each for each in self.every if each.name == name and not each.is_device)
        ends = [
            each.end for each, call in self.calls.items() if call is not None and held.start <= call.start < held.end
        ]
        return held.start, max([held.end, *ends])

    def steps(self) -> list[Slice]:
        return [
            each for each in self.every
            if each.name.startswith("ProfilerStep#") and not each.is_device and each.end > each.start
        ]  # fmt: skip

    def activities(self, thread: Thread | None = None) -> list[Slice]:
        """Ops and calls that last, of one thread or of all, without threads that only ask the runtime."""
        held = self.every if thread is None else self.hosts[thread]
        return [
            each for each in held if (each.is_op or each.is_call) and each.end > each.start and not self.only_asks(each)
        ]

    def only_asks(self, each: Slice) -> bool:
        """Whether its thread does nothing but ask the runtime."""
        if not self.asking:
            of_threads: defaultdict[Thread, bool] = defaultdict(lambda: True)
            for one in self.every:
                if one.is_op or one.is_call or one.category in WORK or one.name.startswith("ProfilerStep#"):
                    of_threads[one.thread] &= one.is_call and kind(one.name) == "query"
            self.asking = of_threads
        return self.asking[each.thread]

    def last_thread(self, begin: int, until: int, name: str | None) -> Thread | None:
        held = [
            each for each in [*self.activities(), *self.steps(), *(one for one in self.every if one.name == name)]
            if begin < each.end <= until and not each.is_device
        ]  # fmt: skip
        found = min(held, key=lambda each: (-each.end, each.start, each.place), default=None)
        return None if found is None else found.thread

    def find(self, begin: int, until: int, name: str | None = None) -> list[Part]:
        """The path from `begin` to `until`, in the order of time."""
        last = self.last_thread(begin, until, name)
        waits = self.waits(last)
        at = until
        ending = [each for each in self.ends if each.end == until]
        where: Slice | Thread | None = max(ending, key=lambda each: each.place) if ending else last
        found: list[Part] = []
        while at > begin and where is not None:
            if isinstance(where, Slice):
                op = self.op_of_work(where)
                found.append(Part(WORK[where.category].lower(), where.start, at, where.place, op))
                wait = self.before(where)
                if wait is None:
                    found.append(Part("unknown", begin, where.start, where.place, op))
                    break
            else:
                held = [each for each in waits[where] if begin < each.at <= at]
                wait = max(held, key=lambda each: (each.at, each.since, -each.event.place), default=None)
                found += self.host_parts(where, wait.at if wait is not None else begin, at)
                if wait is None:
                    break
                op = self.op_of_host(wait.event)
            found.append(Part(wait.kind, wait.since, wait.at, wait.event.place, op))
            at, where = wait.since, wait.source
        clipped = [each._replace(start=max(each.start, begin)) for each in found]
        whole = sorted((each for each in clipped if each.end > each.start), key=lambda each: each.start)
        return without_first_wait(whole) if name is None else whole

    def before(self, each: Slice) -> Wait | None:
        """The event or thread for which a device event waited."""
        call = self.calls[each]
        launched = None if call is None else min(call.start, each.start)
        previous = last_ended(self.in_stream[each.stream], each.start)
        previous_end = None if previous is None else previous.end
        ready = max((at for at in (launched, previous_end) if at is not None), default=None)
        longest = self.latency(each)
        if call is not None and ready is not None:
            longest = max(longest, 2 * (min(call.end, each.start) - ready))
        is_late = ready is not None and each.start - ready > longest
        is_ahead = launched is not None and previous_end is not None and previous_end >= launched
        source, is_record = self.awaited(each)
        can_wait = is_record or is_ahead or is_late
        if can_wait and source is not None and (ready or 0) < source.end <= each.start:
            return Wait("dependency", each.start, source.end, each, source)
        other = last_ended(self.ends, each.start) if self.can_infer(each) and (call is None or is_late) else None
        if other is not None and each.start - other.end <= self.latency(each) and other.end > (ready or 0):
            return Wait("dependency", each.start, other.end, each, other)
        if is_late and ready is not None:
            is_of_stream = previous is not None and ready == previous_end
            return Wait("unknown_wait", each.start, ready, each, previous if is_of_stream else call.thread)  # type: ignore[arg-type, union-attr]
        if previous is not None and (launched is None or previous.end >= launched):
            return Wait("stream_delay", each.start, previous.end, each, previous)
        if call is None or launched is None:
            return None
        return Wait("launch_delay", each.start, launched, each, call.thread)

    def waits(self, last: Thread | None) -> defaultdict[Thread, list[Wait]]:
        threads = {self.calls[each].thread for each in self.work if self.calls[each] is not None}  # type: ignore[union-attr]
        threads |= set() if last is None else {last}
        found: defaultdict[Thread, list[Wait]] = defaultdict(list)
        for thread in threads:
            for each in self.activities(thread):
                if each.is_call and waits(each.name):
                    self.add_synchronization(found[thread], each)
        for each in self.work:
            call = self.calls[each]
            copies = WORK[each.category] == "Memcpy" and "Pageable" in each.name
            if copies and call is not None and call.start < each.end <= call.end:
                found[call.thread].append(Wait("synchronization", call.end, each.end, call, each))
        self.add_handovers(found, threads)
        return found

    def add_synchronization(self, found: list[Wait], call: Slice) -> None:
        named = [
            each.arguments for each in self.every
            if each.category == "cuda_sync" and each.name.startswith("Stream Sync")
            and each.correlation == call.correlation > 0 and each.arguments.get("stream", -1) >= 0
        ]  # fmt: skip
        ended = [each for each in self.ends if call.start < each.end <= call.end]
        if (source := self.synchronized.get(call)) is not None:
            ended = [each for each in ended if each == source]
        elif len(named) == 1:
            keys = ("device", "stream")
            ended = [
                each for each in ended
                if [each.arguments.get(key) for key in keys] == [named[0].get(key) for key in keys]
            ]  # fmt: skip
        if ended:
            found.append(Wait("synchronization", call.end, ended[-1].end, call, ended[-1]))

    def gaps(self, thread: Thread) -> list[tuple[int | None, Slice]]:
        """What begins when all before it on the thread has ended, with the time when it had."""
        reached: int | None = None
        found = []
        for each in sorted(self.activities(thread), key=lambda one: (one.start, -one.end, one.place)):
            if reached is None or each.start > reached:
                found.append((reached, each))
            reached = max(each.end, reached or each.end)
        return found

    def add_handovers(self, found: defaultdict[Thread, list[Wait]], threads: set[Thread]) -> None:
        has_numbers = any("Sequence number" in each.arguments for held in self.hosts.values() for each in held)
        gaps = {thread: self.gaps(thread) for thread in threads}
        is_backward = {thread: is_of_backward([each for _, each in held], has_numbers) for thread, held in gaps.items()}
        order = {thread: place for place, thread in enumerate(dict.fromkeys(each.thread for each in self.every))}
        for thread, held in gaps.items():
            others = [
                other for other in threads
                if other[0] == thread[0] and is_backward[other] != is_backward[thread]
            ]  # fmt: skip
            ends = sorted((each.end, -order[other], other) for other in others for each in self.activities(other))
            times = [end for end, _, _ in ends]
            for reached, each in held:
                place = bisect_right(times, each.start)
                if place and (reached is None or times[place - 1] > reached):
                    end, _, other = ends[place - 1]
                    found[thread].append(Wait("handover", each.start, end, each, other))

    def host_parts(self, thread: Thread, begin: int, until: int) -> list[Part]:
        held = [each for each in self.hosts[thread] if each.start < until and each.end > begin]
        cuts = sorted({begin, until, *(at for each in held for at in (each.start, each.end) if begin < at < until)})
        waiting = sorted(held, key=lambda each: each.start, reverse=True)
        # The last to start is the innermost, of those the first to end.
        running: list[tuple[int, int, int, Slice]] = []
        found: list[Part] = []
        for start, end in pairwise(cuts):
            while waiting and waiting[-1].start <= start:
                each = waiting.pop()
                heappush(running, (-each.start, each.end, -each.place, each))
            while running and running[0][1] <= start:
                heappop(running)
            innermost = running[0][3] if running else None
            place = None if innermost is None else innermost.place
            op = None if innermost is None else self.op_of_host(innermost)
            if found and place is not None and found[-1].place == place:
                found[-1] = found[-1]._replace(end=end)
            else:
                found.append(Part(self.kind(innermost), start, end, place, op))
        return found

    def kind(self, each: Slice | None) -> str:
        if each is None:
            return "host"
        if each.category in ("python_function", "Python"):
            return "python"
        if each.is_call:
            return "call"
        if each.is_op:
            return "op"
        is_annotation = each.category == "user_annotation" or each.name.startswith("ProfilerStep#")
        return "annotation" if is_annotation else "other"

    def op_of_host(self, each: Slice) -> str | None:
        return next((one.name for one in (each, *each.above()) if one.is_op), None)

    def op_of_work(self, each: Slice) -> str | None:
        call = self.calls[each]
        if call is not None:
            return self.op_of_host(call)
        op = self.of_ids.get(each.external) if each.external != each.correlation else None
        return None if op is None else op.name


def is_of_backward(held: list[Slice], has_numbers: bool) -> bool:
    """Whether a thread that runs these is in the backward pass for most of their time, or runs no forward op beside."""
    own = [each for each in held if pass_of(each, has_numbers) == "backward"]
    others = [each for each in held if each not in own]
    times = [sum(each.length for each in some) for some in (own, others)]
    numbered = [["Sequence number" in each.arguments for each in some] for some in (own, others)]
    return times[0] > times[1] or (any(numbered[0]) and not any(numbered[1]))
