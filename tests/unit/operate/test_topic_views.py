"""Views: what a copy holds, when it answers, and what it prints, over a bus in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from agents.demo.tills import prices
from bus.base import ConsumerRecord, TopicSpec, Unavailable
from bus.follower import Follower
from bus.memory import MemoryBus
from dashboard.operate.console import topic_copies, topics
from dashboard.operate.console.management.commands.view import Printout
from dashboard.operate.console.topic_copies import ViewTailer
from dashboard.operate.console.topic_table import TopicRow, TopicRowFilter, ViewTable
from dashboard.operate.console.topics import (
    MOST_VIEWS,
    BadExpression,
    TopicView,
    ViewError,
    expression,
    is_empty,
    load_views,
    printed,
    shown,
)
from support.run.stack import ROOT, wait_until

TOPIC = "orders.states"
VIEW = TopicView("orders", TOPIC, "Orders")
NOW = 1_790_000_000_000


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    monkeypatch.setattr(topic_copies, "LOOK_S", 0)
    monkeypatch.setattr(topic_copies, "WAIT_S", 0)
    return MemoryBus(lambda: time.time_ns() // 1_000_000)


def make(bus: MemoryBus, partitions: int = 2) -> None:
    bus.ensure_topics([TopicSpec(TOPIC, partitions, {})])


def send(bus: MemoryBus, *contents: tuple[bytes | None, bytes | None]) -> None:
    for key, value in contents:
        bus.producer().send_and_wait(TOPIC, key, value)


def follow(bus: MemoryBus, view: TopicView = VIEW) -> tuple[ViewTable, ViewTailer]:
    table = ViewTable(view)
    return table, ViewTailer(bus, [table], lambda: NOW)


def step(tailer: ViewTailer, times: int = 3) -> None:
    """Once to look at the topic, once to read it, once more for what that led to."""
    for _ in range(times):
        tailer.step()


def rows(table: ViewTable, wanted: TopicRowFilter = TopicRowFilter()) -> dict[bytes, bytes]:  # noqa: B008
    return {row.key: row.value for row in table.page(wanted.test(), 1000).rows}


def rebuilt(bus: MemoryBus, view: TopicView = VIEW) -> dict[bytes, bytes]:
    table, tailer = follow(bus, view)
    step(tailer)
    assert table.state().status == "ready"
    return rows(table)


# ---- what a copy holds ------------------------------------------------------------------------


def test_a_later_record_replaces_an_earlier_one_and_null_deletes(bus):
    make(bus)
    table, tailer = follow(bus)
    send(bus, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b""))
    step(tailer)
    assert rows(table) == {b"a": b"2", b"c": b""}
    assert table.row(b"b") is None


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([b"a", b"b", b"c"]),
        st.none() | st.binary(max_size=3),
        st.integers(0, 5),
    ),
    max_size=40,
)


def messages(records: Iterable[tuple[int, bytes, bytes | None, int]]) -> list[ConsumerRecord]:
    """Records of three partitions, each with offsets of its own, at times that rise in it."""
    offsets, times, log = [0, 0, 0], [0, 0, 0], []
    for partition, key, value, pause in records:
        times[partition] += pause
        at = (offsets[partition], times[partition])
        log.append(ConsumerRecord(TOPIC, partition, *at, key, value, ()))
        offsets[partition] += 1
    return log


def compacted(log: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """What compaction leaves: the newest record of each key, not of those that were deleted."""
    newest = {(message.partition, message.key): message for message in log}
    return [m for m in log if newest[m.partition, m.key] is m and m.value is not None]


def table_of(log: list[ConsumerRecord]) -> dict[bytes, TopicRow]:
    table = ViewTable(VIEW)
    table.begin({0: (0, 100), 1: (0, 100), 2: (0, 100)}, NOW)
    table.apply(log)
    return {row.key: row for row in table.page(TopicRowFilter().test(), 1000).rows}


@given(RECORDS)
def test_a_copy_of_the_compacted_log_read_in_another_order_equals_the_live_one(records):
    log = messages(records)
    live = table_of(log)
    by_partition = sorted(compacted(log), key=lambda message: -message.partition)
    assert table_of(by_partition) == live


@given(RECORDS, st.integers(0, 8))
def test_rows_whose_record_the_log_has_deleted_leave_as_a_rebuilt_copy_lacks_them(records, begin):
    log, table = messages(records), ViewTable(VIEW)
    table.begin({0: (0, 100), 1: (0, 100), 2: (0, 100)}, NOW)
    table.apply(log)
    table.update_edges({0: (begin, 100), 1: (0, 100), 2: (0, 100)}, NOW)
    left = [m for m in log if m.partition or m.offset >= begin]
    assert {row.key: row for row in table.page(TopicRowFilter().test(), 1000).rows} == table_of(
        left
    )


@given(RECORDS)
def test_what_a_copy_counts_is_what_it_holds(records):
    table = ViewTable(VIEW)
    table.begin({0: (0, 100), 1: (0, 100), 2: (0, 100)}, NOW)
    changes = table.apply(messages(records))
    held = {row.key: row for row in table.page(TopicRowFilter().test(), 1000).rows}
    assert table.state().records == len(held)
    followed: dict[bytes, TopicRow] = {}
    for key, before, after in changes:
        assert followed.get(key) == before
        followed.pop(key, None)
        if after is not None:
            followed[key] = after
    assert followed == held
    table.apply(
        ConsumerRecord(TOPIC, n, 100, 9, key, None, ())
        for n in range(3)
        for key in (b"a", b"b", b"c")
    )
    assert (table.state().records, table.state().size) == (0, 0)


def test_a_record_without_a_key_stands_in_no_table_and_is_counted(bus):
    make(bus, 1)
    table, tailer = follow(bus)
    send(bus, (None, b"1"), (b"a", b"1"))
    step(tailer)
    assert (rows(table), table.state().refused) == (
        {b"a": b"1"},
        {"no-key": 1, "other-key": 0},
    )


PRICES = TopicView("prices", TOPIC, "Prices", keys="product-*", drops_empty=True)


def test_keys_that_do_not_match_stand_in_no_table_and_are_counted(bus):
    make(bus)
    table, tailer = follow(bus, PRICES)
    send(bus, (b"product-1", b"1"), (b"a-product-1", b"1"), (b"\xff", b"1"), (b"product-", b"2"))
    step(tailer)
    assert rows(table) == {b"product-1": b"1", b"product-": b"2"}
    assert table.state().refused == {"no-key": 0, "other-key": 2}


def test_keys_that_match_no_regular_expression_stand_in_no_table_and_are_counted(bus):
    make(bus)
    view = TopicView("prices", TOPIC, "Prices", keys="*product*", matches="(a-)?product-[0-9]+")
    table, tailer = follow(bus, view)
    send(bus, (b"product-1", b"1"), (b"a-product-1", b"1"), (b"product-", b"1"))
    send(bus, (b"product-\xff", b"1"), (b"product-12\n", b"1"), (b"product-12", b"1"))
    step(tailer)
    assert set(rows(table)) == {b"product-1", b"a-product-1", b"product-12"}
    assert table.state().refused == {"no-key": 0, "other-key": 3}


def test_the_view_of_prices_has_each_product_with_a_price(bus):
    make(bus)
    send(bus, *prices())
    table, tailer = follow(bus, replace(load_views(ROOT / "views.toml")["prices"], topic=TOPIC))
    step(tailer)
    assert set(rows(table)) == {f"product-{number}".encode() for number in range(1, 41)}


@pytest.mark.parametrize("empty", [b"", b" null ", b'""', b"{ }", b"[]", None])
def test_an_empty_value_deletes_the_row_of_its_key(bus, empty):
    make(bus)
    table, tailer = follow(bus, PRICES)
    send(bus, (b"product-1", b"1"), (b"product-2", b"2"), (b"product-1", empty))
    step(tailer)
    assert rows(table) == {b"product-2": b"2"} == rebuilt(bus, PRICES)
    assert (table.state().records, table.row(b"product-1")) == (1, None)


@pytest.mark.parametrize("limits", [{"max_records": 3}, {"max_bytes": 1_300}])
def test_a_copy_that_would_be_too_large_holds_nothing_and_says_so(bus, limits):
    make(bus, 1)
    table, tailer = follow(bus, TopicView("orders", TOPIC, "Orders", **limits))
    send(bus, *((b"%d" % number, b"x" * 100) for number in range(3)))
    step(tailer)
    assert table.state().status == "ready"
    send(bus, (b"3", b"x" * 100), (b"4", b"x"))
    step(tailer)
    assert (table.state().status, rows(table)) == ("too-large", {})
    assert tailer._reader is not None
    assert tailer._reader.positions() == {}


def test_replacing_rows_does_not_make_a_copy_too_large(bus):
    make(bus, 1)
    table, tailer = follow(
        bus, TopicView("orders", TOPIC, "Orders", max_records=2, max_bytes=2_000)
    )
    send(bus, *((b"%d" % (number % 2), b"x" * 100) for number in range(50)))
    step(tailer)
    assert (table.state().status, table.state().records) == ("ready", 2)


# ---- when it answers --------------------------------------------------------------------------


def test_a_copy_is_ready_once_it_has_all_that_there_was(bus, monkeypatch):
    monkeypatch.setattr(topic_copies, "BATCH", 2)
    make(bus, 1)
    send(bus, *((b"%d" % number, b"x") for number in range(5)))
    table, tailer = follow(bus)
    assert ViewTable(VIEW).state().status == "not-followed"
    assert table.state().status == "catching-up"
    tailer.step()
    state = table.state()
    assert (state.status, state.read, state.total, state.as_of) == ("catching-up", 2, 5, None)
    step(tailer, 2)
    assert (table.state().status, table.state().as_of) == ("ready", NOW)


def test_a_topic_that_is_missing_is_told_and_taken_up_when_it_comes(bus):
    table, tailer = follow(bus)
    step(tailer)
    assert table.state().status == "topic-absent"
    make(bus)
    send(bus, (b"a", b"1"))
    step(tailer)
    assert (table.state().status, rows(table)) == ("ready", {b"a": b"1"})


@pytest.mark.parametrize("records", [0, 1, 5, 9])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_topic_made_again_with_any_number_of_records_is_read_anew(bus, records, partitions):
    make(bus, 1)
    send(bus, *((b"old-%d" % number, b"1") for number in range(5)))
    table, tailer = follow(bus)
    step(tailer)
    bus.delete(TOPIC)
    make(bus, partitions)
    send(bus, *((b"new-%d" % number, b"2") for number in range(records)))
    step(tailer)
    assert (table.state().status, table.state().restarts) == ("ready", 1)
    assert rows(table) == rebuilt(bus) == {b"new-%d" % number: b"2" for number in range(records)}


def test_a_lost_broker_leaves_the_table_and_tells_since_when(bus):
    make(bus)
    send(bus, (b"a", b"1"))
    table, clock = ViewTable(VIEW), iter(range(NOW, NOW + 100))
    tailer = ViewTailer(bus, [table], lambda: next(clock))
    step(tailer)
    before = table.state().as_of
    bus.stop()
    with pytest.raises(Unavailable):
        tailer.step()
    assert (table.state().status, table.state().as_of, rows(table)) == (
        "ready", before, {b"a": b"1"},
    )  # fmt: skip
    bus.start()
    send(bus, (b"a", b"2"))
    step(tailer)
    assert (table.state().as_of or 0) > (before or 0)
    assert rows(table) == {b"a": b"2"}


def test_records_deleted_before_they_were_read_have_the_copy_begin_anew(bus):
    make(bus, 1)
    send(bus, (b"a", b"1"))
    table, tailer = follow(bus)
    step(tailer)
    send(bus, (b"a", b"2"), (b"b", b"1"), (b"c", b"1"))
    bus.truncate(TOPIC, 0, 3)
    tailer._next_look = time.monotonic() + 60  # what the log lacks is met before it is looked for
    step(tailer)
    assert rows(table) == rebuilt(bus) == {b"c": b"1"}
    assert table.state().restarts == 1


def test_under_load_the_time_up_to_which_a_copy_is_whole_goes_on(bus, monkeypatch):
    monkeypatch.setattr(topic_copies, "BATCH", 3)
    make(bus, 1)
    table, clock = ViewTable(VIEW), iter(range(NOW, NOW + 100))
    tailer = ViewTailer(bus, [table], lambda: next(clock))
    seen = []
    for number in range(10):
        send(bus, *((b"%d" % key, b"%d" % number) for key in range(3)))
        tailer.step()
        seen.append(table.state().as_of)
    assert len(set(seen)) > 5


def test_two_views_of_a_topic_have_the_same_rows(bus):
    make(bus)
    tables = [ViewTable(VIEW), ViewTable(TopicView("again", TOPIC, "Again"))]
    tailer = ViewTailer(bus, tables, lambda: NOW)
    send(bus, (b"a", b"1"))
    step(tailer)
    assert rows(tables[0]) == rows(tables[1]) == {b"a": b"1"}


def test_a_thread_follows_until_it_is_stopped(bus):
    make(bus)
    table, tailer = follow(bus)
    follower = Follower(tailer)
    follower.start()
    assert table.state().status != "not-followed"
    send(bus, (b"a", b"1"))
    wait_until(lambda: rows(table) == {b"a": b"1"}, 10, "the record is not in the table")
    bus.stop()
    bus.start()
    send(bus, (b"b", b"1"))
    wait_until(lambda: b"b" in rows(table), 10, "the record is not in the table")
    follower.stop()
    assert tailer.name not in {thread.name for thread in threading.enumerate()}


def test_without_a_view_nothing_follows(bus, tmp_path, settings):
    (tmp_path / "views.toml").write_text("")
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"views": tmp_path / "views.toml"})
    caches = (topics.declared_views, topic_copies.copies)
    for cache in caches:
        cache.cache_clear()
    try:
        assert topic_copies.followers(bus) == []
    finally:
        for cache in caches:
            cache.cache_clear()


# ---- which rows are asked for -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        (TopicRowFilter(), ["", "order-1", "order-10", "order-2", "x\n"]),
        (TopicRowFilter("order-1"), ["order-1"]),
        (TopicRowFilter("order-1*"), ["order-1", "order-10"]),
        (TopicRowFilter("*-?"), ["order-1", "order-2"]),
        (TopicRowFilter("order-[!1]"), ["order-2"]),
        (TopicRowFilter("x*"), ["x\n"]),
        (TopicRowFilter("ORDER*"), []),
        (TopicRowFilter(not_empty=True), ["order-10", "order-2"]),
        (TopicRowFilter("order-1*", not_empty=True), ["order-10"]),
        (TopicRowFilter(matches="order-(1|2)"), ["order-1", "order-2"]),
        (TopicRowFilter(matches="order-[0-9]+", not_empty=True), ["order-10", "order-2"]),
        (TopicRowFilter("*0", matches="order-.*"), ["order-10"]),
        (TopicRowFilter(matches="order"), []),
        (TopicRowFilter(matches="(?i)ORDER-1"), ["order-1"]),
    ],
)
def test_rows_by_pattern_of_their_key_and_by_value(bus, wanted, keys):
    make(bus)
    send(bus, (b"", b""), (b"order-1", b" { } "), (b"order-2", b"0"), (b"order-10", b"[1]"))
    send(bus, (b"x\n", b"null"))
    table, tailer = follow(bus)
    step(tailer)
    assert [key.decode() for key in rows(table, wanted)] == keys


@given(st.text(max_size=12, alphabet="[]!-*?az\\^{}"), st.binary(max_size=6))
def test_any_pattern_is_taken(pattern, key):
    assert TopicRowFilter(pattern).test()(TopicRow(key, b"", 0, 0, 0)) in (True, False)


@given(st.text(max_size=12, alphabet="a(|)[]{}^$*+?.\\d-é"), st.binary(max_size=6))
def test_any_expression_is_taken_or_refused(pattern, key):
    with suppress(BadExpression):
        assert TopicRowFilter(matches=pattern).test()(TopicRow(key, b"", 0, 0, 0)) in (True, False)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", r"as RE2 has them: missing \)"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("x" * 256, "at most 255 characters"),
        ("a\ud800", "a text in UTF-8"),
        ("(.{0,30}){30}", r"at most 2,000 steps, it has 8,\d+: use fewer repetitions"),
    ],
)
def test_an_expression_that_is_not_taken_is_refused_in_words(pattern, why):
    with pytest.raises(BadExpression, match=why):
        expression(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a?){150}a{150}b", "(.*a){40}b"])
def test_no_expression_holds_a_process_up(pattern):
    """Python's own would try for longer than anybody waits."""
    passes, key = expression(pattern), b"a" * 10_000
    begun = time.process_time()
    assert not passes(key)
    assert time.process_time() - begun < 5


