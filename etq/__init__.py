"""etq turns profiling files of PyTorch models on devices into SQL tables, and answers questions about them in SQL.

    import etq
    with etq.open("lab.duckdb") as warehouse:
        capture = warehouse.ingest("run.etdp", labels={"device": "pixel8"})
        warehouse.op_totals(capture, unit="us").show()

    etq.read("run.etdp").op_totals(unit="us").show()  # one file, without storing it

Importing etq is fast: large libraries are loaded by `open` and `read`.
"""

from __future__ import annotations

import os
import sys

if sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0] if sys.argv else "") == "etq":  # noqa: PTH119
    # The command: an interrupt must end it even while modules are imported. Importing `signal` would take milliseconds.
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(130))

from typing import TYPE_CHECKING, Any

from etq.errors import EtqError, FormatError, QueryError, WarehouseError
from etq.version import VERSION

if TYPE_CHECKING:
    from etq import lake, report
    from etq.inspector import Inspector
    from etq.maintenance.copying import backup
    from etq.maintenance.merge import merge
    from etq.torch.trace_handler import torch_trace_handler
    from etq.warehouse.ephemeral import read
    from etq.warehouse.warehouse import Capture, Program, Warehouse, open

__version__ = VERSION

__all__ = [
    "Capture", "EtqError", "FormatError", "Inspector", "Program", "QueryError", "Warehouse", "WarehouseError",
    "__version__", "backup", "lake", "merge", "open", "read", "report", "torch_trace_handler",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("Capture", "Program", "Warehouse", "open"), "etq.warehouse.warehouse"),
    "Inspector": "etq.inspector",
    "backup": "etq.maintenance.copying",
    "merge": "etq.maintenance.merge",
    "read": "etq.warehouse.ephemeral",
    "torch_trace_handler": "etq.torch.trace_handler",
}

_PACKAGES = ("lake", "report")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    if name in _PACKAGES:
        from importlib import import_module

        return import_module(f"etq.{name}")
    raise AttributeError(f"module 'etq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
