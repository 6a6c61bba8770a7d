"""Status pages for customers: what they show, what they never show, and who makes them."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.notify.summaries import status_pages
from dashboard.notify.summaries.models import StatusPage
from dashboard.notify.summaries.status_pages import MOST_ASSETS, VISITS
from dashboard.watch.annotations.models import AGENT, PERSON, Label
from dashboard.watch.incidents.models import Incident, Window
from domain.records import Override
from support.histories.hostile import TEXTS, calm
from support.web.pages import text_of
from support.web.web_fixtures import bearer, error_of, forget_limits, make_user, show

pytestmark = pytest.mark.django_db

MINUTE, HOUR = 60_000, 3_600_000
MARKUP = "<script>alert(1)</script>"
FORM = {
    "title": "Acme", "slug": "acme", "scenarios": ["attack"], "labels": "customer=Acme",
    "days": "7", "published": "on",
}  # fmt: skip


@pytest.fixture(autouse=True)
def live(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Boards that are live; a test adds what is wrong with them."""
    forget_limits()
    problems: list[dict[str, Any]] = []
    monkeypatch.setattr(status_pages, "problems", lambda _now, _scenario: problems)
    return problems


def labelled(asset: str, scenario: str = "attack", source: str = PERSON) -> None:
    Label.objects.create(
        scenario=scenario, asset=asset, key="customer", value="Acme", source=source,
        name="olga", at=now_ms(),
    )  # fmt: skip


def put(asset: str, state: str = "clear", scenario: str = "attack", **more: Any) -> None:
    """A customer's asset on the board."""
    show(scenario, asset, state, **more)
    labelled(asset, scenario)


def made(**more: Any) -> StatusPage:
    given = {"title": "Acme", "slug": "acme", "scenarios": ["attack"], "published": True}
    labels = [["customer", "Acme"]]
    return StatusPage.objects.create(labels=labels, changed_at=now_ms(), **given | more)


def page(slug: str = "acme", **more: Any) -> Any:
    return Client().get(f"/status/{slug}/", **more)


def text(response: Any) -> str:
    """What is read, without tags."""
    body = re.sub(r"<head>.*</head>", "", response.content.decode(), flags=re.DOTALL)
    return text_of(body)


# ---- who sees what ------------------------------------------------------------------------------


def test_a_published_page_is_read_without_a_login_and_another_is_not_there() -> None:
    put("shop")
    made()
    made(slug="draft", published=False)
    response = page()
    assert response.status_code == 200
    assert "shop Working" in text(response)
    absent = page("draft")
    assert absent.status_code == 404
    assert absent.content == page("nobody-made-it").content
    assert page("x" * 300).status_code == 404


def test_only_assets_with_a_chosen_label_of_a_chosen_scenario_are_on_it() -> None:
    put("shop")
    put("192.0.2.0/25", "up", "connectivity")
    show("attack", "secret", "under-attack")
    show("attack", "claimed", "clear")
    labelled("claimed", source=AGENT)
    made()
    read = text(page())
    assert "shop" in read
    for name in ("192.0.2.0/25", "secret", "claimed"):
        assert name not in read


def test_an_agent_that_falls_silent_takes_no_asset_off_it() -> None:
    """What people said stays; a label of agents would go with their votes, and a red with it."""
    put("shop", "under-attack")
    labelled("shop", source=AGENT)
    made()
    Label.objects.filter(source=AGENT).delete()
    assert "shop Disrupted" in text(page())


def test_it_is_locked_and_found_by_no_search_and_knows_no_session() -> None:
    put("shop")
    made()
    response = page()
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'none'" in policy
    assert "unsafe" not in policy
    assert "noindex" in response["X-Robots-Tag"]
    assert response["Cache-Control"] == "public, max-age=5"
    assert not response.cookies
    assert "csrf" not in response.content.decode()
    assert "Log in" not in text(response)


