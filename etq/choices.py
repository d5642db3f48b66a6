"""The words that users choose among, in Python and on the command line; SQL checks them itself."""

from __future__ import annotations

from typing import Final, Literal, get_args

TimeScale = Literal["ns", "us", "ms", "s", "cycles"]

UNITS: Final[tuple[str, ...]] = get_args(TimeScale)
# Phases of runs, as `_known_phase` in SQL.
PHASES: Final = ("load", "prefill", "decode", "other")
# Which runs are put together: as `_is_selected_run` in SQL.
RUNS: Final = ("typical", "all")
# Groupings of ops in an ETDump, as `op_totals` in SQL.
OPS_BY: Final = ("family", "label", "instance", "op_type", "shape")
