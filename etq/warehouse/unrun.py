"""Loads an ETRecord or a program as a capture without runs, so that its graph is shown like that of a capture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from etq.database.handles import Capture
from etq.version import VERSION
from etq.warehouse.warehouse import Warehouse, open

_CAPTURE: Final = """
    INSERT INTO captures BY NAME
    SELECT 1 AS capture_id, r.sha256, r.name, 'reference' AS format, r.uri, r.size_bytes, r.ingested_at,
        'ns' AS time_scale, r.record_id, {program} AS program_id, $version AS etq_version
    FROM records AS r
    RETURNING capture_id, name, sha256, format
"""
# A program's instructions as the graph of a record: kernels, calls of delegates, moves and jumps. An instruction
# produces those of its values that no earlier instruction has, and that are neither inputs nor constants.
_INSTRUCTIONS: Final = """
    CREATE TEMP TABLE _instructions AS
    SELECT
        i.method, m.method_index AS graph_id, i.instruction_id, i.kind, i.op, i.overload, d.backend, i.arguments,
        (row_number() OVER (PARTITION BY i.method ORDER BY i.chain_index, i.instruction_id) - 1)::INTEGER AS node_index
    FROM instructions AS i
    JOIN methods AS m ON m.program_id = i.program_id AND m.method = i.method
    LEFT JOIN program_delegates AS d
        ON d.program_id = i.program_id AND d.method = i.method AND d.delegate_index = i.delegate_index
    WHERE i.kind <> 'free';

    CREATE TEMP TABLE _arguments AS
    WITH
    given AS (
        SELECT n.method, n.graph_id, n.node_index, unnest(n.arguments) AS value_index,
            generate_subscripts(n.arguments, 1)::INTEGER - 1 AS position
        FROM _instructions AS n
    ),
    -- Lists of tensors have the tensors.
    taken AS (
        SELECT g.* EXCLUDE (value_index),
            unnest(CASE WHEN v.kind LIKE '%tensor_list' THEN v.items ELSE [g.value_index] END) AS value_index
        FROM given AS g
        LEFT JOIN program_values AS v ON v.method = g.method AND v.value_index = g.value_index
    )
    SELECT t.*, v.kind, v.number, v.text, v.scalar_type, v.sizes,
        v.kind = 'tensor' AS is_tensor,
        v.is_input OR v.is_constant OR v.constant_index IS NOT NULL AS is_given,
        min(t.node_index) OVER (PARTITION BY t.method, t.value_index) AS maker
    FROM taken AS t
    JOIN program_values AS v ON v.method = t.method AND v.value_index = t.value_index;

    INSERT INTO records BY NAME
    SELECT 1 AS record_id, p.sha256, p.name, p.uri, p.size_bytes, p.ingested_at, true AS is_complete, p.etq_version
    FROM programs AS p;

    INSERT INTO graphs BY NAME
    SELECT 1 AS record_id, m.method_index AS graph_id, 'exported_program' AS stage, m.method, '' AS member
    FROM methods AS m;

    INSERT INTO op_nodes BY NAME
    SELECT
        1 AS record_id, n.graph_id, n.node_index, '' AS subgraph,
        coalesce(regexp_extract(n.op, '[^:]+$'), n.backend, n.kind) || '_' || n.instruction_id AS name,
        coalesce(n.op || coalesce('.' || n.overload, ''), n.backend, n.kind) AS target,
        replace(coalesce(n.op || coalesce('.' || n.overload, ''), n.backend, n.kind), '::', '.') AS op_type,
        coalesce(regexp_extract(n.op, '[^:]+$'), n.backend, n.kind) AS op
    FROM _instructions AS n;

    INSERT INTO node_values BY NAME
    SELECT DISTINCT ON (a.graph_id, a.value_index)
        1 AS record_id, a.graph_id, CASE WHEN NOT a.is_given THEN a.maker END AS node_index,
        a.value_index::INTEGER AS output_index, 'value_' || a.value_index AS value_name,
        CASE WHEN a.is_given THEN 'input' ELSE 'result' END AS kind, a.scalar_type AS dtype, a.sizes, a.value_index
    FROM _arguments AS a
    WHERE a.is_tensor;

    INSERT INTO node_arguments BY NAME
    SELECT
        1 AS record_id, a.graph_id, a.node_index, a.position, '' AS argument,
        CASE WHEN a.is_tensor THEN a.value_index END AS value_index,
        CASE WHEN NOT a.is_tensor THEN coalesce(a.number::VARCHAR, to_json(a.text)::VARCHAR) END AS literal
    FROM _arguments AS a
    WHERE a.is_tensor OR a.number IS NOT NULL OR a.text IS NOT NULL;

    INSERT INTO op_edges BY NAME
    SELECT 1 AS record_id, a.graph_id, a.maker AS from_node, a.node_index AS to_node, a.position
    FROM _arguments AS a
    WHERE a.is_tensor AND NOT a.is_given AND a.node_index > a.maker;
"""


def open_unrun(path: str | os.PathLike[str]) -> tuple[Warehouse, Capture]:
    """Load an ETRecord or a program into a warehouse in memory, with a capture of the same name that has no runs.

    Errors are those of `Warehouse.ingest_record` and `ingest_program`.
    """
    with Path(path).open("rb") as file:
        is_record = file.read(4) == b"PK\x03\x04"
    warehouse = open()
    (warehouse.ingest_record if is_record else warehouse.ingest_program)(path)
    with warehouse.locked() as connection:
        if not is_record:
            connection.execute(_INSTRUCTIONS)
        query = _CAPTURE.format(program="NULL" if is_record else "1")
        [row] = connection.execute(query, {"version": VERSION}).fetchall()
        connection.execute("INSERT INTO placed_nodes SELECT 1, d.* EXCLUDE (record_id) FROM delegated_nodes AS d")
    return warehouse, Capture(*row)
