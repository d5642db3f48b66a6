"""What is true of a drawn trace: times by cause, what each cause costs, what subjects are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from functools import cached_property

from tests.drawn.schedule import LAG, Part, Run, Work, idle, length, path, recorded, within
from tests.drawn.traces import Drawn


def plain(name: str) -> str:
    """A name without its numbers, as steps are named together."""
    return re.sub(r"ProfilerStep\*", "ProfilerStep#N", re.sub(r"\d+", "N", name))


def is_named(part: Part, subject: str) -> bool:
    """Whether a part is in a slice, call or kernel of a name, which may be shortened."""
    wanted = plain(subject.rstrip("…"))
    return any(
        plain(name).startswith(wanted) if subject.endswith("…") else plain(name) == wanted for name in part.names
    )


class Truth:
    """The truth of one file: of a rank, or of all that are merged."""

    def __init__(self, drawn: Drawn, rank: int = 0) -> None:
        self.drawn, self.rank = drawn, rank
        self._saved: dict[tuple[int, frozenset[str]], int] = {}
        self._idle: dict[int, list[Part]] = {}

    @cached_property
    def runs(self) -> dict[int, Run]:
        """By device."""
        runs = self.drawn.runs()
        return dict(enumerate(runs)) if self.drawn.is_merged else {self.rank: runs[self.rank]}

    @property
    def last(self) -> Run:
        """Of merged ranks, that which ends last."""
        return max(self.runs.values(), key=lambda each: each.end)

    @cached_property
    def recording(self) -> int:
        return max(each.end for each in self.runs.values()) - min(each.begin for each in self.runs.values())

    @cached_property
    def functions(self) -> int:
        """How many of Python's functions are recorded."""
        return sum(each.category == "python_function" for run in self.runs.values() for each in run.slices)

    def idle(self, device: int) -> list[Part]:
        if device not in self._idle:
            self._idle[device] = list(idle(self.runs[device]))
        return self._idle[device]

    def idle_by(self, device: int, causes: Collection[str]) -> int:
        return sum(each.ticks for each in self.idle(device) if each.cause in causes)

    def span(self, device: int) -> int:
        work = recorded(self.runs[device])
        return max(each.end for each in work) - work[0].start if work else 0

    def saved(self, device: int, causes: Collection[str]) -> int:
        """The idle time that a device would not have without causes: of the program, run again."""
        key = device, frozenset(causes)
        if key not in self._saved:
            again = self.drawn.runs(sorted(causes))[device]
            self._saved[key] = sum(each.ticks for each in self.idle(device)) - sum(each.ticks for each in idle(again))
        return self._saved[key]

    @cached_property
    def path(self) -> list[Part]:
        return list(path(self.last))

    @cached_property
    def beside_path(self) -> list[Work]:
        """Work that ends shortly before the next of its stream, which is on the path for another reason: a trace doesn't
        tell which of the two was waited for.
        """
        on_path = {(each.start, each.names[-1]) for each in self.path if each.cause in ("device", "rank")}
        found = []
        before: dict[int, Work] = {}
        for each in recorded(self.last):
            earlier = before.get(each.stream)
            if earlier and (each.start, each.kernel.name) in on_path and each.start - earlier.end <= 2 * LAG:
                found += [] if (earlier.start, earlier.kernel.name) in on_path else [earlier]
            before[each.stream] = each
        return found

    @cached_property
    def path_window(self) -> tuple[int, int]:
        """From the first to the last op, call or event of a device: what a path can be of; functions are not."""
        found = [(each.start, each.end) for each in self.last.slices if each.category in ("cpu_op", "runtime")]
        found += [(each.start, each.end) for each in recorded(self.last)]
        return min(start for start, _ in found), max(end for _, end in found)

    @property
    def busy_delays(self) -> int:
        """The delays of launches on the path while other work runs."""
        delays = [(each.start, each.end) for each in self.path if each.cause == "delay"]
        return length(within(delays, [(each.start, each.end) for each in recorded(self.last)]))

    def on_path(self, subject: str) -> list[Part]:
        """The parts of the critical path in a slice, call or kernel of a name."""
        return [each for each in self.path if is_named(each, subject)]

    @cached_property
    def families(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for happened in self.runs.values():
            for each in recorded(happened):
                found[each.kernel.family] += each.end - each.start
        return found

    @cached_property
    def families_of_steps(self) -> Counter[str]:
        """Those of what steps launched."""
        found: Counter[str] = Counter()
        for happened in self.runs.values():
            for each in recorded(happened):
                if any(start <= each.call.start < end for start, end in happened.steps):
                    found[each.kernel.family] += each.end - each.start
        return found

    @cached_property
    def kernels(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for happened in self.runs.values():
            for each in recorded(happened):
                found[each.kernel.name] += each.end - each.start
        return found

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Whether a name is that of an op, an annotation, a Python function or a call."""
        return {plain(each.name): each.category for happened in self.runs.values() for each in happened.slices}

    @cached_property
    def launching(self) -> set[str]:
        """Names of slices in which something is launched."""
        return {plain(name) for happened in self.runs.values() for each in happened.work for name in each.names}

    @cached_property
    def launches(self) -> tuple[int, int, int]:
        """Launches of kernels without any, and all of them, without and with those that a graph recorded."""
        lost = count = captured = 0
        for happened in self.runs.values():
            by_call: dict[int, list[bool]] = {}
            for each in happened.work:
                if each.kernel.kind == "kernel":
                    by_call.setdefault(id(each.call), []).append(each.kernel.is_lost)
            count += len(by_call)
            lost += sum(all(each) for each in by_call.values())
            captured += sum(
                "aunch" in each.name and id(each) not in by_call
                for each in happened.slices
                if each.category == "runtime"
            )
        return lost, count, count + captured

    def step_shares(self, what: str, of: str = "steps") -> tuple[float, float]:
        """The least and greatest share in percent of the steps (of the recording, without any) that is in communication,
        kernels, any work, loading or compilation: of what the host calls a step, and until the end of what that launched;
        all but kernels and work as a whole, and while nothing else runs.
        """
        happened = self.runs[self.rank]
        steps = happened.steps if happened.steps and of != "recording" else [(happened.begin, happened.end)]
        longer = [(a, max([b, *(each.end for each in happened.work if a <= each.call.start < b)])) for a, b in steps]
        work = [(each, (each.start, each.end)) for each in recorded(happened)]
        if what in ("load", "compile"):
            chosen = [(each.start, each.end) for each in happened.host if each.cause == what]
            others = [span for _, span in work]
        else:
            chosen = [span for each, span in work if what in ("any", each.kernel.kind, each.kernel.family)]
            others = [span for each, span in work if what == "communication" != each.kernel.family]
        found = []
        for those in (steps, longer):
            spans = within(chosen, those)
            found += [100 * (length(spans) - overlap) / length(those) for overlap in (0, length(within(spans, others)))]
        return min(found), max(found)

    @cached_property
    def collectives(self) -> tuple[int, int]:
        """Time in which collectives wait for another rank, and in which they transfer."""
        works = [each for each in self.runs[self.rank].work if each.kernel.is_collective]
        return sum(each.others - each.start for each in works), sum(each.end - each.others for each in works)

    @property
    def slack(self) -> int:
        """How much sums of times may be off by the clock."""
        events = sum(len(each.slices) + len(each.work) for each in self.runs.values())
        return self.drawn.clock * (2 + events // 2) if self.drawn.clock > 1 else 50 + events
