"""Labels: what they may be, tables of them, whose stands before whose, and agents' own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from dashboard.core.audit.log import Actor
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.models import AssetState
from dashboard.operate.administration import tasks
from dashboard.serve.materialiser.worker import Materialiser
from dashboard.watch.annotations import label_files
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.labels import MOST_LABELS, fault, labels_of_votes
from dashboard.watch.annotations.models import Label
from domain.records import Command, Report
from support.kafka.sinks import PlayedJob
from wire.sink import VoteValue

pytestmark = pytest.mark.django_db

NOW = 1_790_000_000_000


def labels(asset: str = "shop") -> dict[str, str]:
    return annotation_labels.labels_of("attack", [asset]).get(asset, {})


def give(asset: str = "shop", **edits: str | None) -> dict[str, int]:
    return dict(
        annotation_labels.counted(annotation_labels.put("attack", {asset: edits}, "ada", NOW))
    )


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("tier", "gold", ""),
        ("a-1_b", "Acme GmbH · 東京", ""),
        ("Tier", "gold", "key: expected a small letter"),
        ("1a", "gold", "key: expected"),
        ("state", "gold", "key: state is a word of the filter's own"),
        ("a" * 33, "gold", "key: expected"),
        ("tier", "", "value: expected"),
        ("tier", " gold", "value: expected"),
        ("tier", "a\nb", "value: expected"),
        ("tier", "\ud800", "value: expected"),
        ("tier", "x" * 101, "value: expected"),
    ],
)
def test_what_a_label_may_be(key: str, value: str, says: str) -> None:
    assert fault(key, value).startswith(says)
    assert bool(fault(key, value)) == bool(says)


def test_people_give_change_and_take_away() -> None:
    assert give(tier="gold", owner="bob") == {"new": 2}
    assert give(tier="silver", owner="bob") == {"changed": 1, "same": 1}
    assert give(owner=None) == {"removed": 1}
    assert labels() == {"tier": "silver"}
    assert annotation_labels.state("attack").n == 3


def test_nothing_changed_is_no_change() -> None:
    give(tier="gold")
    before = annotation_labels.state("attack").n
    assert give(tier="gold", other=None) == {"same": 2}
    assert annotation_labels.state("attack").n == before


def test_an_asset_has_at_most_so_many() -> None:
    give(**{f"k{n}": "v" for n in range(MOST_LABELS)})
    assert give(more="v") == {"refused": 1}
    assert give(more="v", k0=None) == {"removed": 1, "new": 1}
    assert len(labels()) == MOST_LABELS


def test_people_stand_before_agents() -> None:
    annotation_labels.ingest_reported_labels(
        "attack", {"shop": {"tier": ("silver", "waf-1"), "zone": ("a", "waf-1")}}, NOW
    )
    assert labels() == {"tier": "silver", "zone": "a"}
    give(tier="gold")
    assert labels() == {"tier": "gold", "zone": "a"}
    annotation_labels.ingest_reported_labels("attack", {"shop": {"tier": ("bronze", "waf-2")}}, NOW)
    assert labels() == {"tier": "gold"}
    give(tier=None)
    assert labels() == {"tier": "bronze"}
    annotation_labels.ingest_reported_labels("attack", {"shop": {}}, NOW)
    assert labels() == {}


def test_of_one_key_and_source_there_is_one_that_is_shown() -> None:
    annotation_labels.ingest_reported_labels("attack", {"shop": {"tier": ("silver", "waf-1")}}, NOW)
    give(tier="gold")
    shown = Label.objects.filter(asset="shop", shown=True)
    assert [(row.value, row.source) for row in shown] == [("gold", "person")]


def test_replacing_takes_away_what_is_not_named() -> None:
    give(tier="gold", owner="bob")
    annotation_labels.put(
        "attack", annotation_labels.replaced("attack", {"shop": {"tier": "gold"}}), "ada", NOW
    )
    assert labels() == {"tier": "gold"}


def test_keys_and_values_are_known() -> None:
    give("a", tier="gold", owner="bob")
    give("b", tier="gilt")
    give("c", tier="silver")
    assert annotation_labels.keys("attack") == ("owner", "tier")
    assert annotation_labels.values("attack", "tier", "g", 5) == ["gilt", "gold"]
    assert annotation_labels.values("attack", "tier", "", 2) == ["gilt", "gold"]


def test_the_audit_says_who_changed_what() -> None:
    edits = {"shop": {"tier": "gold"}}
    done = annotation_labels.counted(annotation_labels.put("attack", edits, "ada", NOW))
    annotation_labels.log_edits(Actor.system("test"), "attack", edits, done)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target) == ("labels.changed", "shop")
    annotation_labels.log_edits(Actor.system("test"), "attack", edits, {"same": 1})
    assert AuditEntry.objects.count() == 1


# ---- tables -------------------------------------------------------------------------------------


def edits(table: label_files.LabelTable) -> dict[str, dict[str, str | None]]:
    """By asset and key what a table gives."""
    said = table.edits.items()
    return {asset: {key: each.value for key, each in labels.items()} for asset, labels in said}


def test_a_line_for_each_label() -> None:
    table = label_files.read_table(
        b"asset,key,value\nshop,tier,gold\nshop,owner,\nmail,tier,a b\n", True
    )
    assert edits(table) == {"shop": {"tier": "gold", "owner": None}, "mail": {"tier": "a b"}}
    assert (table.lines, table.labels, table.import_counts.said) == (3, 3, 0)
    assert table.edits["mail"]["tier"].line == 4


def test_a_line_for_each_asset_as_a_spreadsheet_saves_it() -> None:
    data = "\ufeffasset;tier;owner\r\nshop;gold;\r\n\r\nZürich;;bob\r\n".encode()
    table = label_files.read_table(data, empty_removes=True)
    assert edits(table) == {
        "shop": {"tier": "gold", "owner": None},
        "Zürich": {"tier": None, "owner": "bob"},
    }


def test_an_empty_cell_says_nothing_unless_it_was_chosen_that_it_removes() -> None:
    table = label_files.read_table(b"asset,tier,owner\nshop,gold,\nmail,,\n")
    assert edits(table) == {"shop": {"tier": "gold"}}
    assert table.import_counts.refused == [(3, label_files.NOTHING)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("shop,tier", "expected asset, key and value"),
        (",tier,gold", "asset: expected"),
        ("shop,state,x", "key: state is a word"),
        ("shop,Ti er,x", "key: expected"),
        (f"shop,tier,{'x' * 101}", "value: expected"),
        ("first,tier,other", "an earlier line has another"),
        ("shop,tier,", "expected a value"),
    ],
)
def test_a_line_that_is_none_is_refused_and_named(line: str, says: str) -> None:
    table = label_files.read_table(f"asset,key,value\nfirst,tier,gold\n{line}\n".encode())
    assert edits(table) == {"first": {"tier": "gold"}}
    ((number, why),) = table.import_counts.refused
    assert number == 3
    assert why.startswith(says)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the header"),
        (b"name,tier\n", "the header"),
        (b"asset,state\n", "the header: state"),
        (b"asset,tier,tier\n", "repeated"),
        (b"\xff", "UTF-8"),
        (b"asset,tier\n" + b"a" * 200_000 + b",b\n", "line 2"),
    ],
)
def test_a_file_that_is_no_table_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(label_files.UnreadableTable, match=says):
        label_files.read_table(data)


def test_too_many_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_files, "MAX_LINES", 2)
    with pytest.raises(label_files.UnreadableTable, match="at most 2 lines"):
        label_files.read_table(b"asset,tier\na,b\nc,d\ne,f\n")


def test_too_many_labels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_files, "MAX_LABELS", 5)
    with pytest.raises(label_files.UnreadableTable, match="at most 5 labels"):
        label_files.read_table(b"asset,a,b,c\nx,1,2,3\ny,,,\n", empty_removes=True)


def test_each_label_of_a_file_is_counted_once() -> None:
    lines = (
        "asset,key,value,source", "a,tier,gold,person", "a,tier,gold,person", "a,tier,tin,person",
        "a,zone,x,agent waf-1", "b,Ti er,x,person", "b", "b,tier,,person",
    )  # fmt: skip
    table = label_files.read_table("\n".join(lines).encode(), empty_removes=True)
    assert table.labels == 2
    assert table.import_counts.counts == {"again": 1, "refused": 3, "agents": 1}
    assert [line for line, _ in table.import_counts.refused] == [4, 6, 7]


def test_what_is_written_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_files, "PORTION", 17)
    odd = ("=1+1", "'quoted", "'=x", "-", "a,b", 'say "x"', "@home", "東京")
    for number in range(12):
        give(f"asset-{number}", **{f"k{n}": value for n, value in enumerate(odd[:4])})
    for number, value in enumerate(odd):
        give(value, key=value, more=str(number))
    annotation_labels.ingest_reported_labels("attack", {"asset-1": {"zone": ("a", "waf-1")}}, NOW)
    before = {row.asset: labels(row.asset) for row in Label.objects.filter(source="person")}
    before["asset-1"].pop("zone")
    table = label_files.read_table(b"".join(label_files.lines("attack")))
    assert edits(table) == before
    assert table.import_counts.counts == {"agents": 1}


# ---- agents -------------------------------------------------------------------------------------


def raw(detail: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(detail))


def vote(agent: str, time: int, **labels: Any) -> VoteValue:
    return VoteValue(agent=agent, state="clear", reported_at=0, time=time, offset=0, expires=None,
                     weight=1, detail=raw({"labels": labels} if labels else None))  # fmt: skip


def test_of_two_agents_the_newest_vote_counts() -> None:
    votes = [vote("a", 1, tier="old", zone="x"), vote("b", 2, tier="new"), vote("c", 3)]
    assert labels_of_votes(votes) == {"tier": ("new", "b"), "zone": ("x", "a")}


def test_a_silent_vote_gives_no_label() -> None:
    silent = structs.replace(vote("b", 2, tier="new"), silent=9)
    assert labels_of_votes([vote("a", 1, tier="old"), silent]) == {"tier": ("old", "a")}


def test_what_can_be_no_label_is_passed_over() -> None:
    assert labels_of_votes([vote("a", 1, Tier="x", state="y", tier=5, ok="z")]) == {
        "ok": ("z", "a")
    }
    bad = VoteValue(agent="a", state="clear", reported_at=0, time=1, offset=0, expires=None,
                    weight=1, detail=raw({"labels": ["tier"]}))  # fmt: skip
    assert labels_of_votes([bad]) == {}


def materialise(job: PlayedJob) -> None:
    job.run()
    worker = Materialiser(job.bus, job.topics, scenarios(), lambda: NOW)
    while worker.step():
        pass
    worker.close()


def test_a_report_gives_labels_and_they_go_when_no_vote_has_them(job: PlayedJob) -> None:
    for agent in ("waf-1", "waf-2"):
        detail = '{"labels":{"tier":"gold"}}' if agent == "waf-1" else None
        job.put("attack", Report("shop", agent, "clear", detail=detail))
    materialise(job)
    assert labels() == {"tier": "gold"}
    job.put("attack", Report("shop", "waf-1", "under-attack"))
    materialise(job)
    assert labels() == {}


def test_labels_of_people_outlast_a_purge_for_the_hidden_week(
    job: PlayedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.put("attack", Report("shop", "waf-1", "clear", detail='{"labels":{"zone":"a"}}'))
    materialise(job)
    give(tier="gold")
    give("kept", tier="gold")
    job.put("attack", Command("purge", "shop", "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55", "olga", ""))
    materialise(job)
    assert labels() == {"tier": "gold"}
    assert AssetState.objects.get(asset="shop").purged
    monkeypatch.setattr(tasks, "now_ms", lambda: NOW + 8 * 86_400_000)
    tasks.apply_retention()
    assert labels() == {}
    assert labels("kept") == {"tier": "gold"}
