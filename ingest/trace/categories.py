"""Resolves missing or unknown categories of a trace's events by the rules for tracks, which are the threads of a
trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import Class, Rules, Track, rules
from etq.ingest.trace.columns import TraceColumns, spelled
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.types import Entries, Part, lenient

Whole = npt.NDArray[np.int64]
# How many events of a category are examined.
_SAMPLED: Final = 32
# How many categories a finding names.
_NAMED: Final = 5


class _Event(msgspec.Struct, gc=False):
    """An entry; only its arguments are read, as values of any type."""

    args: dict[str, Any] | None = None


_events, _event = lenient(_Event)


def of_tracks(columns: TraceColumns, entries: Entries) -> Mapping[str, Class]:
    """Return the classes of unknown categories, by the rules for tracks that name no process and thread. Each such
    category gets a finding; the other unknown categories share one.

    First, events of a track that a rule names get the rule's category, see `_name_categories`.
    """
    known = rules()
    _name_categories(columns, entries, known)
    kinds = [*columns.keys.kinds]
    unknown = sorted({category for category, _ in kinds if known.of_category(category) is None})
    if not unknown:
        return {}
    kind = np.array(columns.keys.kind, np.int32)[np.frombuffer(columns.key, np.int32)]
    at = np.frombuffer(columns.at, np.int32)
    found, others = {}, []
    for category in unknown:
        is_of = np.array([each == category for each, _ in kinds], np.bool_)[kind] & (kind != NONE)
        if not is_of.any():  # an end without its beginning, or events that got a category from a rule
            continue
        sampled = _arguments(entries, at[is_of][:_SAMPLED].astype(np.int64))
        track = next((each for each in known.tracks if not each.has_names and any(map(each.has_one, sampled))), None)
        of_track = known.of_category(track.category) if track is not None and track.category is not None else None
        counted = f"{is_of.sum():,} event{'s' if is_of.sum() > 1 else ''}"
        if track is None or of_track is None:
            others.append(f"{category[:60]} ({counted})")
        else:
            found[category] = of_track
            columns.find(
                "unknown category", f"{counted} of the unknown category {category[:200]} are taken as {track.category}s"
            )
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        columns.find("unknown category", f"of unknown categories: {', '.join(others[:_NAMED])}{more}")
    return found


def _name_categories(columns: TraceColumns, entries: Entries, known: Rules) -> None:
    """On tracks that a rule names, change events with no category or an unknown one. They get the rule's category; if
    the rule has none, they get no kind and aren't read.

    All events of a name and thread are taken to have the arguments of the first one.
    """
    tracks = _named_tracks(columns, known)
    if not tracks:
        return
    keys, kinds = columns.keys, [*columns.keys.kinds]
    numbers, first = np.unique(np.frombuffer(columns.key, np.int32), return_index=True)
    chosen = [
        (number, place)
        for number, place in zip(numbers.tolist(), first.tolist(), strict=True)
        if keys.thread[number] in tracks
        and ((category := kinds[keys.kind[number]][0]) == "" or known.of_category(category) is None)
    ]
    chosen.sort(key=lambda each: columns.at[each[1]])
    arguments = _arguments(entries, np.array([columns.at[place] for _, place in chosen], np.int64))
    for (number, _), written in zip(chosen, arguments, strict=True):
        track = next((each for each in tracks[keys.thread[number]] if each.has_one(written)), None)
        if track is not None:
            name = kinds[keys.kind[number]][1]
            keys.kind[number] = NONE if track.category is None else keys.kinds[track.category, name]


def _named_tracks(columns: TraceColumns, known: Rules) -> Mapping[int, list[Track]]:
    """Return, by the number of a thread, the rules that name the thread; threads without rules are left out."""
    named = [each for each in known.tracks if each.has_names]
    processes = {
        process: fit
        for process, name in columns.process_names.items()
        if (fit := [each for each in named if each.process is None or each.process.search(name)])
    }
    found = {}
    for (pid, tid), number in columns.threads.items() if processes else ():
        thread = columns.thread_names.get((spelled(pid), spelled(tid)), "")
        of_process = processes.get(spelled(pid), ())
        if fit := [each for each in of_process if each.thread is None or each.thread.search(thread)]:
            found[number] = fit
    return found


def _arguments(entries: Entries, places: Whole) -> Iterable[Mapping[str, Any]]:
    """Return the arguments of the events at these places, which must ascend."""
    read: list[_Event] = []
    entries.decode(Part(places, _events, _event, read.extend))
    return [each.args or {} for each in read]
