"""The pages of docs/reference: written from the SQL's documentation and the command line when the site is built.

`pages()` gives them; `on_files` is the hook by which MkDocs adds them to the site. Run as a program, this prints them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Any, Final

import click

from etq import catalog
from etq.catalog import Column, SqlObject
from etq.database.handles import Record
from etq.warehouse.compared import Compared
from etq.warehouse.result import Result

TOPICS: Final = {
    "captures": "Captures, labels and metrics",
    "events": "Events and runs",
    "execute": "Where the time of an execute goes",
    "records": "Ops, nodes and delegates of a record",
    "programs": "Programs",
    "costs": "Costs of ops, and the roofline",
    "memory": "Memory of ETDumps",
    "values": "Logged values",
    "traces": "PyTorch traces",
    "overview": "Headline, advice, views for plots",
    "compare": "Comparisons",
    "trends": "Trends",
    "fleet": "Fleets",
    "rollups": "Rollups",
}
# What columns refer to, by the table whose key they are; of a table's references, the drawn one is the last.
KEYS: Final = {
    "records": ("record_id",),
    "programs": ("program_id",),
    "captures": ("capture_id",),
    "runs": ("capture_id", "run_index"),
    "signatures": ("capture_id", "signature_index"),
    "graphs": ("record_id", "graph_id"),
    "op_nodes": ("record_id", "graph_id", "node_index"),
}

# Sizes in diagrams, in pixels: the distance of columns, a box's width, the height of a row.
COLUMN: Final = 232
BOX: Final = 200
ROW: Final = 26

# The columns of tables that each column of a view comes from, by the view's name: `Origins.known` of lineage.py.
Origins = Mapping[str, Mapping[str, Collection[str]]]


def pages(origins: Origins | None = None) -> dict[str, str]:
    """The text of each page, by its path below docs/."""
    objects = list(catalog.public_objects())
    tables = [each for each in objects if each.kind == "table"]
    views = [each for each in objects if each.kind != "table"]
    made = {
        "reference/index.md": _index(tables, views),
        "reference/tables.md": _tables(tables),
        **_commands(),
    }
    for topic, group in _by_topic(views):
        made[f"reference/{_slug(topic)}.md"] = f"# {topic}\n\n" + "\n".join(
            _object(each, (origins or {}).get(each.name)) for each in group
        )
    made["reference/python.md"] = _python()
    return made


def _by_topic(views: Iterable[SqlObject]) -> Iterator[tuple[str, list[SqlObject]]]:
    """The views and macros by topic, in the order of TOPICS; a folder without a topic is one of its own name."""
    order = list(dict.fromkeys(TOPICS.values()))

    def place(each: SqlObject) -> tuple[int, str, str]:
        topic = _topic(each)
        return (order.index(topic) if topic in order else len(order), topic, each.name)

    for topic, group in groupby(sorted(views, key=place), key=_topic):
        yield topic, list(group)


def _topic(each: SqlObject) -> str:
    folder = each.file.split("/")[0]
    return TOPICS.get(folder, folder.capitalize())


def _slug(topic: str) -> str:
    return re.sub(r"\W+", "-", topic.lower()).strip("-")


def _index(tables: Iterable[SqlObject], views: Iterable[SqlObject]) -> str:
    views = list(views)
    lines = [
        "# Reference",
        "",
        "These pages are generated from the comments of the SQL files and from the command line's help. The same text "
        "is in every warehouse: `etq views NAME` prints it, and DuckDB has it as comments of the objects. Of views, "
        "*from* lists the columns of tables that values are computed from, where the SQL tells it; what only selects "
        "rows isn't listed.",
        "",
        "- [Tables](tables.md): what is stored, with the keys that join them",
        *(f"- [{topic}]({_slug(topic)}.md)" for topic, _ in _by_topic(views)),
        "- [Commands](commands.md): the command line",
        "- [Python](python.md): `etq.open`, the warehouse and its methods, reports, figures",
        "",
        "## All views and macros",
        "",
        "| name | what a row is, or what it returns |",
        "|---|---|",
        *(
            f"| [`{each.name}`]({_slug(_topic(each))}.md#{each.name}) | {_cell(_sentence(each.text))} |"
            for each in sorted(views, key=lambda each: each.name)
        ),
        "",
        "## All tables",
        "",
        "| name | what a row is |",
        "|---|---|",
        *(f"| [`{each.name}`](tables.md#{each.name}) | {_cell(_sentence(each.text))} |" for each in tables),
    ]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """The first sentence of a text."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z(`])", text, maxsplit=1)[0]


