"""The section about memory: allocated, and planned in the program's file."""

from __future__ import annotations

from etq.report.kit import Rows, Section, grid
from etq.report.target import Target


def memory(target: Target) -> Section:
    grids = [*filter(None, [Rows("memory_totals", "Allocators, as measured").of(target)])]
    missing = None
    if target.has_program:
        planned = target.table(
            """
            SELECT m.*, v.scalar_type, v.sizes::VARCHAR AS sizes
            FROM captures AS c
            JOIN programs AS g ON g.program_id = c.program_id,
                LATERAL (FROM planned_memory(g.sha256)) AS m
            JOIN program_values AS v
                ON v.program_id = g.program_id AND v.method = m.method AND v.value_index = m.value_index
            WHERE c.capture_id = $capture
            ORDER BY m.method, m.memory_id, m.memory_offset, m.value_index
            """
        )
        if planned.length:
            grids.insert(0, grid("planned_memory", planned, sort="size_bytes", others=("scalar_type", "sizes")))
    else:
        missing = (
            "The places and lifetimes of tensors are in the program's file, which the capture lacks: "
            f"etq link {target.name} PROGRAM.pte, or --pte for a file."
        )
    return Section("memory", "Planned memory", missing=missing, grids=grids)
