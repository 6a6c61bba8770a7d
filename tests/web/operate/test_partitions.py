"""The page of partitions and the look-up of a name: what they say in health, lag and silence."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from bus.base import ConsumerRecord
from dashboard.board.live.live_view import live_view
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from support.web.heartbeats import heartbeat, store
from support.web.pages import text_of
from support.web.web_fixtures import bearer, make_user
from support.web.world import World
from wire.job import Heartbeat, encode
from wire.partitioner import murmur2, partition_of

pytestmark = [pytest.mark.django_db, pytest.mark.role("operator")]

ASSETS = ("shop.example", "10.0.0.0/8", "Zürich · 東京", "a b+c", "'\"<>\\", "\u202eevil")


def text(body: str) -> str:
    plain = re.sub(r"<(script|template).*?</\1>", " ", body, flags=re.DOTALL)
    return text_of(plain)


def page(client: Client, **query: str) -> str:
    response = client.get("/partitions/", query)
    assert response.status_code == 200
    return response.content.decode()


def line(body: str, key: str) -> list[str]:
    """The cells of one row, as text."""
    (row,) = re.findall(rf'<tr data-key="{re.escape(key)}".*?</tr>', body, re.DOTALL)
    return [text(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]


def steps(body: str) -> dict[str, str]:
    """What the look-up says, by step."""
    entries = re.findall(r'<li data-key="(\w+)"><h3>.*?</h3>(.*?)</li>', body, re.DOTALL)
    return {key: text(said) for key, said in entries}


def beat(partition: int = 0, scenario: str = "attack", **more: Any) -> Heartbeat:
    at = now_ms()
    fields = {
        "epoch": 2, "host": "worker-1", "log_time": at - 400, "offset": 6, "assets": 12,
        "timers": 5, "records": 40,
    }  # fmt: skip
    return heartbeat(at, scenario, partition, **fields | more)


def hear(beats: list[Heartbeat], at: int) -> None:
    """As the tailer tells of heartbeats that were appended at `at`."""
    signs = live_view().signs
    for offset, one in enumerate(beats):
        signs.record_heartbeat(encode(one), ("job.buckets", 0), offset, at)
    signs.reached(now_ms())


def every(**more: Any) -> list[Heartbeat]:
    return [
        beat(at, name, **more)
        for name, known in scenarios().items()
        for at in range(known.partitions)
    ]


def fill(world: World, topic: str, number: int, partition: int = 0) -> None:
    producer = world.gateway.producer()
    for _ in range(number):
        producer.send_and_wait(topic, b"shop", b"{}", partition=partition)


# ---- the table ------------------------------------------------------------------------------


def test_a_partition_with_its_log_its_bucket_and_its_lag(client: Client, world: World):
    fill(world, "attack.reports", 20, partition=2)
    world.bus.truncate("attack.reports", 2, 4)
    hear(every(), now_ms())
    cells = line(page(client), "attack.reports/2")
    assert cells[0] == "attack.reports/2"
    assert cells[2] == "14"  # 21 with the rule, of which 0 to 6 are applied
    assert re.fullmatch(r"\d\.\d s", cells[3])
    assert cells[8:13] == ["12", "5", "4", "21", "6"]
    assert cells[14:] == ["kernel", "2", "driver", "worker-1"]


def test_every_partition_of_reports_and_of_states_is_there(client: Client, world: World):
    body = page(client)
    for name, known in scenarios().items():
        for topic in (f"{name}.reports", f"{name}.states"):
            for at in range(known.partitions):
                assert line(body, f"{topic}/{at}")


def test_rates_and_shares_come_from_heartbeats(client: Client, world: World):
    now = now_ms()
    for ago in range(12, -1, -1):
        at = now - 1_000 * ago
        beats = [beat(0, records=90, log_time=at), beat(1, records=10, log_time=at)]
        hear([*beats, beat(2, records=0, log_time=at), beat(3, records=0, log_time=at)], at)
    body = page(client)
    hot, calm, idle = (line(body, f"attack.reports/{at}") for at in (0, 1, 2))
    assert (hot[1], hot[5], hot[6]) == ("hot", "90.0", "3.6 ×")
    assert (calm[1], calm[5], calm[6]) == ("well", "10.0", "0.4 ×")
    assert (idle[1], idle[5], idle[6]) == ("idle", "0.0", "0.0 ×")
    assert "Attacks 1 hot 2 idle Reports/s 100" in text(body)


def test_what_stands_out_is_told_by_icon_and_word(client: Client, world: World):
    hear([*every(), beat(1, log_time=now_ms() - 90_000)], now_ms())
    body = page(client)
    (row,) = re.findall(r'<tr data-key="attack.reports/1".*?</tr>', body, re.DOTALL)
    assert re.search(r'c-amber".*?#i-warning.*?<span class="word">behind</span>', row)
    assert "1 m 30 s" in text(row)
    assert "States are late in attack/1 since" in text(body)


def test_a_partition_that_catches_up_says_by_when(client: Client, world: World):
    now = now_ms()
    for ago in range(10, -1, -1):
        at = now - 1_000 * ago
        hear([beat(0, log_time=at - 30_000 - 1_000 * ago)], at)
    cells = line(page(client), "attack.reports/0")
    assert cells[3] == "30 s falling"
    assert cells[4] == "30 s"


# ---- when something is away -----------------------------------------------------------------


def test_before_the_job_was_heard_of(client: Client, world: World):
    body = page(client)
    assert "No heartbeat has come from the job yet" in text(body)
    cells = line(body, "attack.reports/0")
    assert cells[1] == "unknown"
    assert cells[2:10] == ["–"] * 8
    assert cells[11] == "1"


def test_a_silent_job_keeps_its_last_figures_and_says_since_when(client: Client, world: World):
    hear(every(log_time=now_ms() - 60_000), now_ms() - 60_000)
    body = page(client)
    assert re.search(r"The job has not answered since \d\d:\d\d:\d\d UTC", text(body))
    cells = line(body, "attack.reports/0")
    assert cells[1] == "silent"
    assert re.fullmatch(r"1 m \d\d s rising", cells[3])
    assert (cells[5], cells[8], cells[17]) == ("–", "12", "worker-1")


def test_figures_of_a_database_when_this_process_has_heard_nothing(client: Client, world: World):
    store(beat())
    cells = line(page(client), "attack.reports/0")
    assert (cells[8], cells[17]) == ("12", "worker-1")


def test_kafka_away_keeps_the_last_ends_and_says_since_when(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dashboard.operate.console.views.SHARED_MS", 0)
    fill(world, "attack.reports", 20)
    hear(every(), now_ms())
    before = line(page(client), "attack.reports/0")
    world.bus.stop()
    body = page(client)
    assert re.search(r"Kafka does not answer since \d\d:\d\d:\d\d UTC", text(body))
    assert line(body, "attack.reports/0")[10:12] == before[10:12] == ["0", "21"]
    world.bus.start()
    assert "Kafka does not answer" not in text(page(client))


def test_kafka_away_from_the_beginning(client: Client, world: World):
    world.bus.stop()
    hear(every(), now_ms())
    body = page(client)
    assert "Ends of logs and lags are not known" in text(body)
    assert line(body, "attack.reports/0")[10:13] == ["–", "–", "6"]


def test_the_database_behind_the_states(client: Client, world: World):
    fill(world, "attack.states", 7, partition=1)
    assert line(page(client), "attack.states/1") == ["attack.states/1", "7", "0", "7", "–"]


def test_page_and_rest_agree(client: Client, world: World):
    fill(world, "attack.reports", 20)
    hear(every(), now_ms())
    cells = line(page(client), "attack.reports/0")
    answer = Client().get("/api/v1/partitions", headers=bearer(make_user("admin"))).json()
    (row,) = (
        r for r in answer["partitions"] if (r["topic"], r["partition"]) == ("attack.reports", 0)
    )
    figures = ("lag", "assets", "timers", "begin", "end", "offset")
    assert [str(row[name]) for name in figures] == [cells[2], *cells[8:13]]
    assert row["signs"] == [cells[1]]
    assert row["host"] == cells[17]


# ---- where an asset is ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ASSETS)
def test_the_way_of_an_asset(client: Client, world: World, name: str):
    world.report(name, "clear")
    world.write()
    body = page(client, scenario="attack", asset=name)
    at = partition_of(name.encode(), 4)
    said = steps(body)
    assert said["name"] == f"{name} {len(name.encode())} bytes of UTF-8"
    assert f"0x{murmur2(name.encode()):08x}" in said["hash"]
    assert f"mod 4 = {at}" in said["hash"]
    assert said["partition"].startswith(f"attack.reports/{at} offsets 0 to 2")
    assert said["bucket"] == f"attack/{at} python, epoch 1; executor driver on here"
    assert said["reached"].startswith("offset 2 0 records and ")
    assert re.match(r"Clear version 1\.2\.0 , changed \d\d:\d\d:\d\d UTC", said["row"])
    assert f'href="/s/attack/record/{at}/2/"' in body
    assert f'href="/s/attack/a/{quote(name, safe="")}/"' in body
    assert where_it_went(world, name) == at
    chosen = re.findall(r'<tr data-key="([^"]+)" class="chosen">', body)
    assert chosen == [f"attack.reports/{at}"]


def where_it_went(world: World, name: str) -> int:
    """The partition of the log that really holds the asset's reports."""
    places = {("attack.reports", at): 0 for at in range(4)}
    messages: list[ConsumerRecord] = world.bus.reader(places).poll(0, 1_000)
    (partition,) = {m.partition for m in messages if m.key == name.encode()}
    return partition


