"""What a server counts, in the text format of Prometheus (0.0.4) and of OpenMetrics (1.0.0)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from etq.errors import EtqError

# The upper ends of the histogram's buckets, in seconds: a kept answer takes 1 ms, a question at most a minute.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Others are counted as one: clients may send any word.
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# In the place of a route: of requests to no path of the server, and of those that it refused before it looked.
NO_ROUTE: Final = "none"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """A value with its labels; `ending` follows the family's name, as in `_bucket`."""

    value: float
    labels: Labels
    ending: str = ""


@dataclass(frozen=True)
class Family:
    """Values of one name.

    name     without the ending `_total` of a counter
    type     counter, gauge or histogram
    """

    name: str
    type: str
    help: str
    samples: Iterable[Sample]


def gauge(name: str, help: str, value: float, **labels: str) -> Family:
    """Return a family of one value."""
    return Family(name, "gauge", help, [Sample(value, labels)])


def counter(name: str, help: str, value: float) -> Family:
    """Return a counter of one value."""
    return Family(name, "counter", help, [Sample(value, {}, "_total")])


class Requests:
    """Requests by route, method and status, and how long they took."""

    def __init__(self) -> None:
        self.running = 0
        self._counts = Counter[tuple[str, str, int]]()
        self._buckets: dict[str, list[int]] = {}
        self._seconds = defaultdict[str, float](float)
        self._bytes = 0

    def add(self, route: str, method: str, status: int, seconds: float, size: int) -> None:
        """Count a request that was answered by so many bytes."""
        self._counts[route, method if method in METHODS else "other", status] += 1
        self._buckets.setdefault(route, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds
        self._bytes += size

    async def families(self) -> Iterable[Family]:
        """Return what was counted."""
        counts = [
            Sample(count, {"route": route, "method": method, "status": str(status)}, "_total")
            for (route, method, status), count in sorted(self._counts.items())
        ]
        return [
            Family("etq_http_requests", "counter", "Requests that were answered.", counts),
            Family(
                "etq_http_request_duration_seconds", "histogram", "Time from a request to the end of its answer.",
                [*self._durations()],
            ),
            gauge("etq_http_requests_running", "Requests that are being answered.", self.running),
            counter("etq_http_response_bytes", "Bytes of answers, without their heads.", self._bytes),
        ]  # fmt: skip

    def _durations(self) -> Iterator[Sample]:
        for route, counts in sorted(self._buckets.items()):
            total = 0
            for end, count in zip((*BUCKETS, math.inf), counts, strict=True):
                total += count
                yield Sample(total, {"route": route, "le": _number(end)}, "_bucket")
            yield Sample(self._seconds[route], {"route": route}, "_sum")
            yield Sample(total, {"route": route}, "_count")


Collector = Callable[[], Awaitable[Iterable[Family]]]


class Meters:
    """The requests of a server, and what its parts add."""

    def __init__(self) -> None:
        self.requests = Requests()
        self._collectors: list[Collector] = [self.requests.families]

    def add(self, collector: Collector) -> None:
        """Have a function tell its values each time that somebody asks. Labels have few values each, never a client's
        words. What can't be known at the time is left out: the function raises `EtqError` or `OSError`.
        """
        self._collectors.append(collector)

    async def text(self, *, is_open_metrics: bool) -> str:
        """Return all values in the text format of Prometheus, or in that of OpenMetrics."""
        lines: list[str] = []
        for collect in self._collectors:
            with suppress(EtqError, OSError):
                for family in await collect():
                    lines += _lines(family, is_open_metrics)
        if is_open_metrics:
            lines.append("# EOF")
        return "\n".join(lines) + "\n"


def _lines(family: Family, is_open_metrics: bool) -> Iterator[str]:
    # Prometheus's own format names a counter with its ending.
    name = family.name + ("_total" if family.type == "counter" and not is_open_metrics else "")
    yield f"# HELP {name} {_escaped(family.help)}"
    yield f"# TYPE {name} {family.type}"
    for sample in family.samples:
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in sample.labels.items())
        yield f"{family.name}{sample.ending}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)
