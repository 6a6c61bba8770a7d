"""Channels of chat and paging services: which URLs are allowed, and where their requests go."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.test import Client

from dashboard.core.accounts.encryption import seal
from dashboard.core.common import outbound
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications import chat, outbox
from dashboard.notify.notifications.channels import Undelivered
from dashboard.notify.notifications.chat import Button, ChatKind, buttons_of
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.models import GIVEN_UP, SENT, Channel, Message, Rule
from dashboard.notify.notifications.outbox import MessageDraft
from support.web.certificates import certificate_in
from support.web.deliveries import deliver
from support.web.receivers import HookServer, Posted, hook_server
from support.web.world import World

pytestmark = pytest.mark.django_db

CHANNELS = "/notifications/channels/"
TOKEN = "TIiajkdnlazkcOXrIdevi7FQ"
SLACK = f"slack://T1JJ3T3L2/A1BRTD4JD/{TOKEN}/%23c"
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop/12315544/"
DISCORD = "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js/"
WORKFLOW = (
    "workflow://example.org:443/643e69f61fd944b58ad5a93a2f0cb7e5/sGdKLWFpbCByZWFsIHNpZ25hdHVyZQ/"
)
PARTS = {"slack": SLACK, "tgram": TELEGRAM, "discord": DISCORD, "workflow": WORKFLOW}


@pytest.fixture
def canary() -> Iterator[HookServer]:
    """A service on this machine, which the product may not call."""
    with hook_server() as server:
        yield server


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of this machine are allowed."""
    allowed = settings.TALLYBOARD.model_copy(update={"private_targets": True})
    monkeypatch.setattr(settings, "TALLYBOARD", allowed)


def stored(url: str) -> Channel:
    """A channel as an earlier release may have stored it, unchecked."""
    return Channel.objects.create(
        name="Chat", kind="chat", address="masked", secret=seal(url), changed_at=1
    )


def sent_by(channel: Channel) -> Message:
    """What becomes of a message to a channel."""
    [target] = outbox.targets_of_channel(channel)
    message = outbox.put(target, MessageDraft("test", "a test", "text"), now_ms())
    deliver()
    message.refresh_from_db()
    return message


def typed(admin: Client, url: str) -> Any:
    form = {"name": "Chat", "secret": url, "most": "5", "window": "1h", "enabled": "on"}
    return admin.post(f"{CHANNELS}new/chat/", form)


# ---- what a URL may have ----------------------------------------------------------------------


def test_every_allowed_service_is_one_of_the_library():
    services = chat.services()
    assert len(services) == len(chat.ALLOWED)
    assert all(service.name and service.beginnings for service in services.values())


@pytest.mark.parametrize(
    "name",
    [
        "template", "keyfile", "subfile", "redirect", "verify", "cto", "rto", "attach", "retry",
        "wait", "user", "pass", "password", "port", "avatar_url", "icon_url", "path",
    ],
)  # fmt: skip
def test_no_service_may_be_given_an_address_a_file_or_a_time_to_wait(name: str):
    for service in chat.services().values():
        assert name not in service.parameters


def test_the_document_lists_the_same_services():
    text = (settings.BASE_DIR / "docs" / "notifications.md").read_text()
    section = text.partition("### Chat and paging services")[2].partition("\nNo parameter")[0]
    plain = " ".join(section.partition("`):")[2].split()).rstrip(".")
    documented = {
        listed.partition(" `")[0]: tuple(re.findall(r"`([^`]+)`", listed))
        for listed in plain.split("; ")
    }
    assert documented == {service.name: service.beginnings for service in chat.services().values()}


