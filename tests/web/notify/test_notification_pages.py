"""The pages of notifications: rules, channels, rotas, messages, and what a message's link opens."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.accounts.encryption import unseal
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import HOUR_MS, MINUTE_MS, field_text, now_ms
from dashboard.notify.notifications import rule_forms
from dashboard.notify.notifications.models import (
    GIVEN_UP,
    HELD,
    SENT,
    Attempt,
    Channel,
    Group,
    GroupIncident,
    Message,
    Rota,
    RotaShift,
    Rule,
)
from dashboard.watch.incidents.models import Incident
from domain.notifications.rule_parser import rule_from_plain
from support.web.rotas import make_rota
from support.web.web_fixtures import bearer, error_of, logged_in, logged_in_as, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

RULES, CHANNELS, ROTAS = (
    "/notifications/rules/",
    "/notifications/channels/",
    "/notifications/rotas/",
)
MESSAGES = "/notifications/messages/"
REST = "/api/v1/notifications/rules"


@pytest.fixture
def rule(user: User, channel: Channel) -> Rule:
    plain = {"scenarios": ["attack"], "stages": [{"channels": [channel.pk]}]}
    return rule_forms.create_rule(user, "Attacks", rule_from_plain(plain), True, now_ms())


def fields(channel: Channel, **more: Any) -> dict[str, Any]:
    """A rule's form as a browser sends it."""
    return {
        "name": "Night", "enabled": "on", "scenarios": ["attack"], "at_least": "under-attack",
        "labels": "tier=gold\ntier=silver", "after": "2m", "group_by": "scenario, customer",
        "window": "30s", "repeat": "1h", "resolved": "on", "most": "10", "per": "1h",
        "hours_begin": "18:00", "hours_end": "06:00", "hours_zone": "Europe/Berlin",
        "hours_days": ["0", "4"], "quiet_begin": "", "quiet_end": "", "quiet_zone": "UTC",
        "stage-TOTAL_FORMS": "3", "stage-INITIAL_FORMS": "3",
        "stage-0-after": "0s", "stage-0-targets": [f"channel:{channel.pk}"],
        "stage-1-after": "", "stage-2-after": "10m", "stage-2-targets": [f"channel:{channel.pk}"],
    } | more  # fmt: skip


# ---- rules ------------------------------------------------------------------------------------


def test_a_rule_is_written_by_its_form(client: Client, channel: Channel):
    assert "No rule yet" in client.get(RULES).content.decode()
    assert client.get(f"{RULES}new/").status_code == 200
    answer = client.post(f"{RULES}new/", fields(channel, store="1"))
    assert answer.status_code == 302
    rule = rule_from_plain(Rule.objects.get().definition)
    assert rule.agents == ()
    assert rule.labels == (("tier", "gold"), ("tier", "silver"))
    assert (rule.after_ms, rule.repeat_ms) == (2 * MINUTE_MS, HOUR_MS)
    assert [stage.after_ms for stage in rule.stages] == [0, 10 * MINUTE_MS]
    assert rule.hours is not None
    assert (rule.hours.zone, rule.hours.days) == ("Europe/Berlin", frozenset({0, 4}))
    assert rule.quiet is None
    assert AuditEntry.objects.filter(action="notify.rule.created", target="Night").exists()


def test_no_scenario_and_no_day_are_not_all_of_them(client: Client, channel: Channel):
    new = client.get(f"{RULES}new/").context["form"]
    assert not new["scenarios"].value()
    assert len(new["hours_days"].value()) == 7
    for name, expected in (
        ("scenarios", "“All scenarios” is one of"),
        ("hours_days", "Expected days"),
    ):
        sent = fields(channel, store="1", **{name: []})
        assert expected in error_of(client.post(f"{RULES}new/", sent), name)
    assert not Rule.objects.exists()


def test_all_scenarios_is_a_choice(client: Client, channel: Channel):
    client.post(f"{RULES}new/", fields(channel, store="1", scenarios=["*"]))
    rule = Rule.objects.get()
    assert rule_from_plain(rule.definition).scenarios == ()
    form = client.get(f"{RULES}{rule.pk}/edit/").context["form"]
    assert form["scenarios"].value() == ["*"]


