"""What of selenium tests use. Modules that import it from here are skipped where it isn't installed."""

from __future__ import annotations

import pytest

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

__all__ = ("ActionChains", "By", "Keys", "TimeoutException", "WebDriver", "WebDriverWait")
