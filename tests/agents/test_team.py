"""A team's warehouse, asked by an agent that knows nothing but what tools answer: it finds the slower op and build."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from tests import team
from tests.agents.conftest import Agent, command, http_server, rows_of
from tests.conftest import CAPTURES

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("team") / "lab.duckdb"
    team.make(path)
    return str(path)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_agent_finds_the_planted_slowdown(path: str, transport: str) -> None:
    from anyio.from_thread import start_blocking_portal
    from mcp import Client, StdioServerParameters

    with ExitStack() as stack:
        if transport == "stdio":
            program, *arguments = command(path)
            server: Any = StdioServerParameters(command=program, args=arguments, cwd=str(CAPTURES.parents[1]))
            client = Client(server, mode="auto")
        else:
            client = Client(stack.enter_context(http_server(path)))
        portal = stack.enter_context(start_blocking_portal())
        agent = Agent(portal, stack.enter_context(portal.wrap_async_context_manager(client)))
        listed = agent.call("list_captures", limit=1)
        assert listed["total"] == 2000 and "build" in listed["labels"]
        found = agent.call("regressions")
        [worst] = rows_of(found["regressions"])
        assert (worst["series"], worst["first_bad"]) == (
            f"device={team.SLOW_DEVICE},model={team.SLOW_MODEL}",
            str(team.SLOW_FROM),
        )
        [call] = found["next"]
        compared = agent.call(call["tool"], **call["arguments"])
        [slower] = [op for op in rows_of(compared["ops"]) if op["verdict"] == "slower"]
        assert (slower["op"], slower["instruction_id"]) == (worst["op"], worst["instruction_id"])
        assert (slower["op"], slower["instruction_id"]) == ("addmm", team.SLOWER_INSTRUCTION)
        # What is planted is within the interval, of the comparison and of the other estimate.
        assert slower["low_percent"] < 100 * (team.SLOWER - 1) < slower["high_percent"]
        assert any("1 op is slower: addmm @4" in verdict for verdict in compared["verdicts"])
        # An error names the way on, too.
        error = agent.error(call["tool"], base="build=30,devise=pixel9", new=call["arguments"]["new"])
        assert error["next"][0]["tool"] == "list_captures"
