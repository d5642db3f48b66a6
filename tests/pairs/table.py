"""The table of pairs: each public view, and another way to compute its numbers.

A pair is a function that computes both answers. The pairs are in modules by topic, which this module imports. If a view
has no second way, the reason is here.
"""

from __future__ import annotations

from typing import Final

from tests.pairs import of_events, of_execute, of_files, of_records, of_traces
from tests.pairs.asking import PAIRS, Pair

__all__ = ["PAIRS", "TOPICS", "WITHOUT", "of"]

TOPICS: Final = (of_events, of_execute, of_files, of_records, of_traces)

# Views that have no second way, and why.
WITHOUT: Final[dict[str, str]] = {
    "known_metrics": "a list of names, units and meanings: it documents, and computes nothing",
    **dict.fromkeys(
        ("node_gaps", "node_memory", "node_roofline"),
        "needs a program, peaks or values: its second way is in tests/sql/test_node_views.py",
    ),
    "outliers": "tests/sql/test_causes.py holds it against compare_captures, and against faults that are planted",
    **dict.fromkeys(
        ("causes", "compared_devices", "series"), "tests/sql/test_causes.py holds them against faults that are planted"
    ),
    "compare_jobs": "the fleet has no jobs; tests/sql/test_jobs.py holds it against steps that are planted",
    "job_critical_path": "a rank alone has none; tests/sql/test_job_path.py holds it against a walk in Python",
    "rank_waits": "a rank alone waits for none; tests/sql/test_jobs.py holds it against waits that are planted",
    "missing_needs": "its second way, each view asked for each capture, is in tests/sql/test_missing_needs.py",
    "clock_steps": "its second way is the clock that tests/sql/test_clock_steps.py simulates",
    "sampled_counters": "few traces have them; tests/sql/test_unknown_categories.py has them by hand",
    "compilations": "few traces compile; tests/sql/test_compilation.py has them by hand",
    "compilation": "few traces compile; tests/sql/test_compilation.py has steps that are counted by hand",
    "trace_traits": "it tells kinds of programs by names: remedies depend on it, and tests of advice write such names",
    "kernel_counters": "needs CUPTI's counters; its second way is in tests/sql/test_kernel_counters.py",
    "delegate_graph": "needs a program; its second way is in tests/sql/test_delegate_graph.py",
    "compare_calls": "the fleet's captures have the same calls; tests/sql/test_compare_calls.py counts others by hand",
    "device_peaks": "a list of rates of devices, from their makers: it documents, and computes nothing",
    "compare_efficiency": "the fleet has no traces of two devices; its second way is in tests/sql/test_compare_efficiency.py",
    "cost_formulas": "a list of formulas: it documents those that node_costs is held against",
}


def of(kind: str) -> list[Pair]:
    """The pairs for captures of a kind."""
    return [each for each in PAIRS if each.of == kind]