def test_nothing_else_leaks(client: Client, user: User) -> None:
    """Names of agents and users, votes, reasons, states' own words: all hostile, none of it."""
    now = now_ms()
    put(
        MARKUP,
        "under-attack",
        override=Override(
            "under-attack", None, "olga-the-operator", "a-secret-reason", "c-1", 1_000
        ),
        unconfirmed=True,
        unconfirmed_reason="waf-secret is silent",
    )
    window = Window.objects.create(
        name=f"window-name{MARKUP}", why="a-secret-why", scenario="attack", covers="all",
        begin=now, end=now + HOUR, planned_end=now + HOUR, created_at=now, username="olga",
    )  # fmt: skip
    Incident.objects.create(
        scenario="attack", asset=MARKUP, place="1", began_at=now - HOUR, state="under-attack",
        worst="under-attack", acknowledged_at=now, acknowledged_by="olga-the-operator",
    )  # fmt: skip
    made(title=f"Acme {MARKUP}", intro=MARKUP, words={"attack": {"under-attack": f"Slow{MARKUP}"}})
    response = page()
    calm(response, MARKUP)
    read = response.content.decode()
    assert html.escape(MARKUP) in read
    for secret in (
        "olga", "waf-1", "waf-secret", "secret", window.name, "window-name", "Under attack",
        "under-attack", "Attacks", "attack.", "csrf", "/s/",
    ):  # fmt: skip
        assert secret not in read, secret


def is_address(text: str) -> bool:
    """Whether a path may hold a text as one of its parts."""
    return bool(text.strip()) and "/" not in text and "\ud800" not in text and len(text) < 1000


@pytest.mark.parametrize("slug", [*filter(is_address, TEXTS.values())])
def test_a_hostile_address_is_no_page(slug: str) -> None:
    assert Client().get(f"/status/{slug}/").status_code in (302, 404)


# ---- no false green -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "doubt",
    [
        {"disputed": "under-attack"},
        {"unconfirmed": True},
        {"override": Override("clear", None, "olga", "", "c-1", 1_000, underlying="under-attack")},
    ],
)
def test_a_good_state_in_doubt_is_being_checked(doubt: dict[str, Any]) -> None:
    put("shop", "clear", **doubt)
    made()
    read = text(page())
    assert "shop Being checked" in read
    assert "Working" not in read


def test_a_bad_state_in_doubt_stays_bad() -> None:
    put("shop", "under-attack", unconfirmed=True)
    made()
    assert "shop Disrupted being checked" in text(page())


def test_a_state_that_no_scenario_knows_is_not_known() -> None:
    put("shop", "unknown")
    made()
    assert "shop Not known now" in text(page())


def test_where_nobody_reports_nothing_is_said_to_work(monkeypatch: pytest.MonkeyPatch) -> None:
    put("shop")
    made()
    monkeypatch.setattr(status_pages, "unwatched_since", lambda _scenario, _now: 1_000)
    assert "shop Being checked" in text(page())


@pytest.mark.parametrize(("kind", "stale"), [("job", True), ("late", True), ("database", False)])
def test_a_page_that_is_not_live_says_so_and_since_when(live: Any, kind: str, stale: bool) -> None:
    put("shop")
    put("pay", "under-attack")
    made()
    live.append({"kind": kind, "stale": stale, "since": 1_790_000_000_000})
    response = page()
    read = text(response)
    assert "This page is not live since 2026-09-21 14:13:20 UTC." in read
    assert "pay Disrupted" in read
    assert "shop Not known now" in read
    assert "c-green" not in response.content.decode()


def test_before_anything_is_known_of_the_job_no_page_is_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dashboard.core.job.status import problems

    monkeypatch.setattr(status_pages, "problems", problems)
    put("shop")
    made()
    assert "This page is not live" in text(page())


def test_of_two_scenarios_the_worse_counts() -> None:
    put("shop")
    put("shop", "down", "connectivity")
    made(scenarios=["attack", "connectivity"])
    read = text(page())
    assert read.count("shop") == 1
    assert "shop Disrupted" in read


def test_a_page_without_assets_says_nothing_good() -> None:
    made()
    read = text(page())
    assert "The state of everything on this page is unknown." in read
    assert "Working" not in read


def test_of_what_is_not_listed_it_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_ASSETS == 500
    monkeypatch.setattr(status_pages, "MOST_ASSETS", 2)
    for name in ("a", "b", "c", "d"):
        put(name)
    put("e", unconfirmed=True)
    made()
    read = text(page())
    assert "There are more, which this page does not show." in read
    assert "e Being checked" in read
    assert "Working 1" in read


