"""ETDumps drawn with planted properties, and their truth in plain numbers of what was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from random import Random
from statistics import fmean, median
from typing import Final

from tests import builders
from tests.builders import ProfileEvent, framework
from tests.typical import are_typical

KERNELS: Final = ("add", "mul", "_softmax", "native_layer_norm", "gelu", "embedding", "slice_scatter", "mean")
HEAVY: Final = ("convolution", "addmm", "bmm", "mm")
COPIES: Final = ("permute_copy", "clone", "_to_copy", "expand_copy")
PARTS: Final = (
    "Fully Connected (NC, F32) GEMM", "Convolution (NHWC, F32) IGEMM", "Add (ND) #1", "Multiply (ND) #1",
    "Copy (NC, X32) #1", "Transpose (ND, X32) #1",
)  # fmt: skip
STEPS: Final = (1, 1, 1, 1, 1000, 10_000, 15_625, 31_250, 50_000, 100_000, 250_000)


@dataclass(frozen=True)
class Op:
    """An instruction: a kernel, or a call of a delegate with its events; times in nanoseconds."""

    instruction: int
    name: str
    ticks: int
    overhead: int
    parts: tuple[tuple[str, int], ...] = ()
    is_delegate: bool = False


@dataclass(frozen=True)
class Timed:
    """An event's own time in a run: kind and name, as advice sums them."""

    kind: str
    name: str
    ticks: int


@dataclass
class DrawnRun:
    """A run: what was written of it."""

    start: int
    end: int
    events: list[ProfileEvent]
    own: list[Timed]
    is_failed: bool = False

    @property
    def ticks(self) -> int:
        return self.end - self.start


@dataclass
class DrawnDump:
    """A drawn dump."""

    step: int
    noise: float
    warm: float
    slow: dict[int, float]
    load: int
    ops: list[Op]
    runs: list[DrawnRun] = field(default_factory=list)

    def content(self) -> bytes:
        """The file."""
        loading = framework("Program::load_method", 1000, 1000 + self.load)
        runs = [builders.run("default", loading)] if self.load else []
        for each in self.runs:
            done = builders.execute(each.start, 0 if each.is_failed else each.end)
            runs.append(builders.run("forward", *each.events, done))
        return builders.dump(*runs)

    # --- The truth ---

    @cached_property
    def complete(self) -> list[DrawnRun]:
        return [each for each in self.runs if not each.is_failed]

    @cached_property
    def choices(self) -> list[list[DrawnRun]]:
        """The runs that a mean may be over: all, without the first, without those that are slow, both."""
        quick = [each for number, each in enumerate(self.runs) if number not in self.slow and not each.is_failed]
        typical = list(compress(self.complete, are_typical([each.ticks for each in self.complete])))
        return [each for each in (self.complete, self.complete[1:], quick, quick[1:], typical, typical[1:]) if each]

    def own(self, kinds: tuple[str, ...], names: tuple[str, ...] = ()) -> tuple[float, float]:
        """The least and greatest mean time in a run of events of kinds and names."""

        def time(run: DrawnRun) -> int:
            return sum(t.ticks for t in run.own if t.kind in kinds and (not names or t.name in names))

        return self.means(time)

    def means(
        self, what: Callable[[DrawnRun], float], mean: Callable[[list[float]], float] = fmean
    ) -> tuple[float, float]:
        """The least and greatest mean, or median, over runs."""
        found = [mean([what(each) for each in runs]) for runs in self.choices]
        return min(found), max(found)

    @property
    def whole(self) -> tuple[float, float]:
        return self.means(lambda each: each.ticks)

    def medians(self, what: Callable[[DrawnRun], float]) -> tuple[float, float]:
        return self.means(what, median)

    def share(self, kinds: tuple[str, ...], names: tuple[str, ...] = ()) -> float:
        """The least share in percent of the time of runs."""
        return 100 * self.own(kinds, names)[0] / max(self.whole[1], 1)

    def events(self, is_delegate: bool) -> list[int]:
        """All durations of a clock."""
        events = [e for each in self.runs for e in each.events if (e.delegate_debug_id_str is not None) == is_delegate]
        found = [e.end_time - e.start_time for e in events]
        if not is_delegate:
            found += [each.ticks for each in self.complete] + ([self.load] if self.load else [])
        return found


