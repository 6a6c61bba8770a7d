"""What is in no name is known; what is in one is never denied."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from bus.memory import MemoryBus
from dashboard.core.states.models import NameRun
from dashboard.core.states.name_search import add_runs, in_no_name, runs_of
from dashboard.core.states.queries import find
from dashboard.serve.materialiser.worker import Materialiser
from domain.records import Report
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob

SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml")

ANY_NAME = st.text(min_size=1, max_size=8)


@given(ANY_NAME, st.data())
def test_every_short_part_of_a_name_in_either_case_is_a_run(name: str, data: st.DataObject):
    begin = data.draw(st.integers(0, len(name) - 1))
    part = name[begin : begin + data.draw(st.integers(1, 2))]
    for text in (part, part.lower(), part.upper()):
        if text.isascii() and len(text.upper()) <= 2:
            assert text.upper() in runs_of([name])


@given(st.lists(ANY_NAME))
def test_however_many_names_there_are_their_runs_are_few(names: list[str]):
    assert all(len(run) <= 2 and run.isascii() and run == run.upper() for run in runs_of(names))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "expected"),
    [("zq", True), ("ZQ", True), ("q", True), ("Te", False), (".e", False), ("x", False),
     ("", False), ("tes", False), ("zqq", False), ("ßq", False)],
)  # fmt: skip
def test_what_is_in_no_name(text: str, expected: bool):
    add_runs(["site-1.example", "test"])
    assert in_no_name(text) is expected


@pytest.mark.django_db
def test_where_no_name_was_noted_nothing_is_known():
    assert not in_no_name("zq")


@pytest.mark.django_db
def test_the_materialiser_notes_new_names_and_the_board_is_not_scanned_for_others():
    clock = itertools.count(1_790_000_000_000, 1000)
    job = PlayedJob(MemoryBus(lambda: next(clock)), SCENARIOS.values())
    for name in ("shop-1.example", "shop-2.example"):
        job.put("attack", Report(name, "waf-1", "under-attack"))
    job.run()
    worker = Materialiser(job.bus, job.topics, SCENARIOS, lambda: 1_790_000_000_000)
    while worker.step():
        pass
    worker.close()
    assert NameRun.objects.filter(run="OP").exists()
    assert find("attack", q="op").total == 2
    with CaptureQueriesContext(connection) as made:
        assert find("attack", q="zq").total == 0
    assert not any("states_assetstate" in query["sql"] for query in made.captured_queries)