@given(
    st.text(max_size=5, alphabet="ab*?[]!"),
    st.sets(st.text(max_size=3, alphabet="ab*["), max_size=20),
    st.none() | st.text(max_size=2, alphabet="ab"),
)
def test_looking_only_where_a_pattern_can_match_leaves_no_row_out(pattern, keys, after):
    table, wanted = ViewTable(VIEW), TopicRowFilter(pattern)
    table.begin({0: (0, 100)}, NOW)
    table.apply(
        ConsumerRecord(TOPIC, 0, at, 0, key.encode(), b"x", ()) for at, key in enumerate(keys)
    )
    place = None if after is None else after.encode()
    whole = table.page(wanted.test(), 100, place)
    assert table.page(wanted.test(), 100, place, prefix=wanted.prefix()) == whole


@given(st.sets(st.binary(max_size=3), max_size=30), st.integers(1, 5))
def test_pages_hold_each_row_once_in_the_order_of_keys(keys, size):
    table = ViewTable(VIEW)
    table.begin({0: (0, 100)}, NOW)
    table.apply(ConsumerRecord(TOPIC, 0, at, 0, key, b"x", ()) for at, key in enumerate(keys))
    row_keys, after = [], None
    while True:
        page = table.page(TopicRowFilter().test(), size, after)
        assert len(page.rows) <= size
        row_keys += [row.key for row in page.rows]
        if (after := page.following) is None:
            break
    assert row_keys == sorted(keys)


