"""The SQL of etq as data: every table, view and macro under `etq.sql`, with the documentation from its file.

A file has one topic. Each object consists of a comment, which documents it, and a CREATE statement up to a line that
ends in `;`. The comment has one or more paragraphs, and for views and table macros either `Columns:`
followed by a line `  name: text` per column, or a last line `Columns: as in `x``, where x is above in the same file.
Before it may be lines on what a view is for:
  Needs: KIND[, TABLE][; else: VIEW]       captures of that kind, torch_trace or dump (all others), with rows of that
                                           table; what answers the question for captures of the other kind
  Empty: TEXT                              why it has no rows; `Empty by WORD` if its parameter `by` is that word
  Shown: COLUMN, ...                       what people see of it, in this order; each public view has it. Lines that
                                           follow it begin with two spaces. A column may be an expression AS a name.
                                           Marks after it: `!` a table always has it, also where there is no room;
                                           `+` a sum, which people see with --total; `|` a long text, which is a
                                           paragraph where a table has no room. Each number has its kind, after these:
                                           `~` a time in the row's unit: unless --unit is given, that unit suits the
                                           first such column; `-` such a time that people see only if they name it;
                                           `%` a share or another part, in percent; `#` a number without a unit, or
                                           with that of its name; or one of `KINDS` in brackets, as in bytes (bytes)
  Share: TEXT                              the whole of share_percent, if all rows have the same; more lines as above
A column of a table has a line, which ends in a comment, and so has a parameter of a macro, but for those that `COMMON`
documents and those of private macros: several of them may share a line, also that of CREATE. A private macro needs no
columns. One that takes texts and keys has two bodies, with a line `), (name) AS (` between them: the first has the type
VARCHAR, the second none. DuckDB calls two types ambiguous where another macro passes its own parameter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from etq.errors import EtqError, nearest_words

Kind = Literal["table", "view", "table macro", "scalar macro"]

_CREATE: Final = re.compile(r"^CREATE (TABLE|VIEW|MACRO) (\w+)", re.MULTILINE)
_COLUMN: Final = re.compile(r"^    (\w+) (.+?),?  -- (.+)$")
_PARAMETER: Final = re.compile(r"^    \"?(\w+)\"?(?: := (.+?))?,?  -- (.+)$")
_HEADER: Final = re.compile(r"^CREATE MACRO \w+\((.*?)\) AS (?:TABLE|\()")
_DOCUMENTED: Final = re.compile(r"^  (\w+): (.+)$")
_COLUMNS_OF: Final = re.compile(r"^Columns: as in `(\w+)`$")
_NEEDS: Final = re.compile(r"^Needs: (\w+(?:, \w+)*)(?:; else: (.+))?$")
_EMPTY: Final = re.compile(r"^Empty(?: by (\w+))?: (.+)$")
_SHOWN: Final = "Shown: "
_SHARE: Final = "Share: "
_MARKED: Final = re.compile(r"(.+?)([!+|]*)([~%#-]?)(?: \((\w+)\))?")
# A word, and the bracket of a call after it. Texts and comments are matched so that they are skipped.
_WORD: Final = re.compile(r"""'(?:[^']|'')*'|--[^\n]*|(?<![\w.$"])([A-Za-z_]\w*+)(?!\s*:=)(?:\s*(\())?""")

# DuckDB's error for a view that is written as a table, or a table as a view.
_NOT_THERE: Final = re.compile(r"Table (?:Function )?with name (\w+) does not exist!")

# DuckDB's errors, and what a person can act on.
_REMEDIES: Final = (
    (
        re.compile(r"Macro (\w+)\(\) does not support the supplied arguments\..* macros: (.*)"),
        r"wrong arguments of \1; it takes \2",
    ),
    (
        re.compile(r"Values were not provided for the following parameters: (\w+)"),
        r"$\1 has no value: write the value in the query, or in Python pass \1=VALUE",
    ),
    (
        re.compile("Parameter/argument count mismatch for prepared statement"),
        "a value is given that the query doesn't have as $NAME; a table to join is of pandas, Polars or Arrow",
    ),
    (
        re.compile(r'Table with name "?((?:[^"]*/)?([^"/]+?)(?:\.(?:etdp|etrecord|pte|json|gz))+)"? does not exist'),
        r"""\1 is a file, not a table; to query it: etq sql "FROM op_totals('\2')" \1, or in Python etq.read""",
    ),
)
# A text; a call without texts, as far as its first bracket, and a name with = in it.
_TEXT: Final = re.compile(r"'[^']*'")
_CALL: Final = re.compile(r"(?<!\w)(\w++)\(([^()]*)")
_EQUATION: Final = re.compile(r',\s*"?(\w+)"?\s*=(?![=>])')

