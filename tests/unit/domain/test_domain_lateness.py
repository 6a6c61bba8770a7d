"""Late reports, counted by agent, since they were last told."""

from __future__ import annotations

from domain.lateness import MAX_AGENTS, Lateness, LatenessCounts


def test_reports_are_counted_by_agent_and_kind():
    counts = LatenessCounts()
    counts.add("w2", "stale", 9000)
    counts.add("w1", "late")
    counts.add("w1", "silent", 700)
    counts.add("w1", "rare")
    counts.add("w2", "doubtful", ahead=400_000)
    counts.add("w2", "refused")
    counts.add("w2", "detail")
    counts.add("w1", "forwarded")
    assert counts.rows() == [
        ("w1", 0, 1, 1, 1, 700, 0, 0, 0, 0, 1),
        ("w2", 1, 0, 0, 0, 9000, 1, 1, 1, 400_000, 0),
    ]
    assert [counts.total(kind) for kind in ("stale", "late", "silent", "rare")] == [1, 1, 1, 1]


def test_the_age_is_the_least_of_those_stale_and_silent():
    counts = LatenessCounts()
    counts.add("w1", "late", 1)
    counts.add("w1", "stale", 900)
    counts.add("w1", "silent", 500)
    counts.add("w1", "rare", 2)
    counts.add("w1", "stale", 800)
    assert list(counts.by_agent.values()) == [Lateness("w1", 2, 1, 1, 1, 500)]


def test_so_far_ahead_is_the_least_of_those_too_far():
    counts = LatenessCounts()
    for ahead in (400_000, 301_000, 0):
        counts.add("w1", "doubtful", ahead=ahead)
    assert list(counts.by_agent.values()) == [Lateness("w1", doubtful=3, ahead=301_000)]


def test_so_many_agents_are_named_and_the_others_are_counted_together():
    counts = LatenessCounts()
    for number in range(MAX_AGENTS + 3):
        counts.add(f"w{number}", "late")
    counts.add("w0", "late")
    rows = {agent: late for agent, _, late, *_ in counts.rows()}
    assert len(rows) == MAX_AGENTS + 1
    assert (rows["w0"], rows["w1"], rows[""]) == (2, 1, 3)


def test_they_go_on_from_what_was_kept_and_begin_anew_once_told():
    counts = LatenessCounts([Lateness("w1", late=2)])
    counts.add("w1", "late")
    assert counts.total("late") == 3
    counts.clear()
    assert counts.rows() == []