def test_a_page_ends_before_it_has_too_many_bytes():
    table = ViewTable(VIEW)
    table.begin({0: (0, 100)}, NOW)
    table.apply(ConsumerRecord(TOPIC, 0, at, 0, b"%d" % at, b"x" * 99, ()) for at in range(5))
    assert [r.key for r in table.page(TopicRowFilter().test(), 9, None, 200).rows] == [b"0", b"1"]
    page = table.page(TopicRowFilter().test(), 9, b"1", 10)
    assert ([r.key for r in page.rows], page.following) == ([b"2"], b"2")


# ---- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "form", "value"),
    [
        (b'{"a": [1, null]}', "json", {"a": [1, None]}),
        (b"0", "json", 0),
        (b"", "text", ""),
        (b"{", "text", "{"),
        (b"NaN", "text", "NaN"),
        (b"[1e999]", "text", "[1e999]"),
        (b"[" * 100_000, "text", "[" * 100_000),
        (b"1" * 5_000, "text", "1" * 5_000),
        (b"\xff\x00", "base64", "/wA="),
    ],
)
def test_a_value_for_a_program(data, form, value):
    assert shown(data) == (form, value)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a\tb\nc", "a\\tb\\nc"),
        (b"\xff", "\\xff"),
        ("\u202ea\x1b[0m".encode(), "\\u202ea\\u001b[0m"),
        ("grün".encode(), "grün"),
    ],
)
def test_a_value_on_a_line(data, line):
    assert printed(data) == line


