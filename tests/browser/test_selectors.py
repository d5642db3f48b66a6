"""Selectors that pages write are those that Python writes, which `tests/sql/test_selectors.py` reads back."""

from __future__ import annotations

import pytest
from hypothesis import given

import etq
from etq.selectors import selector_of
from tests.browser.driver import WebDriver
from tests.browser.served import visit
from tests.sampling import examples
from tests.serve.server import serving
from tests.sql.test_selectors import WRITTEN


@pytest.mark.long
def test_pages_write_selectors_as_python_does(browser: WebDriver, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("selectors") / "lab.duckdb"
    with etq.open(path):
        pass

    @examples(200, few=33)
    @given(labels=WRITTEN)
    def check(labels: dict[str, str]) -> None:
        written = browser.execute_script("return etq.selectorOf(arguments[0])", [*labels.items()])
        assert written == selector_of(labels)

    with serving(path) as server:
        visit(browser, server, "/captures")
        check()
