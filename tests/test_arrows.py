"""How the modules depend on each other: from left to right, never in a circle, and on large libraries only in places."""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The packages from left to right: the modules of each import what is in it or to the left of it, also for type checkers.
# A module that is named itself does not count with its package.
LAYERS = (
    *("etq.errors", "etq.version", "etq.choices", "etq.listening", "etq.processes", "etq.tokens", "etq.push", "etq.selectors"),
    "etq.confined",
    "etq.ingest", *("etq.sql", "etq.datasets", "etq.catalog"), "etq.verdicts", "etq.database", "etq.advice", "etq.annotations",
    "etq.storage", "etq.maintenance", "etq.lake.reading",
    *("etq.lake.writing.loads", "etq.lake.writing.changing", "etq.lake.writing.again"),
    "etq.render", "etq.export", "etq.analysis", "etq.report", "etq.warehouse",
    *("etq.lake.writing", "etq.lake"), "etq.torch", "etq.inspector", "etq.agents",
    "etq.spark", "etq.serve", "etq.demo", "etq.bench", *("etq.cli", "etq.__main__", "etq.building"),
)  # fmt: skip
# The ingestors' packages, in the same way.
INGEST_LAYERS = (
    *(
        "etq.ingest.memory", "etq.ingest.arrow", "etq.ingest.flatbuffers", "etq.ingest.dictionary",
        "etq.ingest.other_files", "etq.ingest.stores",
    ),
    "etq.ingest.costs", "etq.ingest.events", "etq.ingest.etdump", "etq.ingest.prof_result", "etq.ingest.program", "etq.ingest.etrecord",
    "etq.ingest.trace", "etq.ingest.snapshot", "etq.ingest.registry", "etq.ingest.recognition", "etq.ingest.found_files", "etq.ingest.metrics",
)  # fmt: skip
# The package's face hands on names of all packages, each when it is asked for; modules import each other instead.
FACE = "etq"
# The command group names the modules of its commands, each of which adds itself to it: the one circle.
COMMANDS = "etq.cli"
# Where large libraries are imported. The first ones are there whenever etq is; the others may not be installed.
LARGE = {
    "duckdb": (
        "etq.advice", "etq.analysis", "etq.annotations", "etq.database", "etq.lake", "etq.maintenance",
        "etq.agents", "etq.storage", "etq.warehouse", "etq.render.writers", "etq.export", "etq.serve.instance", "etq.spark.queries",
    ),
    "pyarrow": (
        "etq.ingest", "etq.database.functions", "etq.storage", "etq.lake.writing.loads",
        "etq.warehouse.metadata_decoder", "etq.inspector.rows", "etq.render.writers", "etq.serve.answers",
        "etq.spark.queries",
    ),
    "numpy": (
        "etq.bench.inputs", "etq.ingest", "etq.verdicts",
        "etq.database.functions", "etq.database.rows", "etq.storage", "etq.inspector", "etq.export.rows",
    ),
    "pandas": ("etq.inspector.frames",), "deltalake": ("etq.ingest.stores", "etq.lake"),
    "fsspec": ("etq.ingest.stores", "etq.lake.reading.remote"),
    "IPython": ("etq.inspector.frames",), "mcp": ("etq.agents",), "perfetto": ("etq.ingest.trace.perfetto",),
    "pyspark": ("etq.spark",), "setuptools": ("etq.building",), "python_multipart": ("etq.serve.running",),
    "starlette": ("etq.serve",), "uvicorn": ("etq.serve.running",),
    "torch": (
        "etq.bench.execute", "etq.bench.inputs", "etq.torch.exported", "etq.torch.operators", "etq.torch.reference",
        "etq.inspector.references", "etq.inspector.tensors",
    ),
    "executorch": ("etq.bench.execute", "etq.torch.reference"),
    "flatbuffers": ("etq.bench.execute",),
}  # fmt: skip


def modules() -> dict[str, Path]:
    found = {}
    for folder, package in (("etq", "etq"), ("ingest", "etq.ingest")):
        for path in (ROOT / folder).rglob("*.py"):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(nodes: Iterable[ast.AST], known: Container[str], *, types: bool = True) -> Iterator[str]:
    """The modules that code imports when it is loaded or, within functions, called, and with `types` for checkers."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)
        elif not types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports(node.orelse, known, types=False)
        else:
            yield from imports(ast.iter_child_nodes(node), known, types=types)


@cache
def arrows(*, types: bool) -> dict[str, set[str]]:
    return {
        name: {each for each in imports([ast.parse(path.read_text())], MODULES, types=types) if each != name}
        for name, path in sorted(MODULES.items())
        if name != FACE
    }


def is_within(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def layer_of(module: str, layers: Sequence[str]) -> int:
    """The place of a module: that of the longest name that it is within."""
    named = [(len(layer), place) for place, layer in enumerate(layers) if is_within(module, layer)]
    assert named, f"{module} is in no layer: name it in LAYERS or INGEST_LAYERS"
    return max(named)[1]


@pytest.mark.long
@pytest.mark.parametrize(("within", "layers"), [("etq", LAYERS), ("etq.ingest", INGEST_LAYERS)])
def test_arrows_go_from_left_to_right(within: str, layers: Sequence[str]) -> None:
    wrong = [
        f"{module} imports {other}, which is to the right"
        for module, others in arrows(types=True).items()
        for other in sorted(others)
        if is_within(module, within) and is_within(other, within) and within not in (module, other)
        if layer_of(other, layers) > layer_of(module, layers)
    ]
    assert wrong == []


def test_no_module_imports_the_public_package() -> None:
    assert {module for module, others in arrows(types=True).items() if FACE in others} == set()


def test_files_import_nothing_else() -> None:
    for module, others in arrows(types=True).items():
        if is_within(module, "etq.ingest"):
            mine = {other for other in others if is_within(other, "etq") and not is_within(other, "etq.ingest")}
            assert mine <= {"etq.errors"}, module


def test_imports_have_no_cycles() -> None:
    graph = {
        module: {
            other
            for other in others
            if other in arrows(types=True) and not (module == COMMANDS and is_within(other, COMMANDS))
        }
        for module, others in arrows(types=True).items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(reversed(error.args[1]))}") from None


def test_layers_are_of_modules() -> None:
    listed = [*LAYERS, *INGEST_LAYERS]
    assert len(listed) == len(set(listed))
    assert [each for each in listed if each not in MODULES and each not in ("etq.sql", "etq.datasets")] == []
    for module in MODULES.keys() - {FACE, "etq.ingest"}:
        layer_of(module, INGEST_LAYERS if is_within(module, "etq.ingest") else LAYERS)


@pytest.mark.parametrize("library", LARGE)
def test_large_libraries_are_only_where_they_belong(library: str) -> None:
    users = {
        module for module, others in arrows(types=False).items() if any(is_within(other, library) for other in others)
    }
    used = {user: [place for place in LARGE[library] if is_within(user, place)] for user in users}
    assert {user for user, places in used.items() if not places} == set()
    assert {place for places in used.values() for place in places} == set(LARGE[library]), "a place that needs it not"


def test_other_imports_are_standard_or_small() -> None:
    small = {"etq", "click", "msgspec", "platformdirs", "py4j", *LARGE, *sys.stdlib_module_names}
    assert {other.split(".")[0] for others in arrows(types=False).values() for other in others} <= small