def test_a_name_that_is_not_on_the_board_yet_has_a_way(client: Client, world: World):
    said = steps(page(client, scenario="orders", asset="order 7"))
    at = partition_of(b"order 7", 4)
    assert said["partition"].startswith(f"orders.reports/{at}")
    assert said["bucket"].startswith("no heartbeat")
    assert said["row"].startswith("not on the board")


def test_a_purged_asset_says_so(client: Client, world: World):
    world.report("shop", "clear", "waf-1")
    world.command("purge", "shop")
    world.write()
    said = steps(page(client, scenario="attack", asset="shop"))
    assert re.match(r"purged version 1\.2\.\d+ , \d\d:\d\d:\d\d UTC", said["row"])


def test_the_way_is_live(client: Client, world: World):
    address = "/partitions/?scenario=attack&asset=a%20b%2Bc"
    part = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert f'data-refresh="{html.escape(address)}"' in part
    assert "not on the board" in steps(part)["row"]
    world.report("a b+c", "clear")
    world.tail()
    part = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert steps(part)["row"].startswith("Clear version")


@pytest.mark.parametrize(
    ("scenario", "name", "error"),
    [
        ("attack", "", "Expected a name: 1 to 255 characters."),
        ("attack", "x" * 300, "Expected at most 255 characters, got 300."),
        ("attack", "a\nb", "Expected a name without control characters."),
        ("attack", "a\0b", "Null characters are not allowed."),
        ("nothing", "shop", "Expected one of: attack, connectivity, orders, clients, customers."),
        ("", "shop", "Expected one of: attack, connectivity, orders, clients, customers."),
    ],
)
def test_what_is_no_name_is_told_and_kept(
    client: Client, world: World, scenario: str, name: str, error: str
):
    response = client.get("/partitions/", {"scenario": scenario, "asset": name})
    body = response.content.decode()
    assert response.status_code == 422
    assert error in text(body)
    assert 'aria-invalid="true"' in body
    if name and "\0" not in name:
        assert f'name="asset" value="{html.escape(name)}"' in body
    assert 'data-refresh="/partitions/"' in body  # what is no name is not asked for again
    assert steps(body) == {}


def test_the_chosen_scenario_is_kept(client: Client, world: World):
    assert '<option value="orders" selected>' in page(client, scenario="orders", asset="7")
    assert '<option value="orders" selected>' in page(client, scenario="orders")


def test_an_assets_page_leads_to_where_it_is(client: Client, world: World):
    world.report("10.0.0.0/8 &", "clear")
    world.write()
    body = client.get(f"/s/attack/a/{quote('10.0.0.0/8 &', safe='')}/").content.decode()
    (address,) = re.findall(r'href="(/partitions/\?[^"]+)"', body)
    look_up = client.get(html.unescape(address)).content.decode()
    assert steps(look_up)["name"].startswith("10.0.0.0/8 &")


def test_where_an_asset_that_is_not_on_the_board_would_be(client: Client, world: World):
    body = client.get("/s/attack/a/never.seen/").content.decode()
    (address,) = re.findall(r'href="(/partitions/\?[^"]+)"', body)
    assert "not on the board" in steps(client.get(html.unescape(address)).content.decode())["row"]
