"""`causes`, `series` and `outliers` on fleets with planted faults: each is found by name, and nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from etq.analysis.causes import all_series, causes_of, compared_devices, judged
from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run
from tests.fleet_captures import COMMITS, DEVICES, FAULTS, OPS, START, Fault, fleet, ingest_fleet
from tests.job_traces import Faults, job
from tests.sampling import IS_WHOLE
from tests.sql.test_trends import capture
from tests.warehouses import empty_warehouse

# What is planted, as it is found: kind, title, series, and the op's change in percent.
PLANTED = {
    ("device", "pixel8-13: all ops", "model=mlp", 28),
    ("device", "pixel8-07: addmm", "model=mlp", 40),
    ("change", "permute_copy since commit 21c0ffeec0ff", "device=pixel8-01,model=transformer", 50),
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """The fleet with its faults; not to be written to."""
    with empty_warehouse() as warehouse:
        ingest_fleet(warehouse)
        yield warehouse


def asked(warehouse: Warehouse, query: str, **parameters: Any) -> list[dict[str, Any]]:
    names, rows = warehouse.rows(query, **parameters)
    return [dict(zip(names, row, strict=True)) for row in rows]


def found(warehouse: Warehouse, **options: Any) -> set[tuple[str, str, str, float]]:
    return {
        (row["kind"], row["title"], row["series"], row["change_percent"]) for row in causes_of(warehouse, **options)
    }


def are_planted(rows: set[tuple[str, str, str, float]]) -> bool:
    """Whether these are the planted faults, each within 2 percentage points; ingest counts the time outside of ops to
    totals, of which faults have no part.
    """
    left = {row[:3]: row[3] for row in rows}
    return left.keys() == {each[:3] for each in PLANTED} and all(abs(left[each[:3]] - each[3]) < 2 for each in PLANTED)


@pytest.mark.long
def test_each_planted_fault_is_a_cause_and_nothing_else(lab: Warehouse) -> None:
    assert are_planted(found(lab))
    assert found(lab, selector="model=lstm") == set()
    assert {row[1] for row in found(lab, selector="model=mlp,device!=pixel8-13")} == {"pixel8-07: addmm"}


@pytest.mark.long
def test_sides_are_those_that_were_compared(lab: Warehouse) -> None:
    for row in causes_of(lab):
        [total, *_] = asked(lab, "FROM compare_captures($base, $new)", base=row["base"], new=row["new"])
        assert total["verdict"] == "slower" and total["change_percent"] > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 10) if IS_WHOLE else [2])
def test_fleets_without_faults_have_no_cause(seed: int) -> None:
    for faults in ((), FAULTS) if IS_WHOLE else ((),):
        with empty_warehouse() as warehouse:
            ingest_fleet(warehouse, faults, seed)
            assert are_planted(found(warehouse)) if faults else found(warehouse) == set()


# Some devices: those with a fault, and others.
SOME: Final = tuple(f"pixel8-{number:02}" for number in (1, 2, 3, 4, 7, 13, 14, 15))


def of_models(models: Sequence[str], faults: tuple[Fault, ...] = FAULTS) -> list[Labelled]:
    """The captures of mlp on some devices, once for each model."""
    return [
        each._replace(labels={**each.labels, "model": model}, name=each.name.replace("mlp", model))
        for number, model in enumerate(models)
        for each in fleet(faults, 1 + number, "mlp", SOME)
    ]


def of_transformer(*faults: Fault) -> tuple[Labelled, ...]:
    return fleet(faults, 1, "transformer")


@pytest.fixture(scope="module")
def two_models() -> Iterator[Warehouse]:
    """The same captures of two models; not to be written to."""
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, of_models(["mlp", "other"]))
        yield warehouse


@pytest.fixture(scope="module")
def transformer() -> Iterator[Warehouse]:
    """A test may comment its change, and removes the comment."""
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, of_transformer(*FAULTS))
        yield warehouse


@pytest.mark.long
def test_a_device_that_is_slow_in_several_models_is_one_cause(two_models: Warehouse) -> None:
    rows = causes_of(two_models)
    assert [row["title"] for row in rows] == ["pixel8-13: all ops", "pixel8-07: addmm"]
    assert [row["number_of_series"] for row in rows] == [2, 2] and "and 1 other series" in rows[0]["detail"]
    assert [row["instances"] for row in rows] == [None, 8] and [row["captures"] for row in rows] == [8, 8]


@pytest.mark.long
def test_a_device_is_as_recent_as_its_captures_that_were_compared() -> None:
    latest = fleet((), 1, "lstm")[-1]
    latest = latest._replace(labels={**latest.labels, "device": "pixel8-07"}, captured_at=datetime(2027, 1, 1))
    captures = of_models(["mlp"])
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [*captures, latest])
        moments = {row["value"]: row["recorded_at"] for row in causes_of(warehouse)}
        assert moments["pixel8-07"] == max(
            each.captured_at for each in captures if each.captured_at and each.labels["device"] == "pixel8-07"
        )


@pytest.mark.long
def test_a_new_device_leaves_the_others_compared() -> None:
    """At the last commit, a device is measured for the first time: it has too few captures, and the others enough."""
    captures = of_models(["mlp"])
    new = captures[-1]._replace(name="new", labels={**captures[-1].labels, "device": "pixel9"})
    new = new._replace(content=fleet((), 9, "mlp", SOME)[-1].content)
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [*captures, new])
        assert [row["title"] for row in causes_of(warehouse)] == ["pixel8-13: all ops", "pixel8-07: addmm"]
        [group] = compared_devices(warehouse)
        assert (group["devices"], group["compared_devices"], group["reason"]) == (
            9, 8, "too few captures of the same builds: 1 of 9 devices"
        )  # fmt: skip


@pytest.mark.long
def test_a_change_is_not_taken_for_a_device() -> None:
    """Devices that were measured since the change only are slower than the others, and no cause."""
    change = (Fault("mlp", "softmax", 2, commit=COMMITS[38]),)
    captures = [
        each
        for each in of_models(["mlp"], change)
        if each.labels["device"] < "pixel8-11" or each.labels["commit"] >= COMMITS[38]
    ]
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        assert found(warehouse) == set()


@pytest.mark.long
def test_captures_that_nothing_orders_are_of_a_series_and_devices_are_compared() -> None:
    captures = [
        each._replace(labels={key: each.labels[key] for key in ("model", "device")}, captured_at=None)
        for each in of_models(["mlp"])
    ]
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        assert [row["title"] for row in causes_of(warehouse)] == ["pixel8-13: all ops", "pixel8-07: addmm"]
        rows = asked(warehouse, "FROM series()")
        assert {(row["verdict"], row["reason"], row["captures"]) for row in rows} == {
            ("not judged", "no label to order captures by", 4)
        }
        assert judged(rows, compared_devices(warehouse)) == (
            "0 of 8 series judged over time; not judged: 8 (no label to order captures by). "
            "Devices compared in 1 of 1 group of captures"
        )


@pytest.mark.long
def test_an_accepted_op_explains_its_total(transformer: Warehouse) -> None:
    """All views have the total's change as accepted, with the comment, until it is removed."""
    [before] = asked(transformer, "FROM series()")
    assert (before["verdict"], before["first_bad"], before["reason"]) == ("slower", COMMITS[20], None)
    number = transformer.comment(
        COMMITS[20], "wanted", "model=transformer", what="op", item="permute_copy", accepted=True
    )
    assert found(transformer) == set() and asked(transformer, "FROM regressions()") == []
    assert [row["verdict"] for row in asked(transformer, "FROM series()")] == ["~"]
    for query in ("trend() WHERE stage IS NOT NULL", "regressions(with_accepted := true) WHERE what = 'total'"):
        rows = asked(transformer, f"SELECT is_accepted, comment FROM {query}")
        assert rows == [{"is_accepted": True, "comment": "wanted"}]
    listed = causes_of(transformer, with_accepted=True)
    assert {(row["cause"], row["is_accepted"], row["comment"]) for row in listed} == {("permute_copy", True, "wanted")}
    transformer.remove_comment(number)
    assert [row["verdict"] for row in asked(transformer, "FROM series()")] == ["slower"]
    number = transformer.comment(COMMITS[20], "wanted", "model=transformer", accepted=True)
    assert [row["verdict"] for row in asked(transformer, "FROM series()")] == ["~"]
    transformer.remove_comment(number)


