"""The process that answers calls of tools, one after the other: requests and answers are JSON."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Final

from etq.errors import EtqError
from etq.mcp.answers import TOOLS, Settings
from etq.mcp.limits import MOST_AT_FIRST, MOST_CHARACTERS, fitted
from etq.processes import requests

# Memory that the process may allocate, in bytes: what a file is unpacked to has no limit of its own.
MOST_MEMORY: Final = 4 * 2**30


def main(most_memory: int = MOST_MEMORY) -> None:
    """Answer requests until there are no more."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most_memory, most_memory))
    for request, reply in requests():
        reply(json.dumps(answer(json.loads(request))).encode())


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call, which fits into the limits, or the text of its error."""
    try:
        return {"result": _result(request["tool"], request["settings"], request["arguments"])}
    except EtqError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "not enough memory"}
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return {"error": f"an internal error ({type(error).__name__}); the server's log has it"}


def _result(tool: str, settings: Settings, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a result: a short one, unless the call says how much it wants."""
    # JSON's 2.0 is an integer of a schema, too.
    arguments = {name: int(value) if isinstance(value, float) else value for name, value in arguments.items()}
    is_short = tool not in ("ask", "describe") and "limit" not in arguments
    result = fitted(TOOLS[tool](settings, **arguments), MOST_AT_FIRST if is_short else MOST_CHARACTERS)
    shown = len(result["captures"]["rows"]) if tool == "list_captures" else 0
    if shown and (after := result["offset"] + shown) < result["total"]:
        result["next"] = [{"tool": tool, "arguments": {**arguments, "offset": after}}]
    return result


if __name__ == "__main__":
    main()
