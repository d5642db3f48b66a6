"""HolisticTraceAnalysis's answers on the traces of `tests.launch_traces`, made by `tests/parity/make_hta.py`."""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any

from tests.conftest import CAPTURES


@functools.cache
def _answers() -> Any:
    return json.loads(gzip.decompress((CAPTURES / "expected" / "hta.json.gz").read_bytes()))


def hta(name: str) -> Any:
    """The answers on one trace: rows by question."""
    return _answers()[name]
