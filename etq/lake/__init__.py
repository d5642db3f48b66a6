"""A lake: the base tables of a warehouse as Parquet files in a folder, for fleets that outgrow one file.

    DIR/_log/000000000042.json           what was added and removed, one file a change
    DIR/event_ticks/<segment>.parquet    the rows of some captures, a file for each table that has any

A segment's files are written aside, under a name of their own, and are of the lake once an entry of the log names the
segment; an entry is made by the first who takes its number, so that of several writers none is lost and none sees a
part. Nothing is ever changed in place. Keys are of the content (60 bits of its SHA-256): the same capture has the same
key in every lake.
"""

from __future__ import annotations

from etq.lake.adding import Added, add, export
from etq.lake.checking import Fault, check
from etq.lake.compacting import compact
from etq.lake.log import is_lake

__all__ = ["Added", "Fault", "add", "check", "compact", "export", "is_lake"]
