"""The filter language: what it reads, what it refuses, and that the database finds the same."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.board.live.page_filter import filter_of
from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.board_rows import named_details
from dashboard.core.states.caveats import doubted_agents, doubts_of, place_of, rank_of, silent_votes
from dashboard.core.states.filter_parser import Filter, FilterError, parse
from dashboard.core.states.filter_terms import Sight
from dashboard.core.states.models import AssetState
from dashboard.core.states.rows import DETAIL_COLUMNS, detail_columns
from dashboard.watch.annotations.models import Label, Mark
from dashboard.watch.annotations.row_marks import AckMark, calm_of, in_force
from dashboard.watch.filters import query, search
from domain.scenario import Scenario
from support.histories.state_records import as_read, doubt, vote
from support.histories.state_records import record as state_record
from support.run.selection import examples
from wire.sink import StateValue, state_value

NOW = 1_790_000_000_000


def attack() -> Scenario:
    return scenarios()["attack"]


def read(text: str, labels: Any = None) -> Filter:
    return parse(text, attack(), NOW, labels)


# ---- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("kind:syn-flood,ssl* -rate:>2.5k", "kind:syn-flood,ssl* -rate:>2500"),
        ("rate:<0.125,>1M RATE:7", "rate:<0.125,>1000000 rate:7"),
        ("shop", "shop"),
        ("  shop\t-test ", "shop -test"),
        ("state:attack", "state:under-attack"),
        ('state:"Under attack"', "state:under-attack"),
        ("state:CLEAR,susp", "state:clear,suspicious"),
        ("since:>90m", "since:>1h30m"),
        ("since:<2026-09-21T14:00", "since:<2026-09-21T14:00:00Z"),
        ("until:none,<15m", "until:none,<15m"),
        ("agent:waf-7=attack", "agent:waf-7=under-attack"),
        ("agent:waf-*", "agent:waf-*"),
        ('agent:"waf 7"*=clear', 'agent:"waf 7"*=clear'),
        ('tier:gold customer:"Acme GmbH"', 'tier:gold customer:"Acme GmbH"'),
        ("tier:*", "tier:*"),
        ("fe80::1", '"fe80::1"'),
        ("https://a/b", '"https://a/b"'),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ('"state:clear"', '"state:clear"'),
        ('override:yes,"yes"', 'override:yes,"yes"'),
        ("pending:clear", "pending:clear"),
        ("shop shop", "shop"),
        ("IS:Disputed,unconfirmed -has:silent", "is:disputed,unconfirmed -has:silent"),
        ("", ""),
    ],
)
def test_a_filter_is_printed_as_it_is_read(text: str, same: str) -> None:
    assert str(read(text)) == same
    assert read(same) == read(text)


@pytest.mark.parametrize(
    ("text", "part", "says"),
    [
        ("shop sate:clear", "sate:", "did you mean state:?"),
        ("teir:gold", "teir:", "did you mean tier:?"),
        ("order:12 x", "order:12", "in quotes"),
        ("state:atack", "atack", "did you mean under-attack?"),
        ("state:", ":", "expected a value after state:"),
        ("a since:1h", "1h", "did you mean <1h?"),
        ("since:>soon", ">soon", "expected a duration"),
        ("since:>2026-13-01", ">2026-13-01", "expected a duration"),
        ('customer:"Acme', '"Acme', "not closed"),
        ('tier:""', '""', "between the quotes"),
        ('"a"b', "b", "a space or a comma"),
        ("muted:perhaps", "perhaps", "yes or no"),
        ("knd:syn", "knd:", "did you mean kind:?"),
        ("rate:>many", ">many", "expected a number such as 10000, 2.5k or 1M after >"),
        ('kind:>"5"', '>"5"', "expected a number"),
        ("rate:>999999999G", ">999999999G", "expected a number"),
        ("is:disputd", "disputd", "did you mean disputed?"),
        ("is:silent", "silent", "expected unhandled or disputed or unconfirmed"),
        ("has:none", "none", "expected silent or doubt"),
        ("a -", "-", "a part of the name"),
        ("a,,b", ",", "a part of the name"),
        ("a\ud800", "\ud800", "no character"),
        ("x" * 1_001, "x", "at most 1000"),
    ],
)
def test_a_refusal_names_the_part_at_fault(text: str, part: str, says: str) -> None:
    with pytest.raises(FilterError, match=says.replace("?", r"\?")) as caught:
        read(text, {"tier", "customer"})
    assert text[caught.value.start : caught.value.end] == part


def test_what_stands_in_quotes_is_no_state_of_another_name() -> None:
    with pytest.raises(FilterError):
        read('state:"attack"')


def test_a_time_of_day_is_the_last_one() -> None:
    assert str(read("since:>14:26")) == "since:>2026-09-20T14:26:00Z"  # now is 14:13:20
    assert str(read("since:>9:00")) == "since:>2026-09-21T09:00:00Z"


PIECES = st.sampled_from(
    ["state", "since", "until", "agent", "tier", "name", "override", "pending", "muted", ":", ":",
     ":", "-", ",", '"', '"', "\\", "<", ">", "=", "*", " ", " ", "\t", "1h", "30m", "14:00",
     "2026-11-22", "yes", "no", "none", "clear", "attack", "shop", "ü", "\0", "\ud800", "١"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=14).map("".join), st.text(max_size=30))


def read_or_fault(text: str, labels: Any) -> Filter | FilterError:
    try:
        return read(text, labels)
    except FilterError as error:
        return error


@settings(max_examples=examples(250), deadline=None)
@given(TEXTS, st.sampled_from([None, frozenset(), frozenset(["tier"])]))
def test_any_text_is_a_filter_or_says_where_it_is_none(text: str, labels: Any) -> None:
    filter_or_fault = read_or_fault(text, labels)
    if isinstance(filter_or_fault, Filter):
        assert read(str(filter_or_fault)) == filter_or_fault
    else:
        assert 0 <= filter_or_fault.start < filter_or_fault.end <= len(text)


# ---- what it finds ------------------------------------------------------------------------------

STATES = ("under-attack", "suspicious", "clear")
AGENTS = ("waf-7", "waf-70", "Waf-7", "scrubber 1", 'q"\\', "ü=1")
NAMES = ("shop-1", "Shop-2", "test", "10.0.0.0/8", "a b", "100%", "under_score", "東京", "-x")
USERS = ("ada", "Ada", "yes")
VALUES = ("gold", "Gold", "Acme GmbH", "100%")


DETAILS = (
    None,
    {"kind": "syn-flood", "rate": 41_200},
    {"kind": "Syn-flood", "rate": 7},
    {"kind": "100%", "rate": "7"},
    {"rate": 0.125, "source": True},
    {"kind": ["no", "text"], "else": 1},
)


def record(dice: random.Random, since: int) -> dict[str, Any]:
    """The parts of a state record that a filter looks at."""
    votes: list[dict[str, Any]] = [
        vote(agent, dice.choice(STATES), detail=dice.choice(DETAILS), offset=dice.randrange(9))
        for agent in dice.sample(AGENTS, dice.randrange(4))
    ]
    if votes and dice.random() < 0.3:
        votes[0]["muted"] = {"until": None, "user": "ada"}
    elif votes and dice.random() < 0.5:
        votes[-1]["silent"] = since
    if votes and dice.random() < 0.3:
        votes[-1]["doubt"] = "purged"
    until = dice.choice([None, NOW + 600_000, NOW + 7_200_000])
    pending = {"state": dice.choice(STATES), "since": since, "due": NOW}
    override = {"state": "clear", "user": dice.choice(USERS), "until": until, "reason": "",
                "command": "", "since": since, "underlying": None}  # fmt: skip
    return state_record(
        votes=votes,
        pending=pending if dice.random() < 0.3 else None,
        override=override if dice.random() < 0.5 else None,
        since=since,
        disputed="under-attack" if dice.random() < 0.4 else None,
        doubts=[doubt(dice.choice(AGENTS))] if dice.random() < 0.3 else [],
    )


def sight(name: str, state: str, made: dict[str, Any], labels: dict[str, str]) -> Sight:
    override, pending = made["override"], made["pending"]
    unconfirmed = AssetState.objects.get(asset=name).unconfirmed
    live = [vote for vote in made["votes"] if "silent" not in vote]
    return Sight(
        asset=name,
        state=state,
        since=made["since"],
        unconfirmed=unconfirmed,
        pending=pending and pending["state"],
        override=override and (override["user"], override["until"]),
        votes=[(vote["agent"], vote["state"]) for vote in live],
        labels=labels,
        ack=acknowledged(name),
        muted=any("muted" in vote for vote in live),
        doubts=doubts_of(made.get("disputed"), unconfirmed, *counted(made)),
        works=worked_on(name),
        alarming=attack().is_alarming(state),
        details=named_details(attack(), as_read(made | {"state": state})),
    )


def counted(made: dict[str, Any]) -> tuple[int | None, int | None]:
    """How many votes of a record are silent, and how many agents in doubt."""
    read = as_read(made)
    return silent_votes(read.votes), doubted_agents(read.votes, read.doubts)


def acknowledged(name: str) -> str | None:
    """By whom, if it is in force: of half of the assets, some of them only as it was worse."""
    row, number = AssetState.objects.get(asset=name), NAMES.index(name)
    if number % 2:
        return None
    ack = AckMark(USERS[number % 3], 0, NOW + (number % 3) * 1_000, number % 3, "")
    Mark.objects.create(scenario="attack", asset=name, revision=1, changed_at=0, ack_by=ack.by,
                        ack_since=0, ack_until=ack.until, ack_severity=ack.severity)  # fmt: skip
    return ack.by if in_force(ack, row.severity, calm_of(attack()), NOW) else None


def worked_on(name: str) -> bool:
    """Whether it is in maintenance: one of which that is over, one of which it is not, and one
    that is acknowledged too."""
    until = {1: NOW, 2: NOW + 1, 5: NOW + 1_000}.get(NAMES.index(name))
    if until is None:
        return False
    work = {"work_name": "racks", "work_until": until, "work_window": 1}
    made = {"revision": 1, "changed_at": 0}
    Mark.objects.update_or_create(
        scenario="attack", asset=name, defaults=work, create_defaults=work | made
    )
    return until > NOW


def details_of(made: dict[str, Any]) -> dict[str, Any]:
    """The columns of a record's details."""
    return dict(zip(DETAIL_COLUMNS, detail_columns(attack(), as_read(made)), strict=True))


