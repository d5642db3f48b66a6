"""What the process that asks untrusted SQL reads of the one that answers: any bytes, if a query has taken that over."""

from __future__ import annotations

import re
import resource
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from etq.errors import EtqError, QueryError
from etq.sandbox import client as sandbox
from etq.sandbox.results import decoded, encoded


def runs_instead(folder: Path, patch: pytest.MonkeyPatch, command: str) -> None:
    """Have a command of the shell run instead of Python."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{command}\n")
    python.chmod(0o755)
    patch.setattr(sys, "executable", str(python))


def sends_instead(folder: Path, patch: pytest.MonkeyPatch, answer: bytes) -> None:
    """Have the process send an answer of any bytes, after its length."""
    (folder / "answer").write_bytes(len(answer).to_bytes(8, "little") + answer)
    runs_instead(folder, patch, f"cat '{folder}/answer'; exec sleep 60")


def test_all_values_come_over_as_they_are() -> None:
    values: list[Any] = [
        *(None, True, 0, -(2**63), 2**63, 10**40, 1.5, -0.0, float("inf"), float("-inf"), "", "a\n\u2028\0\"", b"", b"\xaa"),
        *(Decimal("1.50"), Decimal("-1E+9"), UUID(int=7), date(1, 1, 1), time(23, 59, 1, 5), timedelta(-3, 5, 7)),
        *(datetime(9999, 12, 31, 1), datetime(2026, 5, 1, tzinfo=UTC), time(1, tzinfo=timezone(timedelta(hours=-3)))),
        *([], [None, [1, b"x"]], {}, {"Decimal": "1", "dict": []}, {1: {date(2026, 1, 1): [Decimal(2)]}}, (), (1, (2,))),
    ]  # fmt: skip
    rows = [(value, at, [value]) for at, value in enumerate(values)]
    assert repr(decoded(encoded(rows))) == repr(rows)
    assert decoded(encoded([(10**5000,)])) == [(10**5000,)]
    assert repr(decoded(encoded([(float("nan"),)]))) == "[(nan,)]"
    with pytest.raises(EtqError, match="has a builtins.complex; cast it to a text"):
        encoded([(1j,)])


@pytest.mark.parametrize(
    ("writes", "error"),
    [
        ("yes", "the query's result took more than 16 MB of memory"),
        ("cat /dev/zero", "the query's process sent no result that can be read"),
        ("cat /dev/zero >&2", "the query took longer than 1.5 s"),
    ],
)
def test_a_process_that_writes_without_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: str, error: str
) -> None:
    """A query that has taken its process over can't fill the memory of the one that asks."""
    runs_instead(tmp_path, monkeypatch, f"exec {writes}")
    monkeypatch.setattr(sandbox, "STARTING", 0.0)
    monkeypatch.setenv("ETQ_WAIT", "0")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(QueryError, match=f"^{re.escape(error)}$"):
        sandbox.ask(str(tmp_path / "lab.duckdb"), "SELECT 1", None, seconds=1.5, megabytes=16)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize(
    "sent",
    [
        "nothing",
        "",
        "[1]",
        "{}",
        '["rows", ["a"]]\n[[1], [2, 3]]',
        '["rows", ["a"]]\n[[{"eval": "1"}]]',
        '["rows", [1]]',
        '["rows", ["a"]]\n[[1], [2]]',
        '["rows", ["a"]]\n\n\n',
    ],
)
def test_a_process_that_sends_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: str) -> None:
    sends_instead(tmp_path, monkeypatch, sent.encode())
    with pytest.raises(QueryError, match="^the query's process sent no result that can be read$"):
        sandbox.ask(str(tmp_path / "lab.duckdb"), "SELECT 1", None)


def test_few_bytes_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bytes of pickle had their reader take a gigabyte."""
    sends_instead(tmp_path, monkeypatch, b"\x80\x04Nr\xff\xff\xff\x03.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(QueryError, match="^the query's process sent no result that can be read$"):
        sandbox.ask(str(tmp_path / "lab.duckdb"), "SELECT 1", None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
