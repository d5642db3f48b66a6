"""The process that answers calls of tools, one after the other: requests and answers are JSON."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Final

from etq.errors import EtqError
from etq.mcp.answers import TOOLS
from etq.mcp.limits import fitted
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
        return {"result": fitted(TOOLS[request["tool"]](request["settings"], **request["arguments"]))}
    except EtqError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "not enough memory"}
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return {"error": f"an error of etq itself ({type(error).__name__}); the server's log has it"}


if __name__ == "__main__":
    main()
