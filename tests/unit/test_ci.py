"""What CI systems read: workflow commands, decoded as GitHub's runner does, and JUnit's XML, by another parser."""

from __future__ import annotations

from xml.dom import minidom

import pytest

from etq.render.ci import Case, junit, workflow_command

HOSTILE = '::error::<a & "b">,c:d=100%\n]]>\x00\x1b[31m\u202e\ufffe\ud800%0A\r'


def decoded(text: str, codes: dict[str, str]) -> str:
    """As `ActionCommand.UnescapeData` and `UnescapeProperty` of github.com/actions/runner do: % last."""
    for code, character in codes.items():
        text = text.replace(code, character)
    return text.replace("%25", "%")


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """The command, properties and message of a line, as `ActionCommand.TryParseV2` splits it."""
    assert line.startswith("::") and line.count("\n") == 1 and line.endswith("\n") and "\r" not in line
    command, _, message = line[2:-1].partition("::")
    name, _, given = command.partition(" ")
    ends = {"%0D": "\r", "%0A": "\n"}
    pairs = [pair.split("=", 1) for pair in given.split(",") if pair]
    properties = {key: decoded(value, ends | {"%3A": ":", "%2C": ","}) for key, value in pairs}
    return name, properties, decoded(message, ends)


def test_a_workflow_command_by_hand() -> None:
    line = workflow_command("error", ["addmm: +5 %", "twice"], {"file": "a,b:c.py", "line": 3, "col": None})
    assert line == "::error file=a%2Cb%3Ac.py,line=3::addmm: +5 %25%0Atwice\n"
    assert workflow_command("notice", ["x"], {}) == "::notice::x\n"


def test_hostile_names_in_a_workflow_command() -> None:
    """They are one command with the same text; characters that a log would obey are escaped."""
    shown = '::error::<a & "b">,c:d=100%\\n]]>\\x00\\x1b[31m\\u202e\ufffe\\ud800%0A\\r'
    assert parsed(workflow_command("warning", [HOSTILE, "b"], {"file": HOSTILE, "title": "t"})) == (
        "warning", {"file": shown, "title": "t"}, f"{shown}\nb",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["addmm @3", HOSTILE, "", "<![CDATA[", " x ", "é模"])
def test_junit_of_any_name(name: str) -> None:
    cases = [Case("op", name, f"{name}: slower", "slower"), Case(name, "b", name), Case("op", "c", name, None, True)]
    root = minidom.parseString(junit("gate", cases, f"first {name}").encode()).documentElement
    assert root is not None and root.tagName == "testsuites"
    [suite] = root.getElementsByTagName("testsuite")
    counts = [suite.getAttribute(key) for key in ("name", "tests", "failures", "errors", "skipped")]
    assert counts == ["gate", "3", "1", "0", "1"]
    first, second, third = suite.getElementsByTagName("testcase")
    shown = name.replace(HOSTILE, '::error::<a & "b">,c:d=100%\\n]]>\\x00\\x1b[31m\\u202e\\ufffe\\ud800%0A\\r')
    [failure] = first.getElementsByTagName("failure")
    assert (first.getAttribute("name"), first.getAttribute("classname")) == (shown, "op")
    assert (failure.getAttribute("message"), failure.getAttribute("type")) == (f"{shown}: slower", "slower")
    assert second.getAttribute("classname") == shown and not second.getElementsByTagName("failure")
    assert third.getElementsByTagName("skipped")[0].getAttribute("message") == shown
