"""Record what executorch's Inspector offers: public names, signatures and attributes, for `test_dropin_api`.

Run in an environment with executorch 1.4.1, and no etq, from the root:

    ENV/bin/python tests/parity/record_api.py tests/captures/mlp/mlp.etdp > tests/parity/inspector_api.json
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import sys
from typing import Any


def default(value: Any) -> Any:
    """A default as JSON, or as a text that is the same in another process if JSON has no such value."""
    if value is inspect.Parameter.empty:
        return "(required)"
    if isinstance(value, enum.Enum):
        return value.value
    if type(value).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
        return "(made)"
    return value if isinstance(value, str | int | float | type(None)) else f"<{getattr(value, 'name', value)}>"


def parameters(function: Any) -> list[list[Any]]:
    """Name, kind and default of each parameter."""
    found = inspect.signature(function).parameters.values()
    return [[each.name, each.kind.name, default(each.default)] for each in found]


def class_api(described: type) -> dict[str, Any]:
    """The public names of a class, with the parameters of its callables."""
    if issubclass(described, enum.Enum):
        return {"values": {each.name: each.value for each in described}}
    names: dict[str, Any] = {"__init__": parameters(described.__init__)}
    for name in dir(described):
        member = inspect.getattr_static(described, name)
        if not name.startswith("_"):
            is_called = isinstance(member, staticmethod | classmethod) or inspect.isfunction(member)
            names[name] = parameters(getattr(described, name)) if is_called else "attribute"
    if dataclasses.is_dataclass(described):
        names |= {each.name: "attribute" for each in dataclasses.fields(described) if each.name[0] != "_"}
    return {"names": names}


def main() -> None:
    from executorch.devtools import inspector
    from executorch.devtools.inspector import numerical_comparator

    api: dict[str, Any] = {}
    for module, names in ((inspector, inspector.__all__), (numerical_comparator, numerical_comparator.__all__)):
        for name in names:
            found = getattr(module, name)
            if inspect.isclass(found):
                api[name] = class_api(found)
            else:
                api[name] = {"parameters": parameters(found)} if inspect.isfunction(found) else {}
    made = inspector.Inspector(etdump_path=sys.argv[1])
    api["Inspector"]["names"] |= {name: "attribute" for name in vars(made) if not name.startswith("_")}
    data = made.event_blocks[0].events[0].perf_data
    api["PerfData"]["names"] |= {name: "attribute" for name in vars(data) if not name.startswith("_")}
    json.dump(api, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
