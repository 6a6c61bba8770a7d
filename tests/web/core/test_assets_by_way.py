"""The assets of any scenario over REST, asked of each store: the same record, and what is
refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from bus.base import BusError
from bus.memory import MemoryBus
from dashboard.core.common.times import now_ms
from dashboard.core.states import stores
from dashboard.core.states.stores import Ends, missing_copies
from dashboard.serve.api import health
from domain.records import Report
from stores.base import BEHIND_MS
from support.web.web_fixtures import bearer, copied, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

ASSETS = "scenarios/attack/assets"
Ask = Callable[..., Any]


@pytest.fixture
def sites(world: World) -> World:
    """A site that is disputed and has an agent in doubt, one that is clear, one under attack."""
    world.report("clear", "clear")
    world.report("shop", "clear")
    world.report("shop", "under-attack", "waf-3")
    world.job.put("attack", Report("shop", "waf-4", "burning", now_ms(), '{"rps": 1.5}'))
    world.report("under", "under-attack")
    world.write()
    return world


@pytest.fixture
def got(db: None) -> Ask:
    """Asks the API as a manager."""
    manager = bearer(make_user("manager"))

    def ask(path: str, status: int = 200) -> Any:
        response = Client().get(f"/api/v1/{path}", headers=manager)
        assert response.status_code == status, response.content
        return response.json()

    return ask


def reported(record: dict[str, Any]) -> dict[str, Any]:
    """What the job has said of an asset, without what the board adds."""
    return {name: record[name] for name in record if name not in ("labels", "details", "links")}


@pytest.mark.parametrize("via", ["database", "global"])
def test_each_way_answers_with_the_record_of_the_board(got: Ask, sites: World, via: str):
    bare = {each["asset"]: each for each in got(ASSETS)["items"]}
    assert bare["shop"]["disputed"] == "burning"
    assert [doubt["agent"] for doubt in bare["shop"]["doubts"]] == ["waf-4"]
    with copied("attack"):
        for name, record in bare.items():
            answer = got(f"{ASSETS}/{name}?via={via}")
            assert answer["asset"] == reported(record)
            assert (answer["via"], answer["version"]) == (via, record["version"])
            assert answer["complete"]
            assert answer["as_of"] <= now_ms()
            assert 0 < answer["took_ms"] < 5_000


@pytest.mark.parametrize("via", ["database", "global"])
def test_all_assets_come_by_name_a_page_at_a_time(got: Ask, sites: World, via: str):
    with copied("attack"):
        first = got(f"{ASSETS}?via={via}&limit=2")
        rest = got(f"{ASSETS}?via={via}&limit=2&after={first['next']}")
    assert [each["asset"] for each in first["items"]] == ["clear", "shop"]
    assert (first["count"], first["next"], first["complete"]) == (3, "shop", True)
    assert [each["asset"] for each in rest["items"]] == ["under"]
    assert rest["next"] is None
    assert first["items"] + rest["items"] == [reported(each) for each in got(ASSETS)["items"]]


def test_the_database_takes_filters_by_this_way_too(got: Ask, sites: World):
    answer = got(f"{ASSETS}?via=database&state=clear&doubt=doubt")
    assert [each["asset"] for each in answer["items"]] == ["shop"]
    assert (answer["complete"], answer["count"], answer["next"]) == (True, None, None)


def test_the_copy_answers_sooner_than_the_database(got: Ask, sites: World):
    with copied("attack"):
        by_turns = [
            [got(f"{ASSETS}/shop?via={via}")["took_ms"] for via in ("global", "database")]
            for _ in range(20)
        ]
    copy, database = zip(*by_turns, strict=True)
    assert median(copy) < median(database)


def test_a_copy_follows_what_changes(got: Ask, sites: World):
    with copied("attack") as copy:
        sites.command("set", "clear", state="suspicious")
        sites.write()
        while copy.feed.step():
            pass
        answer = got(f"{ASSETS}/clear?via=global")
    assert answer["asset"]["state"] == "suspicious"
    assert answer["asset"]["override"]["user"] == "olga"


@pytest.mark.parametrize(
    ("path", "status", "reason", "names"),
    [
        ("attack/assets/nobody?via=database", 404, "unknown-asset", "nobody"),
        ("attack/assets/nobody?via=global", 404, "unknown-asset", "nobody"),
        ("nothing/assets/shop?via=global", 404, "unknown-scenario", "attack"),
        ("attack/assets/shop?via=cache", 404, "store-not-run", "TALLYBOARD_REDIS_URL"),
        ("attack/assets/shop?via=owner", 404, "store-not-run", "TALLYBOARD_STORES"),
        ("attack/assets?via=owner", 404, "store-not-run", "TALLYBOARD_STORES"),
        ("clients/assets/c?via=global", 404, "store-not-run", "TALLYBOARD_STORES_SCENARIOS"),
        ("clients/assets?via=cache", 404, "store-not-run", "TALLYBOARD_STORES_SCENARIOS"),
        ("orders/assets/A-1?via=global", 422, "invalid", "GET /api/v1/orders"),
        ("attack/assets/shop?via=elsewhere", 422, "invalid", "via"),
        ("attack/assets?via=global&q=shop", 422, "invalid", "find names alone"),
        ("attack/assets?via=cache&state=clear", 422, "invalid", "find names alone"),
        (
            "attack/assets?via=global&doubt=disputed",
            422,
            "invalid",
            "find names alone",
        ),
    ],
)
def test_what_is_not_served_says_which_setting(
    got: Ask, sites: World, path: str, status: int, reason: str, names: str
):
    with copied("attack"):
        problem = got(f"scenarios/{path}", status)
    assert problem["reason"] == reason
    assert names in f"{problem}"


def test_the_setting_says_which_scenarios_a_process_copies(got: Ask, sites: World, settings):
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"stores_scenarios": "orders"})
    stores.forget()
    problem = got(f"{ASSETS}/shop?via=global", 404)
    assert "add it to TALLYBOARD_STORES_SCENARIOS (now orders)" in problem["detail"]
    assert got(f"{ASSETS}/shop?via=database")["asset"]["asset"] == "shop"


def test_a_copy_that_has_not_read_all_answers_nothing(got: Ask, sites: World):
    with copied("attack") as copy:
        copy.feed.table.set_level(0, False)
        assert got(f"{ASSETS}?via=global", 503)["reason"] == "store-not-ready"


@pytest.mark.parametrize("via", ["database", "global"])
def test_what_is_behind_says_since_when_and_denies_nothing(
    got: Ask, sites: World, via: str, monkeypatch: pytest.MonkeyPatch
):
    with copied("attack"):
        before = got(f"{ASSETS}/shop?via={via}")
        assert before["complete"]
        sites.report("new", "under-attack")
        sites.job.run()  # neither the copy nor the database has it yet

        def stands_still(*_: Any, **__: Any) -> Any:
            raise BusError("it stands still")

        monkeypatch.setattr(MemoryBus, "offsets", stands_still)
        later = now_ms() + BEHIND_MS + 2_000
        monkeypatch.setattr("stores.base.now_ms", lambda: later)
        for name, known in (("shop", True), ("new", False)):
            answer = got(f"{ASSETS}/{name}?via={via}")
            assert (answer["complete"], answer["asset"] is not None) == (False, known)
            assert answer["as_of"] <= later - BEHIND_MS
        many = got(f"{ASSETS}?via={via}")
    assert not many["complete"]


def test_a_database_that_always_runs_a_little_behind_knows_by_how_much(
    monkeypatch: pytest.MonkeyPatch,
):
    clock, looks = count(1_000, 1_000), count(10, 10)
    monkeypatch.setattr("dashboard.core.states.stores.now_ms", lambda: next(clock))
    bus = SimpleNamespace(offsets=lambda *_, **__: {("t", 0): (0, next(looks))})
    ends = Ends(SimpleNamespace(bus=bus), "t")  # type: ignore[arg-type]
    times = [ends.as_of({0: 10 * (number - 2)}) for number in range(20)]
    assert times[:3] == [None, None, None]
    assert times[10:] == [1_000 * (number - 2) for number in range(10, 20)]
    far = [ends.as_of({0: 170}) for _ in range(20)]
    assert far == [times[-1]] * 20, "what does not move on knows since when"


def test_the_document_tells_the_ways_and_the_default(client: Client):
    document = client.get("/api/v1/openapi.json").json()
    for path in (
        "/api/v1/scenarios/{scenario}/assets",
        "/api/v1/scenarios/{scenario}/assets/{asset}",
    ):
        parameters = document["paths"][path]["get"]["parameters"]
        [via] = [each for each in parameters if each["name"] == "via"]
        assert "By default the database answers" in via["description"]
        assert {"global", "owner", "cache", "database"} <= set(str(via["schema"]).split("'"))


def test_a_copy_that_does_not_have_all_is_a_reason_not_to_be_ready(
    monkeypatch: pytest.MonkeyPatch,
):
    fare = {"attack": "7 s behind its log", "orders": ""}
    behind = {name: SimpleNamespace(behind=lambda why=why: why) for name, why in fare.items()}
    monkeypatch.setattr(stores, "stored_scenarios", lambda: ["attack", "orders"])
    monkeypatch.setattr(stores, "global_store", behind.__getitem__)
    assert missing_copies() == ["copy of attack: 7 s behind its log"]
    assert health.missing_copies() == missing_copies()
