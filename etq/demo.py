"""`etq demo`: a warehouse of the bundled captures, and first queries."""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path
from typing import Final

import etq.datasets
from etq.errors import WarehouseError
from etq.render.table import table
from etq.render.terminal import style_of
from etq.warehouse.warehouse import open

QUESTIONS: Final = (
    ("What is in the warehouse?", "SELECT name, runs, events, profiling_level, labels FROM capture_summary"),
    (
        "Where does the time of the convnet go, op by op?",
        "SELECT op, kind, per_execute, per_call, share_percent, calls, unit FROM op_totals('convnet', unit := 'us')",
    ),
    (
        "And with XNNPACK?",
        "SELECT op, kind, per_execute, per_call, share_percent, calls, unit "
        "FROM op_totals('convnet_xnn', unit := 'us')",
    ),
    (
        "What is the time of its executes made of?",
        "SELECT component, calls, per_execute, share_percent, unit FROM execute_breakdown('convnet_xnn')",
    ),
    (
        "What does the framework cost in addition to the kernels, after the first run?",
        "SELECT run_index, execute, kernels, tax, tax_percent, note, unit "
        "FROM framework_tax('mlp', steps := 'skip_first=1') ORDER BY run_index LIMIT 4",
    ),
    (
        "How slow are the slowest runs of the mlp's operators?",
        "SELECT p.event_name, p.instruction_id, max(p.value) FILTER (WHERE p.quantile = 0.5) AS p50, "
        "max(p.value) FILTER (WHERE p.quantile = 0.99) AS p99, p.unit "
        "FROM percentiles('mlp', quantiles := [0.5, 0.99]) AS p WHERE p.event_name LIKE 'native_call%' "
        "GROUP BY ALL ORDER BY p99 DESC, p.instruction_id LIMIT 5",
    ),
    (
        "Which commit, device or backend was slower? The captures carry labels; SQL does the rest.",
        "SELECT c.labels['backend'] AS backend, count(DISTINCT capture_id) AS captures, "
        "median(e.duration_ticks) / 1000 AS median_execute, 'us' AS unit "
        "FROM events AS e JOIN labelled_captures AS c USING (capture_id) "
        "WHERE c.labels['model'] = 'convnet' AND e.name = 'Method::execute' GROUP BY ALL ORDER BY ALL",
    ),
    ("Where did memory go?", "FROM memory_totals('mlp_alloc')"),
)


NEXT: Final = """
Next, with a file of yours, an ETDump or a trace of PyTorch's profiler:

    etq run.etdp                          # where its time goes
    etq report run.etdp --open            # all of it, as a page
    etq ingest run.etdp --label build=41  # store it, to compare it with others

"""


def run(db: str | None) -> None:
    """Ingest the bundled captures and print the answers to `QUESTIONS`, each with its SQL.

    Raises `WarehouseError`, and ingests none, if the warehouse has another capture of such a name, or one of them by
    another name.
    """
    folder = Path(next(iter(etq.datasets.__path__)))
    files = {name: folder / file for name, (file, _) in etq.datasets.CAPTURES.items()}
    with open(db) as warehouse:
        hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
        for name, sha256 in warehouse.rows("SELECT c.name, c.sha256 FROM captures AS c ORDER BY ALL")[1]:
            if hashes.get(name, sha256) != sha256 or (sha256 in hashes.values() and name not in hashes):
                raise WarehouseError(
                    f"{db}: its capture {name} has the name or the content of a capture of the demo; nothing was "
                    "ingested; choose a warehouse for the demo alone: etq demo --db demo.duckdb"
                )
        for name, path in files.items():
            warehouse.ingest(path, name=name, labels=etq.datasets.CAPTURES[name][1])
        for question, query in QUESTIONS:
            relation = warehouse.sql(query)
            answer = table(relation.columns, relation.fetchall(), style_of(sys.stdout))
            sys.stdout.write(f"\n{question}\n\n    {query}\n\n{answer}")
    sys.stdout.write(NEXT)
    if db is None:
        sys.stdout.write("To keep the captures above: etq demo --db demo.duckdb\n")
    else:
        sys.stdout.write(f"To list the captures above: etq captures --db {shlex.quote(db)}\n")