@pytest.mark.long
def test_a_change_after_an_accepted_op_is_measured_against_the_level_after_it() -> None:
    """softmax takes twice its time from the 31st commit on: 6 x 20 of the 492 + 24 us after the first change."""
    later = Fault("transformer", "softmax", 2, commit=COMMITS[30])
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, of_transformer(FAULTS[0], later))
        warehouse.comment(COMMITS[20], "wanted", "model=transformer", what="op", item="permute_copy", accepted=True)
        [series] = asked(warehouse, "FROM series()")
        assert (series["verdict"], series["first_bad"]) == ("slower", COMMITS[30])
        gaps = 24 * 0.3 + 0.7 + 1
        assert abs(series["change_percent"] - 100 * 120 / (492 + 24 + gaps)) < 1
        assert [row["title"] for row in causes_of(warehouse)] == ["softmax since commit 31c0ffeec0ff"]


@pytest.mark.long
def test_an_accepted_op_that_explains_less_than_half_leaves_its_total() -> None:
    """permute_copy takes 24 us more, bmm 120."""
    both = (FAULTS[0], Fault("transformer", "bmm", 1.4, commit=COMMITS[20]))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, of_transformer(*both))
        warehouse.comment(COMMITS[20], "wanted", "model=transformer", what="op", item="permute_copy", accepted=True)
        assert [row["verdict"] for row in asked(warehouse, "FROM series()")] == ["slower"]
        assert [row["cause"] for row in causes_of(warehouse)] == ["bmm"]
        warehouse.comment(COMMITS[20], "wanted, too", "model=transformer", what="op", item="bmm", accepted=True)
        [series] = asked(warehouse, "FROM series()")
        assert series["verdict"] == "~" and causes_of(warehouse) == []
        [row] = asked(warehouse, "SELECT comment FROM regressions(with_accepted := true) WHERE what = 'total'")
        assert row["comment"] == "wanted, too"


