"""What is compared at a change: the captures before and after it, up to the next changes of the same item."""

from __future__ import annotations

from typing import Any

import pytest

from etq.analysis.series import sides_of


def change(first_bad: str, **more: Any) -> dict[str, Any]:
    return {"series": "model=net", "what": "op", "op": "addmm", "kind": "step", "first_bad": first_bad, **more}


def test_neighbouring_changes_of_the_same_item_bound_the_sides() -> None:
    changes = [change("20"), change("9"), change("100"), change("15", op="mul"), change("18", kind="creep")]
    assert sides_of(changes, 0, "build") == ("model=net,build>=9,build<20", "model=net,build>=20,build<100")
    assert sides_of(changes, 1, "build") == ("model=net,build<9", "model=net,build>=9,build<20")
    assert sides_of(changes, 3, "build", "device=a,model=net") == (
        "device=a,model=net,build<15",
        "device=a,model=net,build>=15",
    )
    assert sides_of(changes, 4, "build") is None


@pytest.mark.parametrize("label", ["v1.2", "0a1b"])
def test_labels_without_an_order_of_selectors_have_none(label: str) -> None:
    assert sides_of([change(label)], 0, "commit") is None
    assert sides_of([change("2026-11-01 08:00:00")], 0, "captured_at") is not None
