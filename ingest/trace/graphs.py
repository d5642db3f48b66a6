"""Finds the ops and modules of kernels that CUDA or HIP graphs launched, from traces of the graphs' capture, and from
annotations.

A graph's kernels are matched to the launches that were recorded, see `alignment`. The ops and modules that contain
these launches become slices within each launch of the graph. Their times are unknown, so each takes a nanosecond; their
nesting and order are those of the recording. If no trace has recorded a graph, its modules come from its annotations,
see `annotations`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.errors import counted
from etq.ingest.trace.alignment import aligned
from etq.ingest.trace.annotations import template_of
from etq.ingest.trace.columns import Numbered, TraceColumns
from etq.ingest.trace.inputs import ArgumentsOf
from etq.ingest.trace.launches import are, nearest
from etq.ingest.trace.recordings import (
    COPY,
    FILL,
    UNNAMED,
    Recorder,
    Recording,
    details_of,
    is_graph_launch,
    name_of,
    node_of,
    shape_of,
    size_of_launch,
)
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.slices import Added, Slices, Template
from etq.ingest.trace.types import Entries

Whole = npt.NDArray[np.int64]
# If a smaller share of kernels is matched, the recording is of another program: nothing is taken from it.
_LEAST_SCORE: Final = 0.5
# Launches without names are matched by order alone. This requires that at least this share of the kernels of one name
# comes from the same op.
_LEAST_AGREEMENT: Final = 0.9
# A lower score gets a separate finding.
_GOOD_SCORE: Final = 0.9
# The most graphs that get a finding of their own.
_LISTED: Final = 5
# A recording with the matched launch of each kernel of a graph, -1 for none.
_Fit = tuple[Recorder, Recording, Whole]


class _Graph(NamedTuple):
    """The kernels, copies and fills of one launch of a graph, in the order of its nodes, or otherwise of their
    starts.
    """

    call: int
    work: Whole
    names: tuple[str, ...]
    shapes: tuple[bytes | None, ...]
    streams: tuple[int, ...]
    is_ordered: bool  # whether kernels are in the order of their nodes' numbers
    size: int | None
    modules: tuple[str | None, ...]  # by the annotations of the kernels


class _Match(NamedTuple):
    """A graph's recording, with the launch of each kernel, -1 for none. If several recordings fit, it also has the
    properties on which they disagree.
    """

    recorder: Recorder
    recording: Recording
    launches: Whole
    score: float
    has_modules: bool
    unsure_inputs: frozenset[int]
    others: int = 0  # launches of kernels that had other blocks or threads when they were recorded


def add_recorded(
    columns: TraceColumns,
    slices: Slices,
    entries: Entries,
    recorders: Sequence[Recorder],
    annotations: Mapping[int, str],
) -> None:
    """Add the slices in which the graphs' kernels were recorded, and findings about the scores.

    The trace itself has recordings, too, if it captures graphs. Graphs without a recording get the modules of their
    annotations: those in the trace, and those in `annotations`, by the numbers of nodes.
    """
    graphs = _graphs(columns, slices, entries, annotations)
    if not graphs and not recorders and not annotations:
        return
    is_given = bool(recorders)
    if graphs and slices.captures_graphs:
        recorders = [*recorders, Recorder(columns, entries, "", slices)]
    if not graphs:
        columns.find("no graph launched", "the trace has no launches of graphs that the given captures could explain")
        return
    matches: dict[tuple[object, ...], _Match | None] = {}
    templates: dict[tuple[object, ...], Template] = {}
    added = Added(len(slices.at), 1 + max(int(slices.at.max()), *(at for at, _, _ in columns.memory), 0))
    reports: Counter[tuple[float, int, int, str]] = Counter()
    outside = others = unlike = 0
    arguments: dict[int, ArgumentsOf] = defaultdict(lambda: ArgumentsOf([], [], []))
    for graph in graphs:
        key = (graph.names, graph.shapes, graph.streams, graph.is_ordered, graph.size)
        if not recorders:
            _add_annotated(slices, graph, added)
            continue
        if key not in matches:
            matches[key] = _match(slices, graph, recorders)
        match = matches[key]
        if match is None:
            reports[0.0, 0, len(graph.work), ""] += 1
            _add_annotated(slices, graph, added)
            continue
        is_used = match.score >= _LEAST_SCORE
        known = int((match.launches != NONE).sum()) if is_used else 0
        label = " ".join(filter(None, (match.recorder.path, match.recording.label)))
        reports[match.score, known, len(graph.work), label] += 1
        if not is_used:
            _add_annotated(slices, graph, added)
            continue
        if key not in templates:
            templates[key] = _template(match)
            unlike += _unlike(match, graph)
        outside += known - int((templates[key].owner != NONE).sum())
        others += match.others
        first = added.add(slices, graph.call, graph.work, match.recorder.slices, templates[key])
        _add_details(columns, match, templates[key], first, int(slices.run[graph.call]), arguments)
    if is_given or any(known for _, known, _, _ in reports):
        _report(columns, reports, outside)
    if unlike:
        what = f"{counted(unlike, 'event')} of graphs with annotations that name other modules than the recording"
        columns.find("graph annotations differ", what)
    if others:
        what = (
            f"{others} of the events that are matched had other blocks or threads when they were recorded, as in "
            "another batch or model: the inputs of their ops are left out"
        )
        columns.find("graph of other sizes", what)
    slices.extend(columns, added)
    slices.arguments = [
        (recorder.entries, arguments[id(recorder)]) for recorder in recorders if id(recorder) in arguments
    ]


def _add_annotated(slices: Slices, graph: _Graph, added: Added) -> None:
    if any(graph.modules):
        annotated, template = template_of(graph.modules)
        added.add(slices, graph.call, graph.work, annotated, template)


def _unlike(match: _Match, graph: _Graph) -> int:
    """Return how many kernels were recorded in another module than most kernels with the same annotation."""
    modules: dict[str, Counter[str]] = defaultdict(Counter)
    for launch, annotated in zip(match.launches.tolist(), graph.modules, strict=True):
        path = [] if launch == NONE else match.recorder.path_of(launch, match.recording.since)
        module = next((row for row in path if not match.recorder.is_op[row]), NONE)
        if annotated is not None and module != NONE and match.has_modules:
            modules[annotated][match.recorder.label(module)] += 1
    return sum(each.total() - max(each.values()) for each in modules.values())


def _add_details(
    columns: TraceColumns, match: _Match, template: Template, first: int, run: int, arguments: dict[int, ArgumentsOf]
) -> None:
    """Add the inputs and call stacks of the slices that a launch has added, beginning at position `first`."""
    recorder = match.recorder
    given = arguments[id(recorder)]
    for event, row in enumerate(template.rows.tolist(), first):
        at = int(recorder.slices.at[row])
        if recorder.is_op[row] and row not in match.unsure_inputs and at not in recorder.columns.plain:
            given.at.append(at)
            given.event.append(event)
            given.run.append(run)
        if at in recorder.stacks:
            columns.stacks.append((event, columns.written[recorder.stacks[at]]))


def _report(columns: TraceColumns, reports: Counter[tuple[float, int, int, str]], outside: int) -> None:
    """Add findings about how well graphs were matched.

    A finding has a graph's score, the number of its events that are matched, and the recording. `outside` is the number
    of events matched to launches outside of ops and modules.
    """
    known = sum(few * times for (_, few, _, _), times in reports.items())
    events = sum(many * times for (_, _, many, _), times in reports.items())
    launched = f"{counted(events, 'event')} in {counted(sum(reports.values()), 'launch', 'launches')} of graphs"
    alone = f", {outside} of them outside of ops and modules" if outside else ""
    what = f"{known} of {launched} are matched to launches that were recorded (score {known / events:.2f}){alone}"
    if not known:
        what = (
            f"none of {launched} is matched: the captures that are given are of another model or another process, or "
            "were recorded when no graph was captured"
        )
    columns.find("graph capture", what)
    poor = sorted((report, times) for report, times in reports.items() if report[1] < _GOOD_SCORE * report[2])
    for (score, few, many, label), times in poor[:_LISTED]:
        what = f"of {many} events of a graph, launched {counted(times, 'time')}, "
        if few or score >= _LEAST_SCORE:
            what += f"{few} are matched to {label} (score {few / many:.2f}); the rest fit several launches"
        elif label:
            what += f"none is matched: {label} has launches for too few of their names (score {score:.2f})"
        else:
            what += "none is matched: no launch that was recorded has their names"
        columns.find("graph not matched", what)
    if len(poor) > _LISTED:
        columns.find("graph not matched", f"{len(poor) - _LISTED} further graphs have low scores")


def _graphs(columns: TraceColumns, slices: Slices, entries: Entries, annotations: Mapping[int, str]) -> list[_Graph]:
    """Return the launches of graphs, in the order of their calls."""
    is_launch = are(
        slices.kind,
        [
            each.activity == "call" and is_graph_launch(name)
            for (_, name), each in zip(slices.kinds, slices.classes, strict=True)
        ],
    )
    work = np.flatnonzero((slices.call != NONE) & are(slices.kind, [each.is_work for each in slices.classes]))
    work = work[is_launch[slices.call[work]] & (slices.elapsed[work] >= 0)]
    if not len(work):
        return []
    details = details_of(entries, slices.at[work])
    node = np.array([node_of(detail) for detail in details], np.int64)
    names = np.array(
        [name_of(name, each) for (_, name), each in zip(slices.kinds, slices.classes, strict=True)], object
    )[slices.kind[work]]
    shapes = [shape_of(detail) for detail in details]
    modules = _modules(columns, slices.at[work], node, annotations)
    around = nearest(
        slices.parent, are(slices.kind, [each.activity in ("annotation", "step") for each in slices.classes])
    )
    order = np.lexsort((np.arange(len(work)), slices.start[work], slices.call[work]))
    calls, begins = np.unique(slices.call[work][order], return_index=True)
    found = []
    for call, by_start in zip(calls.tolist(), np.split(order, begins[1:]), strict=True):
        is_ordered = bool((node[by_start] != NONE).all()) and len(np.unique(node[by_start])) == len(by_start)
        places = by_start[np.argsort(node[by_start])] if is_ordered else by_start
        streams = np.unique(slices.thread[work[places]], return_inverse=True)[1]
        found.append(
            _Graph(
                call,
                work[places],
                tuple(names[places].tolist()),
                tuple(shapes[place] for place in places.tolist()),
                tuple(np.zeros(len(places), np.int64).tolist() if is_ordered else streams.tolist()),
                is_ordered,
                size_of_launch(_labels(slices, around, call)),
                tuple(modules[place] for place in places.tolist()),
            )
        )
    return found


def _modules(columns: TraceColumns, at: Whole, node: Whole, annotations: Mapping[int, str]) -> list[str | None]:
    """Return the module of each kernel from the trace, or, if the trace lacks it, from the annotations of nodes. If
    they differ, there is a finding.
    """
    in_trace = [columns.names.get(place) for place in at.tolist()]
    by_node = [annotations.get(each) for each in node.tolist()]
    differing = sum(None not in (one, other) and one != other for one, other in zip(in_trace, by_node, strict=True))
    if differing:
        events = counted(differing, "event of graphs has", "events of graphs have")
        what = f"{events} other modules in the trace than in the file; those of the trace count"
        columns.find("graph annotations differ", what)
    if annotations and not any(by_node):
        columns.find("graph annotations", "no event of a graph has the number of a node that is in the file")
    return [one or other for one, other in zip(in_trace, by_node, strict=True)]


def _labels(slices: Slices, around: Whole, call: int) -> list[str]:
    labels, row = [], int(around[call])
    while row != NONE:
        labels.append(slices.kinds[slices.kind[row]][1])
        row = int(around[row])
    return labels


def _match(slices: Slices, graph: _Graph, recorders: Sequence[Recorder]) -> _Match | None:
    """Return the recording that matches most kernels of a graph; None if there is none."""
    best: list[_Fit] = []
    least = (1, 0)
    for recorder, recording, bound in _candidates(graph, recorders):
        if bound < least[0]:
            break
        places, count = _aligned(graph, recorder, recording)
        key = (count, _same_shapes(graph, recording, places))
        if key > least:
            best, least = [], key
        if key == least:
            best.append((recorder, recording, np.where(places == NONE, NONE, recording.launches[places])))
    if not best:
        return None
    best = _of_size(best, graph.size)
    shortest = min(len(recording.launches) for _, recording, _ in best)
    (recorder, recording, launches), *others = (each for each in best if len(each[1].launches) == shortest)
    match = _Match(recorder, recording, launches, least[0] / len(graph.work), True, frozenset())
    return _of_other_sizes(_agreed(match, others), graph)


def _candidates(graph: _Graph, recorders: Sequence[Recorder]) -> list[tuple[Recorder, Recording, int]]:
    """Return the recordings, each with the largest number of kernels that it could match, in descending order of these
    numbers.
    """
    counts = Counter(graph.names)
    found = []
    for recorder in recorders:
        for recording in recorder.recordings:
            both = counts & Counter(recording.names)
            bound = both.total() if recording.is_named else len(graph.work)
            found.append((recorder, recording, bound))
    return sorted(found, key=lambda each: -each[2])


def _aligned(graph: _Graph, recorder: Recorder, recording: Recording) -> tuple[Whole, int]:
    """Return the place of each kernel in the recording, -1 for none, and how many could be matched."""
    if not recording.is_named:
        return _by_order(graph, recorder, recording)
    numbers = Numbered()
    ours, theirs = (np.array([numbers[name] for name in names], np.int64) for names in (graph.names, recording.names))
    return aligned(ours, theirs, np.array(graph.streams, np.int64))


def _by_order(graph: _Graph, recorder: Recorder, recording: Recording) -> tuple[Whole, int]:
    """Match the n-th kernel to the n-th launch, for launches without names. There must be as many launches as kernels,
    their order must be certain, and kernels of one name must mostly come from the same op.
    """
    none = np.full(len(graph.work), NONE, np.int64), 0
    if len(recording.launches) != len(graph.work) or len(set(graph.streams)) > 1:
        return none
    origins: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for name, other, launch in zip(graph.names, recording.names, recording.launches.tolist(), strict=True):
        if other != name and (other != UNNAMED or name in (COPY, FILL)):
            return none
        path = recorder.path_of(launch, recording.since)
        origins[name][recorder.label(launch), recorder.label(path[0]) if path else ""] += 1
    repeated = [origin for origin in origins.values() if origin.total() > 1]
    agreeing = sum(max(each.values()) for each in repeated)
    if not repeated or agreeing < _LEAST_AGREEMENT * sum(each.total() for each in repeated):
        return none
    return np.arange(len(graph.work)), len(graph.work)


def _same_shapes(graph: _Graph, recording: Recording, places: Whole) -> int:
    """Return how many kernels have the same blocks and threads as their launch, if both are written."""
    return sum(
        place != NONE and shape is not None and shape == recording.shapes[place]
        for shape, place in zip(graph.shapes, places.tolist(), strict=True)
    )


def _of_size(best: list[_Fit], size: int | None) -> list[_Fit]:
    """Return the recordings of graphs that were captured for the smallest size that suffices for a launch."""
    sizes = [recording.size for _, recording, _ in best]
    if size is None or None in sizes:
        return best
    fitting = [each for each in sizes if each is not None and each >= size]
    return [each for each in best if each[1].size == min(fitting)] if fitting else best


def _agreed(match: _Match, others: Sequence[_Fit]) -> _Match:
    """Remove properties from a match that other, equally fitting recordings contradict: names of ops, modules,
    inputs.
    """
    unsure: set[int] = set()
    launches, has_modules = match.launches.copy(), True
    for recorder, recording, theirs in others:
        for at, (launch, other) in enumerate(zip(match.launches.tolist(), theirs.tolist(), strict=True)):
            if NONE in (launch, other):
                launches[at] = NONE
                continue
            path = match.recorder.path_of(launch, match.recording.since)
            second = recorder.path_of(other, recording.since)
            has_modules &= [*map(match.recorder.label, path)] == [*map(recorder.label, second)]
            ops, other_ops = match.recorder.ops_of(path), recorder.ops_of(second)
            if [*map(match.recorder.label, ops)] != [*map(recorder.label, other_ops)]:
                launches[at] = NONE
                continue
            pairs = zip(ops, other_ops, strict=True)
            unsure.update(op for op, same in pairs if match.recorder.inputs_of(op) != recorder.inputs_of(same))
    return match._replace(launches=launches, has_modules=has_modules, unsure_inputs=frozenset(unsure))


def _of_other_sizes(match: _Match, graph: _Graph) -> _Match:
    """Remove inputs of ops from a match if the ops' kernels had other blocks or threads when they were recorded.

    But if no kernel has the same blocks and threads, the two files are assumed to write them in different ways.
    """
    recorded = dict(zip(match.recording.launches.tolist(), match.recording.shapes, strict=True))
    pairs = [
        (launch, shape == recorded[launch])
        for launch, shape in zip(match.launches.tolist(), graph.shapes, strict=True)
        if launch != NONE and shape is not None and recorded[launch] is not None
    ]
    others = [launch for launch, is_same in pairs if not is_same]
    if len(others) == len(pairs):
        return match
    paths = (match.recorder.path_of(launch, match.recording.since) for launch in others)
    unsure = {op for path in paths for op in match.recorder.ops_of(path)}
    return match._replace(unsure_inputs=match.unsure_inputs | unsure, others=len(others))


def _template(match: _Match) -> Template:
    """Return the slices that the launches of a graph add, from outermost to innermost, in the order of the
    recording.
    """
    recorder, slices = match.recorder, match.recorder.slices
    paths = [
        [row for row in recorder.path_of(launch, match.recording.since) if match.has_modules or recorder.is_op[row]]
        if launch != NONE
        else []
        for launch in match.launches.tolist()
    ]
    above = {row: outer for path in paths for row, outer in zip(path, [*path[1:], NONE], strict=False)}
    rows = _outer_to_inner(above, slices.start)
    place = {row: at for at, row in enumerate(rows)} | {NONE: NONE}
    parent = np.array([place[above[row]] for row in rows], np.int64)
    within = np.zeros(len(rows), np.int64)
    for at in range(len(rows) - 1, -1, -1):
        if parent[at] != NONE:
            within[parent[at]] += within[at] + 1
    ops = [next((row for row in path if recorder.is_op[row]), NONE) for path in paths]
    return Template(
        np.array(rows, np.int64),
        parent,
        within,
        np.array([place[row] for row in ops], np.int64),
        np.array([place[path[0]] if path else NONE for path in paths], np.int64),
    )


def _outer_to_inner(above: dict[int, int], start: Whole) -> list[int]:
    """Return rows in the order of their starts, each before the rows that it contains.

    `above` has the row that contains each.
    """
    inner: dict[int, list[int]] = defaultdict(list)
    for row in sorted(above, key=lambda row: (int(start[row]), row), reverse=True):
        inner[above[row]].append(row)
    rows, waiting = [], inner[NONE]
    while waiting:
        row = waiting.pop()
        rows.append(row)
        waiting += inner[row]
    return rows
