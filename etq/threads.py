"""Threads for one kind of work: however long it takes, other kinds don't wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Threads:
    """Up to `most` threads, which are started when they are needed."""

    def __init__(self, name: str, most: int) -> None:
        self._executor = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, function: Callable[Given, Found], /, *args: Given.args, **named: Given.kwargs) -> Found:
        """Return what a function returns, which runs in a thread, as `asyncio.to_thread` does."""
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: context.run(function, *args, **named)
        )