@pytest.mark.long
def test_an_accepted_op_of_one_method_explains_the_total_of_its_method() -> None:
    """b takes 3 us more in one method at build 10, and a 1 us more in the other: 3 of 4 of all methods together."""

    def content(build: int) -> bytes:
        more, less = (3000, 1000) if build >= 10 else (0, 0)
        noise = 7 * build % 20
        return dump(
            *(
                each
                for at in range(8)
                for each in (
                    run("prefill", kernel("a", 0, 7000 + at + noise), kernel("b", 7100, 10100 + more, 1),
                        execute(0, 10200 + more)),
                    run("decode", kernel("a", 0, 7000 + at + noise + less), execute(0, 7100 + less)),
                )
            )
        )  # fmt: skip

    captures = [Labelled(f"c{build}", content(build), {"model": "m", "build": str(build)}) for build in range(20)]
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        query = "SELECT op FROM regressions() WHERE what = 'total' ORDER BY op"
        assert [row["op"] for row in asked(warehouse, query)] == ["decode", "prefill"]
        warehouse.comment("10", "wanted", "model=m", what="op", item="b", accepted=True)
        assert [row["op"] for row in asked(warehouse, query)] == ["decode"]
        assert [row["verdict"] for row in asked(warehouse, "FROM series()")] == ["~"]


@pytest.mark.long
def test_captures_without_a_build_are_not_compared() -> None:
    """A device has captures without a build, in which it is slower: by a change, as far as anybody knows."""
    captures = of_models(["mlp"], ())
    unlabelled = [
        each._replace(labels={key: each.labels[key] for key in ("model", "device")}, name=f"later-{each.name}")
        for each in of_models(["mlp"], (Fault("mlp", None, 1.4),))
        if each.labels["device"] == DEVICES[1]
    ]
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [*captures, *unlabelled])
        assert found(warehouse) == set()


@pytest.mark.long
def test_devices_of_a_series_of_several_models_are_compared_by_model(two_models: Warehouse) -> None:
    rows = causes_of(two_models, by="device")
    assert [row["title"] for row in rows] == ["pixel8-13: all ops", "pixel8-07: addmm"]
    assert [(row["series"], row["number_of_series"], row["captures"]) for row in rows] == [("", 1, 8), ("", 1, 8)]
    for row in rows:
        assert row["new"] in (f"model=mlp,device={row['value']}", f"model=other,device={row['value']}")
    groups = compared_devices(two_models, by="device")
    assert [(row["model"], row["selector"]) for row in groups] == [("mlp", "model=mlp"), ("other", "model=other")]


def method_only(device: str, commit: str, time: int) -> Labelled:
    """A capture of mlp without events of ops."""
    labels = {"model": "mlp", "device": device, "commit": commit, "commit_time": fleet_time(commit)}
    content = dump(*(run("Execute", execute(0, time + at)) for at in range(12)))
    return Labelled(f"whole-{device}-{commit[:2]}", content, labels)


