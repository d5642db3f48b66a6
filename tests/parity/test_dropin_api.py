"""The drop-in Inspector has the API of executorch's: every public name, with the same parameters.

`record_api.py` recorded `inspector_api.json` in an environment with executorch.
"""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import EtqError, inspector
from etq.inspector import Event, Inspector, comparators
from tests.conftest import CAPTURES
from tests.parity.record_api import class_api, parameters

API: dict[str, Any] = json.loads((Path(__file__).parent / "inspector_api.json").read_text())
# How a comparator uses the Inspector's tables is not tested here.
LEFT_OUT = {"compare"}
# Their default is the standard output at import; the default here is that at the call.
DEFAULTS = {"<<stdout>>": None}


def assert_same_parameters(ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    """The same parameters in the same order. Additional ones are keyword-only and have a default."""
    expected = [[name, kind, DEFAULTS.get(str(default), default)] for name, kind, default in theirs]
    assert ours[: len(expected)] == expected
    for name, kind, default in ours[len(expected) :]:
        assert (kind, default != "(required)") == ("KEYWORD_ONLY", True), name


def test_every_public_name_is_there_with_its_parameters() -> None:
    made = Inspector(CAPTURES / "mlp/mlp.etdp")
    for name, theirs in API.items():
        described = getattr(inspector, name, None) or getattr(comparators, name)
        if "parameters" in theirs:
            assert_same_parameters(parameters(described), theirs["parameters"])
        if "values" in theirs:
            assert class_api(described)["values"] == theirs["values"]
        ours = class_api(described)["names"] if "names" in theirs else {}
        for member, expected in theirs.get("names", {}).items():
            if expected == "attribute":
                assert member in ours or (name == "Inspector" and hasattr(made, member)), member
            elif member not in LEFT_OUT:
                assert_same_parameters(ours[member], expected)
    assert etq.Inspector is Inspector
    assert set(inspector.__all__) >= {name for name in API if hasattr(inspector, name)}


def test_the_documented_program_needs_executorch() -> None:
    made = Inspector(CAPTURES / "mlp/mlp.etdp", etrecord=str(CAPTURES / "mlp/mlp.etrecord"))
    if find_spec("executorch") is None:
        with pytest.raises(EtqError, match="pip install torch executorch"):
            made.get_exported_program()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what executorch's own imports warn of
            assert "aten" in str(made.get_exported_program())
    assert Inspector(CAPTURES / "mlp/mlp.etdp").get_exported_program() is None


@pytest.mark.parametrize("asked_first", ["op_types", "module_hierarchy", None])
def test_events_are_as_if_their_symbols_had_been_read_at_once(asked_first: str | None) -> None:
    """They are read when the first is asked for; what the user sets stays; copies have them."""
    given: dict[str, Any] = {"etdump_path": CAPTURES / "mlp/mlp.etdp", "etrecord": str(CAPTURES / "mlp/mlp.etrecord")}
    frame = Inspector(**given).to_dataframe()
    names = ["op_types", "stack_traces", "module_hierarchy", "delegate_backend_name"]
    expected = list(zip(*(frame[name] for name in names), strict=True))
    events = [event for block in Inspector(**given).event_blocks for event in block.events]
    events[0].op_types = ["mine"]
    expected[0] = (["mine"], *expected[0][1:])
    if asked_first is not None:
        getattr(events[0], asked_first)
    copies = pickle.loads(pickle.dumps(events))
    for found in (events, copies):
        assert [tuple(getattr(event, name) for name in names) for event in found] == expected
    assert any(event.op_types not in ([], ["mine"]) for event in events) and copies == events
    written = Event(**{each.name: getattr(events[1], each.name) for each in fields(Event)})
    assert written == events[1] and events[1] == written and written != events[2]
