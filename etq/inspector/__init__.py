"""The API of `executorch.devtools.inspector` without executorch: scripts run after their import is changed.

    from etq.inspector import Inspector, TimeScale
    Inspector(etdump_path="run.etdp", etrecord="net.etrecord").print_data_tabular()

Results come from the views of etq's SQL. They are right where executorch's Inspector is wrong; with `compat=True` they
reproduce its results. See `Inspector`.
"""

from __future__ import annotations

from etq.inspector.events import Event, EventBlock, PerfData
from etq.inspector.inspector import Inspector
from etq.inspector.results import compare_results
from etq.inspector.scales import TimeScale
from etq.inspector.vgf import parse_vgf_neural_statistics_delegate_metadata, parse_vgf_neural_statistics_metadata

__all__ = [
    "Event",
    "EventBlock",
    "Inspector",
    "PerfData",
    "TimeScale",
    "compare_results",
    "parse_vgf_neural_statistics_delegate_metadata",
    "parse_vgf_neural_statistics_metadata",
]
