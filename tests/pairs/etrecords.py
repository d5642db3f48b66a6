"""An ETRecord in plain Python: its JSON, and the nodes, ops and modules of events by the documented rules."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pairs.dumps import Dump, Timed

EDGE = "edge_dialect_exported_program/"


@dataclass(frozen=True)
class Node:
    """A node of an edge graph."""

    index: int
    name: str
    op_type: str
    handle: int
    levels: tuple[tuple[str, str], ...]
    source: tuple[str, int] | None

    @property
    def op(self) -> str:
        """How kernels are named."""
        return self.op_type.split(".")[1] if "." in self.op_type else self.op_type


@dataclass(frozen=True)
class Place:
    """Where an event's time belongs."""

    module: str | None
    source: tuple[str, int] | None
    lines: int
    op_types: tuple[str, ...]

    @property
    def op_type(self) -> str | None:
        return self.op_types[0] if len(set(self.op_types)) == 1 else None


class Record:
    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        self.handles: dict[str, dict[str, Any]] = json.loads(members["debug_handle_map"])
        self.delegates: dict[str, dict[str, Any]] = json.loads(members["delegate_map"])
        self.graphs: dict[str, list[Node]] = {}
        self._own: dict[Any, list[Node]] = {}
        self._places: dict[Any, Place] = {}
        # The nodes that kernels run, by method.
        self.of_kernels: frozenset[tuple[str, int]] = frozenset()
        self._variants: dict[frozenset[tuple[str, int]], Record] = {}
        for name, content in members.items():
            if name.startswith(EDGE) and not name.endswith(("_state_dict", "_constants", "_example_inputs")):
                nodes = json.loads(content)["graph_module"]["graph"]["nodes"]
                self.graphs[name.removeprefix(EDGE)] = [_node(at, each) for at, each in enumerate(nodes)]
        if len(self.graphs) == 1 and len(self.handles) == 1:
            # A single method is saved as `forward`, whatever its name; the maps have the true name.
            [method], [nodes] = self.handles, self.graphs.values()
            self.graphs = {method: nodes}

    def with_kernels(self, instructions: Iterable[tuple[str, int, str]]) -> Record:
        """The record of a capture whose kernels are these: method, instruction, op."""
        of_kernels = frozenset(
            (method, node.index)
            for method, instruction, op in instructions
            if str(instruction) not in self.delegates.get(method, {})
            for node in self.nodes_of(method, _listed(self.handles.get(method, {}).get(str(instruction), [])))
            if node.op == op
        )
        if of_kernels not in self._variants:
            variant = copy(self)
            variant.of_kernels, variant._own, variant._places = of_kernels, {}, {}
            self._variants[of_kernels] = variant
        return self._variants[of_kernels]

    @property
    def has_unmapped_delegates(self) -> bool:
        return any(not each["delegate_map"] for method in self.delegates.values() for each in method.values())

    def handles_of(self, method: str | None, event: Timed) -> list[int]:
        """The debug handles of an event, by the record's maps."""
        instruction = str(event.raw.instruction_id)
        if method is None or event.raw.chain_index == -1 or event.kind in ("framework", "user", "control"):
            return []
        if event.kind == "delegate":
            inner = self.delegates.get(method, {}).get(instruction, {}).get("delegate_map", {})
            keys = [event.label] if event.label in inner else []
            if not keys and not event.label.isdigit():
                keys = sorted((key for key in inner if key in event.label), key=lambda key: (-len(key), key))
            return _listed(inner[keys[0]]) if keys else []
        return _listed(self.handles.get(method, {}).get(instruction, []))

    def nodes_of(self, method: str | None, handles: list[int]) -> list[Node]:
        return [node for handle in handles for node in self.graphs.get(method or "", []) if node.handle == handle]

    def own_nodes(self, method: str | None, event: Timed, kernel: str | None) -> list[Node]:
        """The nodes that an event runs: if there are any, those of its kernel's op; for a delegate, if there are any,
        those that no kernel runs.
        """
        key = (method, event.instruction, event.kind, event.label, kernel)
        if key not in self._own:
            self._own[key] = self._find_own(method, event, kernel)
        return self._own[key]

    def _find_own(self, method: str | None, event: Timed, kernel: str | None) -> list[Node]:
        nodes = self.nodes_of(method, self.handles_of(method, event))
        if event.kind in ("delegate", "delegate_call"):
            return [node for node in nodes if (method, node.index) not in self.of_kernels] or nodes
        return [node for node in nodes if node.op == kernel] or nodes

    def place(self, method: str | None, event: Timed, kernel: str | None) -> Place:
        key = (method, event.instruction, event.kind, event.label, kernel)
        if key not in self._places:
            self._places[key] = self._find_place(self.own_nodes(method, event, kernel))
        return self._places[key]

    @staticmethod
    def _find_place(own: list[Node]) -> Place:
        sources = {node.source for node in own if node.source}
        return Place(
            _common_module(own),
            next(iter(sources)) if len(sources) == 1 else None,
            len(sources),
            tuple(node.op_type for node in own),
        )


def kernels(dump: Dump) -> dict[tuple[int, int], str]:
    """The op of the kernel that each instruction of an event block runs."""
    found: dict[tuple[int, int], str] = {}
    for event in dump.all_events:
        if event.kind == "kernel":
            key = dump.blocks[event.run], event.raw.instruction_id
            found[key] = max(found.get(key, ""), event.family.split(".")[0])
    return found


def _listed(value: Any) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def _common_module(nodes: list[Node]) -> str | None:
    """The deepest module that contains all of the nodes."""
    if not nodes:
        return None
    found = None
    for levels in zip(*(node.levels for node in nodes), strict=False):
        if len({path for _, path in levels}) == 1:
            found = levels[0][1]
    return found


def _node(index: int, written: dict[str, Any]) -> Node:
    metadata = written["metadata"]
    target = re.sub(r"^(?:executorch\.exir\.dialects\.edge\.ops|torch\.ops)\.", "", written["target"])
    frames = re.findall(r'File "([^"\n]*)", line (\d+)', metadata.get("stack_trace", ""))
    own = [frame for frame in frames if "site-packages/" not in frame[0]] or frames
    levels = []
    for level in metadata.get("nn_module_stack", "").split(";"):
        if level:
            key, path, *_ = level.split(",")
            levels.append((key, path))
    source = (own[-1][0], int(own[-1][1])) if own else None
    return Node(index, written["name"], target, int(metadata.get("debug_handle", 0)), tuple(levels), source)
