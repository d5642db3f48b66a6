"""What commands change in the warehouse of a server on this machine is in the server's audit log, too."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from etq.errors import EtqError

if TYPE_CHECKING:
    import sqlite3


def note_here(db: str, action: str, *details: Mapping[str, Any]) -> None:
    """Note what was done, each with its details, if the warehouse has a server's folder beside it that can be
    written.
    """
    from etq.remote.servers import is_url
    from etq.team.folder import TeamFolder, folder_of

    path = None if is_url(db) else folder_of(db)
    if path is None or not TeamFolder(path).exists:
        return
    with suppress(EtqError), TeamFolder(path).writing() as connection:
        for each in details:
            add_note_of_here(connection, action, each)


def add_note_of_here(connection: sqlite3.Connection, action: str, details: Mapping[str, Any]) -> None:
    """Note what the user of this machine did, within a transaction. Raises `EtqError`."""
    from etq.team import audit

    user = "somebody"
    with suppress(OSError, KeyError):  # a user without a name
        user = getpass.getuser()
    audit.add_note(connection, f"{user} of this machine", "", action, details)
