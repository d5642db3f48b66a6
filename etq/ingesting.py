"""The part of a warehouse that takes many files at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from etq.errors import EtqError, WarehouseError
from etq.handles import Capture, Program, Record
from etq.said import Said

if TYPE_CHECKING:
    from etq.batches import Outcome
    from etq.words import TimeScale

Given = str | os.PathLike[str] | bytes


class Ingesting(Said):
    """The part of `Warehouse` that takes many files at once."""

    def record(self, selector: str) -> Record:
        """The one record of a name or hash prefix."""
        raise NotImplementedError

    def ingest_many(
        self,
        sources: Iterable[Given],
        *,
        labels: Mapping[str, str] | None = None,
        captured_at: datetime | None = None,
        time_scale: TimeScale | None = None,
        clock_bits: Literal[32, 64] | None = None,
        label_from: str | None = None,
        label_git: str | os.PathLike[str] | None = None,
        sidecar: bool = True,
        link_to: Sequence[str | Record | Program] = (),
        progress: Callable[[Given, Capture | EtqError], None] | None = None,
    ) -> list[Capture | EtqError]:
        """Read many profiling files (or their bytes) into the warehouse, several times as fast as one by one.

        Returns, in the order of the files, the capture of each, or the error for which it was left out: each file is
        ingested whole or not at all, and none stops the others. Of files of the same content, the first is new.

        link_to   records and programs (or names of records) that the captures are linked to
        progress  called with each file, and its capture or error, once that is in the warehouse to stay

        The other options are those of `ingest`, and count for every file. Names are the files' stems, with folders
        before them where other content has that.

        Raises `WarehouseError` for options that are none and for a warehouse that is read-only, `QueryError` for a
        record that there isn't, and `EtqError` for a folder without git; then nothing was ingested.
        """
        from functools import partial

        from etq.batches import files_of, store_many
        from etq.found_labels import found_about, labels_of_git
        from etq.labels import check_labels
        from etq.sources import checked_clock_bits, checked_moment, checked_time_scale
        from etq.storing import Options

        if isinstance(sources, str | bytes | os.PathLike):
            raise WarehouseError("ingest_many takes a list of files; one file is for ingest")
        self._check_writable()
        check_labels(labels or {})
        moment, scale = checked_moment(captured_at), checked_time_scale(time_scale)
        said = Options(None, labels or {}, moment, scale, checked_clock_bits(clock_bits))
        of_git = {} if label_git is None else labels_of_git(label_git)
        links = [self._link(each) for each in link_to]
        listed = list(sources)
        find = partial(found_about, pattern=label_from, of_git=of_git, sidecar=sidecar)
        stored = store_many(self.connection, files_of(listed, said, find), links)
        results: list[Capture | EtqError] = []
        while (outcomes := self._next(stored)) is not None:
            for each in self._captures(outcomes):
                if progress is not None:
                    progress(listed[len(results)], each)
                results.append(each)
        return results

    def _link(self, to: str | Record | Program) -> tuple[str, int]:
        """The column of `captures` that links to a record or program, and its key."""
        target = self.record(to) if isinstance(to, str) else to
        return ("program_id", target.program_id) if isinstance(target, Program) else ("record_id", target.record_id)

    def _next(self, stored: Iterator[list[Outcome]]) -> list[Outcome] | None:
        """What became of the next files; None behind the last."""
        from etq.storing import in_little_memory

        with self._writing(), in_little_memory(self.connection) if self.path else nullcontext():
            return next(stored, None)

    def _captures(self, outcomes: Sequence[Outcome]) -> Iterator[Capture | EtqError]:
        keys = [each[0] for each in outcomes if not isinstance(each, EtqError)]
        query = """
            SELECT c.capture_id, c.name, c.sha256, c.format FROM captures AS c
            WHERE c.capture_id IN (SELECT unnest($keys::INTEGER[]))
        """
        found = {row[0]: Capture(*row) for row in self._fetched(query, {"keys": keys})}
        for each in outcomes:
            yield each if isinstance(each, EtqError) else replace(found[each[0]], is_new=each[1]).within(self)
