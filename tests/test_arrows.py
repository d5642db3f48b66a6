"""How the modules depend on each other: from left to right, never in a circle, and on large libraries only in places."""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The rooms of the house from left to right. A room's modules import what is in it or to the left of it. A package
# counts with all that is in it, but for what another room names.
ROOMS = {
    "words": ("etq.errors", "etq.version", "etq.words"),
    "files": ("etq.ingest",),
    "views": ("etq.catalog", "etq.sql", "etq.datasets", "etq._views"),
    "warehouse": (
        *("etq.waiting", "etq.sandbox", "etq.sandboxed"),
        *("etq.connecting", "etq.schema", "etq.rollups", "etq.sources", "etq.naming", "etq.linking", "etq.handles"),
        *("etq.labels", "etq.found_labels", "etq.phases", "etq.metadata"),
        *("etq.storing", "etq.storing_metrics", "etq.storing_programs", "etq.storing_records", "etq.storing_reference"),
        *("etq.storing_values", "etq.batches"),
        *("etq.said", "etq.ingesting", "etq.house", "etq.exporting", "etq.warehouse"),
        *("etq.merging", "etq.lake", "etq.looking", "etq.torch_handler"),
    ),
    "asking": (
        "etq.comparing",
        "etq.comparators",
        "etq.reference",
        "etq.inspector",
        "etq.plan",
        "etq.runs",
        "etq.spark",
    ),
    "showing": (
        *("etq.terminal", "etq.paragraphs", "etq.output", "etq.notebook", "etq.flame", "etq.graph", "etq.demo"),
        *("etq.plot", "etq.report", "etq.export"),
    ),
    "commands": ("etq.cli", "etq.__main__"),
}
# The package's face hands on names of all rooms, each when it is asked for; what is within uses the rooms themselves.
FACE = "etq"
# The command group names the modules of its commands, each of which adds itself to it: the one circle.
COMMANDS = "etq.cli"
# Arrows that go back all the same.
BACK = {
    ("etq.exporting", "etq.export"): "`warehouse.export`: a method hands its capture on to what writes files",
    ("etq.handles", "etq.notebook"): "a notebook asks an object itself what it looks like, by `_repr_html_`",
    ("etq.warehouse", "etq.notebook"): "`etq.open` is where a notebook meets etq, and registers how results look",
}
# Where large libraries are imported. The first ones are there whenever etq is; the others may not be installed.
LARGE = {
    "duckdb": ("warehouse", "etq.inspector.events", "etq.notebook", "etq.output", "etq.export", "etq.cli.completion"),
    "pyarrow": ("files", "warehouse", "etq.inspector.rows", "etq.output", "etq.spark.ingesting"),
    "numpy": ("files", "warehouse", "etq.inspector", "etq.comparators", "etq.export.rows"),
    "pandas": ("etq.inspector.frames",),
    "IPython": ("etq.inspector.frames",),
    "matplotlib": ("etq.plot.chart",),
    "pyspark": ("etq.spark",),
    "sqlglot": ("etq.spark",),
    "torch": ("etq.reference", "etq.inspector.references"),
    "executorch": ("etq.reference", "etq.inspector.references"),
}


def modules() -> dict[str, Path]:
    found = {}
    for folder, package in (("etq", "etq"), ("ingest", "etq.ingest")):
        for path in (ROOT / folder).rglob("*.py"):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(nodes: Iterable[ast.AST], known: Container[str]) -> Iterator[str]:
    """The modules that code imports when it is loaded or, within functions, called; not what types alone need."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports(node.orelse, known)
        else:
            yield from imports(ast.iter_child_nodes(node), known)


ARROWS = {
    name: {each for each in imports([ast.parse(path.read_text())], MODULES) if each != name}
    for name, path in sorted(MODULES.items())
    if name != FACE
}


def is_within(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def is_in(module: str, place: str) -> bool:
    """Whether a module is in a room, or within a package or module."""
    return any(is_within(module, each) for each in ROOMS.get(place, (place,)))


def room_of(module: str) -> int:
    """The number of the room in which a module is: by the longest name of it that a room lists."""
    named = [
        (len(place), number)
        for number, places in enumerate(ROOMS.values())
        for place in places
        if is_within(module, place)
    ]
    assert named, f"{module} is in no room: name it in ROOMS"
    return max(named)[1]


def test_what_imports_are_found() -> None:
    code = """
        import a.b
        from c import d, e
        if TYPE_CHECKING:
            from f import g
        else:
            import h
        def i():
            if j:
                from k import l
        """
    tree = ast.parse("if True:" + code)
    assert [*imports([tree], ["c.d"])] == ["a.b", "c.d", "c", "h", "k"]


def test_arrows_go_from_left_to_right() -> None:
    names = list(ROOMS)
    wrong = [
        f"{module} ({names[room_of(module)]}) imports {other} ({names[room_of(other)]}), which is to the right"
        for module, others in ARROWS.items()
        for other in sorted(others)
        if other != FACE and is_within(other, "etq") and (module, other) not in BACK
        if room_of(other) > room_of(module)
    ]
    assert wrong == []


def test_nothing_within_uses_the_packages_face() -> None:
    assert {module for module, others in ARROWS.items() if FACE in others} == set()


def test_files_know_of_nothing_else() -> None:
    for module, others in ARROWS.items():
        if is_within(module, "etq.ingest"):
            mine = {other for other in others if is_within(other, "etq") and not is_within(other, "etq.ingest")}
            assert mine <= {"etq.errors"}, module


def test_there_are_no_circles() -> None:
    graph = {
        module: {
            other for other in others if other in ARROWS and not (module == COMMANDS and is_within(other, COMMANDS))
        }
        for module, others in ARROWS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(reversed(error.args[1]))}") from None


def test_exceptions_are_needed() -> None:
    for module, other in BACK:
        assert other in ARROWS[module]
        assert room_of(other) > room_of(module)


def test_rooms_are_of_modules() -> None:
    listed = [place for places in ROOMS.values() for place in places]
    assert len(listed) == len(set(listed))
    assert [each for each in listed if each not in MODULES and each not in ("etq.sql", "etq.datasets")] == []


@pytest.mark.parametrize("library", LARGE)
def test_large_libraries_are_only_where_they_belong(library: str) -> None:
    users = {module for module, others in ARROWS.items() if any(is_within(other, library) for other in others)}
    used = {user: [place for place in LARGE[library] if is_in(user, place)] for user in users}
    assert {user for user, places in used.items() if not places} == set()
    assert {place for places in used.values() for place in places} == set(LARGE[library]), "a place that needs it not"


def test_all_else_is_of_python_or_small() -> None:
    small = {"etq", "click", "msgspec", "py4j", *LARGE, *sys.stdlib_module_names}
    assert {other.split(".")[0] for others in ARROWS.values() for other in others} <= small
