"""What the tools return. The fields of a row are columns of the view that its class names, and are selected by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True)
class Row:
    """A row of a view."""

    VIEW: ClassVar[str]

    @classmethod
    def columns(cls) -> str:
        """Return the names of the fields, as in a SELECT."""
        return ", ".join(f'"{field.name}"' for field in fields(cls))


@dataclass(frozen=True)
class CaptureRow(Row):
    """A row of the view capture_summary."""

    VIEW: ClassVar[str] = "capture_summary"
    name: str
    format: str
    runs: int
    events: int
    profiling_level: str | None
    labels: str | None
    captured_at: str | None
    findings: int
    sha256: str


@dataclass(frozen=True)
class Figure(Row):
    """A row of the view headline."""

    VIEW: ClassVar[str] = "headline"
    number: str
    part: str | None
    value: float | None
    low: float | None
    high: float | None
    runs: int | None
    unit: str | None
    note: str | None


@dataclass(frozen=True)
class Advice(Row):
    """A row of the view advice."""

    VIEW: ClassVar[str] = "advice"
    rule: str
    severity: str | None
    finding: str
    evidence: str | None
    time_at_stake: float | None
    share_percent: float | None
    remedy: str | None
    unit: str | None


@dataclass(frozen=True)
class Op(Row):
    """A row of the view op_totals."""

    VIEW: ClassVar[str] = "op_totals"
    op: str | None
    kind: str | None
    method: str | None
    calls: int
    total: float | None
    avg: float | None
    share_percent: float | None
    unit: str | None


@dataclass(frozen=True)
class TraceOp(Row):
    """A row of the view key_averages, of a PyTorch trace."""

    VIEW: ClassVar[str] = "key_averages"
    name: str | None
    calls: int
    self_cpu_time: float | None
    self_cpu_percent: float | None
    cpu_time_total: float | None
    self_device_time: float | None
    device_time_total: float | None
    unit: str | None


@dataclass(frozen=True)
class Finding(Row):
    """A row of the table findings or of the view compare_findings."""

    VIEW: ClassVar[str] = "compare_findings"
    rule: str
    detail: str


@dataclass(frozen=True)
class Total(Row):
    """A row of the view compare_captures."""

    VIEW: ClassVar[str] = "compare_captures"
    what: str
    method: str | None
    verdict: str | None
    change_percent: float | None
    low_percent: float | None
    high_percent: float | None
    base: float | None
    new: float | None
    difference: float | None
    unit: str | None
    note: str | None
    base_captures: int | None
    new_captures: int | None


@dataclass(frozen=True)
class ModuleChange(Row):
    """A row of the view compare_modules."""

    VIEW: ClassVar[str] = "compare_modules"
    module_path: str | None
    method: str | None
    verdict: str | None
    change_percent: float | None
    low_percent: float | None
    high_percent: float | None
    base: float | None
    new: float | None
    difference: float | None
    unit: str | None
    note: str | None


@dataclass(frozen=True)
class OpChange(Row):
    """A row of the view compare_ops."""

    VIEW: ClassVar[str] = "compare_ops"
    op: str | None
    module_path: str | None
    kind: str | None
    instruction_id: int | None
    verdict: str | None
    change_percent: float | None
    low_percent: float | None
    high_percent: float | None
    base: float | None
    new: float | None
    difference: float | None
    unit: str | None
    share_percent: float | None
    note: str | None


@dataclass(frozen=True)
class MetricChange(Row):
    """A row of the view compare_metrics."""

    VIEW: ClassVar[str] = "compare_metrics"
    name: str
    verdict: str | None
    change_percent: float | None
    base: float | None
    new: float | None
    unit: str | None
    better: str | None
    note: str | None


@dataclass(frozen=True)
class Regression(Row):
    """A row of the view regressions."""

    VIEW: ClassVar[str] = "regressions"
    series: str | None
    what: str
    op: str | None
    module_path: str | None
    instruction_id: int | None
    verdict: str
    last_good: str | None
    first_bad: str | None
    change_percent: float | None
    cost: float | None
    unit: str | None
    share_percent: float | None
    q: float | None
    kind: str
    captures_before: int | None
    captures_after: int | None


@dataclass(frozen=True)
class LabelKey:
    """A key of labels, and its values: the first of them, if there are many."""

    key: str
    values: list[str]


@dataclass(frozen=True)
class Captures:
    """Captures in the order of ingest, from `offset` on; `total` is the number of all that match."""

    captures: list[CaptureRow]
    total: int
    offset: int
    labels: list[LabelKey]
    cut: list[str]


@dataclass(frozen=True)
class ViewName:
    """A table, view or macro, and what a row of it is."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True)
class Named:
    """A column or parameter: its meaning, and its type or default if it has one."""

    name: str
    text: str
    type: str | None
    default: str | None


@dataclass(frozen=True)
class Description:
    """The documentation of a view, or, if none is named, the names of all."""

    name: str | None
    kind: str | None
    text: str | None
    parameters: list[Named]
    columns: list[Named]
    views: list[ViewName]
    cut: list[str]


@dataclass(frozen=True)
class QueryRows:
    """The result of a query: names of columns, and rows in their order."""

    columns: list[str]
    rows: list[list[Any]]
    total: int
    cut: list[str]


@dataclass(frozen=True)
class Summary:
    """Where the time of a capture goes. `ops` are of a runtime on a device, `trace_ops` of a PyTorch trace."""

    capture: CaptureRow
    headline: list[Figure]
    advice: list[Advice]
    ops: list[Op]
    trace_ops: list[TraceOp]
    findings: list[Finding]
    runs_left_out: str | None
    cut: list[str]


@dataclass(frozen=True)
class Difference:
    """A comparison of two sides: the verdicts as sentences, and the rows that they are from."""

    verdicts: list[str]
    totals: list[Total]
    modules: list[ModuleChange]
    ops: list[OpChange]
    metrics: list[MetricChange]
    findings: list[Finding]
    cut: list[str]


@dataclass(frozen=True)
class Call:
    """A call of a tool that shows more."""

    tool: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Regressions:
    """Lasting changes, the costliest first; none if the list is empty.

    `next` compares, for each pair of labels between which something changed, the captures before and after.
    """

    regressions: list[Regression]
    total: int
    next: list[Call]
    cut: list[str]
