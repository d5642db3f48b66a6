"""The documentation's site makes no network request: its build fails if a page, script or style sheet names one."""

from __future__ import annotations

from pathlib import Path

from docs.site import offline


def test_what_fetches_from_another_host() -> None:
    for text in (
        '<script src="https://unpkg.com/mermaid@11/dist/mermaid.min.js"></script>',
        '<img alt="" src="https://img.shields.io/x.svg">',
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css?family=Roboto">',
        "@import url('https://example.com/x.css')",
        'load("https://unpkg.com/resize-observer-polyfill")',
    ):
        assert len(offline.remote_parts(f"before {text} after")) == 1, text
    for text in (
        '<a href="https://pytorch.org/x.js.html">PyTorch</a>',
        '<link rel="canonical" href="https://example.com/">',
        '<svg xmlns="http://www.w3.org/2000/svg"/>',
        "// as in https://github.com/nodejs/node/blob/main/lib/path.js#L56",
    ):
        assert offline.remote_parts(text) == []


def test_a_build_empties_the_addresses_of_the_theme_and_fails_on_others(tmp_path: Path) -> None:
    script = tmp_path / "bundle.js"
    script.write_text('return load("https://unpkg.com/mermaid@11/dist/mermaid.min.js")')
    assert offline.take_offline(tmp_path) == []
    assert script.read_text() == 'return load("")'
    script.write_text('load("https://example.com/x.js")')
    assert offline.take_offline(tmp_path) == ['bundle.js: fetches from another host: "https://example.com/x.js"']
