"""Fetching a server's backup: the archive is unpacked as it comes, and is at its place when all of it has come."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import tarfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from etq.database.publishing import new_file
from etq.errors import EtqError
from etq.remote.servers import token_of
from etq.team.copying import check_output, new_folder

PATH: Final = "/api/v1/backup"
# Seconds between two parts of the answer: the copy of a large warehouse takes minutes.
WAIT: Final = 3600.0
# What an archive may have: a warehouse, and its server's folder.
_WAREHOUSE: Final = re.compile(r"[^/]+")
_TEAM: Final = re.compile(r"[^/]+\.team/(server\.sqlite|files/[0-9a-f]{64})")


def fetch_backup(url: str, output: str, *, overwrite: bool = False, token: str | None = None) -> list[str]:
    """Make a copy of a server's warehouse, and of its folder beside it with the ending `.team`; return their paths.

    Raises `EtqError` for an answer that isn't a whole backup, and for an output that can't be written.
    """
    target = Path(output).absolute()
    team = target.with_name(f"{target.name}.team")
    if target.exists() and not overwrite:
        raise EtqError(f"{output}: exists; overwrite it with --force")
    check_output(team, overwrite=overwrite)
    try:
        with ExitStack() as stack:
            answer = _asked(url, token, stack)
            return _unpacked(url, answer, target, team, overwrite=overwrite)
    except (OSError, http.client.HTTPException, tarfile.TarError) as error:
        raise EtqError(f"{url}: the backup was cut off or can't be written ({error}); repeat it") from error


def _asked(url: str, token: str | None, stack: ExitStack) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise EtqError(f"{url}: not a server's address; write http://HOST:PORT")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=WAIT)
    stack.callback(connection.close)
    given = token_of(url, token)
    connection.request(
        "GET", parts.path.rstrip("/") + PATH, headers={"Authorization": f"Bearer {given}"} if given else {}
    )
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        text = answer.read(100_000).decode(errors="replace")
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            text = json.loads(text)["error"]
        raise EtqError(f"{url}: {text.strip() or answer.reason} ({answer.status})")
    return answer


def _unpacked(url: str, answer: http.client.HTTPResponse, target: Path, team: Path, *, overwrite: bool) -> list[str]:
    made: list[str] = []
    with ExitStack() as stack, tarfile.open(fileobj=answer, mode="r|") as archive:
        folder: Path | None = None
        for entry in archive:
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is not None and _TEAM.fullmatch(entry.name):
                if folder is None:
                    folder = stack.enter_context(new_folder(team, overwrite=overwrite))
                    made.append(str(team))
                _write(content, folder / entry.name.partition("/")[2])
            elif content is not None and _WAREHOUSE.fullmatch(entry.name) and str(target) not in made:
                written = Path(stack.enter_context(new_file(str(target), overwrite=overwrite)))
                made.append(str(target))
                _write(content, written)
            else:
                raise EtqError(f"{url}: {entry.name!r} is in the archive, and no part of a backup; is it etq serve?")
        answer.read()
        if answer.length:  # the connection ended early, perhaps between two files
            raise http.client.IncompleteRead(b"", answer.length)
        if not made:
            raise EtqError(f"{url}: an empty archive; is it etq serve?")
    return sorted(made)


def _write(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("xb") as file:
        path.chmod(0o600)
        shutil.copyfileobj(content, file, 2**20)
        file.flush()
        os.fsync(file.fileno())
