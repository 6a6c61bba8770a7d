"""What a state is doubted of: as it is kept, counted, ordered and asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bus.base import ConsumerRecord
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.states import queries
from dashboard.core.states.board_rows import VOTES_SHOWN, cause_text, order_of, row_of
from dashboard.core.states.caveats import DOUBTS, LATER, LEAST_RANK, NAMED, rank_of, ranks_of
from dashboard.core.states.filter_parser import parse
from dashboard.core.states.rows import COLUMNS, read
from dashboard.core.states.rows import record_row as columns_of
from dashboard.serve.materialiser.worker import sort_out
from dashboard.serve.materialiser.writer import write
from dashboard.watch.filters import search
from domain.records import CAUSE_TYPES
from support.histories.state_records import Record, as_read, doubt, record, vote
from wire.sink import CauseValue, UnreadableState

NOW = 1_790_000_000_000


def columns(made: Record) -> dict[str, Any]:
    seen = read(made["asset"].encode(), msgspec.json.encode(made))
    return dict(zip(COLUMNS, columns_of(scenarios()["attack"], seen), strict=True))


def put(*made: Record) -> None:
    """Have these records materialised, each in a batch of its own."""
    topic = topics().states("attack")
    for offset, one in enumerate(made):
        message = ConsumerRecord(
            topic, 0, offset, 0, one["asset"].encode(), msgspec.json.encode(one), ()
        )
        write(sort_out([message], topics()), scenarios(), NOW)


# ---- a record as a row --------------------------------------------------------------------------


def test_what_a_record_says_of_its_doubts_is_kept():
    row = columns(
        record(
            unconfirmed=True,
            unconfirmed_reason="1 of 2 voters",
            disputed="under-attack",
            votes=[vote("waf-1", "under-attack", silent=7), vote("waf-2"), vote("waf-3", silent=8)],
            doubts=[doubt("waf-2"), doubt("waf-9", "unknown-state", "critical")],
        )
    )
    assert (row["unconfirmed"], row["unconfirmed_reason"]) == (True, "1 of 2 voters")
    assert (row["disputed"], row["silent"], row["doubt"]) == ("under-attack", 2, 2)
    assert (row["severity"], row["rank"]) == (2, 4)


def test_a_record_of_an_earlier_release_is_read():
    row = columns(record(unconfirmed=True, votes=[vote()]))
    assert (row["unconfirmed_reason"], row["disputed"], row["silent"]) == (None, None, None)
    assert (row["unconfirmed"], row["rank"], row["doubt"]) == (True, 5, None)


def test_an_agent_in_doubt_is_counted_once_and_one_that_counts_nothing_is_not():
    muted = {"until": None, "user": "olga"}
    votes = [
        vote(doubt="clock-ahead"),
        vote("waf-2", doubt="purged", muted=muted),
        vote("waf-3", weight=0),
    ]
    doubts = [doubt("waf-1"), doubt("waf-3", weight=0), doubt("waf-4", muted=muted, weight=0)]
    made = record(votes=votes, doubts=doubts)
    assert columns(made)["doubt"] == 1
    row = row_of(scenarios()["attack"], as_read(made))
    assert row["doubts"] == ["doubt"]
    assert row["doubt"]["why"] == ("waf-1 (clock 0 s ahead; contradicts itself: said Under attack)")
    assert [agent for agent, _ in row["doubt"]["of"]] == ["waf-1", "waf-3", "waf-2"]
    assert (row["doubt"]["voteless"], row["doubt"]["more"]) == ([], 0)
    none = record(votes=votes[1:], doubts=doubts[1:])
    assert columns(none)["doubt"] is None
    assert row_of(scenarios()["attack"], as_read(none))["doubt"]["why"] == ""


def test_agents_in_doubt_without_a_vote_have_marks_among_many_votes():
    votes = [vote(f"waf-{n:02}") for n in range(VOTES_SHOWN + 2)]
    doubts = [doubt(f"new-{n}", "unknown-state", "critical") for n in range(5)]
    row = row_of(scenarios()["attack"], as_read(record(votes=votes, doubts=doubts)))
    said = row["doubt"]
    assert said["voteless"] == [[f"new-{n}", "critical"] for n in range(3)]
    assert len(row["votes"]) + len(said["voteless"]) < VOTES_SHOWN
    assert (len(row["votes"]) + row["more_votes"], said["more"]) == (VOTES_SHOWN + 2, 2)
    assert said["why"].endswith("which this board does not know) and 1 more")


def test_a_pin_is_worse_beneath_only_where_nobody_says_worse_still():
    pin = {"state": "clear", "user": "olga", "until": None, "reason": "", "command": "",
           "since": 5, "underlying": "under-attack"}  # fmt: skip
    for disputed, beneath in ((None, "under-attack"), ("unreadable", None), ("critical", None)):
        row = row_of(scenarios()["attack"], as_read(record(override=pin, disputed=disputed)))
        assert row["beneath"] == beneath


def test_a_report_that_was_not_taken_says_so():
    scenario = scenarios()["attack"]
    row = row_of(scenario, as_read(record(offset=7, doubts=[doubt(offset=7)])))
    assert row["cause"] == "report of waf-1 not taken"
    row = row_of(scenario, as_read(record(offset=8, doubts=[doubt(offset=7)])))
    assert row["cause"] == "reported by waf-1"


def test_a_silent_vote_that_counts_for_nothing_raises_no_doubt():
    muted = {"until": None, "user": "olga"}
    votes = [vote(silent=7, weight=0), vote("waf-2", silent=7, muted=muted, weight=0)]
    assert columns(record(votes=votes))["silent"] is None
    assert row_of(scenarios()["attack"], as_read(record(votes=votes)))["doubts"] == []


def test_a_silent_agent_has_not_reported_of_late():
    votes = [vote("waf-1", time=50, silent=60), vote("waf-2", time=40), vote("user:o", time=45)]
    assert columns(record(votes=votes))["reported_at"] == 40
    assert columns(record(votes=votes[:1]))["reported_at"] is None


@pytest.mark.parametrize(
    "bad",
    [
        {"disputed": "a\0b"}, {"disputed": 7}, {"disputed": ""}, {"unconfirmed_reason": "a\0b"},
        {"unconfirmed_reason": "x" * 201}, {"votes": [vote(silent="long")]},
        {"votes": [vote(silent=-1)]},
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_unreadable(bad: dict[str, Any]):
    with pytest.raises(UnreadableState):
        columns(record(**bad))


def test_a_live_row_says_the_same():
    scenario = scenarios()["attack"]
    votes = [vote("b", "under-attack", silent=7), vote("c"), vote("a", "suspicious")]
    made = record(votes=votes, disputed="under-attack", unconfirmed=True, doubts=[doubt("a")])
    row = row_of(scenario, as_read(made))
    assert row["votes"] == [["a", "suspicious"], ["c", "clear"], ["b", "under-attack"]]
    assert row["silent"] == [["b", 7]]
    assert (row["disputed"], row["unconfirmed_reason"]) == ("under-attack", None)
    assert row["doubts"] == list(DOUBTS)
    assert order_of(row) == (LATER + 4, -5, "shop")


def test_a_silent_vote_that_is_not_shown_is_a_doubt_too():
    votes = [vote(f"waf-{n:02}") for n in range(VOTES_SHOWN)] + [vote("waf-99", silent=1)]
    row = row_of(scenarios()["attack"], as_read(record(votes=votes)))
    assert (row["silent"], row["doubts"], row["more_votes"]) == ([], ["silent"], 1)


def test_every_cause_has_words_with_and_without_an_agent():
    for kind in CAUSE_TYPES:
        for agent in (None, "waf-1", "user:olga"):
            words = cause_text(CauseValue(kind, 0, 0, 0, agent, "ed"))
            assert kind == "reminder" or words != kind, kind
    assert cause_text(CauseValue("vote-expiry", 0, 0, 0)) == "several agents fell silent"
    assert "user:olga" in cause_text(CauseValue("vote-expiry", 0, 0, 0, "user:olga"))


# ---- its place ----------------------------------------------------------------------------------


def test_ranks_are_in_the_order_of_severity_and_dispute():
    ranks = [rank for severity in range(-1, 5) for rank in ranks_of(severity)]
    assert ranks == sorted(ranks)
    assert ranks[0] == LEAST_RANK == rank_of(-1, "clear")
    assert rank_of(1, None) > rank_of(1, "bad") > rank_of(0, None)


@pytest.mark.django_db
def test_a_disputed_row_stands_above_its_equals_and_an_unknown_state_above_all():
    put(
        record("calm", since=9, offset=1),
        record("pinned", disputed="under-attack", since=2, offset=2),
        record("attacked", "under-attack", since=1, offset=3),
        record("left behind", "no-more", since=1, offset=4),
        record("calm too", since=9, offset=5),
    )
    expected = ["left behind", "attacked", "pinned", "calm", "calm too"]
    records = queries.find("attack", limit=10).records
    assert [each.asset for each in records] == expected
    live = [row_of(scenarios()["attack"], each) for each in reversed(records)]
    assert [row["asset"] for row in sorted(live, key=order_of)] == expected
    assert [r.asset for r in queries.find("attack", ["no-more"]).records] == ["left behind"]
    assert queries.find("attack", q="e").total == 3


# ---- kept counts --------------------------------------------------------------------------------


@pytest.mark.django_db
def test_counts_follow_each_record():
    assert queries.doubt_counts("attack") == dict.fromkeys(DOUBTS, 0)
    put(
        record("a", disputed="under-attack", unconfirmed=True, doubts=[doubt()], offset=1),
        record("b", votes=[vote(silent=7)], offset=2),
        record("a", unconfirmed=True, offset=3),
        record("c", votes=[vote(doubt="purged")], offset=4),
    )
    expected = {"disputed": 0, "unconfirmed": 1, "silent": 1, "doubt": 1}
    assert queries.doubt_counts("attack") == expected
    put(record("a", unconfirmed=True, offset=3), record("a", unconfirmed=True, offset=2))
    assert queries.doubt_counts("attack") == expected
    assert queries.doubt_counts("orders")["silent"] == 0


# ---- filters ------------------------------------------------------------------------------------


def find(text: str) -> queries.BoardResult:
    scenario = scenarios()["attack"]
    wanted = parse(text, scenario, NOW)
    return search.find(scenario, (), wanted, NOW, after=None, limit=10, skip=())


@pytest.mark.django_db
@pytest.mark.parametrize("named", NAMED)
def test_a_doubt_is_asked_of_an_index_of_its_own(named):
    by_name: dict[str, dict[str, Any]] = {
        "disputed": {"disputed": "under-attack"},
        "unconfirmed": {"unconfirmed": True},
        "silent": {"votes": [vote(silent=7)]},
        "doubt": {"doubts": [doubt()]},
    }
    more = by_name[named.name]
    put(record("a", offset=1), record("b", offset=2, **more))
    with CaptureQueriesContext(connection) as captured:
        page = find(named.term)
    assert ([each.asset for each in page.records], page.total) == (["b"], 1)
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + captured.captured_queries[0]["sql"])
        (plan,) = (detail for *_, detail in cursor.fetchall())
    assert f"INDEX {named.name}_rows" in plan
    assert [each.asset for each in find(f"-{named.term}").records] == ["a"]


@pytest.mark.django_db
def test_a_doubt_of_many_walks_the_board(monkeypatch: pytest.MonkeyPatch):
    """No index of doubts is taken to sort a million rows by: the board's order is walked."""
    monkeypatch.setattr(search, "COUNTED", 3)
    put(*(record(f"a{n}", unconfirmed=n % 5 != 0, offset=n + 1) for n in range(20)))
    with CaptureQueriesContext(connection) as captured:
        page = find("is:unconfirmed")
    assert len(page.records) == 10
    with connection.cursor() as cursor:
        plans = []
        for query in captured.captured_queries[1:]:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            plans.append(" | ".join(detail for *_, detail in cursor.fetchall()))
    assert any("USING INDEX board_order" in plan for plan in plans)
    assert not any("_rows" in plan or "TEMP B-TREE" in plan for plan in plans)
