"""The client of a team's server: captures are pushed to it, and its warehouse is read by its API."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

# The command for which servers are asked, as it was written; None for SQL and programs of users.
question: Final[ContextVar[str | None]] = ContextVar("question", default=None)
# The address of the server that was asked last, whose answers may be other rows than a program expects.
asked: Final[ContextVar[str | None]] = ContextVar("asked", default=None)
