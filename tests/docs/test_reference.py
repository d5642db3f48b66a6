"""The generated reference has all that is public: tables, views, columns, parameters, commands and options."""

from __future__ import annotations

import inspect
import re
from html import unescape

import click

import etq
from docs.site import lineage, reference
from etq import catalog
from etq.catalog import SqlObject

PAGES = reference.pages()


def section(name: str) -> str:
    """The text of the one section with that anchor."""
    [found] = re.findall(
        rf"^## {name} {{#{name}}}\n(.*?)(?=^## |\Z)", "\n".join([*PAGES.values()]), re.DOTALL | re.MULTILINE
    )
    return str(found)


def is_documented(each: SqlObject) -> bool:
    text = section(each.name)
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    named = [*each.parameters, *each.columns]
    prose = words(text.removeprefix("\n").split("```\n\n")[-1])
    return (
        [name for name, _ in rows] == [one.name for one in named]
        and all(
            words(shown)[-len(words(one.text)) :] == words(one.text)
            for (_, shown), one in zip(rows, named, strict=False)
        )
        and prose[: len(words(each.text))] == words(each.text)
    )


def test_every_table_view_and_column() -> None:
    assert [each.name for each in catalog.public_objects() if not is_documented(each)] == []


def test_from_which_columns_of_tables_a_column_comes() -> None:
    known = lineage.Origins(["op_totals"]).known["op_totals"]
    # `total` converts self times from ticks, or from the value's own unit; an error about the unit names the capture.
    self_times = {"event_ticks.self_ticks"}
    assert known["total_ticks"] == self_times
    assert known["total"] == self_times | {"signatures.value_unit", "captures.time_scale", "captures.name"}
    assert known["kind"] == {"signatures.kind"}  # or 'framework'; the number of children is a condition alone
    assert known["calls"] == set()  # count(*)
    page = reference.pages({"op_totals": known})["reference/where-the-time-of-an-execute-goes.md"]
    assert "user, framework | [`signatures.kind`](tables.md#signatures) |" in page


def words(text: str) -> list[str]:
    """The words of a text, without Markdown and where links lead."""
    return re.findall(r"\w+", re.sub(r"\]\([^)]*\)", "", unescape(text)).replace("\\", ""))


def test_every_function_and_method_of_python() -> None:
    page = PAGES["reference/python.md"]
    listed = dict(each for _, objects in reference.python_objects() for each in objects)
    public = {f"etq.{name}" for name in etq.__all__ if inspect.isfunction(getattr(etq, name))}
    public |= {f"Warehouse.{name}" for name in dir(etq.Warehouse) if not name.startswith("_")}
    assert public <= {*listed}
    for name, found in listed.items():
        text = inspect.getdoc(found) or ""
        [shown] = re.findall(
            rf"^##+ {re.escape(name)}(?: {{[^}}]*}})?\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE
        )
        assert text and set(words(text)) <= set(words(shown)), name
        if inspect.isfunction(found):
            assert all(each in shown.split("```")[1] for each in inspect.signature(found).parameters if each != "self")


def test_every_command_and_option() -> None:
    page = "".join(text for path, text in PAGES.items() if path.startswith("reference/commands-"))
    names = []
    for name, context in reference.commands():
        names.append(name)
        [text] = re.findall(
            rf"^## etq {name} {{#{name.replace(' ', '-')}}}\n(.*?)(?=^## |^# |\Z)", page, re.DOTALL | re.MULTILINE
        )
        for parameter in context.command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert f"{parameter.opts[-1]}" in text, (name, parameter.opts)
        assert f"`etq {name}`" in PAGES["reference/commands.md"]
    assert len(names) == len(set(names)) and {"ops", "compare", "lake add"} <= {*names}