@pytest.mark.parametrize("schema", PARTS)
@pytest.mark.parametrize(
    "query",
    [
        "template=http://127.0.0.1:8299/internal", "template=file:///etc/passwd",
        "TEMPLATE=/etc/passwd", "%74emplate=/etc/passwd", "format=text;template=/etc/passwd",
        "redirect=yes", "verify=no", "cto=3600", "rto=3600", "retry=9", "wait=60", ":x=1",
        "+x=1", "-x=1", "port=8299", "user=me", "pass=me", "password=me", "unheard-of=1",
    ],
)  # fmt: skip
def test_a_parameter_that_is_not_allowed_is_refused(schema: str, query: str):
    assert ChatKind().problem("", PARTS[schema] + "?format=text") == ""
    problem = ChatKind().problem("", f"{PARTS[schema]}?{query}")
    assert problem.startswith("expected no parameters of ")


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1/x", " json://127.0.0.1", "JSON://127.0.0.1", "\tjsons://127.0.0.1",
        "xml://127.0.0.1", "form://127.0.0.1", "apprise://127.0.0.1/token", "mailto://a:b@x.org",
        "fcm://project/%40device?keyfile=http://127.0.0.1:8299/fcm", "syslog://", "dbus://",
        "vapid://a@example.org/b?keyfile=/etc/passwd", "mqtt://127.0.0.1/topic", "irc://127.0.0.1",
        "rsyslog://127.0.0.1", "growl://127.0.0.1", "xmpp://a:b@127.0.0.1", "emby://a@127.0.0.1",
    ],
)  # fmt: skip
def test_another_service_is_refused(url: str):
    assert ChatKind().problem("", url).startswith("expected ")


def test_a_services_own_address_is_taken_as_well():
    url = f"https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/{TOKEN}"
    assert ChatKind().problem("", url) == ""
    assert ChatKind().problem("", f"{url}?template=/etc/passwd") != ""


# ---- channels that were stored before ---------------------------------------------------------


@pytest.mark.parametrize("schema", PARTS)
@pytest.mark.parametrize("query", ["template=http://127.0.0.1:{}/internal", "redirect=yes"])
def test_nothing_is_sent_by_an_old_channel_that_is_not_allowed(
    canary: HookServer, schema: str, query: str
):
    message = sent_by(stored(f"{PARTS[schema]}?{query.format(canary.port)}"))
    assert canary.posted == []
    assert (message.status, message.tries) == (GIVEN_UP, 1)
    assert message.reason.startswith("expected no parameters of ")


def test_no_answer_tells_of_files(tmp_path: Path):
    """What a message says is the same whether a file is there, and whatever is in it."""
    there = tmp_path / "there.json"
    there.write_text('{"secret": "tulip"}')
    reasons = set()
    for path in (there, f"file://{there}", tmp_path / "nothing", "/etc/passwd"):
        channel = stored(f"{SLACK}?template={path}")
        reasons.add(sent_by(channel).reason)
        channel.delete()
    [reason] = reasons
    assert "tulip" not in reason


def test_an_old_channel_is_shown_with_the_reason(admin: Client):
    channel = stored(f"{SLACK}?template=/etc/passwd")
    for path in (CHANNELS, f"{CHANNELS}{channel.pk}/"):
        body = admin.get(path).content.decode()
        assert "expected no parameters of Slack but" in body
        assert TOKEN not in body
    kept = {"name": "Old", "secret": "", "most": "5", "window": "1h"}
    assert admin.post(f"{CHANNELS}{channel.pk}/", kept).status_code == 302
    better = kept | {"secret": SLACK}
    assert admin.post(f"{CHANNELS}{channel.pk}/", better).status_code == 302
    assert "expected no parameters" not in admin.get(CHANNELS).content.decode()


def test_a_channel_whose_key_is_gone_is_shown_too(admin: Client, settings: Any):
    Channel.objects.create(
        name="Lost", kind="chat", address="masked", secret="gAAAAAnothing", changed_at=1
    )
    page = admin.get(CHANNELS)
    assert page.status_code == 200
    assert "TALLYBOARD_DATA_KEYS" in page.content.decode()


# ---- the form ---------------------------------------------------------------------------------


def test_the_form_says_what_is_allowed(admin: Client):
    body = admin.get(f"{CHANNELS}new/chat/").content.decode()
    assert "<code>slack://</code>" in body
    assert "<code>ntfys://</code>" in body
    assert "json://" not in body
    assert "template" not in body.partition("</table>")[0].rpartition("<table")[2]


def test_a_refused_form_keeps_what_was_typed_and_names_no_secret(admin: Client):
    url = f"{SLACK}?template=/etc/passwd&{TOKEN}again=1"
    answer = typed(admin, url)
    body = answer.content.decode()
    assert answer.status_code == 422
    assert 'value="Chat"' in body
    [error] = [part for part in body.split("<p>") if part.startswith("Expected no parameters")]
    assert "got template" in error
    assert TOKEN.lower() not in error.partition("</p>")[0].lower()
    assert body.count(TOKEN) == 2  # in the field alone: the token, and what came behind it
    assert "no-store" in answer["Cache-Control"]