def fleet_time(commit: str) -> str:
    return (START + timedelta(days=COMMITS.index(commit))).isoformat() + "Z"


def kinds_of(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    names = ("profiling_level", "devices", "captures", "compared_devices", "compared_captures", "selector", "reason")
    return [tuple(row[name] for name in names) for row in compared_devices(warehouse)]


def test_the_most_frequent_reasons_are_named_and_the_others_counted() -> None:
    kinds = [("mlp", 4), ("cnn", 3), ("gpt", 2), ("rnn", 1), ("vit", 1)]
    groups = [
        {"model": model, "profiling_level": None, "steps": None, "clock": "time", "reason": "one build", "captures": 7,
         "devices": 2, "compared_devices": 0, "series": ""}
        for model, count in kinds for _ in range(count)
    ]  # fmt: skip
    assert judged([], groups).endswith(
        "Devices compared in 0 of 11 groups of captures; not compared: 4 (one build: mlp, 7 captures), "
        "3 (one build: cnn, 7 captures), 2 (one build: gpt, 7 captures) and 2 more"
    )


@pytest.mark.long
def test_a_capture_of_another_level_leaves_the_comparison_of_the_others() -> None:
    """It is said that its device isn't compared; no selector tells the others from it."""
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [*of_models(["mlp"]), method_only("pixel8-01", COMMITS[38], 900_000)])
        rows = causes_of(warehouse)
        assert [row["title"] for row in rows] == ["pixel8-13: all ops", "pixel8-07: addmm"]
        assert [(row["base"], row["new"], row["captures"]) for row in rows] == [(None, None, 4)] * 2
        assert kinds_of(warehouse) == [
            ("all", 8, 32, 8, 32, None, None), ("method_only", 1, 1, 0, 0, None, "one device")
        ]  # fmt: skip
        assert judged(all_series(warehouse), compared_devices(warehouse)).endswith(
            ". Devices compared in 1 of 2 groups of captures; not compared: 1 (one device: mlp level method_only, 1 capture)"
        )


@pytest.mark.long
def test_devices_are_compared_within_each_level() -> None:
    """At one level, ops of a device are slower; at the other, which has totals alone, another device."""
    whole = [
        method_only(device, commit, 300_000 + 300 * number + 31 * place + (150_000 if device == SOME[2] else 0))
        for number, device in enumerate(SOME)
        for place, commit in enumerate(COMMITS[36:])
    ]
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [*of_models(["mlp"], FAULTS[2:]), *whole])
        assert {row["title"] for row in causes_of(warehouse)} == {f"{SOME[2]}: all ops", "pixel8-07: addmm"}
        assert kinds_of(warehouse) == [("all", 8, 32, 8, 32, None, None), ("method_only", 8, 32, 8, 32, None, None)]


@pytest.mark.long
def test_devices_with_too_few_captures_are_told() -> None:
    """Of 8 devices, one has 2 captures; one capture of the others is of a build that isn't measured on all."""
    with empty_warehouse() as warehouse:
        captures = of_models(["mlp"], ())
        kept = [each for each in captures if each.labels["device"] != SOME[0] or each.labels["commit"] < COMMITS[38]]
        ingest_all(warehouse, kept)
        [group] = compared_devices(warehouse)
        assert (group["devices"], group["compared_devices"], group["captures"], group["compared_captures"]) == (
            8,
            7,
            30,
            28,
        )
        assert group["reason"] == "too few captures of the same builds: 1 of 8 devices"
        assert group["selector"] == f"model=mlp,device={'|'.join(SOME[1:])}"


@pytest.mark.long
def test_captures_whose_labels_others_have_too_are_compared() -> None:
    """Those without a backend: no selector chooses them alone, so there are no sides."""
    captures = of_models(["mlp"])
    others = [
        each._replace(labels={**each.labels, "backend": "xnn"}, name=f"xnn-{each.name}")
        for each in of_models(["other", "mlp"], ())
        if each.labels["model"] == "mlp"
    ]
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [*captures, *others])
        rows = causes_of(warehouse)
        assert [(row["title"], row["series"], row["new"]) for row in rows] == [
            ("pixel8-13: all ops", "model=mlp", None), ("pixel8-07: addmm", "model=mlp", None)
        ]  # fmt: skip
        assert {row["selector"] for row in compared_devices(warehouse)} == {None, "backend=xnn,model=mlp"}


