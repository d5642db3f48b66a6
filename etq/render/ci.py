"""Outputs for CI: workflow commands of GitHub Actions, and JUnit's XML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from etq.errors import printable

# The levels of annotations.
ERROR, WARNING, NOTICE = "error", "warning", "notice"
# The escapes that the runner decodes: in messages, and in values of properties.
_IN_MESSAGES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
# Characters that `printable` keeps although XML 1.0 forbids them, even as references.
_NOT_XML: Final = re.compile("[\ufffe\uffff]")


def workflow_command(level: str, lines: Sequence[str], properties: Mapping[str, object]) -> str:
    """Return the line that makes an annotation from lines of text, if a step of GitHub Actions prints it.

    The format is that of "Workflow commands for GitHub Actions"; the escaped characters are those of `@actions/core`.
    Properties that are None are left out.
    """
    given = ",".join(
        f"{name}={printable(str(value)).translate(_IN_PROPERTIES)}"
        for name, value in properties.items()
        if value is not None
    )
    message = "\n".join(map(printable, lines)).translate(_IN_MESSAGES)
    return f"::{level}{f' {given}' if given else ''}::{message}\n"


class Case(NamedTuple):
    """A test case: the thing that was judged."""

    group: str  # the name of the test class
    name: str
    text: str
    failure: str | None = None  # the kind of failure; None if the case passed
    is_skipped: bool = False  # whether it wasn't judged


def junit(suite: str, cases: Sequence[Case], output: str) -> str:
    """Return test cases as XML for readers of JUnit reports. The message of a failure is its text.

    suite   the name of the test suite
    output  what it printed
    """
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    numbers = {
        "tests": len(cases),
        "failures": sum(case.failure is not None for case in cases),
        "errors": 0,
        "skipped": sum(case.is_skipped for case in cases),
    }
    counts = {name: str(number) for name, number in numbers.items()}
    root = Element("testsuites", {"name": suite, **counts})
    parent = SubElement(root, "testsuite", {"name": suite, **counts})
    for case in cases:
        names = {"classname": _legal(case.group), "name": _legal(case.name)}
        element = SubElement(parent, "testcase", names)
        text = _legal(case.text)
        if case.failure is not None:
            SubElement(element, "failure", {"message": text, "type": _legal(case.failure)}).text = text
        elif case.is_skipped:
            SubElement(element, "skipped", {"message": text})
        else:
            SubElement(element, "system-out").text = text
    SubElement(parent, "system-out").text = "\n".join(map(_legal, output.splitlines()))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _legal(text: str) -> str:
    """Return a text without characters that XML can't contain."""
    return _NOT_XML.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))