def test_the_secret_that_is_kept_is_in_no_form(admin: Client):
    assert typed(admin, SLACK).status_code == 302
    row = Channel.objects.get()
    wrong = {"name": "", "secret": "", "most": "5", "window": "1h"}
    for answer in (
        admin.get(f"{CHANNELS}{row.pk}/"),
        admin.post(f"{CHANNELS}{row.pk}/", wrong),
    ):
        assert TOKEN not in answer.content.decode()


# ---- where the requests go --------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433"])
@pytest.mark.parametrize("schema", ["ntfy", "gotify", "mmost", "rocket"])
def test_a_service_at_home_is_not_reached(canary: HookServer, schema: str, host: str):
    token = "AbCdEfGhIjKlMnO" if schema == "gotify" else "3ccdd113474722377935511fc85d3dd4"
    user = "me:pass@" if schema == "rocket" else ""
    message = sent_by(stored(f"{schema}://{user}{host}:{canary.port}/{token}"))
    assert message.status == GIVEN_UP
    assert "TALLYBOARD_PRIVATE_TARGETS" in message.reason
    assert canary.posted == []


def test_a_service_at_home_is_reached_where_that_is_meant(private: None, canary: HookServer):
    message = sent_by(stored(f"ntfy://127.0.0.1:{canary.port}/alerts"))
    assert (message.status, len(canary.posted)) == (SENT, 1)
    assert json.loads(canary.posted[0].body)["title"] == "a test"


def test_a_service_that_redirects_leads_nowhere(private: None, canary: HookServer):
    with hook_server() as service:
        service.status, service.headers = 307, {"Location": canary.url}
        message = sent_by(stored(f"ntfy://127.0.0.1:{service.port}/alerts"))
        assert len(service.posted) == 1
    assert message.status != SENT
    assert canary.posted == []


def test_a_service_that_wants_us_to_wait_is_tried_again_later(private: None, canary: HookServer):
    canary.status, canary.text = 429, b'{"retry_after_ms": 3600000}'
    message = sent_by(stored(f"matrix://me:pass@127.0.0.1:{canary.port}/%23room"))
    assert "429" in message.reason
    assert message.status not in (SENT, GIVEN_UP)