def python_objects() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The public functions, classes and methods of Python by section, each with the name by which it is called."""
    import etq

    functions = ("open", "read", "backup", "merge", "torch_trace_handler")
    yield "etq", [(f"etq.{name}", getattr(etq, name)) for name in functions]
    handles = [etq.Capture, Record, etq.Program]
    for kind in (etq.Warehouse, Result, Compared, *handles, etq.Inspector):
        yield kind.__name__, [(kind.__name__, kind), *_methods(kind)]
    for module in (etq.report, etq.lake):
        name = module.__name__
        yield name, [(f"{name}.{each}", getattr(module, each)) for each in _functions(module)]
    errors = (etq.EtqError, etq.FormatError, etq.QueryError, etq.WarehouseError)
    yield "Errors", [(f"etq.{error.__name__}", error) for error in errors]


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class documents itself."""
    for name, found in vars(kind).items():
        if not name.startswith("_") and (callable(found) or isinstance(found, property)) and inspect.getdoc(found):
            yield f"{kind.__name__}.{name}", found


def _functions(module: Any) -> list[str]:
    return [name for name in module.__all__ if inspect.isfunction(getattr(module, name))]


def _python() -> str:
    """The page about Python, from the docstrings."""
    lines = [
        "# Python",
        "",
        "`help()` prints the same: `help(etq.Warehouse.ingest)`. Each view is a method of a warehouse, too: "
        '`warehouse.op_totals("run")`; `dir(warehouse)` lists them, and the other pages document them.',
        "",
    ]
    for section, objects in python_objects():
        lines += [f"## {section}", ""]
        for name, found in objects:
            if name != section:
                lines += [f"### {name} {{#{name}}}", ""]
            if not isinstance(found, property) and not inspect.isclass(found):
                lines += ["```text", _python_signature(name, found), "```", ""]
            lines += _docstring(inspect.getdoc(found) or "")
    return "\n".join(lines) + "\n"


def _python_signature(name: str, function: Any) -> str:
    """A call with types. These are texts already, which `inspect` would put in quotes."""
    signature = inspect.signature(function)
    parts: list[str] = []
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        stars = marks.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        if parameter.name != "self":
            parts.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    returned = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    return _signature(name, parts) + returned


# A line of a docstring that begins the description of a parameter.
PARAMETER: Final = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)$")


def _docstring(text: str) -> Iterator[str]:
    """A docstring as Markdown: its paragraphs; descriptions of parameters as tables, code as code."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        if PARAMETER.match(lines[0]):
            yield from ["| parameter | meaning |", "|---|---|"]
            entries: list[list[str]] = []
            for line in lines:
                match = PARAMETER.match(line)
                if match is not None:
                    entries.append([match[1], match[2]])
                else:
                    entries[-1][1] += f" {line.strip()}"
            yield from (f"| `{names}` | {_cell(_prose(meaning, ''))} |" for names, meaning in entries)
            yield ""
        elif lines[0].startswith("    "):
            yield from ["```text", *(line.removeprefix("    ") for line in lines), "```", ""]
        else:
            yield from [_prose(" ".join(line.strip() for line in lines), ""), ""]


def _tables(tables: Iterable[SqlObject]) -> str:
    tables = list(tables)
    lines = ["# Tables", "", "What is stored. Views and macros read these tables; queries may, too.", ""]
    lines += ["## Join keys", ""]
    keys = list(join_keys(tables))
    for title, top in (("a capture", "captures"), ("a record", "records"), ("a program", "programs")):
        lines += [f"The tables of {title}:", "", *diagram(top, keys), ""]
    lines += ["| columns | refer to | from the tables |", "|---|---|---|"]
    for to, columns in KEYS.items():
        users = ", ".join(f"[`{table}`](#{table})" for table, other, _ in keys if other == to)
        lines.append(f"| {', '.join(f'`{column}`' for column in columns)} | [`{to}`](#{to}) | {users} |")
    lines += [
        "",
        "Keys within a capture, a record or a program count from 0 in each: join by all columns of the key.",
        "",
    ]
    return "\n".join(lines) + "\n" + "\n".join(map(_object, tables))


def join_keys(tables: Iterable[SqlObject]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each table, a table that it refers to, and the columns by which it does."""
    for each in tables:
        columns = {column.name for column in each.columns}
        for to, key in KEYS.items():
            if to != each.name and columns.issuperset(key):
                yield each.name, to, key


