"""Reads traces in other processes, while this process stores earlier files.

Python decodes a trace on one core. The tables come back as consecutive Arrow streams in a temporary file.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final

import pyarrow as pa

from etq.ingest.arrow import Rows
from etq.ingest.costs.assumptions import assumptions
from etq.ingest.memory import limit
from etq.ingest.registry import Given, is_json, read_capture
from etq.processes import command, environment
from etq.storage.large_file import LargeFile
from etq.storage.sources import Source

# More processes than this would take gigabytes of memory.
_MOST: Final = 3
_TABLE: Final = b"table"
# The name of a stream without rows that follows the last table.
_END: Final = ""


def processes() -> int:
    """Return how many processes may read while this one stores; 0 on a machine with one core or with limited memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores - 1, _MOST) if sys.executable and limit.get() is None else 0


class OtherProcess:
    """A process that reads a trace. Raises `OSError` if the system can't start it."""

    def __init__(self, source: Source, assume: str | None = None) -> None:
        """`assume` are sizes that the trace lacks."""
        self._source, self._assume = source, assume
        with ExitStack() as stack:
            self._tables = stack.enter_context(tempfile.TemporaryFile())
            file = stack.enter_context(_readable(source))
            self._process = subprocess.Popen(
                command(__name__, source.uri, assume or ""),
                stdin=file,
                stdout=self._tables,
                stderr=subprocess.DEVNULL,
                env=environment(),
            )
            stack.pop_all()
            file.close()

    def tables(self) -> Iterator[tuple[str, Rows]]:
        """Yield the tables of the file, as `read_capture` does.

        If the process failed for any reason, the file is read in this process, which raises the error of the file.
        """
        failed = self._process.wait() != 0
        # Raises `FormatError` if the file changed, so that both processes read the same content.
        self._source.content[:1]
        given = Given(assumed=assumptions(self._assume))
        yield from read_capture(self._source.content, self._source.uri, given) if failed else _read(self._tables)

    def stop(self) -> None:
        """End the process, if it still runs, and free its results."""
        self._process.kill()
        self._process.wait()
        self._tables.close()


def is_for_other_process(source: Source) -> bool:
    """Whether the file may be a trace. Files of other formats are decoded faster than a process starts."""
    return is_json(source.content)


def _readable(source: Source) -> BinaryIO:
    """Return the content of a source as a file that another process can read."""
    if isinstance(source.content, LargeFile):
        return source.content.opened()
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        file.write(source.content)
        file.flush()
        stack.pop_all()
    return file


def _read(file: BinaryIO) -> Iterator[tuple[str, Rows]]:
    """Yield the tables of Arrow streams, without a copy of their values."""
    # The map is closed when the last of its rows is freed.
    streams = pa.BufferReader(pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    while True:
        stream = pa.ipc.open_stream(streams)
        table = stream.schema.metadata[_TABLE].decode()
        if table == _END:
            return
        for rows in stream:
            yield table, rows.replace_schema_metadata(None)


def _write(content: LargeFile, path: str, assume: str, file: BinaryIO) -> None:
    for table, rows in read_capture(content, path, Given(assumed=assumptions(assume))):
        read = rows if isinstance(rows, pa.RecordBatch) else rows.rows
        with pa.ipc.new_stream(file, read.schema.with_metadata({_TABLE: table})) as stream:
            stream.write_batch(read)
    with pa.ipc.new_stream(file, pa.schema([], {_TABLE: _END})):
        pass


if __name__ == "__main__":
    _write(LargeFile(sys.stdin.buffer, sys.argv[1]), sys.argv[1], sys.argv[2], sys.stdout.buffer)
