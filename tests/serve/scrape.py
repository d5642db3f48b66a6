"""What a server counts, by the parsers of Prometheus's own client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.server import Server

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]
OPEN = "application/openmetrics-text; version=1.0.0"


def scraped(server: Server, authorization: str | None = None) -> Values:
    """The value of each name with its labels, after both formats were parsed."""
    prometheus = pytest.importorskip("prometheus_client.parser", reason="answers are parsed by prometheus_client")
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    given: Any = {} if authorization is None else {"authorization": authorization}
    reply = server.get("/metrics", accept=OPEN, **given)
    assert reply.status == 200 and reply.headers["content-type"].startswith(OPEN)
    # This parser refuses doubled names, buckets that aren't in order, counters without their ending, and others.
    families = [*openmetrics.text_string_to_metric_families(reply.body.decode())]
    reply = server.get("/metrics", **given)
    assert reply.status == 200 and reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    same = [*prometheus.text_string_to_metric_families(reply.body.decode())]
    assert {(each.name, each.type) for each in same} == {(each.name, each.type) for each in families}
    return _values(same)


def _values(families: list[Any]) -> Values:
    found: Values = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def value(values: Values, name: str, **labels: str) -> float:
    return values[name, frozenset(labels.items())]
