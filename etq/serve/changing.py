"""Labels and removal of captures for programs: the writer's process makes the change while they wait for it."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from etq.annotations.labels import CAPTURED_AT, check_label, moment_of
from etq.database.connection import is_lake_path
from etq.errors import EtqError
from etq.serve.endpoints import address_of, body_of, user_of
from etq.serve.payloads import JSON
from etq.serve.receiving import RefusedError
from etq.serve.storing import Storing
from etq.team.changes import Change, Changes, Outcome

# The path of a capture: its name may have any characters.
CAPTURE: Final = "/captures/{capture:any}"
# Bytes of a request, labels in it, and characters of a label.
MOST_SENT: Final = 2**18
MOST_LABELS: Final = 100
MOST_OF_TEXT: Final = 2000
# Seconds that a change waits for the warehouse, before it is refused; and between looks at it.
WAIT: Final = 60.0
LOOK: Final = 0.5


class _Labels(msgspec.Struct, forbid_unknown_fields=True):
    labels: dict[str, str | None]


class Changing:
    """The endpoints of changes to the captures of a warehouse."""

    def __init__(self, path: str, changes: Changes, storing: Storing) -> None:
        self._path, self._changes, self._storing = path, changes, storing

    async def label(self, request: Request) -> Response:
        """Set labels of a capture, or remove some."""
        if (body := await body_of(request, MOST_SENT)) is None:
            raise RefusedError("too long; send fewer labels at once", 413, connection="close")
        try:
            labels = msgspec.json.decode(body, type=_Labels).labels
            for key, value in labels.items():
                check_label(key, "" if value is None else value)
            if (moment := labels.get(CAPTURED_AT)) is not None:
                moment_of(moment)
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise RefusedError(f'not labels: {wrong}; send {{"labels": {{"build": "41"}}}}', 400) from None
        except EtqError as wrong:
            raise RefusedError(str(wrong), 400) from None
        if not 0 < len(labels) <= MOST_LABELS or any(
            len(text or "") > MOST_OF_TEXT for pair in labels.items() for text in pair
        ):
            raise RefusedError(f"send 1 to {MOST_LABELS} labels, with up to {MOST_OF_TEXT:,} characters each", 400)
        return await self._made(request, Change(request.path_params["capture"], labels))

    async def remove(self, request: Request) -> Response:
        """Remove a capture with its annotations."""
        return await self._made(request, Change(request.path_params["capture"]))

    async def _made(self, request: Request, change: Change) -> Response:
        if is_lake_path(self._path):
            text = "a lake keeps its captures and their labels; replace them by etq lake export --replace"
            raise RefusedError(text, 400)
        if not change.capture:
            raise RefusedError("name a capture: its name, hash, or a selector", 400)
        outcome = await self._outcome(user_of(request).name, address_of(request), change)
        if outcome.error is not None:
            headers = {"retry_after": "5"} if outcome.status == 503 else {}
            raise RefusedError(outcome.error, outcome.status, **headers)
        answer = {"capture": outcome.capture, "sha256": outcome.sha256}
        if outcome.labels is not None:
            answer["labels"] = outcome.labels  # type: ignore[assignment]
        return Response(msgspec.json.encode(answer), 200, {"cache-control": "no-store"}, JSON)

    async def _outcome(self, user: str, address: str, change: Change) -> Outcome:
        """Return what became of a change. One that can't be made in time isn't made at all."""
        identifier = uuid.uuid4().hex
        await asyncio.to_thread(self._changes.add, identifier, user, address, change)
        end = time.monotonic() + WAIT
        try:
            self._storing.wake()
            while (outcome := await asyncio.to_thread(self._changes.outcome, identifier)) is None:
                if time.monotonic() > end and await asyncio.to_thread(self._changes.withdraw, identifier):
                    why = self._storing.note or "captures are being stored"
                    return Outcome(503, error=f"the warehouse can't be written now: {why}; try again")
                # What is told between the two lines above and below is seen a little later.
                await self._storing.change(LOOK)
            return outcome
        except asyncio.CancelledError:
            await asyncio.to_thread(self._changes.withdraw, identifier)
            raise