def diagram(top: str, keys: Iterable[tuple[str, str, tuple[str, ...]]]) -> list[str]:
    """The tree of tables that refer to a table, as lines of an SVG within HTML: each box is a link to its table.

    A table is drawn once, right of the last of the tables that it refers to by `top`'s key; a table with children
    shows its key. The site has no script for this: the boxes are laid out here.
    """
    parents = {table: to for table, to, columns in keys if columns[0] == KEYS[top][0] and table != "captures"}
    children: dict[str, list[str]] = {}
    for table, to in parents.items():
        children.setdefault(to, []).append(table)
    shapes: list[str] = []
    rows = 0

    def place(table: str, depth: int) -> tuple[int, int]:
        """Draw a table and the tables right of it; where lines from its parent end."""
        nonlocal rows
        first, inner = rows, [place(child, depth + 1) for child in sorted(children.get(table, []))]
        rows = max(rows, first + (2 if inner else 1))
        x, y = depth * COLUMN, (first + rows) * ROW // 2
        high = 19 if inner else 11
        shapes.extend(f'<path d="M{x + BOX} {y}H{x + (BOX + COLUMN) // 2}V{to}H{left}"/>' for left, to in inner)
        name = f'<text x="{x + 8}" y="{y - 3 if inner else y + 4}">{table}</text>'
        key = f'<text x="{x + 8}" y="{y + 13}" class="key">{", ".join(KEYS[table])}</text>' if inner else ""
        box = f'<rect x="{x}" y="{y - high}" width="{BOX}" height="{2 * high}" rx="4"/>'
        shapes.append(f'<a href="#{table}">{box}{name}{key}</a>')
        return x, y

    place(top, 0)
    width = max(int(x) for x in re.findall(r'<rect x="(\d+)"', "".join(shapes))) + BOX
    return [
        '<figure class="tables">',
        f'<svg viewBox="-1 -1 {width + 2} {rows * ROW + 2}" width="{width + 2}" role="img" '
        f'aria-label="Tables that refer to {top}">',
        "<style>.tables svg { max-width: 100%; font: 13px sans-serif; text-align: left }"
        " .tables rect, .tables path { fill: none; stroke: currentColor; opacity: .6 }"
        " .tables a, .tables text { fill: currentColor } .tables .key { font-size: 11px; opacity: .8 }</style>",
        *shapes,
        "</svg>",
        "</figure>",
    ]


def _object(each: SqlObject, origins: Mapping[str, Collection[str]] | None = None) -> str:
    lines = [f"## {each.name} {{#{each.name}}}", ""]
    if each.kind in ("table macro", "scalar macro"):
        arguments = [
            (f'"{one.name}"' if one.name == "by" else one.name) + (f" := {one.default}" if one.default else "")
            for one in each.parameters
        ]
        lines += ["```text", _signature(each.name, arguments), "```", ""]
    lines += [_prose(each.text, each.name), ""]
    if each.parameters:
        lines += _listed("parameter", each.parameters, each.name)
    if each.columns:
        lines += _listed("column", each.columns, each.name, origins)
    lines += [f"*{each.kind.capitalize()}, in* `sql/{each.file}`", ""]
    return "\n".join(lines)


def _signature(name: str, arguments: list[str]) -> str:
    line = f"{name}({', '.join(arguments)})"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(arguments) + "\n)"


def _listed(
    what: str, columns: Iterable[Column], user: str, origins: Mapping[str, Collection[str]] | None = None
) -> list[str]:
    """A table of columns or parameters."""
    columns = list(columns)
    sources = {name: text for name, origin in (origins or {}).items() if (text := _from(origin))}
    extra = "type" if any(each.type for each in columns) else "default" if what == "parameter" else None
    head = [what, *([extra] if extra else []), "meaning", *(["from"] if sources else [])]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for each in columns:
        value = each.type or each.default
        shown = [f"`{each.name}`", *([f"`{value}`" if value else ""] if extra else []), _cell(_prose(each.text, user))]
        if sources:
            shown.append(sources.get(each.name, ""))
        rows.append(f"| {' | '.join(shown)} |")
    return [*rows, ""]


def _from(origin: Collection[str]) -> str:
    """Columns of tables, with links to the tables; nothing where an origin isn't known, `?`."""
    known = [] if "?" in origin else sorted(origin)
    return ", ".join(f"[`{column}`](tables.md#{column.split('.')[0]})" for column in known)


@cache
def _links() -> Mapping[str, str]:
    """Where each public object is documented."""
    return {
        each.name: ("tables.md" if each.kind == "table" else f"{_slug(_topic(each))}.md") + f"#{each.name}"
        for each in catalog.public_objects()
    }


def _prose(text: str, user: str) -> str:
    """A documentation text as Markdown: names of objects in `code` are links, and nothing else is markup."""
    parts = re.split(r"(`[^`]+`)", text)
    for index, part in enumerate(parts):
        if index % 2:
            name = part[1:-1]
            parts[index] = f"[{part}]({_links()[name]})" if name in _links() and name != user else part
        else:
            parts[index] = _literal(part)
    return "".join(parts)