class HomeServer(BaseHTTPRequestHandler):
    """Says of each address that the home server is another one."""

    base_url = ""

    def do_GET(self) -> None:
        body = json.dumps({"m.homeserver": {"base_url": self.base_url}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def home_server(base_url: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """A Matrix server with TLS that names another: its port, and its certificate."""
    certificate, key = certificate_in(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Handler", (HomeServer,), {"base_url": base_url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port, certificate
        server.shutdown()


@contextmanager
def listener(host: str) -> Iterator[tuple[int, Event]]:
    """A port of an address inside, and whether somebody has connected to it."""
    connected = Event()

    def take() -> None:
        try:
            server.accept()[0].close()
        except OSError:
            return
        connected.set()

    with socket.create_server((host, 0)) as server:
        Thread(target=take, daemon=True).start()
        yield server.getsockname()[1], connected


def test_an_address_that_a_service_names_is_checked_like_any_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A home server of a public address says where to go on: into our own network."""
    monkeypatch.setattr(outbound, "_is_public", lambda address: address == "127.0.0.1")
    with (
        listener("127.0.0.2") as (inside, connected),
        home_server(f"https://127.0.0.2:{inside}", tmp_path) as (port, certificate),
    ):
        trusted = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr(outbound, "_trusted", lambda: trusted)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        message = sent_by(stored(f"matrixs://me:pass@127.0.0.1:{port}/%23room"))
        assert not connected.is_set()
    assert message.status == GIVEN_UP
    assert "127.0.0.2" in message.reason


def test_a_channel_that_is_gone_is_given_up():
    with pytest.raises(Undelivered, match="its channel is gone"):
        ChatKind().deliver(Message(kind="test", means="chat", created_at=1))


# ---- buttons ----------------------------------------------------------------------------------

NTFY = "ntfys://example.org/alerts"
SLACK_BOT = "slack://xoxb-1234-1234-4ddbc191d40ee098cbaae6f3523ada2d/%23c"
MATTERMOST = "mmosts://example.org/3ccdd113474722377935511fc85d3dd4"


def labelled(buttons: list[dict[str, Any]], label: str = "text") -> dict[str, str]:
    """The URLs of buttons, by label."""
    return {each[label]: each["url"] for each in buttons}


def of_slack_blocks(sent: Any) -> dict[str, str]:
    *_, row = sent["attachments"][0]["blocks"]
    assert row["type"] == "actions"
    return {each["text"]["text"]: each["url"] for each in row["elements"]}


def of_google_chat(sent: Any) -> dict[str, str]:
    [section] = sent["cardsV2"][0]["card"]["sections"]
    buttons = section["widgets"][0]["buttonList"]["buttons"]
    return {each["text"]: each["onClick"]["openLink"]["url"] for each in buttons}


SHOWN: Mapping[str, tuple[str, Callable[[Any], dict[str, str]]]] = {
    "Discord": (DISCORD, lambda sent: labelled(sent["components"][0]["components"], "label")),
    "Discord, embeds": (
        f"{DISCORD}?format=markdown",
        lambda sent: labelled(sent["components"][0]["components"], "label"),
    ),
    "Google Chat": ("gchat://workspace/key/token", of_google_chat),
    "ntfy": (NTFY, lambda sent: labelled(sent["actions"], "label")),
    "Rocket.Chat": (
        "rockets://a1b2/c3d4@example.org/%23c",
        lambda sent: labelled(sent["attachments"][0]["actions"]),
    ),
    "Slack": (SLACK, lambda sent: labelled(sent["attachments"][0]["actions"])),
    "Slack, blocks": (f"{SLACK}?blocks=yes", of_slack_blocks),
    "Teams": (
        WORKFLOW,
        lambda sent: labelled(sent["attachments"][0]["content"]["actions"], "title"),
    ),
    "Telegram": (
        TELEGRAM,
        lambda sent: labelled([each for [each] in sent["reply_markup"]["inline_keyboard"]]),
    ),
}
"""A URL of each service that has buttons, and what reads these from a payload."""


@pytest.fixture
def service(private: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[HookServer]:
    """A service on this machine, at which each request arrives, whatever host it is for."""
    send = outbound.exchange
    with hook_server() as server:
        server.text = b"ok"

        def arrive(request: outbound.OutboundRequest, *rest: Any) -> outbound.HttpReply:
            asked = urlsplit(request.url)
            url = asked._replace(scheme="http", netloc=f"127.0.0.1:{server.port}").geturl()
            return send(request._replace(url=url), *rest)

        monkeypatch.setattr(outbound, "exchange", arrive)
        yield server


def reported_to(world: World, url: str, asset: str = "shop") -> Message:
    """What becomes of a rule's message about an attack, to a channel."""
    channel = stored(url)
    definition = {"window_ms": 0, "stages": [{"channels": [channel.pk]}]}
    Rule.objects.create(name="Attacks", definition=definition, changed_at=1, username="olga")
    world.report(asset, "under-attack")
    world.write()
    decide()
    deliver()
    return Message.objects.get(channel=channel)


def links_of(message: Message) -> dict[str, str]:
    """The links of a message about one incident that goes on, by the label of their buttons."""
    page = message.payload["group"]["url"]
    [(number, case)] = message.payload["numbers"].items()
    acts = {"Acknowledge": f"{page}?act=acknowledge", "Snooze 1 h": f"{page}?act=snooze"}
    return acts | {number: case["url"]}


@pytest.mark.parametrize("name", SHOWN)
def test_a_message_has_buttons_where_the_service_has_them(
    world: World, service: HookServer, name: str
):
    url, shown = SHOWN[name]
    message = reported_to(world, url)
    assert message.status == SENT, message.reason
    [posted] = service.posted
    assert shown(json.loads(posted.body)) == links_of(message)
    assert "/notifications/reply/" not in posted.body.decode()
    assert posted.body.decode().count(message.payload["group"]["url"]) == 3  # the text has it too


def test_discord_is_asked_to_look_at_the_buttons(world: World, service: HookServer):
    reported_to(world, f"{DISCORD}?thread=abc123")
    asked = parse_qs(urlsplit(service.posted[0].path).query)
    assert asked == {"thread_id": ["abc123"], "with_components": ["true"]}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (MATTERMOST, lambda sent: sent["text"]),
        (f"{SLACK}?mode=workflow", lambda sent: sent["text"]),
    ],
    ids=["a service without buttons", "a payload of another shape"],
)
def test_a_message_without_buttons_keeps_its_links(
    world: World, service: HookServer, url: str, text: Callable[[Any], str]
):
    message = reported_to(world, url)
    assert message.status == SENT, message.reason
    [posted] = service.posted
    sent = json.loads(posted.body)
    assert message.payload["group"]["url"] in text(sent)
    assert not {"actions", "attachments", "components"} & set(sent)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"plain", b"\xff", b'{"attachments": [7]}'])