# The beginning of the documentation of a view that calls a function of etq's.
NEEDS_ETQ: Final = "Needs etq: in DuckDB alone, it is an error. "

# Parameters that many macros have. A macro documents its other parameters, and one of these if its meaning differs.
COMMON: Final = {
    "capture": "key, name, hash prefix, @latest or selector",
    "unit": "ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)",
    "steps": "runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all",
    "phase": "only runs of this phase: load, prefill, decode, mixed or other; NULL: all runs",
    "method": "only runs of this method, as in the column `method`; NULL: all runs",
    "runs": "typical (only typical runs, see `typical_runs`) or all",
    "base": "key, name, hash prefix, @latest, or a selector of one or several captures",
    "new": "as `base`",
    "quantile": "quantile of a capture's runs that is compared: 0.25 (least affected by noise), 0.5, or 0.9 (slow "
    "tails)",
    "history": "captures that show the usual variation if each side is one capture; NULL: others with the same events "
    "and all labels that both sides share",
    "alpha": "accepted probability of a false verdict slower or faster",
    "min_effect": "smallest change that counts, as a fraction, for single captures at least 0.1; NULL: 0.02",
    "allow_mismatch": "whether to compare captures of different profiling levels or models, and to give verdicts "
    "although conditions differ",
    "selector": "name, hash prefix or selector of captures; NULL: all captures",
    "over": "label to order by: numbers, versions, commits (by commit_time); or captured_at; NULL: the first of build, "
    "commit and captured_at that more than half of the captures have, else the one that most have",
}

# Parameters that name a capture: they are resolved first, so that errors are raised at the call, not when rows are
# read.
CAPTURES: Final = frozenset({"capture", "baseline", "base", "new", "etdump", "trace"})
# Parameters that take selectors, or lists of them: a named view may stand for its selector.
SELECTORS: Final = CAPTURES | {"selector", "selectors", "texts", "side", "reference", "history"}

# The kinds of columns that are written as words. `time` is in the row's unit, also where a table keeps that; `change`
# is in percent, and `interval` the lower end of one, whose upper end is the column after it.
KINDS: Final = ("time", "bytes", "change", "interval", "probability", "label", "moment", "verdict")
_KINDS_OF_MARKS: Final = {"~": "time", "-": "time", "%": "percent", "#": "number", "": None}


class Column(NamedTuple):
    """A column of a table or of a view's result, or a parameter: name, documentation,
    and type or default if it has one.
    """

    name: str
    text: str
    type: str | None = None
    default: str | None = None


class Shown(NamedTuple):
    """A column of a view that people see."""

    name: str
    expression: str  # the column in SQL, with its name
    marks: str  # of the marks that the module's docstring describes
    kind: str | None = None  # time, percent, number, or one of `KINDS`; None for texts, flags and the unit