def copies(drawn: DrawnDump) -> tuple[str, ...]:
    """Names of what computes nothing."""
    names = {t.name for t in drawn.runs[0].own}
    return tuple(name for name in names if name in COPIES or name.startswith(("Copy", "Transpose"))) or ("none",)


def draw(seed: int) -> DrawnDump:
    """A drawn dump."""
    rng = Random(f"dump {seed}")
    count = rng.choice((3, 12, 20, 30, 34, 40))
    style = rng.choice(("kernels", "kernels", "delegate", "mixed", "mixed", "split"))
    scale = rng.choice((5_000, 30_000, 200_000))
    ops = [_op(rng, number, style, scale) for number in range(rng.randint(4, 11))]
    if style == "delegate":
        ops = [each for each in ops if each.is_delegate][:1] or [_op(rng, 0, "split", scale * 5)]
    drawn = DrawnDump(
        step=rng.choice(STEPS) if rng.random() < 0.6 else 1,
        noise=rng.choice((0.01, 0.03, 0.08, 0.3)),
        warm=rng.choice((1, 1, 1.5, 4)),
        slow={rng.randrange(2, count): rng.uniform(3, 8) for _ in range(rng.choice((0, 0, 1, 3)) * (count > 10))},
        load=rng.choice((0, 0, 50_000, 500_000_000)),
        ops=ops,
    )
    at = 10_000_000
    for number in range(count):
        factor = drawn.warm if number == 0 else drawn.slow.get(number, 1)
        made = _run(rng, drawn, at, factor)
        drawn.runs.append(made)
        at = made.end + rng.randint(20_000, 90_000)
    if rng.random() < 0.15:
        drawn.runs[-1].is_failed = True
    return drawn


def _op(rng: Random, number: int, style: str, scale: int) -> Op:
    overhead = rng.choice((400, 1500, 6000 if style == "kernels" else 1500))
    is_delegate = style in ("delegate", "split") or (style == "mixed" and rng.random() < 0.5)
    ticks = max(2000, round(scale * rng.lognormvariate(0, 0.9)))
    if is_delegate:
        names = rng.sample(PARTS, rng.choice((0, 2, 3, 3, 4)))
        parts = tuple((name, round(ticks * rng.uniform(0.1, 0.4))) for name in names)
        return Op(number, "DELEGATE_CALL", ticks, overhead, parts, True)
    return Op(number, rng.choice((*KERNELS, *HEAVY, *COPIES)), ticks, overhead)


def _run(rng: Random, drawn: DrawnDump, start: int, factor: float) -> DrawnRun:
    def tick(time: float) -> int:
        return round(time) // drawn.step * drawn.step

    at: float = start + rng.randint(300, 3000)
    events: list[ProfileEvent] = []
    own: list[Timed] = []
    inside = 0
    for op in drawn.ops:
        vary = factor * rng.lognormvariate(0, drawn.noise)
        begin = at
        at += op.overhead
        parts = []
        if op.parts:
            for name, ticks in op.parts:
                first = at
                at += ticks * vary
                parts.append((name, tick(first), tick(at)))
        else:
            at += op.ticks * vary
        if op.is_delegate:
            at += op.overhead
            events += [builders.delegated(name, a, b, op.instruction) for name, a, b in parts]
            events.append(builders.delegate_call(tick(begin), tick(at), op.instruction))
            own += [Timed("delegate", name.removesuffix(" #1"), b - a) for name, a, b in parts]
            rest = tick(at) - tick(begin) - sum(b - a for _, a, b in parts)
            own.append(Timed("delegate_call" if parts else "bare_call", op.name, rest))
        else:
            first, last = tick(begin + op.overhead), tick(at)
            at += op.overhead
            events.append(builders.kernel(op.name, first, last, op.instruction))
            events.append(builders.operator_call(tick(begin), tick(at), op.instruction))
            own.append(Timed("kernel", op.name, last - first))
            own.append(Timed("framework", "OPERATOR_CALL", tick(at) - tick(begin) - (last - first)))
        inside += tick(at) - tick(begin)
        at += rng.randint(50, 400)
    end = at + rng.randint(200, 900)
    own.append(Timed("rest", "Method::execute", tick(end) - tick(start) - inside))
    return DrawnRun(tick(start), tick(end), events, own)