@pytest.mark.parametrize("url", [url for url, _ in SHOWN.values()])
def test_what_is_no_message_of_the_service_is_sent_as_it_is(url: str, body: bytes):
    given = outbound.OutboundRequest("POST", "https://example.org/", [], body)
    relay = chat.ButtonRelay(chat.service_of(url), [Button("Details", "https://example.org/")])
    sent: list[outbound.OutboundRequest] = []

    def send(request: outbound.OutboundRequest) -> outbound.HttpReply:
        sent.append(request)
        return outbound.HttpReply(200, [], b"")

    relay(given, send)
    assert sent == [given]


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        (TELEGRAM, 400, b'{"ok": false, "description": "BUTTON_URL_INVALID"}'),
        (NTFY, 500, b"oops"),
        (SLACK_BOT, 200, b'{"ok": false, "error": "invalid_blocks"}'),
    ],
)
def test_a_message_that_is_refused_with_buttons_goes_out_without(
    world: World, service: HookServer, url: str, status: int, words: bytes
):
    def refuse(posted: Posted) -> tuple[int, bytes]:
        with_buttons = b"act=snooze" in posted.body
        return (status, words) if with_buttons else (200, b'{"ok": true, "channel": "C1"}')

    service.answer = refuse
    message = reported_to(world, url)
    assert (message.status, message.tries) == (SENT, 1), message.reason
    first, second = (json.loads(posted.body) for posted in service.posted)
    assert message.payload["group"]["url"] in json.dumps(second)
    assert set(second) <= set(first)
    assert message.attempts.get().answer.endswith(", which refused the buttons")


def test_who_may_not_send_is_not_asked_twice(world: World, service: HookServer):
    service.status = 401
    assert reported_to(world, NTFY).status not in (SENT, GIVEN_UP)
    assert len(service.posted) == 1


def test_a_message_with_buttons_follows_no_redirect(
    world: World, service: HookServer, canary: HookServer
):
    service.status, service.headers = 307, {"Location": canary.url}
    assert reported_to(world, NTFY).status not in (SENT, GIVEN_UP)
    assert (len(service.posted), canary.posted) == (1, [])


def test_what_is_over_has_no_button_but_that_of_its_incident(world: World, service: HookServer):
    message = reported_to(world, NTFY)
    numbers = message.payload["numbers"]
    over = [each | {"over_at": 1} for each in message.payload["incidents"]]
    [(number, case)] = numbers.items()
    payload = message.payload | {"incidents": over, "active": 0}
    assert buttons_of(payload) == [Button(number, case["url"])]
    assert buttons_of(payload | {"numbers": numbers | {"INC-7": case}}) == []


def test_a_message_has_no_buttons_of_what_it_does_not_link_to():
    group = {"group": {"url": "https://example.org/notifications/ack/x/"}}
    finding = group | {"incidents": [], "numbers": {}, "active": 1}
    assert buttons_of(finding) == [Button("Details", group["group"]["url"])]
    assert buttons_of(finding | {"active": 0}) == []
    assert buttons_of({"kind": "summary", "groups": [finding]}) == []
    assert buttons_of({"incidents": [{"over_at": None}], "active": 1}) == []
    assert buttons_of({}) == []
    changed = {"kind": "changed", "numbers": {"INC-7": {"url": "https://example.org/7/"}}}
    assert buttons_of(changed) == [Button("INC-7", "https://example.org/7/")]
    long = {"numbers": {"INC-7": {"url": f"https://example.org/{'x' * chat.LONGEST_URL}"}}}
    assert buttons_of(long) == []
