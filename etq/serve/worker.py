"""A process that answers questions about a warehouse, one after the other.

A file is open only while a question is answered, so that writers get their turn; a lake, which has no lock, stays open
until its state changes. The process ends by itself when a question has taken much memory.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import Any, Final

import msgspec

from etq.database.connection import is_lake_path, is_out_of_memory
from etq.database.locking import lock_timeout
from etq.errors import EtqError, WarehouseError
from etq.processes import requests
from etq.serve.freed_memory import give_back, keep_little, megabytes
from etq.serve.payloads import Payload, of_error, of_failure, written
from etq.serve.questions import QUESTIONS
from etq.warehouse.warehouse import Warehouse, open

# Seconds to wait for a file that a writer holds.
WAIT: Final = 10.0
# A process with more memory than this ends after its answer, and another one takes its place.
MEGABYTES: Final = 140
QUERY_MEMORY: Final = "1GiB"
TOO_LARGE: Final = "the question takes too much memory; choose fewer captures, by a selector such as device=pixel8"


class ServedWarehouse:
    """The warehouse, which is opened for each question."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lake: tuple[str | None, Warehouse] | None = None
        self._opened = ExitStack()

    def answer(self, question: str, arguments: dict[str, Any], state: str | None) -> Payload:
        """Return the answer to a question, also if it is an error; `close` closes what it opened."""
        ask = QUESTIONS[question]
        try:
            if not ask.needs_warehouse:
                return ask.of(self.path, arguments)
            if is_lake_path(self.path) and not ask.writes:
                return ask.of(self._opened_lake(state), arguments)
            return ask.of(_limited(self._opened.enter_context(open(self.path, read_only=not ask.writes))), arguments)
        except EtqError as error:
            if is_out_of_memory(error.__cause__):
                return of_error(TOO_LARGE, 500)
            return of_failure(error)
        except MemoryError:
            return of_error(TOO_LARGE, 500)

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def _opened_lake(self, state: str | None) -> Warehouse:
        if self._lake is None or state is None or self._lake[0] != state:
            if self._lake is not None:
                self._lake[1].close()
                self._lake = None
            self._lake = state, _limited(open(self.path, read_only=True))
        return self._lake[1]


def _limited(warehouse: Warehouse) -> Warehouse:
    try:
        warehouse.connection.execute(f"SET memory_limit = '{QUERY_MEMORY}'")
        keep_little(warehouse.connection)
    except Exception as error:
        raise WarehouseError(f"{warehouse.path}: {error}") from error
    return warehouse


def main() -> None:
    """Answer questions until there are no more."""
    lock_timeout.set(WAIT)
    source = ServedWarehouse(sys.argv[1])
    for request, reply in requests():
        reply(*written(source.answer(*msgspec.json.decode(request))))
        # After the answer, which needn't wait for it. The next question does.
        source.close()
        give_back()
        if megabytes() > MEGABYTES:
            break
    os._exit(0)


if __name__ == "__main__":
    main()