def test_groups_that_are_not_compared_have_a_reason() -> None:
    """Builds by hand: of a, no build on two devices; of b, two builds on two; of c, three."""

    def content(time: int) -> bytes:
        return dump(*(run("Execute", kernel("a", 0, time + at), execute(0, 1100 + at)) for at in range(8)))

    builds = {
        "a": [("d1", "1"), ("d1", "2"), ("d2", "3"), ("d2", "4")],
        "b": [(device, build) for device in ("d1", "d2") for build in "12"],
        "c": [(device, build) for device in ("d1", "d2") for build in "123"],
        "d": [("d1", build) for build in "123"],
    }
    times = iter(range(900, 1000))
    with empty_warehouse() as warehouse:
        ingest_all(
            warehouse,
            [
                Labelled(
                    f"{model}-{device}-{build}",
                    content(next(times)),
                    {"model": model, "device": device, "build": build},
                )
                for model, pairs in builds.items()
                for device, build in pairs
            ],
        )
        found = {row["model"]: (row["compared_devices"], row["reason"]) for row in compared_devices(warehouse)}
        assert found == {
            "a": (0, "no build was measured on several devices"),
            "b": (0, "fewer than 2 devices have 3 captures of the same builds"),
            "c": (2, None),
            "d": (0, "one device"),
        }


@pytest.mark.long
def test_cycles_have_no_other_unit(two_models: Warehouse) -> None:
    two_models.connection.execute("BEGIN; UPDATE captures SET time_scale = 'cycles'")
    assert {row["unit"] for row in causes_of(two_models, unit="ms")} == {"cycles"}
    two_models.connection.execute("ROLLBACK")


@pytest.mark.long
def test_ops_of_several_methods_are_each_of_the_time_of_theirs() -> None:
    """An op that takes twice its time on one device, 3 of 10 parts of each of two methods."""

    def content(factor: float) -> bytes:
        return dump(
            *(
                run(
                    method,
                    kernel("a", 0, 7000 + at),
                    kernel("b", 7100, 7100 + round(factor * 3000), 1),
                    execute(0, 7200 + round(factor * 3000)),
                )
                for method in ("prefill", "decode")
                for at in range(8)
            )
        )

    captures = [
        Labelled(f"{device}-{build}", content((2 if device == "d1" else 1) + build / 1000 + number / 10000),
                 {"model": "m", "device": device, "build": str(build)})
        for number, device in enumerate(("d0", "d1", "d2", "d3", "d4"))
        for build in range(4)
    ]  # fmt: skip
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        [cause] = causes_of(warehouse)
        assert (cause["title"], cause["instances"], cause["captures"]) == ("d1: b", 2, 4)
        assert abs(cause["share_percent"] - 30) < 1


@pytest.mark.long
def test_what_is_found_about_a_job_is_a_cause() -> None:
    """A late rank, a link of two ranks that takes 3 times as long, and a clock that is 700 us behind, as planted."""
    planted = Faults(late=3, slow_pair=4, clock=6, ahead=-700)
    with empty_warehouse() as warehouse:
        made = job(1, planted)
        ranks = [Labelled(f"rank{rank}", content, {"job": "a,b"}) for rank, content in made.contents().items()]
        ingest_all(warehouse, ranks)
        late, link, clock = causes_of(warehouse)
        assert [each["title"] for each in (late, link, clock)] == ["rank 3", "link of ranks 4, 5", "clock of rank 6"]
        assert {each["series"] for each in (late, link, clock)} == {'job="a,b"'}
        assert late["kind"] == "rank" and warehouse.capture(late["new"]).name == "rank3"
        assert "take 3.0 times as long" in link["finding"] and "in 32 of 32 calls" in link["evidence"]
        lost = sum(made.transfers[4, 2]) - sum(sum(made.transfers[first, 2]) for first in (0, 2, 6)) / 3
        assert link["unit"] == "us" and abs(link["cost"] - lost) < 0.03 * lost
        assert "700 us behind the job's median" in clock["finding"] and clock["share_percent"] is None
        of_ranks = "SELECT list(m.name ORDER BY m.name) FROM _matching_captures($selector) AS m"
        assert warehouse.rows(of_ranks, selector=link["new"])[1] == [(["rank4", "rank5"],)]
        # Of some ranks, all that a finding names are named.
        [some] = causes_of(warehouse, selector='job="a,b",rank=5')
        assert (some["title"], some["captures"], some["new"]) == (link["title"], 2, link["new"])
        # The advice about a rank is that of its job, and follows the labels of its ranks.
        rules = "SELECT list(a.rule) FROM advice('rank4') AS a"
        assert "slow link" in warehouse.rows(rules)[1][0][0]
        for rank in (0, 1, 2, 3, 6, 7):
            warehouse.label(f"rank{rank}", job=None)
        assert "slow link" not in warehouse.rows(rules)[1][0][0] and causes_of(warehouse) == []