def test_windows_of_other_scenarios_crowd_out_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_pages, "MOST_WINDOWS", 1)
    put("shop")
    now = now_ms()
    for scenario, begin in (("connectivity", now), ("attack", now + HOUR)):
        Window.objects.create(
            name="swap", scenario=scenario, covers="all", begin=begin, end=begin + HOUR,
            planned_end=begin + HOUR, created_at=now,
        )  # fmt: skip
    made()
    assert "Maintenance" in text(page())


# ---- words, maintenance, incidents --------------------------------------------------------------


def test_states_have_the_words_that_were_chosen() -> None:
    put("shop", "under-attack")
    put("pay", "suspicious")
    made(words={"attack": {"under-attack": "Slow"}})
    read = text(page())
    assert "shop Slow" in read
    assert "pay Limited" in read


@pytest.mark.parametrize(("covers", "filter_"), [("all", ""), ("filter", "shop")])
def test_maintenance_is_announced_by_its_time_and_its_assets(covers: str, filter_: str) -> None:
    now = now_ms()
    put("shop")
    show("attack", "secret", "clear")
    Window.objects.create(
        name="racks", scenario="attack", covers=covers, filter=filter_, begin=now + HOUR,
        end=now + 2 * HOUR, planned_end=now + 2 * HOUR, created_at=now,
    )  # fmt: skip
    made()
    read = text(page())
    assert "Maintenance" in read
    assert re.search(r"UTC: shop", read)
    assert "racks" not in read
    assert "secret" not in read


def test_maintenance_of_others_is_not() -> None:
    now = now_ms()
    put("shop")
    Window.objects.create(
        name="racks", scenario="connectivity", covers="all", begin=now, end=now + HOUR,
        planned_end=now + HOUR, created_at=now,
    )  # fmt: skip
    made()
    assert "Maintenance" not in text(page())


def test_incidents_of_the_last_days_are_a_plain_list() -> None:
    now = now_ms()
    put("shop")

    def incident(asset: str, days: int) -> None:
        at = now - days * 24 * HOUR
        Incident.objects.create(
            scenario="attack", asset=asset, place=f"{asset}{days}", began_at=at,
            ended_at=at + 5 * MINUTE, state="suspicious", worst="under-attack",
        )  # fmt: skip

    incident("shop", 1)
    incident("shop", 9)
    incident("secret", 1)
    made()
    read = text(page())
    assert read.count("Disrupted , for 5 m") == 1
    assert "secret" not in read


# ---- cached, limited ----------------------------------------------------------------------------


def test_it_is_made_at_most_once_in_some_seconds(django_assert_num_queries: Any) -> None:
    put("shop")
    row = made()
    first = page()
    with django_assert_num_queries(1):
        assert page().content == first.content
    StatusPage.objects.filter(pk=row.pk).update(published=False)
    assert page().status_code == 404, "what is published no more is gone at once"


def test_one_network_may_not_ask_without_end(settings: Any) -> None:
    made()
    for n in range(VISITS.count):
        assert page(REMOTE_ADDR=f"2001:db8:0:1::{n:x}").status_code == 200
    refused = page(REMOTE_ADDR="2001:db8:0:1::ffff")
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 60
    assert "no-store" in refused["Cache-Control"]
    assert page(REMOTE_ADDR="2001:db8:0:2::1").status_code == 200


# ---- admins -------------------------------------------------------------------------------------


