"""Evidence for the rules about dumps, measured by SQL. Each query measures one capture or many."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.advice.words import counted, time

if TYPE_CHECKING:
    import duckdb

# Kernels that compute nothing, but move, copy or convert data, by the names of ExecuTorch's operators.
_COPY: Final = re.compile(
    r"(\w+::)?(clone|contiguous|_clone_dim_order|_to_dim_order|copy|\w+_copy|(de)?quantize_per_\w+)(\.\w+)?", re.ASCII
)
# Ops that backends are made for: convolutions and products.
_HEAVY: Final = re.compile(
    r"(\w+::)?(\w*convolution|conv[123]d|addmm|baddbmm|bmm|mm|\w+_mm|matmul|linear|\w+_linear|scaled_dot_product\w+"
    r"|\w*sdpa\w*)(\.\w+)?",
    re.ASCII,
)
_THOUSANDS: Final = {"ns": 0, "us": 1, "ms": 2, "s": 3}
# A first run may be a warm-up only if at least this many runs of its block follow.
_LATER_RUNS: Final = 3


class Scale(NamedTuple):
    """A unit of time, and the two factors that convert a capture's ticks to the unit. One of the factors is 1."""

    unit: str
    multiplier: int
    divisor: int

    def of(self, ticks: float) -> float:
        """Return ticks in the unit."""
        return ticks * self.multiplier / self.divisor

    def words(self, ticks: float) -> str:
        """Return ticks as text."""
        return time(self.of(ticks), self.unit)

    def nanoseconds(self, ticks: float) -> float | None:
        """Return ticks in nanoseconds; None for cycles."""
        return self.of(ticks) * 1000 ** _THOUSANDS[self.unit] if self.unit in _THOUSANDS else None


def scale_of(time_scale: str, unit: str | None) -> Scale:
    """Return the scale that converts ticks of a time scale to a unit. If that is None, choose a unit that suits the
    time scale.
    """
    shown = unit or ("cycles" if time_scale == "cycles" else "us")
    if time_scale not in _THOUSANDS or shown not in _THOUSANDS:
        return Scale(shown, 1, 1)
    power = _THOUSANDS[time_scale] - _THOUSANDS[shown]
    return Scale(shown, 1000 ** max(power, 0), 1000 ** max(-power, 0))


@dataclass(frozen=True)
class Run:
    """A run that executed; times are in ticks."""

    index: int
    block: int
    execute: float | None  # None if its times are impossible
    tax: float | None  # None if unknown
    events: int  # events that the runtime logged in it, without delegates' events
    is_typical: bool
    is_steady: bool  # whether shares include it
    is_first: bool  # whether it may be a warm-up: the first run of its program, with other runs of its block after it
    is_outlier: bool
    middle: float | None  # the median execute of the typical runs of its block and phase

    @property
    def tax_percent(self) -> float | None:
        return None if self.tax is None or not self.execute else 100 * self.tax / self.execute


class Part(NamedTuple):
    """The events of a signature in the steady runs, classified as in `op_totals`; `ticks` is their mean per run."""

    method: str
    kind: str
    op: str
    instruction: int | None
    moves: str | None  # whether it copies or converts, or changes layouts, instead of computing
    is_opened: bool  # a delegate's call with events in it
    calls: float
    ticks: float
    module: str | None
    source: str | None
    is_of_constant: bool | None  # whether no node computes its inputs; None if unknown