def test_programs_choose_scenarios_too(channel: Channel):
    headers, stages = bearer(make_user("operator")), [{"channels": [channel.pk]}]
    body: dict[str, Any] = {"name": "All", "definition": {"scenarios": [], "stages": stages}}
    refused = Client().post(REST, body, "application/json", headers=headers)
    assert refused.status_code == 422
    assert "* for all of them" in refused.json()["detail"]
    body["definition"]["scenarios"] = ["*"]
    made = Client().post(REST, body, "application/json", headers=headers).json()
    assert made["definition"]["scenarios"] == ["*"]


def test_a_misspelt_act_changes_no_rule(client: Client, rule: Rule):
    page = client.post(f"{RULES}{rule.pk}/act/", {"do": "enabel"}, follow=True)
    assert "do: expected test, enable, disable, retire" in page.content.decode()
    rule.refresh_from_db()
    assert rule.enabled


def test_a_stored_rule_comes_back_into_its_form(client: Client, channel: Channel):
    client.post(f"{RULES}new/", fields(channel, store="1"))
    rule = Rule.objects.get()
    page: Any = client.get(f"{RULES}{rule.pk}/edit/")
    form, stages = page.context["form"], page.context["stages"]
    sent = {bound.html_name: bound.value() for bound in form if bound.value() is not None}
    for stage in stages:
        sent |= {bound.html_name: bound.value() for bound in stage if bound.value()}
    sent = {key: value for key, value in sent.items() if value is not False}
    management = {"stage-TOTAL_FORMS": len(stages), "stage-INITIAL_FORMS": len(stages)}
    before = rule.definition
    assert client.post(f"{RULES}{rule.pk}/edit/", sent | management).status_code == 302
    rule.refresh_from_db()
    assert rule.definition == before
    assert rule.revision == 1, "nothing has changed"


def test_a_rule_about_agents_is_written_by_its_form(client: Client, channel: Channel):
    kinds = ["agent-refused", "agent-silent"]
    sent = fields(channel, store="1", agents=kinds)  # and none about incidents or tasks
    assert client.post(f"{RULES}new/", sent).status_code == 302
    rule = Rule.objects.get()
    value = rule_from_plain(rule.definition)
    assert (value.agents, value.incidents, value.tasks) == (tuple(kinds), False, False)
    page = client.get(f"{RULES}{rule.pk}/").content.decode()
    words = "Attacks; Reports refused; Silent everywhere"
    assert f"<dt>Agents</dt><dd><bdi>{words}</bdi></dd>" in page
    assert "<dt>Which incidents</dt><dd><bdi>none</bdi></dd>" in page
    form: Any = client.get(f"{RULES}{rule.pk}/edit/").context["form"]
    assert form["agents"].value() == kinds
    assert not form["incidents"].value()
    wrong = fields(channel, store="1", agents=["agent-ill"], name="Other")
    assert "Expected some of the choices" in error_of(client.post(f"{RULES}new/", wrong), "agents")


