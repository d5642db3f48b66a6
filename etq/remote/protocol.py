"""What programs send to a team's server, and what it answers: JSON, of these types.

Paths are under `/api/v1/`. Files are named by the SHA-256 of their bytes, in small hexadecimal digits.

POST files/missing   `Hashes` → `Missing`: those of the files that the server needs
HEAD files/SHA256    the header `Upload-Offset` has how many of its bytes are there
PUT files/SHA256     the file's bytes; with the header `Upload-Offset`, those from there on
POST pushes          `Pushes` → `States`, with status 202: captures, whose files are there; 409 names missing ones
GET pushes/ID        → `State`
POST pushes/states   `Identifiers` → `States`
POST captures        a form of curl (`-F file=@run.etdp -F label=device=pixel8`) → `States`
PATCH captures/NAME  {"labels": {"build": "41", "stale": null}} → the capture's name, SHA-256 and labels
DELETE captures/NAME → its name and SHA-256

Those of pushes and forms take `?wait=SECONDS`, in which captures are stored. Errors are `{"error": "…"}`.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from etq.choices import TimeScale
from etq.errors import EtqError, QueryError, WarehouseError

ROOT: Final = "/api/v1"
# How many hashes, captures or identifiers one request may have.
MOST_AT_ONCE: Final = 1000
OFFSET: Final = "Upload-Offset"
# The header by which a query is one of those of a command: an identifier, a space, and the command, quoted as in URLs.
COMMAND: Final = "X-Etq-Command"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")


def status_of(error: EtqError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, WarehouseError):
        return 503
    is_unknown = isinstance(error, QueryError) and error.unknown is not None and error.unknown.kind == "capture"
    return 404 if is_unknown else 400


def is_sha256(text: str) -> bool:
    """Whether a text is a SHA-256 as it is written here."""
    return _SHA256.fullmatch(text) is not None


def is_identifier(text: str) -> bool:
    """Whether a text can be a push's identifier: 8 to 64 letters, digits, - and _."""
    return _IDENTIFIER.fullmatch(text) is not None


class Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: its content, and the name that it has where it comes from."""

    sha256: str
    name: str


class Push(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A capture to store: its file, and the options of `etq ingest`.

    id            the sender's: a push that is sent again is the same one
    sidecar       the sender's run.etdp.json or run.etdp.toml
    found_labels  labels of the path and of git, which replace none of a known capture
    captured_at   in ISO 8601
    values        whether the elements of the debug buffer are kept
    """

    id: str
    file: Sent
    etrecord: Sent | None = None
    pte: Sent | None = None
    debug_buffer: Sent | None = None
    sidecar: Sent | None = None
    metrics: tuple[Sent, ...] = ()
    graph_captures: tuple[Sent, ...] = ()
    name: str | None = None
    labels: dict[str, str] = {}
    found_labels: dict[str, str] = {}
    captured_at: str | None = None
    time_scale: TimeScale | None = None
    clock_bits: Literal[32, 64] | None = None
    values: bool = False

    @property
    def linked(self) -> tuple[Sent, ...]:
        """The program and the record that the capture is linked to."""
        return tuple(each for each in (self.pte, self.etrecord) if each is not None)

    @property
    def others(self) -> tuple[Sent, ...]:
        """The files that are read with the capture's own, and not stored."""
        single = tuple(each for each in (self.debug_buffer, self.sidecar) if each is not None)
        return (*single, *self.metrics, *self.graph_captures)

    @property
    def is_read_again(self) -> bool:
        """Whether the file is needed even if the warehouse has the capture."""
        return self.debug_buffer is not None or bool(self.graph_captures) or self.clock_bits is not None


class Pushes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Captures that are sent together."""

    pushes: list[Push]


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a push.

    state     waiting, stored or failed
    capture   name of the capture, once it is stored
    is_new    False if the warehouse had the capture already
    findings  rule and detail of each finding about the capture
    error     why it failed
    note      why it still waits
    """

    id: str
    state: Literal["waiting", "stored", "failed"]
    file: str = ""
    capture: str | None = None
    is_new: bool | None = None
    findings: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    note: str | None = None


class States(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of pushes, in the order in which they were named; `error` if one of a form failed."""

    pushes: list[State]
    error: str | None = None


class Hashes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files that a sender has; `others` are those that the warehouse doesn't keep, such as debug buffers."""

    sha256: list[str]
    others: list[str] = []


class Missing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Files that the server needs, and the most bytes that one may have; `error` if they should be there."""

    missing: list[str]
    most_bytes: int = 0
    error: str | None = None


class Identifiers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identifiers of pushes."""

    ids: list[str]