@pytest.mark.long
def test_noise_and_levels_of_series(lab: Warehouse) -> None:
    """The noise of builds, against the standard deviation of differences without the largest fifth, by hand."""
    [row] = asked(lab, "FROM series('model=lstm')")
    points = asked(lab, "FROM trend('total', NULL, 'model=lstm')")
    values = [point["normalized"] for point in points]
    assert (row["captures"], row["builds"], row["ordered_by"]) == (10, 10, "commit")
    assert (row["value"], row["least"], row["most"]) == (values[-1], min(values), max(values))
    assert row["noise_percent"] == points[0]["noise_percent"] and row["shown_percent"] == points[0]["shown_percent"]
    spread = 100 * statistics.stdev(values) / statistics.mean(values)
    assert spread / 2 < row["noise_percent"] < 2 * spread


@pytest.mark.long
def test_series_without_enough_builds_are_not_judged(lab: Warehouse) -> None:
    rows = asked(lab, "FROM series('model=mlp')")
    assert [(row["series"], row["verdict"], row["reason"], row["builds"]) for row in rows] == [
        (f"device={device},model=mlp", "not judged", "too few builds", 4) for device in DEVICES
    ]


# `outliers`: each device against all others


# The devices that are slower, with the factor of their ops.
SLOW = {"pixel8-13": ("all ops", 1.28), "pixel8-07": ("addmm", 1.4)}


@pytest.mark.long
def test_both_slow_devices_are_found_and_no_other(lab: Warehouse) -> None:
    rows = asked(lab, "FROM outliers('model=mlp')")
    assert {row["value"] for row in rows} == set(DEVICES) and len(rows) == 20
    assert {row["value"]: row["in_ops"] for row in rows if row["verdict"] != "~" or row["in_ops"]} == {
        device: where for device, (where, _) in SLOW.items()
    }
    total, addmm = (sum(time for op, time in OPS["mlp"] if of in (None, op)) for of in (None, "addmm"))
    outside = 1_000 + 700 + 300 * len(OPS["mlp"])
    factors = {"pixel8-13": total * 1.28, "pixel8-07": total + 0.4 * addmm}
    for row in rows[:2]:
        assert row["verdict"] == "slower" and row["captures"] == 4 and row["other_captures"] == 18 * 4
        expected = 100 * ((factors[row["value"]] + outside) / (total + outside) - 1)
        assert row["low_percent"] < expected < row["high_percent"]
    assert rows[0]["common_percent"] == pytest.approx(28, abs=1)


def test_the_ops_of_a_slow_device(lab: Warehouse) -> None:
    rows = asked(lab, "FROM outliers('model=mlp', what := 'op')")
    assert len(rows) == 20 * 4
    both = asked(lab, "FROM outliers('model=mlp', what := NULL)")
    assert [row for row in both if row["instances"] is not None] == rows
    assert [row for row in both if row["instances"] is None] == asked(lab, "FROM outliers('model=mlp')")
    [slower] = [row for row in rows if row["verdict"] in ("slower", "faster")]
    assert (slower["value"], slower["op"], slower["instances"], slower["slower_instances"]) == (
        "pixel8-07",
        "addmm",
        4,
        4,
    )
    assert slower["low_percent"] < 40 < slower["high_percent"]


@pytest.mark.long
def test_rows_are_those_of_comparisons(lab: Warehouse) -> None:
    """Each device with those that don't differ, and a twentieth of alpha."""
    others = "|".join(sorted(SLOW))
    rows = {row["value"]: row for row in asked(lab, "FROM outliers('model=mlp')")}
    for device in (*SLOW, "pixel8-01", "pixel8-20"):
        [compared] = asked(
            lab,
            "FROM compare_captures($base, $new, alpha := 0.0025) WHERE what = 'total'",
            base=f"model=mlp,device!={device}|{others}",
            new=f"model=mlp,device={device}",
        )
        row, same = (
            rows[device],
            ("verdict", "change_percent", "low_percent", "high_percent", "base", "new", "unit", "note"),
        )
        assert {name: row[name] for name in same} == {name: compared[name] for name in same}
        assert row["q"] == pytest.approx(min(1, 20 * compared["p"]))


