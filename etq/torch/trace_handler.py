"""Stores traces of PyTorch's profiler in a warehouse when they are made, without keeping trace files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from etq.database.temporary import temporary_folder
from etq.warehouse.warehouse import open


def torch_trace_handler(
    warehouse: str | os.PathLike[str], *, labels: Mapping[str, str] | None = None, name: str | None = None
) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready` of `torch.profiler.profile` that stores each trace in a warehouse file.

    Each capture has these labels, a label `step` (the profiler's) and, in distributed runs, `rank`; its captured_at is
    the time of the call.

    warehouse  path of the warehouse file; created if it doesn't exist
    labels     key=value pairs that distinguish captures
    name       name of the captures, followed by the step; by default host, process and time, as
               `torch.profiler.tensorboard_trace_handler` names files

    The function raises `WarehouseError` if the warehouse can't be written.
    """

    def handle(profiler: Any) -> None:
        now = datetime.now(UTC)
        stem = f"{socket.gethostname()}_{os.getpid()}.{now.timestamp() * 1e9:.0f}" if name is None else name
        step = str(profiler.step_num)
        with temporary_folder() as folder:
            path = Path(folder) / "worker.pt.trace.json"
            profiler.export_chrome_trace(str(path))
            with open(warehouse) as opened:
                opened.ingest(
                    path.read_bytes(),
                    name=stem if name is None else f"{stem}-{step}",
                    labels={"step": step, **(labels or {})},
                    captured_at=now,
                )

    return handle
