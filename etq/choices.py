"""Words that users choose from, in Python and on the command line, and the options that they give; SQL has its own
checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

TimeScale = Literal["ns", "us", "ms", "s", "cycles"]

UNITS: Final[tuple[str, ...]] = get_args(TimeScale)
# Phases of runs; `_known_phase` in SQL checks the same words.
PHASES: Final = ("load", "prefill", "decode", "mixed", "other")
# Which runs a row combines: as `_is_selected_run` in SQL.
RUNS: Final = ("typical", "all")
# Groupings of ops in an ETDump, as `op_totals` in SQL.
OPS_BY: Final = ("family", "label", "instance", "op_type", "shape")
# What a trend is of, as `trend` in SQL.
TREND_KINDS: Final = ("total", "op", "module", "metric")


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given: without those that are None, and flags that are not set. 0 is given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