@pytest.mark.parametrize("data", [b"", b" ", b"null", b'""', b"{ }", b"[\n]"])
def test_empty_values(data):
    assert is_empty(data)


@pytest.mark.parametrize("data", [b"0", b"false", b"{}x", b" " * 100, b"[0]"])
def test_values_that_are_not_empty(data):
    assert not is_empty(data)


# ---- the command ------------------------------------------------------------------------------


def test_the_table_is_printed_and_then_its_changes(bus):
    make(bus, 1)
    send(bus, (b"order-1", b"1"), (b"order-2", b""), (b"other", b"1"))
    table = ViewTable(VIEW)
    lines: list[str] = []
    remarks: list[str] = []
    out = Printout(table, TopicRowFilter("order-*", not_empty=True), lines.append, remarks.append)
    tailer = ViewTailer(bus, [table], lambda: NOW, out.print_changes)
    step(tailer)
    out.print_table()
    assert lines == ["order-1\t1"]
    send(bus, (b"order-1", b"2"), (b"order-2", b"1"), (b"order-2", b""), (b"other", b"2"))
    send(bus, (b"order-1", None), (b"order-1", None))
    step(tailer)
    out.print_table()
    assert lines[1:] == ["~ order-1\t2", "+ order-2\t1", "- order-2", "- order-1"]
    bus.delete(TOPIC)
    make(bus, 1)
    send(bus, (b"order-9", b"9"))
    step(tailer)
    out.print_table()
    assert (lines[5:], len(remarks)) == (["order-9\t9"], 1)


