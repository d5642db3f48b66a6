"""Finds the same ops in different programs as a diff matches lines, so that an added op doesn't shift the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from etq.verdicts.arithmetic import median

# Comparing stops after this many ops that only one program has; parts may move by this many places.
MOST_APART, MOST_SLID = 200, 300

Part = tuple[int, int, int]  # the number of elements before it in both lists, and its length


def align(ops: Mapping[str, Any]) -> list[str]:
    """Return a key for each row of ops, equal for the same op in all captures.

    Ops of one name are the same if each program has exactly one. If all programs have equally many, ops with
    `is_by_module` are the same, in order. Other ops are matched by the longest common subsequence of the programs'
    names. If several ops of a name could match, those with the most similar times do. If more than 200 ops differ,
    comparing stops, and of the rest, only ops after the last difference are matched.

    ops  columns of capture_id, op_index, program, name, is_by_module and ticks, in the order of captures and ops
    """
    places: dict[int, list[int]] = {}
    for row, capture in enumerate(ops["capture_id"].tolist()):
        places.setdefault(capture, []).append(row)
    of_program: dict[str, list[list[int]]] = {}
    for rows in places.values():
        of_program.setdefault(ops["program"][rows[0]], []).append(rows)
    names = {program: [str(ops["name"][row]) for row in found[0]] for program, found in of_program.items()}
    counts = {program: Counter(each) for program, each in names.items()}
    first = next(iter(names), "")
    first_logs = _logs(ops["ticks"], of_program[first]) if names else []
    keys: dict[int, str] = {}
    for program, found in of_program.items():
        matched = {place: place for place in range(len(names[program]))}
        if program != first:
            both = names[first], names[program]
            parts = _slid(_common(*both), *both, first_logs, _logs(ops["ticks"], found))
            matched = {y + step: x + step for x, y, count in parts for step in range(count)}
        seen: Counter[Any] = Counter()
        previous = 0
        for place, name in enumerate(names[program]):
            seen[name] += 1
            previous = max(previous, matched.get(place, -1) + 1)
            number = [each[name] for each in counts.values()]
            if min(number) == max(number) and (number[0] == 1 or ops["is_by_module"][found[0][place]]):
                key = f"{name}|{seen[name]}"
            elif place in matched:
                key = f"{name}|at|{matched[place] + 1}"
            else:
                seen[name, previous] += 1
                key = f"{name}|after|{previous}|{seen[name, previous]}"
            for rows in found:
                keys[rows[place]] = key
    return [keys[row] for row in range(len(keys))]


def _logs(ticks: Any, captures: Sequence[Sequence[int]]) -> list[float]:
    """The logarithm of each op's time in the median capture of a program, minus the logarithm of the median op's
    time.
    """
    logs = [median(np.log(np.maximum(ticks[list(rows)], 1))) for rows in zip(*captures, strict=True)]
    return [each - median(logs) for each in logs]


def _common(base: Sequence[str], new: Sequence[str]) -> list[Part]:
    """The parts of the longest common subsequence, and the common end of the rest as the last part.

    The algorithm is the greedy one of Myers, An O(ND) difference algorithm and its variations, 1986.
    """
    # The furthest paths into both lists that skip this many elements, each with its parts, the last part first.
    paths: list[tuple[int, int, Any]] = [(0, -1, None)]
    for passed in range(min(len(base) + len(new), MOST_APART) + 1):
        if any(x == len(base) and y == len(new) for x, y, _ in paths):
            break
        following = []
        for at in range(passed + 1):
            if passed and (at >= passed or (at and paths[at - 1][0] >= paths[at][0])):
                x, y, parts = paths[at - 1][0] + 1, paths[at - 1][1], paths[at - 1][2]
            else:
                x, y, parts = paths[at][0], paths[at][1] + 1, paths[at][2]
            count = 0
            while x + count < len(base) and y + count < len(new) and base[x + count] == new[y + count]:
                count += 1
            following.append((x + count, y + count, ((x, y, count), parts) if count else parts))
        paths = following
    found = max((x + y, _listed(parts)) for x, y, parts in paths if x <= len(base) and y <= len(new))[1]
    x, y, count = found[-1] if found else (0, 0, 0)
    rest, end = min(len(base) - x - count, len(new) - y - count), 0
    while end < rest and base[-1 - end] == new[-1 - end]:
        end += 1
    return [*found, (len(base) - end, len(new) - end, end)]


def _listed(parts: Any) -> list[Part]:
    found = []
    while parts is not None:
        part, parts = parts
        found.append(part)
    return found[::-1]


def _slid(
    parts: list[Part], base: Sequence[str], new: Sequence[str], base_logs: Sequence[float], new_logs: Sequence[float]
) -> list[Part]:
    """The parts, each moved earlier if that makes times more similar. A part can move if the ops before it equal those
    at its end.
    """
    slides = [0]
    for (x, y, count), (next_x, next_y, _) in pairwise(parts):
        best, slide, distance = 0.0, 0, 0.0
        for step in range(min(count, MOST_SLID)):
            if base[next_x - 1 - step] != new[next_y - 1 - step]:
                break
            distance += abs(base_logs[next_x - 1 - step] - new_logs[next_y - 1 - step])
            distance -= abs(base_logs[x + count - 1 - step] - new_logs[y + count - 1 - step])
            if distance < best:
                best, slide = distance, step + 1
        slides.append(slide)
    slides.append(0)
    return [
        (x - slides[at], y - slides[at], count + slides[at] - slides[at + 1]) for at, (x, y, count) in enumerate(parts)
    ]
