"""Rules about the kernels of devices in a PyTorch trace: which families take the time, how far kernels are from peak
rates, and which kernels could be fused into one. Each rule is a function of `Evidence` that yields findings, and
contains its thresholds.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import fsum, prod
from typing import Final, NamedTuple

from etq.advice import trace_evidence
from etq.advice.finding import Finding, severity_of
from etq.advice.remedies import CHANNELS_LAST, COPYING, UNFUSED, copying, graphs
from etq.advice.trace_evidence import Unfused
from etq.advice.words import counted, percent, shortened, time
from etq.ingest.trace.classes import PRODUCTS

# The wholes to which shares refer, in words.
WORK: Final = "the time of kernels, copies and fills"
WORK_OF_STEPS: Final = f"{WORK} of steps"
SPAN: Final = "the devices' time from first to last event"
SPAN_OF_STEPS: Final = f"{SPAN} of steps"
# The part of a peak rate that good kernels reach. They don't reach all of it, because clocks fall under load and memory
# is refreshed.
ACHIEVABLE: Final = 0.8
# Kernels that take longer than this, in ticks, aren't slow because they are short.
SHORT_TICKS: Final = 10_000

# The number of rows, and of columns, of the tile that a product's kernel computes at once; and the number of tiles that
# fill a large device.
_TILE: Final = 128
_FILLS: Final = 300
# The accepted extra work, in percent, if sizes aren't multiples of tiles.
_PADDING: Final = 10

# Ops whose first argument isn't an operand of the product.
_SECOND: Final = re.compile(r"add(mm|bmm)|_backward")

_EIGHT_BIT: Final = re.compile(r"fp8|e4m3|e5m2|f8f8|int8|(?<![a-z])i8(?![0-9])", re.IGNORECASE)
# Names of kernels that wouldn't run on tensor cores with another type: those of types that tensor cores take already,
# of types of 64 bits, and of vectors, which have too few columns.
_NOT_BY_TYPE: Final = re.compile("bf16|bfloat16|fp16|f16|half|hgemm|dgemm|f64|double|gemv", re.IGNORECASE)
# Kernels of torch's own, which torch.compile may fuse.
_TORCHS: Final = re.compile(r"at::native|\(anonymous namespace\)::softmax_warp")
# Copies that change formats or types, or join tensors. Other copies write caches, or have an unknown purpose.
_OF_LAYOUT: Final = re.compile(
    r"at::native|[tT]ranspose|[pP]ermute|n[ch]+wc?To|NCHW|NHWC|SubTensorOp|CatArray|[rR]eformat"
)
# Kernels of products that read one or two elements at a time. Kernels without tensor cores are left out: they always
# read one.
_ODD_SIZES: Final = re.compile("^(?!.*simt).*align[12](?![0-9])")
_OF_SIZES: Final = ("GEMM", "convolution")
# The number of elements in 16 bytes, by the types in the names of kernels. If a name has no type, an element has two
# bytes.
_ELEMENTS: Final = (
    (16, _EIGHT_BIT), (8, re.compile("16gemm|f16|fp16|h1688|h884")), (4, re.compile("tf32|1688|f32")),
)  # fmt: skip
_LINK: Final = "HtoD|DtoH|PtoP|HostToDevice|DeviceToHost"


class Label(NamedTuple):
    """The kernels, copies or fills of one name."""

    family: str | None
    label: str
    uses_matrix_units: bool | None
    calls: int
    ticks: int


class Layout(NamedTuple):
    """Kernels of one name that change layouts in an op of convolution."""

    op: str
    label: str
    kernels: int
    ticks: int


class Rated(NamedTuple):
    """Calls of an op with a known lower bound of their time."""

    family: str
    bound: str
    op: str
    calls: int
    kernels: int
    ticks: int
    least_ticks: float
    bytes: float | None
    bandwidth: float | None
    device: str
    type: str | None
    top_event: str
    shortest_ticks: int
    flops: float | None
    shapes: str

    @property
    def is_wide(self) -> bool:
        """Whether it takes numbers of 32 or 64 bits."""
        return self.type in ("float", "double")

    @property
    def reads_fast(self) -> bool:
        """Whether the calls reach a quarter of the memory bandwidth. If not, something else limits them."""
        return 4 * self.least_ticks >= self.ticks

    @property
    def operands(self) -> list[list[int]]:
        """The sizes of the two matrices (or batches of matrices) of a product, or of a convolution's input and weight.
        In `shapes`, an addend or the gradient of the output may come before them; these are skipped.
        """
        return _operands(self.op, self.shapes)

    @property
    def is_odd(self) -> bool:
        """Whether the kernel reads few elements at once, and sizes aren't known to be aligned."""
        return self.family in _OF_SIZES and _is_odd(self.top_event, self.family, self.operands)

    @property
    def is_padded(self) -> bool:
        """Whether a product's sizes, or a convolution's channels, aren't multiples of the sizes that kernels compute or
        read at once.
        """
        if self.family == "convolution":
            return any(length % 8 for size in self.operands[1:] for length in size[:2])
        sizes = [length for size in self.operands for length in size[-2:]]
        padded = prod(-(-length // _TILE) * _TILE / max(length, 1) for length in sizes)
        # The size that both operands share is included twice.
        return any(length % 8 for length in sizes) or padded > (1 + _PADDING / 100) ** 2

    @property
    def is_small(self) -> bool:
        """Whether a product has too few tiles to fill a device."""
        depth = self.operands[0][-1] if self.operands else 0
        return bool(self.flops and depth) and (self.flops or 0) / (2 * depth) < _FILLS * _TILE**2


def _operands(op: str, shapes: str | None) -> list[list[int]]:
    given = json.loads(shapes or "[]")[1 if _SECOND.search(op) else 0 :]
    sizes = [size for size in given if isinstance(size, list) and len(size) > 1]
    sizes = [size for size in sizes if all(isinstance(length, int) for length in size)]
    return sizes[:2] if len(sizes) > 1 else []


def _elements(kernel: str) -> int:
    """Return how many elements a product's kernel can read at once."""
    return next((number for number, types in _ELEMENTS if types.search(kernel)), 8)


def _is_odd(kernel: str, family: str, operands: Sequence[Sequence[int]]) -> bool:
    """Whether a kernel reads few elements at once, and sizes aren't known to be aligned."""
    if not _ODD_SIZES.search(kernel):
        return False
    lengths = [size[:2] for size in operands[1:]] if family == "convolution" else [size[-2:] for size in operands]
    return not lengths or any(length % _elements(kernel) for size in lengths for length in size)


class Product(NamedTuple):
    """Calls of a product's kernel by an op, with the sizes of the op's tensors; None if they are unknown."""

    label: str
    family: str
    calls: int
    ticks: int
    op: str | None
    shapes: str | None

    @property
    def is_odd(self) -> bool:
        """Whether the kernel reads few elements at once, and sizes aren't known to be aligned."""
        return _is_odd(self.label, self.family, _operands(self.op or "", self.shapes))


class Chain(NamedTuple):
    """Kernels that follow each other, and the time that a single kernel in their place could save."""

    sequence: str
    kernels: int
    calls: int
    saved_ticks: int


class Evidence:
    """The evidence of rules about the kernels of a trace; each part is computed on first use."""

    def __init__(self, trace: trace_evidence.Evidence) -> None:
        self.trace = trace
        self._ask = trace.rows

    @property
    def _launches(self) -> str:
        return self.trace.shared("launches")

    @property
    def _counted(self) -> str:
        """The table of the launches to which shares refer: if there are steps, the launches in steps."""
        return self.trace.shared("counted")

    @cached_property
    def is_part(self) -> bool:
        """Whether some launches are outside steps, so that shares refer to the launches within steps."""
        count = f"(SELECT count(*) FROM {self._counted}) < (SELECT count(*) FROM {self._launches})"
        [(is_part,)] = self._ask(tuple, f"SELECT {count}")
        return bool(is_part)

    @property
    def whole(self) -> str:
        """The whole to which shares of the time of work refer, in words."""
        return WORK_OF_STEPS if self.is_part else WORK

    @property
    def within(self) -> str:
        """The same whole, in words that follow "the devices' time"."""
        if self.is_incomplete:
            return " in the file"
        return " in steps" if self.is_part else ""

    @property
    def is_incomplete(self) -> bool:
        """Whether most device events are missing from the file."""
        return self.trace.missing is not None

    @cached_property
    def path_ticks(self) -> int | None:
        """The time of devices on the critical path; None if it is unknown. Also None if devices mostly communicate,
        because other ranks may wait for them.
        """
        if 2 * self._communication_ticks >= self.ticks:
            return None
        return self.trace.device_path

    @property
    def saves_little(self) -> bool:
        """Whether less than half of a device's work is on the critical path. This is unknown if Python's functions were
        recorded; then, whether the host without Python would take more than twice as long as each device.
        """
        return self.trace.is_beside(self.ticks) if self.path_ticks is not None else self._is_host_slower

    @cached_property
    def _is_host_slower(self) -> bool:
        if not self.trace.traits.has_functions or 2 * self._communication_ticks >= self.ticks:
            return False
        [(ticks,)] = self._ask(tuple, f"SELECT sum(w.device_ticks)::BIGINT FROM {self._launches} AS w")
        return 2 * (ticks or 0) < self.trace.host_ticks * max(len(self.trace.use), 1)

    @property
    def _communication_ticks(self) -> int:
        return sum(label.ticks for label in self.labels if label.family == "communication")

    @property
    def note(self) -> str:
        """A clause that says that faster kernels save little; '' if they may save more."""
        if not self.saves_little:
            return self._note_of_communication
        if self.path_ticks is None:
            host = f"the host's ops and calls alone take {_time(self.trace.host_ticks)}"
            return f"{host}, so faster kernels save little"
        if not self.path_ticks:
            none = f"none of the devices' {_time(self.ticks)} is on the critical path"
            return f"{none}, so faster kernels don't shorten it"
        on_path = f"of the devices' {_time(self.ticks)}, {_time(self.path_ticks)} are on the critical path"
        return f"{on_path}: faster kernels can't shorten it by more"

    @property
    def _note_of_communication(self) -> str:
        """A clause about the part of computing and copying that overlaps communication; '' if this is less than a
        fifth.
        """
        beside, others = self.beside_communication
        if not beside or 5 * beside < others:
            return ""
        beside_of = f"for {_time(beside)} of the {_time(others)} in which devices compute or copy, they communicate"
        return f"{beside_of}: shortening this may save nothing"

    @cached_property
    def labels(self) -> list[Label]:
        """Kernels, copies and fills by name, those with the most time first; none if a time is unknown."""
        if not self.trace.has_work:
            return []
        rows = self._ask(
            Label._make,
            "SELECT l.family, l.label, l.uses, l.calls, l.ticks"
            f" FROM _label_ticks($key, '{self._counted}', NULL, NULL) AS l ORDER BY l.ticks DESC, l.label DESC",
        )
        # A sum beyond 64 bits is unknown, and makes the whole unknown.
        return [] if any(row.ticks is None for row in rows) else rows

    @cached_property
    def ticks(self) -> int:
        """The time of all kernels, copies and fills."""
        return sum(label.ticks for label in self.labels)

    @property
    def units(self) -> str:
        """The vendor's name of the matrix units of these devices."""
        if self.trace.have_capability(1):
            return "tensor cores"
        return (
            "matrix cores"
            if self.trace.devices and all(device.is_amd for device in self.trace.devices)
            else "matrix units"
        )

    @cached_property
    def graphs(self) -> str:
        """The kind of graphs that the program could replay; '' if it already replays some, or if none are known for
        these devices.
        """
        runtime = {"tensor cores": "CUDA", "matrix cores": "HIP"}.get(self.units)
        return graphs(runtime, replays=self.trace.traits.replays)

    @property
    def replays(self) -> bool:
        """Whether graphs are replayed."""
        return self.trace.traits.replays

    @property
    def is_training(self) -> bool:
        """Whether the trace is known to be of training."""
        return self.trace.traits.is_training is True

    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile made code that the trace ran."""
        return self.trace.traits.is_compiled

    @cached_property
    def rated(self) -> list[Rated]:
        """Calls with known costs on devices with known peaks. Two kinds are left out: calls whose costs are only a
        lower bound, and copies that are limited by a link to the host or another device.
        """
        if self.trace.rated is None:
            return []
        return self._ask(
            Rated._make,
            "SELECT r.family, r.bound, r.label, r.calls, r.kernels, r.ticks, r.least_ticks,"
            " r.bytes::DOUBLE * r.calls, r.bandwidth, r.device, r.type, r.top_event, r.shortest_ticks,"
            " r.flops::DOUBLE, r.shapes"
            f" FROM {self.trace.rated} AS r"
            " WHERE r.label IS NOT NULL AND r.bound IS NOT NULL AND NOT r.is_least"
            " AND NOT regexp_matches(r.top_event, $link)",
            link=_LINK,
        )

    @cached_property
    def chains(self) -> list[Chain]:
        """Chains of kernels that one kernel could replace, the chain that saves most first."""
        if not any(label.family in ("elementwise", "reduction") for label in self.labels):
            return []
        chains = self._ask(
            Chain._make,
            "SELECT c.sequence, c.kernels, c.calls, c.saved_ticks"
            f" FROM _fusable_chains($key, '{self._counted}') AS c ORDER BY c.saved_ticks DESC, c.sequence",
        )
        # If torch.compile compiled the model, its backend chose not to fuse these kernels.
        return [chain for chain in chains if "CompiledFunction" not in chain.sequence]

    @cached_property
    def span_ticks(self) -> int:
        """The time within steps from the first to the last event of each device that ran work, summed over the
        devices.
        """
        query = f"""
            SELECT coalesce(sum(s.ticks), 0)::BIGINT
            FROM (
                SELECT max(w.end_ticks) - min(w.start_ticks) AS ticks FROM {self._counted} AS w GROUP BY w.device
            ) AS s
        """
        [(ticks,)] = self._ask(tuple, query)
        return int(ticks)

    @cached_property
    def recorded_ticks(self) -> int:
        """The time of the recording, summed over all devices that ran work."""
        query = "SELECT r.end_ticks - r.start_ticks FROM _recording($key) AS r"
        [(ticks,)] = self._ask(tuple, query)
        return int(ticks or 0) * len(self._ask(tuple, f"SELECT DISTINCT w.device FROM {self._launches} AS w"))

    @cached_property
    def odd(self) -> list[Product]:
        """Products whose kernels read few elements at once because sizes aren't aligned, those with the most time
        first.
        """
        if not any(label.family in _OF_SIZES and _ODD_SIZES.search(label.label) for label in self.labels):
            return []
        rows = self._ask(
            Product._make,
            "SELECT w.label, w.kernel_family, count(*), try_cast(sum(w.device_ticks) AS BIGINT) AS ticks, g.label,"
            f" a.shapes FROM {self._counted} AS w LEFT JOIN _event_labels($key) AS g ON g.event_index = w.op_index"
            " LEFT JOIN (FROM op_arguments AS i WHERE i.capture_id = $key) AS a ON a.event_index = w.op_index"
            f" WHERE w.kernel_family IN {_OF_SIZES} AND contains(w.label, 'align')"
            " GROUP BY w.label, w.kernel_family, g.label, a.shapes ORDER BY ticks DESC, w.label, a.shapes",
        )
        return [row for row in rows if row.is_odd and row.ticks is not None]

    def listed(self, family: str | None) -> str:
        """Return a sentence that refers to the ops with most of a family's time, or to the kernels if most of them have
        no op.
        """
        query = f"""
            SELECT 2 * sum(CASE WHEN w.op_index IS NOT NULL THEN w.device_ticks ELSE 0 END) >= sum(w.device_ticks)
            FROM {self._counted} AS w
            WHERE CASE w.kind WHEN 'copy' THEN 'memcpy' WHEN 'fill' THEN 'memset' ELSE w.kernel_family END = $family
        """
        [(has_ops,)] = self._ask(tuple, query, family=family or "")
        listed = "ops" if has_ops else "kernels"
        return f"etq {listed} lists the {listed} that take most time."

    @cached_property
    def copies_first(self) -> bool:
        """Whether half of the time of copies is before the first kernel."""
        query = f"""
            SELECT 2 * coalesce(sum(CASE WHEN w.end_ticks <= k.start_ticks THEN w.device_ticks END), 0)
                >= sum(w.device_ticks)
            FROM {self._counted} AS w
            JOIN (
                SELECT l.device, min(l.start_ticks) AS start_ticks FROM {self._launches} AS l
                WHERE l.kind = 'kernel' GROUP BY l.device
            ) AS k ON k.device IS NOT DISTINCT FROM w.device
            WHERE w.kind = 'copy'
        """
        [(is_first,)] = self._ask(tuple, query)
        return bool(is_first)

    def severity(self, ticks: float, whole: float) -> str:
        """Return the severity of a finding by its share of a whole and of the recording. It is low if most work isn't
        on the critical path, because reducing such work saves little.
        """
        if self.is_incomplete or self.saves_little:
            return "low"
        return severity_of(100 * ticks / max(whole, 1), 100 * ticks / max(self.recorded_ticks, 1))

    @cached_property
    def unfused_attention(self) -> list[Unfused]:
        """Unfused attention, by op; empty if it takes less than a twentieth of the time."""
        rows = self.trace.unfused_attention
        return rows if 20 * sum(row.ticks for row in rows) >= self.ticks else []

    @cached_property
    def layouts(self) -> list[Layout]:
        """Kernels that change layouts in ops of convolutions."""
        if not any(re.search(_OF_CHANNELS, label.label) for label in self.labels):
            return []
        query = f"""
            SELECT s.label, w.label, count(*), sum(w.device_ticks)::BIGINT
            FROM {self._counted} AS w
            JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = w.op_signature
            WHERE w.kind = 'kernel' AND regexp_matches(w.label, $layouts) AND regexp_matches(s.label, $convolutions)
            GROUP BY s.label, w.label
        """
        return self._ask(Layout._make, query, layouts=_OF_CHANNELS, convolutions=_CONVOLUTIONS)

    @property
    def layout_ticks(self) -> int:
        """The time of kernels that change layouts in ops of convolutions."""
        return sum(row.ticks for row in self.layouts)

    @property
    def tells_layouts(self) -> bool:
        """Whether there is a separate finding about layouts, because these kernels take a twentieth of the devices'
        time.
        """
        return bool(self.layouts) and 20 * self.layout_ticks >= self.ticks

    def told_ticks(self, ops: Iterable[tuple[str, int, int]]) -> float:
        """Return how much of the time of these ops belongs to the finding about layouts."""
        if not self.tells_layouts:
            return 0.0
        all_ticks: Counter[str] = Counter()
        for calls in self.rated:
            all_ticks[calls.op] += calls.ticks
        told: Counter[str] = Counter()
        for row in self.layouts:
            told[row.op] += row.ticks
        return fsum(told[op] * ticks / max(all_ticks[op], 1) for op, _, ticks in ops)

    @cached_property
    def beside_communication(self) -> tuple[int, int]:
        """Two times of the whole recording, as in the view `device_breakdown`: the time in which devices compute or
        copy while they communicate, and all time in which they compute or copy.
        """
        if not self._communication_ticks:
            return 0, 0
        query = """
            SELECT _sum_where(d.ticks, d.communicates), sum(d.ticks)::BIGINT
            FROM _device_activity($key, 'device') AS d WHERE d.computes OR d.copies
        """
        [(beside, ticks)] = self._ask(tuple, query)
        return beside or 0, ticks or 0

    @cached_property
    def beside_computing(self) -> tuple[int, int]:
        """The time in which devices copy while they compute, and all time in which they copy, as in the view
        `device_breakdown`.
        """
        query = """
            SELECT _sum_where(d.ticks, d.computes), sum(d.ticks)::BIGINT
            FROM _device_activity($key, 'device') AS d WHERE d.copies
        """
        [(beside, ticks)] = self._ask(tuple, query)
        return beside or 0, ticks or 0

    @property
    def copies_beside(self) -> bool:
        """Whether devices also compute for half of the time in which they copy."""
        beside, ticks = self.beside_computing
        return 2 * beside >= ticks > 0

    def is_attention(self, ticks: Mapping[str, float]) -> bool:
        """Whether unfused attention is half of these ops' time."""
        within = fsum(min(row.ticks, ticks.get(row.op or "", 0)) for row in self.unfused_attention)
        return 2 * within >= sum(ticks.values())


def findings(trace: trace_evidence.Evidence) -> list[Finding]:
    """Return the findings about kernels of a trace; none if too many launches lack their device events."""
    evidence = Evidence(trace)
    if not trace.has_kernels or not evidence.ticks:
        return []
    if evidence.is_incomplete:  # the rules below need complete launches
        return [*device_time(evidence), *odd_sizes(evidence)]
    rules = (device_time, below_the_roof, fusable_kernels, unfused_attention, layouts, odd_sizes)
    found = [finding for rule in rules for finding in rule(evidence)]
    return [each._replace(evidence=f"{each.evidence}; {evidence.note}") if evidence.note else each for each in found]


def device_time(evidence: Evidence) -> Iterator[Finding]:
    """A family takes a fifth of the devices' time. Lists such families, and the remedy for the one with the most
    time.
    """
    by_family: Counter[str | None] = Counter()
    for label in evidence.labels:
        by_family[label.family] += label.ticks
    places = sorted(by_family.items(), key=lambda item: (-item[1], item[0] or "unknown names"))
    family, ticks = places[0]
    if ticks < 0.2 * evidence.ticks:
        return
    listed = (
        (name or "unknown names", share) for name, part in places[:4] if (share := 100 * part / evidence.ticks) >= 1
    )
    labels = [label for label in evidence.labels if label.family == family]
    calls = sum(label.calls for label in labels)
    where = ""
    if family == "memcpy" and evidence.copies_first:
        where = " most of it before the first kernel;"
    elif family == "memcpy" and evidence.copies_beside:
        beside, all_copies = evidence.beside_computing
        where = f" for {_time(beside)} of the {_time(all_copies)} in which devices copy, they also compute;"
    yield Finding(
        "device time",
        "low",
        f"Time of devices{evidence.within}: {', '.join(f'{percent(share)} {name}' for name, share in listed)}.",
        f"{counted(calls, 'call')} of {family or 'unknown names'}, {_most_in(labels)};{where}"
        " etq kernels --by family lists them",
        _remedy_of_family(evidence, family, labels),
        ticks=ticks,
        whole=evidence.whole,
        whole_ticks=evidence.ticks,
    )


def _most_in(labels: Sequence[Label]) -> str:
    """Return the name with the most time, or two names with equal time."""
    first, *others = labels
    if others and others[0].ticks == first.ticks:
        return f"as much time in {shortened(first.label, 120)} as in {shortened(others[0].label, 120)}"
    return f"most time in {shortened(first.label, 120)}"


def _remedy_of_family(evidence: Evidence, family: str | None, labels: Sequence[Label]) -> str:
    """Return the remedy if kernels of this family take the most time. None is known for unknown names."""
    if (
        family in (None, "other")
        or evidence.is_incomplete
        or (evidence.saves_little and family not in ("communication", "memcpy"))
    ):
        return ""
    if family == "GEMM":
        return _remedy_of_products(evidence, labels)
    if family in ("elementwise", "normalization", "softmax", "reduction"):
        return _remedy_of_passes(evidence, family, labels)
    if family == "memcpy":
        return _remedy_of_copies(evidence, labels)
    listed = evidence.listed(family)
    return _remedy_of_moves(evidence, labels, listed) if family == "copy" else _REMEDIES.get(family or "", listed)


def _remedy_of_moves(evidence: Evidence, labels: Sequence[Label], listed: str) -> str:
    """The remedy for kernels that copy, if most are in convolutions or are known to change layouts."""
    ticks = sum(label.ticks for label in labels)
    if 2 * evidence.layout_ticks >= ticks:
        return CHANNELS_LAST
    return COPYING if 2 * sum(label.ticks for label in labels if _OF_LAYOUT.search(label.label)) >= ticks else listed


_REMEDIES: Final = {
    "communication": "etq show device_breakdown shows how much is exposed; with all processes in one job, etq show"
    " collective_waits shows how much is waiting for others.",
}
# Ops of convolutions, and kernels that change the layout of their inputs and outputs.
_CONVOLUTIONS: Final = "(^aten::|::)(_?(cudnn_|miopen_|thnn_)?conv|(cudnn|miopen|mkldnn)_convolution|convolution)"
_OF_CHANNELS: Final = "[nN][cC]+[hHwW]+[wW]?[tT]o|[nN][hH]*[wW][cC][tT]o|NCHW|NHWC|batched_transpose|[tT]ranspose"


def _remedy_of_copies(evidence: Evidence, labels: Sequence[Label]) -> str:
    """The remedy for the direction of copies that has half of the time; none if most is copied before all kernels, or
    while others run.
    """
    if evidence.copies_first or evidence.copies_beside:
        return ""
    times: Counter[str] = Counter()
    for label in labels:
        times[copying(label.label)] += label.ticks
    text, ticks = times.most_common(1)[0]
    return text if text and 2 * ticks >= sum(times.values()) else evidence.listed("memcpy")


def _remedy_of_products(evidence: Evidence, labels: Sequence[Label]) -> str:
    """The remedy for products. It depends on the use of tensor cores, which must be known for nine tenths of the
    time.
    """
    ticks = sum(label.ticks for label in labels)
    if 10 * sum(label.ticks for label in labels if label.uses_matrix_units is None) > ticks:
        return evidence.listed("GEMM")
    share = sum(label.ticks for label in labels if label.uses_matrix_units) / ticks
    if share >= 0.9:
        # If graphs are replayed, the number of products is fixed.
        ways = [] if evidence.replays else ["make fewer of them"]
        ways += ["use smaller types where accuracy allows"] if evidence.trace.is_wide(family="GEMM") else []
        return f"The products run on {evidence.units} already: {', or '.join(ways)}." if ways else ""
    return _remedy_of_plain_products(evidence, labels, share) or evidence.listed("GEMM")


def _remedy_of_plain_products(evidence: Evidence, labels: Sequence[Label], share: float) -> str:
    """The remedy if not all products run on matrix units; '' if another type would not help."""
    ticks = sum(label.ticks for label in labels)
    by_type = sum(label.ticks for label in labels if not _NOT_BY_TYPE.search(label.label))
    if share >= 0.1 or 2 * by_type < ticks:
        return ""
    if evidence.trace.have_matrix_cores:
        return "Matrix products run without matrix cores: use bfloat16."
    if evidence.trace.have_capability(8):
        return "Matrix products run without tensor cores: use bfloat16, or allow TF32."
    return "Matrix products run without tensor cores: use float16." if evidence.trace.have_capability(7) else ""


def _remedy_of_passes(evidence: Evidence, family: str, labels: Sequence[Label]) -> str:
    """The remedy for kernels that compute little per byte that they read. torch.compile can fuse torch's own
    kernels.
    """
    ticks = sum(label.ticks for label in labels)
    in_memory = sum(
        calls.ticks
        for calls in evidence.rated
        if calls.family == family and calls.bound == "memory" and calls.reads_fast
    )
    scores = sum(row.ticks for row in evidence.unfused_attention if "softmax" in (row.op or ""))
    if family == "softmax" and 2 * scores >= ticks:
        return UNFUSED
    limit = "These kernels are limited by memory: " if 2 * in_memory >= ticks else ""
    if evidence.is_compiled:
        ways = f"fewer passes over it{', or smaller types' if evidence.trace.is_wide(family=family) else ''}."
        return f"{limit}{ways}" if limit else evidence.listed(family)
    if 2 * sum(label.ticks for label in labels if _TORCHS.search(label.label)) < ticks:
        return evidence.listed(family)
    return f"{limit}torch.compile fuses ops that follow each other."


def below_the_roof(evidence: Evidence) -> Iterator[Finding]:
    """Ops of one family and one limit take longer than good kernels would, by a twentieth of the devices' time. Ops
    with too little work for a kernel form one group for all families. But products form a group of their own if they
    alone take a twentieth, because larger products fill a device. Odd sizes have a rule of their own.
    """
    groups: defaultdict[tuple[str, str], list[Rated]] = defaultdict(list)
    for calls in evidence.rated:
        # If no kernel is short, it is unknown how short kernels can be.
        if not calls.is_odd and (calls.bound != "latency" or calls.shortest_ticks < SHORT_TICKS):
            is_one = calls.bound == "latency" and calls.family not in PRODUCTS
            groups["" if is_one else calls.family, calls.bound].append(calls)
    for family in PRODUCTS:
        few = groups.get((family, "latency"))
        if few and _above(few) < 0.05 * evidence.ticks:
            groups["", "latency"] += groups.pop((family, "latency"))
    for (family, bound), rated in groups.items():
        ops = _by_op(rated)
        told = evidence.told_ticks(ops)
        above = _above(rated) - told
        if above < 0.05 * evidence.ticks:
            continue
        ticks, shortest = sum(calls.ticks for calls in rated), rated[0].shortest_ticks
        least = fsum(calls.least_ticks for calls in rated)  # the same in any order of rows
        share = percent(100 * ticks / evidence.ticks)
        cause = None if family in PRODUCTS else {"latency": "host", "memory": "fusion"}.get(bound)
        listed = ", ".join(f"{counted(calls, 'call')} of {op}" for op, calls, _ in ops[:3])
        good = f"{percent(100 * ACHIEVABLE)} of the peak, which good kernels reach"
        short = f"{_time(shortest)} a kernel, the time of the shortest kernel"
        others = ", and without their transposes" if told else ""
        yield Finding(
            "below the roof",
            evidence.severity(above, evidence.ticks),
            f"{share} of the devices' time{evidence.within} is in ops{family and f' of {family}'}"
            f" {_at(bound, rated, ticks, least)}.",
            f"{listed}, with all kernels that they launch, on {rated[0].device}; at stake is the time beyond"
            f" {short if bound == 'latency' else good}{others}; etq roofline lists them",
            _remedy_of_roof(evidence, family, bound, ops[0][0], rated),
            cause="attention" if evidence.is_attention({op: time for op, _, time in ops}) else cause,
            ticks=above,
            whole=evidence.whole,
            whole_ticks=evidence.ticks,
        )


def _above(rated: Sequence[Rated]) -> float:
    """Return how much longer calls with this limit take than good kernels, or than the same number of the shortest
    kernels.
    """
    ticks = sum(calls.ticks for calls in rated)
    if rated[0].bound == "latency":
        return ticks - rated[0].shortest_ticks * sum(calls.kernels for calls in rated)
    return ticks - fsum(calls.least_ticks for calls in rated) / ACHIEVABLE


def _by_op(rated: Sequence[Rated]) -> list[tuple[str, int, int]]:
    """Return ops with their calls and their time, the longest first."""
    calls: Counter[str] = Counter()
    ticks: Counter[str] = Counter()
    for row in rated:
        calls[row.op] += row.calls
        ticks[row.op] += row.ticks
    return [(op, calls[op], ticks[op]) for op in sorted(ticks, key=lambda op: (-ticks[op], op))]


def _at(bound: str, rated: Sequence[Rated], ticks: int, least: float) -> str:
    """Return a clause that says what limits these calls, and how far they are from the limit."""
    if bound == "memory":
        moved = fsum(calls.bytes or 0 for calls in rated)
        # A byte in a nanosecond is a thousandth of a terabyte in a second.
        return f"that move {moved / ticks / 1e3:.2f} of {(rated[0].bandwidth or 0) / 1e12:.2f} TB/s"
    if bound == "compute":
        return f"that reach {percent(100 * least / ticks)} of the peak rate"
    return "that have too little work: at the peak rates, they would take less time than the shortest kernels"


def _remedy_of_roof(evidence: Evidence, family: str, bound: str, main_op: str, rated: Sequence[Rated]) -> str:
    """Return the remedy for ops of a family with this limit."""
    if bound == "latency":
        return _remedy_of_short(evidence, family, rated)
    if evidence.saves_little and family in PRODUCTS:
        return ""
    if bound == "compute":
        return _remedy_of_computing(evidence, family, main_op, rated)
    if family in PRODUCTS:
        smaller = _is_most(rated, lambda calls: calls.is_wide and calls.reads_fast)
        return _remedy_of_reading(family, main_op) + ("; smaller types read less." if smaller else ".")
    if evidence.is_compiled:
        types = ", or smaller types" if _is_most(rated, lambda calls: calls.is_wide) else ""
        return f"Read and write memory less often: fewer passes{types}."
    return "torch.compile fuses ops that follow each other, which then read and write memory once."


def _remedy_of_short(evidence: Evidence, family: str, rated: Sequence[Rated]) -> str:
    """Return the remedy for ops with too little work per kernel; '' if the kernels aren't short, because the cause is
    then unknown. In training, a larger batch is a remedy, unless ops with more work already take longer.
    """
    if not _is_most(rated, lambda calls: calls.ticks <= SHORT_TICKS * calls.kernels):
        return ""
    is_free = evidence.is_training and not _grows(evidence.rated, rated)
    ways = ["a larger batch, if the model converges as well with it"] if is_free else []
    if family not in PRODUCTS and not evidence.is_compiled:
        ways.append("torch.compile, which fuses ops that follow each other")
    return f"Try {', or '.join(ways)}." if ways else ""


def _grows(all_rated: Sequence[Rated], rated: Sequence[Rated]) -> bool:
    """Return whether ops with half of the time take longer with more work. For each op, the calls with the least and
    the most work are compared. The latter must have at least twice the work, and their time must grow at least by the
    square root of the ratio of work.
    """
    works: defaultdict[tuple[str, str | None], list[tuple[float, float]]] = defaultdict(list)
    for calls in all_rated:
        if calls.least_ticks > 0 and calls.ticks > 0:
            works[calls.op, calls.type].append((calls.least_ticks / calls.calls, calls.ticks / calls.calls))

    def grows(calls: Rated) -> bool:
        (least, of_least), (most, of_most) = (choose(works[calls.op, calls.type] or [(1, 1)]) for choose in (min, max))
        return most >= 2 * least and of_most / of_least >= (most / least) ** 0.5

    return _is_most(rated, grows)


def _remedy_of_computing(evidence: Evidence, family: str, main_op: str, rated: Sequence[Rated]) -> str:
    """Return the remedy for ops of a family that compute more slowly than the device could. It names the things that
    most of them lack.
    """
    if family == "attention":
        return _remedy_of_attention(main_op)
    sizes = "channels in multiples of 8" if family == "convolution" else "sizes that are multiples of the tiles"
    ways = [sizes] if _is_most(rated, lambda calls: calls.is_padded) else []
    if family == "GEMM" and _is_most(rated, lambda calls: calls.is_small):
        ways.append("larger products")
    if _is_most(rated, lambda calls: calls.is_wide):
        ways.append("smaller types where accuracy allows")
    *first, last = ways or [""]
    return f"Use {', '.join(first)}{', or ' if first else ''}{last}." if last else ""


def _remedy_of_attention(op: str) -> str:
    chosen = ": torch.nn.attention.sdpa_kernel chooses one" if "scaled_dot_product" in op else ""
    return f"Another kernel of attention may be faster{chosen}."


def _remedy_of_reading(family: str, main_op: str) -> str:
    if family == "attention":
        return _remedy_of_attention(main_op).removesuffix(".")
    # In batches of products, each element of the batch reads operands of its own.
    if main_op in ("aten::bmm", "aten::baddbmm"):
        return (
            "A larger batch reads more of both operands: fuse the products with the ops between them,"
            " or share an operand"
        )
    return "Use a larger batch, which does more work with the data that it reads"


def _is_most(rated: Sequence[Rated], condition: Callable[[Rated], bool]) -> bool:
    """Return whether a condition applies to calls with more than half of the time."""
    return 2 * sum(calls.ticks for calls in rated if condition(calls)) > sum(calls.ticks for calls in rated)


def fusable_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Fusing chains saves a twentieth of the whole time. The whole includes idle time, because shorter kernels save
    little on a device that is often idle.
    """
    saved = sum(chain.saved_ticks for chain in evidence.chains)
    if not saved or saved < 0.05 * evidence.span_ticks:
        return
    within = " of steps" if evidence.is_part else ""
    kernels = sum(chain.kernels * chain.calls for chain in evidence.chains)
    chains = sum(chain.calls for chain in evidence.chains)
    most = "; ".join(
        f"{shortened(chain.sequence, 160)} ({counted(chain.calls, 'time')})" for chain in evidence.chains[:2]
    )
    yield Finding(
        "fusable kernels",
        evidence.severity(saved, evidence.span_ticks),
        f"Kernels{within} that compute element by element or reduce follow each other:"
        f" {counted(kernels, 'kernel')} in {counted(chains, 'chain')}.",
        f"most time: {most}; etq show fusable_chains lists them",
        "torch.compile may fuse each chain into one kernel, which reads and writes memory once. If this kernel takes"
        f" as long as the longest of the chain, it saves {_time(saved)} of the devices' time.",
        cause="fusion",
        ticks=saved,
        whole=SPAN_OF_STEPS if evidence.is_part else SPAN,
        whole_ticks=evidence.span_ticks,
    )


def layouts(evidence: Evidence) -> Iterator[Finding]:
    """Transposes within convolutions take a twentieth of the devices' time."""
    if not evidence.tells_layouts:
        return
    ticks = evidence.layout_ticks
    kernels: Counter[str] = Counter()
    for row in evidence.layouts:
        kernels[row.label] += row.ticks
    [(label, _)] = kernels.most_common(1)
    yield Finding(
        "layouts of convolutions",
        evidence.severity(ticks, evidence.ticks),
        f"{percent(100 * ticks / evidence.ticks)} of the devices' time{evidence.within} is in transposes that "
        "convolutions launch.",
        f"{counted(sum(row.kernels for row in evidence.layouts), 'kernel')}, most time in {shortened(label, 120)}",
        CHANNELS_LAST,
        cause="layouts",
        ticks=ticks,
        whole=evidence.whole,
        whole_ticks=evidence.ticks,
    )


def unfused_attention(evidence: Evidence) -> Iterator[Finding]:
    """Unfused attention (product, softmax, product) takes a twentieth of the devices' time, although they have fused
    kernels for it.
    """
    rows = evidence.unfused_attention
    if not rows:
        return
    ticks, kernels, softmax = (
        sum(column) for column in zip(*((u.ticks, u.kernels, u.softmax) for u in rows), strict=True)
    )
    share = percent(100 * ticks / evidence.ticks)
    yield Finding(
        "unfused attention",
        evidence.severity(ticks, evidence.ticks),
        f"{share} of the devices' time{evidence.within} is unfused attention: product, softmax, product.",
        f"{counted(softmax, 'softmax kernel')} between batches of products, {counted(kernels, 'kernel')};"
        " etq kernels lists them",
        UNFUSED,
        cause="attention",
        ticks=ticks,
        whole=evidence.whole,
        whole_ticks=evidence.ticks,
    )


def odd_sizes(evidence: Evidence) -> Iterator[Finding]:
    """Products on tensor cores whose kernels read one or two elements at once take a twentieth of the devices' time."""
    ticks = sum(calls.ticks for calls in evidence.odd)
    share = 100 * ticks / evidence.ticks
    if share < 5:
        return
    ops: Counter[str] = Counter()
    for calls in evidence.odd:
        ops[calls.op or ""] += calls.ticks
    kernel = shortened(evidence.odd[0].label, 120)
    multiple = max(_elements(calls.label) for calls in evidence.odd)
    padding = f"Make matrix sizes multiples of {multiple}, for example by padding: their kernels read 16 bytes at once."
    yield Finding(
        "odd sizes",
        evidence.severity(ticks, evidence.ticks),
        f"{percent(share)} of the devices' time{evidence.within} is in products whose sizes are not aligned.",
        f"{counted(sum(calls.calls for calls in evidence.odd), 'call')} of kernels such as {kernel}",
        "" if evidence.saves_little else padding,
        cause="attention" if evidence.is_attention(ops) else None,
        ticks=ticks,
        whole=evidence.whole,
        whole_ticks=evidence.ticks,
    )


def _time(ticks: float) -> str:
    """Return a time of a trace, whose ticks are nanoseconds, as text."""
    return time(ticks / 1000, "us")
