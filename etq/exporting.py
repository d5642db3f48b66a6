"""The part of a warehouse that writes captures as files of other tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from etq._views import Views

if TYPE_CHECKING:
    from etq.warehouse import Capture, Warehouse


class Exporting(Views):
    """The part of `Warehouse` that writes captures as files of other tools."""

    def export(self, capture: str | Capture, to: str, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a capture as a file of another tool: to is chrome, speedscope, hud or model-explorer.

        A file whose name ends in .gz is compressed. One that is there is overwritten, once the new one is whole.

        runs     list of run_index: these runs alone (chrome, speedscope)
        by       what one op is, as in `op_totals`, whose times are then written, too (hud)
        method   the method whose graph is meant (model-explorer), by default the one that ran
        graph    edge_dialect_exported_program, the default, or exported_program (model-explorer)
        unit     unit of times (model-explorer), by default as in all views

        and what chooses among runs, as in all views: skip_first, wait, warmup, active, repeat, skip_first_wait, phase.

        Raises `QueryError` where there is no such capture, format or option and where the capture has nothing that the
        format could hold, and `WarehouseError` for a file that can't be written.
        """
        from etq.export import parts, to_file

        to_file(parts(cast("Warehouse", self), capture, to, **options), os.fspath(path))
