"""The API of `executorch.devtools.inspector`, without executorch: scripts run with the import changed.

    from etq.inspector import Inspector, TimeScale
    Inspector(etdump_path="run.etdp", etrecord="net.etrecord").print_data_tabular()

Answers come from the views of etq's SQL. Where executorch's Inspector is wrong, this one is right, and gives the
Inspector's answer with `compat=True`; see `Inspector`.
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