@dataclass(frozen=True)
class Op:
    """An op by name: the mean of the steady runs."""

    name: str
    kind: str
    parts: Sequence[Part]
    has_methods: bool  # whether other methods ran

    @cached_property
    def calls(self) -> float:
        return fsum(part.calls for part in self.parts)

    @cached_property
    def ticks(self) -> float:
        return fsum(part.ticks for part in self.parts)

    @property
    def opened(self) -> float:
        """The time of delegate calls with events, without the time of these events."""
        return fsum(part.ticks for part in self.parts if part.is_opened)

    @property
    def is_copy(self) -> bool:
        return self.parts[0].moves is not None

    @property
    def is_of_layout(self) -> bool:
        return self.kind == "delegate" and self.parts[0].moves == "layout"

    @property
    def is_heavy(self) -> bool:
        return self.kind == "kernel" and bool(_HEAVY.fullmatch(self.name))

    def words(self, scale: Scale) -> str:
        """Return the op with its time, calls, and where they are."""
        return f"{self.name} {scale.words(self.ticks)} in {counted(self.calls, 'call')}{self._where()}"

    def _where(self) -> str:
        """Return text with the instructions with the most time, and the first known source line among them."""
        placed: defaultdict[tuple[str, int | None], list[Part]] = defaultdict(list)
        for part in self.parts:
            placed[part.method, part.instruction].append(part)
        ordered = sorted(
            placed.items(),
            key=lambda at: (-fsum(part.ticks for part in at[1]), at[0][0], at[0][1] is None, at[0][1] or 0),
        )
        # Different methods use the same numbers for their instructions.
        listed = [
            f"{method} {instruction}" if self.has_methods else str(instruction)
            for (method, instruction), _ in ordered[:3]
            if instruction is not None
        ]
        if not listed:
            return ""
        number = sum(instruction is not None for _, instruction in placed)
        what = "instruction" if number == 1 else "instructions" if number <= 3 else "most in instructions"
        sourced = ([(part.ticks, part.source) for part in parts if part.source] for _, parts in ordered)
        _, source = max(next(filter(None, sourced), [(0, None)]))
        return f" ({what} {', '.join(listed)}{f'; {source}' if source else ''})"


class Load(NamedTuple):
    """A part of `load_breakdown`, in ticks."""

    run: int
    component: str
    ticks: float | None


class Clock(NamedTuple):
    """The clock of the runtime or of delegates' events, with its durations in ticks, as in the view `clock_steps`."""

    is_delegate: bool
    events: int
    zeros: int
    middle: int | None  # half of the events take at most this time
    step: float | None  # None if none is seen

    @property
    def is_coarse(self) -> bool:
        """Whether its step is too large for its durations. This is so if half of the durations are shorter than ten
        steps, because a step is then more than 10 % of them, or if a quarter of the durations are zero.
        """
        is_short = self.step is not None and self.middle is not None and self.middle < 10 * self.step
        return is_short or 4 * self.zeros >= self.events


class Found(NamedTuple):
    """A finding of ingest about a capture or its record."""

    rule: str
    detail: str
    where: str


@dataclass(frozen=True)
class Evidence:
    """The evidence about a dump. If values were logged, it has no runs, because all times include copying the
    values.
    """

    scale: Scale
    logged_values: bool
    found: Sequence[Found]
    runs: Sequence[Run]
    parts: Sequence[Part]
    loads: Sequence[Load]
    clocks: Sequence[Clock]

    @cached_property
    def ops(self) -> list[Op]:
        """The ops by name, those with the most time first."""
        has_methods = len({part.method for part in self.parts}) > 1
        grouped: defaultdict[tuple[str, str], list[Part]] = defaultdict(list)
        for part in self.parts:
            grouped[part.op, part.kind].append(part)
        ops = [Op(name, kind, parts, has_methods) for (name, kind), parts in grouped.items()]
        return sorted(ops, key=lambda op: (-op.ticks, op.name))

    @cached_property
    def average(self) -> float:
        """The mean execute time of the steady runs. Shares of ops and modules refer to it."""
        return fsum(part.ticks for part in self.parts)

    @cached_property
    def delegate_calls(self) -> float:
        """The number of calls of delegates in the average run."""
        return fsum(op.calls for op in self.ops if op.kind == "delegate_call")

    @cached_property
    def executes(self) -> list[float]:
        """The known times of runs."""
        return [run.execute for run in self.runs if run.execute is not None]

    @cached_property
    def later(self) -> defaultdict[int, list[Run]]:
        """The runs by block, without the first."""
        found: defaultdict[int, list[Run]] = defaultdict(list)
        for run in self.runs:
            if not run.is_first:
                found[run.block].append(run)
        return found


