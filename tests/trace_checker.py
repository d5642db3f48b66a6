"""A strict reader of Chrome traces, written from the Trace Event Format alone: what it lets pass, every viewer shows."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

PHASES = frozenset("XiMbe")


def checked(text: str | bytes) -> dict[str, Any]:
    """A trace, times as exact decimals. Raises AssertionError, naming the event, for what is out of form.

    Each event has a name, a phase, numbers for process, thread and time; complete events of a thread lie within each
    other or side by side; asynchronous pairs are closed; each process and thread has one name.
    """
    trace: dict[str, Any] = json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    threads: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    opened: dict[Any, dict[str, Any]] = {}
    names: set[tuple[Any, ...]] = set()
    for event in trace["traceEvents"]:
        assert event["ph"] in PHASES and isinstance(event["name"], str) and isinstance(event["args"], dict), event
        assert isinstance(event["pid"], int) and isinstance(event.get("tid", 0), int), event
        assert event["ts"] >= 0 and isinstance(event["ts"], int | Decimal), event
        event["name"].encode()  # no half characters
        if event["ph"] == "M":
            key = (event["name"], event["pid"], event.get("tid"))
            assert key not in names, event
            names.add(key)
        elif event["ph"] == "X":
            assert event["dur"] >= 0, event
            threads[event["pid"], event["tid"]].append(event)
        elif event["ph"] == "i":
            assert event["s"] in ("t", "p", "g"), event
        elif event["ph"] == "b":
            assert event["id"] not in opened, event
            opened[event["id"]] = event
        else:
            begun = opened.pop(event["id"])
            assert begun["ts"] <= event["ts"] and begun["name"] == event["name"] and begun["cat"] == event["cat"], event
    assert not opened
    for (process, thread), events in threads.items():
        assert ("process_name", process, 0) in names and ("thread_name", process, thread) in names
        _check_nesting(events)
    return trace


def _check_nesting(events: list[dict[str, Any]]) -> None:
    """Events of one thread, in the order that a viewer takes them: by start, the longer first."""
    ends: list[Any] = []
    for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
        while ends and ends[-1] <= event["ts"]:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1], event
        ends.append(end)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