def test_a_rule_of_an_earlier_release_comes_into_its_form(client: Client, rule: Rule):
    for key in ("incidents", "agents"):
        del rule.definition[key]
    rule.save()
    form: Any = client.get(f"{RULES}{rule.pk}/edit/").context["form"]
    assert form["incidents"].value()
    assert form["agents"].value() == []


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("labels", "tier", "Expected labels as key=value"),
        ("after", "soon", "Expected a duration"),
        ("at_least", "lost", "Select a valid choice"),
        ("hours_begin", "25:00", "Expected times of day"),
        ("hours_zone", "Mars", ""),
        ("most", "0", "Expected a number from 1"),
        ("repeat", "1s", "Expected a number"),
        ("name", "", "required"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_kept(
    client: Client, channel: Channel, field: str, value: str, expected: str
):
    answer = client.post(f"{RULES}new/", fields(channel, **{field: value}))
    assert answer.status_code == 422
    assert expected in answer.content.decode()
    if expected:
        assert expected in error_of(answer, field)
    assert not Rule.objects.exists()


@pytest.mark.parametrize(
    "stages",
    [
        {"stage-0-targets": [], "stage-2-targets": []},
        {"stage-0-targets": ["channel:4711"]},
        {"stage-0-after": "5m"},
        {"stage-2-after": "0s"},
        {"stage-TOTAL_FORMS": "9999"},
    ],
)
def test_stages_that_are_none_are_refused(client: Client, channel: Channel, stages: dict[str, Any]):
    assert client.post(f"{RULES}new/", fields(channel, **stages)).status_code == 422
    assert not Rule.objects.exists()


def test_a_name_is_one_rules_alone(client: Client, channel: Channel, rule: Rule):
    answer = client.post(f"{RULES}new/", fields(channel, name="Attacks"))
    assert "no other rule has" in error_of(answer, "name")


def test_of_two_changes_at_once_the_later_is_told(client: Client, channel: Channel, rule: Rule):
    path = f"{RULES}{rule.pk}/edit/"
    assert client.post(path, fields(channel, revision="1")).status_code == 302
    answer = client.post(path, fields(channel, revision="1", name="Other"))
    assert answer.status_code == 422
    assert "changed the rule meanwhile" in answer.content.decode()


def test_a_preview_stores_nothing(client: Client, channel: Channel):
    answer = client.post(f"{RULES}new/", fields(channel, preview="1"))
    assert answer.status_code == 200
    assert "would have sent" in answer.content.decode()
    assert 'value="Night"' in answer.content.decode()
    assert not Rule.objects.exists()


def test_a_rule_is_switched_tried_and_retired(client: Client, rule: Rule):
    act = f"{RULES}{rule.pk}/act/"
    assert "Attacks" in client.get(f"{RULES}{rule.pk}/").content.decode()
    client.post(act, {"do": "disable"})
    rule.refresh_from_db()
    assert not rule.enabled
    client.post(act, {"do": "enable"})
    client.post(act, {"do": "test"})
    sent = Message.objects.get()
    assert (sent.kind, sent.recipient, sent.rule) == ("test", "soc@example.org", rule)
    client.post(act, {"do": "retire"})
    assert client.get(f"{RULES}{rule.pk}/").status_code == 404
    assert Message.objects.get().rule == rule
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"notify.rule.disabled", "notify.rule.enabled", "notify.rule.retired"} <= actions


# ---- channels ---------------------------------------------------------------------------------


def test_only_admins_have_the_channels(client: Client):
    assert client.get(CHANNELS).status_code == 403
    assert logged_in_as("admin").get(CHANNELS).status_code == 200


def test_a_webhooks_key_is_shown_once_and_kept_sealed():
    admin = logged_in_as("admin")
    form = {"name": "Hook", "address": "https://example.org/hook", "most": "5", "window": "1h"}
    body = admin.post(f"{CHANNELS}new/webhook/", form | {"enabled": "on"}).content.decode()
    [shown] = re.findall(r"<code>(whsec_[^<]+)</code>", body)
    row = Channel.objects.get()
    assert unseal(row.secret) == shown
    assert shown not in row.secret
    for path in (CHANNELS, f"{CHANNELS}{row.pk}/"):
        assert shown not in admin.get(path).content.decode()
    assert not AuditEntry.objects.filter(facts__contains=shown).exists()
    again = admin.post(f"{CHANNELS}{row.pk}/act/", {"do": "secret"}).content.decode()
    assert shown not in again
    row.refresh_from_db()
    assert unseal(row.secret) in again