def test_an_admin_makes_changes_and_deletes_a_page(admin: Client) -> None:
    assert "No status page yet" in text(admin.get("/status-pages/"))
    response = admin.post("/status-pages/new/", FORM | {"words": "attack/under-attack=Slow"})
    assert response.status_code == 302
    row = StatusPage.objects.get()
    assert (row.labels, row.words) == ([["customer", "Acme"]], {"attack": {"under-attack": "Slow"}})
    put("shop", "under-attack")
    assert "shop Slow" in text(page())
    form = admin.get(f"/status-pages/{row.pk}/").context["form"]
    assert form["words"].value() == "attack/under-attack=Slow"
    assert admin.post(f"/status-pages/{row.pk}/", FORM | {"title": "Other"}).status_code == 302
    assert "Other" in text(page())
    assert "Disrupted" in text(page()), "the words are gone, and the cache with them"
    assert admin.post(f"/status-pages/{row.pk}/", {"do": "delete"}).status_code == 302
    assert page().status_code == 404
    actions = AuditEntry.objects.order_by("pk").values_list("action", "target")
    assert list(actions) == [
        ("status-page.created", "acme"),
        ("status-page.changed", "acme"),
        ("status-page.deleted", "acme"),
    ]


def test_a_new_page_is_not_published_unless_somebody_says_so(admin: Client) -> None:
    form = {name: value for name, value in FORM.items() if name != "published"}
    admin.post("/status-pages/new/", form)
    assert page().status_code == 404


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("slug", "Acme Shop", "Expected small letters, digits and single hyphens."),
        ("slug", "taken", "Expected a name that no other page has."),
        ("labels", "customer", "customer: expected a pair, such as customer=Acme."),
        ("labels", "Customer=Acme", "Customer=Acme: key: expected a small letter"),
        ("words", "attack/none=x", "attack/none: expected a scenario and one of its states."),
        ("words", "attack/clear=", "attack/clear: expected 1 to 60 printable characters."),
        ("scenarios", [], "This field is required."),
        ("days", "91", "Ensure this value is less than or equal to 90."),
    ],
)
def test_what_is_wrong_is_named_beside_its_field(
    admin: Client, field: str, value: Any, says: str
) -> None:
    made(slug="taken")
    response = admin.post("/status-pages/new/", FORM | {field: value})
    assert response.status_code == 422
    assert says in html.unescape(error_of(response, field))
    assert 'value="Acme"' in response.content.decode(), "what was typed is kept"
    assert StatusPage.objects.count() == 1


# ---- programs -----------------------------------------------------------------------------------

API = "/api/v1/status-pages"
BODY = {"title": "Acme", "scenarios": ["attack"], "labels": ["customer=Acme"]}


def test_a_program_does_what_the_form_does() -> None:
    headers = bearer(make_user("admin"))

    def ask(method: str, path: str = f"{API}/acme", body: Any = None) -> Any:
        call = getattr(Client(), method)
        return call(path, body, content_type="application/json", headers=headers)

    stored = ask("put", body=BODY | {"published": True, "words": {"attack": {"clear": "Fine"}}})
    assert stored.status_code == 200, stored.content
    put("shop")
    assert "shop Fine" in text(page())
    [listed] = Client().get(API, headers=headers).json()
    assert listed | {"changed_at": 0} == BODY | {
        "slug": "acme", "intro": "", "words": {"attack": {"clear": "Fine"}}, "days": 7,
        "published": True, "changed_at": 0,
    }  # fmt: skip
    assert ask("put", body=BODY).json()["published"] is False
    refused = ask("put", body=BODY | {"labels": ["customer"]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "labels")
    assert ask("delete").status_code == 200
    assert ask("delete").status_code == 404


@pytest.mark.parametrize("field", ["title", "intro", "labels", "words", "scenarios"])
@pytest.mark.parametrize("value", [*TEXTS.values(), [], {}, None, 1], ids=str)
@pytest.mark.spread(12)
def test_a_hostile_body_is_refused_or_harmless(field: str, value: Any) -> None:
    headers = bearer(make_user("admin"))
    given = {"labels": [value], "words": {"attack": {"clear": value}}}.get(field, value)
    body = BODY | {"published": True, field: given}
    try:
        response = Client().put(
            f"{API}/acme", body, content_type="application/json", headers=headers
        )
    except UnicodeEncodeError:
        return  # no JSON text has it
    assert response.status_code in (200, 400, 422), response.content[:300]
    if response.status_code == 200:
        put("shop")
        calm(page(), str(value))


def test_every_word_of_the_defaults_hides_the_states_own() -> None:
    labels = {spec.label for each in scenarios().values() for spec in each.states}
    assert labels.isdisjoint(status_pages.WORDS.values())