@pytest.mark.long
def test_a_device_with_another_condition_is_not_judged(warehouse: Warehouse) -> None:
    captures = fleet(FAULTS[1:2], 1, "mlp", DEVICES[9:14])
    ingest_all(warehouse, captures)
    for each in captures:
        warehouse.metric(each.name, "temperature", 60 if each.labels["device"] == "pixel8-13" else 30)
    verdicts = {row["value"]: row["verdict"] for row in asked(warehouse, "FROM outliers()")}
    assert verdicts.pop("pixel8-13") == "conditions differ" and set(verdicts.values()) <= {"~", "not decided"}
    [(verdict,)] = warehouse.rows("SELECT verdict FROM outliers(allow_mismatch := true) WHERE value = 'pixel8-13'")[1]
    assert verdict == "slower"


ERRORS = {
    "outliers()": "the captures are of 5 models, convnet, embedder, lstm, ...: choose one, as model=convnet",
    "outliers('model=mlp', by := 'soc')": "no capture of model=mlp has a label soc; labels are commit, commit_time, ",
    "outliers('model=lstm')": "all captures with a label device have device=pixel8-01: there is no other to compare",
    "outliers('model=mlp', what := 'module')": "what must be 'total' or 'op', not module",
    "outliers('model=x')": "no capture matches model=x: none has model=x",
    "outliers('model=mlp', alpha := 2)": "alpha must be",
}


@pytest.mark.long
@pytest.mark.parametrize("call", ERRORS)
def test_errors(lab: Warehouse, call: str) -> None:
    with pytest.raises(QueryError) as raised:
        lab.rows(f"FROM {call}")
    assert ERRORS[call] in str(raised.value)


def test_of_equal_series_the_first_is_named(warehouse: Warehouse) -> None:
    """The captures of three devices have the same times, apart from a mark: the order of rows decides nothing."""
    captures = []
    for device in "zyx":
        for build in range(16):
            length = (130_000 if build >= 8 else 100_000) + build * 7 % 16
            runs = [run("Load", kernel("mark", 0, ord(device)))]
            runs += [run("Execute", kernel("add", 0, length), execute(0, length)) for _ in range(3)]
            captures.append(Labelled(f"{device}{build}", dump(*runs), {"device": device, "build": str(build)}))
    ingest_all(warehouse, captures)
    for threads in (1, 8):
        warehouse.connection.execute(f"SET threads = {threads}")
        [cause] = asked(warehouse, "FROM causes()")
        assert (cause["series"], cause["base"], cause["number_of_series"]) == ("device=x", "device=x,build<8", 3)


@pytest.mark.long
def test_small_steps_are_named_by_both_ends_and_explained_by_ops(warehouse: Warehouse) -> None:
    """In series a, an op grows with each build; in b, it has three steps, which together look like growth of the total,
    whose steps are too small.
    """
    captures = []
    for build in range(36):
        for model, factor in (("a", 1.012**build), ("b", 1.06 ** (build // 9))):
            content = capture(1000 * (model == "b") + build, {"add": factor}, runs=3)
            captures.append(Labelled(f"{model}{build}", content, {"model": model, "build": str(100 + build)}))
    ingest_all(warehouse, captures)
    assert ("b", "creep") in warehouse.rows("SELECT series[7:], kind FROM regressions() WHERE what = 'total'")[1]
    rows = {(row["series"], row["title"]): row for row in causes_of(warehouse)}
    growth, *_ = found = [("model=a", "add in small steps, build 100 to 135")]
    assert set(rows) == {*found, *(("model=b", f"add since build {build}") for build in (109, 118, 127))}
    assert rows[growth]["kind"] == "creep" and rows[growth]["detail"].endswith("; 36 captures")
    ends = ("kind", "last_good", "first_bad", "verdict")
    rows_of_series = {row["series"]: row for row in all_series(warehouse)}
    assert [rows_of_series["model=a"][name] for name in ends] == ["creep", "100", "135", "slower"]