def world(seed: int) -> list[Sight]:
    """Rows of the database, and the same as they are told of live."""
    dice = random.Random(seed)
    seen = []
    for name in NAMES:
        since = NOW - dice.choice([0, 59_000, 60_000, 61_000, 3_600_000])
        made, state = record(dice, since), dice.choice(STATES)
        severity = attack().severity(state)
        override, pending = made["override"], made["pending"]
        AssetState.objects.create(
            scenario="attack", asset=name, partition=0, state=state,
            severity=severity, rank=rank_of(severity, made.get("disputed")), since=since,
            version=name, changed_at=0, cause_type="report",
            record=msgspec.json.encode(made).decode(),
            disputed=made.get("disputed"), silent=counted(made)[0], doubt=counted(made)[1],
            unconfirmed=dice.random() < 0.5, overridden=override is not None,
            override_until=override and override["until"],
            override_user=override and override["user"], pending_due=NOW if pending else None,
            **details_of(made | {"state": state}),
        )  # fmt: skip
        labels = {key: dice.choice(VALUES) for key in ("tier", "owner") if dice.random() < 0.6}
        for key, value in labels.items():
            Label.objects.create(scenario="attack", asset=name, key=key, value=value,
                                 source="person", name="ada", at=0)  # fmt: skip
            Label.objects.create(scenario="attack", asset=name, key=key, value="hidden",
                                 source="agent", name="waf", at=0, shown=False)  # fmt: skip
        seen.append(sight(name, state, made, labels))
    return seen