def test_the_command_refuses_what_is_no_regular_expression():
    with pytest.raises(CommandError, match=r"--matches: expected a regular expression .*: missing"):
        call_command("view", "orders", "--matches", "(a")


# ---- views.toml -------------------------------------------------------------------------------


def test_the_shipped_views_load_with_the_prefix():
    views = load_views(ROOT / "views.toml", "test.")
    assert views["orders"] == TopicView("orders", "test.orders.states", "Orders")
    assert views["prices"] == TopicView(
        "prices", "test.prices", "Prices", matches="product-[0-9]+", drops_empty=True
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[orders]", r"orders\.topic: expected a text of 1-255 characters, got None"),
        ("[orders]\ntopic = 'a b'", r"orders\.topic: expected a topic's name"),
        ("[Orders]\ntopic = 'a'", r"Orders: expected a name of a-z"),
        ("[o]\ntopic = 'a'\nmax_records = 0", r"o\.max_records: expected an integer from 1"),
        ("[o]\ntopic = 'a'\nmax_bytes = '1 MiB'", r"o\.max_bytes: expected an integer from 1024"),
        ("[o]\ntopic = 'a'\nkey = 1", r"o\.key: expected a known key"),
        ("[o]\ntopic = 'a'\nkeys = ''", r"o\.keys: expected a text of 1-255 characters"),
        (
            "[o]\ntopic = 'a'\nmatches = '(a'",
            r"o\.matches: expected a regular .*: missing \): \(a",
        ),
        ("[o]\ntopic = 'a'\nempty = 'no'", r"o\.empty: expected one of keep, drop, got 'no'"),
        ("o = 1", "o: expected a table, got 1"),
        ("[o", "expected TOML"),
        ("".join(f"[v{n}]\ntopic = 'a'\n" for n in range(MOST_VIEWS + 1)), "at most 20 views"),
    ],
)
def test_a_file_that_declares_no_views_is_refused_in_words(tmp_path: Path, content, message):
    path = tmp_path / "views.toml"
    path.write_text(content)
    with pytest.raises(ViewError, match=rf"views\.toml: .*{message}"):
        load_views(path)


def test_a_file_that_is_missing_is_refused_by_its_name(tmp_path: Path):
    with pytest.raises(ViewError, match=r"missing\.toml: cannot be read"):
        load_views(tmp_path / "missing.toml")
