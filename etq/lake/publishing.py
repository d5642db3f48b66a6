"""Publishing segments that several processes staged: all become part of a lake at once, and no content twice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from etq.errors import WarehouseError, displayed
from etq.lake import log
from etq.lake.adding import Content, free_names
from etq.lake.log import ConflictError, Segment
from etq.lake.reading import files
from etq.lake.segments import remove, rename, rewrite
from etq.lake.staging import Staged
from etq.storage.naming import names_for


@dataclass(frozen=True)
class _StagedSegment:
    """A staged segment, and the names that it has for its captures, by SHA-256."""

    segment: Segment
    names: dict[str, str]


def publish(path: str | os.PathLike[str], segments: Sequence[Segment], written: Sequence[Staged]) -> int:
    """Make staged segments part of a lake; returns how many captures are new.

    `written` lists their files. Captures that several segments have, or the lake, are removed from them; of files with
    the same content, the first one stays. Names are those that `etq lake add` gives to files in this order.

    Raises `WarehouseError` for a folder that isn't a lake, and for missing files: their writer has another folder.
    """
    lake = Path(path)
    for segment in segments:
        if missing := [table for table in segment.rows if not segment.file(lake, table).exists()]:
            raise WarehouseError(
                f"{segment.file(lake, missing[0])}: missing; all processes must share the lake's folder"
            )
    staged = {segment.name: _StagedSegment(segment, {}) for segment in segments}
    for each in written:
        staged[each.segment].names[each.sha256] = each.name
    while True:
        state = log.read(lake)
        with duckdb.connect(":memory:") as connection:
            known = _known(connection, files(lake, state, "captures"))
            chosen: dict[str, Staged] = {}
            for each in written:
                if each.sha256 not in known:
                    chosen.setdefault(each.sha256, each)
            names = _names([*chosen.values()], known)
            staged = dict(_publishable(connection, lake, staged, chosen, names))
        try:
            if staged:
                log.commit(lake, state, [each.segment for each in staged.values()])
            return len(chosen)
        except ConflictError:
            continue


def _known(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> dict[str, str]:
    """The names of the captures in these files, by SHA-256."""
    if not paths:
        return {}
    return dict(connection.execute("SELECT sha256, name FROM read_parquet(?)", [paths]).fetchall())


def _names(chosen: Sequence[Staged], known: Mapping[str, str]) -> dict[str, str]:
    """The name of each capture in the lake, by SHA-256: as if a warehouse had taken them first."""
    taken: set[str] = set()
    contents = []
    for key, each in enumerate(chosen):
        uri = displayed(each.path)
        names = list(names_for(uri, partial(str, each.sha256)))
        name = next((name for name in names if name not in taken), names[-1])
        taken.add(name)
        contents.append(Content(key, each.sha256, name, uri))
    free = free_names(contents, known)
    return {each.sha256: free[each.key] for each in contents}


def _publishable(
    connection: duckdb.DuckDBPyConnection,
    lake: Path,
    staged: Mapping[str, _StagedSegment],
    chosen: Mapping[str, Staged],
    names: Mapping[str, str],
) -> Iterator[tuple[str, _StagedSegment]]:
    """The segments, with only the chosen captures, renamed; `chosen` has the names that they have in the segments."""
    for origin, each in staged.items():
        segment = each.segment
        kept = {sha256 for sha256 in each.names if sha256 in chosen and chosen[sha256].segment == origin}
        gone = each.names.keys() - kept
        if gone:
            if kept:
                segment = rewrite(connection, lake, [segment], without=gone)
            remove(lake, each.segment)
            if not kept:
                continue
        others = {sha256: names[sha256] for sha256 in kept if names[sha256] != each.names[sha256]}
        if others:
            rename(connection, lake, segment, others)
        yield origin, _StagedSegment(segment, {sha256: names[sha256] for sha256 in kept})