TERMS = (
    "shop", "SHOP", "%", "_", "o,x", "name:shop-1", "name:shop-*", "name:Shop-*", "name:*",
    'name:"a b"', "state:clear", "state:attack,suspicious", "since:>1m", "since:<1m",
    "since:>2026-09-21T14:12:20", "since:<2026-09-21T14:12:20", "until:none", "until:<15m",
    "until:>15m", "until:>2026-09-21T15:00,none", "agent:waf-7", "agent:waf-*", "agent:*",
    "agent:waf-7=attack", "agent:waf-*=clear", 'agent:"ü=1"', 'agent:"q\\"\\\\"', "override:yes",
    "override:no", "override:ada", "override:A*", 'override:"yes"', "pending:yes", "pending:no",
    "pending:clear,attack", "unconfirmed:yes", "unconfirmed:no", "muted:yes", "muted:no",
    "tier:gold", "tier:G*", "tier:*", 'owner:"Acme GmbH"', "tier:hidden", "owner:gold,Gold",
    "ack:yes", "ack:no", "ack:ada", "ack:*", "is:disputed", "is:unconfirmed", "has:silent",
    "is:disputed,unconfirmed", "has:doubt", "has:doubt,silent", "is:unhandled",
    "is:unhandled,disputed", "in:maintenance", "kind:syn-flood", "kind:S*",
    "kind:*", 'kind:"100%"', "rate:>7", "rate:<41.2k", "rate:7", "rate:0.125,>100", "rate:7*",
    "rate:*", "source:yes", "source:<5", "kind:>5",
)  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(2))
def test_the_database_finds_what_the_filter_matches(seed: int) -> None:
    sights = world(seed)
    AssetState.objects.create(
        scenario="attack", asset="purged", partition=0, state="", severity=0, since=0,
        version="1", changed_at=0, cause_type="report", record="{}", purged=True, purged_at=1,
    )  # fmt: skip
    dice = random.Random(seed)
    pairs = [f"{dice.choice(TERMS)} -{dice.choice(TERMS)}" for _ in range(30)]
    some = 0
    for text in (*TERMS, *(f"-{term}" for term in TERMS), *pairs):
        wanted = read(text)
        expected = {sight.asset for sight in sights if wanted.matches(sight, NOW)}
        rows = query.rows(wanted, attack(), NOW)
        assert set(rows.values_list("asset", flat=True)) == expected, text
        some += 0 < len(expected) < len(NAMES)
    assert some > 60, "most tell some from others"