def test_a_chats_url_is_shown_masked():
    admin = logged_in_as("admin")
    url = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#soc"
    form = {"name": "Slack", "secret": url, "most": "5", "window": "1h", "enabled": "on"}
    assert admin.post(f"{CHANNELS}new/chat/", form).status_code == 302
    row = Channel.objects.get()
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in row.address + row.secret
    assert unseal(row.secret) == url
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in admin.get(CHANNELS).content.decode()
    kept = form | {"secret": "", "name": "Chat"}
    assert admin.post(f"{CHANNELS}{row.pk}/", kept).status_code == 302
    row.refresh_from_db()
    assert (row.name, unseal(row.secret)) == ("Chat", url)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("mail", {"address": "nobody"}), ("mail", {"address": ""}), ("mail", {"most": "0"}),
        ("webhook", {"address": "ftp://x/"}), ("chat", {"secret": "nonsense"}),
        ("chat", {"secret": ""}), ("mail", {"window": "soon"}),
    ],
)  # fmt: skip
def test_a_channel_that_is_none_is_refused(kind: str, wrong: dict[str, str]):
    admin = logged_in_as("admin")
    form = {"name": "X", "address": "a@example.org", "most": "5", "window": "1h"} | wrong
    assert admin.post(f"{CHANNELS}new/{kind}/", form).status_code == 422
    assert not Channel.objects.exists()


def test_a_kind_that_is_none_has_no_form():
    admin = logged_in_as("admin")
    assert admin.get(f"{CHANNELS}new/pigeon/").status_code == 404
    assert admin.get(f"{CHANNELS}new/push/").status_code == 404


def test_a_channel_is_tried_and_retired_without_its_secret(channel: Channel):
    admin = logged_in_as("admin")
    admin.post(f"{CHANNELS}{channel.pk}/act/", {"do": "test"})
    assert Message.objects.get().channel == channel
    admin.post(f"{CHANNELS}{channel.pk}/act/", {"do": "retire"})
    channel.refresh_from_db()
    assert channel.retired_at
    assert channel.secret == ""
    assert admin.get(f"{CHANNELS}{channel.pk}/").status_code == 404


# ---- rotas ------------------------------------------------------------------------------------


@pytest.fixture
def rota() -> Rota:
    return make_rota("Night shift")


def shift(who: User, hours: tuple[int, int], **more: str) -> dict[str, str]:
    begin, end = (field_text(now_ms() + hour * HOUR_MS) for hour in hours)
    return {"who": str(who.pk), "begins": begin, "ends": end} | more


def test_a_rota_says_who_is_on_call_and_an_override_wins(client: Client, user: User):
    assert client.post(ROTAS, {"name": "Night shift", "kinds": ["mail"]}).status_code == 302
    rota, other = Rota.objects.get(), make_user("admin")
    page = f"{ROTAS}{rota.pk}/"
    assert "nobody" in client.get(page).content.decode()
    client.post(f"{page}add/", shift(user, (-1, 8)))
    assert "On call now" in client.get(page).content.decode()
    client.post(f"{page}add/", shift(other, (-1, 2), override="on"))
    current = rota.shift_at(now_ms())
    assert current
    assert (current.user, current.override) == (other, True)
    assert "admin" in client.get(ROTAS).content.decode()
    client.post(f"{page}remove/", {"shift": current.pk})
    back = rota.shift_at(now_ms())
    assert back
    assert back.user == user
    assert AuditEntry.objects.filter(action="notify.shift.removed", target="Night shift").exists()


def test_a_rota_warns_of_who_has_no_address_on_call(client: Client, user: User, rota: Rota):
    User.objects.filter(pk=user.pk).update(email="")
    page = f"{ROTAS}{rota.pk}/"
    client.post(f"{page}add/", shift(user, (-1, 8)))
    shown = client.get(page).content.decode()
    assert "is on call and cannot be reached" in shown
    assert "no address" in shown
    User.objects.filter(pk=user.pk).update(email="olga@example.org")
    assert "no address" not in client.get(page).content.decode()


@pytest.mark.parametrize("hours", [(2, 1), (1, 1), (0, 24 * 40)])
def test_a_shift_ends_after_it_begins(
    client: Client, user: User, rota: Rota, hours: tuple[int, int]
):
    answer = client.post(f"{ROTAS}{rota.pk}/add/", shift(user, hours))
    assert answer.status_code == 422
    assert "within 31 days" in error_of(answer, "ends")
    assert not RotaShift.objects.exists()


def test_a_shift_of_another_rota_stays(client: Client, user: User, rota: Rota):
    other = make_rota("Day")
    client.post(f"{ROTAS}{other.pk}/add/", shift(user, (0, 8)))
    kept = RotaShift.objects.get()
    client.post(f"{ROTAS}{rota.pk}/remove/", {"shift": kept.pk})
    assert RotaShift.objects.filter(pk=kept.pk).exists()


