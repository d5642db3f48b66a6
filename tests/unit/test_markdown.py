"""Markdown of names that would be links, images, HTML or mentions where a comment is rendered."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from etq.render.markdown import inline, markdown

HOSTILE = [
    "[x](http://evil.example)", "![i](https://evil.example/i.png)", "<img src=x onerror=alert(1)>", "<!--", "&lt;",
    "@torvalds", "fixes #1", "GH-12", "`code`", "``two`", "**bold**", "_softmax_", "~~gone~~", "www.evil.example",
    "http://evil.example", ":smile:", "$x$", "[x][y]", "a@b.example",
]  # fmt: skip
PLAIN = ["native_layer_norm", "aten.add.Tensor", "layers.0", "+3.1 %, 20.1 to 23.5 us", "~", "(framework)", "a|b\\c"]
_CODE = re.compile(r"(`+) ?(.*?) ?\1(?!`)")


def cells(line: str) -> list[str]:
    """The cells of a line, split as by GitHub: at bars without a backslash, also in code."""
    parts = re.findall(r"(?:\\.|[^|\\])*", line.strip().removeprefix("|").removesuffix("|"))
    return [part.strip() for part in parts if part]


def test_hostile_names_are_code_and_others_stay() -> None:
    for name in HOSTILE:
        for text in (inline(name), cells(markdown(["name"], [[name]]).splitlines()[2])[0]):
            match = _CODE.fullmatch(text)
            assert match is not None and match[2] == name, name
            assert match[1] not in name.strip("`") or len(match[1]) > max(map(len, re.findall("`+", name)))
    for name in PLAIN:
        assert "`" not in inline(name) and re.sub(r"\\(.)", r"\1", inline(name)) == name


@given(st.lists(st.text(st.sampled_from("ab`|\\[]<@# _*~:"), max_size=12), min_size=1, max_size=3))
def test_every_row_has_its_cells(names: list[str]) -> None:
    head, rule, row = markdown([f"c{at}" for at in range(len(names))], [names]).splitlines()
    assert head.count("|") == rule.count("|") == len(names) + 1
    # A bar ends a cell if the number of backslashes before it is even.
    ends = [match for match in re.finditer(r"(\\*)\|", row) if len(match[1]) % 2 == 0]
    assert len(ends) == len(names) + 1
    for name in names:
        if not set(name) & set("|\\`"):
            assert name.strip() in row