# ---- a page of the board ------------------------------------------------------------------------


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that ends soon, and few that are many."""
    for name, value in (("LOOKED", 6), ("LEAST_COUNTED", 4), ("PORTION", 2), ("COUNTED", 3)):
        monkeypatch.setattr(search, name, value)


def in_order(sights: list[Sight]) -> list[Sight]:
    def order(each: Sight) -> tuple[int, int, str]:
        disputed = each.state if "disputed" in each.doubts else None
        rank = rank_of(attack().severity(each.state), disputed)
        place = place_of(rank, attack().is_alarming(each.state))
        return (place, -each.since, each.asset)

    return sorted(sights, key=order)


def order_of_row(row: AssetState) -> tuple[int, int, str]:
    assert row.rank is not None
    return (place_of(row.rank, attack().is_alarming(row.state)), -row.since, row.asset)


def pages(wanted: Filter, limit: int, skip: set[str]) -> tuple[list[str], list[Any]]:
    """The names of page after page, as a reader follows them."""
    shown: list[str] = []
    board_pages, after = [], None
    for _ in range(30):
        page = search.find(attack(), (), wanted, NOW, after=after, limit=limit, skip=skip)
        board_pages.append(page)
        names = [ORDERS[json_of(record)] for record in page.records]
        shown += [name for *_, name in names]
        if page.stopped is None and len(page.records) < limit:
            return shown, board_pages
        after = page.stopped or names[-1]
    raise AssertionError("pages without an end")


ORDERS: dict[str, tuple[int, int, str]] = {}


def json_of(record: StateValue) -> str:
    return msgspec.json.encode(record).decode()


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(2))
def test_page_after_page_shows_what_matches_once(seed: int, near: None) -> None:
    sights = in_order(world(seed))
    ORDERS.clear()
    for row in AssetState.objects.filter(purged=False):
        row.record = json_of(msgspec.json.decode(row.record) | {"asset": row.asset})
        row.save()
        ORDERS[json_of(state_value(row.record))] = order_of_row(row)
    dice, stopped = random.Random(seed), 0
    for text in dice.sample((*TERMS, *(f"-{term}" for term in TERMS)), 40):
        wanted, skip = read(text), {dice.choice(NAMES)}
        shown, board_pages = pages(wanted, dice.choice([2, 4]), skip)
        matching = [s.asset for s in sights if wanted.matches(s, NOW) and s.asset not in skip]
        assert shown == matching, text
        assert board_pages[0].total == len(matching) or board_pages[0].least, text
        assert board_pages[0].total <= len(matching), text
        stopped += any(page.stopped for page in board_pages)
    assert stopped, "some walks ended early"


@pytest.mark.django_db
def test_by_name_gives_all_that_match_once(near: None) -> None:
    sights = world(0)
    for text in ("", *TERMS):
        wanted, after, names = read(text), "", []
        for _ in range(30):
            page, more = search.by_name(attack(), wanted, NOW, after=after, limit=2)
            names += [name for name, _ in page]
            if more is None:
                break
            after = more
        assert names == sorted(s.asset for s in sights if wanted.matches(s, NOW)), text


@pytest.mark.parametrize(
    ("text", "states", "q", "rest"),
    [
        ("shop", set(), "shop", None),
        ("state:clear shop", {"clear"}, "shop", None),
        ("state:clear", {"clear"}, "", None),
        ("-state:clear", set(), "", "-state:clear"),
        ("shop test", set(), "", "shop test"),
        ("a,b", set(), "", "a,b"),
        ("state:clear -shop", {"clear"}, "", "-shop"),
        ("", set(), "", None),
    ],
)
def test_what_states_and_a_part_of_the_name_say_stays_what_it_was(
    text: str, states: set[str], q: str, rest: str | None
) -> None:
    shown = filter_of(read(text), frozenset(), NOW)
    assert set(shown.states) == states
    assert shown.q == q
    assert (str(shown.terms) if shown.terms else None) == rest


def test_buttons_and_text_that_agree_on_no_state_find_nothing() -> None:
    shown = filter_of(read("state:clear"), frozenset(["under-attack"]), NOW)
    assert shown.states == {"under-attack"}
    assert str(shown.terms) == "state:clear"