def test_a_rota_is_changed_and_retired(client: Client, rota: Rota):
    page = f"{ROTAS}{rota.pk}/change/"
    assert client.post(page, {"name": "", "kinds": ["mail"]}).status_code == 422
    assert client.post(page, {"name": "Nights", "kinds": ["mail", "push"]}).status_code == 302
    rota.refresh_from_db()
    assert (rota.name, rota.kinds) == ("Nights", ["mail", "push"])
    client.post(page, {"do": "retire"})
    assert client.get(f"{ROTAS}{rota.pk}/").status_code == 404


# ---- messages ---------------------------------------------------------------------------------


@pytest.fixture
def group(world: World, rule: Rule) -> Group:
    """A site under attack, and a group that a rule told of it."""
    world.report("shop", "under-attack")
    world.write()
    Group.objects.all().delete()  # of rules that the world has shown it to
    incident = Incident.objects.get(asset="shop")
    group = Group.objects.create(rule=rule, key="scenario=attack", opened_at=now_ms())
    GroupIncident.objects.create(group=group, scenario="attack", asset="shop", place=incident.place)
    return group


def written(group: Group | None = None, at: int = 0, **more: Any) -> Message:
    given = {"kind": "opened", "subject": "1 site under attack", "recipient": "soc@example.org"}
    return Message.objects.create(
        group=group, created_at=at or now_ms(), means="mail", **given | more
    )


def listed(client: Client, query: str = "") -> list[str]:
    page: Any = client.get(f"{MESSAGES}{query}")
    assert page.status_code == 200
    return [row.subject for row in page.context["page"].rows]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["held", "failed", "sent"]), ("?status=sent", ["sent"]), ("?kind=test", ["held"]),
        ("?q=olga", ["failed"]), ("?q=hel", ["held"]), ("?start=2100-01-01T00:00", []),
    ],
)  # fmt: skip
def test_the_list_is_filtered(client: Client, query: str, expected: list[str]):
    now = now_ms()
    written(subject="sent", status=SENT, at=now - 3)
    written(subject="failed", status=GIVEN_UP, recipient="olga@example.org", at=now - 2)
    written(subject="held", status=HELD, kind="test", reason="quiet hours", at=now - 1)
    assert listed(client, query) == expected
    if not query:
        assert "quiet hours" in client.get(MESSAGES).content.decode()


def test_a_wrong_filter_is_told(client: Client):
    for query in ("?status=lost", "?before=x", "?before=1.2", "?rule=7"):
        assert client.get(f"{MESSAGES}{query}").status_code == 422
        assert client.get(f"{MESSAGES}messages.csv{query}").status_code == 422


def test_rest_lists_the_messages_of_a_rule(client: Client, rule: Rule):
    kept = written(rule=rule)
    written(subject="another's")
    for number, expected in ((rule.pk, [str(kept.pk)]), (rule.pk + 1, [])):
        items = client.get(f"/api/v1/notifications/messages?rule={number}").json()["items"]
        assert [item["id"] for item in items] == expected
    assert listed(client, f"?rule={rule.pk}") == [kept.subject]


