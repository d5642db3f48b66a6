"""Commands of etq that the server runs in processes of their own: memory that they take ends with them."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE

from etq.processes import command, environment


async def ran(*arguments: str, seconds: float) -> tuple[int, str]:
    """Run `etq` with arguments; return its status and what it said on standard error.

    Raises `TimeoutError` after so many seconds. A command that takes longer, or for which nobody waits, is killed.
    """
    process = await asyncio.create_subprocess_exec(
        *command("etq", *arguments), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE,
        env=environment(MALLOC_ARENA_MAX="2"), start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode(errors="replace").strip()