def quantile(values: Iterable[float], at: float) -> float | None:
    """Return a quantile by linear interpolation; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = at * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


# The columns of `_advised_captures`, and of rows whose first column is a capture's key.
Rows = Mapping[int, Sequence[tuple[Any, ...]]]


def evidence_of(
    connection: duckdb.DuckDBPyConnection, first: int, last: int, unit: str | None = None, *, runs: str = "typical"
) -> dict[int, Evidence]:
    """Return the evidence about each dump from one key up to another, from the tables `_filled_events`,
    `_filled_runs`, `_filled_loads` and `_advised_times`, see `etq.advice.dump_rows`.

    unit  as in `advice`
    runs  the runs to which shares refer: typical or all
    """
    captures = connection.execute("FROM _advised_captures(?, ?)", [first, last]).fetchall()
    if not captures:
        return {}
    asked = {
        "found": _asked(connection, "_advised_findings(?, ?)", [first, last]),
        "runs": _asked(connection, "_advised_runs('_filled_events', '_filled_runs')"),
        "ops": _asked(connection, "_advised_ops('_advised_times')"),
        "loads": _asked(connection, "_filled_loads SELECT capture_id, run_index, component, ticks"),
        "clocks": _asked(connection, "_advised_clocks(?, ?)", [first, last]),
        "nodes": {},
    }
    if any(is_mapped for *_, is_mapped in captures):
        asked["nodes"] = _asked(connection, "_advised_nodes(?, ?)", [first, last])
    made = {}
    for key, time_scale, level, is_mapped in captures:
        rows = {name: of_captures.get(key, ()) for name, of_captures in asked.items()}
        is_debug = level == "debug"
        known = [] if is_debug else _runs(rows["runs"], runs)
        made[key] = Evidence(
            scale_of(time_scale, unit),
            is_debug,
            [Found(*row) for row in rows["found"]],
            known,
            [] if is_debug else [*_parts(rows["ops"], rows["nodes"] if is_mapped else (), known)],
            [Load(*row) for row in rows["loads"]],
            [Clock(*row) for row in rows["clocks"]],
        )
    return made


def _asked(connection: duckdb.DuckDBPyConnection, source: str, parameters: Sequence[int] = ()) -> Rows:
    """Return rows grouped by their first column, the capture."""
    by_capture: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for key, *row in connection.execute(f"FROM {source}", list(parameters)).fetchall():
        by_capture[key].append(tuple(row))
    return by_capture


def _runs(rows: Sequence[tuple[Any, ...]], which: str) -> list[Run]:
    """Return the runs, by index, with their classes as in the view `run_times`."""
    later: defaultdict[int, int] = defaultdict(int)
    typical: defaultdict[tuple[int, str | None], list[float]] = defaultdict(list)
    for index, block, phase, first_run, is_typical, execute, _, _ in rows:
        later[block] += index != first_run
        if is_typical and execute is not None:
            typical[block, phase].append(execute)
    middles = {key: quantile(values, 0.5) for key, values in typical.items()}
    made = []
    for index, block, phase, first_run, is_typical, execute, tax, events in sorted(rows, key=lambda row: row[0]):
        is_first = index == first_run and later[block] >= _LATER_RUNS
        middle = middles.get((block, phase))
        is_outlier = not is_first and not is_typical
        is_steady = which == "all" or is_typical
        made.append(Run(index, block, execute, tax, events, is_typical, is_steady, is_first, is_outlier, middle))
    return made


def _parts(ops: Sequence[tuple[Any, ...]], nodes: Sequence[tuple[Any, ...]], runs: Sequence[Run]) -> Iterable[Part]:
    """Yield the mean of each signature's events in a steady run."""
    number = sum(run.is_steady for run in runs)
    of_signatures = {signature: more for signature, *more in nodes}
    for method, signature, has_children, kind, family, moves, instruction, calls, ticks in ops if number else ():
        is_framework = kind == "operator_call" and has_children
        module, source, is_of_constant = of_signatures.get(signature, (None, None, None))
        yield Part(
            method,
            "framework" if is_framework else kind,
            family,
            instruction,
            moves if moves != "ops" else "copies" if kind == "kernel" and is_copying(family) else None,
            kind == "delegate_call" and has_children,
            calls / number,
            ticks / number,
            None if is_framework else module,
            source,
            is_of_constant,
        )


def is_copying(family: str) -> bool:
    """Whether kernels of a family compute nothing, but move, copy or convert data."""
    return bool(_COPY.fullmatch(family))
