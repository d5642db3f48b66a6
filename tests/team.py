"""A warehouse as a team has it: 2,000 captures of the kept fleets with labels, in which an op is slower from a build on.

The captures are those of `tests/captures/fleet`, in an order drawn with a fixed seed. Files that were ingested once are
copied by SQL, with other keys, hashes, names and labels.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pyarrow as pa

import etq
from etq import catalog
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.slower import slower

MODELS: Final = ("mlp", "convnet")
DEVICES: Final = ("pixel8", "pixel9", "galaxy24", "iphone15")
BUILDS: Final = 50
OF_BUILD: Final = 5
# What is slower, one call of an op, from which build on, and on which device.
SLOWER_OP: Final = "native_call_addmm.out"
SLOWER_INSTRUCTION: Final = 4
SLOWER: Final = 1.15
SLOW_MODEL: Final = "mlp"
SLOW_DEVICE: Final = "pixel9"
SLOW_FROM: Final = 31


def make(path: Path) -> None:
    """Make the warehouse."""
    files = {model: sorted((CAPTURES / "fleet" / model).glob("*.etdp")) for model in MODELS}
    sources: list[Labelled] = []
    places: dict[tuple[str, bool], list[int]] = {}  # the keys of what is copied
    for model, is_slow in ((MODELS[0], False), (MODELS[1], False), (SLOW_MODEL, True)):
        first = len(sources) + 1
        for at, file in enumerate(files[model]):
            content = slower(file, SLOWER_OP, SLOWER_INSTRUCTION, SLOWER) if is_slow else file.read_bytes()
            sources.append(Labelled(f"{model}-{is_slow}-{at}", content, {}))
        places[model, is_slow] = [*range(first, len(sources) + 1)]
    draw = random.Random(1)
    plan = []
    for build in range(1, BUILDS + 1):
        for device in DEVICES:
            for model in MODELS:
                is_slow = (model, device) == (SLOW_MODEL, SLOW_DEVICE) and build >= SLOW_FROM
                for number, source in enumerate(draw.sample(places[model, is_slow], OF_BUILD)):
                    name = f"{model}-{device}-{build}-{number}"
                    plan.append({"source": source, "name": name, "model": model, "device": device, "build": str(build)})
    with etq.open(path) as lab:
        ingest_all(lab, sources)
        _copy(lab, len(sources), plan)


def _copy(lab: etq.Warehouse, sources: int, plan: list[dict[str, object]]) -> None:
    connection = lab.connection
    for at, row in enumerate(plan):
        row["capture_id"] = sources + 1 + at
    connection.register("_plan", pa.Table.from_pylist(plan))
    copied = [each.name for each in catalog.tables() if "capture_id" in {column.name for column in each.columns}]
    connection.execute("BEGIN")
    for table in copied:
        others = """,
            sha256(p.name) AS sha256, p.name AS name, 'fleet/' || p.name || '.etdp' AS uri,
            TIMESTAMP '2026-01-01' + to_minutes(p.capture_id::INTEGER) AS captured_at,
            t.ingested_at + to_seconds(p.capture_id::INTEGER) AS ingested_at"""
        connection.execute(
            f"""
            INSERT INTO {table}
            SELECT t.* REPLACE (p.capture_id::INTEGER AS capture_id{others if table == "captures" else ""})
            FROM _plan AS p
            JOIN {table} AS t ON t.capture_id = p.source
            ORDER BY p.capture_id, t.rowid
            """
        )
        connection.execute(f"DELETE FROM {table} WHERE capture_id <= {sources:d}")
    connection.execute(
        """
        DELETE FROM labels;
        INSERT INTO labels
        SELECT p.capture_id, l.key, l.value
        FROM _plan AS p, LATERAL (VALUES
            ('model', p.model), ('device', p.device), ('build', p.build), ('commit', sha1('commit ' || p.build)[:10])
        ) AS l (key, value)
        ORDER BY p.capture_id, l.key;
        COMMIT
        """
    )
    connection.unregister("_plan")
