"""Times by lines of the user's code in plain Python, by the JSON of a trace."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from tests.pairs.json_traces import Slice, Trace
from tests.pass_reference import forward_ops

NO_STACK, NO_LINE = ("(no stack)", None), ("(no line of the user's)", None)
PLACE = re.compile(r"([^;]+)\((\d+)\): ([^;]*)")

Line = tuple[str, str | None]


def source_rows(trace: Trace, is_own: Callable[[str], bool]) -> dict[Line, list[int]]:
    """By line and function: events of the host, launches, time on the host and on devices in nanoseconds, and of these
    the times of the backward pass. `is_own` tells whether a file is the user's.
    """
    rows: defaultdict[Line, list[int]] = defaultdict(lambda: [0] * 6)
    lines = {each.place: line_of(each, is_own) for each in trace.host}
    forward = forward_ops(trace)

    def add(each: Slice, device_time: int | None) -> None:
        line, is_backward = lines[each.place], False
        if line is NO_STACK:
            around = [each, *each.above()]
            outermost = [call for call in around if call.place in forward]
            op = forward[outermost[-1].place] if outermost else None
            if op is not None and lines[op.place] is not NO_STACK:
                line, is_backward = lines[op.place], True
        row = rows[line]
        on_device = device_time is not None
        time = each.own if device_time is None else device_time
        row[on_device] += 1
        row[2 + on_device] += time
        row[4 + on_device] += time if is_backward else 0

    for each in trace.host:
        add(each, None)
    for each in trace.work:
        call = trace.launches.get(each.correlation) if each.correlation else None
        if call is None:
            rows[NO_STACK][1] += 1
            rows[NO_STACK][3] += each.length
        else:
            add(call, each.length)
    return dict(rows) if any(line is not NO_STACK for line in rows) else {}


def line_of(each: Slice, is_own: Callable[[str], bool]) -> Line:
    """The innermost line of the user's code in the stack of an event of the host."""
    has_stack = False
    for one in (each, *each.above()):
        stack = one.arguments.get("Call stack", "").split(";")
        has_stack |= stack != [""] or one.category == "python_function"
        for text in [one.name] if one.category == "python_function" else stack:
            found = PLACE.fullmatch(text)
            if found is not None and is_own(found[1]):
                return f"{found[1]}:{found[2]}", found[3]
    return NO_LINE if has_stack else NO_STACK
