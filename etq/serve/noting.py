"""Notes in the audit log, without which nothing is done that has to be there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from etq.errors import EtqError
from etq.team import audit
from etq.team.folder import TeamFolder
from etq.threads import Threads

_threads: Final = Threads("noting", 2)


class NotNotedError(EtqError):
    """What is asked can't be noted now, so it isn't done."""


async def noted(folder: TeamFolder, user: str, address: str, action: str, details: Mapping[str, Any]) -> None:
    """Note what a user does, as `audit.note`. Raises `NotNotedError`; why is only in the log."""
    try:
        await _threads.run(audit.note, folder, user, address, action, details)
    except EtqError as failure:
        logging.getLogger(__name__).error("%s", failure)
        raise NotNotedError("the server can't note who asks; ask again, or see its log") from failure