def _literal(text: str) -> str:
    """A text without Markdown."""
    return re.sub(r"([\\`*_>\[\]|])", r"\\\1", text.replace("<", "&lt;"))


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("\n", " "))


def commands() -> Iterator[tuple[str, click.Context]]:
    """Every command with its full name, such as `lake add`, by topic of the help."""
    from etq.cli import main
    from etq.cli.commands import COMMANDS

    root = click.Context(main, info_name="etq")
    for name in COMMANDS:
        yield from _within(root, name, name)


def _within(parent: click.Context, name: str, full: str) -> Iterator[tuple[str, click.Context]]:
    group = parent.command
    assert isinstance(group, click.Group)
    command = group.get_command(parent, name)
    assert command is not None, full
    context = click.Context(command, info_name=name, parent=parent)
    yield full, context
    # The commands of `show` are the views, which are documented with the SQL.
    if isinstance(command, click.Group) and full != "show":
        for inner in command.list_commands(context):
            yield from _within(context, inner, f"{full} {inner}")


def _commands() -> dict[str, str]:
    """The pages of commands: a list of all, and a page for each topic."""
    from etq.cli import main
    from etq.cli.commands import GROUPS
    from etq.cli.help import common_options

    topics = {name: group.text for group in GROUPS.values() for name in group.commands}
    index = [
        "# Commands",
        "",
        "`etq COMMAND --help` prints the same. Data goes to stdout and messages to stderr. The status is 0, 1 for an "
        "error, 2 for wrong usage; 3 and others where a command documents them.",
        "",
        "## Common options {#common}",
        "",
    ]
    for title, records in common_options(click.Context(main, info_name="etq")).items():
        index += [f"{title}:", "", *_table(records)]
    made = {"reference/commands.md": ""}
    for topic, listed in groupby(commands(), key=lambda command: topics[command[0].split()[0]]):
        page = f"commands-{_slug(topic)}.md"
        index += [f"## {topic}", "", "| command | what it does |", "|---|---|"]
        lines = [f"# {topic}: commands", ""]
        for full, context in listed:
            anchor = full.replace(" ", "-")
            text = context.command.help or ""
            index.append(f"| [`etq {full}`]({page}#{anchor}) | {_cell(_sentence(' '.join(text.split())))} |")
            usage = " ".join(context.command.collect_usage_pieces(context))
            lines += [f"## etq {full} {{#{anchor}}}", "", "```text", f"etq {full} {usage}", "```", ""]
            lines += [*_help(text), *_options(context)]
        index.append("")
        made[f"reference/{page}"] = "\n".join(lines) + "\n"
    made["reference/commands.md"] = "\n".join(index) + "\n"
    return made


def _help(text: str) -> Iterator[str]:
    """A help text as Markdown: its paragraphs; those that click leaves as they are become code."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if "\b" in paragraph:
            lines = paragraph.replace("\b", "").strip().splitlines()
            yield from ["```text", *(line.strip() for line in lines), "```", ""]
        else:
            yield from [_literal(" ".join(paragraph.split())), ""]


def _options(context: click.Context) -> list[str]:
    from etq.cli.options import CommonOption

    options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    common = [f"`{each.opts[-1]}`" for each in options if isinstance(each, CommonOption)]
    own = [each for each in options if not isinstance(each, CommonOption) and "--help" not in each.opts]
    records = [record for each in own if (record := each.get_help_record(context))]
    text = [f"[Common options](commands.md#common): {', '.join(common)}.", ""] if common else []
    return [*(_table(records) if records else []), *text]


def _table(records: Iterable[tuple[str, str]]) -> list[str]:
    rows = [f"| `{name}` | {_cell(_literal(text))} |" for name, text in records]
    return ["| option | meaning |", "|---|---|", *rows, ""]


def on_config(config: Any) -> Any:
    """MkDocs: names the pages in the navigation."""
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"] = list(pages())
    return config


def on_files(files: Any, config: Any) -> Any:
    """MkDocs: adds the pages to those of docs/."""
    from mkdocs.structure.files import File

    for path, text in pages(config.extra["origins"]).items():
        files.append(File.generated(config, path, content=text))
    # Printed tables are wider than text; names aren't broken.
    style = ".md-grid { max-width: 90rem; }\n.md-typeset td:first-child > code { white-space: nowrap; }\n"
    files.append(File.generated(config, "wide.css", content=style))
    return files


if __name__ == "__main__":
    for name, content in pages().items():
        print(f"<!-- {name} -->\n{content}")