class SqlObject(NamedTuple):
    """A table, view or macro. `file` is the path of its file under `etq.sql`; names with a leading underscore are
    private.
    """

    name: str
    kind: Kind
    file: str
    text: str
    columns: tuple[Column, ...]
    parameters: tuple[Column, ...]
    statement: str
    needs: tuple[str, ...] = ()  # the kind of captures that it is for, and the table that must have rows
    otherwise: str | None = None  # what answers the question for captures of the other kind
    empty: tuple[tuple[str | None, str], ...] = ()  # why it has no rows, by the value of `by`; None: any
    shown: tuple[Shown, ...] = ()  # the columns that people see; of a table none, which means all
    other_times: tuple[str, ...] = ()  # times that people see only if they name them
    share: str = ""  # the whole of share_percent, if it is the same in all rows

    @property
    def summary(self) -> str:
        """What a row is: the first sentence of the documentation, or the second if that is `NEEDS_ETQ`."""
        return self.text.removeprefix(NEEDS_ETQ).split(". ")[0].rstrip(".")

    @property
    def is_public(self) -> bool:
        """Whether the object is for use outside `etq.sql`."""
        return not self.name.startswith("_")

    @property
    def to_read(self) -> str:
        """The columns that people see, for a SELECT."""
        return ", ".join(each.expression for each in self.shown) or "*"

    @property
    def foremost(self) -> tuple[str, ...]:
        """The columns that a table always has."""
        return self._marked("!")

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns that people see with --total."""
        return self._marked("+")

    @property
    def times(self) -> tuple[str, ...]:
        """The times whose unit is chosen for people to suit the first of them, including times that people don't see by
        default.
        """
        return self._marked("~") + self.other_times

    @property
    def long(self) -> tuple[str, ...]:
        """The columns with long texts."""
        return self._marked("|")

    def _marked(self, mark: str) -> tuple[str, ...]:
        return tuple(column.name for column in self.shown if mark in column.marks)

    def without(self, names: Collection[str]) -> SqlObject:
        """Return the view without some of the columns that people see."""
        return self._replace(shown=tuple(column for column in self.shown if column.name not in names))

    def beside(self, other: SqlObject) -> SqlObject:
        """Return the view joined with another view: people also see the columns that they see of the other view."""
        known = {column.name for column in self.columns}
        more = tuple(column for column in other.shown if column.name not in known)
        return self._replace(columns=self.columns + other.columns, shown=self.shown + more)

    def comments(self) -> Iterator[str]:
        """Yield the COMMENT ON statements that copy the documentation into the database's catalogue."""
        target = {"table": "TABLE", "view": "VIEW", "table macro": "MACRO TABLE", "scalar macro": "MACRO"}[self.kind]
        yield f"COMMENT ON {target} {self.name} IS {quoted(self.text)}"
        if self.kind in ("table", "view"):
            for column in self.columns:
                yield f'COMMENT ON COLUMN {self.name}."{column.name}" IS {quoted(column.text)}'


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def corrected(message: str, query: str = "") -> str:
    """Return DuckDB's message about a query; for a view without its arguments or with unknown ones, a table with
    arguments, a file, or a parameter without its value, the message says how to write it.
    """
    for view, arguments in _CALL.findall(_TEXT.sub("''", query)):
        known = found(view.lower())
        names = () if known is None else [each.name for each in known.parameters]
        for name in _EQUATION.findall(arguments):
            if name in names:
                return f"{view}: an argument's name is followed by :=, not by =; write {name} := VALUE"
    for pattern, remedy in _REMEDIES:
        if (match := pattern.match(message)) is not None:
            return match.expand(remedy)
    match = _NOT_THERE.match(message)
    known = None if match is None else found(match[1])
    if known is None or not known.is_public:
        return message
    if known.kind != "table macro":
        return f"{known.name} is a {known.kind} without parameters: FROM {known.name}"
    needed = ", ".join(f"'{each.name.upper()}'" for each in known.parameters if each.default is None)
    return f"{known.name} is a view with parameters: FROM {known.name}({needed})"