def test_the_list_goes_on_where_a_page_ends(client: Client):
    now = now_ms()
    for number in range(101):
        written(subject=f"m{number}", at=now - number // 3)
    first = listed(client)
    body = client.get(MESSAGES).content.decode()
    [older] = re.findall(r'href="\?(before=[^"]+)"', body)
    assert len(first) == 100
    assert len(set(first + listed(client, f"?{older}"))) == 101


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_file_has_them_all(client: Client, rule: Rule, form: str):
    kept = [written(rule=rule, subject=f"=cmd{number}") for number in range(3)]
    answer: Any = client.get(f"{MESSAGES}messages.{form}")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    if form == "csv":
        assert lines[0].startswith("id,created_at,kind,status")
        assert any(",'=cmd2," in line for line in lines[1:])  # two may be of the same ms
    else:
        assert {json.loads(line)["id"] for line in lines} == {str(row.pk) for row in kept}
    assert AuditEntry.objects.filter(action="export.messages").exists()


def test_a_message_has_every_try_and_what_is_behind_it(client: Client, group: Group, rota: Rota):
    row = written(group, rule=group.rule, rota=rota, stage=1, why="nobody has acknowledged it")
    Attempt.objects.create(message=row, number=1, at=now_ms(), ms=12, answer="451 try later")
    Attempt.objects.create(message=row, number=2, at=now_ms(), ms=8, succeeded=True, answer="250")
    body = client.get(f"{MESSAGES}{row.pk}/").content.decode()
    for part in (
        "451 try later", "nobody has acknowledged it", "Night shift", "Attacks", "12 ms",
        f"/notifications/ack/{group.token}/", f"{ROTAS}{rota.pk}/", f"{RULES}{group.rule_id}/",
    ):  # fmt: skip
        assert part in body


def test_an_incidents_page_lists_its_messages(client: Client, group: Group):
    row = written(group, why="the rule Attacks")
    url = Incident.objects.get(asset="shop").get_absolute_url()
    assert f"{MESSAGES}{row.pk}/" in client.get(url).content.decode()
    manager = logged_in_as("manager")
    assert f"{MESSAGES}{row.pk}/" not in manager.get(url).content.decode()


def test_managers_read_none_of_it(group: Group):
    row, manager = written(group), logged_in_as("manager")
    for path in (
        RULES, CHANNELS, ROTAS, MESSAGES, f"{MESSAGES}messages.csv", f"{MESSAGES}{row.pk}/",
        f"/notifications/ack/{group.token}/",
    ):  # fmt: skip
        assert manager.get(path).status_code == 403
    assert MESSAGES not in manager.get("/account/tokens/").content.decode()


# ---- a message's link -------------------------------------------------------------------------


def test_a_link_acknowledges_nothing_by_itself(client: Client, group: Group, user: User):
    path = f"/notifications/ack/{group.token}/"
    assert Client().get(path)["Location"] == f"/account/login/?next={path}"
    for browser in (client, logged_in(make_user("admin"))):
        assert "1 incident to acknowledge" in browser.get(path).content.decode()
    incident = Incident.objects.get(asset="shop")
    assert incident.acknowledged_at is None
    assert client.post(path, {"end": "1h", "reason": "on it"}).status_code == 302
    incident.refresh_from_db()
    assert incident.acknowledged_by == user.username
    assert AuditEntry.objects.filter(action="asset.acknowledged", target="shop").exists()


@pytest.mark.parametrize(
    ("act", "end", "reason"),
    [
        ("acknowledge", "shift", ""),
        ("snooze", "1h", "Snoozed"),
        ("other", "1h", ""),
        ("", "1h", ""),
    ],
)
def test_a_button_of_a_chat_fills_the_form_in(
    client: Client, group: Group, act: str, end: str, reason: str
):
    path = f"/notifications/ack/{group.token}/?act={act}"
    assert Client().get(path)["Location"].endswith(quote(path, safe="/"))
    body = client.get(path).content.decode()
    assert re.findall(r'<option value="(\w+)" selected', body) == [end]
    [field] = re.findall(r'<input[^>]* name="reason"[^>]*>', body)
    assert re.findall(r'value="(\w*)"', field) == [reason] * bool(reason)
    assert Incident.objects.get(asset="shop").acknowledged_at is None


def test_a_form_with_faults_is_kept(client: Client, group: Group):
    answer = client.post(
        f"/notifications/ack/{group.token}/", {"end": "at", "until_at": "never", "reason": "me"}
    )
    assert answer.status_code == 422
    assert 'value="me"' in answer.content.decode()
    assert Incident.objects.get(asset="shop").acknowledged_at is None


def test_what_is_over_needs_no_acknowledgement(client: Client, group: Group, world: World):
    world.command("purge", "shop")
    world.write()
    body = client.get(f"/notifications/ack/{group.token}/").content.decode()
    assert "It is over" in body
    assert '<button type="submit">Acknowledge' not in body


def test_a_token_that_nobody_has_is_not_found(client: Client):
    assert client.get("/notifications/ack/nothing/").status_code == 404