def identifier(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def arguments(names: Iterable[str]) -> str:
    """Return the arguments of a macro's call that are parameters of the query: "unit" := $unit, "steps" := $steps."""
    return ", ".join(f"{identifier(name)} := ${name}" for name in names)


def more_arguments(names: Iterable[str]) -> str:
    """Return the text of `arguments` in the form that follows other arguments."""
    return "".join(f", {arguments([name])}" for name in names)


@cache
def objects() -> dict[str, SqlObject]:
    """Return every object by name, in dependency order."""
    return {name: named(name) for name in in_order(_places())}


@cache
def _source(file: str) -> str:
    """Return the text of an SQL file by its path under `etq.sql`, with the data of `ingest/` that it shows."""
    text = Path(_root(), file).read_bytes().decode()
    if file not in _DATA:
        return text
    example, make = _DATA[file]
    if example not in text:
        raise ValueError(f"{file}: lacks {example}, which stands for data of ingest/")
    return text.replace(example, make())


def _formulas() -> str:
    """Return the rows of `cost_formulas`: ops with one formula, its columns, and its text."""
    from etq.ingest.costs.formulas import formulas

    ops: dict[tuple[str, str], list[str]] = {}
    for each in formulas().of_ops.values():
        counts = (each.family, each.counts, each.per_input, each.per_output, each.moves, each.sizes, each.writes)
        ops.setdefault(("|".join(map(str, counts)), each.text), []).append(each.op)
    rows = ((" ".join(names), rule, text) for (rule, text), names in ops.items())
    return ",\n".join(f"({', '.join(map(quoted, row))})" for row in rows)


def _products() -> str:
    from etq.ingest.trace.classes import PRODUCTS

    return ", ".join(map(quoted, sorted(PRODUCTS)))


def _compiling() -> str:
    from etq.ingest.trace.classes import COMPILING

    return ", ".join(map(quoted, COMPILING))


def _long_call() -> str:
    from etq.ingest.trace.classes import LONG_CALL

    return str(LONG_CALL)


# The files that show data of `ingest/`: the text that the data replaces, and a function that returns it as SQL.
_DATA: Final[Mapping[str, tuple[str, Callable[[], str]]]] = {
    "costs/cost_formulas.sql": ("('ops', 'family|counts|0|0|moves|sizes|writes', 'text')", _formulas),
    "traces/compilation.sql": ("'compiling'", _compiling),
    "traces/_host_names.sql": ("'LONG_CALL'", _long_call),
    "traces/_trace_peaks.sql": ("'product'", _products),
}


@cache
def _files(root: str) -> list[str]:
    """Return the SQL files in a folder and below, sorted. pathlib would take several times as long."""
    folders = [folder.name for folder in os.scandir(root) if folder.is_dir()]
    found = (f"{folder}/{file}" for folder in folders for file in os.listdir(os.path.join(root, folder)))
    return sorted(file for file in found if file.endswith(".sql"))


@cache
def _by_name(root: str) -> dict[str, list[str]]:
    """Return these files by their names without the ending."""
    found: dict[str, list[str]] = {}
    for file in _files(root):
        found.setdefault(file.rpartition("/")[2].removesuffix(".sql"), []).append(file)
    return found


@cache
def _places() -> dict[str, tuple[str, bool]]:
    """Return the file of each object, and whether the object is a macro. Definitions are parsed only when needed."""
    places: dict[str, tuple[str, bool]] = {}
    for file in _files(_root()):
        for word, name in _CREATE.findall(_source(file)):
            if name in places:
                raise ValueError(f"{file}: {name} is defined in {places[name][0]} too")
            places[name] = file, word == "MACRO"
    return places


@cache
def _parsed(file: str) -> dict[str, SqlObject]:
    return {each.name: each for each in parse(_source(file), file)}


def found(name: str) -> SqlObject | None:
    """Return the object of a name, None if there is none. Only its file is parsed: the file of that name, or one of
    the tables' files. For other objects all files are read, in 13 ms.
    """
    files = _by_name(_root()).get(name) or [file for file in _of_tables() if f"CREATE TABLE {name} (" in _source(file)]
    near = next((_parsed(file)[name] for file in files if name in _parsed(file)), None)
    return near or (_parsed(_places()[name][0])[name] if name in _places() else None)


@cache
def named(name: str) -> SqlObject:
    """Return the object of a name that is known to exist, as `found` does."""
    known = found(name)
    assert known is not None, name
    return known


@cache
def _root() -> str:
    in_checkout = Path(__file__).parent / "sql"
    if in_checkout.exists():
        return str(in_checkout)
    import etq.sql

    return next(iter(etq.sql.__path__))


def public_objects() -> Iterator[SqlObject]:
    """Yield the public objects, ordered by kind and name."""
    kinds = ("table", "view", "table macro", "scalar macro")
    yield from sorted(
        (known for known in objects().values() if known.is_public),
        key=lambda known: (kinds.index(known.kind), known.name),
    )


def public_object(name: str) -> SqlObject:
    """Return the public object of a name. Raises EtqError, with the nearest names, if there is none."""
    if (target := found(name)) is not None and target.is_public:
        return target
    near = nearest_words(name, (known.name for known in public_objects()))
    raise EtqError(f"no table, view or macro {name!r}{near or '; etq views lists them'}")


def named_in(query: str) -> list[str]:
    """Return the names of the objects that a statement may use.

    These are the macros that it calls, and words that are names of tables or views. Words in texts and comments, and
    names of arguments, of parameters, and of columns after a dot are left out.
    """
    places = _places()
    return [
        name
        for name, is_called in dict.fromkeys((word.lower(), bool(bracket)) for word, bracket in _WORD.findall(query))
        if name in places and (is_called or not places[name][1])
    ]


def foremost_in(query: str) -> list[str]:
    """Return the columns of the views in a statement that a table always has."""
    shown = (column for name in named_in(query) for column in named(name).shown if "!" in column.marks)
    return [name for column in shown for name in re.findall(r"\w+", column.expression)]


def tables() -> list[SqlObject]:
    """The base tables. Only their own files are parsed."""
    return [known for file in _of_tables() for known in _parsed(file).values() if known.kind == "table"]


@cache
def _of_tables() -> list[str]:
    """Return the files of the base tables."""
    return [file for file in _files(_root()) if file.startswith("tables/")]


def state(*more: Path) -> str:
    """Return a hash that changes when a file of SQL, or one of these, is changed. It is a hash of sizes and times,
    because reading all files takes longer.
    """
    root = _root()
    found = [(path, os.stat(path)) for path in (*(f"{root}/{file}" for file in _files(root)), *map(str, more))]
    return sha256(repr([(path, at.st_size, at.st_mtime_ns) for path, at in found]).encode()).hexdigest()


def parse(source: str, file: str) -> Iterator[SqlObject]:
    """Yield the objects of one file. Raises `ValueError`, naming file and line, for text in another form."""
    comment: list[str] = []
    statement: list[str] = []
    parsed: dict[str, SqlObject] = {}
    for number, line in enumerate(source.splitlines(), 1):
        if not statement and line.startswith("--   ") and comment and comment[-1].startswith((_SHOWN, _SHARE)):
            comment[-1] += line[4:]
        elif not statement and line.startswith("--"):
            comment.append(line[3:])
        elif line.strip() or statement:
            statement.append(line)
            if line.endswith(";"):
                place = f"{file}:{number - len(statement) + 1}"
                columns = _columns_of_another(comment, parsed, place)
                each = _object(comment, statement, place, file)._replace(**_purpose(comment))
                parsed[each.name] = each if columns is None else each._replace(columns=columns)
                yield parsed[each.name]
                comment, statement = [], []
    if statement:
        raise ValueError(f"{file}: the last statement doesn't end in a line with `;`")


def _columns_of_another(comment: list[str], known: dict[str, SqlObject], place: str) -> tuple[Column, ...] | None:
    """Remove a line `Columns: as in `x`` from a comment; return the columns of x, which is above in the same file."""
    match = _COLUMNS_OF.match(comment[-1]) if comment else None
    if match is None:
        return None
    if match[1] not in known:
        raise ValueError(f"{place}: {match[1]} isn't defined above it in this file")
    comment.pop()
    return known[match[1]].columns


def _is_purpose(line: str) -> bool:
    return bool(_NEEDS.match(line) or _EMPTY.match(line) or line.startswith((_SHOWN, _SHARE)))


def _purpose(comment: list[str]) -> dict[str, Any]:
    """Return the fields of an object that lines of its comment state."""
    found: dict[str, Any] = {"empty": ()}
    for line in comment:
        if (match := _NEEDS.match(line)) is not None:
            found |= {"needs": tuple(match[1].split(", ")), "otherwise": match[2]}
        elif (match := _EMPTY.match(line)) is not None:
            found["empty"] += ((match[1], match[2]),)
        elif line.startswith(_SHARE):
            found["share"] = line.removeprefix(_SHARE)
        elif line.startswith(_SHOWN):
            listed = tuple(map(_shown, _listed(line.removeprefix(_SHOWN))))
            found["shown"] = tuple(column for column in listed if column.marks != "-")
            found["other_times"] = tuple(column.name for column in listed if column.marks == "-")
    return found


def _shown(text: str) -> Shown:
    match = _MARKED.fullmatch(text)
    assert match is not None
    expression, marks, mark, word = match.groups()
    if word is not None and (word not in KINDS or mark):
        raise ValueError(f"{expression}: the kind is one of {', '.join(KINDS)}, or a mark; not {mark}{word}")
    return Shown(expression.rpartition(" AS ")[2], expression, marks + mark, word or _KINDS_OF_MARKS[mark])


def _listed(text: str) -> Iterator[str]:
    """Yield the parts between commas, other than those in brackets and texts."""
    whole = ""
    for part in text.split(", "):
        whole += part
        if whole.count("'") % 2 == 0 and whole.count("(") == whole.count(")"):
            yield whole
            whole = ""
        else:
            whole += ", "


def _object(comment: list[str], lines: list[str], place: str, file: str) -> SqlObject:
    statement = "\n".join(lines)[:-1]
    match = _CREATE.match(statement)
    if match is None:
        raise ValueError(f"{place}: expected CREATE TABLE, VIEW or MACRO, found {lines[0]!r}")
    if not comment:
        raise ValueError(f"{place}: {match[2]} has no comment above it")
    word, name = match.groups()
    listed = comment.index("Columns:") if "Columns:" in comment else len(comment)
    text = " ".join(line for line in comment[:listed] if not _is_purpose(line))
    columns = tuple(_documented_column(line, place) for line in comment[listed + 1 :])
    if word == "TABLE":
        columns = tuple(_column(line, place) for line in lines[1:-1])
        return SqlObject(name, "table", file, text, columns, (), statement)
    if word == "VIEW":
        return SqlObject(name, "view", file, text, columns, (), statement)
    end = next((index for index, line in enumerate(lines) if ") AS" in line and line[0] in "C)"), None)
    if end is None:
        raise ValueError(f"{place}: expected a line `) AS TABLE` or `) AS (` after the parameters of {name}")
    is_public = not name.startswith("_")
    header = _HEADER.match(lines[0])
    declared = [header[1]] if header else lines[1:end]
    parameters = tuple(each for line in declared for each in _parameters(line, place, is_public=is_public))
    kind: Kind = "table macro" if lines[end].endswith(") AS TABLE") else "scalar macro"
    return SqlObject(name, kind, file, text, columns, parameters, statement)


def _column(line: str, place: str) -> Column:
    if (match := _COLUMN.match(line)) is None:
        raise ValueError(f"{place}: expected `    name TYPE,  -- text`, found {line!r}")
    return Column(match[1], match[3], type=match[2])


def _parameters(line: str, place: str, *, is_public: bool) -> Iterator[Column]:
    """Yield the parameters in a line: one parameter with a comment, or any number of parameters without comments."""
    if (match := _PARAMETER.match(line)) is not None:
        yield Column(match[1], match[3], default=match[2])
        return
    if "--" in line:
        raise ValueError(f"{place}: expected `    name := default,  -- text`, found {line!r}")
    for text in filter(None, map(str.strip, line.split(","))):
        name, _, default = text.partition(" := ")
        name = name.split()[0].strip('"')  # without the type, which an overload may have
        if is_public and name not in COMMON:
            raise ValueError(f"{place}: expected `    {name},  -- text`, as not all macros have this parameter")
        yield Column(name, COMMON[name] if is_public else "", default=default or None)


def _documented_column(line: str, place: str) -> Column:
    if (match := _DOCUMENTED.match(line)) is None:
        raise ValueError(f"{place}: expected `--   name: text` under Columns, found {line!r}")
    return Column(match[1], match[2])


@cache
def _uses(user: SqlObject) -> list[str]:
    """Return the names of the objects that a definition may use."""
    if user.kind == "table":  # in a table's definition, only names of columns can equal another object's name
        return []
    return [name for name in named_in(user.statement) if name != user.name]


def in_order(names: Iterable[str]) -> list[str]:
    """Return these names and the names of all objects that they use, in dependency order."""
    ordered: dict[str, None] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in ordered or name in path:
            return
        for used in _uses(named(name)):
            add(used, (*path, name))
        ordered[name] = None

    for name in names:
        add(name, ())
    return list(ordered)
